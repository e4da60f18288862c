//! One operation read as a tool.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::document::{Document, ReferenceError, Version};
use super::input::{Body, MAX_PARAMETERS, Parameter, is_binary, match_places, read_input, read_place, style_named};
use super::naming::ArgumentKeys;
use super::output::read_answers;
use super::{ImportLimits, ReportAction, ReportEntry};
use crate::catalog::schema::clean::{Cleaned, Cleaner, Dialect, Direction, Scoped, shortened};
use crate::catalog::tool::{
    Binding, BodyBinding, BodyFormat, BodyLayout, BodyProperty, HttpBinding, MAX_DESCRIPTION_CHARS, ParameterBinding,
    ParameterLocation, ParameterStyle, RenamedProperty, Tool, ToolHints,
};
use crate::json::{canonical_json, sha256_hex};

/// What is the same for all operations of a document.
#[derive(Debug)]
pub(super) struct Context<'c, 'a> {
    pub(super) document: &'c Document<'a>,
    pub(super) source: &'c str,
    pub(super) limits: ImportLimits,
    /// Place and name (headers in lower case) of what carries credentials.
    pub(super) credentials: &'c HashSet<(ParameterLocation, String)>,
}

/// One operation with what its path item adds.
#[derive(Debug)]
pub(super) struct Operation<'o> {
    pub(super) name: &'o str,
    pub(super) method: &'o str,
    pub(super) path: &'o str,
    /// Its own base, where the operation or its path states servers.
    pub(super) base_url: Option<String>,
    pub(super) definition: &'o Value,
    pub(super) path_parameters: Option<&'o Value>,
    /// The path item's summary and description, used where the operation has none.
    pub(super) path_summary: Option<&'o str>,
    pub(super) path_description: Option<&'o str>,
}

/// Why an operation is not a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OperationError {
    #[error("the operation is not an object")]
    NotAnObject,
    #[error("it has more than {MAX_PARAMETERS} parameters")]
    TooManyParameters,
    #[error("parameter {index} has no name or no place")]
    BrokenParameter { index: usize },
    #[error("parameter {name:?} is in {place:?}, which is unknown")]
    UnknownPlace { name: String, place: String },
    #[error("a parameter cannot be read: {0}")]
    Parameter(ReferenceError),
    #[error("the request body cannot be read: {0}")]
    Body(ReferenceError),
    #[error("the request body states no media type")]
    BodyWithoutMediaType,
    #[error("a {method} request cannot carry the body that the operation requires")]
    BodyNotPossible { method: String },
    #[error("the path {path:?} has an unfinished place, or a segment of dots")]
    BrokenPath { path: String },
}

/// The input side of a tool while it is put together.
struct Input<'r> {
    cleaner: Cleaner<'r>,
    keys: ArgumentKeys,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

/// Reads an operation. What was left out or changed is added to `report`.
pub(super) fn read_operation(
    context: &Context<'_, '_>,
    operation: &Operation<'_>,
    report: &mut Vec<ReportEntry>,
) -> Result<Tool, OperationError> {
    if !operation.definition.is_object() {
        return Err(OperationError::NotAnObject);
    }
    let mut notes = Vec::new();
    let (mut parameters, body) = read_input(context, operation, &mut notes)?;
    match_places(operation.path, &mut parameters, &mut notes)?;

    let lookup = |reference: &str| look_up(context.document, reference);
    let mut input = Input {
        cleaner: Cleaner::new(&lookup, Direction::Input, dialect(context.document))
            .sharing(&context.document.definitions),
        keys: ArgumentKeys::default(),
        properties: Map::new(),
        required: Vec::new(),
    };
    parameters.sort_by_key(|parameter| parameter.location);
    let bindings: Vec<ParameterBinding> =
        parameters.into_iter().map(|parameter| add_parameter(&mut input, parameter)).collect();
    let body = body.map(|body| add_body(&mut input, body));

    let mut root = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(input.properties)),
    ]);
    if !input.required.is_empty() {
        root.insert("required".to_owned(), Value::Array(input.required));
    }
    root.insert("additionalProperties".to_owned(), Value::Bool(false));
    let Cleaned { schema: input_schema, shortened: is_shortened, notes: schema_notes, renamed } =
        input.cleaner.finish(Value::Object(root), context.limits.input_schema_bytes);
    notes.extend(schema_notes);
    if is_shortened {
        let limit = context.limits.input_schema_bytes;
        notes.push(format!("the input schema has more than {limit} bytes; nested parts accept any value"));
    }

    let (output_schema, accept) = read_answers(context, operation.definition);
    let hints = hints_of(operation.method);
    let title = title_of(operation);
    let description = description_of(operation);
    let mut binding = HttpBinding {
        method: operation.method.to_owned(),
        base_url: operation.base_url.clone(),
        path_template: operation.path.to_owned(),
        parameters: bindings,
        body,
        renamed: renamed.into_iter().map(|(key, name)| RenamedProperty { key, name }).collect(),
        accept,
        definition_hash: String::new(),
    };
    binding.definition_hash = sha256_hex(
        canonical_json(&json!({
            "title": title,
            "description": description,
            "inputSchema": input_schema,
            "hints": hints,
            "binding": binding,
        }))
        .as_bytes(),
    );
    let key = format!("{} {}", operation.method, operation.path);
    report.extend(notes.into_iter().map(|why| ReportEntry {
        operation: Some(key.clone()),
        action: ReportAction::Changed,
        why,
    }));
    Ok(Tool {
        address: format!("{}.{}", context.source, operation.name),
        source: context.source.to_owned(),
        title,
        description,
        input_schema,
        output_schema,
        hints,
        binding: Binding::Http(binding),
    })
}

