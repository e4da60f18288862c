//! Which operation of the administration API a request is.

use serde::{Deserialize, Serialize};

use super::cursor::{Page, decode, parse_number, parse_page};
use super::fault::Fault;
use super::keys::{NewKey, parse_new_key, parse_time};
use super::slug::{check_source, is_source, is_toolkit};
use super::source::parse_confirm;
use super::stop::{parse_scope, parse_stop};
use super::toolkit::{Toolkit, parse_policies};
use super::webhook::is_webhook;
use crate::auth::api_key::is_key_id;
use crate::policy::Rule;

/// Hits of a search, by default and at most.
const TOOLS_DEFAULT: u64 = 20;
/// How far a search can be paged.
const OFFSET_MOST: u64 = 100_000;

/// A request to the administration API, as the edge or a tool makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminCall {
    /// Upper case.
    pub method: String,
    /// What follows `/api/`, percent-encoded as in the URL.
    pub path: String,
    /// The query, decoded.
    pub query: Vec<(String, String)>,
    /// The body, where the operation takes one.
    pub body: String,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A page of the sources.
    ListSources(Page),
    /// One source.
    ReadSource(String),
    /// A source is written; the body is read where the document is.
    PutSource(String),
    /// A source is removed.
    DeleteSource(String),
    /// A source is read again.
    RefreshSource(String),
    /// Origins that a credential may go to.
    ConfirmOrigins(String, Vec<String>),
    /// The organization's rules.
    ReadPolicies,
    /// The organization's rules are written.
    PutPolicies(Vec<Rule>),
    /// A page of the toolkits.
    ListToolkits(Page),
    /// One toolkit.
    ReadToolkit(String),
    /// A toolkit is written.
    PutToolkit(String, Toolkit),
    /// A toolkit is removed.
    DeleteToolkit(String),
    /// Tools that fit a question.
    FindTools(ToolQuery),
    /// One tool.
    ReadTool(String),
    /// A page of the audit log, newest first.
    ListAudit(Page),
    /// A page of the API keys, without their secrets.
    ListKeys(Page),
    /// An API key is made.
    CreateKey(NewKey),
    /// An API key is revoked.
    DeleteKey(String),
    /// A page of what waits for a person, in all sessions or in those of one account.
    ListApprovals(Page, Option<Whose>),
    /// A page of the programs of all sessions, those that were started last first.
    ListPrograms(Page, ProgramFilter),
    /// All webhooks.
    ListWebhooks,
    /// One webhook, without its secret.
    ReadWebhook(String),
    /// A webhook is written; the body is read where its secrets are encrypted.
    PutWebhook(String),
    /// A webhook is removed.
    DeleteWebhook(String),
    /// All stops.
    ListStops,
    /// Sending ends in a scope, for a reason.
    PutStop(String, Option<String>),
    /// Sending goes on in a scope.
    DeleteStop(String),
}

/// What of what waits is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// What waits in the sessions of this account.
    pub account: String,
    /// And what any member may decide of what waits in the sessions of others.
    pub others: bool,
}

/// Which programs are looked for; what is `None` is not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFilter {
    /// Whose session it was.
    pub account: Option<String>,
    /// How it stood when it was told last.
    pub status: Option<String>,
    /// A part of the address of a tool that it called.
    pub tool: Option<String>,
    /// Started then or later, in milliseconds since the Unix epoch.
    pub since: Option<u64>,
    /// Started before then, likewise.
    pub until: Option<u64>,
}

/// Which tools are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolQuery {
    /// Words; empty for all tools in the order of their addresses.
    pub query: String,
    /// Tools of one source only.
    pub source: Option<String>,
    /// How many.
    pub limit: u64,
    /// How many are passed over.
    pub offset: u64,
}

impl Operation {
    /// Whether it changes nothing.
    #[must_use]
    pub fn reads(&self) -> bool {
        matches!(
            self,
            Self::ListSources(_)
                | Self::ReadSource(_)
                | Self::ReadPolicies
                | Self::ListToolkits(_)
                | Self::ReadToolkit(_)
                | Self::FindTools(_)
                | Self::ReadTool(_)
                | Self::ListAudit(_)
                | Self::ListKeys(_)
                | Self::ListApprovals(..)
                | Self::ListPrograms(..)
                | Self::ListWebhooks
                | Self::ReadWebhook(_)
                | Self::ListStops
        )
    }
}

