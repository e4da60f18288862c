//! What is wrong with a request, for the one who sent it.

use serde_json::{Value, json};

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// The field that it is about.
    pub field: Option<String>,
    /// What is wrong and what to do; names the field.
    pub message: String,
    /// Methods that there are, for the `Allow` header of a 405.
    pub allow: Option<&'static str>,
}

impl Fault {
    /// A fault with a status and a sentence.
    #[must_use]
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, field: None, message: message.into(), allow: None }
    }

    /// A field that cannot be taken.
    #[must_use]
    pub fn field(name: impl Into<String>, problem: impl AsRef<str>) -> Self {
        let name = name.into();
        let message = format!("{name} {}", problem.as_ref());
        Self { field: Some(name), ..Self::new(400, message) }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// There is no such thing.
    #[must_use]
    pub fn missing(what: impl AsRef<str>) -> Self {
        Self::new(404, format!("There is no {}.", what.as_ref()))
    }

    /// A method that the route does not have.
    #[must_use]
    pub fn method(allow: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(405, format!("Method not allowed; this route has {allow}.")) }
    }

    /// The body of the answer, in the form of every error that the gateway writes itself.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = json!({ "code": if self.status == 400 { -32_602 } else { -32_000 }, "message": self.message });
        if let (Some(field), Some(error)) = (&self.field, error.as_object_mut()) {
            error.insert("data".to_owned(), json!({ "field": field }));
        }
        json!({ "jsonrpc": "2.0", "error": error, "id": null })
    }
}
