//! `OpenAPI` 2.0, 3.0, 3.1 and 3.2 documents read as tools.
//!
//! Decides names, schemas and bindings. A broken operation is skipped and reported; the document as a whole fails only
//! when it is no such document, too large or too deep. Nothing outside the document is ever fetched.

pub mod answer;
mod body;
mod document;
mod input;
mod media;
pub(crate) mod naming;
mod operation;
mod output;
mod percent;
pub mod request;
mod servers;
mod style;
#[cfg(test)]
mod tests;
mod yaml;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use self::document::{Document, Members, Version};
use self::naming::Unnamed;
use self::operation::{Context, Operation};
use self::servers::Origin;
use super::schema::clean::shortened;
use super::tool::{ParameterLocation, Tool};
use crate::json::json_depth_within;

/// How deep a document nests at most. One operation or component by itself nests at most 127 levels, which is where
/// `serde_json` stops.
const MAX_DOCUMENT_DEPTH: usize = 256;

/// The longest reason in a report.
const MAX_REASON_CHARS: usize = 400;

/// The members of a path item that are operations; `query` since `OpenAPI` 3.2.
const METHODS: [&str; 9] = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// How a document is imported.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions<'a> {
    /// The slug of the source, the first part of every address.
    pub source: &'a str,
    /// The base that an administrator stated; used instead of the document's root `servers`.
    pub base_url: Option<&'a str>,
    /// Where the document came from; relative server URLs are relative to it.
    pub document_url: Option<&'a str>,
    /// Names that operations already have, by `METHOD /path`; they keep them.
    pub known_names: Option<&'a BTreeMap<String, String>>,
    /// Bounds of what is read and made.
    pub limits: ImportLimits,
}

/// Bounds of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportLimits {
    /// The largest document, in bytes.
    pub document_bytes: usize,
    /// The most operations that become tools; the rest is reported.
    pub tools: usize,
    /// The largest input schema, in bytes of JSON, counted roughly; what is beyond is left open ("any value").
    pub input_schema_bytes: usize,
    /// The largest output schema, likewise.
    pub output_schema_bytes: usize,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            document_bytes: 16 * 1024 * 1024,
            tools: 5_000,
            input_schema_bytes: 32 * 1024,
            output_schema_bytes: 16 * 1024,
        }
    }
}

/// What an import gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The document's `info.title`.
    pub title: Option<String>,
    /// The source's base: the one that was stated, or the document's first root server, absolute, variables filled in.
    pub base_url: Option<String>,
    /// Every origin that a tool sends to, sorted; an administrator confirms them before credentials go there.
    pub origins: Vec<String>,
    /// The tools, in the document's order.
    pub tools: Vec<Tool>,
    /// What was skipped, renamed or changed, and why.
    pub report: Vec<ReportEntry>,
}

/// Something that was not taken over as it stands.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportEntry {
    /// `METHOD /path`; `None` for the document as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What happened to it.
    pub action: ReportAction,
    /// Why, in a sentence.
    pub why: String,
}

/// What an import did to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReportAction {
    /// It is not a tool.
    Skipped,
    /// It has another name than the document gave it.
    Renamed,
    /// It is a tool, but something was left out or changed.
    Changed,
}

/// Why a document could not be imported at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Larger than the limit.
    #[error("the document has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Nested deeper than the limit.
    #[error("the document nests deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Neither JSON nor YAML.
    #[error("the document is neither JSON nor YAML: {reason}")]
    Unreadable {
        /// What the parser said.
        reason: String,
    },
    /// Readable, but not `OpenAPI`.
    #[error("not an OpenAPI document: {reason}")]
    NotOpenApi {
        /// What is missing or unknown.
        reason: String,
    },
}

