//! Stops: an administrator ends all sending for the organization, a source or an account, until the stop is removed. Nothing that
//! waits is lost by it.

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::fields::Fields;
use super::slug::is_source;
use crate::auth::is_name;

/// Stops of an organization.
pub const STOPS_LIMIT: usize = 100;
/// Characters of a reason.
const REASON_LIMIT: usize = 500;
/// The scope of everything.
pub const ORGANIZATION: &str = "organization";

/// A stop, as it is stored and shown to sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// `organization`, `source:<slug>` or `account:<account>`.
    pub scope: String,
    /// Why, for whoever meets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The administrator.
    pub by: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub at: u64,
}

impl Stop {
    /// What a program or a client is told.
    #[must_use]
    pub fn message(&self) -> String {
        let what = match self.scope.split_once(':') {
            Some(("source", slug)) => format!("Sending to the source {slug} is stopped"),
            Some(_) => "Sending for this account is stopped".to_owned(),
            None => "Sending is stopped for the whole organization".to_owned(),
        };
        let reason = self.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{what} by an administrator{reason}")
    }
}

/// The stop that a call meets.
#[must_use]
pub fn stop_of<'s>(stops: &'s [Stop], source: &str, account: &str) -> Option<&'s Stop> {
    stops.iter().find(|stop| match stop.scope.split_once(':') {
        Some(("source", slug)) => slug == source,
        Some(("account", name)) => name == account,
        Some(_) => false,
        None => stop.scope == ORGANIZATION,
    })
}

/// Reads a scope in a path.
pub fn parse_scope(text: &str) -> Result<String, Fault> {
    let is_one = match text.split_once(':') {
        Some(("source", slug)) => is_source(slug),
        Some(("account", name)) => is_name(name) && name.chars().count() <= crate::auth::NAME_LIMIT,
        Some(_) => false,
        None => text == ORGANIZATION,
    };
    let problem = "has to be organization, source:<slug> or account:<account>";
    is_one.then(|| text.to_owned()).ok_or_else(|| Fault::field("scope", problem))
}

/// Reads `{reason?}`; an empty body is one without a reason.
pub fn parse_stop(body: &str) -> Result<Option<String>, Fault> {
    if body.trim().is_empty() {
        return Ok(None);
    }
    let mut fields = Fields::read(body, "The body", "")?;
    let reason = fields.text("reason", REASON_LIMIT)?;
    fields.end("reason")?;
    Ok(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(scope: &str) -> Stop {
        Stop { scope: scope.to_owned(), reason: Some("fire".to_owned()), by: "root".to_owned(), at: 1 }
    }

    #[test]
    fn a_stop_is_met_in_its_scope_only() {
        for (scope, source, account, met) in [
            ("organization", "demo", "ann", true),
            ("source:demo", "demo", "ann", true),
            ("source:demo", "demo2", "ann", false),
            ("account:ann", "demo", "ann", true),
            ("account:ann", "ann", "bob", false),
            ("account:a:b", "demo", "a:b", true),
        ] {
            assert_eq!(stop_of(&[stop("source:other"), stop(scope)], source, account).is_some(), met, "{scope}");
        }
    }

    #[test]
    fn scopes_and_reasons_are_read() {
        for scope in ["organization", "source:my-api", "account:ann@example.com", "account:a:b"] {
            assert_eq!(parse_scope(scope).as_deref(), Ok(scope));
        }
        for scope in ["", "all", "source:", "source:A B", "account:", "account:a\nb", "toolkit:x", "organization:x"] {
            assert_eq!(parse_scope(scope).unwrap_err().field.as_deref(), Some("scope"), "{scope}");
        }
        assert_eq!(parse_stop(""), Ok(None));
        assert_eq!(parse_stop(r#"{"reason":" fire "}"#), Ok(Some("fire".to_owned())));
        assert_eq!(parse_stop(r#"{"until":"x"}"#).unwrap_err().field.as_deref(), Some("until"));
        assert_eq!(parse_stop(&format!(r#"{{"reason":"{}"}}"#, "x".repeat(501))).unwrap_err().status, 400);
    }

    #[test]
    fn stop_format_unchanged() {
        let text = r#"{"scope":"source:demo","reason":"fire","by":"root","at":1}"#;
        assert_eq!(serde_json::to_string(&stop("source:demo")).unwrap(), text);
        assert_eq!(serde_json::from_str::<Stop>(text).unwrap(), stop("source:demo"));
    }
}
