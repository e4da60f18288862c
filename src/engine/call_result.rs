//! The value that a call answers with: `{ok:true, data}` or `{ok:false, error}`, as JSON text.

use std::rc::Rc;

use serde::Serialize;

/// Why a call did not succeed, as the program sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallError {
    /// Stable code the program can compare.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// What the person wrote when declining.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More, where there is more: the faults of arguments, suggestions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// Whether the same call may work later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
}

impl CallError {
    /// An error with a code and a message only.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason: None, details: None, retryable: false }
    }
}

/// The text of a failed call's result.
#[must_use]
pub fn error_result(error: &CallError) -> Rc<str> {
    #[derive(Serialize)]
    struct Failed<'a> {
        ok: bool,
        error: &'a CallError,
    }
    serde_json::to_string(&Failed { ok: false, error })
        .unwrap_or_else(|_| {
            r#"{"ok":false,"error":{"code":"internal","message":"The error could not be written."}}"#.to_owned()
        })
        .into()
}

/// The text of a successful result whose data is `data`, JSON text already.
#[must_use]
pub fn ok_result(data: &str) -> Rc<str> {
    format!(r#"{{"ok":true,"data":{data}}}"#).into()
}
