//! What an execution has to say to whoever waits for it.

use std::rc::Rc;

use super::execution::Execution;
use super::row::{CallRow, ExecutionStatus, LedTo, Millis, Outcome, PauseRow};
use crate::approval::Approvers;

/// A pause or the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The program cannot go on without a person.
    Paused(PauseReport),
    /// Nothing can be done before a timer is due; nobody has to decide.
    Sleeping {
        /// Id of the pause.
        id: String,
        /// When the first timer is due.
        wakes_at: Millis,
    },
    /// It still runs. Never recorded: only said to who waited for long.
    Running {
        /// Id of the pause that was asked for.
        id: String,
    },
    /// It is over.
    Ended {
        /// How.
        status: ExecutionStatus,
        /// With what.
        outcome: Rc<Outcome>,
    },
}

/// A pause as it was reported; the same whenever it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct PauseReport {
    /// Id of the pause.
    pub id: String,
    /// When its first item expires.
    pub expires_at: Millis,
    /// What waited when it was reported.
    pub pending: Vec<PendingCall>,
}

/// One call of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// Its number.
    pub seq: u32,
    /// Tool address.
    pub address: String,
    /// Canonical JSON of its arguments.
    pub arguments: Rc<str>,
    /// Line of the program.
    pub line: Option<u32>,
    /// What the tool asks, where it is that and not whether the call may be sent: JSON text of the parameters of
    /// `elicitation/create`. Untrusted.
    pub question: Option<Rc<str>>,
    /// Who may decide.
    pub by: Approvers,
}

impl Execution {
    /// What `execute` answers: the first pause or the end; `None` while neither was reached.
    #[must_use]
    pub fn first_report(&self) -> Option<Report> {
        match self.pauses().first() {
            Some(pause) => Some(self.report_at(pause)),
            None => self.end_report(),
        }
    }

    /// The same for a pause that is still open: only what can be decided.
    #[must_use]
    pub fn open_report(&self, pause: &PauseRow, now: Millis) -> PauseReport {
        let pending =
            self.undecided(pause, now).map(|call| pending_call(call, self.digest_asked(call), self.approvers_of(call)));
        PauseReport { pending: pending.collect(), ..self.pause_report(pause) }
    }

    /// What a pause reported.
    fn report_at(&self, pause: &PauseRow) -> Report {
        if pause.reported.is_empty() {
            return Report::Sleeping { id: pause.id.clone(), wakes_at: pause.expires_at };
        }
        Report::Paused(self.pause_report(pause))
    }

    /// What a pause led to; while it is open, how things stand.
    #[must_use]
    pub fn present_report(&self, pause: &PauseRow, now: Millis) -> Report {
        let id = pause.id.clone();
        match (report_of_pause(self, pause), self.wakes_at()) {
            (Some(report), _) => report,
            (None, Some(wakes_at)) if self.row().status == ExecutionStatus::Sleeping => {
                Report::Sleeping { id, wakes_at }
            }
            (None, _) if self.undecided(pause, now).next().is_none() => Report::Running { id },
            (None, _) => Report::Paused(self.open_report(pause, now)),
        }
    }

    fn end_report(&self) -> Option<Report> {
        let outcome = self.row().outcome.clone()?;
        Some(Report::Ended { status: self.row().status, outcome })
    }

    /// The report of one pause.
    #[must_use]
    pub fn pause_report(&self, pause: &PauseRow) -> PauseReport {
        let pending = pause
            .reported
            .iter()
            .filter_map(|reported| Some(pending_call(self.call(reported.call)?, Some(&reported.digest), reported.by)));
        PauseReport { id: pause.id.clone(), expires_at: pause.expires_at, pending: pending.collect() }
    }
}

/// What a pause led to; `None` while it is open.
#[must_use]
pub fn report_of_pause(execution: &Execution, pause: &PauseRow) -> Option<Report> {
    match pause.led_to.as_ref()? {
        LedTo::Pause(number) => {
            let next = execution.pauses().get(*number as usize)?;
            Some(execution.report_at(next))
        }
        LedTo::Outcome => execution.end_report(),
    }
}

/// A call, with the question that has this digest.
fn pending_call(call: &CallRow, digest: Option<&str>, by: Approvers) -> PendingCall {
    let question = call.questions.iter().find(|question| Some(question.digest.as_str()) == digest);
    PendingCall {
        seq: call.seq,
        address: call.address.clone(),
        arguments: Rc::clone(&call.arguments),
        line: call.line,
        question: question.map(|question| Rc::clone(&question.asked)),
        by,
    }
}
