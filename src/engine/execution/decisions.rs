//! Decisions: what they are checked against, what they write. Nothing here sends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Execution;
use crate::approval::{Decision, Route, Verdict};
use crate::engine::call_result::{CallError, error_result};
use crate::engine::interface::{Decider, DecisionError, DecisionItem};
use crate::engine::row::{CallRow, CallStatus, ExecutionStatus, Millis, PauseRow, ProgramError};

impl Execution {
    pub(super) fn all_items(
        &self,
        pause: &PauseRow,
        now: Millis,
        digest: &str,
        (verdict, reason): (Verdict, Option<&str>),
        contents: &BTreeMap<u32, Rc<str>>,
    ) -> Result<Vec<DecisionItem>, DecisionError> {
        let items: Vec<DecisionItem> = self
            .undecided(pause, now)
            .filter_map(|call| {
                Some(DecisionItem {
                    seq: call.seq,
                    digest: self.digest_asked(call)?.to_owned(),
                    verdict,
                    reason: reason.map(ToOwned::to_owned),
                    content: contents.get(&call.seq).cloned(),
                })
            })
            .collect();
        if items.is_empty() {
            let decided = pause.items().filter_map(|seq| self.call(seq)).find_map(|call| self.already_decided(call));
            return Err(decided.unwrap_or(DecisionError::NothingWaits));
        }
        if digest != self.digest_of_pause(pause, now) {
            return Err(DecisionError::DigestChanged { seq: None });
        }
        Ok(items)
    }

    pub(super) fn check_items(
        &self,
        pause: &PauseRow,
        now: Millis,
        items: &[DecisionItem],
    ) -> Result<(), DecisionError> {
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
            if let Some(error) = self.already_decided(call) {
                return Err(error);
            }
            let over = self.deadline_of(call).is_some_and(|deadline| deadline <= now);
            if !self.waits_for_person(call) || over {
                return Err(DecisionError::NothingWaits);
            }
            if self.digest_asked(call) != Some(item.digest.as_str()) {
                return Err(DecisionError::DigestChanged { seq: Some(item.seq) });
            }
            let needs_content = self.asked(call).is_some_and(|question| question.form);
            if item.verdict == Verdict::Accept && needs_content && item.content.is_none() {
                let problem = "the tool asks for values, and there are none.".to_owned();
                return Err(DecisionError::BadAnswer { seq: item.seq, problem });
            }
        }
        Ok(())
    }

    fn already_decided(&self, call: &CallRow) -> Option<DecisionError> {
        if self.asks(call) {
            return None;
        }
        let answered = call.questions.last().and_then(|question| question.decision.as_ref());
        answered
            .or(call.decision.as_ref())
            .map(|decision| DecisionError::AlreadyDecided { seq: call.seq, decision: Box::new(decision.clone()) })
    }

    pub(super) fn end_by_person(&mut self, now: Millis, reason: Option<String>, decider: &Decider) {
        let (by, route) = (Some(decider.account.clone()), decider.route);
        self.row.stopped =
            Some(Decision { verdict: Verdict::Cancel, reason, digest: String::new(), by, route, at: now });
        let error = ProgramError {
            code: "cancelled".to_owned(),
            message: "A person cancelled the program. Nothing that waited was sent.".to_owned(),
            line: None,
        };
        self.end(now, ExecutionStatus::Cancelled, Some(error));
    }

    pub(super) fn write_decision(&mut self, now: Millis, item: DecisionItem, decider: &Decider) {
        if self.call(item.seq).is_some_and(|call| self.asks(call)) {
            self.write_answer(now, item, decider);
            return;
        }
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

    pub(super) fn expire_leases(&mut self, now: Millis) {
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
        self.expire_questions(now);
    }
}

fn declined_error(reason: Option<String>) -> CallError {
    let message = match reason.as_deref() {
        Some("approval_timeout") => "Nobody decided in time, so the call was not sent.",
        _ => "A person declined this call; it was not sent.",
    };
    CallError { reason, ..CallError::new("declined", message) }
}
