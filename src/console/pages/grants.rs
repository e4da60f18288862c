//! The page of grants: what is allowed in advance, and a way to revoke it.

use askama::Template;
use serde_json::Value;

use super::approval::time;
use super::json::json;
use super::markup::{Html, count, inline, line, percent};
use super::{Frame, render};

#[derive(Template)]
#[template(path = "grants.html")]
struct GrantsTemplate {
    frame: Frame,
    grants: Vec<GrantPart>,
    next: Option<String>,
}

struct GrantPart {
    id: String,
    address: Html,
    what: &'static str,
    arguments: Option<Html>,
    account: Html,
    by: Html,
    given: Html,
    ends: Html,
    used: String,
    last: Option<Html>,
}

/// The page of the grants that a person sees: `list` is the answer of `GET /api/grants`. Each has a form that posts
/// `action=revoke` and `grant` to `/grants`.
#[must_use]
pub fn grants_page(list: &Value, person: &str) -> String {
    let items = list.get("items").and_then(Value::as_array);
    let next = list.get("nextCursor").and_then(Value::as_str);
    render(&GrantsTemplate {
        frame: Frame::new(Some(person)),
        grants: items.into_iter().flatten().map(grant_part).collect(),
        next: next.map(|next| format!("/grants?cursor={}", percent(next))),
    })
}

fn grant_part(grant: &Value) -> GrantPart {
    let text = |name: &str| grant.get(name).and_then(Value::as_str).unwrap_or_default();
    let uses = grant.get("uses").and_then(Value::as_u64).unwrap_or_default();
    let exact = text("scope") == "arguments";
    GrantPart {
        // The gateway's own, and nothing else.
        id: text("id").chars().filter(char::is_ascii_alphanumeric).collect(),
        address: line(text("address")),
        what: if exact {
            "The tool with exactly these arguments, in every session of the account."
        } else {
            "The tool whatever its arguments, in one session."
        },
        arguments: exact.then(|| json(text("arguments"))),
        account: inline(text("account")),
        by: inline(text("by")),
        given: time(text("givenAt")),
        ends: time(text("expiresAt")),
        used: if uses == 0 {
            "never".to_owned()
        } else {
            count(usize::try_from(uses).unwrap_or(usize::MAX), "time", "times")
        },
        last: Some(text("lastUsedAt")).filter(|at| !at.is_empty()).map(time),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grants_are_listed_with_a_way_to_revoke_each() {
        let list = json!({ "items": [
            { "id": "0a", "account": "ann", "address": "a.b", "scope": "session", "by": "ben", "uses": 2,
              "givenAt": "2026-03-04T09:00:00Z", "expiresAt": "2026-03-05T09:00:00Z", "lastUsedAt": "2026-03-04T10:00:00Z" },
            { "id": "0b", "account": "ann", "address": "a.c", "scope": "arguments", "arguments": "{\"id\":7}", "uses": 0 },
        ], "nextCursor": "x/y" });
        let html = grants_page(&list, "ann@acme");
        for part in [
            "name=\"grant\" value=\"0a\"",
            "2 times",
            "last on <time datetime=\"2026-03-04T10:00:00Z\">",
            "in one session",
            "exactly these arguments",
            "&#34;id&#34;",
            "never",
            "href=\"/grants?cursor=x%2Fy\"",
        ] {
            assert!(html.contains(part), "no {part} in\n{html}");
        }
        assert!(grants_page(&json!({ "items": [] }), "ann@acme").contains("Nothing is allowed in advance"));
    }

    #[test]
    fn no_text_from_outside_becomes_markup() {
        let hostile = "</main>\"'><script>alert(1)</script>\u{202E}";
        let mut grant = json!({ "scope": "arguments", "uses": 1 });
        for name in ["id", "account", "address", "arguments", "by", "givenAt", "expiresAt", "lastUsedAt"] {
            grant[name] = hostile.into();
        }
        let html = grants_page(&json!({ "items": [grant], "nextCursor": hostile }), hostile);
        assert!(!html.contains("<script>") && !html.contains("\"'>") && !html.contains('\u{202E}'), "{html}");
        assert_eq!(html.matches("</main").count(), 1);
    }
}
