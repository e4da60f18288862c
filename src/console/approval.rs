//! What a person sees of a pause: who asks, for what, with which arguments, until when.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Approvers, Decision, ShownCall, Standing, Verdict};
use crate::engine::{CallRow, CallStatus, Execution, ExecutionStatus, LedTo, PauseRow, ProgramRow, QuestionRow};
use crate::protocol::text::shortened;
use crate::protocol::time::iso_time;
use crate::session::SessionMeta;

/// Everything about one pause that a person or an approving program may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    /// What the wire calls `executionId`.
    pub execution_id: String,
    /// Id of the session that holds it.
    pub session_id: String,
    /// Where the pause stands.
    pub state: PauseState,
    /// Where the execution stands.
    pub execution_status: ExecutionStatus,
    /// Digest for a decision on everything that waits.
    pub digest: String,
    /// The account that runs the program.
    pub account: String,
    /// Its organization.
    pub organization: String,
    /// Whether that account looks at it.
    pub owner: bool,
    /// Name and version of the client. Untrusted text.
    pub client: String,
    /// The client said that it does not wait any more. What waits can be decided all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub client_left: bool,
    /// When the program started, RFC 3339.
    pub started_at: String,
    /// Until when a decision counts, RFC 3339.
    pub expires_at: String,
    /// The same in milliseconds since the Unix epoch.
    pub expires_at_ms: u64,
    /// The calls of this pause.
    pub items: Vec<ItemView>,
    /// The program's source. Untrusted text.
    pub program: String,
    /// Every call of the program so far that is not an item of this pause.
    pub others: Vec<OtherCall>,
    /// How the execution ended.
    pub outcome: Option<OutcomeView>,
    /// Who ended the program before its end, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<DecisionView>,
    /// `executionId` of the next pause, where this one led to one.
    pub next_execution_id: Option<String>,
}

/// Where a pause stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseState {
    /// Something can still be decided.
    Waiting,
    /// Everything was decided; the program goes on.
    Decided,
    /// The time is over.
    Expired,
    /// The execution is over.
    Over,
}

/// One call that a person decides on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemView {
    /// The call's number.
    pub call: u32,
    /// Digest for a decision on this call.
    pub digest: String,
    /// Tool address.
    pub address: String,
    /// The tool's title. Untrusted text.
    pub title: String,
    /// The tool's description. Untrusted text.
    pub description: String,
    /// HTTP method or protocol verb.
    pub method: String,
    /// Resolved URL.
    pub url: String,
    /// Name of the credential that is used.
    pub credential: Option<String>,
    /// Why a person is asked.
    pub reason: String,
    /// The arguments that are sent: JSON text on one line, complete.
    pub arguments: String,
    /// Line of the program. Untrusted.
    pub line: Option<u32>,
    /// Where the call stands.
    pub state: ItemState,
    /// Who decided and when.
    pub decision: Option<DecisionView>,
    /// Whether the tool, or who may decide, changed after an earlier approval, so that this is asked again.
    pub asked_again: bool,
    /// What is other than it was when that approval was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeView>,
    /// Who may decide.
    pub approvers: Approvers,
    /// Whether whoever looks may decide now.
    pub may_decide: bool,
    /// Whether more calls like this one can be allowed with it.
    pub grantable: bool,
    /// What the program wrote, where a person put other arguments in its place: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// JSON text of the result, bounded; once there is one.
    pub result: Option<String>,
    /// What the tool asks, where that is decided here and not whether the call is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
}

/// Something that changed between two times that a call was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeView {
    /// `arguments`, `request`, `credential`, `title`, `description`, `definition` or `approvers`.
    pub what: String,
    /// As it was.
    pub before: String,
    /// As it is.
    pub now: String,
}

/// What a tool asks a person while it carries a call out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionView {
    /// The parameters of `elicitation/create`. Untrusted.
    pub asked: Value,
    /// Whether the tool stopped waiting before anybody answered.
    pub withdrawn: bool,
    /// JSON text of what was answered.
    pub content: Option<String>,
}

/// Where one call stands, in the words of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Nobody has decided, or answered what the tool asks.
    Waiting,
    /// A timer that is not due yet.
    Sleeping,
    /// Accepted, about to be sent.
    Approved,
    /// Sent, no answer yet.
    Sent,
    /// Answered with success.
    Done,
    /// Answered with an error.
    Failed,
    /// Not sent, because a person declined.
    Declined,
    /// Not sent, because nobody decided in time.
    Expired,
    /// Not sent, because the program was cancelled or ended.
    NotSent,
    /// Sent, and nobody knows whether it was carried out.
    OutcomeUnknown,
}

