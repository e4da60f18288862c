//! Every error body that the gateway writes itself.

use serde::Serialize;
use serde_json::Value;

use super::jsonrpc::RequestId;

/// An HTTP answer that carries a JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// HTTP status.
    pub status: u16,
    /// JSON-RPC error code.
    pub code: i32,
    /// What happened and what to do.
    pub message: String,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
}

impl WireError {
    fn new(status: u16, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// The method is none of `GET`, `POST`, `DELETE`, `OPTIONS`.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(405, -32_001, "Method not allowed")
    }

    /// The page that sent the request is not one that may.
    #[must_use]
    pub fn origin_not_allowed() -> Self {
        Self::new(403, -32_000, "Origin not allowed")
    }

    /// No bearer, or one that is not valid.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, -32_001, "Unauthorized")
    }

    /// Verified, but not allowed.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, -32_001, message)
    }

    /// Keys of an issuer or the directory could not be read. No session ends because of it.
    #[must_use]
    pub fn authentication_unavailable() -> Self {
        let message = "Authentication temporarily unavailable - please retry";
        Self { retry_after: Some(2), ..Self::new(503, -32_001, message) }
    }

    /// More of something than is served in a minute.
    #[must_use]
    pub fn too_many(what: &str, seconds: u32) -> Self {
        let message = format!("Too many {what}; try again in {seconds} s");
        Self { retry_after: Some(seconds), ..Self::new(429, -32_000, message) }
    }

    /// The credential is for something else than what was asked.
    #[must_use]
    pub fn not_the_owner() -> Self {
        Self::new(403, -32_003, "MCP session does not belong to the current bearer")
    }

    /// The session was never initialised here, or is wiped.
    #[must_use]
    pub fn session_not_found() -> Self {
        Self::new(404, -32_001, "Session not found")
    }

    /// The session ended.
    #[must_use]
    pub fn session_timed_out() -> Self {
        Self::new(404, -32_001, "Session timed out, please reconnect")
    }

    /// Something else than `initialize` without a session.
    #[must_use]
    pub fn session_id_required() -> Self {
        Self::new(400, -32_000, "Mcp-Session-Id header is required")
    }

    /// A GET without a session.
    #[must_use]
    pub fn session_id_required_for_sse() -> Self {
        Self::new(400, -32_000, "mcp-session-id header required for SSE")
    }

    /// The client admits neither JSON nor an event stream.
    #[must_use]
    pub fn not_acceptable(needed: &str) -> Self {
        Self::new(406, -32_000, format!("Not Acceptable: the client must accept {needed}"))
    }

    /// The body is not declared as JSON.
    #[must_use]
    pub fn unsupported_media_type() -> Self {
        Self::new(415, -32_000, "Unsupported Media Type: Content-Type must be application/json")
    }

    /// The body is larger than `limit` bytes.
    #[must_use]
    pub fn body_too_large(limit: usize) -> Self {
        Self::new(413, -32_000, format!("Request body is larger than {limit} bytes"))
    }

    /// The body is not JSON.
    #[must_use]
    pub fn parse_error(what: &str) -> Self {
        Self::new(400, -32_700, format!("Parse error: {what}"))
    }

    /// The body is JSON, but no JSON-RPC message that is allowed here.
    #[must_use]
    pub fn invalid_request(what: &str) -> Self {
        Self::new(400, -32_600, format!("Invalid Request: {what}"))
    }

    /// A value in the request that the gateway does not take.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, -32_000, message)
    }

    /// The gateway or a part of it is restarting.
    #[must_use]
    pub fn restarting() -> Self {
        Self { retry_after: Some(2), ..Self::new(503, -32_001, "MCP session is restarting, please retry") }
    }

    /// The object has more to do than it can.
    #[must_use]
    pub fn overloaded() -> Self {
        Self { retry_after: Some(5), ..Self::restarting() }
    }

    /// The organization's record could not be read just now.
    #[must_use]
    pub fn storage_unavailable() -> Self {
        Self {
            retry_after: Some(2),
            ..Self::new(503, -32_001, "Session storage temporarily unavailable - please retry")
        }
    }

    /// Unforeseen. The cause is in the log only, under the same id.
    #[must_use]
    pub fn internal(correlation: &str) -> Self {
        Self::new(500, -32_603, format!("Internal server error (reference {correlation})"))
    }

    /// Nothing is served at that address.
    #[must_use]
    pub fn no_such_route() -> Self {
        Self::new(404, -32_601, "Not found")
    }

    /// A session cannot be opened on a toolkit that does not exist.
    #[must_use]
    pub fn no_such_toolkit(slug: &str) -> Self {
        Self::new(404, -32_001, format!("There is no toolkit {slug} in this organization"))
    }

    /// The body; `id` is that of the request where it could be read.
    #[must_use]
    pub fn body(&self, id: Option<&RequestId>) -> String {
        error_text(self.code, &self.message, None, id)
    }
}

/// A JSON-RPC error response.
#[must_use]
pub fn error_text(code: i32, message: &str, data: Option<&Value>, id: Option<&RequestId>) -> String {
    #[derive(Serialize)]
    struct ErrorResponse<'a> {
        jsonrpc: &'static str,
        error: ErrorObject<'a>,
        id: Option<&'a RequestId>,
    }
    #[derive(Serialize)]
    struct ErrorObject<'a> {
        code: i32,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Value>,
    }
    let response = ErrorResponse { jsonrpc: "2.0", error: ErrorObject { code, message, data }, id };
    serde_json::to_string(&response).unwrap_or_default()
}

/// A JSON-RPC response with `result`, JSON text already.
#[must_use]
pub fn result_text(result: &str, id: &RequestId) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.as_json(), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_body_format_unchanged() {
        assert_eq!(
            WireError::session_not_found().body(None),
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#
        );
    }
}
