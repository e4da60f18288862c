//! The inbox: what waits for a person, in all sessions. Links lead to the page of each; nothing is decided here, and of what a
//! model wrote there is nothing on it but what the client calls itself.

use askama::Template;
use serde_json::Value;

use super::answer::{brief, count_of, list, maybe, text};
use super::approval::time;
use super::markup::{Html, count, percent};
use super::{Frame, render};

/// Items of one page.
pub const PAGE: usize = 25;
/// Tools that are named of one item.
const TOOLS: usize = 3;
/// Characters of a title, an address or a client's name.
const CHARACTERS: usize = 160;

/// What is asked of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxQuery<'a> {
    /// An administrator: may see what waits for others.
    pub admin: bool,
    /// Only what waits in the person's own sessions.
    pub mine: bool,
    /// Where the page begins; `None` is the beginning.
    pub cursor: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxTemplate<'a> {
    frame: Frame,
    version: &'a str,
    total: usize,
    summary: String,
    admin: bool,
    mine: bool,
    first: &'static str,
    is_first: bool,
    here: String,
    items: Vec<ItemPart<'a>>,
    next: Option<String>,
}

struct ItemPart<'a> {
    href: String,
    id: &'a str,
    title: Html,
    addresses: Vec<Html>,
    more: Option<String>,
    calls: String,
    account: Html,
    client: Html,
    since: Html,
    until: Html,
}

/// The inbox. `answer` is a page of `GET /api/approvals`; `version` changes with what is shown, and is the page's `ETag`.
#[must_use]
pub fn inbox_page(answer: &Value, asked: InboxQuery<'_>, person: &str, version: &str) -> String {
    let total = count_of(answer, "total");
    let first = if asked.admin && asked.mine { "/approvals?mine=1" } else { "/approvals" };
    let page =
        |cursor: &str| format!("{first}{}cursor={}", if first.contains('?') { '&' } else { '?' }, percent(cursor));
    render(&InboxTemplate {
        frame: Frame::at("/approvals", person),
        version,
        total,
        summary: match total {
            0 => "Nothing waits for a person.".to_owned(),
            1 => "1 question waits for a person.".to_owned(),
            _ => format!("{} for a person.", count(total, "question waits", "questions wait")),
        },
        admin: asked.admin,
        mine: asked.mine,
        first,
        is_first: asked.cursor.is_none(),
        here: asked.cursor.map_or_else(|| first.to_owned(), page),
        items: list(answer, "items").iter().map(item_part).collect(),
        next: maybe(answer, "nextCursor").map(page),
    })
}

fn item_part(item: &Value) -> ItemPart<'_> {
    let (execution, session) = (text(item, "executionId"), text(item, "mcpSessionId"));
    let (tools, calls) = (list(item, "tools"), count_of(item, "calls"));
    let title = tools.first().map_or("", |tool| text(tool, "title"));
    let title = if title.is_empty() { tools.first().map_or("", |tool| text(tool, "address")) } else { title };
    let mut addresses: Vec<&str> = Vec::new();
    for address in tools.iter().map(|tool| text(tool, "address")) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let more = addresses.len().saturating_sub(TOOLS);
    ItemPart {
        href: format!("/resume/{}?mcp_session_id={}", percent(execution), percent(session)),
        id: execution,
        title: brief(title, CHARACTERS),
        addresses: addresses.into_iter().take(TOOLS).map(|address| brief(address, CHARACTERS)).collect(),
        more: (more > 0).then(|| count(more, "more tool", "more tools")),
        calls: count(calls, "call waits", "calls wait"),
        account: brief(text(item, "account"), CHARACTERS),
        client: brief(text(item, "client"), CHARACTERS),
        since: time(text(item, "since")),
        until: time(text(item, "expiresAt")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: InboxQuery<'_> = InboxQuery { admin: false, mine: false, cursor: None };

    fn item(text: &str, calls: usize) -> Value {
        let tool = |address: &str| json!({ "address": address, "title": text });
        json!({
            "executionId": "exec_1", "mcpSessionId": "0a", "account": text, "client": text, "calls": calls,
            "tools": [tool(text), tool(text), tool("demo.b"), tool("demo.c"), tool("demo.d")],
            "since": "2026-03-04T09:00:00Z", "expiresAt": "2026-03-05T09:00:00Z",
            "approvalUrl": "https://elsewhere.example/resume/exec_1",
        })
    }

    #[test]
    fn an_item_leads_to_its_page_on_this_gateway() {
        let answer = json!({ "items": [item("demo.deleteItem", 7)], "total": 1 });
        let html = inbox_page(&answer, OWN, "ann@acme", "v1");
        for part in [
            "href=\"/resume/exec_1?mcp_session_id=0a\"",
            "demo.deleteItem",
            "7 calls wait",
            "1 more tool",
            "1 question waits for a person.",
            "data-version=\"v1\"",
            "<title>(1) Approvals",
            "aria-current=\"page\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("elsewhere.example"));
        assert_eq!(html.matches("<span class=\"code\">demo.deleteItem</span>").count(), 1, "{html}");
    }

    #[test]
    fn nothing_waiting_says_so_and_pages_keep_what_was_asked() {
        assert!(
            inbox_page(&json!({ "items": [], "total": 0 }), OWN, "ann@acme", "v")
                .contains("Nothing waits for a person.")
        );
        let asked = InboxQuery { admin: true, mine: true, cursor: Some("a b") };
        let html = inbox_page(&json!({ "items": [], "total": 900, "nextCursor": "x/y" }), asked, "ann@acme", "v");
        assert!(
            html.contains("href=\"/approvals?mine=1&#38;cursor=x%2Fy\"")
                || html.contains("href=\"/approvals?mine=1&amp;cursor=x%2Fy\""),
            "{html}"
        );
        assert!(html.contains("900 questions wait"));
    }

    #[test]
    fn hostile_names_are_text_and_a_full_page_is_light() {
        let hostile = "</main>\"'><script>alert(1)</script>\u{202E}\u{200B}".repeat(400);
        let items: Vec<Value> = (0..PAGE).map(|_| item(&hostile, 2)).collect();
        let html = inbox_page(&json!({ "items": items, "total": 25 }), OWN, "ann@acme", "v");
        assert!(!html.contains("<script>") && !html.contains('\u{202E}') && html.matches("</main").count() == 1);
        let [css, js, _] = super::super::assets::paths().map(|path| super::super::asset(path).unwrap().body.len());
        assert!(html.len() < 250_000, "{}", html.len());
        let ordinary: Vec<Value> = (0..PAGE).map(|_| item("demo.deleteItem", 2)).collect();
        let html = inbox_page(&json!({ "items": ordinary, "total": 25 }), OWN, "ann@acme", "v");
        assert!(css + js + html.len() < 80_000, "{css} {js} {}", html.len());
    }
}
