//! The journal: what is stored of an execution, its calls and its pauses.
//!
//! These types are the stored format. A change of shape needs a new schema version (see
//! `session::schema`) and is caught by the tests named `…_format_unchanged`.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::interface::{Delivery, Finish, IssuedCall};
use crate::approval::{Approvers, Decision, ShownCall};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The program can make progress by itself.
    Running,
    /// At least one open call waits for a person, perhaps some are timers; nothing is in flight.
    Waiting,
    /// Every open call is a timer that is not due yet; nothing is in flight.
    Sleeping,
    /// The program returned.
    Completed,
    /// The program threw, broke a limit, or could not be replayed.
    Failed,
    /// A person cancelled it.
    Cancelled,
    /// Its program can no longer be replayed by this release.
    Expired,
}

impl ExecutionStatus {
    /// The word for it, as it is stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Sleeping => "sleeping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Whether nothing can happen to the execution any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Running | Self::Waiting | Self::Sleeping => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired => true,
        }
    }
}

/// Where one call of an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The program made the call; policy has not been asked yet.
    Issued,
    /// A person has to decide.
    Waiting,
    /// A timer that is not due yet.
    Sleeping,
    /// A person accepted; the call was not sent yet.
    Approved,
    /// Written before the request leaves, where that may change something: after a crash we must know that it may have arrived.
    Sent,
    /// The result is recorded and never changes.
    Settled,
}

/// Everything about an execution that is not about one of its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRow {
    /// Unguessable, unique in its session.
    pub id: String,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// When it was started.
    pub created_at: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Seed of the sandbox's random numbers, 32 hexadecimal digits.
    pub seed: String,
    /// Version of the prelude that the program was started with.
    pub prelude: u32,
    /// How often a sandbox was started.
    pub attempts: u32,
    /// Sandboxes started since the journal last grew; bounds a crash loop.
    pub attempts_without_progress: u32,
    /// Wall time spent running before `running_since`, in milliseconds.
    pub ran_ms: u64,
    /// Start of the present running phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Millis>,
    /// Start of the present waiting phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Millis>,
    /// Number of results recorded so far; the next one gets this order.
    pub next_order: u32,
    /// Bytes of arguments and results in the journal.
    pub journal_bytes: u64,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Rc<Outcome>>,
    /// When the client said that it does not wait any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_left_at: Option<Millis>,
    /// The program has ended, but an answer to one of its calls is still to come or to be given up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settling: bool,
    /// Who stopped it, when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Decision>,
}

/// What a program said so far: written when its sandbox is dropped, so that an end without a sandbox has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What it emitted for the user, each as JSON text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emitted: Vec<String>,
    /// What it wrote to its console.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogLine>,
    /// Whether more was written than is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logs_cut: bool,
}

/// Bytes of everything that a program emits.
const EMITTED_LIMIT: usize = 6 << 20;
/// Bytes of everything that a program logs.
const LOGS_LIMIT: usize = 256 << 10;

impl Output {
    /// Adds what was said since. The sandbox has limits of its own, but it is not believed.
    pub fn add(&mut self, more: Self) {
        let mut used: usize = self.logs.iter().map(|line| line.text.len()).sum();
        self.logs_cut |= more.logs_cut;
        for line in more.logs {
            used += line.text.len();
            if used > LOGS_LIMIT {
                self.logs_cut = true;
                break;
            }
            self.logs.push(line);
        }
        let mut used: usize = self.emitted.iter().map(String::len).sum();
        for text in more.emitted {
            used += text.len();
            if used > EMITTED_LIMIT {
                break;
            }
            self.emitted.push(text);
        }
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The program's text, written once when the execution starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramRow {
    /// What the model sent.
    pub source: String,
    /// What the sandbox runs.
    pub compiled: String,
    /// Line of `source` for each line of `compiled`; 0 where there is none.
    pub lines: Vec<u32>,
    /// The one call of a direct `tools/call`; `source` then only shows it, and no sandbox runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectCall>,
    /// Headers that every call of it carries on, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<(String, String)>,
}

/// A tool call that a client made by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectCall {
    /// Tool address.
    pub address: String,
    /// Canonical JSON of the arguments.
    pub arguments: Rc<str>,
}

impl DirectCall {
    /// What a program of this one call says in one turn, given the results that it has seen: the call, and the end once its
    /// result is there. `made` tells whether the call was made in an earlier turn.
    #[must_use]
    pub fn turn(&self, results: &[Delivery], made: bool) -> (Vec<IssuedCall>, Option<Finish>) {
        let call = IssuedCall {
            seq: 0,
            address: self.address.clone(),
            arguments: Ok(Rc::clone(&self.arguments)),
            line: Some(1),
            timer: None,
        };
        let finish = results
            .iter()
            .find(|delivery| delivery.seq == 0)
            .map(|delivery| Finish { result: Ok(Some(delivery.result.to_string())), warnings: Vec::new() });
        (if made { Vec::new() } else { vec![call] }, finish)
    }
}