/// Reads a document of any supported version, JSON or YAML.
///
/// Holds all tools at once; for large documents step through an [`Importer`] instead.
pub fn import_openapi(document: &str, options: &ImportOptions<'_>) -> Result<Import, ImportError> {
    let document = document_json(document, &options.limits)?;
    let repaired;
    let mut importer = match Importer::new(&document, options) {
        Err(ImportError::Unreadable { reason }) => {
            repaired = document_repaired(&document, &options.limits).ok_or(ImportError::Unreadable { reason })?;
            Importer::new(&repaired, options)?
        }
        importer => importer?,
    };
    let mut tools = Vec::new();
    while let Some(tool) = importer.next_tool() {
        tools.push(tool);
    }
    Ok(Import {
        title: importer.title().map(str::to_owned),
        base_url: importer.base_url().map(str::to_owned),
        origins: importer.origins(),
        tools,
        report: importer.into_report(),
    })
}

/// The document as JSON text: itself, or what YAML says. Run it before [`Importer::new`].
pub fn document_json<'t>(document: &'t str, limits: &ImportLimits) -> Result<Cow<'t, str>, ImportError> {
    let (size, limit) = (document.len(), limits.document_bytes);
    if size > limit {
        return Err(ImportError::TooLarge { size, limit });
    }
    let document = trimmed(document);
    let document =
        if document.starts_with('{') { Cow::Borrowed(document) } else { Cow::Owned(yaml::json_of(document, limit)?) };
    if json_depth_within(&document, MAX_DOCUMENT_DEPTH) {
        Ok(document)
    } else {
        Err(ImportError::TooDeep { limit: MAX_DOCUMENT_DEPTH })
    }
}

/// A document without what may stand around it.
#[must_use]
pub fn trimmed(document: &str) -> &str {
    document.trim_start_matches('\u{feff}').trim()
}

/// What is almost JSON, such as a list with a comma at its end, read as YAML, which allows more; `None` where that cannot be read
/// either. For a document that [`Importer::new`] found unreadable.
#[must_use]
pub fn document_repaired(document: &str, limits: &ImportLimits) -> Option<String> {
    let json = yaml::json_of(document, limits.document_bytes).ok()?;
    json_depth_within(&json, MAX_DOCUMENT_DEPTH).then_some(json)
}

/// An operation found in the outline.
#[derive(Debug)]
struct Found<'a> {
    path: Rc<str>,
    method: String,
    item: Rc<PathItem<'a>>,
    definition: Definition<'a>,
    name: String,
}

/// The members of a path item that its operations share.
#[derive(Debug, Default)]
struct PathItem<'a> {
    parameters: Option<&'a RawValue>,
    servers: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    description: Option<&'a RawValue>,
    /// Where the path item is a reference: what it leads to.
    referred: Option<Rc<Value>>,
}

impl PathItem<'_> {
    fn member(&self, keyword: &str) -> Option<Value> {
        let own = match keyword {
            "parameters" => self.parameters,
            "servers" => self.servers,
            "summary" => self.summary,
            _ => self.description,
        };
        let own = own.and_then(|raw| serde_json::from_str(raw.get()).ok());
        own.or_else(|| self.referred.as_ref()?.get(keyword).cloned())
    }
}

/// Where an operation's definition is.
#[derive(Debug)]
enum Definition<'a> {
    Text(&'a RawValue),
    Parsed(Value),
}

/// An import that gives one tool at a time, so that a large document's tools need not fit in memory together.
#[derive(Debug)]
pub struct Importer<'a> {
    document: Document<'a>,
    options: ImportOptions<'a>,
    title: Option<String>,
    base_url: Option<String>,
    /// The base of the document's own root servers, stated base or not.
    document_base: Option<String>,
    credentials: HashSet<(ParameterLocation, String)>,
    found: std::vec::IntoIter<Found<'a>>,
    origins: BTreeSet<String>,
    report: Vec<ReportEntry>,
}

