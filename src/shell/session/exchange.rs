//! One request of a client on its way to an answer, and the way back to its client: as JSON when nothing but the answer
//! is sent, as a stream of events from the first other message on, or when it takes a while.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, FutureExt, LocalBoxFuture, select};
use serde_json::{Map, Value};
use wasm_bindgen_futures::spawn_local;
use worker::Response;

use super::Session;
use super::answers::{Answer, Answered};
use super::outcome::Failure;
use super::reader::Reader;
use crate::internal::Context;
use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::sse::{message_event, message_event_with_id, priming_event};
use crate::protocol::version::is_primed;
use crate::session::SessionMeta;
use crate::session::stream::{
    Awaits, EVENT_BYTES_KEPT, EVENTS_KEPT, EventId, REQUEST_BYTES_KEPT, RESPONSE_BYTES, StreamRow,
};
use crate::shell::clock::{now, sleep};
use crate::shell::http::correlation;
use crate::shell::store::StoreError;
use crate::shell::telemetry::log_error;

/// An answer that takes longer than this is sent as a stream, which a client that lost it can ask for again.
const STREAM_AFTER: Duration = Duration::from_millis(500);

/// One request on its way.
pub(super) struct Exchange {
    pub(super) session: Rc<Session>,
    pub(super) meta: Rc<SessionMeta>,
    pub(super) context: Rc<Context>,
    pub(super) id: RequestId,
    /// The client's progress token, as JSON text.
    pub(super) progress_token: Option<String>,
    /// Whether messages can be sent before the answer.
    pub(super) takes_events: bool,
    awaits: RefCell<Option<Awaits>>,
    /// The request itself, where it may be handled again: method and parameters.
    repeatable: RefCell<Option<(&'static str, Map<String, Value>)>>,
    stream: RefCell<Option<OpenStream>>,
    opened: RefCell<Option<oneshot::Sender<Response>>>,
    done: RefCell<Option<oneshot::Sender<Answered>>>,
    cancel: RefCell<Option<oneshot::Sender<()>>>,
    /// Messages that were sent before the object was restarted; a request that is handled again does not send them again.
    recorded: u32,
    sent: Cell<u32>,
    pub(super) questions: Cell<u32>,
}

struct OpenStream {
    /// `None` when storage failed: what is sent cannot be asked for again.
    number: Option<u32>,
    reader: Option<Reader>,
    next: u32,
    kept: VecDeque<(u32, usize)>,
}

impl Exchange {
    pub(super) fn new(
        session: &Rc<Session>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        id: RequestId,
        params: &Map<String, Value>,
        takes_events: bool,
    ) -> Self {
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken"));
        let progress_token = token.and_then(RequestId::parse).map(|token| token.as_json().to_owned());
        Self {
            session: Rc::clone(session),
            meta: Rc::clone(meta),
            context: Rc::clone(context),
            id,
            progress_token,
            takes_events,
            awaits: RefCell::default(),
            repeatable: RefCell::default(),
            stream: RefCell::default(),
            opened: RefCell::default(),
            done: RefCell::default(),
            cancel: RefCell::default(),
            recorded: 0,
            sent: Cell::new(0),
            questions: Cell::new(0),
        }
    }

    /// The request of a stream whose object was lost, for a client that reads it again.
    pub(super) fn restarted(
        session: &Rc<Session>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        id: RequestId,
        (number, row): (u32, &StreamRow),
        reader: Option<Reader>,
    ) -> Result<Self, StoreError> {
        let last = session.store()?.last_event(number)?;
        let stream = OpenStream { number: Some(number), reader, next: last + 1, kept: VecDeque::new() };
        Ok(Self {
            progress_token: row.progress_token.clone(),
            awaits: RefCell::new(row.awaits.clone()),
            stream: RefCell::new(Some(stream)),
            recorded: if matches!(row.awaits, Some(Awaits::Request { .. })) { last } else { 0 },
            ..Self::new(session, meta, context, id, &Map::new(), true)
        })
    }

    /// The number of the stream, where there is one that is stored.
    pub(super) fn stream(&self) -> Option<u32> {
        self.stream.borrow().as_ref().and_then(|stream| stream.number)
    }

    /// What the request waits for.
    pub(super) fn awaited(&self) -> Option<Awaits> {
        let repeated = || {
            let slot = self.repeatable.borrow();
            let (method, params) = slot.as_ref()?;
            let params = serde_json::to_string(params).ok().filter(|text| text.len() <= REQUEST_BYTES_KEPT)?;
            Some(Awaits::Request { method: (*method).to_owned(), params })
        };
        self.awaits.borrow().clone().or_else(repeated)
    }

