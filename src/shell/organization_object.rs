//! The organization object: sources, tools and their search, and the demo inventory.
//!
//! | table | key | holds |
//! |---|---|---|
//! | `meta` | `schema-version`, `catalog-version`, `told-at-ms`, `organization`, `demo-inventory` | one value each |
//! | `source` | slug | the source and the hash of its document |
//! | `tool` | address | the name that clients see in direct mode, and the tool as JSON |
//! | `subscriber` | session id | sessions with an open stream, which are told when the catalog changes |
//! | `tool_search` | (FTS5) | words of address, title and description |
//! | `demo_answer` | idempotency key | what the demo answered to a request that changes something |

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

// The macros below expand to code that names `wasm_bindgen`.
use serde_json::{Value, json};
use worker::{
    DurableObject, Env, Request, Response, ResponseBuilder, SqlStorage, SqlStorageValue, State, durable_object,
    wasm_bindgen,
};

use super::clock::now;
use super::http::{header, json_response, load_settings, own_request, read_body};
use super::organization::read_own_body;
use super::runner::set_alarm;
use super::telemetry::{log, log_error};
use super::upstream::list_tools;
use crate::auth::{Principal, Purpose};
use crate::catalog::openapi::{ImportLimits, ImportOptions, import_openapi};
use crate::catalog::search::{match_expression, words};
use crate::catalog::tool::{Binding, Tool};
use crate::catalog::typescript::type_text;
use crate::demo;
use crate::internal::{
    Asked, CatalogQuestion, Context, DirectAnswer, DirectQuestion, LookupAnswer, LookupQuestion, Operation, Question,
    ServersAnswer, SourceKind, SourceRow, ToolLookup, VERSION,
};
use crate::json::sha256_hex;
use crate::policy::{Action, Vouched, judge_nature};
use crate::protocol::trace::Trace;
use crate::session::direct::{PAGE, direct_name, listed_tool};

/// Bytes of a request to the demo API.
const DEMO_BODY_LIMIT: usize = 64 << 10;
/// Hits of a search, by default and at most.
const SEARCH_DEFAULT: u64 = 10;
const SEARCH_MOST: u64 = 50;

/// The layout that this release writes.
const SCHEMA_VERSION: &str = "2";
/// What layout 2 has beyond layout 1.
const LAYOUT_2: [&str; 2] = [
    "CREATE INDEX IF NOT EXISTS tool_name ON tool (name)",
    "CREATE TABLE IF NOT EXISTS subscriber (session TEXT PRIMARY KEY)",
];
/// Between two rounds in which sessions are told of changes, in milliseconds.
const TOLD_EVERY_MS: u64 = 1_000;
/// Sessions that are told at the same time.
const TOLD_AT_ONCE: usize = 6;

#[durable_object(alarm)]
struct OrganizationDurableObject {
    state: State,
    env: Env,
    prepared: AssertUnwindSafe<Cell<bool>>,
}

impl DurableObject for OrganizationDurableObject {
    fn new(state: State, env: Env) -> Self {
        Self { state, env, prepared: AssertUnwindSafe(Cell::new(false)) }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let path = request.path();
        match path.as_str() {
            "/internal/lookup" => {
                let question: Question<LookupQuestion> = read_own_body(&mut request).await?;
                self.prepare()?;
                let catalog = self.catalog()?;
                Response::from_json(&if question.about.known == Some(catalog) {
                    LookupAnswer::Unchanged
                } else {
                    LookupAnswer::Found { catalog, lookup: Box::new(self.lookup(&question.about.address)?) }
                })
            }
            "/internal/direct" => {
                let question: Question<DirectQuestion> = read_own_body(&mut request).await?;
                self.prepare()?;
                Response::from_json(&self.answer_direct(&question.about)?)
            }
            "/internal/servers" => {
                let _: Question<()> = read_own_body(&mut request).await?;
                self.prepare()?;
                let rows = self.rows("SELECT json FROM source ORDER BY slug", vec![])?;
                let sources = rows.iter().filter_map(|row| text(row, 0)).map(|json| Ok(serde_json::from_str(json)?));
                let mut sources = sources.collect::<worker::Result<Vec<SourceRow>>>()?;
                sources.retain(|source| source.kind == SourceKind::Mcp);
                Response::from_json(&ServersAnswer { sources, alone: false })
            }
            "/internal/source-changed" => {
                let (organization, slug): (String, String) = read_own_body(&mut request).await?;
                self.prepare()?;
                self.reread(&organization, &slug).await?;
                Response::from_json(&())
            }
            "/internal/subscribe" => {
                let (organization, session): (String, String) = read_own_body(&mut request).await?;
                self.prepare()?;
                self.subscribe(&organization, &session)?;
                Response::from_json(&())
            }
            "/internal/question" => {
                let question: Question<CatalogQuestion> = read_own_body(&mut request).await?;
                self.prepare()?;
                Response::from_json(&self.answer(&question.about)?)
            }
            _ => match path.strip_prefix("/demo") {
                Some(rest) => {
                    let rest = rest.to_owned();
                    self.demo(request, &rest).await
                }
                None => json_response(404, &json!({ "message": "Not found" })),
            },
        }
    }