pub(super) fn look_up(document: &Document<'_>, reference: &str) -> Result<(String, Rc<Value>), String> {
    let pointer = document.pointer_of(reference).map_err(|error| error.to_string())?;
    match document.at(&pointer) {
        Some(value) => Ok((pointer, value)),
        None => Err(ReferenceError::Missing(reference.to_owned()).to_string()),
    }
}

pub(super) fn dialect(document: &Document<'_>) -> Dialect {
    match document.version {
        Version::V2 | Version::V3_0 => Dialect::OpenApi3_0,
        Version::V3_1 => Dialect::JsonSchema,
    }
}

fn add_parameter(input: &mut Input<'_>, parameter: Parameter) -> ParameterBinding {
    let name = match parameter.location {
        ParameterLocation::Path => read_place(&parameter.name).0,
        ParameterLocation::Query
        | ParameterLocation::QueryString
        | ParameterLocation::Header
        | ParameterLocation::Cookie => &parameter.name,
    };
    let key = input.keys.parameter(name, parameter.location);
    let scoped = input.cleaner.scoped(parameter.schema);
    let mut schema = input.cleaner.clean(&scoped);
    describe(&mut schema, parameter.description.as_deref());
    if parameter.deprecated
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("deprecated".to_owned(), Value::Bool(true));
    }
    input.properties.insert(key.clone(), schema);
    if parameter.required {
        input.required.push(Value::from(key.clone()));
    }
    ParameterBinding {
        key,
        name: parameter.name,
        location: parameter.location,
        style: parameter.style,
        explode: parameter.explode,
        allow_reserved: parameter.allow_reserved,
        required: parameter.required,
        content_type: parameter.content_type,
    }
}

/// The outer description goes before the schema's own: it is about this place, not about the type.
fn describe(schema: &mut Value, description: Option<&str>) {
    if let Some(description) = description.map(str::trim).filter(|text| !text.is_empty())
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("description".to_owned(), Value::from(shortened(description, MAX_DESCRIPTION_CHARS / 2)));
    }
}

fn add_body(input: &mut Input<'_>, body: Body) -> BodyBinding {
    let scoped = input.cleaner.scoped(body.schema.clone());
    let flat = match body.format {
        BodyFormat::Json | BodyFormat::Form | BodyFormat::Multipart => input.cleaner.flattened(&scoped),
        BodyFormat::JsonLines | BodyFormat::Text | BodyFormat::Binary => None,
    };
    let layout = match flat {
        Some(flat) if !flat.open && !flat.properties.is_empty() => {
            let mut properties = Vec::with_capacity(flat.properties.len());
            for (name, property) in &flat.properties {
                let key = input.keys.body(name);
                let (binding, schema) = body_property(input, &body, key.clone(), name, property);
                input.properties.insert(key.clone(), schema);
                if body.required && flat.required.contains(name) {
                    input.required.push(Value::from(key));
                }
                properties.push(binding);
            }
            BodyLayout::Spread { properties }
        }
        other => {
            let key = input.keys.body("body");
            let mut properties = Vec::new();
            let mut files = BTreeMap::new();
            if body.format != BodyFormat::Json {
                for (name, property) in other.iter().flat_map(|flat| &flat.properties) {
                    let (binding, schema) = body_property(input, &body, name.clone(), name, property);
                    if binding.file {
                        files.insert(name.clone(), schema);
                    }
                    properties.push(binding);
                }
            }
            let mut schema = match body.format {
                BodyFormat::Text => json!({ "type": "string" }),
                BodyFormat::Binary => file_schema(),
                BodyFormat::Json | BodyFormat::JsonLines | BodyFormat::Form | BodyFormat::Multipart => {
                    let resolved = input.cleaner.resolved(&scoped);
                    input.cleaner.clean(&resolved)
                }
            };
            if matches!(body.format, BodyFormat::Form | BodyFormat::Multipart)
                && let Some(schema) = schema.as_object_mut()
            {
                schema.entry("type").or_insert_with(|| json!("object"));
                if let Some(known) = schema.get_mut("properties").and_then(Value::as_object_mut) {
                    known.extend(files);
                }
            }
            describe(&mut schema, body.description.as_deref());
            input.properties.insert(key.clone(), schema);
            if body.required {
                input.required.push(Value::from(key.clone()));
            }
            BodyLayout::Whole { key, properties }
        }
    };
    BodyBinding { media_type: body.media_type, format: body.format, required: body.required, layout }
}