/// A decision as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// What was answered.
    pub verdict: Verdict,
    /// `approved`, `denied` or `canceled`.
    pub status: String,
    /// Why. Untrusted text.
    pub reason: Option<String>,
    /// The account; `None` when the time was over.
    pub by: Option<String>,
    /// When, RFC 3339.
    pub at: String,
    /// Other arguments than those that were shown were approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The grant that decided; `by` is who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// The grant that was given with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<String>,
}

/// A call of the program that is not decided here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherCall {
    /// Its number.
    pub call: u32,
    /// Tool address. Untrusted text.
    pub address: String,
    /// The arguments that the program wrote, bounded.
    pub arguments: String,
    /// What a person put in their place, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<String>,
    /// Line of the program. Untrusted.
    pub line: Option<u32>,
    /// Where it stands.
    pub state: ItemState,
    /// JSON text of the result, bounded; once there is one.
    pub result: Option<String>,
}

/// How the execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    /// JSON text of the result, bounded.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Tools that are asked about every time, by the beginning of their addresses; see `organization::grant`.
const OWN_SOURCE: &str = "countersign.";
/// Characters of a result or of another call's arguments on the page.
const EXCERPT: usize = 4_000;

impl ApprovalView {
    /// The view of one pause, for somebody. `encode` makes an `executionId` of a pause's id.
    #[must_use]
    pub fn of(
        execution: &Execution,
        pause: &PauseRow,
        program: &ProgramRow,
        session: (&str, &SessionMeta),
        standing: Standing,
        encode: impl Fn(&str) -> String,
        now: u64,
    ) -> Self {
        let (session_id, meta) = session;
        let row = execution.row();
        let waiting = execution.undecided(pause, now).next().is_some();
        let expired_question =
            |question: &QuestionRow| question.decision.as_ref().is_some_and(|decision| decision.by.is_none());
        let any_expired = pause.items().filter_map(|seq| execution.call(seq)).any(|call| {
            call.status == CallStatus::Waiting
                || item_state(call) == ItemState::Expired
                || question_in(execution, pause, call).is_some_and(expired_question)
        });
        let state = if waiting {
            PauseState::Waiting
        } else if any_expired {
            PauseState::Expired
        } else if row.status.is_over() {
            PauseState::Over
        } else {
            PauseState::Decided
        };
        let expires = execution
            .undecided(pause, now)
            .filter_map(|call| execution.deadline_of(call))
            .min()
            .unwrap_or(pause.expires_at);
        let next = match pause.led_to {
            Some(LedTo::Pause(number)) => execution.pauses().get(number as usize),
            Some(LedTo::Outcome) | None => None,
        };
        let in_pause = |seq: u32| pause.items().any(|item| item == seq);
        let (before, items): (Vec<&CallRow>, Vec<&CallRow>) =
            execution.calls().iter().partition(|call| !in_pause(call.seq));
        Self {
            execution_id: encode(&pause.id),
            session_id: session_id.to_owned(),
            state,
            execution_status: row.status,
            digest: execution.digest_of_pause(pause, now),
            account: meta.account.clone(),
            organization: meta.organization.clone(),
            owner: !standing.other,
            client: [meta.client.name.as_str(), meta.client.version.as_str()].join(" ").trim().to_owned(),
            client_left: row.client_left_at.is_some(),
            started_at: iso_time(row.created_at),
            expires_at: iso_time(expires),
            expires_at_ms: expires,
            items: items.into_iter().map(|call| item_view(execution, pause, call, standing, now)).collect(),
            program: program.source.clone(),
            others: before.into_iter().map(other_call).collect(),
            outcome: row.outcome.as_ref().map(|outcome| OutcomeView {
                result: outcome.result.as_deref().map(excerpt),
                error: outcome.error.as_ref().map(|error| error.message.clone()),
            }),
            stopped: row.stopped.as_ref().map(decision_view),
            next_execution_id: next.map(|pause| encode(&pause.id)),
        }
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.items.iter().filter(|item| item.state == ItemState::Waiting).count()
    }
}

/// The question that is, or was, decided under a pause.
fn question_in<'c>(execution: &Execution, pause: &PauseRow, call: &'c CallRow) -> Option<&'c QuestionRow> {
    let reported = || call.questions.iter().find(|question| pause.has_asked(call.seq, Some(&question.digest)));
    execution.asked(call).or_else(reported)
}

/// A decision as it is shown.
#[must_use]
pub fn decision_view(decision: &Decision) -> DecisionView {
    DecisionView {
        verdict: decision.verdict,
        status: decision.verdict.past_tense().to_owned(),
        reason: decision.reason.clone(),
        by: decision.by.clone(),
        at: iso_time(decision.at),
        edited: decision.edited,
        grant: decision.grant.clone(),
        gives: decision.gives.clone(),
    }
}

