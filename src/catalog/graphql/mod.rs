//! GraphQL APIs as tools: one for each field of the query and the mutation type, as introspection describes them.
//!
//! Decides names, schemas, documents and what is selected. What cannot be read is skipped and reported; the schema as a whole
//! fails only where it is none. Nothing is sent from here.

mod answer;
mod input;
mod list;
mod request;
mod schema;
mod selection;
mod syntax;
#[cfg(test)]
mod tests;
mod type_ref;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

pub use self::answer::read_answer;
pub use self::request::{GraphqlRequestError, build_request, introspection_request};
pub use self::schema::SchemaError;
pub use self::syntax::SyntaxError;

use self::input::{Arguments, InputTypes, read_arguments};
use self::schema::{Definition, Field, Kind, Schema};
use self::selection::{Selected, default_selection};
use self::syntax::write_selection;
use super::openapi::naming::{Unnamed, name_tools};
use super::openapi::{ReportAction, ReportEntry};
use super::schema::clean::shortened;
use super::tool::{
    Binding, GraphqlBinding, GraphqlOperation, GraphqlSelection, MAX_DESCRIPTION_CHARS, Tool, ToolHints,
};
use crate::json::{canonical_json, sha256_hex};

/// Bytes of an input schema, counted roughly; what is beyond is left open.
const INPUT_SCHEMA_BYTES: usize = 32 << 10;
/// Bytes of an output schema; a larger one is left out.
const OUTPUT_SCHEMA_BYTES: usize = 16 << 10;
/// The most tools of one API; the rest is reported.
const TOOLS: usize = 5_000;
/// Characters of a title.
const TITLE_CHARS: usize = 120;
/// Characters of what is said about the selection.
const SELECT_CHARS: usize = 1_500;
/// Characters of a reason in a report.
const REASON_CHARS: usize = 400;

/// Asks for the schema. Types in it are wrapped eight times at most.
const INTROSPECTION: &str = "query IntrospectionQuery { __schema { queryType { name } mutationType { name } subscriptionType { name } types { kind name description fields(includeDeprecated: true) { name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason } inputFields { ...InputValue } enumValues(includeDeprecated: true) { name } possibleTypes { name } } } } fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue } fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }";

/// Whose tools they are.
#[derive(Clone, Copy, Debug)]
pub struct GraphqlOptions<'a> {
    /// The slug of the source.
    pub source: &'a str,
    /// Names that fields have in addresses already, by `query field` or `mutation field`; they keep them.
    pub known_names: &'a BTreeMap<String, String>,
}

/// A field that becomes a tool.
#[derive(Debug)]
struct Found {
    operation: GraphqlOperation,
    root: Rc<Definition>,
    at: usize,
    name: String,
}

impl Found {
    fn field(&self) -> Option<&Field> {
        self.root.fields.get(self.at)
    }
}

/// Reads a schema tool by tool, so that those of a large one need not be in memory together.
#[derive(Debug)]
pub struct GraphqlImporter<'a> {
    schema: Schema<'a>,
    types: InputTypes,
    source: &'a str,
    found: std::vec::IntoIter<Found>,
    report: Vec<ReportEntry>,
}

