//! What becomes of a single call: taken from the sandbox, looked up, asked about, sent, settled.

use std::rc::Rc;

use super::{Execution, Sandbox, replay_error};
use crate::approval::{Decision, Route, ShownCall, Verdict};
use crate::engine::call_result::{CallError, error_result};
use crate::engine::interface::{Effect, Granted, IssuedCall, Resolution};
use crate::engine::row::{CallRow, CallStatus, Millis, ProgramError};

impl Execution {
    pub(super) fn sandbox_in_turn(&mut self, attempt: u32, number: u32) -> Option<&mut Sandbox> {
        self.live
            .sandbox
            .as_mut()
            .filter(|sandbox| sandbox.attempt == attempt && sandbox.turns == number && !sandbox.waits)
    }

    pub(super) fn accept_call(&mut self, now: Millis, issued: IssuedCall) -> Result<(), ProgramError> {
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
            return same_call(recorded, &issued.address, &arguments, issued.timer.is_some());
        }
        if issued.seq >= self.limits.calls {
            return Err(ProgramError {
                code: "too_many_calls".to_owned(),
                message: format!(
                    "A program may make {} calls, timers included. Split the work into several programs, and let each \
                     return what the next one needs.",
                    self.limits.calls
                ),
                line: issued.line,
            });
        }
        // Kept twice: as the program wrote them, and as they are sent.
        let bytes = 2 * arguments.len() as u64;
        if !self.journal_takes(bytes) {
            return Err(ProgramError {
                code: "journal_full".to_owned(),
                message: format!(
                    "The arguments and results of this program exceed {} bytes, or those of all open programs of the \
                     session do. Work in smaller programs.",
                    self.limits.journal_bytes
                ),
                line: issued.line,
            });
        }
        let due = issued.timer.map(|length| now.saturating_add(length.min(self.limits.approval_window_ms)));
        self.row.journal_bytes += bytes;
        self.changed.row = true;
        self.changed.calls.insert(issued.seq);
        self.calls.push(CallRow {
            seq: issued.seq,
            address: issued.address,
            arguments,
            edited: None,
            line: issued.line,
            status: if due.is_some() { CallStatus::Sleeping } else { CallStatus::Issued },
            issued_at: now,
            due,
            idempotent: false,
            shown: None,
            shown_before: None,
            deadline: None,
            decision: None,
            sends: 0,
            result: None,
            order: None,
            settled_at: None,
            questions: Vec::new(),
        });
        if let Some(error) = refusal {
            self.settle(now, issued.seq, error_result(&error));
        }
        Ok(())
    }

    pub(super) fn apply_resolution(&mut self, now: Millis, call: &CallRow, resolution: Resolution) {
        let (ask, idempotent, shown, granted) = match resolution {
            Resolution::Refused(error) => {
                // A call that was sent before the crash cannot be un-sent by a refusal now.
                let error = if call.sends > 0 { outcome_unknown() } else { error };
                self.settle(now, call.seq, error_result(&error));
                return;
            }
            Resolution::Answered(result) => {
                let result = self.kept(result);
                self.settle(now, call.seq, result);
                return;
            }
            Resolution::Stopped { ask, shown, error } => {
                match call.status {
                    CallStatus::Approved => {
                        // It is the same call, so nothing changed since it was shown.
                        self.change_call(call.seq, |call| call.decision = None);
                        self.ask(now, call.seq, shown);
                    }
                    CallStatus::Issued if ask => self.ask(now, call.seq, shown),
                    CallStatus::Issued => self.settle(now, call.seq, error_result(&error)),
                    CallStatus::Sent => self.settle(now, call.seq, error_result(&outcome_unknown())),
                    CallStatus::Waiting | CallStatus::Sleeping | CallStatus::Settled => {}
                }
                return;
            }
            Resolution::Ready { ask, idempotent, shown, granted } => (ask, idempotent, shown, granted),
        };
        let granted = granted.filter(|granted| shown.approvers.admit(granted.standing));
        let asked_of = call.shown.as_ref().map(|shown| shown.approvers).unwrap_or_default();
        let approved = call.decision.as_ref().is_some_and(|decision| {
            decision.verdict == Verdict::Accept
                && decision.digest == shown.digest
                && shown.approvers.still_satisfied(asked_of, decision.standing)
                // A grant that was revoked sends nothing again.
                && (decision.route != Route::Grant || granted.is_some())
        });
        match (call.status, granted) {
            (CallStatus::Issued, Some(granted)) if ask => {
                self.approve_by_grant(now, call.seq, &shown, granted);
                self.send(call.seq, idempotent, shown);
            }
            (status, _) => self.act_on_lookup(now, call.seq, status, (ask, approved), (idempotent, shown)),
        }
    }

    fn approve_by_grant(&mut self, now: Millis, seq: u32, shown: &ShownCall, granted: Granted) {
        let decision = Decision {
            verdict: Verdict::Accept,
            reason: None,
            digest: shown.digest.clone(),
            by: Some(granted.by),
            route: Route::Grant,
            at: now,
            standing: granted.standing,
            edited: false,
            grant: Some(granted.id),
            gives: None,
        };
        self.change_call(seq, |call| call.decision = Some(decision));
    }

    fn act_on_lookup(
        &mut self,
        now: Millis,
        seq: u32,
        status: CallStatus,
        (ask, approved): (bool, bool),
        (idempotent, shown): (bool, ShownCall),
    ) {
        match status {
            CallStatus::Issued if ask => self.ask(now, seq, shown),
            CallStatus::Issued => self.send(seq, idempotent, shown),
            CallStatus::Approved if approved => self.send(seq, idempotent, shown),
            // The tool is not what was shown any more, or who decided may not any more: a person is asked again.
            CallStatus::Approved => self.ask(now, seq, shown),
            CallStatus::Sent if idempotent && (approved || !ask) => {
                self.send(seq, idempotent, shown);
            }
            CallStatus::Sent => {
                self.settle(now, seq, error_result(&outcome_unknown()));
            }
            CallStatus::Waiting | CallStatus::Sleeping | CallStatus::Settled => {}
        }
    }

    pub(super) fn ask(&mut self, now: Millis, seq: u32, shown: ShownCall) {
        let deadline = now.saturating_add(self.limits.approval_window_ms);
        self.change_call(seq, |call| {
            call.status = CallStatus::Waiting;
            call.shown_before = call.decision.take().and(call.shown.take());
            call.shown = Some(shown);
            call.deadline = Some(deadline);
        });
    }

    pub(super) fn send(&mut self, seq: u32, idempotent: bool, shown: ShownCall) {
        self.change_call(seq, |call| {
            call.status = CallStatus::Sent;
            call.idempotent = idempotent;
            call.shown = Some(shown);
            call.sends += 1;
            // Asked before a crash: the tool that asked is not the one that hears of this.
            call.questions.iter_mut().for_each(|question| question.withdrawn |= question.decision.is_none());
        });
        self.live.sending.insert(seq);
        self.changed.effects.push(Effect::Invoke { seq });
    }

    pub(super) fn settle(&mut self, now: Millis, seq: u32, result: Rc<str>) {
        let order = self.row.next_order;
        let result = match self.call(seq) {
            Some(CallRow { edited: Some(edited), sends: 1.., .. }) => with_edit(result, edited),
            Some(_) | None => result,
        };
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
            self.row.settling = self.row.settling && self.calls.iter().any(|call| call.status == CallStatus::Sent);
            self.changed.row = true;
        }
    }

    pub(super) fn change_call(&mut self, seq: u32, change: impl FnOnce(&mut CallRow)) {
        if let Some(call) = self.calls.get_mut(seq as usize) {
            change(call);
            self.changed.calls.insert(seq);
        }
    }
}