impl<'a> Importer<'a> {
    /// Reads the outline of a document in JSON (see [`document_json`]): version, servers, operations and their names.
    pub fn new(document: &'a str, options: &ImportOptions<'a>) -> Result<Self, ImportError> {
        let document = Document::read(document, options.document_url)?;
        let mut report = Vec::new();
        let origin = Origin { stated: options.base_url, document: options.document_url };
        let document_base = servers::root_base(&document, Origin { stated: None, ..origin });
        let base_url = match options.base_url {
            Some(stated) => servers::absolute(stated, Origin { stated: None, document: None }),
            None => document_base.clone(),
        };
        if base_url.is_none() {
            let why = match options.base_url {
                Some(stated) => format!("the base URL {stated:?} is not an absolute http or https URL"),
                None => "the document states no usable server; a base URL must be given".to_owned(),
            };
            report.push(ReportEntry { operation: None, action: ReportAction::Changed, why });
        }
        let title = document.get("info").and_then(|info| Some(info.get("title")?.as_str()?.trim().to_owned()));
        let credentials = credentials(&document);
        let found = find_operations(&document, options, &mut report)?;
        Ok(Self {
            document,
            options: *options,
            title: title.filter(|title| !title.is_empty()),
            base_url,
            document_base,
            credentials,
            found: found.into_iter(),
            origins: BTreeSet::new(),
            report,
        })
    }

    /// The document's `info.title`.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The source's base, see [`Import::base_url`].
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// The origins of the tools given so far, sorted.
    #[must_use]
    pub fn origins(&self) -> Vec<String> {
        self.origins.iter().cloned().collect()
    }

    /// How many operations are still to be read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.found.len()
    }

    /// The next tool, in the document's order; broken operations are reported and passed over.
    pub fn next_tool(&mut self) -> Option<Tool> {
        loop {
            let found = self.found.next()?;
            match self.read(&found) {
                Ok(tool) => {
                    self.origins.extend(tool.binding.origin(self.base_url.as_deref()));
                    return Some(tool);
                }
                Err(why) => self.report.push(ReportEntry {
                    operation: Some(format!("{} {}", found.method, found.path)),
                    action: ReportAction::Skipped,
                    why,
                }),
            }
        }
    }

    /// What was skipped, renamed or changed so far.
    #[must_use]
    pub fn into_report(mut self) -> Vec<ReportEntry> {
        for entry in &mut self.report {
            // Reasons quote the document, and a document can have names of any length.
            entry.why = shortened(&entry.why, MAX_REASON_CHARS);
            entry.operation = entry.operation.take().map(|operation| shortened(&operation, MAX_REASON_CHARS));
        }
        self.report
    }

    fn read(&mut self, found: &Found<'a>) -> Result<Tool, String> {
        let parsed;
        let definition = match &found.definition {
            Definition::Parsed(value) => value,
            Definition::Text(raw) => {
                parsed =
                    serde_json::from_str::<Value>(raw.get()).map_err(|error| format!("it cannot be read: {error}"))?;
                &parsed
            }
        };
        let parameters = found.item.member("parameters");
        let summary = found.item.member("summary");
        let description = found.item.member("description");
        let operation = Operation {
            name: &found.name,
            method: &found.method,
            path: &found.path,
            base_url: self.own_base(definition, &found.item)?,
            definition,
            path_parameters: parameters.as_ref(),
            path_summary: summary.as_ref().and_then(Value::as_str).filter(|text| !text.trim().is_empty()),
            path_description: description.as_ref().and_then(Value::as_str).filter(|text| !text.trim().is_empty()),
        };
        let context = Context {
            document: &self.document,
            source: self.options.source,
            limits: self.options.limits,
            credentials: &self.credentials,
        };
        operation::read_operation(&context, &operation, &mut self.report).map_err(|error| error.to_string())
    }

    /// The base of an operation whose own or path's servers differ from the root's.
    fn own_base(&self, definition: &Value, item: &PathItem<'_>) -> Result<Option<String>, String> {
        let is_list = |servers: &Value| servers.as_array().is_some_and(|list| !list.is_empty());
        if self.document.version == Version::V2 {
            return Ok(None);
        }
        let own = definition.get("servers").filter(|servers| is_list(servers)).cloned();
        let Some(servers) = own.or_else(|| item.member("servers").filter(is_list)) else {
            return Ok(None);
        };
        let in_document = Origin { stated: None, document: self.options.document_url };
        if self.document_base.is_some() && servers::servers_base(&servers, in_document) == self.document_base {
            return Ok(None);
        }
        let origin = Origin { stated: self.base_url.as_deref().or(self.options.base_url), ..in_document };
        let base = servers::servers_base(&servers, origin);
        base.map(Some).ok_or_else(|| "its own servers have no usable http or https URL".to_owned())
    }
}

