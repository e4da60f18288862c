//! API keys, as an administrator asks for them.

use super::fault::Fault;
use super::fields::Fields;
use crate::auth::{Purpose, is_name};

/// Keys of an organization.
pub const KEYS_LIMIT: u64 = 1_000;
/// Characters of a key's name.
const NAME_LIMIT: usize = 100;

/// A key that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// For people.
    pub name: String,
    /// What it may be used for.
    pub purpose: Purpose,
    /// Whom it acts for; `None` is the account that asks.
    pub account: Option<String>,
    /// When it ends, in milliseconds since the Unix epoch; `None` is never.
    pub expires_at: Option<u64>,
}

/// Reads `{name, purpose, account?, expiresAt?}`.
pub fn parse_new_key(body: &str) -> Result<NewKey, Fault> {
    let mut fields = Fields::read(body, "The body", "")?;
    let name =
        fields.text("name", NAME_LIMIT)?.ok_or_else(|| Fault::field("name", "is required: what the key is for"))?;
    let purpose = fields.text("purpose", 20)?;
    let purpose = purpose.as_deref().and_then(Purpose::parse).filter(|purpose| *purpose != Purpose::Browser);
    let purpose = purpose.ok_or_else(|| Fault::field("purpose", "has to be mcp, approve or admin"))?;
    let account = fields.text("account", crate::auth::NAME_LIMIT)?;
    if name.contains(char::is_control) {
        return Err(Fault::field("name", "has control characters"));
    }
    if account.as_ref().is_some_and(|account| !is_name(account)) {
        return Err(Fault::field("account", "has control characters"));
    }
    let expires_at = match fields.text("expiresAt", 40)? {
        None => None,
        Some(text) => Some(parse_time("expiresAt", &text)?),
    };
    fields.end("name, purpose, account and expiresAt")?;
    Ok(NewKey { name, purpose, account, expires_at })
}

/// Reads a time of a field, in milliseconds since the Unix epoch.
pub(super) fn parse_time(field: &str, text: &str) -> Result<u64, Fault> {
    let time = chrono::DateTime::parse_from_rfc3339(text).ok();
    time.and_then(|time| u64::try_from(time.timestamp_millis()).ok())
        .ok_or_else(|| Fault::field(field, "has to be a time such as 2027-01-31T00:00:00Z"))
}

/// Whether a path of the administration API is about keys: never a tool, because a model would read the key.
#[must_use]
pub fn is_key_route(path: &str) -> bool {
    path.split('/').next() == Some("keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_asked_for() {
        let key = parse_new_key(
            r#"{"name":" CI ","purpose":"approve","account":"ann","expiresAt":"2027-01-31T01:00:00+01:00"}"#,
        );
        let expected = NewKey {
            name: "CI".to_owned(),
            purpose: Purpose::Approve,
            account: Some("ann".to_owned()),
            expires_at: Some(1_801_353_600_000),
        };
        assert_eq!(key, Ok(expected));
        assert!(parse_new_key(r#"{"name":"x","purpose":"mcp","account":null}"#).is_ok());
    }

    #[test]
    fn a_fault_names_its_field() {
        for (body, field) in [
            (r#"{"purpose":"mcp"}"#, Some("name")),
            (r#"{"name":"","purpose":"mcp"}"#, Some("name")),
            (r#"{"name":"a\u0007b","purpose":"mcp"}"#, Some("name")),
            (r#"{"name":"x"}"#, Some("purpose")),
            (r#"{"name":"x","purpose":"browser"}"#, Some("purpose")),
            (r#"{"name":"x","purpose":["mcp"]}"#, Some("purpose")),
            (r#"{"name":"x","purpose":"mcp","account":"a\nb"}"#, Some("account")),
            (r#"{"name":"x","purpose":"mcp","account":7}"#, Some("account")),
            (r#"{"name":"x","purpose":"mcp","expiresAt":"tomorrow"}"#, Some("expiresAt")),
            (r#"{"name":"x","purpose":"mcp","expiresAt":1}"#, Some("expiresAt")),
            (r#"{"name":"x","purpose":"mcp","expiresAt":"1960-01-01T00:00:00Z"}"#, Some("expiresAt")),
            (r#"{"name":"x","purpose":"mcp","scope":"all"}"#, Some("scope")),
            ("[]", None),
            ("", None),
        ] {
            let fault = parse_new_key(body).unwrap_err();
            assert_eq!((fault.status, fault.field.as_deref()), (400, field), "{body}: {fault}");
        }
    }
}
