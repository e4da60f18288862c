//! How a server has to be spoken to, and what it offers (revision 2026-07-28, "Versioning and Compatibility").

use serde_json::{Map, Value, json};

use super::exchange::RpcFault;
use super::{HEADER_MISMATCH, SESSION_VERSIONS, STATELESS, UNSUPPORTED_VERSION};
use crate::upstream::Offers;

/// Bytes of a session id.
const SESSION_ID_BYTES: usize = 1_024;

/// How a server is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Era {
    /// Every request by itself.
    Stateless,
    /// After `initialize`.
    Session {
        /// The version that was negotiated.
        version: String,
        /// The server's id of the session, where it gave one.
        id: Option<String>,
    },
}

impl Era {
    /// `stateless`, or the version of the session.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Stateless => "stateless",
            Self::Session { version, .. } => version,
        }
    }
}

/// A server that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Connected {
    /// How.
    pub era: Era,
    /// What it declared.
    pub capabilities: Map<String, Value>,
}

/// What the first request, `server/discover`, told.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    /// It is stateless.
    Stateless(Connected),
    /// Try `initialize`.
    Older,
    /// It is no use to go on: why.
    Unusable(String),
}

/// Reads the answer to `server/discover`. `outcome` is `None` where the body was no answer to it.
#[must_use]
pub fn read_discovery(status: u16, outcome: Option<&Result<Value, RpcFault>>) -> Probed {
    let stateless =
        |capabilities: Map<String, Value>| Probed::Stateless(Connected { era: Era::Stateless, capabilities });
    let speaks =
        |versions: Option<&Value>| versions.and_then(Value::as_array).is_some_and(|v| v.contains(&json!(STATELESS)));
    match outcome {
        Some(Ok(result)) if speaks(result.get("supportedVersions")) => {
            stateless(result.get("capabilities").and_then(Value::as_object).cloned().unwrap_or_default())
        }
        Some(Ok(_)) => Probed::Older,
        Some(Err(fault)) if fault.code == UNSUPPORTED_VERSION => {
            let supported = fault.data.as_ref().and_then(|data| data.get("supported"));
            let known =
                |version: &&str| supported.and_then(Value::as_array).is_some_and(|v| v.contains(&json!(version)));
            match (speaks(supported), SESSION_VERSIONS.iter().any(known)) {
                (true, _) => stateless(Map::new()),
                (false, true) => Probed::Older,
                (false, false) => Probed::Unusable("it speaks no version of MCP that is known here".to_owned()),
            }
        }
        // It checked headers or capabilities, so it knows this version; what it offers, it did not tell.
        Some(Err(fault)) if matches!(fault.code, HEADER_MISMATCH | -32_021) => stateless(Map::new()),
        Some(Err(_)) | None => match status {
            401 | 403 => Probed::Unusable(format!("it answered {status}: the credential is missing or not accepted")),
            429 | 502..=504 => Probed::Unusable(format!("it answered {status}")),
            _ => Probed::Older,
        },
    }
}

/// Reads the answer to `initialize`, and the session id that came with it.
pub fn read_initialized(result: &Value, session_id: Option<&str>) -> Result<Connected, String> {
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if !SESSION_VERSIONS.contains(&version) {
        return Err("it answered initialize with a version that is not known here".to_owned());
    }
    let id = session_id.filter(|id| !id.is_empty());
    if id.is_some_and(|id| id.len() > SESSION_ID_BYTES || !id.bytes().all(|byte| (0x21..0x7f).contains(&byte))) {
        return Err("its session id is no visible ASCII of at most 1024 bytes".to_owned());
    }
    Ok(Connected {
        era: Era::Session { version: version.to_owned(), id: id.map(ToOwned::to_owned) },
        capabilities: result.get("capabilities").and_then(Value::as_object).cloned().unwrap_or_default(),
    })
}

/// Whether a server declared something such as `resources.subscribe`.
#[must_use]
pub fn declared(capabilities: &Map<String, Value>, feature: &str, part: Option<&str>) -> bool {
    match (capabilities.get(feature), part) {
        (Some(Value::Object(_)), None) => true,
        (Some(Value::Object(feature)), Some(part)) => feature.get(part).and_then(Value::as_bool) == Some(true),
        _ => false,
    }
}

/// What the server offers beside tools, which come from the catalog.
#[must_use]
pub fn offers_of(capabilities: &Map<String, Value>) -> Offers {
    Offers {
        tools: false,
        resources: declared(capabilities, "resources", None),
        subscriptions: declared(capabilities, "resources", Some("subscribe")),
        prompts: declared(capabilities, "prompts", None),
        completions: declared(capabilities, "completions", None),
        logging: declared(capabilities, "logging", None),
    }
}