/// How one property of a body is written, and what it takes.
fn body_property(
    input: &mut Input<'_>,
    body: &Body,
    key: String,
    name: &str,
    property: &Scoped,
) -> (BodyProperty, Value) {
    let encoding = body.encoding.get(name);
    let stated = |keyword: &str| encoding.and_then(|encoding| encoding.get(keyword));
    let resolved = input.cleaner.resolved(property);
    let items = resolved.schema.get("items").cloned().map(|items| input.cleaner.scoped(items));
    let items = items.map(|items| input.cleaner.resolved(&items));
    let is_multipart = body.format == BodyFormat::Multipart;
    let is_file = is_multipart && is_binary(&resolved.schema);
    let is_file_list = is_multipart && items.as_ref().is_some_and(|items| is_binary(&items.schema));
    let mut schema = if is_file {
        file_schema()
    } else if is_file_list {
        json!({ "type": "array", "items": file_schema() })
    } else {
        input.cleaner.clean(property)
    };
    if is_file || is_file_list {
        describe(&mut schema, resolved.schema.get("description").and_then(Value::as_str));
    }
    // With any of these three the property is written like a query parameter, and its media type does not count
    // (OpenAPI 3.1.1, 4.8.15.1.2). Only forms do that here: in multipart every property is a part.
    let style = stated("style").and_then(Value::as_str).and_then(|style| match style {
        "tabDelimited" => Some(ParameterStyle::TabDelimited),
        style => style_named(style, ParameterLocation::Query),
    });
    let is_styled = ["style", "explode", "allowReserved"].iter().any(|keyword| stated(keyword).is_some());
    let style = if is_styled && !is_multipart { Some(style.unwrap_or(ParameterStyle::Form)) } else { None };
    let explode_by_default = matches!(style, None | Some(ParameterStyle::Form | ParameterStyle::DeepObject));
    let binding = BodyProperty {
        key,
        name: name.to_owned(),
        content_type: stated("contentType")
            .and_then(Value::as_str)
            .and_then(|types| types.split(',').next())
            .map(|first| first.trim().to_owned())
            .filter(|media_type| style.is_none() && !media_type.is_empty() && body.format != BodyFormat::Json),
        explode: stated("explode").and_then(Value::as_bool).unwrap_or(explode_by_default),
        allow_reserved: stated("allowReserved") == Some(&Value::Bool(true)),
        style,
        file: is_file || is_file_list,
    };
    (binding, schema)
}

/// What a file looks like in arguments.
fn file_schema() -> Value {
    json!({
        "type": "object",
        "description": "A file.",
        "properties": {
            "data": { "type": "string", "description": "The contents, in the stated encoding." },
            "encoding": { "type": "string", "enum": ["base64", "utf8"], "default": "base64" },
            "name": { "type": "string", "description": "The file's name." },
            "mimeType": { "type": "string" },
        },
        "required": ["data"],
        "additionalProperties": false,
    })
}

fn hints_of(method: &str) -> ToolHints {
    let read_only = matches!(method, "GET" | "HEAD" | "OPTIONS" | "QUERY");
    ToolHints {
        read_only,
        destructive: matches!(method, "PUT" | "PATCH" | "DELETE"),
        idempotent: read_only || matches!(method, "PUT" | "DELETE"),
    }
}

fn text_of<'v>(definition: &'v Value, keyword: &str) -> Option<&'v str> {
    definition.get(keyword).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

fn title_of(operation: &Operation<'_>) -> String {
    let summary = text_of(operation.definition, "summary").or(operation.path_summary);
    let title = summary.or_else(|| text_of(operation.definition, "operationId"));
    let title = title.map_or_else(|| format!("{} {}", operation.method, operation.path), str::to_owned);
    shortened(&title.split_whitespace().collect::<Vec<_>>().join(" "), 120)
}

fn description_of(operation: &Operation<'_>) -> String {
    let summary = text_of(operation.definition, "summary").or(operation.path_summary);
    let description = text_of(operation.definition, "description").or(operation.path_description);
    let mut text = String::new();
    if operation.definition.get("deprecated") == Some(&Value::Bool(true)) {
        text.push_str("Deprecated. ");
    }
    match (summary, description) {
        (Some(summary), Some(description)) if !description.starts_with(summary.trim_end_matches('.')) => {
            text.push_str(summary);
            text.push_str("\n\n");
            text.push_str(description);
        }
        (_, Some(only)) | (Some(only), None) => text.push_str(only),
        (None, None) => {
            text.push_str(operation.method);
            text.push(' ');
            text.push_str(operation.path);
        }
    }
    shortened(text.trim(), MAX_DESCRIPTION_CHARS)
}
