//! Whether a call may run: `allow`, `approve` or `block`. Pure policy, no lookups.

use serde::{Deserialize, Serialize};

use crate::catalog::tool::{Binding, Tool};

/// What policy says of a call, from loose to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is sent.
    Allow,
    /// A person is asked first.
    Approve,
    /// It is never sent.
    Block,
}

/// An action and why it applies, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What is done.
    pub action: Action,
    /// Why.
    pub reason: String,
}

/// What a tool's own nature says where no rule matches: what only reads is allowed, everything else
/// is asked about.
#[must_use]
pub fn judge_nature(tool: &Tool) -> Judgement {
    match &tool.binding {
        Binding::Http(http) => {
            let method = http.method.as_str();
            if tool.hints.read_only {
                Judgement { action: Action::Allow, reason: format!("{method} only reads") }
            } else {
                Judgement { action: Action::Approve, reason: format!("{method} may change something") }
            }
        }
        // Whoever wants a call to pass says that it only reads.
        Binding::Mcp(_) => Judgement {
            action: Action::Approve,
            reason: "the server is not trusted to say what its tools do".to_owned(),
        },
    }
}

/// Whether a call may be sent again after a crash: of an HTTP tool by its method (RFC 9110, section 9.2.2, but only as far
/// as the source vouches for it), of an MCP server's only where a trusted one says so.
#[must_use]
pub fn may_be_sent_again(tool: &Tool, honours_idempotency_key: bool) -> bool {
    match &tool.binding {
        Binding::Http(http) => honours_idempotency_key || matches!(http.method.as_str(), "GET" | "HEAD" | "OPTIONS"),
        Binding::Mcp(_) => false,
    }
}
