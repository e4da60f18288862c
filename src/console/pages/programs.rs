//! The programs of all sessions: a list to find one by. What a program did is on the page of its session.

use askama::Template;
use serde_json::Value;

use super::answer::{brief, count_of, list, maybe, text};
use super::approval::time;
use super::history::status_words;
use super::markup::{Html, count, percent};
use super::{Frame, render};
use crate::engine::ExecutionStatus;

/// Programs of one page.
pub const PAGE: usize = 25;
/// Tools that are named of one program.
const TOOLS: usize = 4;
/// Characters of an address, an account or a client's name.
const CHARACTERS: usize = 160;

/// What is looked for; empty texts ask nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramsQuery<'a> {
    /// An administrator: may look for the programs of others.
    pub admin: bool,
    /// The account of the person.
    pub own: &'a str,
    /// Whose programs.
    pub account: &'a str,
    /// A status by its name.
    pub status: &'a str,
    /// A part of a tool's address.
    pub tool: &'a str,
    /// The first day, as `YYYY-MM-DD`.
    pub from: &'a str,
    /// The last day, likewise.
    pub to: &'a str,
    /// It is not the first page.
    pub later: bool,
}

/// The statuses that a program is told with.
const STATUSES: [ExecutionStatus; 5] = [
    ExecutionStatus::Waiting,
    ExecutionStatus::Completed,
    ExecutionStatus::Failed,
    ExecutionStatus::Cancelled,
    ExecutionStatus::Expired,
];

#[derive(Template)]
#[template(path = "programs.html")]
struct ProgramsTemplate<'a> {
    frame: Frame,
    asked: ProgramsQuery<'a>,
    statuses: Vec<(&'static str, &'static str)>,
    asks: bool,
    programs: Vec<ProgramPart>,
    first: String,
    next: Option<String>,
}

struct ProgramPart {
    /// The page of its session, which is its owner's only.
    href: Option<String>,
    state: &'static str,
    tone: &'static str,
    started: Html,
    ended: Option<Html>,
    tools: Vec<Html>,
    more: Option<String>,
    calls: String,
    decisions: String,
    account: Html,
    client: Html,
}

/// A page of `GET /api/programs`.
#[must_use]
pub fn programs_page(answer: &Value, asked: ProgramsQuery<'_>, person: &str) -> String {
    let fields = [
        ("account", if asked.admin { asked.account } else { "" }),
        ("status", asked.status),
        ("tool", asked.tool),
        ("from", asked.from),
        ("to", asked.to),
    ];
    let query: Vec<String> = fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", percent(value)))
        .collect();
    let first = format!("/history?{}", query.join("&"));
    render(&ProgramsTemplate {
        frame: Frame::at("/history", person),
        asked,
        statuses: STATUSES.map(|status| (status.name(), status_words(status).0)).to_vec(),
        asks: !query.is_empty(),
        programs: list(answer, "items").iter().map(|program| program_part(program, asked.own)).collect(),
        next: maybe(answer, "nextCursor").map(|next| format!("{first}&cursor={}", percent(next))),
        first,
    })
}

fn program_part(program: &Value, own: &str) -> ProgramPart {
    let status = STATUSES.into_iter().find(|status| status.name() == text(program, "status"));
    let (state, tone) = status_words(status.unwrap_or(ExecutionStatus::Running));
    let tools = list(program, "tools");
    let decisions = [("approved", count_of(program, "approved")), ("not approved", count_of(program, "declined"))];
    let decisions: Vec<String> =
        decisions.into_iter().filter(|(_, many)| *many > 0).map(|(what, many)| format!("{many} {what}")).collect();
    ProgramPart {
        href: (text(program, "account") == own)
            .then(|| format!("/sessions/{}", percent(text(program, "mcpSessionId")))),
        state,
        tone,
        started: time(text(program, "startedAt")),
        ended: maybe(program, "endedAt").map(time),
        tools: tools.iter().take(TOOLS).map(|tool| brief(tool.as_str().unwrap_or_default(), CHARACTERS)).collect(),
        more: tools
            .len()
            .checked_sub(TOOLS)
            .filter(|more| *more > 0)
            .map(|more| count(more, "more tool", "more tools")),
        calls: count(count_of(program, "calls"), "call", "calls"),
        decisions: decisions.join(", "),
        account: brief(text(program, "account"), CHARACTERS),
        client: brief(text(program, "client"), CHARACTERS),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "</main>\"'><script>alert(1)</script>\u{202E}";

    fn program(account: &str) -> Value {
        json!({
            "id": "0", "mcpSessionId": "0a", "account": account, "client": HOSTILE, "status": "failed", "calls": 6,
            "startedAt": "2026-03-04T09:00:00Z", "endedAt": "2026-03-04T09:01:00Z", "approved": 2, "declined": 1,
            "tools": [HOSTILE, "a.b", "a.c", "a.d", "a.e", "a.f"],
        })
    }

    #[test]
    fn a_program_leads_to_its_session_where_that_is_the_persons_own() {
        let asked = ProgramsQuery { admin: true, own: "ann", status: "failed", ..ProgramsQuery::default() };
        let html =
            programs_page(&json!({ "items": [program("ann"), program("ben")], "nextCursor": "n" }), asked, "ann@acme");
        assert_eq!(html.matches("href=\"/sessions/0a\"").count(), 1, "{html}");
        for part in
            ["2 approved, 1 not approved", "2 more tools", "6 calls", "Failed", "value=\"failed\" selected", "cursor=n"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<script>") && !html.contains('\u{202E}'));
    }

    #[test]
    fn only_administrators_are_asked_for_an_account() {
        let asked = ProgramsQuery { own: "ann", ..ProgramsQuery::default() };
        assert!(!programs_page(&json!({ "items": [] }), asked, "ann@acme").contains("name=\"account\""));
        let asked = ProgramsQuery { admin: true, account: "\"><b>", ..asked };
        let html = programs_page(&json!({ "items": [] }), asked, "ann@acme");
        assert!(
            html.contains("name=\"account\"") && !html.contains("\"><b>") && html.contains("No program fits"),
            "{html}"
        );
    }
}
