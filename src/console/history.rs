//! What the programs of a session did: status, calls, decisions, times. No arguments and no results.

use serde_json::{Value, json};

use super::approval::{ItemState, item_state};
use crate::engine::{CallRow, ExecutionRow, PauseRow};
use crate::protocol::text::shortened;
use crate::protocol::time::iso_time;

/// Executions of one page.
pub const PAGE: usize = 20;
/// Calls that are listed of one execution.
const CALLS: usize = 100;
/// Characters of an error's message.
const MESSAGE: usize = 500;

/// One execution. `calls` is `None` where there is too much of it to be read for a list.
#[must_use]
pub fn execution_view(
    row: &ExecutionRow,
    count: u64,
    calls: Option<&[CallRow]>,
    pauses: &[PauseRow],
    encode: impl Fn(&str) -> String,
) -> Value {
    let decided = calls.unwrap_or_default().iter().filter_map(|call| Some((call, call.decision.as_ref()?)));
    let decisions: Vec<Value> = decided
        .map(|(call, decision)| {
            json!({
                "call": call.seq,
                "address": call.address,
                "status": decision.verdict.past_tense(),
                "by": decision.by,
                "route": decision.route,
                "reason": decision.reason,
                "at": iso_time(decision.at),
            })
        })
        .collect();
    let listed: Option<Vec<Value>> = calls.map(|calls| calls.iter().take(CALLS).map(call_view).collect());
    let error = row.outcome.as_ref().and_then(|outcome| outcome.error.as_ref());
    let waiting = calls.unwrap_or_default().iter().filter(|call| item_state(call) == ItemState::Waiting).count();
    json!({
        "id": row.id,
        "status": row.status,
        "startedAt": iso_time(row.created_at),
        "endedAt": row.ended_at.map(iso_time),
        "ranMs": row.ran_ms,
        "replays": row.attempts.saturating_sub(1),
        "callCount": count,
        "waiting": waiting,
        "calls": listed,
        "decisions": decisions,
        "executionIds": pauses.iter().map(|pause| encode(&pause.id)).collect::<Vec<_>>(),
        "error": error.map(|error| json!({ "code": error.code, "message": shortened(&error.message, MESSAGE) })),
    })
}

fn call_view(call: &CallRow) -> Value {
    json!({
        "call": call.seq,
        "address": call.address,
        "line": call.line,
        "state": item_state(call),
        "madeAt": iso_time(call.issued_at),
        "settledAt": call.settled_at.map(iso_time),
    })
}
