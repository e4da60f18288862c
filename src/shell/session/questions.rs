//! Questions to the client. A question is stored before it is asked, so that an answer that comes after a restart counts.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::Session;
use super::exchange::Exchange;
use super::outcome::Failure;
use crate::internal::Context;
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::outgoing::{notification, progress, request};
use crate::session::SessionMeta;
use crate::session::question::{Askable, wire_parts};
use crate::shell::clock::sleep;
use crate::shell::random::random_hex;
use crate::shell::store::StoreError;
use crate::upstream::{Changed, Link, LogLevel, Question, ServerError};

/// Bytes of an answer of the client that are kept; a body is not larger.
const ANSWER_LIMIT: usize = 1 << 20;

impl Exchange {
    /// Asks the client, and waits for the answer however long it takes.
    pub(super) async fn ask_client(&self, key: &str, question: Question) -> Result<Value, ServerError> {
        let cannot = |why: &str| ServerError::ClientCannotBeAsked(why.to_owned());
        if let Some(why) = Askable::parse(&self.meta.capabilities).refusal(&question) {
            return Err(cannot(why));
        }
        self.open_stream();
        let stream = self.stream().ok_or_else(|| cannot("it does not take events"))?;
        self.ask_once(stream, key, question).map_err(|error| cannot(&error.to_string()))?;
        loop {
            let answered = self.session.answered.changed();
            let store = self.session.store().map_err(|error| cannot(&error.to_string()))?;
            let stored = store.question(stream, key).map_err(|error| cannot(&error.to_string()))?;
            let Some(stored) = stored else { return Err(cannot("the request has ended")) };
            if let Some(answer) = stored.answer {
                return read_answer(&answer);
            }
            // Ends with an error only when the object itself ends.
            let _ = answered.await;
        }
    }

    /// Stores and sends a question, unless that was done before.
    fn ask_once(&self, stream: u32, key: &str, question: Question) -> Result<(), StoreError> {
        let sent_before = self.was_sent_before();
        let store = self.session.store()?;
        if store.question(stream, key)?.is_some() {
            return Ok(());
        }
        let id = random_hex::<16>()?;
        store.put_question(&id, stream, key)?;
        let (method, params) = wire_parts(question);
        if !sent_before {
            self.send_now(&request(&id, method, params));
        }
        Ok(())
    }

    /// Tells the client that a question needs no answer any more.
    pub(super) fn withdraw(&self, key: &str, reason: &str) {
        let Some(stream) = self.stream() else { return };
        let stored = self.session.store().and_then(|store| store.question(stream, key));
        if let Ok(Some(question)) = stored
            && question.answer.is_none()
        {
            let params = json!({ "requestId": question.id, "reason": reason });
            self.send_now(&notification("notifications/cancelled", Some(params)));
        }
    }
}

/// What the client said, from the stored text.
fn read_answer(text: &str) -> Result<Value, ServerError> {
    let unreadable = || ServerError::ClientCannotBeAsked("its answer cannot be read".to_owned());
    let answer: Result<Value, Value> = crate::json::from_str(text).map_err(|_| unreadable())?;
    answer.map_err(|error| ServerError::Rpc {
        code: error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(-32_603),
        message: error.get("message").and_then(Value::as_str).unwrap_or("The client answered with an error").to_owned(),
        data: error.get("data").cloned(),
    })
}

impl Session {
    /// A response of the client. One to a question that nobody asked changes nothing.
    pub(super) fn take_answer(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        id: Option<&RequestId>,
        outcome: &Result<Value, Value>,
    ) -> Result<(), Failure> {
        let id = id.and_then(|id| serde_json::from_str::<String>(id.as_json()).ok());
        let Some(id) = id.filter(|id| id.len() == 32) else { return Ok(()) };
        let store = self.store()?;
        let Some(question) = store.question_by_id(&id)?.filter(|question| question.answer.is_none()) else {
            return Ok(());
        };
        let mut text = serde_json::to_string(outcome).unwrap_or_default();
        if text.len() > ANSWER_LIMIT {
            let error = json!({ "code": -32_600, "message": "The client's answer is larger than 1 MiB" });
            text = json!({ "Err": error }).to_string();
        }
        store.put_answer(&id, &text)?;
        self.answered.wake_all();
        let waits = self.streams.all().iter().any(|exchange| exchange.stream() == Some(question.stream));
        if !waits && let Some(row) = store.stream(question.stream)? {
            // The object was lost while it waited for this: go on, whether or not the client reads.
            self.restart(meta, context, question.stream, &row, None)?;
        }
        Ok(())
    }
}

/// What a server of somebody else's may do on an exchange: its questions are told apart by chance, because it need not ask
/// the same ones when it is asked again.
pub(super) struct UpstreamLink(pub(super) Rc<Exchange>);

impl Link for UpstreamLink {
    fn progress(&self, value: f64, total: Option<f64>, message: Option<&str>) {
        ExchangeLink(Rc::clone(&self.0)).progress(value, total, message);
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        ExchangeLink(Rc::clone(&self.0)).log(level, logger, data);
    }

    fn ask(&self, question: Question) -> LocalBoxFuture<'_, Result<Value, ServerError>> {
        Box::pin(async move {
            let number = random_hex::<8>().map_err(|error| ServerError::ClientCannotBeAsked(error.to_string()))?;
            let key = format!("upstream:{number}");
            // Dropped at the end, when the answer is there, it takes nothing back.
            let _withdraw = Withdraw { exchange: &self.0, key: &key };
            self.0.ask_client(&key, question).await
        })
    }

    fn changed(&self, what: Changed) {
        self.0.session.tell(what);
    }

    fn trace(&self) -> Vec<(String, String)> {
        self.0.trace()
    }

    fn sleep(&self, milliseconds: u32) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move { sleep(Duration::from_millis(u64::from(milliseconds))).await })
    }

    /// A server's connection is not the client's.
    fn disconnect(&self) {}
}

/// A question that nobody waits for any more is taken back.
struct Withdraw<'w> {
    exchange: &'w Exchange,
    key: &'w str,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.exchange.withdraw(self.key, "the server does not wait for the answer any more");
    }
}

/// What a server may do on an exchange.
pub(super) struct ExchangeLink(pub(super) Rc<Exchange>);

impl Link for ExchangeLink {
    fn progress(&self, value: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(token) = &self.0.progress_token {
            self.0.send(&progress(token, value, total, message));
        }
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        let wanted = self.0.session.meta.borrow().as_ref().and_then(|meta| meta.log_level);
        if level < wanted.unwrap_or(LogLevel::Info) {
            return;
        }
        let params = match logger {
            Some(logger) => json!({ "level": level, "logger": logger, "data": data }),
            None => json!({ "level": level, "data": data }),
        };
        self.0.send(&notification("notifications/message", Some(params)));
    }

    fn ask(&self, question: Question) -> LocalBoxFuture<'_, Result<Value, ServerError>> {
        let number = self.0.questions.get();
        self.0.questions.set(number + 1);
        Box::pin(async move { self.0.ask_client(&format!("ask:{number}"), question).await })
    }

    fn changed(&self, what: Changed) {
        self.0.session.tell(what);
    }

    fn trace(&self) -> Vec<(String, String)> {
        self.0.trace()
    }

    fn sleep(&self, milliseconds: u32) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move { sleep(Duration::from_millis(u64::from(milliseconds))).await })
    }

    fn disconnect(&self) {
        self.0.disconnect();
    }
}
