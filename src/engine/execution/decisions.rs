//! Decisions: what they are checked against, what they write. Nothing here sends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Execution;
use crate::approval::{Approvers, Decision, Standing, TIMEOUT, Verdict, call_digest};
use crate::engine::call_result::{CallError, error_result};
use crate::engine::interface::{Decider, DecisionError, DecisionItem, Edited};
use crate::engine::row::{CallRow, CallStatus, ExecutionStatus, Millis, PauseRow, ProgramError};

/// What goes with one decision on several calls, by calls.
pub(super) struct Enclosed<'e> {
    pub(super) contents: &'e BTreeMap<u32, Rc<str>>,
    pub(super) edits: &'e BTreeMap<u32, Edited>,
    pub(super) gives: &'e BTreeMap<u32, String>,
}

impl Execution {
    pub(super) fn all_items(
        &self,
        pause: &PauseRow,
        now: Millis,
        digest: &str,
        (verdict, reason): (Verdict, Option<&str>),
        enclosed: &Enclosed<'_>,
    ) -> Result<Vec<DecisionItem>, DecisionError> {
        let items: Vec<DecisionItem> = self
            .undecided(pause, now)
            .filter_map(|call| {
                Some(DecisionItem {
                    seq: call.seq,
                    digest: self.digest_asked(call)?.to_owned(),
                    verdict,
                    reason: reason.map(ToOwned::to_owned),
                    content: enclosed.contents.get(&call.seq).cloned(),
                    edited: enclosed.edits.get(&call.seq).cloned(),
                    gives: enclosed.gives.get(&call.seq).cloned(),
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
        standing: Standing,
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
            let approvers = self.approvers_of(call);
            // To end the program is its owner's, and nobody else's.
            let approvers = if item.verdict == Verdict::Cancel { Approvers::Owner } else { approvers };
            if !approvers.admit(standing) {
                return Err(DecisionError::NotYours { seq: item.seq, approvers });
            }
            if self.digest_asked(call) != Some(item.digest.as_str()) {
                return Err(DecisionError::DigestChanged { seq: Some(item.seq) });
            }
            let needs_content = self.asked(call).is_some_and(|question| question.form);
            if item.verdict == Verdict::Accept && needs_content && item.content.is_none() {
                let problem = "the tool asks for values, and there are none.".to_owned();
                return Err(DecisionError::BadAnswer { seq: item.seq, problem });
            }
            self.check_edit(call, item)?;
        }
        Ok(())
    }

    fn check_edit(&self, call: &CallRow, item: &DecisionItem) -> Result<(), DecisionError> {
        let Some(edited) = &item.edited else { return Ok(()) };
        let refuse = |problem: String| Err(DecisionError::BadArguments { seq: call.seq, problem, details: None });
        if item.verdict != Verdict::Accept {
            return refuse("arguments go with accept only.".to_owned());
        }
        if call.status != CallStatus::Waiting {
            return refuse("the call was sent already.".to_owned());
        }
        if edited.arguments.len() > self.limits.arguments_bytes {
            return refuse(format!(
                "they are {} bytes; {} are the limit.",
                edited.arguments.len(),
                self.limits.arguments_bytes
            ));
        }
        // Kept three times: in their own place, as they are shown, and with the result.
        if !self.journal_takes(3 * edited.arguments.len() as u64) {
            return refuse("the journal of the program has no room for them.".to_owned());
        }
        Ok(())
    }

    /// Who may decide on a call. What a tool asks while it carries a call out, it asks the session's owner.
    #[must_use]
    pub fn approvers_of(&self, call: &CallRow) -> Approvers {
        if self.asks(call) {
            return Approvers::Owner;
        }
        call.shown.as_ref().map(|shown| shown.approvers).unwrap_or_default()
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
        self.row.stopped = Some(decider.decision(now, Verdict::Cancel, reason, String::new()));
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
        let mut decision = decider.decision(now, item.verdict, item.reason, item.digest);
        decision.gives = item.gives.filter(|_| !declined);
        if let Some(edited) = item.edited {
            decision.edited = true;
            decision.digest = self.write_edit(item.seq, edited);
        }
        self.change_call(item.seq, |call| {
            call.status = CallStatus::Approved;
            call.decision = Some(decision);
        });
        if declined {
            self.settle(now, item.seq, error_result(&declined_error(reason)));
        }
    }

    /// Puts a person's arguments in place of those that were shown; gives the digest of what is shown then. The binding stays
    /// the one that the person saw: if the tool has another one by now, that is found before the call is sent.
    fn write_edit(&mut self, seq: u32, edited: Edited) -> String {
        let execution = self.row.id.clone();
        let mut digest = String::new();
        self.row.journal_bytes += 2 * edited.arguments.len() as u64;
        self.changed.row = true;
        self.change_call(seq, |call| {
            let Some(shown) = call.shown.as_mut() else { return };
            digest = call_digest(&execution, seq, &call.address, &edited.arguments, &shown.binding);
            shown.digest.clone_from(&digest);
            shown.arguments = edited.arguments.to_string();
            shown.method = edited.method;
            shown.url = edited.url;
            // Back to what the program wrote is no edit.
            call.edited = Some(edited.arguments).filter(|arguments| *arguments != call.arguments);
        });
        digest
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
                let digest = call.shown.as_ref().map(|shown| shown.digest.clone()).unwrap_or_default();
                call.decision = Some(Decision::expired(digest, now));
            });
            let error = declined_error(Some(TIMEOUT.to_owned()));
            self.settle(now, seq, error_result(&error));
            self.set_running(now);
        }
        self.expire_questions(now);
    }
}

impl Decider {
    /// The decision of this person.
    pub(super) fn decision(&self, at: Millis, verdict: Verdict, reason: Option<String>, digest: String) -> Decision {
        Decision {
            verdict,
            reason,
            digest,
            by: Some(self.account.clone()),
            route: self.route,
            at,
            standing: self.standing,
            edited: false,
            grant: None,
            gives: None,
        }
    }
}

fn declined_error(reason: Option<String>) -> CallError {
    let message = match reason.as_deref() {
        Some(TIMEOUT) => "Nobody decided in time, so the call was not sent.",
        _ => "A person declined this call; it was not sent.",
    };
    CallError { reason, ..CallError::new("declined", message) }
}