/// Where the document's security schemes put credentials, names of headers in lower case.
fn credentials(document: &Document<'_>) -> HashSet<(ParameterLocation, String)> {
    let schemes = match document.version {
        Version::V2 => document.at("/securityDefinitions"),
        Version::V3_0 | Version::V3_1 => document.at("/components/securitySchemes"),
    };
    let schemes = schemes.as_ref().and_then(|schemes| schemes.as_object());
    let places = schemes.into_iter().flatten().filter_map(|(_, scheme)| {
        let scheme = document.resolved(scheme.clone()).ok()?;
        let name = scheme.get("name")?.as_str()?;
        (scheme.get("type")?.as_str()? == "apiKey").then_some(())?;
        match scheme.get("in")?.as_str()? {
            "query" => Some((ParameterLocation::Query, name.to_owned())),
            "header" => Some((ParameterLocation::Header, name.to_ascii_lowercase())),
            "cookie" => Some((ParameterLocation::Cookie, name.to_owned())),
            _ => None,
        }
    });
    places.collect()
}

/// All operations of the document, named.
fn find_operations<'a>(
    document: &Document<'a>,
    options: &ImportOptions<'_>,
    report: &mut Vec<ReportEntry>,
) -> Result<Vec<Found<'a>>, ImportError> {
    let Some(paths) = document.raw("paths") else {
        // A document of 3.1 may describe webhooks or components only.
        return if document.version == Version::V3_1 {
            Ok(Vec::new())
        } else {
            Err(ImportError::NotOpenApi { reason: "it has no `paths`".to_owned() })
        };
    };
    let paths = Members::of(paths)
        .ok_or_else(|| ImportError::NotOpenApi { reason: "its `paths` is not an object".to_owned() })?;
    let mut found = Vec::new();
    let mut ids = Vec::new();
    for (path, raw) in paths.iter() {
        if path.starts_with("x-") {
            continue;
        }
        if let Err(why) = find_in_path(document, path, raw, &mut found, &mut ids, report) {
            report.push(ReportEntry { operation: Some(path.to_owned()), action: ReportAction::Skipped, why });
        }
    }
    // Keys that mean the same path: their operations could not be told apart, here or when the document is read again.
    let mut known = HashSet::new();
    let (mut found, mut ids): (Vec<Found<'a>>, Vec<Option<String>>) = (found.into_iter().zip(ids))
        .filter(|(found, _)| {
            let is_first = known.insert((found.method.clone(), Rc::clone(&found.path)));
            if !is_first {
                report.push(ReportEntry {
                    operation: Some(format!("{} {}", found.method, found.path)),
                    action: ReportAction::Skipped,
                    why: "the document has it twice".to_owned(),
                });
            }
            is_first
        })
        .unzip();
    if found.len() > options.limits.tools {
        for passed_over in found.drain(options.limits.tools..) {
            let Found { method, path, .. } = passed_over;
            report.push(ReportEntry {
                operation: Some(format!("{method} {path}")),
                action: ReportAction::Skipped,
                why: format!("the limit is {} tools a source", options.limits.tools),
            });
        }
        ids.truncate(options.limits.tools);
    }
    let unnamed: Vec<Unnamed<'_>> = found
        .iter()
        .zip(&ids)
        .map(|(found, id)| Unnamed {
            operation: format!("{} {}", found.method, found.path),
            method: &found.method,
            path: &found.path,
            operation_id: id.as_deref(),
        })
        .collect();
    let names = naming::name_tools(&unnamed, options.known_names);
    report_names(&unnamed, &names, report);
    for (found, name) in found.iter_mut().zip(names) {
        found.name = name;
    }
    Ok(found)
}

