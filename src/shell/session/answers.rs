//! Answers on their way out: JSON, or events on a stream.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use wasm_bindgen_futures::spawn_local;
use worker::{Delay, Response};

use crate::protocol::headers::Accepts;
use crate::protocol::sse::{KEEP_ALIVE, message_event};
use crate::session::tools::text_result;
use crate::shell::http::mcp_response;

/// Between two comments on a stream that is silent.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The answer to one request, as it comes.
pub(super) type Answer = Pin<Box<dyn Future<Output = Answered>>>;

/// A JSON-RPC response, and whether it tells of a failure of the gateway's own.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) failed: bool,
}

pub(super) fn answer_now(status: u16, accepts: Accepts, text: &str) -> worker::Result<Response> {
    let (kind, body) =
        if accepts.json { ("application/json", text.to_owned()) } else { ("text/event-stream", message_event(text)) };
    Ok(mcp_response(status)?.with_header("content-type", kind)?.fixed(body.into_bytes()))
}

/// One event for each answer, as they come, and a comment every 15 seconds while the reader is there.
pub(super) fn stream_answers(answers: Vec<Answer>) -> worker::Result<Response> {
    let (sender, receiver) = mpsc::unbounded::<worker::Result<Vec<u8>>>();
    let (ended, end) = oneshot::channel::<()>();
    let keep_alive = sender.clone();
    // In a task of its own: a client that goes away does not end it.
    spawn_local(async move {
        let mut answers: FuturesUnordered<Answer> = answers.into_iter().collect();
        while let Some(answered) = answers.next().await {
            // The reader may be gone.
            let _ = sender.unbounded_send(Ok(message_event(&answered.text).into_bytes()));
        }
        sender.close_channel();
        let _ = ended.send(());
    });
    spawn_local(async move {
        let mut end = end;
        loop {
            match select(end, Delay::from(KEEP_ALIVE_EVERY)).await {
                Either::Left(_) => return,
                Either::Right(((), rest)) => end = rest,
            }
            if keep_alive.unbounded_send(Ok(KEEP_ALIVE.as_bytes().to_vec())).is_err() {
                return;
            }
        }
    });
    mcp_response(200)?.with_header("content-type", "text/event-stream")?.from_stream(receiver)
}

pub(super) fn tool_error(code: &str, message: &str) -> String {
    text_result(
        message,
        Some(&json!({ "status": "error", "error": { "code": code, "message": message }, "logs": [] })),
        true,
    )
}
