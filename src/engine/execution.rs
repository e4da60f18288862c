//! One execution: its journal in memory and every transition of it.
//!
//! Each input is one method that takes a [`Moment`] and returns effects. All rows that a step
//! changes leave in one [`Effect::Commit`], before anything that acts on them.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::call_result::{CallError, error_result};
use super::interface::{
    Boot, Decider, DecisionError, DecisionItem, Delivery, Effect, Finish, IssuedCall, PauseTarget, Reply, Resolution,
    Turn, Write,
};
use super::limits::Limits;
use super::row::{CallRow, CallStatus, ExecutionRow, ExecutionStatus, LedTo, Millis, Outcome, PauseRow, ProgramError};
use crate::approval::{Decision, Route, ShownCall, Verdict, pause_digest};

/// Sandboxes that may be lost in a row before the execution is given up. Crashes of the whole
/// object are not counted here, but by `attempts_without_progress`.
const SANDBOXES_LOST_IN_A_ROW: u32 = 3;

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
    limits: Limits,
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
    finish: Option<Finish>,
}

/// What the present step has to write and do.
#[derive(Debug, Default)]
struct Changed {
    row: bool,
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
        };
        let mut execution = Self::restore(row, Vec::new(), Vec::new(), limits);
        execution.changed.row = true;
        let effects = execution.finish_step(moment);
        (execution, effects)
    }

    /// An execution as it was stored. Nothing of it is running; [`Self::wake`] goes on.
    #[must_use]
    pub fn restore(row: ExecutionRow, calls: Vec<CallRow>, pauses: Vec<PauseRow>, limits: Limits) -> Self {
        Self { row, calls, pauses, limits, live: Live::default(), changed: Changed::default() }
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

    /// Whether a sandbox is in memory.
    #[must_use]
    pub fn has_sandbox(&self) -> bool {
        self.live.sandbox.is_some()
    }

    /// Whether something of it is on its way in this object right now, so that a result will come
    /// by itself.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.row.status.is_over()
            && (!self.live.resolving.is_empty()
                || !self.live.sending.is_empty()
                || self.live.sandbox.as_ref().is_some_and(|sandbox| !sandbox.waits))
    }

    /// Whether there is work that nothing in this object is doing: after a decision, after a crash.
    #[must_use]
    pub fn needs_wake(&self) -> bool {
        self.row.status == ExecutionStatus::Running && !self.is_busy()
    }

    /// The calls of a pause that can still be decided at `now`.
    pub fn undecided<'a>(&'a self, pause: &'a PauseRow, now: Millis) -> impl Iterator<Item = &'a CallRow> + 'a {
        pause.items().filter_map(|seq| self.call(seq)).filter(move |call| {
            call.status == CallStatus::Waiting && call.deadline.is_none_or(|deadline| now < deadline)
        })
    }

    /// The digest that a decision on everything that waits under the pause has to carry.
    #[must_use]
    pub fn digest_of_pause(&self, pause: &PauseRow, now: Millis) -> String {
        pause_digest(&pause.id, self.undecided(pause, now).filter_map(digest_of_call))
    }

    /// When the execution next needs the alarm; `None` when it is over.
    #[must_use]
    pub fn next_alarm(&self, now: Millis) -> Option<Millis> {
        if self.needs_wake() {
            return Some(now);
        }
        let lease =
            self.calls.iter().filter(|call| call.status == CallStatus::Waiting).filter_map(|call| call.deadline).min();
        match self.row.status {
            ExecutionStatus::Running => {
                let recovery = now.saturating_add(self.limits.recovery_ms);
                [self.timeout_at(), lease, Some(recovery)].into_iter().flatten().min()
            }
            ExecutionStatus::Waiting => {
                let suspend = self.live.sandbox.as_ref().and(self.suspend_at());
                [lease, suspend].into_iter().flatten().min()
            }
            ExecutionStatus::Completed
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Expired => None,
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
        for call in turn.calls {
            if let Err(error) = self.accept_call(moment.now, call) {
                self.end(moment.now, ExecutionStatus::Failed, Some(error));
                return self.finish_step(moment);
            }
        }
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

    /// The sandbox ended without being asked to, or could not be started.
    pub fn sandbox_lost(&mut self, moment: &Moment, attempt: u32, reason: &str) -> Vec<Effect> {
        if self.live.sandbox.as_ref().is_none_or(|sandbox| sandbox.attempt != attempt) {
            return Vec::new();
        }
        self.live.sandbox = None;
        self.live.lost_in_a_row += 1;
        if self.row.status == ExecutionStatus::Running && self.live.lost_in_a_row >= SANDBOXES_LOST_IN_A_ROW {
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
        let length = result.len();
        let result = if length > self.limits.result_bytes {
            error_result(&CallError::new(
                "result_too_large",
                format!(
                    "The tool answered with {length} bytes; {} are the limit. The call itself was \
                     carried out. Ask for less: a page, a filter, fewer fields.",
                    self.limits.result_bytes
                ),
            ))
        } else if self.row.journal_bytes + length as u64 > self.limits.journal_bytes {
            error_result(&CallError::new(
                "journal_full",
                format!(
                    "The results of this program exceed {} bytes. The call itself was carried \
                     out, its result ({length} bytes) was not kept. Work in smaller programs.",
                    self.limits.journal_bytes
                ),
            ))
        } else {
            result
        };
        self.settle(moment.now, seq, result);
        self.finish_step(moment)
    }

    /// Somebody decided. The effects only write; [`Self::wake`] acts on it.
    pub fn decide(
        &mut self,
        moment: &Moment,
        pause_id: &str,
        target: PauseTarget,
        decider: &Decider,
    ) -> Result<Vec<Effect>, DecisionError> {
        let pause = self.pause(pause_id).cloned().ok_or(DecisionError::UnknownPause)?;
        let items = match target {
            PauseTarget::All { digest, verdict, reason } => {
                self.all_items(&pause, moment.now, &digest, verdict, reason.as_deref())?
            }
            PauseTarget::Items(items) => items,
        };
        self.check_items(&pause, moment.now, &items)?;
        let cancelled = items.iter().any(|item| item.verdict == Verdict::Cancel);
        for item in items {
            self.write_decision(moment.now, item, decider);
        }
        if cancelled {
            let error = ProgramError {
                code: "cancelled".to_owned(),
                message: "A person cancelled the program. Nothing that waited was sent.".to_owned(),
                line: None,
            };
            self.end(moment.now, ExecutionStatus::Cancelled, Some(error));
        } else {
            self.set_running(moment.now);
        }
        Ok(self.take_effects())
    }

    /// This release cannot replay the program any more.
    pub fn expire(&mut self, moment: &Moment, reason: &str) -> Vec<Effect> {
        let error = ProgramError { code: "program_expired".to_owned(), message: reason.to_owned(), line: None };
        self.end(moment.now, ExecutionStatus::Expired, Some(error));
        self.take_effects()
    }

    // ---- calls ----------------------------------------------------------------------------

    fn sandbox_in_turn(&mut self, attempt: u32, number: u32) -> Option<&mut Sandbox> {
        self.live
            .sandbox
            .as_mut()
            .filter(|sandbox| sandbox.attempt == attempt && sandbox.turns == number && !sandbox.waits)
    }

    fn accept_call(&mut self, now: Millis, issued: IssuedCall) -> Result<(), ProgramError> {
        let Some(sandbox) = &mut self.live.sandbox else {
            return Ok(());
        };
        if issued.seq != sandbox.issued {
            return Err(ProgramError {
                code: "sandbox_protocol".to_owned(),
                message: format!(
                    "The sandbox numbered a call {} where {} was next. The program was stopped.",
                    issued.seq, sandbox.issued
                ),
                line: issued.line,
            });
        }
        sandbox.issued += 1;
        let (arguments, refusal) = match issued.arguments {
            Ok(arguments) if arguments.len() <= self.limits.arguments_bytes => (arguments, None),
            Ok(arguments) => {
                let error = CallError::new(
                    "arguments_too_large",
                    format!(
                        "The arguments are {} bytes; {} are the limit.",
                        arguments.len(),
                        self.limits.arguments_bytes
                    ),
                );
                (Rc::from("null"), Some(error))
            }
            Err(message) => (Rc::from("null"), Some(CallError::new("invalid_tool_arguments", message))),
        };
        if let Some(recorded) = self.calls.get(issued.seq as usize) {
            return same_call(recorded, &issued.address, &arguments);
        }
        if issued.seq >= self.limits.calls {
            return Err(ProgramError {
                code: "too_many_calls".to_owned(),
                message: format!(
                    "A program may make {} calls. Split the work into several programs.",
                    self.limits.calls
                ),
                line: issued.line,
            });
        }
        self.row.journal_bytes += arguments.len() as u64;
        self.changed.row = true;
        self.changed.calls.insert(issued.seq);
        self.calls.push(CallRow {
            seq: issued.seq,
            address: issued.address,
            arguments,
            line: issued.line,
            status: CallStatus::Issued,
            issued_at: now,
            idempotent: false,
            shown: None,
            shown_before: None,
            deadline: None,
            decision: None,
            sends: 0,
            result: None,
            order: None,
            settled_at: None,
        });
        if let Some(error) = refusal {
            self.settle(now, issued.seq, error_result(&error));
        }
        Ok(())
    }

    fn apply_resolution(&mut self, now: Millis, call: &CallRow, resolution: Resolution) {
        let (ask, idempotent, shown) = match resolution {
            Resolution::Refused(error) => {
                // A call that was sent before the crash cannot be un-sent by a refusal now.
                let error = if call.sends > 0 { outcome_unknown() } else { error };
                self.settle(now, call.seq, error_result(&error));
                return;
            }
            Resolution::Ready { ask, idempotent, shown } => (ask, idempotent, shown),
        };
        let approved = call
            .decision
            .as_ref()
            .is_some_and(|decision| decision.verdict == Verdict::Accept && decision.digest == shown.digest);
        match call.status {
            CallStatus::Issued if ask => self.ask(now, call.seq, shown),
            CallStatus::Issued => self.send(call.seq, idempotent, shown),
            CallStatus::Approved if approved => self.send(call.seq, idempotent, shown),
            // The tool is not what was shown any more: the person is asked again.
            CallStatus::Approved => self.ask(now, call.seq, shown),
            CallStatus::Sent if idempotent && (approved || !ask) => {
                self.send(call.seq, idempotent, shown);
            }
            CallStatus::Sent => {
                self.settle(now, call.seq, error_result(&outcome_unknown()));
            }
            CallStatus::Waiting | CallStatus::Settled => {}
        }
    }

    fn ask(&mut self, now: Millis, seq: u32, shown: ShownCall) {
        let deadline = now.saturating_add(self.limits.approval_window_ms);
        self.change_call(seq, |call| {
            call.status = CallStatus::Waiting;
            call.shown_before = call.decision.take().and(call.shown.take());
            call.shown = Some(shown);
            call.deadline = Some(deadline);
        });
    }

    fn send(&mut self, seq: u32, idempotent: bool, shown: ShownCall) {
        self.change_call(seq, |call| {
            call.status = CallStatus::Sent;
            call.idempotent = idempotent;
            call.shown = Some(shown);
            call.sends += 1;
        });
        self.live.sending.insert(seq);
        self.changed.effects.push(Effect::Invoke { seq });
    }

    fn settle(&mut self, now: Millis, seq: u32, result: Rc<str>) {
        let order = self.row.next_order;
        let length = result.len() as u64;
        let mut settled = false;
        self.change_call(seq, |call| {
            if call.status != CallStatus::Settled {
                call.status = CallStatus::Settled;
                call.result = Some(result);
                call.order = Some(order);
                call.settled_at = Some(now);
                settled = true;
            }
        });
        if settled {
            self.row.next_order += 1;
            self.row.journal_bytes += length;
            self.row.attempts_without_progress = 0;
            self.changed.row = true;
        }
    }

    fn change_call(&mut self, seq: u32, change: impl FnOnce(&mut CallRow)) {
        if let Some(call) = self.calls.get_mut(seq as usize) {
            change(call);
            self.changed.calls.insert(seq);
        }
    }

    // ---- decisions ------------------------------------------------------------------------

    fn all_items(
        &self,
        pause: &PauseRow,
        now: Millis,
        digest: &str,
        verdict: Verdict,
        reason: Option<&str>,
    ) -> Result<Vec<DecisionItem>, DecisionError> {
        let items: Vec<DecisionItem> = self
            .undecided(pause, now)
            .filter_map(|call| {
                Some(DecisionItem {
                    seq: call.seq,
                    digest: digest_of_call(call)?.to_owned(),
                    verdict,
                    reason: reason.map(ToOwned::to_owned),
                })
            })
            .collect();
        if items.is_empty() {
            let decided = pause.items().filter_map(|seq| self.call(seq)).find_map(already_decided);
            return Err(decided.unwrap_or(DecisionError::NothingWaits));
        }
        if digest != self.digest_of_pause(pause, now) {
            return Err(DecisionError::DigestChanged { seq: None });
        }
        Ok(items)
    }

    fn check_items(&self, pause: &PauseRow, now: Millis, items: &[DecisionItem]) -> Result<(), DecisionError> {
        let distinct: BTreeSet<u32> = items.iter().map(|item| item.seq).collect();
        if items.is_empty() || distinct.len() != items.len() {
            return Err(DecisionError::BadList);
        }
        for item in items {
            let call = pause
                .items()
                .find(|seq| *seq == item.seq)
                .and_then(|seq| self.call(seq))
                .ok_or(DecisionError::UnknownCall { seq: item.seq })?;
            if let Some(error) = already_decided(call) {
                return Err(error);
            }
            let over = call.deadline.is_some_and(|deadline| deadline <= now);
            if call.status != CallStatus::Waiting || over {
                return Err(DecisionError::NothingWaits);
            }
            if digest_of_call(call) != Some(item.digest.as_str()) {
                return Err(DecisionError::DigestChanged { seq: Some(item.seq) });
            }
        }
        Ok(())
    }

    fn write_decision(&mut self, now: Millis, item: DecisionItem, decider: &Decider) {
        let declined = item.verdict != Verdict::Accept;
        let reason = item.reason.clone();
        self.change_call(item.seq, |call| {
            call.status = CallStatus::Approved;
            call.decision = Some(Decision {
                verdict: item.verdict,
                reason: item.reason,
                digest: item.digest,
                by: Some(decider.account.clone()),
                route: decider.route,
                at: now,
            });
        });
        if declined {
            self.settle(now, item.seq, error_result(&declined_error(reason)));
        }
    }

    fn expire_leases(&mut self, now: Millis) {
        let over: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| call.status == CallStatus::Waiting)
            .filter(|call| call.deadline.is_some_and(|deadline| deadline <= now))
            .map(|call| call.seq)
            .collect();
        for seq in over {
            self.change_call(seq, |call| {
                call.decision = Some(Decision {
                    verdict: Verdict::Decline,
                    reason: Some("approval_timeout".to_owned()),
                    digest: call.shown.as_ref().map(|s| s.digest.clone()).unwrap_or_default(),
                    by: None,
                    route: Route::Expiry,
                    at: now,
                });
            });
            let error = declined_error(Some("approval_timeout".to_owned()));
            self.settle(now, seq, error_result(&error));
            self.set_running(now);
        }
    }

    // ---- the course of the execution ------------------------------------------------------

    /// Does what can be done now, and hands out everything the step led to.
    fn finish_step(&mut self, moment: &Moment) -> Vec<Effect> {
        self.advance(moment);
        self.take_effects()
    }

    fn advance(&mut self, moment: &Moment) {
        if self.row.status.is_over() {
            return;
        }
        self.expire_leases(moment.now);
        if self.timeout_at().is_some_and(|at| at <= moment.now) {
            let error = ProgramError {
                code: "timeout".to_owned(),
                message: format!(
                    "The program ran for more than {} seconds (time spent waiting for a person \
                     does not count). Split the work into several programs.",
                    self.limits.execution_timeout_ms / 1_000
                ),
                line: None,
            };
            self.end(moment.now, ExecutionStatus::Failed, Some(error));
            return;
        }
        self.settle_lost_sends(moment.now);
        self.start_lookups();
        self.feed_sandbox(moment.now);
        self.judge(moment);
    }

    /// Calls that were on their way when the object was lost. One that may not be sent again has an
    /// unknown outcome, and the program is told so.
    fn settle_lost_sends(&mut self, now: Millis) {
        let lost: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| call.status == CallStatus::Sent && !call.idempotent)
            .map(|call| call.seq)
            .filter(|seq| !self.live.sending.contains(seq))
            .collect();
        for seq in lost {
            self.settle(now, seq, error_result(&outcome_unknown()));
        }
    }

    fn start_lookups(&mut self) {
        let on_their_way = self.live.resolving.len() + self.live.sending.len();
        let free = self.limits.in_flight.saturating_sub(on_their_way);
        let next: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| match call.status {
                CallStatus::Issued | CallStatus::Approved => true,
                CallStatus::Sent => !self.live.sending.contains(&call.seq),
                CallStatus::Waiting | CallStatus::Settled => false,
            })
            .map(|call| call.seq)
            .filter(|seq| !self.live.resolving.contains(seq))
            .take(free)
            .collect();
        for seq in next {
            self.live.resolving.insert(seq);
            self.changed.effects.push(Effect::Resolve { seq });
        }
    }

    fn feed_sandbox(&mut self, now: Millis) {
        let next_order = self.row.next_order;
        match &mut self.live.sandbox {
            Some(sandbox) if sandbox.waits && sandbox.delivered < next_order => {
                let from = sandbox.delivered;
                sandbox.waits = false;
                sandbox.delivered = next_order;
                let attempt = sandbox.attempt;
                let deliveries = self.deliveries_from(from);
                self.set_running(now);
                self.changed.effects.push(Effect::Answer(Reply { attempt, deliveries }));
            }
            None if self.row.status == ExecutionStatus::Running => self.start_sandbox(now),
            Some(_) | None => {}
        }
        let over = self.row.status == ExecutionStatus::Waiting && self.suspend_at().is_some_and(|at| at <= now);
        if over {
            self.drop_sandbox();
        }
    }

    fn start_sandbox(&mut self, now: Millis) {
        if self.row.attempts_without_progress >= self.limits.attempts_without_progress {
            let error = ProgramError {
                code: "sandbox_failed".to_owned(),
                message: format!(
                    "The program was started {} times without getting further. It may use too \
                     much memory or time; work in smaller programs.",
                    self.row.attempts_without_progress
                ),
                line: None,
            };
            self.end(now, ExecutionStatus::Failed, Some(error));
            return;
        }
        self.row.attempts += 1;
        self.row.attempts_without_progress += 1;
        // The time between a crash and now is nobody's running time.
        if self.row.attempts > 1 {
            self.row.running_since = Some(now);
        }
        self.changed.row = true;
        let attempt = self.row.attempts;
        self.live.sandbox = Some(Sandbox {
            attempt,
            waits: false,
            turns: 0,
            issued: 0,
            delivered: self.row.next_order,
            to_replay: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            finish: None,
        });
        let boot = Boot {
            attempt,
            started_at: self.row.created_at,
            seed: self.row.seed.clone(),
            settled: self.deliveries_from(0),
        };
        self.changed.effects.push(Effect::StartSandbox(boot));
    }

    fn deliveries_from(&self, order: u32) -> Vec<Delivery> {
        let mut deliveries: Vec<Delivery> = self
            .calls
            .iter()
            .filter_map(|call| {
                Some(Delivery {
                    seq: call.seq,
                    order: call.order.filter(|own| *own >= order)?,
                    at: call.settled_at?,
                    result: Rc::clone(call.result.as_ref()?),
                })
            })
            .collect();
        deliveries.sort_by_key(|delivery| delivery.order);
        deliveries
    }

    /// Decides whether the execution is over, or can only wait.
    fn judge(&mut self, moment: &Moment) {
        let quiet = self.live.resolving.is_empty()
            && self.live.sending.is_empty()
            && self.calls.iter().all(|call| matches!(call.status, CallStatus::Waiting | CallStatus::Settled));
        let Some(sandbox) = &mut self.live.sandbox else {
            return;
        };
        if !quiet || !sandbox.waits || sandbox.delivered != self.row.next_order {
            return;
        }
        if self.calls.iter().any(CallRow::is_open) {
            self.pause_here(moment);
            return;
        }
        if let Some(finish) = sandbox.finish.take() {
            self.complete(moment.now, finish);
            return;
        }
        let error = ProgramError {
            code: "never_settles".to_owned(),
            message:
                "The program waits for a promise that nothing will settle. Await only tool calls and what depends \
                      on them."
                    .to_owned(),
            line: None,
        };
        self.end(moment.now, ExecutionStatus::Failed, Some(error));
    }

    fn pause_here(&mut self, moment: &Moment) {
        let waiting: Vec<u32> =
            self.calls.iter().filter(|call| call.status == CallStatus::Waiting).map(|call| call.seq).collect();
        let earliest = |seqs: &[u32], calls: &[CallRow]| {
            seqs.iter().filter_map(|seq| calls.get(*seq as usize)?.deadline).min().unwrap_or(moment.now)
        };
        let next = u32::try_from(self.pauses.len()).unwrap_or(u32::MAX);
        let open = self.pauses.last_mut().filter(|pause| pause.led_to.is_none());
        match open {
            Some(pause) if pause.items().any(|seq| waiting.contains(&seq)) => {
                let known: BTreeSet<u32> = pause.items().collect();
                let new = waiting.iter().filter(|seq| !known.contains(seq));
                let before = pause.joined.len();
                pause.joined.extend(new);
                if pause.joined.len() > before {
                    self.changed.pauses.insert(pause.number);
                }
            }
            open => {
                if let Some(pause) = open {
                    pause.led_to = Some(LedTo::Pause(next));
                    self.changed.pauses.insert(pause.number);
                }
                self.pauses.push(PauseRow {
                    id: moment.nonce.clone(),
                    number: next,
                    created_at: moment.now,
                    expires_at: earliest(&waiting, &self.calls),
                    reported: waiting,
                    joined: Vec::new(),
                    led_to: None,
                });
                self.changed.pauses.insert(next);
                self.changed.effects.push(Effect::Report);
            }
        }
        if self.row.status != ExecutionStatus::Waiting {
            self.stop_clock(moment.now);
            self.row.status = ExecutionStatus::Waiting;
            self.row.waiting_since = Some(moment.now);
            self.changed.row = true;
        }
    }

    fn complete(&mut self, now: Millis, finish: Finish) {
        let (status, result, error) = match finish.result {
            Ok(result) => (ExecutionStatus::Completed, result, None),
            Err(error) => (ExecutionStatus::Failed, None, Some(error)),
        };
        let outcome = Outcome { result, error, emitted: finish.emitted, logs: finish.logs, logs_cut: finish.logs_cut };
        self.end_with(now, status, outcome);
    }

    fn end(&mut self, now: Millis, status: ExecutionStatus, error: Option<ProgramError>) {
        let outcome = Outcome { result: None, error, emitted: Vec::new(), logs: Vec::new(), logs_cut: false };
        self.end_with(now, status, outcome);
    }

    /// The end is final: what was reported once never changes.
    fn end_with(&mut self, now: Millis, status: ExecutionStatus, outcome: Outcome) {
        if self.row.status.is_over() {
            return;
        }
        let unsent: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| match call.status {
                CallStatus::Issued | CallStatus::Waiting | CallStatus::Approved => true,
                CallStatus::Sent | CallStatus::Settled => false,
            })
            .map(|call| call.seq)
            .collect();
        for seq in unsent {
            let error =
                CallError::new("execution_over", "The program ended before the call was sent; it was not sent.");
            self.settle(now, seq, error_result(&error));
        }
        self.stop_clock(now);
        self.row.status = status;
        self.row.ended_at = Some(now);
        self.row.waiting_since = None;
        self.row.outcome = Some(Rc::new(outcome));
        self.changed.row = true;
        if let Some(pause) = self.pauses.last_mut().filter(|pause| pause.led_to.is_none()) {
            pause.led_to = Some(LedTo::Outcome);
            self.changed.pauses.insert(pause.number);
        }
        // What the step had planned before it came to an end is not done any more, except sends:
        // they are recorded as sent.
        self.changed.effects.retain(|effect| matches!(effect, Effect::Invoke { .. }));
        self.live.resolving.clear();
        self.drop_sandbox();
        self.changed.effects.push(Effect::Report);
    }

    fn drop_sandbox(&mut self) {
        if let Some(sandbox) = self.live.sandbox.take() {
            self.changed.effects.push(Effect::DropSandbox { attempt: sandbox.attempt });
        }
    }

    fn set_running(&mut self, now: Millis) {
        if self.row.status == ExecutionStatus::Waiting {
            self.row.status = ExecutionStatus::Running;
            self.row.running_since = Some(now);
            self.row.waiting_since = None;
            self.changed.row = true;
        }
    }

    fn stop_clock(&mut self, now: Millis) {
        if let Some(since) = self.row.running_since.take() {
            self.row.ran_ms += now.saturating_sub(since);
        }
    }

    fn timeout_at(&self) -> Option<Millis> {
        let left = self.limits.execution_timeout_ms.saturating_sub(self.row.ran_ms);
        Some(self.row.running_since?.saturating_add(left))
    }

    fn suspend_at(&self) -> Option<Millis> {
        Some(self.row.waiting_since?.saturating_add(self.limits.suspend_after_ms))
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        let changed = std::mem::take(&mut self.changed);
        let mut writes = Vec::new();
        if changed.row {
            writes.push(Write::Execution(self.row.clone()));
        }
        let calls = changed.calls.iter().filter_map(|seq| self.call(*seq));
        writes.extend(calls.cloned().map(Write::Call));
        let pauses = changed.pauses.iter().filter_map(|number| self.pauses.get(*number as usize));
        writes.extend(pauses.cloned().map(Write::Pause));
        let mut effects = Vec::with_capacity(changed.effects.len() + 1);
        if !writes.is_empty() {
            effects.push(Effect::Commit(writes));
        }
        effects.extend(changed.effects);
        effects
    }
}