    /// The catalog changed: whoever has an open stream is told. Never an error: the platform drops an alarm after six.
    async fn alarm(&self) -> worker::Result<Response> {
        if let Err(error) = self.tell_subscribers().await {
            log_error("mcp_catalog_change_not_told", json!({ "reason": error.to_string() }));
        }
        Response::empty()
    }
}

type Row = Vec<SqlStorageValue>;

impl OrganizationDurableObject {
    fn sql(&self) -> SqlStorage {
        self.state.storage().sql()
    }

    fn rows(&self, query: &str, bindings: Vec<SqlStorageValue>) -> worker::Result<Vec<Row>> {
        self.sql().exec(query, bindings)?.raw().collect()
    }

    fn meta(&self, key: &str) -> worker::Result<Option<String>> {
        let rows = self.rows("SELECT value FROM meta WHERE key = ?", vec![key.into()])?;
        Ok(rows.first().and_then(|row| text(row, 0)).map(ToOwned::to_owned))
    }

    fn put_meta(&self, key: &str, value: &str) -> worker::Result<()> {
        self.sql().exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", vec![key.into(), value.into()])?;
        Ok(())
    }

    /// Makes the tables, and in development mode the `demo` source.
    fn prepare(&self) -> worker::Result<()> {
        if self.prepared.get() {
            return Ok(());
        }
        let sql = self.sql();
        if self.rows("SELECT name FROM sqlite_master WHERE name = 'tool'", vec![])?.is_empty() {
            for table in [
                "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS source (slug TEXT PRIMARY KEY, document_hash TEXT NOT NULL, json TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS demo_answer (key TEXT PRIMARY KEY, status INTEGER NOT NULL, body TEXT)",
                "CREATE VIRTUAL TABLE IF NOT EXISTS tool_search USING fts5(address UNINDEXED, name, title, description, tokenize = 'porter unicode61')",
                "CREATE TABLE IF NOT EXISTS tool (address TEXT PRIMARY KEY, source TEXT NOT NULL, json TEXT NOT NULL, name TEXT NOT NULL)",
            ]
            .into_iter()
            .chain(LAYOUT_2)
            {
                sql.exec(table, None)?;
            }
            self.put_meta("schema-version", SCHEMA_VERSION)?;
        }
        self.migrate()?;
        // Development mode is the only mode so far, and the demo belongs to it.
        if load_settings(&self.env).is_ok() {
            self.import_demo()?;
        }
        self.prepared.set(true);
        Ok(())
    }

    /// 1 → 2: tools have the name that clients see, and there are subscribers.
    fn migrate(&self) -> worker::Result<()> {
        match self.meta("schema-version")?.as_deref() {
            Some(SCHEMA_VERSION) => return Ok(()),
            Some("1") => {}
            found => {
                let message = format!("the organization's stored layout {found:?} is newer than this release");
                return Err(worker::Error::RustError(message));
            }
        }
        let sql = self.sql();
        sql.exec("ALTER TABLE tool ADD COLUMN name TEXT NOT NULL DEFAULT ''", None)?;
        for statement in LAYOUT_2 {
            sql.exec(statement, None)?;
        }
        for row in self.rows("SELECT address FROM tool", vec![])? {
            if let Some(address) = text(&row, 0) {
                let values = vec![direct_name(address).into(), address.into()];
                sql.exec("UPDATE tool SET name = ? WHERE address = ?", values)?;
            }
        }
        self.put_meta("schema-version", SCHEMA_VERSION)
    }

