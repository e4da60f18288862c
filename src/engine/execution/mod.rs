//! One execution: its journal in memory and every transition of it.
//!
//! Each input is one method that takes a [`Moment`] and returns effects. All rows that a step
//! changes leave in one [`Effect::Commit`], before anything that acts on them. Rows that nothing
//! depends on wait for the next commit: see `Execution::finish_step`.

mod calls;
mod course;
mod decisions;
mod questions;
mod timers;

use std::collections::BTreeSet;
use std::rc::Rc;

use self::decisions::Enclosed;
use crate::approval::{Verdict, pause_digest};
use crate::engine::call_result::{CallError, error_result};
use crate::engine::interface::{Decider, DecisionError, DecisionItem, Effect, Finish, PauseTarget, Resolution, Turn};
use crate::engine::limits::Limits;
use crate::engine::row::{CallRow, CallStatus, ExecutionRow, ExecutionStatus, Millis, Output, PauseRow, ProgramError};

/// Sandboxes that may be lost in a row before the execution is given up. Crashes of the whole
/// object are not counted here, but by `attempts_without_progress`.
const SANDBOXES_LOST_IN_A_ROW: u32 = 5;
/// The first wait before another sandbox is started, in milliseconds; each further one is four times as long.
const RESTART_AFTER_MS: u64 = 250;

/// The time of an input, and the randomness it may need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub now: Millis,
    /// An unguessable text that was never used before: becomes the id of a pause.
    pub nonce: String,
}

/// An execution with everything that was journaled of it.
#[derive(Debug)]
pub struct Execution {
    row: ExecutionRow,
    calls: Vec<CallRow>,
    pauses: Vec<PauseRow>,
    /// What the program had said when its last sandbox was dropped.
    output: Output,
    limits: Limits,
    journal_room: u64,
    live: Live,
    changed: Changed,
}

/// What is lost with the object's memory.
#[derive(Debug, Default)]
struct Live {
    sandbox: Option<Sandbox>,
    resolving: BTreeSet<u32>,
    sending: BTreeSet<u32>,
    lost_in_a_row: u32,
    /// After a lost sandbox: not before this time is another one started.
    restart_at: Millis,
}

#[derive(Debug)]
struct Sandbox {
    attempt: u32,
    /// It made its turn and waits for an answer.
    waits: bool,
    turns: u32,
    issued: u32,
    delivered: u32,
    /// Calls that a replay has to make again before it is a continuation.
    to_replay: u32,
    /// It has not begun: there is no place for it yet.
    queued: bool,
    output: Output,
    finish: Option<Finish>,
}

/// What the present step has to write and do.
#[derive(Debug, Default)]
struct Changed {
    row: bool,
    output: bool,
    calls: BTreeSet<u32>,
    pauses: BTreeSet<u32>,
    effects: Vec<Effect>,
}

impl Execution {
    /// A new execution; the first effects start its sandbox.
    #[must_use]
    pub fn start(moment: &Moment, id: String, seed: String, prelude: u32, limits: Limits) -> (Self, Vec<Effect>) {
        let row = ExecutionRow {
            id,
            status: ExecutionStatus::Running,
            created_at: moment.now,
            ended_at: None,
            seed,
            prelude,
            attempts: 0,
            attempts_without_progress: 0,
            ran_ms: 0,
            running_since: Some(moment.now),
            waiting_since: None,
            next_order: 0,
            journal_bytes: 0,
            outcome: None,
            client_left_at: None,
            settling: false,
            stopped: None,
        };
        let mut execution = Self::restore(row, Vec::new(), Vec::new(), Output::default(), limits);
        execution.changed.row = true;
        let effects = execution.finish_step(moment);
        (execution, effects)
    }

    /// An execution as it was stored. Nothing of it is running; [`Self::wake`] goes on.
    #[must_use]
    pub fn restore(
        row: ExecutionRow,
        calls: Vec<CallRow>,
        pauses: Vec<PauseRow>,
        output: Output,
        limits: Limits,
    ) -> Self {
        Self {
            row,
            calls,
            pauses,
            output,
            limits,
            journal_room: u64::MAX,
            live: Live::default(),
            changed: Changed::default(),
        }
    }

    /// The execution's own row.
    #[must_use]
    pub fn row(&self) -> &ExecutionRow {
        &self.row
    }

    /// All calls, in the order in which the program made them.
    #[must_use]
    pub fn calls(&self) -> &[CallRow] {
        &self.calls
    }

    /// All pauses, in order.
    #[must_use]
    pub fn pauses(&self) -> &[PauseRow] {
        &self.pauses
    }

    /// The call with this number.
    #[must_use]
    pub fn call(&self, seq: u32) -> Option<&CallRow> {
        self.calls.get(seq as usize)
    }

