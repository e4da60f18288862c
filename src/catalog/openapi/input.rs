//! What an operation takes, as its document describes it: parameters and body.
//!
//! Swagger 2.0 is read into the terms of `OpenAPI` 3 here; nothing further on knows the difference.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::document::Version;
use super::media::{MediaFamily, best_media_type, family_of};
use super::operation::{Context, Operation, OperationError};
use crate::catalog::tool::{BodyFormat, ParameterLocation, ParameterStyle};

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

/// How many parameters an operation can have.
pub(super) const MAX_PARAMETERS: usize = 1_000;

/// A parameter as read: what it is called, where it goes, what it takes.
#[expect(clippy::struct_excessive_bools, reason = "the specification has four independent flags")]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) location: ParameterLocation,
    pub(super) required: bool,
    pub(super) description: Option<String>,
    pub(super) deprecated: bool,
    pub(super) schema: Value,
    pub(super) style: ParameterStyle,
    pub(super) explode: bool,
    pub(super) allow_reserved: bool,
    pub(super) content_type: Option<String>,
}

/// The body as read.
pub(super) struct Body {
    pub(super) media_type: String,
    pub(super) format: BodyFormat,
    pub(super) required: bool,
    pub(super) description: Option<String>,
    pub(super) schema: Value,
    pub(super) encoding: Map<String, Value>,
}