    fn import_demo(&self) -> worker::Result<()> {
        let hash = sha256_hex(demo::DOCUMENT.as_bytes());
        let known = self.rows("SELECT document_hash FROM source WHERE slug = ?", vec![demo::SLUG.into()])?;
        if known.first().and_then(|row| text(row, 0)) == Some(hash.as_str()) {
            return Ok(());
        }
        let options = ImportOptions {
            source: demo::SLUG,
            base_url: None,
            document_url: Some("http://demo.invalid/demo/openapi.json"),
            known_names: None,
            limits: ImportLimits::default(),
        };
        let import = import_openapi(demo::DOCUMENT, &options)
            .map_err(|error| worker::Error::RustError(format!("the demo document: {error}")))?;
        let source = SourceRow {
            slug: demo::SLUG.to_owned(),
            title: import.title.unwrap_or_else(|| "Demo inventory".to_owned()),
            built_in: true,
            honours_idempotency_key: true,
            tools: u32::try_from(import.tools.len()).unwrap_or(u32::MAX),
            ..SourceRow::default()
        };
        self.replace_source(&source, &hash, &import.tools)
    }

    fn replace_source(&self, source: &SourceRow, hash: &str, tools: &[Tool]) -> worker::Result<()> {
        let sql = self.sql();
        let slug = source.slug.as_str();
        sql.exec(
            "DELETE FROM tool_search WHERE address IN (SELECT address FROM tool WHERE source = ?)",
            vec![slug.into()],
        )?;
        sql.exec("DELETE FROM tool WHERE source = ?", vec![slug.into()])?;
        for tool in tools {
            sql.exec(
                "INSERT OR REPLACE INTO tool (address, source, json, name) VALUES (?, ?, ?, ?)",
                vec![
                    tool.address.as_str().into(),
                    slug.into(),
                    serde_json::to_string(tool)?.into(),
                    direct_name(&tool.address).into(),
                ],
            )?;
            sql.exec(
                "INSERT INTO tool_search (address, name, title, description) VALUES (?, ?, ?, ?)",
                vec![
                    tool.address.as_str().into(),
                    words(&tool.address).join(" ").into(),
                    words(&tool.title).join(" ").into(),
                    tool.description.as_str().into(),
                ],
            )?;
        }
        sql.exec(
            "INSERT OR REPLACE INTO source (slug, document_hash, json) VALUES (?, ?, ?)",
            vec![slug.into(), hash.into(), serde_json::to_string(source)?.into()],
        )?;
        self.catalog_changed()
    }

    /// Reads the tools of an MCP server again, and counts a change only if there is one.
    async fn reread(&self, organization: &str, slug: &str) -> worker::Result<()> {
        let rows = self.rows("SELECT json FROM source WHERE slug = ?", vec![slug.into()])?;
        let Some(source) = rows.first().and_then(|row| text(row, 0)) else { return Ok(()) };
        let source: SourceRow = serde_json::from_str(source)?;
        self.read_mcp(organization, source).await.map(|_| ())
    }

    async fn read_mcp(&self, organization: &str, source: SourceRow) -> worker::Result<Value> {
        let failed = |error: String| worker::Error::RustError(error);
        let settings = load_settings(&self.env).map_err(|error| failed(error.to_string()))?;
        let rows = self.rows("SELECT json FROM tool WHERE source = ?", vec![source.slug.as_str().into()])?;
        let known = rows.iter().filter_map(|row| serde_json::from_str::<Tool>(text(row, 0)?).ok());
        let known = known.filter_map(|tool| match &tool.binding {
            Binding::Mcp(mcp) => {
                Some((mcp.name.clone(), tool.address.strip_prefix(&format!("{}.", source.slug))?.to_owned()))
            }
            Binding::Http(_) => None,
        });
        let known: BTreeMap<String, String> = known.collect();
        let listed = list_tools(&self.env, &settings, organization, &source, &known)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let hash = sha256_hex(serde_json::to_string(&listed.tools)?.as_bytes());
        let old = self.rows("SELECT document_hash FROM source WHERE slug = ?", vec![source.slug.as_str().into()])?;
        if old.first().and_then(|row| text(row, 0)) != Some(hash.as_str()) {
            let tools = u32::try_from(listed.tools.len()).unwrap_or(u32::MAX);
            self.replace_source(&SourceRow { tools, ..source }, &hash, &listed.tools)?;
        }
        Ok(json!({ "tools": listed.tools.len(), "report": listed.report }))
    }

