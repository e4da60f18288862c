//! One operation read as a tool.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::document::{Document, ReferenceError, Version};
use super::media::{MediaFamily, best_media_type, family_of};
use super::naming::ArgumentKeys;
use super::{ImportLimits, ReportAction, ReportEntry};
use crate::catalog::canonical::{canonical_json, sha256_hex};
use crate::catalog::schema::clean::{Cleaned, Cleaner, Dialect, Direction, Scoped, shortened};
use crate::catalog::tool::{
    Binding, BodyBinding, BodyFormat, BodyLayout, BodyProperty, HttpBinding, MAX_DESCRIPTION_CHARS, ParameterBinding,
    ParameterLocation, ParameterStyle, RenamedProperty, Tool, ToolHints,
};

/// Headers that a caller never sets: the specification says to ignore the first three (`OpenAPI` 3.1.1, 4.8.12.2.1),
/// the others belong to the connection or to the gateway.
const RESERVED_HEADERS: [&str; 18] = [
    "accept",
    "authorization",
    "content-type",
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

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

/// A parameter as read: what it is called, where it goes, what it takes.
#[expect(clippy::struct_excessive_bools, reason = "the specification has four independent flags")]
struct Parameter {
    name: String,
    location: ParameterLocation,
    required: bool,
    description: Option<String>,
    deprecated: bool,
    schema: Value,
    style: ParameterStyle,
    explode: bool,
    allow_reserved: bool,
    content_type: Option<String>,
}

/// The body as read.
struct Body {
    media_type: String,
    format: BodyFormat,
    required: bool,
    description: Option<String>,
    schema: Value,
    encoding: Map<String, Value>,
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
    add_undeclared_places(operation.path, &mut parameters, &mut notes)?;

    let lookup = |reference: &str| look_up(context.document, reference);
    let mut input = Input {
        cleaner: Cleaner::new(&lookup, Direction::Input, dialect(context.document)),
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

fn look_up(document: &Document<'_>, reference: &str) -> Result<(String, Rc<Value>), String> {
    let pointer = document.pointer_of(reference).map_err(|error| error.to_string())?;
    match document.at(&pointer) {
        Some(value) => Ok((pointer, value)),
        None => Err(ReferenceError::Missing(reference.to_owned()).to_string()),
    }
}

fn dialect(document: &Document<'_>) -> Dialect {
    match document.version {
        Version::V2 | Version::V3_0 => Dialect::OpenApi3_0,
        Version::V3_1 => Dialect::JsonSchema,
    }
}

/// All parameters, those of the operation before those of its path, and the body.
fn read_input(
    context: &Context<'_, '_>,
    operation: &Operation<'_>,
    notes: &mut Vec<String>,
) -> Result<(Vec<Parameter>, Option<Body>), OperationError> {
    let own = operation.definition.get("parameters");
    let listed = [operation.path_parameters, own].into_iter().flatten().filter_map(Value::as_array).flatten();
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut form: Vec<Rc<Value>> = Vec::new();
    let mut body = None;
    for (index, listed) in listed.enumerate() {
        let parameter = context.document.resolved(listed.clone()).map_err(OperationError::Parameter)?;
        let text = |keyword: &str| parameter.get(keyword).and_then(Value::as_str);
        let (Some(name), Some(place)) = (text("name"), text("in")) else {
            return Err(OperationError::BrokenParameter { index });
        };
        let location = match place {
            "path" => ParameterLocation::Path,
            "query" => ParameterLocation::Query,
            "querystring" => ParameterLocation::QueryString,
            "header" => ParameterLocation::Header,
            "cookie" => ParameterLocation::Cookie,
            "body" if context.document.version == Version::V2 => {
                body = Some(swagger_body(context, operation, &parameter));
                continue;
            }
            "formData" if context.document.version == Version::V2 => {
                form.retain(|known| known.get("name") != parameter.get("name"));
                form.push(parameter);
                continue;
            }
            _ => return Err(OperationError::UnknownPlace { name: name.to_owned(), place: place.to_owned() }),
        };
        if let Some(why) = refused_parameter(context, name, location) {
            if !matches!(name.to_ascii_lowercase().as_str(), "accept" | "content-type") {
                notes.push(format!("the parameter {name:?} is left out: {why}"));
            }
            continue;
        }
        let read = read_parameter(context, &parameter, name, location);
        let same = |known: &Parameter| {
            known.location == location
                && (known.name == name
                    || location == ParameterLocation::Header && known.name.eq_ignore_ascii_case(name))
        };
        match parameters.iter_mut().find(|known| same(known)) {
            Some(known) => *known = read,
            None => parameters.push(read),
        }
    }
    if !form.is_empty() {
        body = Some(swagger_form(context, operation, &form));
    }
    if context.document.version != Version::V2
        && let Some(stated) = operation.definition.get("requestBody")
    {
        let stated = context.document.resolved(stated.clone()).map_err(OperationError::Body)?;
        body = Some(read_body(&stated)?);
    }
    if let Some(stated) = &body
        && matches!(operation.method, "GET" | "HEAD")
    {
        if stated.required {
            return Err(OperationError::BodyNotPossible { method: operation.method.to_owned() });
        }
        notes.push(format!("the body is left out: a {} request cannot carry one", operation.method));
        body = None;
    }
    Ok((parameters, body))
}

/// Why a parameter is never the caller's to set.
fn refused_parameter(context: &Context<'_, '_>, name: &str, location: ParameterLocation) -> Option<&'static str> {
    let wire_name = match location {
        ParameterLocation::Header => name.to_ascii_lowercase(),
        ParameterLocation::Path
        | ParameterLocation::Query
        | ParameterLocation::QueryString
        | ParameterLocation::Cookie => name.to_owned(),
    };
    if location == ParameterLocation::Header && RESERVED_HEADERS.contains(&wire_name.as_str()) {
        return Some("the gateway sets this header");
    }
    context.credentials.contains(&(location, wire_name)).then_some("it carries credentials, which the gateway adds")
}

fn read_parameter(context: &Context<'_, '_>, parameter: &Value, name: &str, location: ParameterLocation) -> Parameter {
    let flag = |keyword: &str| parameter.get(keyword) == Some(&Value::Bool(true));
    let described = parameter.get("content").and_then(Value::as_object).and_then(|media| media.iter().next());
    let is_swagger = context.document.version == Version::V2;
    let stated_style = parameter.get("style").and_then(Value::as_str);
    let (style, explode) = if is_swagger {
        swagger_style(parameter.get("collectionFormat").and_then(Value::as_str), location)
    } else {
        let style = stated_style.and_then(|style| style_named(style, location)).unwrap_or(default_style(location));
        let by_default = matches!(style, ParameterStyle::Form | ParameterStyle::Cookie | ParameterStyle::DeepObject);
        (style, parameter.get("explode").and_then(Value::as_bool).unwrap_or(by_default))
    };
    let schema = if is_swagger {
        swagger_schema(parameter)
    } else {
        let of_content = || described.and_then(|(_, media)| media.get("schema"));
        parameter.get("schema").or_else(of_content).cloned().unwrap_or_else(|| json!({}))
    };
    Parameter {
        name: name.to_owned(),
        location,
        required: flag("required") || location == ParameterLocation::Path,
        description: parameter.get("description").and_then(Value::as_str).map(str::to_owned),
        deprecated: flag("deprecated"),
        schema,
        style,
        explode,
        allow_reserved: flag("allowReserved"),
        content_type: described.filter(|_| parameter.get("schema").is_none()).map(|(media_type, _)| media_type.clone()),
    }
}

fn default_style(location: ParameterLocation) -> ParameterStyle {
    match location {
        ParameterLocation::Path | ParameterLocation::Header => ParameterStyle::Simple,
        ParameterLocation::Query | ParameterLocation::QueryString | ParameterLocation::Cookie => ParameterStyle::Form,
    }
}

/// The style, where the place knows it; else the place's default is used.
fn style_named(name: &str, location: ParameterLocation) -> Option<ParameterStyle> {
    Some(match (name, location) {
        ("matrix", ParameterLocation::Path) => ParameterStyle::Matrix,
        ("label", ParameterLocation::Path) => ParameterStyle::Label,
        ("simple", ParameterLocation::Path | ParameterLocation::Header) => ParameterStyle::Simple,
        ("form", ParameterLocation::Query | ParameterLocation::Cookie) => ParameterStyle::Form,
        ("spaceDelimited", ParameterLocation::Query) => ParameterStyle::SpaceDelimited,
        ("pipeDelimited", ParameterLocation::Query) => ParameterStyle::PipeDelimited,
        ("deepObject", ParameterLocation::Query) => ParameterStyle::DeepObject,
        ("cookie", ParameterLocation::Cookie) => ParameterStyle::Cookie,
        _ => return None,
    })
}

/// `collectionFormat` (Swagger 2.0) in terms of styles; the default is `csv`.
fn swagger_style(format: Option<&str>, location: ParameterLocation) -> (ParameterStyle, bool) {
    match (format, location) {
        (Some("multi"), ParameterLocation::Query) => (ParameterStyle::Form, true),
        (Some("ssv"), _) => (ParameterStyle::SpaceDelimited, false),
        (Some("tsv"), _) => (ParameterStyle::TabDelimited, false),
        (Some("pipes"), _) => (ParameterStyle::PipeDelimited, false),
        _ => (default_style(location), false),
    }
}

/// The keywords of a Swagger 2.0 parameter that are about its value.
fn swagger_schema(parameter: &Value) -> Value {
    if let Some(schema) = parameter.get("schema") {
        return schema.clone();
    }
    let mut schema = parameter.as_object().cloned().unwrap_or_default();
    for keyword in ["name", "in", "description", "required", "collectionFormat", "allowEmptyValue", "deprecated"] {
        schema.remove(keyword);
    }
    Value::Object(schema)
}

/// The media types that a Swagger 2.0 operation consumes.
fn swagger_consumes(context: &Context<'_, '_>, operation: &Operation<'_>) -> Vec<String> {
    let own = operation.definition.get("consumes").cloned();
    let listed = own.filter(Value::is_array).or_else(|| context.document.get("consumes"));
    let listed = listed.as_ref().and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn swagger_body(context: &Context<'_, '_>, operation: &Operation<'_>, parameter: &Value) -> Body {
    let consumes = swagger_consumes(context, operation);
    let schema = parameter.get("schema").cloned().unwrap_or_else(|| json!({}));
    // A `body` parameter is never a form, whatever the document consumes elsewhere.
    let candidates = consumes
        .iter()
        .map(String::as_str)
        .filter(|media_type| !matches!(family_of(media_type), MediaFamily::Form | MediaFamily::Multipart));
    let media_type = best_media_type(candidates).unwrap_or("application/json").to_owned();
    let format = body_format(&media_type, &schema);
    Body {
        media_type: sendable(&media_type, format),
        format,
        required: parameter.get("required") == Some(&Value::Bool(true)),
        description: parameter.get("description").and_then(Value::as_str).map(str::to_owned),
        schema,
        encoding: Map::new(),
    }
}

fn swagger_form(context: &Context<'_, '_>, operation: &Operation<'_>, fields: &[Rc<Value>]) -> Body {
    let consumes = swagger_consumes(context, operation);
    let has_file = fields.iter().any(|field| field.get("type").and_then(Value::as_str) == Some("file"));
    let is_multipart = has_file
        || consumes.iter().find_map(|media_type| match family_of(media_type) {
            MediaFamily::Multipart => Some(true),
            MediaFamily::Form => Some(false),
            MediaFamily::Json | MediaFamily::JsonLines | MediaFamily::Text | MediaFamily::Any | MediaFamily::Binary => {
                None
            }
        }) == Some(true);
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut encoding = Map::new();
    for field in fields {
        let Some(name) = field.get("name").and_then(Value::as_str) else { continue };
        let mut schema = swagger_schema(field);
        if let (Some(schema), Some(description)) = (schema.as_object_mut(), field.get("description")) {
            schema.insert("description".to_owned(), description.clone());
        }
        if field.get("type").and_then(Value::as_str) == Some("array") {
            let format = field.get("collectionFormat").and_then(Value::as_str);
            let (style, explode) = swagger_style(format, ParameterLocation::Query);
            encoding.insert(name.to_owned(), json!({ "style": style, "explode": explode }));
        }
        if field.get("required") == Some(&Value::Bool(true)) {
            required.push(Value::from(name));
        }
        properties.insert(name.to_owned(), schema);
    }
    let (media_type, format) = if is_multipart {
        ("multipart/form-data", BodyFormat::Multipart)
    } else {
        ("application/x-www-form-urlencoded", BodyFormat::Form)
    };
    Body {
        media_type: media_type.to_owned(),
        format,
        required: !required.is_empty(),
        description: None,
        schema: json!({ "type": "object", "properties": properties, "required": required }),
        encoding,
    }
}

fn read_body(stated: &Value) -> Result<Body, OperationError> {
    let content = stated.get("content").and_then(Value::as_object).filter(|content| !content.is_empty());
    let content = content.ok_or(OperationError::BodyWithoutMediaType)?;
    let media_type = best_media_type(content.keys().map(String::as_str)).ok_or(OperationError::BodyWithoutMediaType)?;
    let media = content.get(media_type);
    let part = |keyword: &str| media.and_then(|media| media.get(keyword));
    let schema = part("schema").cloned().unwrap_or_else(|| json!({}));
    let format = body_format(media_type, &schema);
    let schema = match (format, part("itemSchema")) {
        (BodyFormat::JsonLines, Some(item)) => json!({ "type": "array", "items": item }),
        _ => schema,
    };
    Ok(Body {
        media_type: sendable(media_type, format),
        format,
        required: stated.get("required") == Some(&Value::Bool(true)),
        description: stated.get("description").and_then(Value::as_str).map(str::to_owned),
        schema,
        encoding: part("encoding").and_then(Value::as_object).cloned().unwrap_or_default(),
    })
}

fn body_format(media_type: &str, schema: &Value) -> BodyFormat {
    match family_of(media_type) {
        MediaFamily::Json => BodyFormat::Json,
        MediaFamily::JsonLines => BodyFormat::JsonLines,
        MediaFamily::Form => BodyFormat::Form,
        MediaFamily::Multipart => BodyFormat::Multipart,
        MediaFamily::Text => BodyFormat::Text,
        MediaFamily::Any if !is_binary(schema) => BodyFormat::Json,
        MediaFamily::Any | MediaFamily::Binary => BodyFormat::Binary,
    }
}

/// The media type that is sent for a declared one: a range such as `*/*` cannot be sent.
fn sendable(media_type: &str, format: BodyFormat) -> String {
    match format {
        BodyFormat::Json if media_type.contains('*') => "application/json".to_owned(),
        BodyFormat::Text if media_type.contains('*') => "text/plain".to_owned(),
        BodyFormat::Json
        | BodyFormat::JsonLines
        | BodyFormat::Form
        | BodyFormat::Multipart
        | BodyFormat::Text
        | BodyFormat::Binary => media_type.to_owned(),
    }
}

/// Whether a schema says "the bytes of a file".
fn is_binary(schema: &Value) -> bool {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    let may_be_string = schema.get("type").is_none_or(|types| {
        types == "string" || types.as_array().is_some_and(|types| types.iter().any(|name| name == "string"))
    });
    text("type") == Some("file")
        || may_be_string && text("format") == Some("binary")
        || may_be_string
            && text("contentEncoding").is_none()
            && text("contentMediaType").is_some_and(|media_type| family_of(media_type) == MediaFamily::Binary)
}

/// Adds the places of the path that no parameter describes, and drops path parameters that have no place.
fn add_undeclared_places(
    path: &str,
    parameters: &mut Vec<Parameter>,
    notes: &mut Vec<String>,
) -> Result<(), OperationError> {
    let has_dots = || path.split(['/', '?', '#']).any(|segment| matches!(segment, "." | ".."));
    let places = places_of(path).filter(|_| !has_dots());
    let places = places.ok_or_else(|| OperationError::BrokenPath { path: path.to_owned() })?;
    parameters.retain(|parameter| {
        let kept = parameter.location != ParameterLocation::Path || places.contains(&parameter.name.as_str());
        if !kept {
            notes.push(format!("the parameter {:?} is left out: the path has no place for it", parameter.name));
        }
        kept
    });
    for place in places {
        let is_declared = |known: &Parameter| known.location == ParameterLocation::Path && known.name == place;
        if !parameters.iter().any(is_declared) {
            notes.push(format!("the path's {place:?} is not described; it takes a string"));
            parameters.push(Parameter {
                name: place.to_owned(),
                location: ParameterLocation::Path,
                required: true,
                description: None,
                deprecated: false,
                schema: json!({ "type": "string" }),
                style: ParameterStyle::Simple,
                explode: false,
                allow_reserved: false,
                content_type: None,
            });
        }
    }
    Ok(())
}

/// The names in `{…}`; `None` when one is empty or does not end.
pub(super) fn places_of(path: &str) -> Option<Vec<&str>> {
    let mut places = Vec::new();
    let mut rest = path;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').filter(|(name, _)| !name.is_empty() && !name.contains('{'))?;
        places.push(name);
        rest = after;
    }
    Some(places)
}

fn add_parameter(input: &mut Input<'_>, parameter: Parameter) -> ParameterBinding {
    let key = input.keys.parameter(&parameter.name, parameter.location);
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

/// The schema of a successful answer, and the `Accept` header.
fn read_answers(context: &Context<'_, '_>, definition: &Value) -> (Option<Value>, Option<String>) {
    let answers = definition.get("responses").and_then(Value::as_object);
    let Some(answers) = answers else { return (None, None) };
    let mut statuses: Vec<&String> =
        answers.keys().filter(|status| status.starts_with('2') || *status == "default").collect();
    statuses.sort_by_key(|status| (*status == "default", status.to_ascii_uppercase()));
    let mut accepted: Vec<String> = Vec::new();
    let mut schema = None;
    for status in statuses {
        let Some(answer) = answers.get(status).and_then(|answer| context.document.resolved(answer.clone()).ok()) else {
            continue;
        };
        // An answer without a success of its own may be an error.
        if status == "default" && !accepted.is_empty() {
            continue;
        }
        let media_types: Vec<(String, Option<Value>)> = if context.document.version == Version::V2 {
            let own = definition.get("produces").cloned().filter(Value::is_array);
            let produces = own.or_else(|| context.document.get("produces"));
            let listed = produces.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let listed: Vec<&str> = listed.collect();
            let listed = if listed.is_empty() { vec!["application/json"] } else { listed };
            listed.into_iter().map(|media_type| (media_type.to_owned(), answer.get("schema").cloned())).collect()
        } else {
            let stated = answer.get("content").and_then(Value::as_object);
            stated
                .into_iter()
                .flatten()
                .map(|(media_type, media)| (media_type.clone(), media.get("schema").cloned()))
                .collect()
        };
        let Some(best) = best_media_type(media_types.iter().map(|(media_type, _)| media_type.as_str())) else {
            continue;
        };
        if schema.is_none() {
            let of_best = media_types.iter().find(|(media_type, _)| media_type == best);
            schema = of_best.and_then(|(media_type, schema)| Some((media_type.clone(), schema.clone()?)));
        }
        for media_type in [best].into_iter().chain(media_types.iter().map(|(media_type, _)| media_type.as_str())) {
            if is_header_text(media_type) && !accepted.iter().any(|known| known == media_type) {
                accepted.push(media_type.to_owned());
            }
        }
    }
    (schema.and_then(|(media_type, schema)| output_schema(context, &media_type, schema)), accept_header(&accepted))
}

fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// The preferred media type, then the others: JSON is what a program can use best.
fn accept_header(accepted: &[String]) -> Option<String> {
    match accepted {
        [] => None,
        [only] => Some(only.clone()),
        [first, others @ ..] => {
            let others = others.iter().take(5).map(|media_type| format!(", {media_type};q=0.5"));
            Some(others.fold(first.clone(), |header, other| header + &other))
        }
    }
}

fn output_schema(context: &Context<'_, '_>, media_type: &str, schema: Value) -> Option<Value> {
    match family_of(media_type) {
        MediaFamily::Json | MediaFamily::Any => {
            let lookup = |reference: &str| look_up(context.document, reference);
            let mut cleaner = Cleaner::new(&lookup, Direction::Output, dialect(context.document));
            let scoped = cleaner.scoped(schema);
            let resolved = cleaner.resolved(&scoped);
            let root = cleaner.clean(&resolved);
            let finished = cleaner.finish(root, context.limits.output_schema_bytes);
            Some(finished.schema).filter(|schema| schema.as_object().is_some_and(|schema| !schema.is_empty()))
        }
        MediaFamily::Text | MediaFamily::Form | MediaFamily::JsonLines => Some(json!({ "type": "string" })),
        MediaFamily::Binary | MediaFamily::Multipart => Some(json!({
            "type": "object",
            "description": "A file.",
            "properties": {
                "name": { "type": "string" },
                "mimeType": { "type": "string" },
                "encoding": { "type": "string", "const": "base64" },
                "data": { "type": "string", "contentEncoding": "base64" },
            },
            "required": ["mimeType", "encoding", "data"],
        })),
    }
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
