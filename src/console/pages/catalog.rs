//! Sources, tools and rules, as administrators look at them. What documents and servers say of themselves is untrusted text;
//! nothing is changed here.

use askama::Template;
use serde_json::Value;

use super::answer::{brief, count_of, flag, list, maybe, text};
use super::approval::time;
use super::json::json;
use super::markup::{Html, block, count, inline, number, percent};
use super::{Frame, render};

/// Characters of a title or an address in a list.
const CHARACTERS: usize = 160;
/// Entries of an import's report on a page.
const ENTRIES: usize = 50;
/// Rules of one list on a page.
const RULES: usize = 100;
/// Bytes of a schema that is shown; as HTML it is several times as large.
const SCHEMA_BYTES: usize = 12 << 10;
/// Bytes of a type that is shown.
const TYPE_BYTES: usize = 8 << 10;

// ---- sources ------------------------------------------------------------------------------------

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesTemplate<'a> {
    frame: Frame,
    sources: Vec<SourcePart<'a>>,
    next: Option<String>,
}

struct SourcePart<'a> {
    slug: &'a str,
    href: String,
    title: Html,
    kind: &'static str,
    tools: String,
    tools_href: String,
    state: &'static str,
    tone: &'static str,
    /// Why nothing is sent, or what went wrong last.
    problem: Option<Html>,
    read: Option<Html>,
    reached: Option<Html>,
    place: Html,
    credential: Option<&'a str>,
    trusted: bool,
}

/// A page of `GET /api/sources`.
#[must_use]
pub fn sources_page(answer: &Value, person: &str) -> String {
    render(&SourcesTemplate {
        frame: Frame::at("/sources", person),
        sources: list(answer, "items").iter().map(source_part).collect(),
        next: maybe(answer, "nextCursor").map(|next| format!("/sources?cursor={}", percent(next))),
    })
}

fn source_part(source: &Value) -> SourcePart<'_> {
    let slug = text(source, "slug");
    let kind = match text(source, "kind") {
        "mcp" => "MCP server",
        "graphql" => "GraphQL",
        _ if flag(source, "builtIn") => "built in",
        _ => "OpenAPI",
    };
    let unconfirmed: Vec<&str> = list(source, "unconfirmedOrigins").iter().filter_map(Value::as_str).collect();
    let server = source.get("server").filter(|server| server.is_object());
    let failing = server.filter(|server| text(server, "state") == "failing");
    let (state, tone, problem) = match (unconfirmed.first(), failing) {
        (Some(first), _) => {
            let more = match unconfirmed.len() {
                1 => String::new(),
                many => format!(" and {}", count(many - 1, "other place", "other places")),
            };
            let problem = format!(
                "No administrator has confirmed that its credential may go to <b class=\"code\">{}</b>{more}. Until then no tool that sends there is called.",
                brief(first, CHARACTERS)
            );
            ("Not confirmed", "bad", Some(Html(problem)))
        }
        (None, Some(server)) => {
            let since = maybe(server, "failedAt").map(|at| format!(" since {}", time(at))).unwrap_or_default();
            (
                "Fails",
                "bad",
                Some(Html(format!("It could not be used{since}: “{}”", brief(text(server, "error"), 300)))),
            )
        }
        (None, None) => ("In use", "good", None),
    };
    let place = ["url", "baseUrl", "specUrl"].into_iter().find_map(|name| maybe(source, name)).unwrap_or_default();
    SourcePart {
        slug,
        href: format!("/sources/{}", percent(slug)),
        title: brief(text(source, "title"), CHARACTERS),
        kind,
        tools: count(count_of(source, "tools"), "tool", "tools"),
        tools_href: format!("/tools?source={}", percent(slug)),
        state,
        tone,
        problem,
        read: maybe(source, "updatedAt").map(time),
        reached: server.and_then(|server| maybe(server, "reachedAt")).map(time),
        place: brief(place, CHARACTERS),
        credential: source.get("auth").and_then(|auth| maybe(auth, "kind")),
        trusted: flag(source, "trusted"),
    }
}

#[derive(Template)]
#[template(path = "source.html")]
struct SourceTemplate<'a> {
    frame: Frame,
    source: SourcePart<'a>,
    origins: Vec<(Html, bool)>,
    era: Option<Html>,
    idempotent: bool,
    honours: bool,
    counts: String,
    entries: Vec<(Html, Html, Html)>,
    omitted: usize,
}

