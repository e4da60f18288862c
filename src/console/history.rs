//! What the programs of a session did: status, calls, decisions, times. No arguments and no results.

use serde::{Deserialize, Serialize};

use super::approval::{DecisionView, ItemState, decision_view, item_state};
use crate::approval::{Decision, Route, Verdict};
use crate::engine::{CallRow, ExecutionRow, ExecutionStatus, PauseRow};
use crate::protocol::text::shortened;
use crate::protocol::time::iso_time;

/// Executions of one page.
pub const PAGE: usize = 20;
/// Calls, and decisions, that are listed of one execution.
const LISTED: usize = 100;
/// Characters of an error's message.
const MESSAGE: usize = 500;

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryView {
    /// The executions.
    pub executions: Vec<ExecutionView>,
    /// `after` of the next page, where there is one.
    pub next: Option<String>,
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    /// Its own id.
    pub id: String,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// RFC 3339.
    pub started_at: String,
    /// RFC 3339.
    pub ended_at: Option<String>,
    /// Running time in milliseconds, as far as it is counted.
    pub ran_ms: u64,
    /// Sandboxes after the first.
    pub replays: u32,
    /// Calls, timers included.
    pub call_count: u64,
    /// Calls that wait for a person.
    pub waiting: usize,
    /// The first calls; `None` where there is too much of them to be read for a list.
    pub calls: Option<Vec<CallLine>>,
    /// What people decided, as far as calls are listed.
    pub decisions: Vec<DecisionLine>,
    /// Who ended it before its end, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<DecisionView>,
    /// `executionId` of each pause, in order.
    pub execution_ids: Vec<String>,
    /// Why it did not complete.
    pub error: Option<ErrorLine>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallLine {
    /// Its number.
    pub call: u32,
    /// Tool address. Untrusted text.
    pub address: String,
    /// Line of the program. Untrusted.
    pub line: Option<u32>,
    /// Where it stands.
    pub state: ItemState,
    /// RFC 3339.
    pub made_at: String,
    /// RFC 3339.
    pub settled_at: Option<String>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionLine {
    /// The call's number.
    pub call: u32,
    /// Tool address. Untrusted text.
    pub address: String,
    /// `approved`, `answered`, `denied` or `canceled`.
    pub status: String,
    /// The account; `None` when the time was over.
    pub by: Option<String>,
    /// By which way it came.
    pub route: Route,
    /// Why. Untrusted text.
    pub reason: Option<String>,
    /// RFC 3339.
    pub at: String,
    /// Other arguments than the program's were approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The grant that decided; `by` is who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

/// Why an execution did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// Stable code.
    pub code: String,
    /// Bounded. Untrusted text.
    pub message: String,
}

/// One execution. `calls` is `None` where there is too much of it to be read for a list.
#[must_use]
pub fn execution_view(
    row: &ExecutionRow,
    count: u64,
    calls: Option<&[CallRow]>,
    pauses: &[PauseRow],
    encode: impl Fn(&str) -> String,
) -> ExecutionView {
    let listed = calls.unwrap_or_default();
    let error = row.outcome.as_ref().and_then(|outcome| outcome.error.as_ref());
    ExecutionView {
        id: row.id.clone(),
        status: row.status,
        started_at: iso_time(row.created_at),
        ended_at: row.ended_at.map(iso_time),
        ran_ms: row.ran_ms,
        replays: row.attempts.saturating_sub(1),
        call_count: count,
        waiting: listed.iter().filter(|call| item_state(call) == ItemState::Waiting).count(),
        calls: calls.map(|calls| calls.iter().take(LISTED).map(call_line).collect()),
        decisions: listed.iter().flat_map(decisions_of).take(LISTED).collect(),
        stopped: row.stopped.as_ref().map(decision_view),
        execution_ids: pauses.iter().map(|pause| encode(&pause.id)).collect(),
        error: error.map(|error| ErrorLine { code: error.code.clone(), message: shortened(&error.message, MESSAGE) }),
    }
}

fn call_line(call: &CallRow) -> CallLine {
    CallLine {
        call: call.seq,
        address: call.address.clone(),
        line: call.line,
        state: item_state(call),
        made_at: iso_time(call.issued_at),
        settled_at: call.settled_at.map(iso_time),
    }
}

/// The decision on a call, then the answers to what its tool asked.
fn decisions_of(call: &CallRow) -> impl Iterator<Item = DecisionLine> + '_ {
    let line = |decision: &Decision, status: &str| DecisionLine {
        call: call.seq,
        address: call.address.clone(),
        status: status.to_owned(),
        by: decision.by.clone(),
        route: decision.route,
        reason: decision.reason.clone(),
        at: iso_time(decision.at),
        edited: decision.edited,
        grant: decision.grant.clone(),
    };
    let own = call.decision.as_ref().map(|decision| line(decision, decision.verdict.past_tense()));
    let answers = call.questions.iter().filter_map(|question| question.decision.as_ref());
    own.into_iter().chain(answers.map(move |decision| {
        let answered = decision.verdict == Verdict::Accept;
        line(decision, if answered { "answered" } else { decision.verdict.past_tense() })
    }))
}