fn digest_of_call(call: &CallRow) -> Option<&str> {
    call.shown.as_ref().map(|shown| shown.digest.as_str())
}

fn already_decided(call: &CallRow) -> Option<DecisionError> {
    call.decision
        .as_ref()
        .map(|decision| DecisionError::AlreadyDecided { seq: call.seq, decision: Box::new(decision.clone()) })
}

fn declined_error(reason: Option<String>) -> CallError {
    let message = match reason.as_deref() {
        Some("approval_timeout") => "Nobody decided in time, so the call was not sent.",
        _ => "A person declined this call; it was not sent.",
    };
    CallError { reason, ..CallError::new("declined", message) }
}

fn outcome_unknown() -> CallError {
    CallError::new(
        "outcome_unknown",
        "The gateway was interrupted while this call was on its way. It may or may not have been \
         carried out, and it was not sent again. Check before you repeat it.",
    )
}

fn replay_error(message: String) -> ProgramError {
    ProgramError { code: "nondeterministic_replay".to_owned(), message, line: None }
}

fn same_call(recorded: &CallRow, address: &str, arguments: &str) -> Result<(), ProgramError> {
    let differs = if recorded.address != address {
        format!("it called {address} where {} was recorded", recorded.address)
    } else if *recorded.arguments != *arguments {
        format!("its call of {address} has other arguments than were recorded")
    } else {
        return Ok(());
    };
    Err(replay_error(format!(
        "Call {} of the program differs when it is run again: {differs}. A program has to make \
         the same calls when it gets the same results.",
        recorded.seq
    )))
}