/// One call, the unit of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRow {
    /// Position in the order in which the program made its calls, from 0.
    pub seq: u32,
    /// Tool address, `<source>.<tool>`.
    pub address: String,
    /// Canonical JSON of the arguments.
    pub arguments: Rc<str>,
    /// Canonical JSON of what a person put in their place; this is sent. A replay makes the call with its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Rc<str>>,
    /// Line of the program's source, where known. Comes from the sandbox: for display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Where it stands.
    pub status: CallStatus,
    /// When the program made it.
    pub issued_at: Millis,
    /// Of a timer: when it is due. A timer has no tool, is never sent, and settles without a result when it is cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
    /// Whether it may be sent again after a crash. Known once policy was asked.
    #[serde(default)]
    pub idempotent: bool,
    /// What the person is shown; the digest covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<ShownCall>,
    /// What was shown before the tool changed while the call waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_before: Option<ShownCall>,
    /// When the waiting ends with `approval_timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// Who decided what, when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// How often it was sent.
    #[serde(default)]
    pub sends: u32,
    /// JSON text of the value that the program gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Rc<str>>,
    /// Position in the order of settling, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// When it settled: the program's clock shows this time from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Millis>,
    /// What the tool asked a person while it carried the call out, in order; only the last one can be open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRow>,
}

/// What a tool asked a person (`elicitation/create`), because no client could be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRow {
    /// JSON text of the parameters of `elicitation/create`, in the tool's own order. Untrusted.
    pub asked: Rc<str>,
    /// Whether an answer has content.
    pub form: bool,
    /// Digest of execution, call and question; no two questions have the same.
    pub digest: String,
    /// When it was asked.
    pub asked_at: Millis,
    /// Until when it can be answered.
    pub deadline: Millis,
    /// Who answered, when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Canonical JSON of what the person entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Rc<str>>,
    /// The tool does not wait for the answer any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

impl CallRow {
    /// Whether nothing is lost with this row: the call was only made, or it was sent once, by no decision, and only reads.
    #[must_use]
    pub fn may_be_made_again(&self) -> bool {
        let untouched = self.decision.is_none() && self.edited.is_none() && self.questions.is_empty();
        let reads = self.idempotent && self.shown.as_ref().is_some_and(|shown| !shown.changes);
        untouched
            && match self.status {
                CallStatus::Issued => self.sends == 0,
                CallStatus::Sent => self.sends == 1 && reads,
                CallStatus::Waiting | CallStatus::Sleeping | CallStatus::Approved | CallStatus::Settled => false,
            }
    }

    /// The arguments that are looked up, shown and sent.
    #[must_use]
    pub fn effective_arguments(&self) -> &Rc<str> {
        self.edited.as_ref().unwrap_or(&self.arguments)
    }

    /// Whether the program still waits for the call's result.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status != CallStatus::Settled
    }

    /// The question that nobody has answered yet. Whether the tool is still there to hear the answer, only
    /// [`super::Execution::asks`] knows.
    #[must_use]
    pub fn open_question(&self) -> Option<&QuestionRow> {
        let last = self.questions.last().filter(|_| self.status == CallStatus::Sent)?;
        (last.decision.is_none() && !last.withdrawn).then_some(last)
    }
}

/// One report of "the program cannot go on without a person".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRow {
    /// What the wire calls `executionId`.
    pub id: String,
    /// Position among the execution's pauses, from 0.
    pub number: u32,
    /// When it was reported.
    pub created_at: Millis,
    /// When its first item expires.
    pub expires_at: Millis,
    /// The calls that were reported, and the digests of what was asked; never changes.
    pub reported: Vec<ReportedCall>,
    /// What the pause led to; never changes once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub led_to: Option<LedTo>,
}

impl PauseRow {
    /// The calls that can be decided under this pause.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        self.reported.iter().map(|reported| reported.call)
    }

    /// Whether the question with this digest was reported here.
    #[must_use]
    pub fn has_asked(&self, call: u32, digest: Option<&str>) -> bool {
        self.reported.iter().any(|reported| reported.call == call && Some(reported.digest.as_str()) == digest)
    }

    /// The same, for people who may decide by the same rule.
    #[must_use]
    pub fn has_asked_them(&self, call: u32, digest: Option<&str>, by: Approvers) -> bool {
        let mut asked = self.reported.iter().filter(|reported| reported.call == call && reported.by == by);
        asked.any(|reported| Some(reported.digest.as_str()) == digest)
    }
}

/// One call of a pause: what the person was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCall {
    /// Its number.
    pub call: u32,
    /// The digest of what was asked.
    pub digest: String,
    /// Who may decide.
    #[serde(default, skip_serializing_if = "Approvers::is_owner")]
    pub by: Approvers,
}

/// What came after a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedTo {
    /// The program stopped again, at the pause of this number.
    Pause(u32),
    /// The execution ended.
    Outcome,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// What the program returned, as JSON text; `None` for `undefined` and where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProgramError>,
    /// What the program emitted for the user, each as JSON text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emitted: Vec<String>,
    /// What the program wrote to its console.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogLine>,
    /// Whether more was written than is kept.
    #[serde(default)]
    pub logs_cut: bool,
}

/// Why a program did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramError {
    /// Stable code, such as `exception` or `nondeterministic_replay`.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
    /// Line of the program's source, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One line of the program's console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `log`, `info`, `warn`, `error` or `debug`.
    pub level: String,
    /// The text.
    pub text: String,
}
