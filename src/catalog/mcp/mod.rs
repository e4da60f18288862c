//! The tools of an MCP server, as tools of the catalog.
//!
//! Decides what becomes of each entry of `tools/list`, what a call's arguments are on the wire, and what a result is as a
//! value. What a server says of its tools is untrusted text. Nothing is sent from here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::openapi::naming::{Unnamed, name_tools};
use super::openapi::{ReportAction, ReportEntry};
use super::schema::clean::shortened;
use super::schema::{clean_input, output_for_clients};
use super::tool::{Binding, MAX_DESCRIPTION_CHARS, McpBinding, RenamedProperty, Tool, ToolHints};
use crate::json::{canonical_json, sha256_hex};

mod answer;
mod arguments;
mod headers;
#[cfg(test)]
mod tests;
mod uris;

pub use answer::{passed_outcome, read_result};
pub use arguments::{wire_arguments, wire_headers};
pub use uris::{prefix_block, prefix_member, uri_prefix, without_prefix};

/// Bytes of an input schema, counted roughly; what is beyond is left open.
const INPUT_SCHEMA_BYTES: usize = 32 << 10;
/// Bytes of an output schema, likewise.
const OUTPUT_SCHEMA_BYTES: usize = 16 << 10;
/// Characters of a title.
const TITLE_CHARS: usize = 120;
/// Bytes of a tool's name.
const NAME_BYTES: usize = 512;
/// The most tools of one server; the rest is reported.
pub const TOOLS: usize = 5_000;

/// Whose tools they are.
#[derive(Clone, Copy, Debug)]
pub struct ListOptions<'a> {
    /// The slug of the source.
    pub source: &'a str,
    /// Whether the server speaks 2026-07-28 or later, where arguments may have to be sent as headers too.
    pub stateless: bool,
    /// Names on the wire and in addresses (without the source) of an earlier import, which stay.
    pub known_names: &'a BTreeMap<String, String>,
}

/// What an import gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedTools {
    /// The tools, in the server's order.
    pub tools: Vec<Tool>,
    /// What was skipped, renamed or changed, and why.
    pub report: Vec<ReportEntry>,
}

/// Reads the entries of `tools/list`, all pages.
#[must_use]
pub fn read_tools(entries: &[Value], options: &ListOptions<'_>) -> ListedTools {
    let mut listed = ListedTools::default();
    let mut seen = BTreeSet::new();
    let mut kept: Vec<(&str, &Map<String, Value>)> = Vec::new();
    let skip = |listed: &mut ListedTools, name: Option<&str>, why: &str| {
        listed.report.push(entry(name, ReportAction::Skipped, why));
    };
    for value in entries {
        let Some((name, object)) = value.as_object().and_then(|object| Some((object.get("name")?.as_str()?, object)))
        else {
            skip(&mut listed, None, "an entry of the list has no name");
            continue;
        };
        if name.is_empty() || name.len() > NAME_BYTES {
            skip(&mut listed, Some(name), "the name is empty or longer than 512 bytes");
        } else if !seen.insert(name) {
            skip(&mut listed, Some(name), "another tool of the list has the same name");
        } else if kept.len() >= TOOLS {
            skip(&mut listed, Some(name), "the server has more than 5000 tools");
        } else {
            kept.push((name, object));
        }
    }
    let unnamed: Vec<Unnamed<'_>> = kept
        .iter()
        .map(|(name, _)| Unnamed { operation: (*name).to_owned(), method: "tool", path: "", operation_id: Some(name) })
        .collect();
    let names = name_tools(&unnamed, Some(options.known_names));
    for ((wire_name, object), name) in kept.into_iter().zip(names) {
        if *wire_name != name {
            let why = format!("it is called {name} here");
            listed.report.push(entry(Some(wire_name), ReportAction::Renamed, &why));
        }
        match read_tool(wire_name, &name, object, options) {
            Ok((tool, notes)) => {
                let notes = notes.iter().map(|note| entry(Some(wire_name), ReportAction::Changed, note));
                listed.report.extend(notes);
                listed.tools.push(tool);
            }
            Err(why) => skip(&mut listed, Some(wire_name), &why),
        }
    }
    listed
}

fn entry(name: Option<&str>, action: ReportAction, why: &str) -> ReportEntry {
    ReportEntry { operation: name.map(|name| shortened(name, TITLE_CHARS)), action, why: why.to_owned() }
}

fn read_tool(
    wire_name: &str,
    name: &str,
    object: &Map<String, Value>,
    options: &ListOptions<'_>,
) -> Result<(Tool, Vec<String>), String> {
    let open = json!({ "type": "object" });
    let schema = object.get("inputSchema").unwrap_or(&open);
    let headers = if options.stateless { headers::header_arguments(schema)? } else { Vec::new() };
    let cleaned = clean_input(schema, INPUT_SCHEMA_BYTES);
    let mut notes: Vec<String> = cleaned.notes.into_iter().collect();
    if cleaned.shortened {
        notes.push(format!("the input schema has more than {INPUT_SCHEMA_BYTES} bytes; nested parts accept any value"));
    }
    let none = Map::new();
    let annotations = object.get("annotations").and_then(Value::as_object).unwrap_or(&none);
    let text = |object: &Map<String, Value>, key: &str| {
        object.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    };
    let title = text(object, "title").or_else(|| text(annotations, "title")).unwrap_or_else(|| wire_name.to_owned());
    let title = shortened(&title.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_CHARS);
    let description = text(object, "description").map(|text| shortened(&text, MAX_DESCRIPTION_CHARS));
    let defined: Map<String, Value> = ["title", "description", "inputSchema", "annotations"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), object.get(key)?.clone())))
        .collect();
    let binding = McpBinding {
        name: wire_name.to_owned(),
        headers,
        renamed: cleaned.renamed.into_iter().map(|(key, name)| RenamedProperty { key, name }).collect(),
        definition_hash: sha256_hex(canonical_json(&Value::Object(defined)).as_bytes()),
    };
    let tool = Tool {
        address: format!("{}.{name}", options.source),
        source: options.source.to_owned(),
        description: description.unwrap_or_else(|| title.clone()),
        title,
        input_schema: cleaned.schema,
        output_schema: object.get("outputSchema").and_then(|schema| output_for_clients(schema, OUTPUT_SCHEMA_BYTES)),
        hints: hints(annotations),
        binding: Binding::Mcp(binding),
    };
    Ok((tool, notes))
}

/// Specification, revision 2025-11-25, schema, `ToolAnnotations`: the defaults are the careful ones.
fn hints(annotations: &Map<String, Value>) -> ToolHints {
    let hint = |key: &str| annotations.get(key).and_then(Value::as_bool);
    let read_only = hint("readOnlyHint").unwrap_or(false);
    ToolHints {
        read_only,
        destructive: !read_only && hint("destructiveHint").unwrap_or(true),
        idempotent: read_only || hint("idempotentHint").unwrap_or(false),
    }
}
