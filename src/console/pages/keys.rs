//! API keys: listed without their secrets, made and revoked by forms. A new one is shown once.

use askama::Template;
use serde_json::Value;

use super::answer::{brief, list, maybe, text};
use super::approval::time;
use super::markup::{Html, percent};
use super::{Frame, render};

/// Characters of a name or an account.
const CHARACTERS: usize = 200;

/// What was entered into the form for a new key, and why it could not be taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyForm<'a> {
    /// For people.
    pub name: &'a str,
    /// `mcp`, `approve` or `admin`
    pub purpose: &'a str,
    /// Whom it acts for; empty for the person.
    pub account: &'a str,
    /// The day after which it ends, as `YYYY-MM-DD`; empty for never.
    pub until: &'a str,
    /// What is wrong with it.
    pub problem: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysTemplate<'a> {
    frame: Frame,
    taken: bool,
    form: KeyForm<'a>,
    purposes: [(&'static str, &'static str); 3],
    keys: Vec<KeyPart<'a>>,
    next: Option<String>,
}

struct KeyPart<'a> {
    id: &'a str,
    name: Html,
    purpose: &'a str,
    account: Html,
    by: Html,
    made: Html,
    until: Option<Html>,
    used: Option<Html>,
}

/// The purposes, with what they are for.
const PURPOSES: [(&str, &str); 3] = [
    ("mcp", "calls tools; what is risky still waits for a person"),
    ("approve", "decides in a person’s place; never give it to an agent"),
    ("admin", "administers sources, rules and keys"),
];

/// The list of a page of `GET /api/keys`, with forms that post `action=create` or `action=revoke` to `/keys`. `taken`: this gateway
/// takes keys at all.
#[must_use]
pub fn keys_page(answer: &Value, form: KeyForm<'_>, taken: bool, person: &str) -> String {
    render(&KeysTemplate {
        frame: Frame::at("/keys", person),
        taken,
        form,
        purposes: PURPOSES,
        keys: list(answer, "items").iter().map(key_part).collect(),
        next: maybe(answer, "nextCursor").map(|next| format!("/keys?cursor={}", percent(next))),
    })
}

fn key_part(key: &Value) -> KeyPart<'_> {
    KeyPart {
        id: text(key, "id"),
        name: brief(text(key, "name"), CHARACTERS),
        purpose: text(key, "purpose"),
        account: brief(text(key, "account"), CHARACTERS),
        by: brief(text(key, "createdBy"), CHARACTERS),
        made: time(text(key, "createdAt")),
        until: maybe(key, "expiresAt").map(time),
        used: maybe(key, "lastUsedAt").map(time),
    }
}

#[derive(Template)]
#[template(path = "key.html")]
struct KeyTemplate<'a> {
    frame: Frame,
    key: &'a str,
    part: KeyPart<'a>,
}

/// A new key, shown once: the answer of `POST /api/keys`.
#[must_use]
pub fn key_page(answer: &Value, person: &str) -> String {
    render(&KeyTemplate { frame: Frame::at("/keys", person), key: text(answer, "key"), part: key_part(answer) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "</main>\"'><script>alert(1)</script>\u{202E}";

    fn key() -> Value {
        json!({
            "id": "0123456789abcdef", "name": HOSTILE, "purpose": "mcp", "account": HOSTILE, "createdBy": "ann",
            "createdAt": "2026-03-04T09:00:00Z", "expiresAt": null, "lastUsedAt": null,
        })
    }

    #[test]
    fn keys_are_listed_with_a_way_to_revoke_each() {
        let html = keys_page(&json!({ "items": [key()] }), KeyForm::default(), true, "ann@acme");
        assert!(html.contains("name=\"id\" value=\"0123456789abcdef\"") && html.contains("value=\"revoke\""), "{html}");
        assert!(html.contains("never") && !html.contains("<script>") && !html.contains('\u{202E}'));
    }

    #[test]
    fn where_no_keys_are_taken_none_can_be_made() {
        let html = keys_page(&json!({ "items": [] }), KeyForm::default(), false, "ann@acme");
        assert!(!html.contains("value=\"create\"") && html.contains("AUTH_MODE"));
    }

    #[test]
    fn what_was_entered_stays_with_what_is_wrong() {
        let form = KeyForm {
            name: HOSTILE,
            purpose: "approve",
            until: "2027-01-31",
            account: "ben",
            problem: Some("name is too long"),
        };
        let html = keys_page(&json!({ "items": [] }), form, true, "ann@acme");
        assert!(
            html.contains("name is too long")
                && html.contains("value=\"approve\" checked")
                && html.contains("value=\"ben\""),
            "{html}"
        );
        assert!(!html.contains("<script>"));
    }

    #[test]
    fn a_new_key_is_shown() {
        let mut made = key();
        made["key"] = json!("cs_mcp_1");
        assert!(key_page(&made, "ann@acme").contains("<code>cs_mcp_1</code>"));
    }
}