/// One source: the answer of `GET /api/sources/<slug>`, with what its last import did.
#[must_use]
pub fn source_page(answer: &Value, person: &str) -> String {
    let nothing = Value::Null;
    let report = answer.get("report").unwrap_or(&nothing);
    let counts = report.get("counts").and_then(Value::as_object);
    let counts = counts.into_iter().flatten().map(|(what, many)| format!("{what}: {many}"));
    let unconfirmed = list(answer, "unconfirmedOrigins");
    let entries = list(report, "entries");
    render(&SourceTemplate {
        frame: Frame::at("/sources", person),
        source: source_part(answer),
        origins: list(answer, "origins")
            .iter()
            .take(ENTRIES)
            .map(|origin| (brief(origin.as_str().unwrap_or_default(), CHARACTERS), !unconfirmed.contains(origin)))
            .collect(),
        era: answer.get("server").and_then(|server| maybe(server, "era")).map(inline),
        idempotent: flag(answer, "idempotentWrites"),
        honours: flag(answer, "honoursIdempotencyKey"),
        counts: counts.collect::<Vec<_>>().join(", "),
        entries: entries
            .iter()
            .take(ENTRIES)
            .map(|entry| {
                (
                    brief(text(entry, "action"), 40),
                    brief(text(entry, "what"), CHARACTERS),
                    brief(text(entry, "why"), 300),
                )
            })
            .collect(),
        omitted: count_of(report, "omitted") + entries.len().saturating_sub(ENTRIES),
    })
}

// ---- tools --------------------------------------------------------------------------------------

/// What is looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolsQuery<'a> {
    /// Words.
    pub query: &'a str,
    /// Tools of one source only.
    pub source: &'a str,
    /// It is not the first page.
    pub later: bool,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsTemplate<'a> {
    frame: Frame,
    asked: ToolsQuery<'a>,
    found: String,
    tools: Vec<ToolPart>,
    first: String,
    next: Option<String>,
}

struct ToolPart {
    href: String,
    title: Html,
    address: Html,
    description: Html,
    policy: PolicyPart,
}

/// What policy says of a tool, and why.
struct PolicyPart {
    state: &'static str,
    tone: &'static str,
    reason: Html,
}

fn policy_part(policy: &Value) -> PolicyPart {
    let (state, tone) = match text(policy, "action") {
        "allow" => ("Runs", "good"),
        "block" => ("Blocked", "bad"),
        _ => ("Asks a person", "waits"),
    };
    PolicyPart { state, tone, reason: brief(text(policy, "reason"), 600) }
}

/// A page of `GET /api/tools`.
#[must_use]
pub fn tools_page(answer: &Value, asked: ToolsQuery<'_>, person: &str) -> String {
    let first = format!("/tools?query={}&source={}", percent(asked.query), percent(asked.source));
    let total = count_of(answer, "total");
    render(&ToolsTemplate {
        frame: Frame::at("/tools", person),
        asked,
        found: if total == 0 { "No tool fits.".to_owned() } else { format!("{}.", count(total, "tool", "tools")) },
        tools: list(answer, "items").iter().map(tool_part).collect(),
        next: maybe(answer, "nextCursor").map(|next| format!("{first}&cursor={}", percent(next))),
        first,
    })
}

fn tool_part(tool: &Value) -> ToolPart {
    let address = text(tool, "address");
    let title = Some(text(tool, "title")).filter(|title| !title.is_empty()).unwrap_or(address);
    ToolPart {
        href: format!("/tools/{}", percent(address)),
        title: brief(title, CHARACTERS),
        address: brief(address, CHARACTERS),
        description: brief(&on_one_line(text(tool, "description")), 200),
        policy: policy_part(tool),
    }
}