/// Reports names that are not the operation's own. That `a/b-c` is written `a.b_c` is said once.
fn report_names(operations: &[Unnamed<'_>], names: &[String], report: &mut Vec<ReportEntry>) {
    let mut rewritten = Vec::new();
    for (operation, name) in operations.iter().zip(names) {
        let Some(id) = operation.operation_id.filter(|id| id != name) else { continue };
        if naming::wanted_name(operation) == *name {
            rewritten.push((id, name));
        } else {
            report.push(ReportEntry {
                operation: Some(operation.operation.clone()),
                action: ReportAction::Renamed,
                why: format!("the operationId {id:?} became {name:?}: its own name is taken or was another before"),
            });
        }
    }
    if let Some((id, name)) = rewritten.first() {
        report.push(ReportEntry {
            operation: None,
            action: ReportAction::Renamed,
            why: format!("{} names were rewritten for programs, such as {id:?} as {name:?}", rewritten.len()),
        });
    }
}

fn find_in_path<'a>(
    document: &Document<'a>,
    path: &str,
    raw: &'a RawValue,
    found: &mut Vec<Found<'a>>,
    ids: &mut Vec<Option<String>>,
    report: &mut Vec<ReportEntry>,
) -> Result<(), String> {
    let members = Members::of(raw).ok_or("the path item is not an object")?;
    let referred = if members.get("$ref").is_some() {
        let item = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        Some(document.resolved(item).map_err(|error| error.to_string())?)
    } else {
        None
    };
    let item = Rc::new(PathItem {
        parameters: members.get("parameters"),
        servers: members.get("servers"),
        summary: members.get("summary"),
        description: members.get("description"),
        referred: referred.clone(),
    });
    let path: Rc<str> = wire_path(path).into();
    let mut add = |method: &str, definition: Definition<'a>| {
        let method = method.to_ascii_uppercase();
        // `fetch` refuses these two, and TRACE would send credentials back (Fetch, 2.2.1).
        if matches!(method.as_str(), "TRACE" | "CONNECT" | "TRACK") || !is_token(&method) {
            report.push(ReportEntry {
                operation: Some(format!("{method} {path}")),
                action: ReportAction::Skipped,
                why: format!("the method {method} cannot be sent"),
            });
            return;
        }
        let id = match &definition {
            Definition::Parsed(value) => value.get("operationId").and_then(Value::as_str).map(str::to_owned),
            Definition::Text(raw) => {
                let id = Members::of(raw).and_then(|members| members.get("operationId"));
                id.and_then(|id| serde_json::from_str::<String>(id.get()).ok())
            }
        };
        ids.push(id);
        found.push(Found { path: Rc::clone(&path), method, item: Rc::clone(&item), definition, name: String::new() });
    };
    for (keyword, member) in members.iter() {
        if METHODS.contains(&keyword) {
            add(keyword, Definition::Text(member));
        } else if keyword == "additionalOperations" {
            for (method, member) in Members::of(member).unwrap_or_default().iter() {
                add(method, Definition::Text(member));
            }
        }
    }
    for (keyword, member) in referred.iter().filter_map(|referred| referred.as_object()).flatten() {
        if METHODS.contains(&keyword.as_str()) && members.get(keyword).is_none() {
            add(keyword, Definition::Parsed(member.clone()));
        }
    }
    Ok(())
}

/// The path with a slash in front, and without `{?page,size}` (RFC 6570, 3.2.8): the parameters say what the query takes.
fn wire_path(path: &str) -> String {
    let mut written = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        written.push('/');
    }
    let mut rest = path;
    while let Some(at) = rest.find("{?").into_iter().chain(rest.find("{&")).min() {
        let (before, place) = rest.split_at(at);
        let Some((_, after)) = place.split_once('}') else { break };
        written.push_str(before);
        rest = after;
    }
    written.push_str(rest);
    written
}

/// Whether a method is a token (RFC 9110, 5.6.2); letters are enough here.
fn is_token(method: &str) -> bool {
    !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
}
