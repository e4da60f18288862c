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

/// The media type of an answer that is not a stream.
pub(super) const JSON: &str = "application/json";

/// The answer to one request, as it comes.
pub(super) type Answer = Pin<Box<dyn Future<Output = Answered>>>;

/// A JSON-RPC response, and the HTTP status that it has where it is sent alone.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) status: u16,
    pub(super) retry_after: Option<u32>,
}

impl Answered {
    /// A text that is sent with 200.
    pub(super) fn ok(text: String) -> Self {
        Self { text, status: 200, retry_after: None }
    }

    /// An error of the gateway's own.
    pub(super) fn error(error: &WireError, id: &RequestId) -> Self {
        Self { text: error.body(Some(id)), status: error.status, retry_after: error.retry_after }
    }

    /// The response to a request.
    pub(super) fn of(result: Result<String, RpcError>, id: &RequestId) -> Self {
        match result {
            Ok(result) => Self::ok(result_text(&result, id)),
            Err(RpcError::Internal(reason) | RpcError::Answer { code: -32_603, message: reason, .. }) => {
                Self::error(&WireError::internal(&correlation(&reason)), id)
            }
            Err(RpcError::Unavailable) => Self::error(&WireError::storage_unavailable(), id),
            Err(RpcError::Answer { code, message, data }) => {
                Self::ok(error_text(code, &message, data.as_ref(), Some(id)))
            }
        }
    }
}

/// What a request comes to.
pub(super) enum Reply {
    /// A JSON text with 200 and the headers of every answer on `/mcp`; nearly all are such.
    Json(String),
    /// Anything else.
    Response(Response),
}

impl Reply {
    /// The response to the client.
    pub(super) fn into_response(self) -> worker::Result<Response> {
        match self {
            Self::Json(text) => mcp_answer(200, JSON, text),
            Self::Response(response) => Ok(response),
        }
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}

/// A response that is there already, in the form that the client admits.
pub(super) fn answer_now(accepts: Accepts, answered: Answered) -> worker::Result<Reply> {
    let Answered { text, status, retry_after } = answered;
    if accepts.json && status == 200 && retry_after.is_none() {
        return Ok(Reply::Json(text));
    }
    let response = if accepts.json {
        mcp_answer(status, JSON, text)?
    } else {
        mcp_answer(status, "text/event-stream", message_event(&text))?
    };
    if let Some(seconds) = retry_after {
        response.headers().set("retry-after", &seconds.to_string())?;
    }
    Ok(response.into())
}

/// A tool result that tells the model what was wrong with its call.
pub(super) fn tool_error(code: &str, message: &str) -> String {
    text_result(
        message,
        Some(&json!({ "status": "error", "error": { "code": code, "message": message }, "logs": [] })),
        true,
    )
}