/// The result of a call with other arguments than the program's says so.
fn with_edit(result: Rc<str>, edited: &str) -> Rc<str> {
    match result.strip_suffix('}') {
        Some(members) => format!(r#"{members},"edited":{{"arguments":{edited}}}}}"#).into(),
        None => result,
    }
}

pub(super) fn outcome_unknown() -> CallError {
    CallError::new(
        "outcome_unknown",
        "The gateway was interrupted while this call was on its way. It may or may not have been \
         carried out, and it was not sent again. Check before you repeat it.",
    )
}

fn same_call(recorded: &CallRow, address: &str, arguments: &str, timer: bool) -> Result<(), ProgramError> {
    if recorded.address == address && *recorded.arguments == *arguments && recorded.due.is_some() == timer {
        return Ok(());
    }
    Err(replay_error(format!(
        "Call {} of the program differs when it is run again. Recorded was {}({}); now it is {}({}). A program has to make \
         the same calls when it gets the same results.",
        recorded.seq + 1,
        recorded.address,
        shortened(&recorded.arguments),
        address,
        shortened(arguments),
    )))
}

/// Enough to see the difference; the end often tells more than the middle.
fn shortened(text: &str) -> String {
    const PART: usize = 150;
    let length = text.chars().count();
    if length <= 2 * PART {
        return text.to_owned();
    }
    let (head, tail): (String, String) =
        (text.chars().take(PART).collect(), text.chars().skip(length - PART).collect());
    format!("{head}…{tail}")
}