/// What is different in what is shown.
fn changes(before: &ShownCall, now: &ShownCall) -> Vec<ChangeView> {
    let request = |shown: &ShownCall| format!("{} {}", shown.method, shown.url);
    let credential = |shown: &ShownCall| shown.credential.clone().unwrap_or_else(|| "none".to_owned());
    let pairs = [
        ("approvers", before.approvers.words().to_owned(), now.approvers.words().to_owned()),
        ("request", request(before), request(now)),
        ("arguments", before.arguments.clone(), now.arguments.clone()),
        ("credential", credential(before), credential(now)),
        ("title", before.title.clone(), now.title.clone()),
        ("description", before.description.clone(), now.description.clone()),
        ("definition", before.binding.clone(), now.binding.clone()),
    ];
    let changed = pairs.into_iter().filter(|(_, before, now)| before != now);
    changed.map(|(what, before, now)| ChangeView { what: what.to_owned(), before, now }).collect()
}

fn item_view(execution: &Execution, pause: &PauseRow, call: &CallRow, standing: Standing, now: u64) -> ItemView {
    let question = question_in(execution, pause, call);
    let state = item_state(call);
    // The tool that asked is gone with the object that it asked.
    let is_gone = state == ItemState::Waiting && call.status == CallStatus::Sent && !execution.asks(call);
    let state = if is_gone { ItemState::Sent } else { state };
    let decision = match question {
        Some(question) => question.decision.as_ref(),
        None => call.decision.as_ref(),
    };
    let shown = call.shown.as_ref();
    let asked_again = call.shown_before.as_ref().zip(shown).filter(|_| question.is_none());
    let open = execution.waits_for_person(call) && execution.deadline_of(call).is_none_or(|deadline| now < deadline);
    let approvers = execution.approvers_of(call);
    let text = |read: fn(&crate::approval::ShownCall) -> &String| shown.map(read).cloned().unwrap_or_default();
    ItemView {
        call: call.seq,
        digest: execution.digest_asked(call).unwrap_or_default().to_owned(),
        address: call.address.clone(),
        title: text(|shown| &shown.title),
        description: text(|shown| &shown.description),
        method: text(|shown| &shown.method),
        url: text(|shown| &shown.url),
        credential: shown.and_then(|shown| shown.credential.clone()),
        reason: text(|shown| &shown.reason),
        arguments: text(|shown| &shown.arguments),
        line: call.line,
        state,
        decision: decision.map(decision_view),
        asked_again: asked_again.is_some(),
        changes: asked_again.map(|(before, now)| changes(before, now)).unwrap_or_default(),
        approvers,
        may_decide: open && approvers.admit(standing),
        grantable: question.is_none() && !call.address.starts_with(OWN_SOURCE),
        original: call.edited.as_ref().map(|_| call.arguments.to_string()),
        result: call.result.as_deref().map(excerpt),
        question: question.map(|question| QuestionView {
            asked: serde_json::from_str(&question.asked).unwrap_or_default(),
            withdrawn: question.withdrawn || (question.decision.is_none() && state != ItemState::Waiting),
            content: question.content.as_deref().map(ToOwned::to_owned),
        }),
    }
}

fn other_call(call: &CallRow) -> OtherCall {
    OtherCall {
        call: call.seq,
        address: call.address.clone(),
        arguments: excerpt(&call.arguments),
        edited: call.edited.as_deref().map(excerpt),
        line: call.line,
        state: item_state(call),
        result: call.result.as_deref().map(excerpt),
    }
}

/// Where a call stands.
#[must_use]
pub fn item_state(call: &CallRow) -> ItemState {
    match call.status {
        CallStatus::Issued | CallStatus::Approved => ItemState::Approved,
        CallStatus::Waiting => ItemState::Waiting,
        CallStatus::Sleeping => ItemState::Sleeping,
        CallStatus::Sent if call.open_question().is_some() => ItemState::Waiting,
        CallStatus::Sent => ItemState::Sent,
        CallStatus::Settled => settled_state(call),
    }
}

fn settled_state(call: &CallRow) -> ItemState {
    let result = call.result.as_deref().unwrap_or_default();
    if call.due.is_some() || result.starts_with(r#"{"ok":true"#) {
        return ItemState::Done;
    }
    let code_is = |code: &str| result.starts_with(&format!(r#"{{"ok":false,"error":{{"code":"{code}""#));
    if code_is("outcome_unknown") {
        ItemState::OutcomeUnknown
    } else if code_is("execution_over") {
        ItemState::NotSent
    } else if code_is("declined") {
        match &call.decision {
            Some(decision) if decision.by.is_none() => ItemState::Expired,
            Some(decision) if decision.verdict == Verdict::Cancel => ItemState::NotSent,
            _ => ItemState::Declined,
        }
    } else {
        ItemState::Failed
    }
}

fn excerpt(text: &str) -> String {
    shortened(text, EXCERPT)
}