    /// Notes what the request waits for. A failure costs only that it cannot be answered after a restart.
    pub(super) fn wait_for(&self, awaits: Awaits) {
        *self.awaits.borrow_mut() = Some(awaits.clone());
        let Some(number) = self.stream() else { return };
        if let Err(error) = self.session.store().and_then(|store| store.link_stream(number, awaits)) {
            not_stored(&error);
        }
    }

    /// Notes that the request may be handled again as it is. It is written when the stream is opened.
    pub(super) fn may_be_repeated(&self, method: &'static str, params: Map<String, Value>) {
        *self.repeatable.borrow_mut() = Some((method, params));
        if let (Some(_), Some(awaits)) = (self.stream(), self.awaited()) {
            self.wait_for(awaits);
        }
    }

    /// The opposite: nothing of it may be done again.
    pub(super) fn must_not_be_repeated(&self) {
        self.repeatable.take();
        self.awaits.borrow_mut().take_if(|awaits| matches!(awaits, Awaits::Request { .. }));
    }

    /// Answers as a stream of events from now on, where the client takes them.
    pub(super) fn open_stream(&self) {
        if !self.takes_events || self.stream.borrow().is_some() {
            return;
        }
        let Ok((reader, response)) = Reader::open() else { return };
        let row = StreamRow {
            request: self.id.as_json().to_owned(),
            awaits: self.awaited(),
            opened_at: now(),
            ended_at: None,
            response: 1,
            progress_token: self.progress_token.clone(),
        };
        let number = match self.session.store().and_then(|store| store.open_stream(&row)) {
            Ok(number) => Some(number),
            Err(error) => {
                // Storage failing never stops a live answer.
                not_stored(&error);
                None
            }
        };
        if let Some(stream) = number.filter(|_| is_primed(&self.meta.protocol_version)) {
            reader.send(priming_event(&EventId { stream, number: 0 }.to_string()));
        }
        *self.stream.borrow_mut() = Some(OpenStream { number, reader: Some(reader), next: 1, kept: VecDeque::new() });
        if let Some(opened) = self.opened.take() {
            // The client may be gone already.
            let _ = opened.send(response);
        }
    }

    /// Whether a message in front of the answer was sent before the object was restarted.
    pub(super) fn was_sent_before(&self) -> bool {
        self.sent.set(self.sent.get() + 1);
        self.sent.get() <= self.recorded
    }

    /// Sends a message in front of the answer. One that was sent before the object was restarted is not sent again.
    pub(super) fn send(&self, text: &str) {
        if !self.was_sent_before() {
            self.send_now(text);
        }
    }

    pub(super) fn send_now(&self, text: &str) {
        self.open_stream();
        let mut slot = self.stream.borrow_mut();
        let Some(stream) = slot.as_mut() else { return };
        let number = stream.next;
        stream.next += 1;
        if let Err(error) = self.keep(stream, number, text) {
            not_stored(&error);
        }
        if let Some(reader) = &stream.reader {
            reader.send(event(stream.number, number, text));
        }
    }

    /// Keeps an event, and forgets the oldest ones where it is too much.
    fn keep(&self, stream: &mut OpenStream, number: u32, text: &str) -> Result<(), StoreError> {
        let Some(id) = stream.number else { return Ok(()) };
        let store = self.session.store()?;
        let fits = text.len() <= EVENT_BYTES_KEPT;
        store.put_event(id, number, fits.then_some(text))?;
        stream.kept.push_back((number, if fits { text.len() } else { 0 }));
        while stream.kept.len() > EVENTS_KEPT
            || stream.kept.iter().map(|(_, bytes)| bytes).sum::<usize>() > EVENT_BYTES_KEPT
        {
            let Some((oldest, _)) = stream.kept.pop_front() else { break };
            store.forget_event(id, oldest)?;
        }
        Ok(())
    }

    /// Gives the stream to a newer connection; the older one is closed.
    pub(super) fn read_by(&self, reader: Reader) {
        if let Some(stream) = self.stream.borrow_mut().as_mut() {
            stream.reader = Some(reader);
        }
    }

    /// The number of the last event.
    pub(super) fn last_event(&self) -> u32 {
        self.stream.borrow().as_ref().map_or(0, |stream| stream.next - 1)
    }

