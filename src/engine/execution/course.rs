//! The course of an execution: what is done next, when it pauses, how it ends.

use std::rc::Rc;

use super::calls::outcome_unknown;
use super::{Execution, Moment, Sandbox};
use crate::approval::Verdict;
use crate::engine::call_result::{CallError, error_result};
use crate::engine::interface::{Boot, Delivery, Effect, Finish, Reply, Write};
use crate::engine::row::{
    CallRow, CallStatus, ExecutionStatus, LedTo, LogLine, Millis, Outcome, Output, PauseRow, ProgramError, ReportedCall,
};

impl Execution {
    /// Does what can be done now, and hands out everything the step led to.
    ///
    /// Nothing is written yet while calls were only made, looked up, or sent to be read: nothing has to be durable before a read may
    /// leave. The next commit writes these rows with its own. Lost with the object's memory they are made again: the results
    /// that were delivered are written, the calls that follow from them are the same ones, and a read may be sent again.
    pub(super) fn finish_step(&mut self, moment: &Moment) -> Vec<Effect> {
        self.advance(moment);
        if self.only_reads() { std::mem::take(&mut self.changed.effects) } else { self.take_effects() }
    }

    /// Whether the changes that are not written yet are all such.
    fn only_reads(&self) -> bool {
        let changed = &self.changed;
        self.row.status == ExecutionStatus::Running
            && changed.pauses.is_empty()
            && !changed.output
            && !changed.calls.is_empty()
            && changed.calls.iter().filter_map(|seq| self.call(*seq)).all(CallRow::may_be_made_again)
            && changed.effects.iter().all(|effect| matches!(effect, Effect::Resolve { .. } | Effect::Invoke { .. }))
    }

