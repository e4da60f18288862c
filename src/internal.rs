//! Messages between the Worker and its objects.
//!
//! During a deploy the two may differ by one version, so every message carries one. Identity is verified at the edge; no
//! header of a client's request gets to an object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Verdict;
use crate::auth::Principal;
use crate::catalog::tool::Tool;
use crate::protocol::trace::Trace;
use crate::session::ElicitationMode;

/// Version of the messages in this module. From 2 on no header of the client's goes along, so a context has to say what was
/// asked.
pub const VERSION: u32 = 2;
/// The header that carries the [`Context`].
pub const CONTEXT_HEADER: &str = "x-countersign-context";

/// What the edge tells a session object about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// [`VERSION`]
    pub version: u32,
    /// The verified identity.
    pub principal: Principal,
    /// The resource that was addressed.
    pub resource: String,
    /// The gateway's own origin.
    pub public_origin: String,
    /// What the client's request says of itself; empty where there is none.
    pub asked: Asked,
    /// The trace that the request belongs to.
    #[serde(default, skip_serializing_if = "Trace::is_empty")]
    pub trace: Trace,
    /// What is wanted.
    pub operation: Operation,
}

/// Headers of a client's request that the session object acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// `Accept`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// `Content-Type`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `MCP-Protocol-Version`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// `Last-Event-ID`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<String>,
    /// Whether the body is small and was read already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

/// What a session object is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "name")]
pub enum Operation {
    /// An MCP request of a session that may exist.
    Mcp,
    /// An `initialize` request, in an object that was just made for it.
    Open,
    /// What waits under a pause, for a person.
    View {
        /// The pause.
        pause: String,
    },
    /// A decision; the body is a [`DecisionRequest`].
    Decide {
        /// The pause.
        pause: String,
    },
    /// What the session's programs did, newest first.
    History {
        /// What the page before this one ended with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The organization's catalog changed.
    CatalogChanged,
    /// `resume` from another session; the body is a [`ResumeRequest`].
    Resume {
        /// The pause.
        pause: String,
    },
}

impl Context {
    /// The text of the header.
    #[must_use]
    pub fn encode(&self) -> String {
        STANDARD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the header; `None` when it is missing, broken or of another version.
    #[must_use]
    pub fn decode(header: Option<&str>) -> Option<Self> {
        let bytes = STANDARD.decode(header?).ok()?;
        let context: Self = serde_json::from_slice(&bytes).ok()?;
        (context.version == VERSION).then_some(context)
    }
}

/// `resume`, as one session object asks another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeRequest {
    /// How the asking session wants to be asked.
    pub mode: ElicitationMode,
    /// The answer that the model relays.
    pub decision: Option<RelayedDecision>,
}

/// A decision that a model relays for everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedDecision {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
}

/// A decision on its way to the session object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRequest {
    /// For everything that waits: the digest, the answer and why.
    pub all: Option<DecisionOnAll>,
    /// For single calls.
    pub items: Vec<DecisionOnCall>,
}

/// One answer for everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionOnAll {
    /// Digest of all that was shown.
    pub digest: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
}

/// The answer for one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionOnCall {
    /// The call's number.
    pub call: u32,
    /// Digest of what was shown of it.
    pub digest: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
}

/// What the organization object knows of a tool that is about to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolLookup {
    /// The tool; `None` when there is none at that address.
    pub tool: Option<Tool>,
    /// Its source.
    pub source: Option<SourceRow>,
    /// Addresses that look alike, where there is no such tool.
    pub suggestions: Vec<String>,
}

/// A configured API, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRow {
    /// The first part of its tools' addresses.
    pub slug: String,
    /// For people.
    pub title: String,
    /// Where its requests go.
    pub base_url: Option<String>,
    /// Whether it is served by the gateway itself.
    pub built_in: bool,
    /// Whether a request that is repeated with the same `Idempotency-Key` is carried out once.
    pub honours_idempotency_key: bool,
    /// Number of its tools.
    pub tools: u32,
}

/// A question of a program to the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogQuestion {
    /// `search`, `describe` or `sources.list`.
    pub address: String,
    /// The arguments.
    pub arguments: Value,
}

/// A question about one tool that a client named, or about a page of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectQuestion {
    /// The tool with that name.
    Name(String),
    /// The tools whose addresses come after this one.
    Page {
        /// An address, or nothing for the first page.
        after: String,
    },
}

/// Its answer, with the version of the catalog that it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectAnswer {
    /// Changes with every change of the catalog.
    pub catalog: u64,
    /// The tool that was asked for.
    pub lookup: Option<ToolLookup>,
    /// The page: each tool as it is listed, as JSON text.
    pub tools: Vec<String>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Purpose;

    #[test]
    fn a_context_of_another_version_is_not_read() {
        let principal = Principal {
            account: "ann".to_owned(),
            organization: "acme".to_owned(),
            admin: false,
            purpose: Purpose::Mcp,
        };
        let context = Context {
            version: VERSION,
            principal,
            resource: "default".to_owned(),
            public_origin: "https://gw.example".to_owned(),
            asked: Asked { accept: Some("*/*".to_owned()), ..Asked::default() },
            trace: Trace::default(),
            operation: Operation::Mcp,
        };
        assert_eq!(Context::decode(Some(&context.encode())), Some(context.clone()));
        for version in [VERSION - 1, VERSION + 1] {
            let other = Context { version, ..context.clone() };
            assert_eq!(Context::decode(Some(&other.encode())), None, "{version}");
        }
        // What a Worker of version 1 sends: the headers came beside it.
        let old = serde_json::to_string(&context).unwrap().replace(r#""asked":{"accept":"*/*"},"#, "");
        assert_eq!(Context::decode(Some(&STANDARD.encode(old))), None);
    }
}
