//! Why a request is not answered as asked.

use serde_json::Value;

use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::RequestId;
use crate::protocol::text::bounded;
use crate::shell::store::StoreError;

/// Why a request is not answered as asked.
pub(super) enum Failure {
    Wire(WireError, Option<RequestId>),
    Store(StoreError),
    Platform(worker::Error),
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Wire(error, None)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<worker::Error> for Failure {
    fn from(error: worker::Error) -> Self {
        Self::Platform(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(error, _) => formatter.write_str(&error.message),
            Self::Store(error) => error.fmt(formatter),
            Self::Platform(error) => error.fmt(formatter),
        }
    }
}

/// Why a request gets no result.
#[derive(Debug)]
pub(super) enum RpcError {
    /// What the client is told.
    Answer { code: i32, message: String, data: Option<Value> },
    /// The organization's record cannot be read just now.
    Unavailable,
    /// Unforeseen; the reason goes to the log only.
    Internal(String),
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self::Answer { code, message: message.into(), data: None }
    }

    /// The method is not offered here.
    pub(super) fn method_not_found(method: &str) -> Self {
        Self::new(-32_601, format!("Method not found: {}", bounded(method, 100)))
    }

    /// There is no tool of that name here.
    pub(super) fn unknown_tool(name: &str) -> Self {
        Self::new(-32_602, format!("Unknown tool: {}", bounded(name, 100)))
    }

    /// The cursor is none that a list of the gateway gave.
    pub(super) fn invalid_cursor() -> Self {
        Self::new(-32_602, "Invalid cursor")
    }

    pub(super) fn internal(reason: &str) -> Self {
        Self::Internal(reason.to_owned())
    }
}

impl From<worker::Error> for RpcError {
    fn from(error: worker::Error) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<serde_json::Error> for RpcError {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