    pub(super) fn advance(&mut self, moment: &Moment) {
        if self.row.status.is_over() {
            self.give_up_lost_sends(moment.now);
            return;
        }
        self.expire_leases(moment.now);
        self.fire_timers(moment.now);
        // The time between a crash and now is nobody's running time.
        let at_rest = self.live.sandbox.is_none() && self.live.resolving.is_empty() && self.live.sending.is_empty();
        if self.row.status == ExecutionStatus::Running && at_rest {
            self.row.running_since = Some(moment.now);
        }
        if self.timeout_at().is_some_and(|at| at <= moment.now) {
            let error = ProgramError {
                code: "timeout".to_owned(),
                message: format!(
                    "The program ran for more than {} ms (time spent waiting for a person or sleeping does not count). \
                     Split the work into several programs.",
                    self.limits.execution_timeout_ms
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
    pub(super) fn settle_lost_sends(&mut self, now: Millis) {
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

    /// After the end nobody reads results any more: what was on its way when the object was lost is written down as that.
    fn give_up_lost_sends(&mut self, now: Millis) {
        let lost: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| call.status == CallStatus::Sent && !self.live.sending.contains(&call.seq))
            .map(|call| call.seq)
            .collect();
        for seq in lost {
            self.settle(now, seq, error_result(&outcome_unknown()));
        }
    }

    pub(super) fn start_lookups(&mut self) {
        let on_their_way = self.live.resolving.len() + self.live.sending.len();
        let free = self.limits.in_flight.saturating_sub(on_their_way);
        let next: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| match call.status {
                CallStatus::Issued | CallStatus::Approved => true,
                CallStatus::Sent => !self.live.sending.contains(&call.seq),
                CallStatus::Waiting | CallStatus::Sleeping | CallStatus::Settled => false,
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

    pub(super) fn feed_sandbox(&mut self, now: Millis) {
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
            None if self.row.status == ExecutionStatus::Running && self.live.restart_at <= now => {
                self.start_sandbox(now);
            }
            Some(_) | None => {}
        }
        let at_rest = matches!(self.row.status, ExecutionStatus::Waiting | ExecutionStatus::Sleeping);
        let over = at_rest && self.suspend_at().is_some_and(|at| at <= now);
        if over {
            self.drop_sandbox();
        }
    }

    pub(super) fn start_sandbox(&mut self, now: Millis) {
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
        self.changed.row = true;
        let attempt = self.row.attempts;
        self.live.sandbox = Some(Sandbox {
            attempt,
            waits: false,
            turns: 0,
            issued: 0,
            delivered: self.row.next_order,
            to_replay: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            queued: false,
            output: Output::default(),
            finish: None,
        });
        let boot = Boot {
            attempt,
            started_at: self.row.created_at,
            seed: self.row.seed.clone(),
            longest_timer: self.limits.approval_window_ms,
            settled: self.deliveries_from(0),
        };
        self.changed.effects.push(Effect::StartSandbox(boot));
    }

    pub(super) fn deliveries_from(&self, order: u32) -> Vec<Delivery> {
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
    pub(super) fn judge(&mut self, moment: &Moment) {
        let quiet = self.live.resolving.is_empty()
            && self.calls.iter().all(|call| match call.status {
                CallStatus::Waiting | CallStatus::Sleeping | CallStatus::Settled => true,
                CallStatus::Sent => self.asks(call),
                CallStatus::Issued | CallStatus::Approved => false,
            });
        let person = self.calls.iter().any(|call| self.waits_for_person(call));
        let Some(sandbox) = &mut self.live.sandbox else {
            return;
        };
        if !quiet || !sandbox.waits || sandbox.delivered != self.row.next_order {
            return;
        }
        if person {
            self.pause_here(moment);
            return;
        }
        if self.calls.iter().any(CallRow::is_open) {
            self.rest(moment.now, ExecutionStatus::Sleeping);
            return;
        }
        if let Some(finish) = sandbox.finish.take() {
            self.complete(moment.now, finish);
            return;
        }
        let error = ProgramError {
            code: "never_settles".to_owned(),
            message:
                "The program waits for a promise that nothing will settle. Await only tool calls, timers and what \
                 depends on them."
                    .to_owned(),
            line: None,
        };
        self.end(moment.now, ExecutionStatus::Failed, Some(error));
    }

    /// Reports everything that waits. The open pause goes on as long as it asked for all of it; a question that is new,
    /// or that has to be asked again, is reported in a pause of its own.
    pub(super) fn pause_here(&mut self, moment: &Moment) {
        let waiting: Vec<&CallRow> = self.calls.iter().filter(|call| self.waits_for_person(call)).collect();
        let open = self.pauses.last().filter(|pause| pause.led_to.is_none());
        if !open.is_some_and(|pause| {
            waiting.iter().all(|call| pause.has_asked_them(call.seq, self.digest_asked(call), self.approvers_of(call)))
        }) {
            let expires_at = waiting.iter().filter_map(|call| self.deadline_of(call)).min().unwrap_or(moment.now);
            let reported = waiting
                .iter()
                .filter_map(|call| {
                    let digest = self.digest_asked(call)?.to_owned();
                    Some(ReportedCall { call: call.seq, digest, by: self.approvers_of(call) })
                })
                .collect();
            self.add_pause(moment, reported, expires_at);
        }
        if self.has_question() {
            // A request is on its way, so this is not rest; but the program does not spend its time.
            self.hold_clock(moment.now);
        } else {
            self.rest(moment.now, ExecutionStatus::Waiting);
        }
    }

    /// A new pause, which the open one, if there is one, led to.
    pub(super) fn add_pause(&mut self, moment: &Moment, reported: Vec<ReportedCall>, expires_at: Millis) {
        let number = u32::try_from(self.pauses.len()).unwrap_or(u32::MAX);
        if let Some(pause) = self.pauses.last_mut().filter(|pause| pause.led_to.is_none()) {
            pause.led_to = Some(LedTo::Pause(number));
            self.changed.pauses.insert(pause.number);
        }
        let (id, created_at) = (moment.nonce.clone(), moment.now);
        self.pauses.push(PauseRow { id, number, created_at, expires_at, reported, led_to: None });
        self.changed.pauses.insert(number);
        self.changed.effects.push(Effect::Report);
    }

    /// Nothing can be done before somebody decides or time goes by.
    fn rest(&mut self, now: Millis, status: ExecutionStatus) {
        if self.row.status != status {
            self.stop_clock(now);
            self.row.status = status;
            self.row.waiting_since = Some(now);
            self.changed.row = true;
        }
    }

    pub(super) fn complete(&mut self, now: Millis, finish: Finish) {
        let (status, result, error) = match finish.result {
            Ok(result) => (ExecutionStatus::Completed, result, None),
            Err(error) => (ExecutionStatus::Failed, None, Some(error)),
        };
        self.end_with(now, status, result, error, finish.warnings);
    }

    pub(super) fn end(&mut self, now: Millis, status: ExecutionStatus, error: Option<ProgramError>) {
        let finish = self.live.sandbox.as_mut().and_then(|sandbox| sandbox.finish.take());
        self.end_with(now, status, None, error, finish.map(|finish| finish.warnings).unwrap_or_default());
    }

    /// The end is final: what was reported once never changes.
    fn end_with(
        &mut self,
        now: Millis,
        status: ExecutionStatus,
        result: Option<String>,
        error: Option<ProgramError>,
        warnings: Vec<LogLine>,
    ) {
        if self.row.status.is_over() {
            return;
        }
        self.forget_timers(now);
        let mut said = self.output().clone();
        said.add(Output { logs: warnings, ..Output::default() });
        let Output { emitted, logs, logs_cut } = said;
        let outcome = Outcome { result, error, emitted, logs, logs_cut };
        let unsent: Vec<u32> = self
            .calls
            .iter()
            .filter(|call| match call.status {
                CallStatus::Issued | CallStatus::Waiting | CallStatus::Approved => true,
                CallStatus::Sleeping | CallStatus::Sent | CallStatus::Settled => false,
            })
            .map(|call| call.seq)
            .collect();
        for seq in unsent {
            let error =
                CallError::new("execution_over", "The program ended before the call was sent; it was not sent.");
            self.settle(now, seq, error_result(&error));
        }
        let asking: Vec<u32> = self.calls.iter().filter(|call| self.asks(call)).map(|call| call.seq).collect();
        self.stop_clock(now);
        self.row.status = status;
        self.row.ended_at = Some(now);
        self.row.waiting_since = None;
        self.row.settling = self.calls.iter().any(|call| call.status == CallStatus::Sent);
        self.row.outcome = Some(Rc::new(outcome));
        self.changed.row = true;
        if let Some(pause) = self.pauses.last_mut().filter(|pause| pause.led_to.is_none()) {
            pause.led_to = Some(LedTo::Outcome);
            self.changed.pauses.insert(pause.number);
        }
        // What the step had planned before it came to an end is not done any more, except sends:
        // they are recorded as sent; and answers, for which tools wait.
        self.changed.effects.retain(|effect| matches!(effect, Effect::Invoke { .. } | Effect::Tell { .. }));
        for seq in asking {
            self.withdraw(seq);
            self.changed.effects.push(Effect::Tell { seq, verdict: Verdict::Cancel, content: None });
        }
        self.live.resolving.clear();
        self.drop_sandbox();
        self.changed.output = false;
        self.changed.effects.push(Effect::Report);
    }

    pub(super) fn drop_sandbox(&mut self) {
        if let Some(attempt) = self.forget_sandbox() {
            self.changed.effects.push(Effect::DropSandbox { attempt });
        }
    }

    /// The sandbox is gone; what it said is kept. Gives its number.
    pub(super) fn forget_sandbox(&mut self) -> Option<u32> {
        let sandbox = self.live.sandbox.take()?;
        if sandbox.to_replay == 0 && sandbox.output != self.output {
            self.output = sandbox.output;
            self.changed.output = true;
        }
        Some(sandbox.attempt)
    }

    pub(super) fn set_running(&mut self, now: Millis) {
        if matches!(self.row.status, ExecutionStatus::Waiting | ExecutionStatus::Sleeping) {
            self.row.status = ExecutionStatus::Running;
            self.row.running_since = Some(now);
            self.row.waiting_since = None;
            self.changed.row = true;
        } else if self.row.status == ExecutionStatus::Running && self.row.running_since.is_none() && !self.is_queued() {
            self.row.running_since = Some(now);
            self.changed.row = true;
        }
    }

    /// It runs, but the time is not its own: a person is asked, or there is no place for its sandbox yet.
    pub(super) fn hold_clock(&mut self, now: Millis) {
        if self.row.running_since.is_some() {
            self.stop_clock(now);
            self.changed.row = true;
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.live.sandbox.as_ref().is_some_and(|sandbox| sandbox.queued)
    }

    pub(super) fn stop_clock(&mut self, now: Millis) {
        if let Some(since) = self.row.running_since.take() {
            self.row.ran_ms += now.saturating_sub(since);
        }
    }

    pub(super) fn timeout_at(&self) -> Option<Millis> {
        let left = self.limits.execution_timeout_ms.saturating_sub(self.row.ran_ms);
        Some(self.row.running_since?.saturating_add(left))
    }

    pub(super) fn suspend_at(&self) -> Option<Millis> {
        Some(self.row.waiting_since?.saturating_add(self.limits.suspend_after_ms))
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        let changed = std::mem::take(&mut self.changed);
        let mut writes = Vec::new();
        if changed.row {
            writes.push(Write::Execution(self.row.clone()));
        }
        let calls = changed.calls.iter().filter_map(|seq| self.call(*seq));
        writes.extend(calls.cloned().map(Write::Call));
        let pauses = changed.pauses.iter().filter_map(|number| self.pauses.get(*number as usize));
        writes.extend(pauses.cloned().map(Write::Pause));
        if changed.output {
            writes.push(Write::Output(self.output.clone()));
        }
        let mut effects = Vec::with_capacity(changed.effects.len() + 1);
        if !writes.is_empty() {
            effects.push(Effect::Commit(writes));
        }
        effects.extend(changed.effects);
        effects
    }
}
