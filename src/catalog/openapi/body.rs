//! Bodies written in their declared media type.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::media::{MediaFamily, essence, family_of};
use super::percent::{Reserved, encoded};
use super::request::RequestError;
use super::style::{plain_text, query_pairs};
use crate::catalog::tool::{BodyBinding, BodyFormat, BodyLayout, BodyProperty, FileEncoding, FileValue};
use crate::json::sha256_hex;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// A body and the `Content-Type` that goes with it.
#[derive(Debug)]
pub(super) struct WrittenBody {
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
}

/// The body that the arguments make; `None` when they make none and none is required.
pub(super) fn write_body(binding: &BodyBinding, arguments: &Value) -> Result<Option<WrittenBody>, RequestError> {
    let (key, value, properties) = match &binding.layout {
        BodyLayout::Whole { key, properties } => match arguments.get(key) {
            Some(value) => (key.as_str(), value.clone(), properties),
            None if binding.required => return Err(RequestError::Missing { key: key.clone() }),
            None => return Ok(None),
        },
        BodyLayout::Spread { properties } => {
            let given = properties.iter().filter_map(|property| Some((property, arguments.get(&property.key)?)));
            let members: Map<String, Value> =
                given.map(|(property, value)| (property.name.clone(), value.clone())).collect();
            if members.is_empty() && !binding.required {
                return Ok(None);
            }
            ("body", Value::Object(members), properties)
        }
    };
    let media_type = binding.media_type.clone();
    let written = match binding.format {
        BodyFormat::Json => WrittenBody { media_type, bytes: value.to_string().into_bytes() },
        BodyFormat::JsonLines => WrittenBody { media_type, bytes: json_lines(&value) },
        BodyFormat::Form => WrittenBody { media_type, bytes: form(&value, properties).into_bytes() },
        BodyFormat::Multipart => multipart(&media_type, &value, properties)?,
        BodyFormat::Text => WrittenBody { media_type, bytes: plain_text(&value).into_bytes() },
        BodyFormat::Binary => {
            let file = read_file(key, &value)?;
            let declared = Some(media_type).filter(|media_type| !media_type.contains('*'));
            let media_type = declared.or(file.media_type).unwrap_or_else(|| "application/octet-stream".to_owned());
            WrittenBody { media_type, bytes: file.bytes }
        }
    };
    Ok(Some(written))
}

fn json_lines(value: &Value) -> Vec<u8> {
    match value {
        Value::Array(items) => {
            items.iter().fold(String::new(), |text, item| text + &item.to_string() + "\n").into_bytes()
        }
        Value::String(text) => text.clone().into_bytes(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => format!("{value}\n").into_bytes(),
    }
}

fn property_named<'p>(properties: &'p [BodyProperty], name: &str) -> Option<&'p BodyProperty> {
    properties.iter().find(|property| property.name == name)
}

/// `application/x-www-form-urlencoded`: without a style, objects are written as JSON and items of arrays one by one
/// (`OpenAPI` 3.1.1, 4.8.15.1).
fn form(value: &Value, properties: &[BodyProperty]) -> String {
    let Value::Object(members) = value else {
        return plain_text(value);
    };
    let mut pairs = Vec::new();
    for (name, member) in members {
        let property = property_named(properties, name);
        let reserved = match property {
            Some(property) if property.allow_reserved => Reserved::KeepInForm,
            _ => Reserved::Form,
        };
        let encode = |text: &str| encoded(text, reserved);
        let wire_name = encoded(name, Reserved::Form);
        if let Some(style) = property.and_then(|property| property.style) {
            let explode = property.is_none_or(|property| property.explode);
            pairs.extend(query_pairs(name, member, style, explode, &encode));
            continue;
        }
        let media_type = property.and_then(|property| property.content_type.as_deref());
        let is_json = media_type.is_some_and(|media_type| family_of(media_type) == MediaFamily::Json);
        match member {
            Value::Null => {}
            _ if is_json => pairs.push(format!("{wire_name}={}", encode(&member.to_string()))),
            Value::Array(items) => {
                let items = items.iter().filter(|item| !item.is_null());
                pairs.extend(items.map(|item| format!("{wire_name}={}", encode(&plain_text(item)))));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                pairs.push(format!("{wire_name}={}", encode(&plain_text(member))));
            }
        }
    }
    pairs.join("&")
}

/// One part of a multipart body.
struct Part<'p> {
    name: &'p str,
    file_name: Option<String>,
    media_type: Option<String>,
    bytes: Vec<u8>,
}

