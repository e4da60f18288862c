//! The organization object: sources, tools and their search, and the demo inventory.
//!
//! | table | key | holds |
//! |---|---|---|
//! | `meta` | `schema-version`, `demo-inventory` | one value each |
//! | `source` | slug | the source and the hash of its document |
//! | `tool` | address | the tool as JSON |
//! | `tool_search` | (FTS5) | words of address, title and description |
//! | `demo_answer` | idempotency key | what the demo answered to a request that changes something |

// The macros below expand to code that names `wasm_bindgen`.
use serde_json::{Value, json};
use worker::{
    DurableObject, Env, Request, Response, ResponseBuilder, SqlStorage, SqlStorageValue, State, durable_object,
    wasm_bindgen,
};

use super::http::{header, json_response, load_settings, read_body};
use super::organization::read_own_body;
use crate::catalog::openapi::{ImportLimits, ImportOptions, import_openapi};
use crate::catalog::search::{match_expression, words};
use crate::catalog::tool::Tool;
use crate::catalog::typescript::type_text;
use crate::demo;
use crate::internal::{CatalogQuestion, SourceRow, ToolLookup};
use crate::json::sha256_hex;
use crate::policy::{Action, judge_nature};

/// Bytes of a request to the demo API.
const DEMO_BODY_LIMIT: usize = 64 << 10;
/// Hits of a search, by default and at most.
const SEARCH_DEFAULT: u64 = 10;
const SEARCH_MOST: u64 = 50;

#[durable_object(fetch)]
struct OrganizationDurableObject {
    state: State,
    env: Env,
}

impl DurableObject for OrganizationDurableObject {
    fn new(state: State, env: Env) -> Self {
        Self { state, env }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let path = request.path();
        match path.as_str() {
            "/internal/lookup" => {
                let address: String = read_own_body(&mut request).await?;
                self.prepare()?;
                Response::from_json(&self.lookup(&address)?)
            }
            "/internal/question" => {
                let question: CatalogQuestion = read_own_body(&mut request).await?;
                self.prepare()?;
                Response::from_json(&self.answer(&question)?)
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
}

type Row = Vec<SqlStorageValue>;

impl OrganizationDurableObject {
    fn sql(&self) -> SqlStorage {
        self.state.storage().sql()
    }

    fn rows(&self, query: &str, bindings: Vec<SqlStorageValue>) -> worker::Result<Vec<Row>> {
        self.sql().exec(query, bindings)?.raw().collect()
    }

    /// Makes the tables, and in development mode the `demo` source.
    fn prepare(&self) -> worker::Result<()> {
        let sql = self.sql();
        if self.rows("SELECT name FROM sqlite_master WHERE name = 'tool'", vec![])?.is_empty() {
            for table in [
                "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS source (slug TEXT PRIMARY KEY, document_hash TEXT NOT NULL, json TEXT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS demo_answer (key TEXT PRIMARY KEY, status INTEGER NOT NULL, body TEXT)",
                "CREATE VIRTUAL TABLE IF NOT EXISTS tool_search USING fts5(address UNINDEXED, name, title, description, tokenize = 'porter unicode61')",
                "CREATE TABLE IF NOT EXISTS tool (address TEXT PRIMARY KEY, source TEXT NOT NULL, json TEXT NOT NULL)",
            ] {
                sql.exec(table, None)?;
            }
            sql.exec("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema-version', '1')", None)?;
        }
        // Development mode is the only mode so far, and the demo belongs to it.
        if load_settings(&self.env).is_ok() {
            self.import_demo()?;
        }
        Ok(())
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
            base_url: None,
            built_in: true,
            honours_idempotency_key: true,
            tools: u32::try_from(import.tools.len()).unwrap_or(u32::MAX),
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
                "INSERT OR REPLACE INTO tool (address, source, json) VALUES (?, ?, ?)",
                vec![tool.address.as_str().into(), slug.into(), serde_json::to_string(tool)?.into()],
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
        Ok(())
    }

    fn tool(&self, address: &str) -> worker::Result<Option<Tool>> {
        let rows = self.rows("SELECT json FROM tool WHERE address = ?", vec![address.into()])?;
        rows.first().and_then(|row| text(row, 0)).map(|json| Ok(serde_json::from_str(json)?)).transpose()
    }

    fn lookup(&self, address: &str) -> worker::Result<ToolLookup> {
        let Some(tool) = self.tool(address)? else {
            return Ok(ToolLookup { tool: None, source: None, suggestions: self.suggestions(address)? });
        };
        let rows = self.rows("SELECT json FROM source WHERE slug = ?", vec![tool.source.as_str().into()])?;
        let source = rows.first().and_then(|row| text(row, 0)).map(serde_json::from_str).transpose()?;
        Ok(ToolLookup { tool: Some(tool), source, suggestions: Vec::new() })
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
        "approval": judge_nature(tool).action == Action::Approve,
    })
}

fn description(tool: &Tool) -> Value {
    let judgement = judge_nature(tool);
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