/// All parameters, those of the operation before those of its path, and the body.
pub(super) fn read_input(
    context: &Context<'_, '_>,
    operation: &Operation<'_>,
    notes: &mut Vec<String>,
) -> Result<(Vec<Parameter>, Option<Body>), OperationError> {
    let own = operation.definition.get("parameters");
    let listed = [operation.path_parameters, own].into_iter().flatten().filter_map(Value::as_array).flatten();
    let listed: Vec<&Value> = listed.take(MAX_PARAMETERS + 1).collect();
    if listed.len() > MAX_PARAMETERS {
        return Err(OperationError::TooManyParameters);
    }
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut form: Vec<Rc<Value>> = Vec::new();
    let mut body = None;
    for (index, listed) in listed.into_iter().enumerate() {
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
            // Documents of OpenAPI 3 that were Swagger once have these too.
            "body" => {
                body = Some(swagger_body(context, operation, &parameter));
                continue;
            }
            "formData" => {
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
        body = Some(read_body(context, &stated, notes)?);
    }
    if let Some(stated) = &body
        && matches!(operation.method, "GET" | "HEAD")
    {
        let schema = context.document.resolved(stated.schema.clone()).ok();
        let is_needed = schema.is_none_or(|schema| {
            let names = schema.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
            names || schema.get("properties").is_none()
        });
        // Documents require bodies in which nothing is required.
        if stated.required && is_needed {
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
    let in_header = matches!(location, ParameterLocation::Header | ParameterLocation::Cookie);
    if in_header && !is_token(name) {
        return Some("its name cannot stand in a header");
    }
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
pub(super) fn style_named(name: &str, location: ParameterLocation) -> Option<ParameterStyle> {
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
    let listed = listed.into_iter().flatten().filter_map(Value::as_str);
    listed.filter(|text| is_header_text(text)).map(str::to_owned).collect()
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

fn read_body(context: &Context<'_, '_>, stated: &Value, notes: &mut Vec<String>) -> Result<Body, OperationError> {
    let any_json = Map::from_iter([("application/json".to_owned(), json!({}))]);
    let listed = match stated.get("content").and_then(Value::as_object) {
        Some(listed) if !listed.is_empty() => listed,
        Some(_) | None => {
            notes.push("the request body states no media type; it takes any JSON".to_owned());
            &any_json
        }
    };
    let named = || listed.keys().map(String::as_str).filter(|text| is_header_text(text));
    // A reference since OpenAPI 3.2.
    let media_of = |name: &str| context.document.resolved(listed.get(name)?.clone()).ok();
    // A file is a file only in multipart; where that is offered, it is used.
    let with_files = named().find(|name| {
        family_of(name) == MediaFamily::Multipart && media_of(name).is_some_and(|media| has_files(context, &media))
    });
    let media_type = with_files.or_else(|| best_media_type(named())).ok_or(OperationError::BodyWithoutMediaType)?;
    let media = media_of(media_type);
    let part = |keyword: &str| media.as_ref().and_then(|media| media.get(keyword));
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

/// Whether a property of a media type's schema is a file, or a list of files.
fn has_files(context: &Context<'_, '_>, media: &Value) -> bool {
    let resolved = |schema: &Value| context.document.resolved(schema.clone()).ok();
    let Some(schema) = media.get("schema").and_then(resolved) else { return false };
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().filter_map(|(_, property)| resolved(property)).any(|property| {
        is_binary(&property) || property.get("items").and_then(resolved).is_some_and(|items| is_binary(&items))
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
pub(super) fn is_binary(schema: &Value) -> bool {
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

/// Gives each place of the path its parameter: adds those that no parameter describes, and drops path parameters that have
/// no place.
pub(super) fn match_places(
    path: &str,
    parameters: &mut Vec<Parameter>,
    notes: &mut Vec<String>,
) -> Result<(), OperationError> {
    let has_dots = || path.split(['/', '?', '#']).any(|segment| matches!(segment, "." | ".."));
    let places = places_of(path).filter(|_| !has_dots());
    let places = places.ok_or_else(|| OperationError::BrokenPath { path: path.to_owned() })?;
    for place in &places {
        let (name, takes_segments) = read_place(place);
        let is_path = |known: &&mut Parameter| known.location == ParameterLocation::Path;
        let mut of_path: Vec<&mut Parameter> = parameters.iter_mut().filter(is_path).collect();
        let at = of_path.iter().position(|known| known.name == *place);
        if let Some(known) = at.or_else(|| of_path.iter().position(|known| known.name == name)) {
            if let Some(parameter) = of_path.get_mut(known) {
                (*place).clone_into(&mut parameter.name);
                parameter.allow_reserved |= takes_segments;
            }
            continue;
        }
        notes.push(format!("the path's {name:?} is not described; it takes a string"));
        parameters.push(Parameter {
            name: (*place).to_owned(),
            location: ParameterLocation::Path,
            required: true,
            description: None,
            deprecated: false,
            schema: json!({ "type": "string" }),
            style: ParameterStyle::Simple,
            explode: false,
            allow_reserved: takes_segments,
            content_type: None,
        });
    }
    parameters.retain(|parameter| {
        let kept = parameter.location != ParameterLocation::Path || places.contains(&parameter.name.as_str());
        if !kept {
            notes.push(format!("the parameter {:?} is left out: the path has no place for it", parameter.name));
        }
        kept
    });
    Ok(())
}

/// The name in a place, and whether several segments fit there. Documents have the operators of their frameworks: `{+name}`
/// (RFC 6570, 3.2.3), `{name=projects/*}` (gRPC transcoding), `{proxy+}`, `{*rest}`, `{id:[0-9]+}`.
pub(super) fn read_place(place: &str) -> (&str, bool) {
    let bare = place.trim_start_matches(['+', '*', '#']);
    let (name, has_pattern_of_segments) = match bare.split_once(['=', ':']) {
        Some((name, pattern)) if bare.as_bytes().get(name.len()) == Some(&b'=') => {
            (name, pattern == "**" || pattern.contains('/'))
        }
        Some((name, pattern)) => (name, pattern == "path" || pattern.starts_with(".*") || pattern.starts_with(".+")),
        None => (bare, false),
    };
    let plain = name.trim_end_matches(['+', '*']);
    if plain.is_empty() {
        return (place, false);
    }
    let takes_segments = has_pattern_of_segments || bare.len() < place.len() || plain.len() < name.len();
    (plain, takes_segments)
}

/// The names in `{…}`; `None` when one is empty or does not end.
fn places_of(path: &str) -> Option<Vec<&str>> {
    let mut places = Vec::new();
    let mut rest = path;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').filter(|(name, _)| !name.is_empty() && !name.contains('{'))?;
        places.push(name);
        rest = after;
    }
    Some(places)
}

/// Whether a name can be a header's (RFC 9110, 5.6.2) or a cookie's.
fn is_token(name: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_byte)
}

pub(super) fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}
