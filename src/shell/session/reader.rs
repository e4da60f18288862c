//! The connection that reads a stream: events out, keep-alives that stop, one log line at its end.

use std::cell::Cell;
use std::time::Duration;

use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use serde_json::json;
use wasm_bindgen_futures::spawn_local;
use worker::Response;

use crate::protocol::sse::{KEEP_ALIVE, retry};
use crate::shell::clock::{now, sleep};
use crate::shell::http::mcp_response;
use crate::shell::telemetry::log;

/// Between two comments on a stream that is silent.
pub(crate) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Comments on one connection at most: a reader that went away is not always noticed. A client that is still there
/// comes back with `Last-Event-ID`.
const KEEP_ALIVES: u32 = 40;
/// When a client may come back to a stream that goes on, in milliseconds.
pub(crate) const RETRY_MS: u32 = 1_000;

/// The connection that reads a stream now.
pub(super) struct Reader {
    sender: mpsc::UnboundedSender<worker::Result<Vec<u8>>>,
    _ended: oneshot::Sender<()>,
    opened_at: u64,
    events: Cell<u32>,
    bytes: Cell<usize>,
    reason: Cell<&'static str>,
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
                match select(end, sleep(KEEP_ALIVE_EVERY)).await {
                    Either::Left(_) => return,
                    Either::Right(((), rest)) => end = rest,
                }
                if keep_alive.unbounded_send(Ok(KEEP_ALIVE.as_bytes().to_vec())).is_err() {
                    return;
                }
            }
            // A reader that is gone needs no advice.
            let _ = keep_alive.unbounded_send(Ok(retry(RETRY_MS).into_bytes()));
            keep_alive.close_channel();
        });
        let response = mcp_response(200)?.with_header("content-type", "text/event-stream")?.from_stream(receiver)?;
        let (events, bytes, reason) = (Cell::new(0), Cell::new(0), Cell::new("replaced"));
        Ok((Self { sender, _ended: ended, opened_at: now(), events, bytes, reason }, response))
    }

    /// Sends one event as it is; a reader that is gone is no failure.
    pub(super) fn send(&self, event: String) {
        self.events.set(self.events.get() + 1);
        self.bytes.set(self.bytes.get() + event.len());
        let _ = self.sender.unbounded_send(Ok(event.into_bytes()));
    }

    /// Ends the connection. `reason` is for the log.
    pub(super) fn close(self, reason: &'static str) {
        self.reason.set(reason);
    }

    /// Ends the connection of a stream that goes on: the client may come back for the rest.
    pub(super) fn disconnect(self) {
        let _ = self.sender.unbounded_send(Ok(retry(RETRY_MS).into_bytes()));
        self.close("disconnected");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let gone = self.sender.is_closed();
        self.sender.close_channel();
        let reason = if gone { "reader gone" } else { self.reason.get() };
        log_closed("request", (self.events.get(), self.bytes.get()), self.opened_at, reason);
    }
}

/// Writes the log line of a stream that was closed; `sent` is the number of its events and of their bytes.
pub(crate) fn log_closed(kind: &str, sent: (u32, usize), opened_at: u64, reason: &str) {
    let (events, bytes) = sent;
    let duration = now().saturating_sub(opened_at);
    log(
        "mcp_stream_closed",
        json!({ "kind": kind, "events": events, "bytes": bytes, "durationMs": duration, "reason": reason }),
    );
}
