//! The Worker's end of a standalone stream: messages of the session object become events.
//!
//! The Worker writes the keep-alives, so that the object can be evicted meanwhile; the runtime keeps the socket.

use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use wasm_bindgen_futures::spawn_local;
use worker::{Response, WebSocket, WebsocketEvent};

use super::clock::{now, sleep};
use super::http::mcp_response;
use super::session::{KEEP_ALIVE_EVERY, RETRY_MS, log_closed};
use crate::protocol::sse::{KEEP_ALIVE, message_event, retry};

/// Comments on one connection at most (half an hour): a reader that went away is not always noticed.
const KEEP_ALIVES: u32 = 120;

type Sender = mpsc::UnboundedSender<worker::Result<Vec<u8>>>;

/// A response that sends what comes through the socket.
pub(super) fn event_stream(socket: WebSocket) -> worker::Result<Response> {
    socket.accept()?;
    let (sender, receiver) = mpsc::unbounded();
    let response = mcp_response(200)?.with_header("content-type", "text/event-stream")?.from_stream(receiver)?;
    // Something at once, so that the client sees that the stream is open.
    let _ = sender.unbounded_send(Ok(KEEP_ALIVE.as_bytes().to_vec()));
    spawn_local(async move {
        let opened_at = now();
        let (mut events, mut bytes) = (0_u32, 0_usize);
        let reason = pump(&socket, &sender, |length| {
            events += 1;
            bytes += length;
        });
        let reason = reason.await;
        // One that is closed already refuses it.
        let _ = socket.close(Some(1_000), Some(reason));
        sender.close_channel();
        log_closed("standalone", (events, bytes), opened_at, reason);
    });
    Ok(response)
}

async fn pump(socket: &WebSocket, sender: &Sender, mut sent: impl FnMut(usize)) -> &'static str {
    let Ok(mut messages) = socket.events() else { return "no events" };
    let mut keep_alives = 0;
    let mut silence = sleep(KEEP_ALIVE_EVERY);
    loop {
        let event = match select(messages.next(), silence).await {
            Either::Left((Some(Ok(WebsocketEvent::Message(message))), rest)) => {
                silence = rest;
                let event = message_event(&message.text().unwrap_or_default());
                sent(event.len());
                event
            }
            Either::Left(_) => return "closed by the session",
            Either::Right(_) if keep_alives >= KEEP_ALIVES => {
                // A reader that is gone needs no advice.
                let _ = sender.unbounded_send(Ok(retry(RETRY_MS).into_bytes()));
                return "maximum age";
            }
            Either::Right(_) => {
                keep_alives += 1;
                silence = sleep(KEEP_ALIVE_EVERY);
                KEEP_ALIVE.to_owned()
            }
        };
        if sender.unbounded_send(Ok(event.into_bytes())).is_err() {
            return "reader gone";
        }
    }
}