/// Whether a path is one of this API's.
#[must_use]
pub fn is_route(path: &str) -> bool {
    let first = path.split('/').next();
    matches!(
        first,
        Some(
            "sources"
                | "policies"
                | "toolkits"
                | "tools"
                | "audit"
                | "keys"
                | "approvals"
                | "programs"
                | "webhooks"
                | "stops"
        )
    )
}

/// Whether what is under that path becomes a tool. What waits, and what ran, does not: a model gets no links to what others wait for.
/// Nor do keys and webhooks: what a model has seen is no secret any more. Stops are people's: no program gets past one.
#[must_use]
pub fn is_tool(path: &str) -> bool {
    let first = path.split('/').next();
    is_route(path) && !matches!(first, Some("approvals" | "keys" | "programs" | "webhooks" | "stops"))
}

/// Reads a request.
pub fn parse_call(call: &AdminCall) -> Result<Operation, Fault> {
    let segments: Vec<String> = call
        .path
        .trim_end_matches('/')
        .split('/')
        .map(|segment| percent_encoding_decode(segment).ok_or_else(|| Fault::new(400, "The path is not valid UTF-8.")))
        .collect::<Result<_, _>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = if call.method == "HEAD" { "GET" } else { call.method.as_str() };
    let query = &call.query;
    match (segments.as_slice(), method) {
        (["sources"], "GET") => Ok(Operation::ListSources(parse_page("sources", query)?)),
        (["sources", slug], "GET") => Ok(Operation::ReadSource(known_source(slug)?)),
        (["sources", slug], "PUT") => check_source(slug).map(|()| Operation::PutSource((*slug).to_owned())),
        (["sources", slug], "DELETE") => check_source(slug).map(|()| Operation::DeleteSource((*slug).to_owned())),
        (["sources", slug, "refresh"], "POST") => {
            check_source(slug).map(|()| Operation::RefreshSource((*slug).to_owned()))
        }
        (["sources", slug, "confirm"], "POST") => {
            check_source(slug)?;
            Ok(Operation::ConfirmOrigins((*slug).to_owned(), parse_confirm(&call.body)?))
        }
        (["sources", _, "refresh" | "confirm"], _) => Err(Fault::method("POST")),
        (["policies"], "GET") => Ok(Operation::ReadPolicies),
        (["policies"], "PUT") => Ok(Operation::PutPolicies(parse_policies(&call.body)?)),
        (["policies"], _) => Err(Fault::method("GET, PUT")),
        (["toolkits"], "GET") => Ok(Operation::ListToolkits(parse_page("toolkits", query)?)),
        (["toolkits", slug], "GET") => Ok(Operation::ReadToolkit(known_toolkit(slug)?)),
        (["toolkits", slug], "PUT") if is_toolkit(slug) => {
            Ok(Operation::PutToolkit((*slug).to_owned(), Toolkit::parse(&call.body, slug)?))
        }
        (["toolkits", _], "PUT") => {
            let problem = "has to have 1 to 64 small letters, digits and -, and not to be default";
            Err(Fault::field("slug", problem))
        }
        (["toolkits", slug], "DELETE") => Ok(Operation::DeleteToolkit(known_toolkit(slug)?)),
        (["tools"], "GET") => Ok(Operation::FindTools(parse_tool_query(query)?)),
        (["tools", address], "GET") if !address.is_empty() => Ok(Operation::ReadTool((*address).to_owned())),
        (["audit"], "GET") => Ok(Operation::ListAudit(parse_page("audit", query)?)),
        (["approvals"], "GET") => {
            let find = |key: &str| query.iter().find(|(name, value)| name == key && !value.is_empty());
            let others = match find("others").map(|(_, value)| value.as_str()) {
                None | Some("false") => false,
                Some("true") => true,
                Some(_) => return Err(Fault::field("others", "has to be true or false")),
            };
            let whose = find("account").map(|(_, account)| Whose { account: account.clone(), others });
            Ok(Operation::ListApprovals(parse_page("approvals", query)?, whose))
        }
        (["programs"], "GET") => {
            Ok(Operation::ListPrograms(parse_page("programs", query)?, parse_program_filter(query)?))
        }
        (["keys"], "GET") => Ok(Operation::ListKeys(parse_page("keys", query)?)),
        (["keys"], "POST") => Ok(Operation::CreateKey(parse_new_key(&call.body)?)),
        (["keys"], _) => Err(Fault::method("GET, POST")),
        (["keys", id], "DELETE") if is_key_id(id) => Ok(Operation::DeleteKey((*id).to_owned())),
        (["keys", _], "DELETE") => Err(Fault::missing("key with that id")),
        (["keys", _], _) => Err(Fault::method("DELETE")),
        (["webhooks"], "GET") => Ok(Operation::ListWebhooks),
        (["webhooks", slug], "GET") => Ok(Operation::ReadWebhook(known_webhook(slug)?)),
        (["webhooks", slug], "PUT") if is_webhook(slug) => Ok(Operation::PutWebhook((*slug).to_owned())),
        (["webhooks", _], "PUT") => Err(Fault::field("slug", "has to have 1 to 64 small letters, digits and -")),
        (["webhooks", slug], "DELETE") => Ok(Operation::DeleteWebhook(known_webhook(slug)?)),
        (["sources" | "toolkits" | "webhooks", _], _) => Err(Fault::method("GET, PUT, DELETE")),
        (["stops"], "GET") => Ok(Operation::ListStops),
        (["stops", scope], "PUT") => Ok(Operation::PutStop(parse_scope(scope)?, parse_stop(&call.body)?)),
        (["stops", scope], "DELETE") => Ok(Operation::DeleteStop(parse_scope(scope)?)),
        (["stops", _], _) => Err(Fault::method("PUT, DELETE")),
        (
            ["sources" | "toolkits" | "tools" | "audit" | "approvals" | "programs" | "webhooks" | "stops"]
            | ["tools", _],
            _,
        ) => Err(Fault::method("GET")),
        _ => Err(Fault::new(404, "There is no such route; /api/openapi.json describes those that there are.")),
    }
}

