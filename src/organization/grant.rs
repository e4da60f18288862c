//! Grants: what a person allowed beyond one call. They take the place of asking, and of nothing else: policy is looked at first.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::approval::{Approvers, Standing};
use crate::protocol::time::iso_time;

/// The longest that a grant lasts, in hours.
pub const HOURS_MOST: u64 = 7 * 24;
/// Grants that count at once, of one account.
pub const GRANTS_LIMIT: u64 = 200;
/// How long a grant waits for its decision to be written, in milliseconds. One that never was counted is forgotten then.
pub const UNCONFIRMED_MS: u64 = 24 * 3_600_000;

/// A grant. It is stored by the organization object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallGrant {
    /// Names it.
    pub id: String,
    /// The account whose sessions' calls it lets through.
    pub account: String,
    /// The tool.
    pub address: String,
    /// SHA-256 of what the digest of an approval covers of the tool: a tool that changed is another one.
    pub definition: String,
    /// The only session whose calls it lets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// SHA-256 of the only arguments that it lets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Those arguments for people, bounded. Untrusted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// The account that gave it.
    pub by: String,
    /// In what role.
    #[serde(default, skip_serializing_if = "Standing::is_plain_owner")]
    pub standing: Standing,
    /// The execution and the call that it was given with, as log lines name them.
    pub execution: String,
    /// See `execution`.
    pub call: u32,
    /// When it was given, in milliseconds since the Unix epoch.
    pub given_at: u64,
    /// When it ends, likewise.
    pub expires_at: u64,
    /// How often it let a call through.
    #[serde(default)]
    pub uses: u64,
    /// The call that it let through last: when, and which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_use: Option<(u64, String)>,
}

/// A call that a person would have to be asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedCall {
    /// The account that the session belongs to.
    pub account: String,
    /// The session.
    pub session: String,
    /// The tool.
    pub address: String,
    /// As in [`CallGrant`].
    pub definition: String,
    /// SHA-256 of the arguments.
    pub arguments: String,
    /// Who may decide, by the policy of this moment.
    pub approvers: Approvers,
    /// The execution.
    pub execution: String,
    /// The call's number.
    pub call: u32,
    /// The digest of what would be shown.
    pub digest: String,
    /// The grant that was found, and is used now; `None` only looks for one.
    pub uses: Option<String>,
}

impl CallGrant {
    /// Whether it lets a call through at a time. Whoever gave it has to be somebody who may decide by the rule of this moment.
    #[must_use]
    pub fn covers(&self, call: &WantedCall, now: u64) -> bool {
        let is_bound = self.session.is_some() || self.arguments.is_some();
        is_bound
            && now < self.expires_at
            && self.account == call.account
            && self.address == call.address
            && self.definition == call.definition
            && self.session.as_ref().is_none_or(|session| *session == call.session)
            && self.arguments.as_ref().is_none_or(|arguments| *arguments == call.arguments)
            && call.approvers.admit(self.standing)
            && call.uses.as_ref().is_none_or(|id| *id == self.id)
    }

    /// As it is listed.
    #[must_use]
    pub fn shown(&self) -> Value {
        json!({
            "id": self.id,
            "account": self.account,
            "address": self.address,
            "scope": if self.arguments.is_some() { "arguments" } else { "session" },
            "mcpSessionId": self.session,
            "arguments": self.excerpt,
            "by": self.by,
            "givenAt": iso_time(self.given_at),
            "expiresAt": iso_time(self.expires_at),
            "uses": self.uses,
            "lastUsedAt": self.last_use.as_ref().map(|(at, _)| iso_time(*at)),
        })
    }
}

/// Whether a text can be the id of a grant.
#[must_use]
pub fn is_grant_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether calls of a tool can be granted at all: what changes the gateway itself is asked about every time.
#[must_use]
pub fn can_be_granted(address: &str) -> bool {
    address.split('.').next() != Some(super::SLUG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> CallGrant {
        CallGrant {
            id: "0".repeat(32),
            account: "ann".to_owned(),
            address: "a.b".to_owned(),
            definition: "d".to_owned(),
            session: Some("s".to_owned()),
            arguments: None,
            excerpt: None,
            by: "ann".to_owned(),
            standing: Standing::default(),
            execution: "e".to_owned(),
            call: 1,
            given_at: 1,
            expires_at: 10,
            uses: 0,
            last_use: None,
        }
    }

    fn wanted() -> WantedCall {
        WantedCall {
            account: "ann".to_owned(),
            session: "s".to_owned(),
            address: "a.b".to_owned(),
            definition: "d".to_owned(),
            arguments: "x".to_owned(),
            approvers: Approvers::Owner,
            execution: "e".to_owned(),
            call: 2,
            digest: "dd".to_owned(),
            uses: None,
        }
    }

    #[test]
    fn a_grant_covers_what_it_says_and_nothing_else() {
        let text = |text: &str| text.to_owned();
        assert!(grant().covers(&wanted(), 9));
        assert!(!grant().covers(&wanted(), 10), "it ends");
        for other in [
            WantedCall { account: text("ben"), ..wanted() },
            WantedCall { session: text("t"), ..wanted() },
            WantedCall { address: text("a.c"), ..wanted() },
            WantedCall { definition: text("changed"), ..wanted() },
            WantedCall { approvers: Approvers::Other, ..wanted() },
            WantedCall { uses: Some(text("another")), ..wanted() },
            WantedCall { approvers: Approvers::Admin, ..wanted() },
        ] {
            assert!(!grant().covers(&other, 5), "{other:?}");
        }
        assert!(grant().covers(&WantedCall { arguments: text("y"), ..wanted() }, 5));
        let exact = CallGrant { session: None, arguments: Some(text("x")), ..grant() };
        assert!(exact.covers(&WantedCall { session: text("t"), ..wanted() }, 5));
        assert!(!exact.covers(&WantedCall { arguments: text("y"), ..wanted() }, 5));
        assert!(!CallGrant { session: None, ..grant() }.covers(&wanted(), 5), "bound to nothing");
        let of_admin = CallGrant { standing: Standing { admin: true, other: true }, ..grant() };
        assert!(of_admin.covers(&WantedCall { approvers: Approvers::OtherAdmin, ..wanted() }, 5));
    }

    #[test]
    fn what_changes_the_gateway_is_never_granted() {
        for (address, expected) in [("countersign.putPolicies", false), ("countersign2.x", true), ("demo.x", true)] {
            assert_eq!(can_be_granted(address), expected, "{address}");
        }
        assert!(is_grant_id(&"0a".repeat(16)));
        assert!(!is_grant_id("x") && !is_grant_id(&"0A".repeat(16)));
    }

    #[test]
    fn call_grant_format_unchanged() {
        let text = r#"{"id":"00000000000000000000000000000000","account":"ann","address":"a.b","definition":"d","session":"s","by":"ann","execution":"e","call":1,"givenAt":1,"expiresAt":10,"uses":0}"#;
        assert_eq!(serde_json::to_string(&grant()).unwrap(), text);
        assert_eq!(serde_json::from_str::<CallGrant>(text).unwrap(), grant());
        let grant = CallGrant { uses: 2, last_use: Some((3, "e 1".to_owned())), ..grant() };
        let text = text.replace(r#""uses":0"#, r#""uses":2,"lastUse":[3,"e 1"]"#);
        assert_eq!(serde_json::to_string(&grant).unwrap(), text);
        assert_eq!(grant.shown()["scope"], "session");
    }
}
