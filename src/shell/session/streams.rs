//! Streams of requests that take a while: who reads them now, and what can be read again.
//!
//! The response is stored before it is sent. A stream whose object was lost in between is answered when it is asked for
//! again: the journal knows what its request waited for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;
use worker::{Delay, Response};

use super::answers::Answered;
use super::outcome::{Failure, RpcError};
use super::{Session, caller_of};
use crate::engine::Execution;
use crate::internal::Context;
use crate::protocol::errors::{WireError, result_text};
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::sse::{KEEP_ALIVE, message_event, message_event_with_id, priming_event};
use crate::session::SessionMeta;
use crate::session::stream::{Awaits, EventId, RESPONSE_BYTES, StreamRow};
use crate::shell::clock::now;
use crate::shell::http::{correlation, mcp_response};
use crate::shell::telemetry::{log, log_error};

/// Between two comments on a stream that is silent.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Comments on one connection at most: a reader that went away is not always noticed. A client that is still there
/// comes back with `Last-Event-ID`.
const KEEP_ALIVES: u32 = 40;
/// The event that carries the response; 0 is the empty first one.
const RESPONSE_EVENT: u32 = 1;

/// The connection that reads a stream now.
pub(super) struct Reader {
    sender: mpsc::UnboundedSender<worker::Result<Vec<u8>>>,
    _ended: oneshot::Sender<()>,
}

impl Reader {
    /// A reader and the response that it writes to.
    pub(super) fn open() -> worker::Result<(Self, Response)> {
        let (sender, receiver) = mpsc::unbounded();
        let (ended, end) = oneshot::channel::<()>();
        let keep_alive = sender.clone();
        spawn_local(async move {
            let mut end = end;
            for _ in 0..KEEP_ALIVES {
                match select(end, Delay::from(KEEP_ALIVE_EVERY)).await {
                    Either::Left(_) => return,
                    Either::Right(((), rest)) => end = rest,
                }
                if keep_alive.unbounded_send(Ok(KEEP_ALIVE.as_bytes().to_vec())).is_err() {
                    return;
                }
            }
            keep_alive.close_channel();
        });
        let response = mcp_response(200)?.with_header("content-type", "text/event-stream")?.from_stream(receiver)?;
        Ok((Self { sender, _ended: ended }, response))
    }

    /// Sends text as it is; a reader that is gone is no failure.
    pub(super) fn send(&self, text: String) {
        let _ = self.sender.unbounded_send(Ok(text.into_bytes()));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.sender.close_channel();
    }
}

/// The streams of one session object.
#[derive(Default)]
pub(super) struct Streams {
    /// Streams that this object is working on, and who reads them.
    working: RefCell<BTreeMap<u32, Working>>,
}

struct Working {
    request: String,
    reader: Option<Reader>,
}

impl Session {
    /// Answers a request on a stream of its own.
    pub(super) fn stream_answer(
        self: Rc<Self>,
        meta: Rc<SessionMeta>,
        context: Context,
        id: RequestId,
        params: Map<String, Value>,
    ) -> Result<Response, Failure> {
        let (reader, response) = Reader::open()?;
        let request = id.as_json().to_owned();
        let row = StreamRow { request: request.clone(), awaits: None, opened_at: now(), ended_at: None };
        let stream = self.runner()?.store.open_stream(&row)?;
        if meta.protocol_version == "2025-11-25" {
            reader.send(priming_event(&EventId { stream, number: 0 }.to_string()));
        }
        self.streams.working.borrow_mut().insert(stream, Working { request, reader: Some(reader) });
        // In a task of its own: a client that goes away does not end it.
        spawn_local(async move {
            let answered =
                Rc::clone(&self).answer(meta, context, id, "tools/call".to_owned(), params, Some(stream)).await;
            self.finish_stream(stream, &answered.text);
        });
        Ok(response)
    }

    /// Several answers on one stream that cannot be read again (a batch of 2025-03-26).
    pub(super) fn stream_batch(answers: Vec<super::answers::Answer>) -> worker::Result<Response> {
        use futures_util::StreamExt;
        use futures_util::stream::FuturesUnordered;

        let (reader, response) = Reader::open()?;
        spawn_local(async move {
            let mut answers: FuturesUnordered<_> = answers.into_iter().collect();
            while let Some(Answered { text, .. }) = answers.next().await {
                reader.send(message_event(&text));
            }
        });
        Ok(response)
    }

    /// Notes what a stream's request waits for. A failure costs only that it cannot be answered after a restart.
    pub(super) fn link_stream(&self, stream: Option<u32>, awaits: Awaits) {
        let (Some(stream), Ok(runner)) = (stream, self.runner()) else { return };
        if let Err(error) = runner.store.link_stream(stream, awaits) {
            log_error("mcp_stream_not_stored", json!({ "reason": error.to_string() }));
        }
    }