/// A text without its line breaks, which say nothing in a list.
fn on_one_line(text: &str) -> String {
    text.split(['\n', '\r']).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolTemplate<'a> {
    frame: Frame,
    title: Html,
    address: Html,
    source: &'a str,
    source_href: String,
    request: Html,
    direct: Html,
    nature: String,
    description: Html,
    policy: PolicyPart,
    toolkits: Vec<(Html, PolicyPart)>,
    input: Option<Html>,
    output: Option<Html>,
    schemas: Vec<(&'static str, Option<Html>, String)>,
    api: String,
}

/// One tool: the answer of `GET /api/tools/<address>`.
#[must_use]
pub fn tool_page(answer: &Value, person: &str) -> String {
    let (address, source) = (text(answer, "address"), text(answer, "source"));
    let nothing = Value::Null;
    let hints = answer.get("hints").unwrap_or(&nothing);
    let natures =
        [("readOnly", "only reads"), ("destructive", "may remove or overwrite"), ("idempotent", "twice is like once")];
    let nature: Vec<&str> = natures.into_iter().filter(|(name, _)| flag(hints, name)).map(|(_, words)| words).collect();
    let typed = |name: &str| Some(text(answer, name)).filter(|text| text.len() <= TYPE_BYTES).map(block);
    let schema = |title: &'static str, name: &str| {
        let written = answer.get(name).filter(|schema| !schema.is_null())?.to_string();
        let shown = (written.len() <= SCHEMA_BYTES).then(|| json(&written));
        Some((title, shown, format!("{} characters", number(written.len()))))
    };
    render(&ToolTemplate {
        frame: Frame::at("/tools", person),
        title: brief(Some(text(answer, "title")).filter(|title| !title.is_empty()).unwrap_or(address), 300),
        address: inline(address),
        source,
        source_href: format!("/sources/{}", percent(source)),
        request: block(text(answer, "request")),
        direct: inline(text(answer, "directName")),
        nature: if nature.is_empty() { "may change something".to_owned() } else { nature.join(", ") },
        description: block(text(answer, "description")),
        policy: policy_part(answer.get("policy").unwrap_or(&nothing)),
        toolkits: list(answer, "toolkits").iter().map(|one| (inline(text(one, "slug")), policy_part(one))).collect(),
        input: typed("input"),
        output: typed("output"),
        schemas: [schema("Schema of the arguments", "inputSchema"), schema("Schema of the result", "outputSchema")]
            .into_iter()
            .flatten()
            .collect(),
        api: format!("/api/tools/{}", percent(address)),
    })
}

// ---- rules and toolkits -------------------------------------------------------------------------

#[derive(Template)]
#[template(path = "toolkits.html")]
struct ToolkitsTemplate<'a> {
    frame: Frame,
    rules: Vec<RulePart>,
    toolkits: Vec<ToolkitPart<'a>>,
    next: Option<String>,
}

struct ToolkitPart<'a> {
    slug: &'a str,
    title: Html,
    tools: String,
    endpoint: String,
    includes: Vec<Html>,
    rules: Vec<RulePart>,
}

struct RulePart {
    pattern: Html,
    state: &'static str,
    tone: &'static str,
    note: Option<Html>,
}

/// The rules of `GET /api/policies`, and a page of `GET /api/toolkits`. `origin` is the gateway's own.
#[must_use]
pub fn toolkits_page(policies: &Value, answer: &Value, origin: &str, person: &str) -> String {
    render(&ToolkitsTemplate {
        frame: Frame::at("/toolkits", person),
        rules: rule_parts(policies),
        toolkits: list(answer, "items").iter().map(|toolkit| toolkit_part(toolkit, origin)).collect(),
        next: maybe(answer, "nextCursor").map(|next| format!("/toolkits?cursor={}", percent(next))),
    })
}

fn rule_parts(answer: &Value) -> Vec<RulePart> {
    let rule = |rule: &Value| {
        let PolicyPart { state, tone, .. } = policy_part(rule);
        RulePart {
            pattern: inline(text(rule, "pattern")),
            state,
            tone,
            note: maybe(rule, "note").map(|note| brief(note, 500)),
        }
    };
    list(answer, "policies").iter().take(RULES).map(rule).collect()
}

