//! Requests that are being answered, and streams that are read again.
//!
//! The response is stored before it is sent. A stream whose object was lost in between is answered when it is asked for
//! again, or when an answer to a question comes on it: its row says what its request waited for.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Map, Value, json};
use worker::Response;

use super::answers::{Answer, Answered};
use super::exchange::{Exchange, guarded};
use super::outcome::{Failure, RpcError};
use super::reader::Reader;
use super::{Session, caller_of};
use crate::engine::{Execution, ExecutionStatus};
use crate::internal::Context;
use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::sse::{message_event, message_event_with_id};
use crate::session::SessionMeta;
use crate::session::stream::{Awaits, EventId, StreamRow};
use crate::shell::telemetry::log;

/// The requests that this object is answering.
#[derive(Default)]
pub(super) struct Streams {
    running: RefCell<Vec<Rc<Exchange>>>,
}

impl Streams {
    pub(super) fn add(&self, exchange: &Rc<Exchange>) {
        self.running.borrow_mut().push(Rc::clone(exchange));
    }

    pub(super) fn remove(&self, exchange: &Exchange) {
        self.running.borrow_mut().retain(|one| !std::ptr::eq(Rc::as_ptr(one), exchange));
    }

    fn with_request(&self, id: &RequestId) -> Vec<Rc<Exchange>> {
        self.running.borrow().iter().filter(|one| one.id == *id).cloned().collect()
    }

    fn with_stream(&self, number: u32) -> Option<Rc<Exchange>> {
        self.running.borrow().iter().find(|one| one.stream() == Some(number)).cloned()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Rc<Exchange>> {
        self.running.borrow().clone()
    }
}

impl Session {
    /// Several answers on one stream that cannot be read again (a batch of 2025-03-26).
    pub(super) fn stream_batch(answers: Vec<Answer>) -> worker::Result<Response> {
        use futures_util::StreamExt;
        use futures_util::stream::FuturesUnordered;

        let (reader, response) = Reader::open()?;
        wasm_bindgen_futures::spawn_local(async move {
            let mut answers: FuturesUnordered<_> = answers.into_iter().collect();
            while let Some(Answered { text, .. }) = answers.next().await {
                reader.send(message_event(&text));
            }
            reader.close("answered");
        });
        Ok(response)
    }

    /// `GET` with `Last-Event-ID`: everything after that event, the response included, then the end.
    pub(super) fn read_again(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        last: &str,
    ) -> Result<Response, Failure> {
        let unknown = || Failure::from(WireError::bad_request("Last-Event-ID names no event of this session"));
        let last = EventId::parse(last).ok_or_else(unknown)?;
        let store = self.store()?;
        let row = store.stream(last.stream)?.ok_or_else(unknown)?;
        let running = self.streams.with_stream(last.stream);
        let newest = match (&running, row.ended_at) {
            (Some(exchange), _) => exchange.last_event(),
            (None, Some(_)) => row.response,
            (None, None) => store.last_event(last.stream)?,
        };
        if last.number > newest {
            return Err(unknown());
        }
        let (reader, response) = Reader::open()?;
        for (number, text) in store.events_after(last.stream, last.number)? {
            if let Some(text) = text {
                reader.send(message_event_with_id(&EventId { number, ..last }.to_string(), &text));
            }
        }
        if let Some(exchange) = running {
            // The newer connection counts; the older one is closed.
            exchange.read_by(reader);
        } else if row.ended_at.is_none() {
            self.restart(meta, context, last.stream, &row, Some(reader))?;
        } else {
            if last.number < row.response {
                let text = store.stream_response(last.stream)?.ok_or_else(unknown)?;
                let id = EventId { number: row.response, ..last };
                reader.send(message_event_with_id(&id.to_string(), &text));
            }
            reader.close("answered");
        }
        Ok(response)
    }

