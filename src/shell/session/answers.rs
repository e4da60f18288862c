//! Answers on their way out, as JSON or as an event.

use std::future::Future;
use std::pin::Pin;

use serde_json::json;
use worker::Response;

use crate::protocol::headers::Accepts;
use crate::protocol::sse::message_event;
use crate::session::tools::text_result;
use crate::shell::http::mcp_response;

/// The answer to one request, as it comes.
pub(super) type Answer = Pin<Box<dyn Future<Output = Answered>>>;

/// A JSON-RPC response, and whether it tells of a failure of the gateway's own.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) failed: bool,
}

/// A response that is there already, in the form that the client admits.
pub(super) fn answer_now(status: u16, accepts: Accepts, text: &str) -> worker::Result<Response> {
    let (kind, body) =
        if accepts.json { ("application/json", text.to_owned()) } else { ("text/event-stream", message_event(text)) };
    Ok(mcp_response(status)?.with_header("content-type", kind)?.fixed(body.into_bytes()))
}

/// A tool result that tells the model what was wrong with its call.
pub(super) fn tool_error(code: &str, message: &str) -> String {
    text_result(
        message,
        Some(&json!({ "status": "error", "error": { "code": code, "message": message }, "logs": [] })),
        true,
    )
}