impl<'a> GraphqlImporter<'a> {
    /// Reads the outline of a schema: the answer to an introspection query, its `data`, or the `__schema` in it.
    pub fn new(text: &'a str, options: &GraphqlOptions<'a>) -> Result<Self, SchemaError> {
        let schema = Schema::read(text)?;
        let mut report: Vec<ReportEntry> =
            schema.faults.iter().map(|why| note(None, ReportAction::Changed, why)).collect();
        let roots = [(GraphqlOperation::Query, &schema.query), (GraphqlOperation::Mutation, &schema.mutation)];
        let mut found = Vec::new();
        for (operation, root) in roots {
            let Some(name) = root else { continue };
            if let Some(root) = schema.definition(name).filter(|root| root.kind == Kind::Object) {
                find_fields(operation, &root, &mut found, &mut report);
            } else {
                let why = format!("the {} type {name} is not described", operation.word());
                report.push(note(None, ReportAction::Skipped, &why));
            }
        }
        if schema.query.is_none() && schema.mutation.is_none() {
            return Err(SchemaError::NotIntrospection { reason: "it names neither a query nor a mutation type" });
        }
        let subscriptions = schema.subscription.as_deref().and_then(|name| schema.definition(name));
        for field in subscriptions.iter().flat_map(|root| &root.fields) {
            let why = "a subscription is a stream, which is no call";
            report.push(note(Some(&format!("subscription {}", field.name)), ReportAction::Skipped, why));
        }
        for beyond in found.drain(TOOLS.min(found.len())..) {
            let why = format!("the limit is {TOOLS} tools a source");
            report.push(note(key_of(&beyond).as_deref(), ReportAction::Skipped, &why));
        }
        name_fields(&mut found, options.known_names, &mut report);
        Ok(Self { schema, types: InputTypes::default(), source: options.source, found: found.into_iter(), report })
    }

    /// The next tool, in the schema's order; what cannot be read is reported and passed over.
    pub fn next_tool(&mut self) -> Option<Tool> {
        loop {
            let found = self.found.next()?;
            let Some(field) = found.field() else { continue };
            match self.read(&found, field) {
                Ok((tool, notes)) => {
                    let key = key_of(&found);
                    self.report.extend(notes.iter().map(|why| note(key.as_deref(), ReportAction::Changed, why)));
                    return Some(tool);
                }
                Err(why) => self.report.push(note(key_of(&found).as_deref(), ReportAction::Skipped, &why)),
            }
        }
    }

    /// What was skipped, renamed or changed so far.
    #[must_use]
    pub fn into_report(self) -> Vec<ReportEntry> {
        self.report
    }

    fn read(&self, found: &Found, field: &Field) -> Result<(Tool, Vec<String>), String> {
        let missing = || format!("its result is of the type {}, which is not described", field.result.name());
        let Selected { selection, schema: output_schema } =
            default_selection(&self.schema, field).ok_or_else(missing)?;
        let selects = !selection.is_empty();
        let Arguments { schema: mut input, variables, renamed, notes, select } =
            read_arguments(&self.schema, &self.types, &field.arguments, selects, INPUT_SCHEMA_BYTES);
        let selection = select.map(|key| {
            let mut default = String::new();
            write_selection(&selection, &mut default);
            let taken = json!({ "type": "string", "description": self.about_selecting(field, &default) });
            if let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) {
                properties.insert(key.clone(), taken);
            }
            GraphqlSelection { key, default }
        });
        let input_schema = Value::Object(input);
        let hints = hints_of(found.operation);
        let title = title_of(field);
        let description = description_of(found.operation, field);
        let mut binding = GraphqlBinding {
            operation: found.operation,
            field: field.name.clone(),
            variables,
            selection,
            renamed,
            definition_hash: String::new(),
        };
        let defined = json!({
            "title": title,
            "description": description,
            "inputSchema": input_schema,
            "hints": hints,
            "binding": binding,
        });
        binding.definition_hash = sha256_hex(canonical_json(&defined).as_bytes());
        let output_schema = Some(output_schema).filter(|schema| schema.to_string().len() <= OUTPUT_SCHEMA_BYTES);
        let tool = Tool {
            address: format!("{}.{}", self.source, found.name),
            source: self.source.to_owned(),
            title,
            description,
            input_schema,
            output_schema,
            hints,
            binding: Binding::Graphql(binding),
        };
        Ok((tool, notes))
    }

    /// What a caller has to know to select something else: the default, and what there is.
    fn about_selecting(&self, field: &Field, default: &str) -> String {
        let name = field.result.name();
        let mut text =
            format!("What to return of {name}, as a GraphQL selection. Default: {}", shortened(default, 500));
        let definition = self.schema.definition(name);
        let fields =
            definition.iter().flat_map(|definition| &definition.fields).filter(|field| field.deprecated.is_none());
        // More than fit are not even written.
        let fields = fields.take(100);
        let fields: Vec<String> = fields
            .map(|field| {
                let takes: Vec<String> =
                    field.arguments.iter().map(|input| format!("{}: {}", input.name, input.takes.text())).collect();
                let takes = if takes.is_empty() { String::new() } else { format!("({})", takes.join(", ")) };
                format!("{}{takes}: {}", field.name, field.result.text())
            })
            .collect();
        if !fields.is_empty() {
            text.push_str(". Fields: ");
            text.push_str(&fields.join("; "));
        }
        shortened(&text, SELECT_CHARS)
    }
}

