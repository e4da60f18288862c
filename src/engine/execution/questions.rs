//! Questions that a tool asks a person while it carries a call out, because no client can be asked.
//!
//! The call stays `sent` meanwhile. A question lives as long as the connection to the tool, which is memory: after a crash
//! nobody is there to hear the answer, and the call is lost or sent again like any other.

use std::rc::Rc;

use super::{Execution, Moment};
use crate::approval::{Decision, Verdict, call_digest};
use crate::engine::interface::{Decider, DecisionItem, Effect};
use crate::engine::row::{CallRow, CallStatus, Millis, QuestionRow};

impl Execution {
    /// The question of a call that can be answered now: the tool waits for it.
    #[must_use]
    pub fn asked<'c>(&self, call: &'c CallRow) -> Option<&'c QuestionRow> {
        call.open_question().filter(|_| self.live.sending.contains(&call.seq) && !self.row.status.is_over())
    }

    /// Whether a call's tool waits for a person's answer.
    #[must_use]
    pub fn asks(&self, call: &CallRow) -> bool {
        self.asked(call).is_some()
    }

    /// Whether any does.
    #[must_use]
    pub fn has_question(&self) -> bool {
        self.calls.iter().any(|call| self.asks(call))
    }

    /// Whether a person has to say something about a call.
    #[must_use]
    pub fn waits_for_person(&self, call: &CallRow) -> bool {
        call.status == CallStatus::Waiting || self.asks(call)
    }

    /// Until when a person can say it.
    #[must_use]
    pub fn deadline_of(&self, call: &CallRow) -> Option<Millis> {
        self.asked(call).map_or(call.deadline, |question| Some(question.deadline))
    }

    /// The digest of what a person is asked about a call.
    #[must_use]
    pub fn digest_asked<'c>(&self, call: &'c CallRow) -> Option<&'c str> {
        match self.asked(call) {
            Some(question) => Some(question.digest.as_str()),
            None => call.shown.as_ref().map(|shown| shown.digest.as_str()),
        }
    }

    /// The tool asks a person, while it carries out a call. `question` is JSON text, `form` whether an answer has
    /// content. Changes nothing where the call is not on its way, asks something already, or has asked too much:
    /// [`Self::asks`] tells.
    pub fn ask_person(&mut self, moment: &Moment, seq: u32, question: Rc<str>, form: bool) -> Vec<Effect> {
        let Some(call) = self.call(seq).filter(|call| {
            call.status == CallStatus::Sent
                && self.live.sending.contains(&seq)
                && !self.row.status.is_over()
                && call.open_question().is_none()
                && call.questions.len() < self.limits.questions
                && self.journal_takes(question.len() as u64)
        }) else {
            return Vec::new();
        };
        // The nonce was never used before, so that the same words asked again are another question.
        let digest = call_digest(&self.row.id, seq, &call.address, &question, &moment.nonce);
        self.row.journal_bytes += question.len() as u64;
        let row = QuestionRow {
            digest,
            asked: question,
            form,
            asked_at: moment.now,
            deadline: moment.now.saturating_add(self.limits.question_ms.min(self.limits.approval_window_ms)),
            decision: None,
            content: None,
            withdrawn: false,
        };
        self.changed.row = true;
        self.change_call(seq, |call| call.questions.push(row));
        self.finish_step(moment)
    }

    /// The tool does not wait for the answer any more.
    pub fn question_withdrawn(&mut self, moment: &Moment, seq: u32) -> Vec<Effect> {
        if self.call(seq).is_none_or(|call| call.open_question().is_none()) {
            return Vec::new();
        }
        self.withdraw(seq);
        self.set_running(moment.now);
        self.finish_step(moment)
    }

    pub(super) fn withdraw(&mut self, seq: u32) {
        self.change_call(seq, |call| {
            if let Some(question) = call.questions.last_mut() {
                question.withdrawn = true;
            }
        });
    }

    pub(super) fn write_answer(&mut self, now: Millis, item: DecisionItem, decider: &Decider) {
        let DecisionItem { seq, digest, verdict, reason, content, edited: _, gives: _ } = item;
        let content = content.filter(|_| verdict == Verdict::Accept);
        let decision = decider.decision(now, verdict, reason, digest);
        self.answer(seq, decision, verdict, content);
    }

    pub(super) fn expire_questions(&mut self, now: Millis) {
        let over: Vec<(u32, String)> = self
            .calls
            .iter()
            .filter_map(|call| Some((call.seq, self.asked(call).filter(|question| question.deadline <= now)?)))
            .map(|(seq, question)| (seq, question.digest.clone()))
            .collect();
        for (seq, digest) in over {
            let decision = Decision::expired(digest, now);
            // Nobody refused to answer: nobody was there.
            self.answer(seq, decision, Verdict::Cancel, None);
            self.set_running(now);
        }
    }

    fn answer(&mut self, seq: u32, decision: Decision, verdict: Verdict, content: Option<Rc<str>>) {
        let kept = content.clone();
        self.change_call(seq, |call| {
            if let Some(question) = call.questions.last_mut() {
                question.decision = Some(decision);
                question.content = kept;
            }
        });
        self.changed.effects.push(Effect::Tell { seq, verdict, content });
    }
}
