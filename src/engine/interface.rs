//! What goes into the engine and what comes out of it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::CallError;
use super::row::{CallRow, ExecutionRow, LogLine, Output, PauseRow, ProgramError};
use crate::approval::{Approvers, Decision, Route, ShownCall, Standing, Verdict};

/// One call as the sandbox says it was made. Nothing of it is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCall {
    /// The number that the sandbox gave it.
    pub seq: u32,
    /// The address as written by the program.
    pub address: String,
    /// Canonical JSON of the arguments, or why they are no JSON.
    pub arguments: Result<Rc<str>, String>,
    /// Line of the program, as the sandbox says.
    pub line: Option<u32>,
    /// A timer rather than a call of a tool: its length in milliseconds.
    pub timer: Option<u64>,
}

/// How the program's main function ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// JSON text of what it returned, `None` for `undefined`; or what it threw.
    pub result: Result<Option<String>, ProgramError>,
    /// What the gateway has to say of it, such as rejections that nobody handled so far.
    pub warnings: Vec<LogLine>,
}

/// Everything that the program did until it could do no more without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The sandbox that speaks; turns of a dropped one are ignored.
    pub attempt: u32,
    /// Its place among the sandbox's turns, from 0; one that was heard already is ignored.
    pub number: u32,
    /// Calls made since the last turn, in order.
    pub calls: Vec<IssuedCall>,
    /// Timers that the program cleared since the last turn.
    pub cleared: Vec<u32>,
    /// What it said since the last turn.
    pub output: Output,
    /// `output` is everything that it said, not only what came since.
    pub output_is_whole: bool,
    /// Set from the turn on in which the main function ended.
    pub finish: Option<Finish>,
}

/// One recorded result, on its way into the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The call it answers.
    pub seq: u32,
    /// Its place in the order of settling.
    pub order: u32,
    /// What the program's clock shows from now on.
    pub at: u64,
    /// JSON text of the value.
    pub result: Rc<str>,
}

/// What a new sandbox is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// The number of the sandbox.
    pub attempt: u32,
    /// What its clock shows first.
    pub started_at: u64,
    /// Seed of its random numbers.
    pub seed: String,
    /// The longest timer that it may set, in milliseconds.
    pub longest_timer: u64,
    /// Every settled result, in order.
    pub settled: Vec<Delivery>,
}

/// The host's answer to a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The sandbox that is answered.
    pub attempt: u32,
    /// Results, in order.
    pub deliveries: Vec<Delivery>,
}

/// What policy, catalog and schema say of a call, read just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The call never leaves; the program gets this error.
    Refused(CallError),
    /// The gateway answers it by itself, at once; nothing is sent.
    Answered(Rc<str>),
    /// The call may be sent, or a person is asked first.
    Ready {
        /// Whether a person has to be asked.
        ask: bool,
        /// Whether sending it twice does no harm.
        idempotent: bool,
        /// What a person is shown; its digest covers the binding.
        shown: ShownCall,
        /// A grant that takes the place of asking, if whoever gave it may decide.
        granted: Option<Granted>,
    },
    /// An administrator stopped sending. What waits for a person waits on, and what a person approved waits again: nothing is
    /// sent later because it was approved before. Any other call gets the error.
    Stopped {
        /// Whether a person has to be asked.
        ask: bool,
        /// What a person is shown.
        shown: ShownCall,
        /// What the program gets where nobody has to be asked.
        error: CallError,
    },
}

/// What a person allowed before: calls like this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Names the grant.
    pub id: String,
    /// The account that gave it.
    pub by: String,
    /// In what role.
    pub standing: Standing,
}

/// A row to be written.
#[allow(clippy::large_enum_variant, reason = "a few of them live for the length of one step")]
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// The execution's own row.
    Execution(ExecutionRow),
    /// One call.
    Call(CallRow),
    /// One pause.
    Pause(PauseRow),
    /// What the program said so far.
    Output(Output),
}