fn note(operation: Option<&str>, action: ReportAction, why: &str) -> ReportEntry {
    let operation = operation.map(|operation| shortened(operation, REASON_CHARS));
    ReportEntry { operation, action, why: shortened(why, REASON_CHARS) }
}

/// What a field is known by; its name in addresses stays with that.
fn key_of(found: &Found) -> Option<String> {
    Some(format!("{} {}", found.operation.word(), found.field()?.name))
}

fn find_fields(
    operation: GraphqlOperation,
    root: &Rc<Definition>,
    found: &mut Vec<Found>,
    report: &mut Vec<ReportEntry>,
) {
    for why in &root.broken {
        report.push(note(None, ReportAction::Skipped, &format!("in the {} type: {why}", operation.word())));
    }
    for (at, field) in root.fields.iter().enumerate() {
        let key = format!("{} {}", operation.word(), field.name);
        if field.name.starts_with("__") {
            report.push(note(Some(&key), ReportAction::Skipped, "such names belong to introspection"));
        } else {
            found.push(Found { operation, root: Rc::clone(root), at, name: String::new() });
        }
    }
}

/// A mutation that is called like a query has the word in front.
fn name_fields(found: &mut [Found], known: &BTreeMap<String, String>, report: &mut Vec<ReportEntry>) {
    let is_query = |found: &&Found| found.operation == GraphqlOperation::Query;
    let queries: std::collections::HashSet<String> =
        found.iter().filter(is_query).filter_map(|found| Some(found.field()?.name.clone())).collect();
    let wanted: Vec<(String, String)> = found
        .iter()
        .filter_map(|one| {
            let name = one.field()?.name.clone();
            let clashes = one.operation == GraphqlOperation::Mutation && queries.contains(&name);
            Some((key_of(one)?, if clashes { format!("mutation.{name}") } else { name }))
        })
        .collect();
    let unnamed: Vec<Unnamed<'_>> = wanted
        .iter()
        .map(|(key, name)| Unnamed { operation: key.clone(), method: "field", path: "", operation_id: Some(name) })
        .collect();
    for ((one, (key, _)), name) in found.iter_mut().zip(&wanted).zip(name_tools(&unnamed, Some(known))) {
        if one.field().is_some_and(|field| field.name != name) {
            report.push(note(Some(key), ReportAction::Renamed, &format!("it is called {name} here")));
        }
        one.name = name;
    }
}

/// Fields of a query have no effects (section 6.2.1). Of a mutation nothing is known, so it is taken for what it may be.
fn hints_of(operation: GraphqlOperation) -> ToolHints {
    let reads = operation == GraphqlOperation::Query;
    ToolHints { read_only: reads, destructive: !reads, idempotent: reads }
}

fn title_of(field: &Field) -> String {
    let first = field.description.as_deref().and_then(|text| text.lines().next()).map(str::trim);
    let short =
        first.map(|line| line.trim_end_matches('.')).filter(|line| (1..=TITLE_CHARS).contains(&line.chars().count()));
    short.unwrap_or(&field.name).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn description_of(operation: GraphqlOperation, field: &Field) -> String {
    let mut text = String::new();
    if let Some(reason) = &field.deprecated {
        text.push_str("Deprecated");
        if !reason.is_empty() {
            text.push_str(": ");
            text.push_str(&shortened(reason, 200));
        }
        text.push_str(if reason.ends_with('.') { " " } else { ". " });
    }
    let unsaid = || format!("{} {}", operation.word(), field.name);
    text.push_str(&field.description.clone().unwrap_or_else(unsaid));
    shortened(text.trim(), MAX_DESCRIPTION_CHARS)
}