fn multipart(media_type: &str, value: &Value, properties: &[BodyProperty]) -> Result<WrittenBody, RequestError> {
    let mut parts = Vec::new();
    for (name, member) in value.as_object().into_iter().flatten() {
        let property = property_named(properties, name);
        let declared = property.and_then(|property| property.content_type.clone()).filter(|text| is_media_type(text));
        let is_file = property.is_some_and(|property| property.file);
        let is_json = declared.as_deref().is_some_and(|declared| family_of(declared) == MediaFamily::Json);
        let values = match member {
            Value::Null => continue,
            Value::Array(items) if !is_json => items.iter().collect(),
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![member],
        };
        for value in values.into_iter().filter(|value| !value.is_null()) {
            if is_file {
                let key = property.map_or(name.as_str(), |property| property.key.as_str());
                let file = read_file(key, value)?;
                let declared = declared.clone().filter(|declared| !declared.contains('*'));
                let media_type = file.media_type.or(declared);
                parts.push(Part {
                    name,
                    file_name: Some(file.name.unwrap_or_else(|| "file".to_owned())),
                    media_type: Some(media_type.unwrap_or_else(|| "application/octet-stream".to_owned())),
                    bytes: file.bytes,
                });
                continue;
            }
            let has_members = matches!(value, Value::Array(_) | Value::Object(_));
            let text = if is_json { value.to_string() } else { plain_text(value) };
            parts.push(Part {
                name,
                file_name: None,
                media_type: declared.clone().or_else(|| has_members.then(|| "application/json".to_owned())),
                bytes: text.into_bytes(),
            });
        }
    }
    // The boundary comes from the contents, so that the same arguments always give the same bytes; and it cannot be
    // in the contents, because they would have to hold their own hash.
    let mut seed = String::new();
    for part in &parts {
        seed.push_str(part.name);
        seed.push_str(&sha256_hex(&part.bytes));
    }
    let boundary = format!("countersign-{}", sha256_hex(seed.as_bytes()).get(..40).unwrap_or_default());
    let mut bytes = Vec::new();
    for part in parts {
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(part.name));
        if let Some(file_name) = &part.file_name {
            head = format!("{head}; filename=\"{}\"", quoted(file_name));
        }
        if let Some(media_type) = &part.media_type {
            head = format!("{head}\r\nContent-Type: {media_type}");
        }
        head.push_str("\r\n\r\n");
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&part.bytes);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(WrittenBody { media_type: format!("{}; boundary={boundary}", essence(media_type)), bytes })
}

/// A name inside quotes (HTML, "Multipart form data"): what would end the quotes or the line is percent-encoded.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// A media type that can stand in a header: `type/subtype` and parameters, one line of ASCII.
fn is_media_type(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+*".contains(&byte))
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// A file value, decoded.
struct File {
    name: Option<String>,
    media_type: Option<String>,
    bytes: Vec<u8>,
}

fn read_file(key: &str, value: &Value) -> Result<File, RequestError> {
    if let Value::String(text) = value {
        return Ok(File { name: None, media_type: None, bytes: text.clone().into_bytes() });
    }
    let text = |keyword: &str| value.get(keyword).and_then(Value::as_str).map(str::to_owned);
    let not_a_file = || RequestError::unwritable(key, "is not a file: it needs `data` and `encoding` (base64 or utf8)");
    let encoding = match text("encoding").as_deref() {
        None | Some("base64") => FileEncoding::Base64,
        Some("utf8") => FileEncoding::Utf8,
        Some(_) => return Err(not_a_file()),
    };
    let file = FileValue {
        name: text("name"),
        mime_type: text("mimeType"),
        encoding,
        data: text("data").ok_or_else(not_a_file)?,
    };
    let bytes = match file.encoding {
        FileEncoding::Utf8 => file.data.into_bytes(),
        FileEncoding::Base64 => {
            let compact: Vec<u8> = file.data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let is_url_safe = compact.iter().any(|byte| matches!(byte, b'-' | b'_'));
            let decoded = if is_url_safe { BASE64_URL.decode(&compact) } else { BASE64.decode(&compact) };
            decoded.map_err(|_| RequestError::unwritable(key, "has `data` that is not base64"))?
        }
    };
    let name = file.name.as_deref().and_then(|name| name.rsplit(['/', '\\']).next()).map(str::to_owned);
    Ok(File {
        name: name.filter(|name| !name.is_empty()),
        media_type: file.mime_type.filter(|media_type| is_media_type(media_type) && !media_type.contains('*')),
        bytes,
    })
}
