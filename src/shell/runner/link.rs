//! What a call of an execution may do while it is carried out: a program's may ask, a direct one's may do everything.
//!
//! A question goes to the newest request that waits for the execution. Where no client can be asked, a form or a page
//! becomes an item of the pause, and the person's answer goes to the tool. It lives as long as the tool's connection.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value, json};

use super::{Live, Runner};
use crate::approval::Verdict;
use crate::session::form::Asked;
use crate::shell::clock::sleep;
use crate::shell::notify::Notify;
use crate::upstream::{Changed, Link, LogLevel, Question, ServerError};

/// Tools that wait for a person, by their calls.
#[derive(Default)]
pub(super) struct Questions {
    open: RefCell<BTreeMap<u32, oneshot::Sender<Value>>>,
    ended: Notify,
}

impl Questions {
    /// Gives a tool its answer. One that does not wait any more gets nothing.
    pub(super) fn tell(&self, seq: u32, verdict: Verdict, content: Option<&str>) {
        let Some(tool) = self.open.borrow_mut().remove(&seq) else { return };
        let content = content.and_then(|content| serde_json::from_str::<Value>(content).ok());
        let answer = match (verdict, content) {
            (Verdict::Accept, Some(content)) => json!({ "action": "accept", "content": content }),
            (Verdict::Accept, None) => json!({ "action": "accept" }),
            (Verdict::Decline, _) => json!({ "action": "decline" }),
            (Verdict::Cancel, _) => json!({ "action": "cancel" }),
        };
        // It may have stopped waiting in this moment.
        let _ = tool.send(answer);
    }
}

/// The link of one call.
pub(super) struct CallLink {
    runner: Rc<Runner>,
    live: Rc<Live>,
    seq: u32,
}

impl CallLink {
    pub(super) fn new(runner: &Rc<Runner>, live: &Rc<Live>, seq: u32) -> Self {
        Self { runner: Rc::clone(runner), live: Rc::clone(live), seq }
    }

    fn link(&self) -> Option<Rc<dyn Link>> {
        self.live.links.borrow().last().cloned()
    }

    fn direct(&self) -> Option<Rc<dyn Link>> {
        self.link().filter(|_| self.live.program.direct.is_some())
    }

    /// Asks the person who owns the session, on the page of a pause. One question of a call at a time.
    async fn ask_person(&self, params: Map<String, Value>) -> Result<Value, ServerError> {
        let cannot = |why: &str| ServerError::ClientCannotBeAsked(why.to_owned());
        let text = Value::Object(params).to_string();
        let form = Asked::parse(&text).map_err(cannot)?.is_form();
        let questions = &self.live.questions;
        loop {
            let ended = questions.ended.changed();
            if !questions.open.borrow().contains_key(&self.seq) {
                break;
            }
            // Ends with an error only when the object itself ends.
            let _ = ended.await;
        }
        let (tell, told) = oneshot::channel();
        questions.open.borrow_mut().insert(self.seq, tell);
        let _question = OpenQuestion(self);
        let seq = self.seq;
        self.runner.step(&self.live, |engine, moment| engine.ask_person(moment, seq, text.as_str().into(), form));
        let asks = {
            let engine = self.live.engine.borrow();
            engine.call(seq).is_some_and(|call| engine.asks(call))
        };
        if !asks {
            return Err(cannot("nobody can be asked about this call any more"));
        }
        told.await.map_err(|_| cannot("the program is gone"))
    }
}

/// While it exists, the tool waits for the answer.
struct OpenQuestion<'q>(&'q CallLink);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let CallLink { runner, live, seq } = self.0;
        if live.questions.open.borrow_mut().remove(seq).is_some() {
            runner.step(live, |engine, moment| engine.question_withdrawn(moment, *seq));
        }
        live.questions.ended.wake_all();
    }
}

impl Link for CallLink {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(link) = self.direct() {
            link.progress(progress, total, message);
        }
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if let Some(link) = self.direct() {
            link.log(level, logger, data);
        }
    }

    fn ask(&self, question: Question) -> LocalBoxFuture<'_, Result<Value, ServerError>> {
        Box::pin(async move {
            let refused = match self.link() {
                None => ServerError::ClientCannotBeAsked("it does not wait for this".to_owned()),
                Some(link) => match link.ask(question.clone()).await {
                    Err(refused @ ServerError::ClientCannotBeAsked(_)) => refused,
                    answered => return answered,
                },
            };
            match question {
                Question::Elicitation(params) => self.ask_person(params).await,
                Question::Sampling(_) | Question::Roots => Err(refused),
            }
        })
    }

    fn changed(&self, what: Changed) {
        if let Some(link) = self.link() {
            link.changed(what);
        }
    }

    fn trace(&self) -> Vec<(String, String)> {
        self.live.caller.trace.clone()
    }

    fn sleep(&self, milliseconds: u32) -> LocalBoxFuture<'_, ()> {
        Box::pin(sleep(Duration::from_millis(u64::from(milliseconds))))
    }

    fn disconnect(&self) {}
}