    fn finish_stream(&self, stream: u32, text: &str) {
        // Cancelled in the meantime: nobody wants it any more.
        let Some(working) = self.streams.working.borrow_mut().remove(&stream) else {
            return;
        };
        let Ok(runner) = self.runner() else { return };
        if text.len() <= RESPONSE_BYTES
            && let Err(error) = runner.store.finish_stream(stream, text, now())
        {
            // Storage failing never stops a live answer.
            log_error("mcp_stream_not_stored", json!({ "reason": error.to_string() }));
        }
        if let Some(reader) = working.reader {
            let id = EventId { stream, number: RESPONSE_EVENT };
            reader.send(message_event_with_id(&id.to_string(), text));
        }
        runner.rearm();
    }

    /// `GET` with `Last-Event-ID`: everything after that event, the response included, then the end.
    pub(super) fn read_again(
        self: Rc<Self>,
        meta: Rc<SessionMeta>,
        context: Context,
        last: &str,
    ) -> Result<Response, Failure> {
        let unknown = || Failure::from(WireError::bad_request("Last-Event-ID names no event of this session"));
        let last = EventId::parse(last).filter(|id| id.number <= RESPONSE_EVENT).ok_or_else(unknown)?;
        let runner = self.runner()?;
        let row = runner.store.stream(last.stream)?.ok_or_else(unknown)?;
        let (reader, response) = Reader::open()?;
        if row.ended_at.is_some() {
            if last.number < RESPONSE_EVENT {
                let text = runner.store.stream_response(last.stream)?.ok_or_else(unknown)?;
                let id = EventId { stream: last.stream, number: RESPONSE_EVENT };
                reader.send(message_event_with_id(&id.to_string(), &text));
            }
            return Ok(response);
        }
        let mut working = self.streams.working.borrow_mut();
        if let Some(one) = working.get_mut(&last.stream) {
            // The newer connection counts; the older one is closed.
            one.reader = Some(reader);
            return Ok(response);
        }
        working.insert(last.stream, Working { request: row.request.clone(), reader: Some(reader) });
        drop(working);
        spawn_local(async move {
            let text = self.answer_after_restart(&meta, &context, row).await;
            self.finish_stream(last.stream, &text);
        });
        Ok(response)
    }

    /// The response to a request whose object was lost while it waited.
    async fn answer_after_restart(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        row: StreamRow,
    ) -> String {
        let id = serde_json::from_str(&row.request).ok().and_then(|value| RequestId::parse(&value));
        let result = match row.awaits {
            Some(Awaits::Execution(execution)) => self.report_of_execution(meta, &execution).await,
            Some(Awaits::Pause { execution_id, .. }) => {
                let arguments = Map::from_iter([("executionId".to_owned(), Value::String(execution_id))]);
                self.resume(meta, context, &arguments, None).await
            }
            None => Err(RpcError::internal("the request was interrupted before it had started anything")),
        };
        match (result, id) {
            (Ok(result), Some(id)) => result_text(&result, &id),
            (Ok(_), None) => WireError::internal(&correlation("a stored request id cannot be read")).body(None),
            (Err(error), id) => WireError::internal(&correlation(&error.message)).body(id.as_ref()),
        }
    }

    async fn report_of_execution(self: &Rc<Self>, meta: &Rc<SessionMeta>, execution: &str) -> Result<String, RpcError> {
        let runner = self.runner()?;
        let live = runner
            .by_id(execution, &caller_of(meta))?
            .ok_or_else(|| RpcError::internal("the execution was forgotten"))?;
        let _driver = runner.drive();
        runner.wake_idle();
        let report = self.first_report(&live).await?;
        self.worded(&report, meta.modes.elicitation, meta, false)
    }

    /// `notifications/cancelled`: ends a request that runs. For one that waits for a person it ends only the waiting.
    pub(super) fn cancel_request(&self, params: &Map<String, Value>) -> Result<(), Failure> {
        let Some(id) = params.get("requestId").and_then(RequestId::parse) else {
            return Ok(());
        };
        let runner = self.runner()?;
        let streams: Vec<u32> = {
            let working = self.streams.working.borrow();
            working.iter().filter(|(_, one)| one.request == id.as_json()).map(|(stream, _)| *stream).collect()
        };
        for stream in streams {
            let awaits = runner.store.stream(stream)?.and_then(|row| row.awaits);
            self.streams.working.borrow_mut().remove(&stream);
            runner.store.forget_stream(stream)?;
            if let Some(Awaits::Execution(execution)) = awaits
                && let Some(live) = runner.open().into_iter().find(|live| live.id == execution)
            {
                runner.step(&live, Execution::cancel);
                runner.forget(&live)?;
                log("mcp_execution", json!({ "executionId": execution, "status": "cancelled", "by": "client" }));
            }
        }
        Ok(())
    }
}
