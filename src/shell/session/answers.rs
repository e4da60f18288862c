//! Answers on their way out, as JSON or as an event.

use std::future::Future;
use std::pin::Pin;

use serde_json::json;
use worker::Response;

use super::outcome::RpcError;
use crate::protocol::errors::{WireError, error_text, result_text};
use crate::protocol::headers::Accepts;
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::sse::message_event;
use crate::session::tools::text_result;
use crate::shell::http::{correlation, mcp_answer};

/// The answer to one request, as it comes.
pub(super) type Answer = Pin<Box<dyn Future<Output = Answered>>>;

/// A JSON-RPC response, and the HTTP status that it has where it is sent alone.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) status: u16,
    pub(super) retry_after: Option<u32>,
}

impl Answered {
    /// The response to a request.
    pub(super) fn of(result: Result<String, RpcError>, id: &RequestId) -> Self {
        let wire = |error: &WireError| Self {
            text: error.body(Some(id)),
            status: error.status,
            retry_after: error.retry_after,
        };
        match result {
            Ok(result) => Self { text: result_text(&result, id), status: 200, retry_after: None },
            Err(RpcError::Internal(reason)) => wire(&WireError::internal(&correlation(&reason))),
            Err(RpcError::Unavailable) => wire(&WireError::storage_unavailable()),
            Err(RpcError::Answer { code: -32_603, message, .. }) => wire(&WireError::internal(&correlation(&message))),
            Err(RpcError::Answer { code, message, data }) => {
                Self { text: error_text(code, &message, data.as_ref(), Some(id)), status: 200, retry_after: None }
            }
        }
    }
}

/// A response that is there already, in the form that the client admits.
pub(super) fn answer_now(accepts: Accepts, answered: Answered) -> worker::Result<Response> {
    let Answered { text, status, retry_after } = answered;
    let response = if accepts.json {
        mcp_answer(status, "application/json", text)?
    } else {
        mcp_answer(status, "text/event-stream", message_event(&text))?
    };
    if let Some(seconds) = retry_after {
        response.headers().set("retry-after", &seconds.to_string())?;
    }
    Ok(response)
}

/// A tool result that tells the model what was wrong with its call.
pub(super) fn tool_error(code: &str, message: &str) -> String {
    text_result(
        message,
        Some(&json!({ "status": "error", "error": { "code": code, "message": message }, "logs": [] })),
        true,
    )
}