    /// The pause with this id.
    #[must_use]
    pub fn pause(&self, id: &str) -> Option<&PauseRow> {
        self.pauses.iter().find(|pause| pause.id == id)
    }

    /// What the program said so far. In a replay, what it had said before.
    #[must_use]
    pub fn output(&self) -> &Output {
        match &self.live.sandbox {
            Some(sandbox) if sandbox.to_replay == 0 => &sandbox.output,
            Some(_) | None => &self.output,
        }
    }

    /// Bytes that the journal may grow by, where that is less than the execution's own limit: a session has one for all.
    pub fn limit_journal(&mut self, room: u64) {
        self.journal_room = room;
    }

    /// Whether a sandbox is in memory.
    #[must_use]
    pub fn has_sandbox(&self) -> bool {
        self.live.sandbox.is_some()
    }

    /// Whether something of it is on its way in this object right now, so that a result will come
    /// by itself.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        if self.row.status.is_over() {
            return self.row.settling && !self.live.sending.is_empty();
        }
        !self.live.resolving.is_empty()
            || !self.live.sending.is_empty()
            || self.live.sandbox.as_ref().is_some_and(|sandbox| !sandbox.waits)
    }

    /// Whether there is work that nothing in this object is doing: after a decision, after a crash.
    #[must_use]
    pub fn needs_wake(&self) -> bool {
        (self.row.status == ExecutionStatus::Running || self.row.settling) && !self.is_busy()
    }

    /// The calls of a pause that can still be decided at `now`.
    pub fn undecided<'a>(&'a self, pause: &'a PauseRow, now: Millis) -> impl Iterator<Item = &'a CallRow> + 'a {
        pause.items().filter_map(|seq| self.call(seq)).filter(move |call| {
            self.waits_for_person(call) && self.deadline_of(call).is_none_or(|deadline| now < deadline)
        })
    }

    /// The digest that a decision on everything that waits under the pause has to carry.
    #[must_use]
    pub fn digest_of_pause(&self, pause: &PauseRow, now: Millis) -> String {
        pause_digest(&pause.id, self.undecided(pause, now).filter_map(|call| self.digest_asked(call)))
    }

    /// When the execution next needs the alarm; `None` when it is over. `dozing` tells that something in memory wakes it
    /// when its next timer is due; the alarm then only makes sure.
    #[must_use]
    pub fn next_alarm(&self, now: Millis, dozing: bool) -> Option<Millis> {
        let recovery = now.saturating_add(self.limits.recovery_ms);
        if self.needs_wake() {
            return Some(now.max(self.live.restart_at));
        }
        let waiting = self.calls.iter().filter(|call| self.waits_for_person(call));
        let lease = waiting.filter_map(|call| self.deadline_of(call)).min();
        let due = self.wakes_at().map(|at| if dozing { at.saturating_add(self.limits.recovery_ms) } else { at });
        match self.row.status {
            ExecutionStatus::Running => [self.timeout_at(), lease, due, Some(recovery)].into_iter().flatten().min(),
            ExecutionStatus::Waiting | ExecutionStatus::Sleeping => {
                let suspend = self.live.sandbox.as_ref().and(self.suspend_at());
                [lease, due, suspend].into_iter().flatten().min()
            }
            ExecutionStatus::Completed
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Expired => self.row.settling.then_some(recovery),
        }
    }

    // ---- inputs ---------------------------------------------------------------------------

    /// Time went by, the object was restarted, or a decision was written.
    pub fn wake(&mut self, moment: &Moment) -> Vec<Effect> {
        self.finish_step(moment)
    }

    /// The sandbox made a turn. One of a dropped sandbox, or one that was not its to make, changes
    /// nothing.
    pub fn turn(&mut self, moment: &Moment, turn: Turn) -> Vec<Effect> {
        let Some(sandbox) = self.sandbox_in_turn(turn.attempt, turn.number) else {
            return Vec::new();
        };
        sandbox.waits = true;
        sandbox.turns += 1;
        if turn.finish.is_some() {
            sandbox.finish = turn.finish;
        }
        if turn.output_is_whole {
            sandbox.output = Output::default();
        }
        sandbox.output.add(turn.output);
        for call in turn.calls {
            if let Err(error) = self.accept_call(moment.now, call) {
                self.end(moment.now, ExecutionStatus::Failed, Some(error));
                return self.finish_step(moment);
            }
        }
        self.clear_timers(moment.now, &turn.cleared);
        if let Some(sandbox) = &mut self.live.sandbox {
            let missing = sandbox.to_replay.saturating_sub(sandbox.issued);
            if missing > 0 {
                let (made, recorded) = (sandbox.issued, sandbox.to_replay);
                let error = replay_error(format!(
                    "The program made {recorded} calls before it was interrupted, and only \
                     {made} when it was run again with the same results."
                ));
                self.end(moment.now, ExecutionStatus::Failed, Some(error));
            } else {
                sandbox.to_replay = 0;
                self.live.lost_in_a_row = 0;
            }
        }
        self.finish_step(moment)
    }

    /// The sandbox ended without being asked to, or could not be started; because of this line of the program, if one is
    /// given.
    pub fn sandbox_lost(&mut self, moment: &Moment, attempt: u32, reason: &str, line: Option<u32>) -> Vec<Effect> {
        if self.live.sandbox.as_ref().is_none_or(|sandbox| sandbox.attempt != attempt) {
            return Vec::new();
        }
        self.forget_sandbox();
        self.live.restart_at = moment.now.saturating_add(RESTART_AFTER_MS << (2 * self.live.lost_in_a_row.min(8)));
        self.live.lost_in_a_row += 1;
        if reason.contains("SyntaxError") {
            // What the sandbox cannot load now, it cannot load the next time.
            let error = ProgramError {
                code: "program_refused".to_owned(),
                message: format!("The program cannot be loaded: {reason}"),
                line,
            };
            self.end(moment.now, ExecutionStatus::Failed, Some(error));
        } else if self.row.status == ExecutionStatus::Running && self.live.lost_in_a_row >= SANDBOXES_LOST_IN_A_ROW {
            let error = ProgramError {
                code: "sandbox_failed".to_owned(),
                message: format!("The sandbox failed {SANDBOXES_LOST_IN_A_ROW} times in a row: {reason}"),
                line: None,
            };
            self.end(moment.now, ExecutionStatus::Failed, Some(error));
        }
        self.finish_step(moment)
    }

    /// Policy, catalog and schema were asked about a call.
    pub fn resolved(&mut self, moment: &Moment, seq: u32, resolution: Resolution) -> Vec<Effect> {
        if !self.live.resolving.remove(&seq) || self.row.status.is_over() {
            return Vec::new();
        }
        if let Some(call) = self.call(seq).cloned() {
            self.apply_resolution(moment.now, &call, resolution);
        }
        self.finish_step(moment)
    }

    /// A call was answered. `result` is the JSON text of what the program gets.
    pub fn settled(&mut self, moment: &Moment, seq: u32, result: Rc<str>) -> Vec<Effect> {
        let expected = self.live.sending.remove(&seq);
        if !expected || self.call(seq).is_none_or(|call| call.status != CallStatus::Sent) {
            return Vec::new();
        }
        let result = self.kept(result);
        self.settle(moment.now, seq, result);
        self.finish_step(moment)
    }

    /// A result as it is journaled: itself, or an error where it is too large.
    pub(super) fn kept(&self, result: Rc<str>) -> Rc<str> {
        let length = result.len();
        if length > self.limits.result_bytes {
            error_result(&CallError::new(
                "result_too_large",
                format!(
                    "The tool answered with {length} bytes; {} are the limit. The call itself was \
                     carried out. Ask for less: a page, a filter, fewer fields.",
                    self.limits.result_bytes
                ),
            ))
        } else if !self.journal_takes(length as u64) {
            error_result(&CallError::new(
                "journal_full",
                format!(
                    "The results of this program exceed {} bytes, or those of all open programs of the session do. \
                     The call itself was carried out, its result ({length} bytes) was not kept. Ask for less, or work \
                     in smaller programs.",
                    self.limits.journal_bytes
                ),
            ))
        } else {
            result
        }
    }

    /// Somebody decided. The effects write, and give tools that ask the answer; [`Self::wake`] acts on all else.
    pub fn decide(
        &mut self,
        moment: &Moment,
        pause_id: &str,
        target: PauseTarget,
        decider: &Decider,
    ) -> Result<Vec<Effect>, DecisionError> {
        let items = self.items_of(moment.now, pause_id, target, decider)?;
        let cancelled = items.iter().find(|item| item.verdict == Verdict::Cancel).map(|item| item.reason.clone());
        for item in items {
            self.write_decision(moment.now, item, decider);
        }
        match cancelled {
            Some(reason) => self.end_by_person(moment.now, reason, decider),
            None => self.set_running(moment.now),
        }
        Ok(self.take_effects())
    }

    /// What a decision would be refused for, if it were made now. Changes nothing.
    pub fn would_decide(
        &self,
        now: Millis,
        pause_id: &str,
        target: PauseTarget,
        decider: &Decider,
    ) -> Result<(), DecisionError> {
        self.items_of(now, pause_id, target, decider).map(|_| ())
    }

    fn items_of(
        &self,
        now: Millis,
        pause_id: &str,
        target: PauseTarget,
        decider: &Decider,
    ) -> Result<Vec<DecisionItem>, DecisionError> {
        let pause = self.pause(pause_id).ok_or(DecisionError::UnknownPause)?;
        let items = match target {
            PauseTarget::All { digest, verdict, reason, contents, edits, gives } => {
                let enclosed = Enclosed { contents: &contents, edits: &edits, gives: &gives };
                self.all_items(pause, now, &digest, (verdict, reason.as_deref()), &enclosed)?
            }
            PauseTarget::Items(items) => items,
        };
        self.check_items(pause, now, &items, decider.standing)?;
        Ok(items)
    }

    /// A person ends the program, whatever it does and whatever waits. Calls that are on their way settle as after any
    /// other end.
    pub fn stop(
        &mut self,
        moment: &Moment,
        reason: Option<String>,
        decider: &Decider,
    ) -> Result<Vec<Effect>, DecisionError> {
        if self.row.status.is_over() {
            return Err(DecisionError::NothingWaits);
        }
        let waiting: Vec<DecisionItem> = self
            .calls
            .iter()
            .filter(|call| call.status == CallStatus::Waiting)
            .map(|call| DecisionItem {
                seq: call.seq,
                digest: self.digest_asked(call).unwrap_or_default().to_owned(),
                verdict: Verdict::Cancel,
                reason: reason.clone(),
                content: None,
                edited: None,
                gives: None,
            })
            .collect();
        for item in waiting {
            self.write_decision(moment.now, item, decider);
        }
        self.end_by_person(moment.now, reason, decider);
        Ok(self.take_effects())
    }

    /// There is no place for the sandbox that was to be started. While it queues, the program's time does not run.
    pub fn sandbox_queued(&mut self, moment: &Moment, attempt: u32) -> Vec<Effect> {
        if self.set_queued(attempt, true) {
            self.hold_clock(moment.now);
        }
        self.take_effects()
    }

    /// The sandbox that queued has its place.
    pub fn sandbox_begins(&mut self, moment: &Moment, attempt: u32) -> Vec<Effect> {
        if self.set_queued(attempt, false) {
            self.set_running(moment.now);
        }
        self.take_effects()
    }

    fn set_queued(&mut self, attempt: u32, queued: bool) -> bool {
        let sandbox = self.live.sandbox.as_mut().filter(|sandbox| sandbox.attempt == attempt);
        sandbox.map(|sandbox| sandbox.queued = queued).is_some()
    }

    /// Its place in memory is needed: a program that waits is dropped before its time.
    pub fn suspend(&mut self) -> Vec<Effect> {
        if matches!(self.row.status, ExecutionStatus::Waiting | ExecutionStatus::Sleeping) {
            self.drop_sandbox();
        }
        self.take_effects()
    }

    /// Somebody waits for an answer, and the next timer is too far away for that: gives the sleep an id, so that it can be
    /// asked for again. A pause that is open already serves as well.
    pub fn report_sleep(&mut self, moment: &Moment) -> Vec<Effect> {
        if self.row.status == ExecutionStatus::Sleeping && self.pauses.last().is_none_or(|pause| pause.led_to.is_some())
        {
            self.add_pause(moment, Vec::new(), self.wakes_at().unwrap_or(moment.now));
        }
        self.take_effects()
    }

    /// The client that runs the program does not want it any more.
    pub fn cancel(&mut self, moment: &Moment) -> Vec<Effect> {
        let error = ProgramError {
            code: "cancelled".to_owned(),
            message: "The client cancelled the program.".to_owned(),
            line: None,
        };
        self.end(moment.now, ExecutionStatus::Cancelled, Some(error));
        self.take_effects()
    }

    /// The client does not wait any more for what waits for a person.
    pub fn client_left(&mut self, moment: &Moment) -> Vec<Effect> {
        if !self.row.status.is_over() && self.row.client_left_at.is_none() {
            self.row.client_left_at = Some(moment.now);
            self.changed.row = true;
        }
        self.take_effects()
    }

    /// A client waits again.
    pub fn client_returned(&mut self, _moment: &Moment) -> Vec<Effect> {
        if self.row.client_left_at.take().is_some() {
            self.changed.row = true;
        }
        self.take_effects()
    }

    /// This release cannot replay the program any more.
    pub fn expire(&mut self, moment: &Moment, reason: &str) -> Vec<Effect> {
        let error = ProgramError { code: "program_expired".to_owned(), message: reason.to_owned(), line: None };
        self.end(moment.now, ExecutionStatus::Expired, Some(error));
        self.take_effects()
    }
}

impl Execution {
    /// Whether the journal has room for so many bytes more.
    fn journal_takes(&self, bytes: u64) -> bool {
        bytes <= self.journal_room && self.row.journal_bytes.saturating_add(bytes) <= self.limits.journal_bytes
    }
}

fn replay_error(message: String) -> ProgramError {
    ProgramError { code: "nondeterministic_replay".to_owned(), message, line: None }
}