fn toolkit_part<'a>(toolkit: &'a Value, origin: &str) -> ToolkitPart<'a> {
    let slug = text(toolkit, "slug");
    let includes = list(toolkit, "include").iter().filter_map(Value::as_str);
    ToolkitPart {
        slug,
        title: brief(text(toolkit, "title"), CHARACTERS),
        tools: count(count_of(toolkit, "tools"), "tool", "tools"),
        endpoint: format!("{}/mcp/toolkits/{}", origin.trim_end_matches('/'), percent(slug)),
        includes: includes.take(RULES).map(inline).collect(),
        rules: rule_parts(toolkit),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "</main>\"'><script>alert(1)</script>\u{202E}\u{200B}";

    fn assert_has(html: &str, parts: &[&str]) {
        for part in parts {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }

    fn source(server: &Value, unconfirmed: &[&str]) -> Value {
        json!({
            "slug": "docs", "kind": "mcp", "title": HOSTILE, "tools": 3, "builtIn": false, "url": "https://docs.example/mcp",
            "auth": { "kind": "bearer", "version": 1 }, "trusted": true, "origins": ["https://docs.example"],
            "unconfirmedOrigins": unconfirmed, "updatedAt": "2026-03-04T09:00:00Z", "server": server,
        })
    }

    #[test]
    fn a_source_says_what_keeps_it_from_being_used() {
        let ok = json!({ "state": "ok", "reachedAt": "2026-03-04T09:00:00Z", "era": "stateless" });
        let failing = json!({ "state": "failing", "failedAt": "2026-03-04T09:00:00Z", "error": HOSTILE });
        for (source, parts) in [
            (source(&ok, &[]), &["In use", "MCP server", "3 tools", "href=\"/tools?source=docs\""][..]),
            (source(&failing, &[]), &["Fails", "It could not be used since", "&lt;script&gt;"]),
            (source(&failing, &["https://docs.example", "https://b.example"]), &["Not confirmed", "and 1 other place"]),
        ] {
            let html = sources_page(&json!({ "items": [source] }), "ann@acme");
            assert_has(&html, parts);
            assert!(!html.contains("<script>") && !html.contains('\u{202E}'));
        }
    }

    #[test]
    fn one_source_shows_what_its_import_did() {
        let mut source = source(&Value::Null, &[]);
        source["report"] = json!({
            "counts": { "added": 3, "skipped": 1 }, "omitted": 4,
            "entries": [{ "action": "skipped", "what": HOSTILE, "why": HOSTILE }],
        });
        let html = source_page(&source, "ann@acme");
        assert_has(&html, &["added: 3, skipped: 1", "4 more are not listed", "⟦U+202E⟧"]);
        assert!(!html.contains("<script>"));
    }

    #[test]
    fn a_tool_says_which_policy_applies_and_why() {
        let tool = json!({
            "address": "demo.deleteItem", "title": HOSTILE, "description": HOSTILE, "action": "approve",
            "reason": "rule 2 of the organization (demo.*): <b>careful</b>",
        });
        let asked = ToolsQuery { query: "\"><script>alert(1)</script>", source: "demo", later: true };
        let html = tools_page(&json!({ "items": [tool], "total": 41, "nextCursor": "abc" }), asked, "ann@acme");
        assert_has(
            &html,
            &[
                "Asks a person",
                "rule 2 of the organization (demo.*)",
                "41 tools",
                "cursor=abc",
                "href=\"/tools/demo.deleteItem\"",
            ],
        );
        assert!(!html.contains("<script>") && !html.contains("<b>careful") && !html.contains('\u{200B}'));
        assert_has(
            &tools_page(&json!({ "items": [], "total": 0 }), ToolsQuery::default(), "ann@acme"),
            &["No tool fits."],
        );
    }

    #[test]
    fn one_tool_shows_its_schema_folded_and_leaves_out_what_is_too_large() {
        let mut tool = json!({
            "address": "a.b", "source": "a", "title": "B", "description": HOSTILE, "directName": "a_b", "request": "DELETE /b",
            "hints": { "destructive": true }, "policy": { "action": "block", "reason": HOSTILE },
            "toolkits": [{ "slug": "small", "action": "allow", "reason": "GET only reads" }],
            "input": "{ id: string }", "output": "unknown", "inputSchema": { "type": "object", "title": HOSTILE },
        });
        let html = tool_page(&tool, "ann@acme");
        assert_has(
            &html,
            &["Blocked", "may remove or overwrite", "Schema of the arguments", "GET only reads", "{ id: string }"],
        );
        assert!(!html.contains("<script>") && !html.contains('\u{202E}'));
        tool["inputSchema"] = json!({ "description": "x".repeat(1 << 20) });
        tool["input"] = json!("y".repeat(1 << 20));
        let html = tool_page(&tool, "ann@acme");
        assert_has(&html, &["href=\"/api/tools/a.b\""]);
        assert!(html.len() < 30_000, "{}", html.len());
    }

    #[test]
    fn rules_and_toolkits_are_listed() {
        let policies = json!({ "policies": [{ "pattern": "demo.*", "action": "block", "note": HOSTILE }] });
        let toolkits = json!({ "items": [{ "slug": "small", "title": HOSTILE, "include": ["demo.**"], "policies": [], "tools": 2 }] });
        let html = toolkits_page(&policies, &toolkits, "https://gate.example/", "ann@acme");
        assert_has(&html, &["demo.*", "Blocked", "https://gate.example/mcp/toolkits/small", "2 tools"]);
        assert!(!html.contains("<script>"));
        assert_has(
            &toolkits_page(&json!({}), &json!({}), "https://gate.example", "a@b"),
            &["There are no toolkits.", "no rules"],
        );
    }
}