fn known_source(slug: &str) -> Result<String, Fault> {
    is_source(slug).then(|| slug.to_owned()).ok_or_else(|| Fault::missing("source with that slug"))
}

fn known_toolkit(slug: &str) -> Result<String, Fault> {
    is_toolkit(slug).then(|| slug.to_owned()).ok_or_else(|| Fault::missing("toolkit with that slug"))
}

fn known_webhook(slug: &str) -> Result<String, Fault> {
    is_webhook(slug).then(|| slug.to_owned()).ok_or_else(|| Fault::missing("webhook with that slug"))
}

fn parse_program_filter(query: &[(String, String)]) -> Result<ProgramFilter, Fault> {
    let find = |key: &str| query.iter().find(|(name, value)| name == key && !value.is_empty()).map(|(_, value)| value);
    let text = |key: &str| find(key).map(|value| value.chars().take(300).collect::<String>());
    // A day alone is its beginning.
    let time = |key: &str| {
        find(key).map(|value| {
            if value.len() == 10 { parse_time(key, &format!("{value}T00:00:00Z")) } else { parse_time(key, value) }
        })
    };
    Ok(ProgramFilter {
        account: text("account"),
        status: text("status"),
        tool: text("tool"),
        since: time("since").transpose()?,
        until: time("until").transpose()?,
    })
}

fn parse_tool_query(query: &[(String, String)]) -> Result<ToolQuery, Fault> {
    let find = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let offset = match find("cursor") {
        Some(cursor) => {
            let after = decode("tools", cursor)?;
            parse_number("cursor", Some(&after), 0, 0, OFFSET_MOST)?
        }
        None => parse_number("offset", find("offset"), 0, 0, OFFSET_MOST)?,
    };
    Ok(ToolQuery {
        query: find("query").unwrap_or_default().chars().take(1_000).collect(),
        source: find("source").filter(|source| !source.is_empty()).map(ToOwned::to_owned),
        limit: parse_number("limit", find("limit"), TOOLS_DEFAULT, 1, super::cursor::PAGE_MOST)?,
        offset,
    })
}

/// A segment of a path as it is meant.
fn percent_encoding_decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