/// What the shell has to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write all rows, or none. Durable before any later effect leaves the object.
    Commit(Vec<Write>),
    /// Start a sandbox. When it cannot be started: [`super::Execution::sandbox_lost`].
    StartSandbox(Boot),
    /// Answer the turn of a sandbox that waits.
    Answer(Reply),
    /// End the sandbox. Nothing that it says later is heard.
    DropSandbox {
        /// The sandbox.
        attempt: u32,
    },
    /// Look up tool, policy and membership, check the arguments; then
    /// [`super::Execution::resolved`].
    Resolve {
        /// The call.
        seq: u32,
    },
    /// Send the call with what its last resolution found; then [`super::Execution::settled`].
    Invoke {
        /// The call.
        seq: u32,
    },
    /// Give the tool the answer to the question that it asked while it carries out the call. Nothing where it does not
    /// wait any more.
    Tell {
        /// The call.
        seq: u32,
        /// The answer; cancel where there is none.
        verdict: Verdict,
        /// Canonical JSON of what the person entered.
        content: Option<Rc<str>>,
    },
    /// A pause or the end was reached: whoever waits looks again.
    Report,
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// The account.
    pub account: String,
    /// By which way.
    pub route: Route,
    /// In what role.
    pub standing: Standing,
}

/// One decision of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionItem {
    /// The call.
    pub seq: u32,
    /// Digest of what was shown of it.
    pub digest: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// Canonical JSON of what the person entered, where the call asks that.
    pub content: Option<Rc<str>>,
    /// What the person put in place of the program's arguments.
    pub edited: Option<Edited>,
    /// The grant that goes with it.
    pub gives: Option<String>,
}

/// Arguments that a person put in place of those that were shown, held against the tool's schema already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Canonical JSON of the arguments.
    pub arguments: Rc<str>,
    /// HTTP method or protocol verb of the request that they make.
    pub method: String,
    /// The URL of that request, or what stands for one.
    pub url: String,
}

/// What a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseTarget {
    /// Everything that waits under the pause.
    All {
        /// Digest of all that was shown.
        digest: String,
        /// The answer.
        verdict: Verdict,
        /// Why.
        reason: Option<String>,
        /// Canonical JSON of what the person entered, by the calls that ask that.
        contents: BTreeMap<u32, Rc<str>>,
        /// What the person put in place of the program's arguments, by calls.
        edits: BTreeMap<u32, Edited>,
        /// Grants that go with it, by calls.
        gives: BTreeMap<u32, String>,
    },
    /// Single calls.
    Items(Vec<DecisionItem>),
}

/// Why a decision was not taken. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// Somebody was faster.
    #[error("This was decided already.")]
    AlreadyDecided {
        /// The call.
        seq: u32,
        /// The decision that counts.
        decision: Box<Decision>,
    },
    /// The pause is over for another reason, such as the end of the execution.
    #[error("Nothing waits here any more.")]
    NothingWaits,
    /// What waits is not what was shown.
    #[error("What waits has changed since it was shown. Load it again and decide on what it shows now.")]
    DigestChanged {
        /// The call, where one was named.
        seq: Option<u32>,
    },
    /// The pause has no such call.
    #[error("Call {seq} does not belong to this approval.")]
    UnknownCall {
        /// The call.
        seq: u32,
    },
    /// The pause is not one of this execution.
    #[error("There is no such approval.")]
    UnknownPause,
    /// What the person entered is not what the tool asks for.
    #[error("The answer to call {seq} was not sent: {problem}")]
    BadAnswer {
        /// The call.
        seq: u32,
        /// What is wrong with it.
        problem: String,
    },
    /// Policy leaves this decision to somebody else.
    #[error("You may not decide this. Only {} may.", .approvers.words())]
    NotYours {
        /// The call.
        seq: u32,
        /// Who may.
        approvers: Approvers,
    },
    /// The arguments that the person wrote cannot be sent.
    #[error("The arguments of call {seq} cannot be sent: {problem}")]
    BadArguments {
        /// The call.
        seq: u32,
        /// What is wrong with them.
        problem: String,
        /// The same by paths, where there are any.
        details: Option<serde_json::Value>,
    },
    /// The grant that goes with the decision cannot be given.
    #[error("This cannot be granted: {problem}")]
    NoGrant {
        /// The call.
        seq: u32,
        /// Why not.
        problem: String,
    },
    /// A list without items, or with the same call twice.
    #[error("Every call may be decided once, and at least one.")]
    BadList,
}
