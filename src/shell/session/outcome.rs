//! Why a request is not answered as asked.

use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::RequestId;
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

/// A JSON-RPC error. With -32603 the message goes to the log only.
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: String,
}

impl RpcError {
    pub(super) fn internal(message: &str) -> Self {
        Self { code: -32_603, message: message.to_owned() }
    }
}

impl From<worker::Error> for RpcError {
    fn from(error: worker::Error) -> Self {
        Self::internal(&error.to_string())
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        Self::internal(&error.to_string())
    }
}

impl From<serde_json::Error> for RpcError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(&error.to_string())
    }
}