    /// Closes the client's connection, where its version lets it come back.
    pub(super) fn disconnect(&self) {
        if !is_primed(&self.meta.protocol_version) {
            return;
        }
        self.open_stream();
        let reader =
            self.stream.borrow_mut().as_mut().filter(|stream| stream.number.is_some()).and_then(|s| s.reader.take());
        if let Some(reader) = reader {
            reader.disconnect();
        }
    }

    /// Sends the answer. The response is stored before.
    pub(super) fn finish(&self, answered: Answered) {
        self.session.streams.remove(self);
        let Some(stream) = self.stream.take() else {
            if let Some(done) = self.done.take() {
                // The client may be gone already.
                let _ = done.send(answered);
            }
            return;
        };
        if let Some(id) = stream.number {
            let kept = Some(answered.text.as_str()).filter(|text| text.len() <= RESPONSE_BYTES);
            let stored = self.session.store().and_then(|store| store.finish_stream(id, stream.next, kept, now()));
            if let Err(error) = stored {
                not_stored(&error);
            }
        }
        if let Some(reader) = stream.reader {
            reader.send(event(stream.number, stream.next, &answered.text));
            reader.close("answered");
        }
        if let Ok(runner) = self.session.runner() {
            runner.rearm();
        }
    }

    /// Answers with an error before the work is done, and stops it.
    pub(super) fn end_with(&self, error: &WireError) {
        self.finish(Answered::error(error, &self.id));
        self.cancel.take();
    }

    /// Ends the request without an answer: its stream closes, its work stops.
    pub(super) fn drop_it(&self) {
        self.session.streams.remove(self);
        self.cancel.take();
        self.done.take();
        self.opened.take();
        let stream = self.stream.take();
        if let Some(reader) = stream.and_then(|stream| stream.reader) {
            reader.close("cancelled");
        }
    }

    /// Lets an answer come in a task of its own: a client that goes away does not end it.
    pub(super) fn spawn(self: &Rc<Self>, answer: LocalBoxFuture<'static, Answered>) {
        let (cancel, cancelled) = oneshot::channel::<()>();
        *self.cancel.borrow_mut() = Some(cancel);
        let exchange = Rc::clone(self);
        spawn_local(async move {
            if let Either::Left((answered, _)) = select(answer, cancelled).await {
                exchange.finish(answered);
            }
        });
    }

    /// Waits for the answer, or for the stream that it comes on.
    /// With `at_once` the stream is opened before anything is done.
    pub(super) async fn respond(
        self: &Rc<Self>,
        answer: Answer,
        at_once: bool,
    ) -> Result<Result<Response, Answered>, Failure> {
        let (opened, mut opened_as) = oneshot::channel();
        let (done, mut answered) = oneshot::channel();
        *self.opened.borrow_mut() = Some(opened);
        *self.done.borrow_mut() = Some(done);
        self.session.streams.add(self);
        if at_once {
            self.open_stream();
        }
        let mut answer = guarded(self.id.clone(), answer);
        match futures_util::poll!(&mut answer) {
            std::task::Poll::Ready(answered) => self.finish(answered),
            std::task::Poll::Pending => self.spawn(answer),
        }
        if let Ok(Some(answered)) = answered.try_recv() {
            return Ok(Err(answered));
        }
        if let Ok(Some(response)) = opened_as.try_recv() {
            return Ok(Ok(response));
        }
        let gone = |_| Failure::Wire(WireError::bad_request("The request was cancelled"), Some(self.id.clone()));
        if !self.takes_events {
            return Ok(Err(answered.await.map_err(gone)?));
        }
        let first = std::pin::pin!(async {
            match select(answered, opened_as).await {
                Either::Left((answered, _)) => answered.map(Err),
                Either::Right((response, _)) => response.map(Ok),
            }
        });
        let first = match select(first, sleep(STREAM_AFTER)).await {
            Either::Left((first, _)) => first,
            Either::Right(((), first)) => {
                self.open_stream();
                first.await
            }
        };
        first.map_err(gone)
    }
}

/// An answer that comes even if its code panics.
pub(super) fn guarded(id: RequestId, answer: Answer) -> LocalBoxFuture<'static, Answered> {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    Box::pin(async move {
        answer.await.unwrap_or_else(|_| Answered::error(&WireError::internal(&correlation("panic")), &id))
    })
}

fn event(stream: Option<u32>, number: u32, text: &str) -> String {
    match stream {
        Some(stream) => message_event_with_id(&EventId { stream, number }.to_string(), text),
        None => message_event(text),
    }
}

fn not_stored(error: &StoreError) {
    log_error("mcp_stream_not_stored", serde_json::json!({ "reason": error.to_string() }));
}
