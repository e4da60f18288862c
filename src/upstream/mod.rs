//! MCP servers behind the gateway, as a session sees them: what they offer, what they are asked, and what they may do
//! while they answer (specification, revision 2025-11-25, "Server Features" and "Client Features").
//!
//! A server is asked with the method and the parameters of the client's own request, and answers with the result as it
//! goes to the client. Ids and progress tokens never pass: the gateway has its own on either side.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub mod client;
#[cfg(feature = "conformance")]
pub mod fixtures;

/// The features that a server declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent feature")]
pub struct Offers {
    /// `tools/list`, `tools/call`
    pub tools: bool,
    /// `resources/list`, `resources/templates/list`, `resources/read`
    pub resources: bool,
    /// `resources/subscribe`, `resources/unsubscribe`
    pub subscriptions: bool,
    /// `prompts/list`, `prompts/get`
    pub prompts: bool,
    /// `completion/complete`
    pub completions: bool,
    /// `notifications/message`
    pub logging: bool,
}

impl Offers {
    /// What either of the two offers.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            subscriptions: self.subscriptions || other.subscriptions,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
        }
    }
}

/// Why a server gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServerError {
    /// It answered with a JSON-RPC error, which goes to the client as it is.
    #[error("{message}")]
    Rpc {
        /// The code.
        code: i32,
        /// The message.
        message: String,
        /// More of it.
        data: Option<Value>,
    },
    /// It has nothing under that name: another server may have.
    #[error("unknown: {0}")]
    Unknown(String),
    /// The client cannot be asked: it did not declare the capability, takes no events, or is gone.
    #[error("the client cannot be asked: {0}")]
    ClientCannotBeAsked(String),
}

/// Severities of log messages (RFC 5424, section 6.2.1), from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Details for developers.
    Debug,
    /// What happens in general.
    Info,
    /// Normal but worth noting.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// The level of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        crate::json::from_value(Value::String(name.to_owned())).ok()
    }
}

/// A question of a server to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// `elicitation/create`, with its parameters: form or URL.
    Elicitation(Map<String, Value>),
    /// `sampling/createMessage`, with its parameters.
    Sampling(Map<String, Value>),
    /// `roots/list`
    Roots,
}

/// What a server tells of itself, not of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Its list of tools.
    Tools,
    /// Its list of resources.
    Resources,
    /// Its list of prompts.
    Prompts,
    /// One resource, by URI.
    Resource(String),
}

/// What a server may do while it answers one request.
pub trait Link {
    /// Tells how far it is. Sent only if the client gave a token, and with exactly that token.
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// A log message; `data` is any JSON. Sent only if the client wants that level.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value);

    /// Asks the client and gives its result. `Rpc` when the client answers with an error.
    ///
    /// Questions of one request are told apart by their order: a server that is asked again after a restart
    /// (see [`McpServer::may_repeat`]) gets the answers that its earlier questions got.
    fn ask(&self, question: Question) -> LocalBoxFuture<'_, Result<Value, ServerError>>;

    /// Tells the client that something changed, on no request's stream.
    fn changed(&self, what: Changed);

    /// Headers of the trace that the request belongs to.
    fn trace(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Waits. A server has no other clock.
    fn sleep(&self, milliseconds: u32) -> LocalBoxFuture<'_, ()>;

    /// Closes the client's connection, if its version lets it come back for the rest
    /// (specification, revision 2025-11-25, "Sending Messages to the Server", on disconnecting early).
    fn disconnect(&self);
}

/// An MCP server.
pub trait McpServer {
    /// For log lines and error messages.
    fn name(&self) -> &str;

    /// The features that it declared.
    fn offers(&self) -> Offers;

    /// Whether a request whose connection was lost may be handed over again. Such a server asks the same questions and
    /// sends the same notifications in the same order, as far as the answers are the same.
    fn may_repeat(&self) -> bool;

    /// Answers one request. `_meta` is not among the parameters.
    fn handle<'a>(
        &'a self,
        method: &'a str,
        params: Map<String, Value>,
        link: Rc<dyn Link>,
    ) -> LocalBoxFuture<'a, Result<Value, ServerError>>;
}
