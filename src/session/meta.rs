//! What is stored of a session.

use serde::{Deserialize, Serialize};

use super::mode::Modes;
use crate::auth::Principal;
use crate::upstream::LogLevel;

/// The layout of the session object's storage that this release writes.
pub const SCHEMA_VERSION: u32 = 4;

/// A session, written when it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMeta {
    /// Whose it is.
    pub organization: String,
    /// Whose it is.
    pub account: String,
    /// The resource it was opened on: `default`, or a toolkit's slug.
    pub resource: String,
    /// How tools are offered and questions asked.
    pub modes: Modes,
    /// The version that was negotiated.
    pub protocol_version: String,
    /// What the client says of itself. Untrusted.
    pub client: ClientInfo,
    /// The client's capabilities, as JSON text. Untrusted.
    pub capabilities: String,
    /// The gateway's own origin, for links.
    pub public_origin: String,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// The least severe log message that the client wants; `None` until it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Whether the owner's last token had the role `admin`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// When it ended and why; the rest of the object may still hold executions that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Tombstone>,
}

impl SessionMeta {
    /// Whether it belongs to this principal.
    #[must_use]
    pub fn is_owned_by(&self, principal: &Principal) -> bool {
        principal.owns(&self.account, &self.organization)
    }
}

/// What a client says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What is left of a session that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// When it ended, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Why.
    pub reason: Termination,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// The client asked for it.
    Deleted,
    /// Nobody used it for the idle timeout.
    Idle,
    /// Its owner has no access to the organization any more.
    AccessLost,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{ElicitationMode, ToolMode};

    #[test]
    fn session_meta_format_unchanged() {
        let meta = SessionMeta {
            organization: "acme".to_owned(),
            account: "ann".to_owned(),
            resource: "default".to_owned(),
            modes: Modes { elicitation: ElicitationMode::Browser, tools: ToolMode::Code },
            protocol_version: "2025-11-25".to_owned(),
            client: ClientInfo { name: "c".to_owned(), version: "1".to_owned() },
            capabilities: "{}".to_owned(),
            public_origin: "https://gw.example".to_owned(),
            created_at: 1,
            log_level: None,
            admin: false,
            terminated: Some(Tombstone { at: 2, reason: Termination::Deleted }),
        };
        let text = concat!(
            r#"{"organization":"acme","account":"ann","resource":"default","#,
            r#""modes":{"elicitation":"browser","tools":"code"},"protocolVersion":"2025-11-25","#,
            r#""client":{"name":"c","version":"1"},"capabilities":"{}","#,
            r#""publicOrigin":"https://gw.example","createdAt":1,"terminated":{"at":2,"reason":"deleted"}}"#
        );
        assert_eq!(serde_json::to_string(&meta).unwrap(), text);
        assert_eq!(serde_json::from_str::<SessionMeta>(text).unwrap(), meta);
        let meta = SessionMeta { log_level: Some(LogLevel::Warning), ..meta };
        let text = text.replace(r#","terminated""#, r#","logLevel":"warning","terminated""#);
        assert_eq!(serde_json::to_string(&meta).unwrap(), text);
        assert_eq!(serde_json::from_str::<SessionMeta>(&text).unwrap(), meta);
    }
}