    fn catalog(&self) -> worker::Result<u64> {
        Ok(self.meta("catalog-version")?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Counts a change of the catalog, and has the alarm tell of it: at most once a second.
    fn catalog_changed(&self) -> worker::Result<()> {
        self.put_meta("catalog-version", &(self.catalog()? + 1).to_string())?;
        if !self.rows("SELECT 1 FROM subscriber LIMIT 1", vec![])?.is_empty() {
            let told_at = self.meta("told-at-ms")?.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            set_alarm(&self.state.storage(), now().max(told_at.saturating_add(TOLD_EVERY_MS)));
        }
        Ok(())
    }

    fn subscribe(&self, organization: &str, session: &str) -> worker::Result<()> {
        if self.meta("organization")?.as_deref() != Some(organization) {
            self.put_meta("organization", organization)?;
        }
        self.sql().exec("INSERT OR IGNORE INTO subscriber (session) VALUES (?)", vec![session.into()])?;
        Ok(())
    }

    async fn tell_subscribers(&self) -> worker::Result<()> {
        self.prepare()?;
        self.put_meta("told-at-ms", &now().to_string())?;
        let organization = self.meta("organization")?.unwrap_or_default();
        let rows = self.rows("SELECT session FROM subscriber ORDER BY session", vec![])?;
        let sessions: Vec<&str> = rows.iter().filter_map(|row| text(row, 0)).collect();
        // A few at a time: the platform opens no more connections at once.
        for group in sessions.chunks(TOLD_AT_ONCE) {
            let told = group.iter().map(|session| tell_session(&self.env, &organization, session));
            for (session, reads) in group.iter().zip(futures_util::future::join_all(told).await) {
                match reads {
                    Ok(true) => {}
                    Ok(false) => {
                        self.sql().exec("DELETE FROM subscriber WHERE session = ?", vec![(*session).into()])?;
                    }
                    Err(error) => {
                        log(
                            "mcp_catalog_change_not_told",
                            json!({ "sessionId": session, "reason": error.to_string() }),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn answer_direct(&self, question: &DirectQuestion) -> worker::Result<DirectAnswer> {
        let catalog = self.catalog()?;
        let empty = DirectAnswer { catalog, lookup: None, tools: Vec::new(), next: None };
        match question {
            DirectQuestion::Name(name) => {
                let rows = self.rows("SELECT address FROM tool WHERE name = ?", vec![name.as_str().into()])?;
                let lookup =
                    rows.first().and_then(|row| text(row, 0)).map(|address| self.lookup(address)).transpose()?;
                Ok(DirectAnswer { lookup, ..empty })
            }
            DirectQuestion::Page { after } => {
                let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
                let rows = self.rows(
                    "SELECT json FROM tool WHERE address > ? ORDER BY address LIMIT ?",
                    vec![after.as_str().into(), limit.into()],
                )?;
                let tools = rows
                    .iter()
                    .filter_map(|row| text(row, 0))
                    .map(|json| Ok(serde_json::from_str(json)?))
                    .collect::<worker::Result<Vec<Tool>>>()?;
                let next = tools.last().filter(|_| tools.len() == PAGE).map(|tool| tool.address.clone());
                let listed = |tool: &Tool| match judge_nature(tool, Vouched::default()).action {
                    Action::Block => None,
                    action @ (Action::Allow | Action::Approve) => {
                        Some(listed_tool(tool, action == Action::Approve).to_string())
                    }
                };
                Ok(DirectAnswer { tools: tools.iter().filter_map(listed).collect(), next, ..empty })
            }
        }
    }

    fn tool(&self, address: &str) -> worker::Result<Option<Tool>> {
        let rows = self.rows("SELECT json FROM tool WHERE address = ?", vec![address.into()])?;
        rows.first().and_then(|row| text(row, 0)).map(|json| Ok(serde_json::from_str(json)?)).transpose()
    }

    fn lookup(&self, address: &str) -> worker::Result<ToolLookup> {
        let Some(tool) = self.tool(address)? else {
            return Ok(ToolLookup { suggestions: self.suggestions(address)?, ..ToolLookup::default() });
        };
        let rows = self.rows("SELECT json FROM source WHERE slug = ?", vec![tool.source.as_str().into()])?;
        let source: Option<SourceRow> =
            rows.first().and_then(|row| text(row, 0)).map(serde_json::from_str).transpose()?;
        let judgement = judge_nature(&tool, source.as_ref().map(SourceRow::vouched).unwrap_or_default());
        Ok(ToolLookup { judgement: Some(judgement), tool: Some(tool), source, suggestions: Vec::new() })
    }

    fn suggestions(&self, address: &str) -> worker::Result<Vec<String>> {
        let (hits, _) = self.search(address, None, 3, 0)?;
        Ok(hits.into_iter().map(|tool| tool.address).collect())
    }

    fn search(&self, query: &str, source: Option<&str>, limit: u64, offset: u64) -> worker::Result<(Vec<Tool>, u64)> {
        let (from, mut bindings): (&str, Vec<SqlStorageValue>) = match match_expression(query) {
            Some(expression) => {
                ("FROM tool_search JOIN tool USING (address) WHERE tool_search MATCH ?", vec![expression.into()])
            }
            None => ("FROM tool WHERE 1", vec![]),
        };
        let order =
            if bindings.is_empty() { "tool.address" } else { "bm25(tool_search, 0.0, 8.0, 4.0, 1.0), tool.address" };
        let filter = if source.is_some() { " AND tool.source = ?" } else { "" };
        bindings.extend(source.map(Into::into));
        let total = self.rows(&format!("SELECT COUNT(*) {from}{filter}"), bindings.clone())?;
        bindings.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        bindings.push(i64::try_from(offset).unwrap_or(i64::MAX).into());
        let rows =
            self.rows(&format!("SELECT tool.json {from}{filter} ORDER BY {order} LIMIT ? OFFSET ?"), bindings)?;
        let tools = rows
            .iter()
            .filter_map(|row| text(row, 0))
            .map(|json| Ok(serde_json::from_str(json)?))
            .collect::<worker::Result<Vec<Tool>>>()?;
        Ok((tools, total.first().and_then(|row| integer(row, 0)).unwrap_or(0)))
    }

    /// Answers a program's question: JSON text of the data, or what is wrong with the question.
    fn answer(&self, question: &CatalogQuestion) -> worker::Result<Result<String, String>> {
        let arguments = &question.arguments;
        let data = match question.address.as_str() {
            "search" => {
                let query = arguments.get("query").and_then(Value::as_str);
                let (Some(query), Some(limit), Some(offset)) =
                    (query, number(arguments, "limit", SEARCH_DEFAULT), number(arguments, "offset", 0))
                else {
                    return Ok(Err(
                        "tools.search takes { query: string, source?: string, limit?: number, offset?: number }."
                            .to_owned(),
                    ));
                };
                let source = arguments.get("source").and_then(Value::as_str);
                let (tools, total) = self.search(query, source, limit.clamp(1, SEARCH_MOST), offset)?;
                let items: Vec<Value> = tools.iter().map(summary).collect();
                json!({ "items": items, "total": total })
            }
            "describe" => {
                let Some(address) = arguments.get("address").and_then(Value::as_str) else {
                    return Ok(Err("tools.describe takes { address: string }.".to_owned()));
                };
                let Some(tool) = self.tool(address)? else {
                    let suggestions = self.suggestions(address)?;
                    let hint = if suggestions.is_empty() {
                        "tools.search({ query }) finds tools.".to_owned()
                    } else {
                        format!("Did you mean {}?", suggestions.join(", "))
                    };
                    return Ok(Err(format!("There is no tool {address}. {hint}")));
                };
                description(&tool)
            }
            _ => {
                let rows = self.rows("SELECT json FROM source ORDER BY slug", vec![])?;
                let sources = rows.iter().filter_map(|row| text(row, 0)).map(|json| Ok(serde_json::from_str(json)?));
                let sources = sources.collect::<worker::Result<Vec<SourceRow>>>()?;
                let items: Vec<Value> = sources
                    .iter()
                    .map(|source| json!({ "slug": source.slug, "title": source.title, "tools": source.tools }))
                    .collect();
                json!({ "items": items })
            }
        };
        Ok(Ok(data.to_string()))
    }

    /// The demo API. A request that changes something and repeats an idempotency key gets the first
    /// answer again, and is not carried out again.
    async fn demo(&self, mut request: Request, path: &str) -> worker::Result<Response> {
        if path == "/openapi.json" {
            return Ok(ResponseBuilder::new()
                .with_header("content-type", "application/json")?
                .fixed(demo::DOCUMENT.as_bytes().to_vec()));
        }
        let method = request.method().to_string();
        let key = header(request.headers(), "idempotency-key").filter(|_| method != "GET");
        let query: Vec<(String, String)> =
            request.url()?.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let Ok(body) = read_body(&mut request, DEMO_BODY_LIMIT).await else {
            return json_response(413, &json!({ "message": "The body is too large" }));
        };
        // No await from here on: reading, changing and remembering are one transaction.
        self.prepare()?;
        if let Some(key) = &key {
            let known = self.rows("SELECT status, body FROM demo_answer WHERE key = ?", vec![key.as_str().into()])?;
            if let Some(row) = known.first() {
                let status = integer(row, 0).and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
                return demo_response(status, text(row, 1));
            }
        }
        let stored = self.rows("SELECT value FROM meta WHERE key = 'demo-inventory'", vec![])?;
        let mut inventory = match stored.first().and_then(|row| text(row, 0)) {
            Some(json) => serde_json::from_str(json)?,
            None => demo::Inventory::default(),
        };
        let before = inventory.clone();
        let answer = demo::handle(&mut inventory, &method, path, &query, &body);
        let text = answer.body.as_ref().map(ToString::to_string);
        let sql = self.sql();
        if inventory != before {
            sql.exec(
                "INSERT OR REPLACE INTO meta (key, value) VALUES ('demo-inventory', ?)",
                vec![serde_json::to_string(&inventory)?.into()],
            )?;
        }
        if let Some(key) = key {
            sql.exec(
                "INSERT INTO demo_answer (key, status, body) VALUES (?, ?, ?)",
                vec![key.into(), i64::from(answer.status).into(), text.clone().into()],
            )?;
        }
        demo_response(answer.status, text.as_deref())
    }
}

/// Tells one session; `false` when nobody reads there any more.
async fn tell_session(env: &Env, organization: &str, session: &str) -> worker::Result<bool> {
    let context = Context {
        version: VERSION,
        // Nobody's request: the session checks the organization.
        principal: Principal {
            account: String::new(),
            organization: organization.to_owned(),
            admin: false,
            purpose: Purpose::Mcp,
        },
        resource: String::new(),
        public_origin: String::new(),
        asked: Asked::default(),
        trace: Trace::default(),
        operation: Operation::CatalogChanged,
    };
    let object = env.durable_object("SESSION")?.id_from_string(session)?.get_stub()?;
    let response = object.fetch_with_request(own_request("https://session.internal/changed", &context, "")?).await?;
    match response.status_code() {
        200 => Ok(true),
        404 => Ok(false),
        status => Err(worker::Error::RustError(format!("the session answered {status}"))),
    }
}

fn demo_response(status: u16, body: Option<&str>) -> worker::Result<Response> {
    let builder = ResponseBuilder::new().with_status(status);
    match body {
        Some(body) => Ok(builder.with_header("content-type", "application/json")?.fixed(body.as_bytes().to_vec())),
        None => Ok(builder.empty()),
    }
}

fn summary(tool: &Tool) -> Value {
    json!({
        "address": tool.address,
        "title": tool.title,
        "description": tool.description.chars().take(200).collect::<String>(),
        "approval": judge_nature(tool, Vouched::default()).action == Action::Approve,
    })
}

fn description(tool: &Tool) -> Value {
    let judgement = judge_nature(tool, Vouched::default());
    json!({
        "address": tool.address,
        "title": tool.title,
        "description": tool.description,
        "approval": judgement.action == Action::Approve,
        "approvalReason": judgement.reason,
        "input": type_text(&tool.input_schema),
        "output": tool.output_schema.as_ref().map_or_else(|| "unknown".to_owned(), type_text),
    })
}

/// A whole number among the arguments; `None` when it is something else.
fn number(arguments: &Value, key: &str, default: u64) -> Option<u64> {
    match arguments.get(key) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_u64(),
    }
}

fn text(row: &Row, column: usize) -> Option<&str> {
    match row.get(column) {
        Some(SqlStorageValue::String(text)) => Some(text),
        _ => None,
    }
}

fn integer(row: &Row, column: usize) -> Option<u64> {
    match row.get(column) {
        Some(SqlStorageValue::Integer(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}