    /// Takes up a request again whose object was lost.
    pub(super) fn restart(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        number: u32,
        row: &StreamRow,
        reader: Option<Reader>,
    ) -> Result<(), Failure> {
        let id = serde_json::from_str(&row.request).ok().and_then(|value| RequestId::parse(&value));
        let id = id.ok_or_else(|| worker::Error::RustError("a stored request id cannot be read".to_owned()))?;
        let exchange = Exchange::restarted(self, meta, context, id.clone(), (number, row), reader)?;
        let exchange = Rc::new(exchange);
        self.streams.add(&exchange);
        let answer = Rc::clone(self).answer_after_restart(Rc::clone(&exchange), row.awaits.clone());
        exchange.spawn(guarded(id, answer));
        Ok(())
    }

    /// The response to a request whose object was lost while it waited.
    fn answer_after_restart(self: Rc<Self>, exchange: Rc<Exchange>, awaits: Option<Awaits>) -> Answer {
        if let Some(Awaits::Request { method, params }) = awaits {
            let params = serde_json::from_str(&params).unwrap_or_default();
            return self.answer(exchange, method, params);
        }
        Box::pin(async move {
            let result = match awaits {
                Some(Awaits::Execution(execution)) => self.report_of_execution(&exchange, &execution).await,
                Some(Awaits::Pause { execution_id, .. }) => {
                    let arguments = Map::from_iter([("executionId".to_owned(), Value::String(execution_id))]);
                    self.resume(&exchange, &arguments).await
                }
                Some(Awaits::Request { .. }) | None => Err(RpcError::internal(
                    "the gateway restarted while the request was on its way, before anything of it was stored",
                )),
            };
            Answered::of(result, &exchange.id)
        })
    }

    async fn report_of_execution(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        execution: &str,
    ) -> Result<String, RpcError> {
        let runner = self.runner()?;
        let live = runner
            .by_id(execution, &caller_of(&exchange.meta))?
            .ok_or_else(|| RpcError::internal("the execution was forgotten"))?;
        let _driver = runner.drive();
        runner.wake_idle();
        self.report_on_exchange(exchange, &live).await
    }

    /// `notifications/cancelled`: ends a request that runs. For one that waits for a person it ends only the waiting.
    pub(super) fn cancel_request(self: &Rc<Self>, params: &Map<String, Value>) -> Result<(), Failure> {
        let Some(id) = params.get("requestId").and_then(RequestId::parse) else {
            return Ok(());
        };
        for exchange in self.streams.with_request(&id) {
            let stream = exchange.stream();
            exchange.drop_it();
            if let Some(stream) = stream {
                self.store()?.forget_stream(stream)?;
            }
            self.stop_waiting(&exchange)?;
        }
        Ok(())
    }

    fn stop_waiting(self: &Rc<Self>, exchange: &Exchange) -> Result<(), Failure> {
        let runner = self.runner()?;
        let live = match exchange.awaited() {
            Some(Awaits::Execution(execution)) => runner.open().into_iter().find(|live| live.id == execution),
            Some(Awaits::Pause { execution_id, .. }) => {
                let pause = crate::session::id::ExecutionId::parse(&execution_id)
                    .filter(|id| id.session == runner.object_id())
                    .map(|id| id.pause);
                let live = pause.and_then(|pause| runner.by_pause(&pause, &caller_of(&exchange.meta)).transpose());
                live.transpose()?
            }
            Some(Awaits::Request { .. }) | None => None,
        };
        let Some(live) = live else { return Ok(()) };
        let (over, asked) = {
            let engine = live.engine.borrow();
            let status = engine.row().status;
            // A pause of a program that only sleeps asked nobody anything.
            let asked = engine.pauses().iter().any(|pause| pause.items().next().is_some());
            (status.is_over(), status == ExecutionStatus::Waiting || asked)
        };
        if over {
            return Ok(());
        }
        if asked {
            // What waits for a person stays until it is decided or expires; the page says that nobody waits for it.
            runner.step(&live, Execution::client_left);
        } else {
            runner.step(&live, Execution::cancel);
            runner.forget(&live)?;
            log("mcp_execution", json!({ "executionId": live.id, "status": "cancelled", "by": "client" }));
        }
        Ok(())
    }
}
