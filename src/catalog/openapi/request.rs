//! Checked arguments written as an HTTP request.
//!
//! Decides the bytes: path, query, headers, cookies and body, as the specification says for each style and media type.
//! It adds no credentials and never leaves the base URL's origin.

use serde_json::{Map, Value};
use url::Url;

use super::body::write_body;
use super::percent::{Reserved, encoded, encoded_template};
use super::style::{delimited, joined, named_pairs, plain_text};
use crate::catalog::tool::{HttpBinding, ParameterBinding, ParameterLocation, ParameterStyle, RenamedProperty};

/// A request without credentials; those are added by whoever sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Upper case.
    pub method: String,
    /// Absolute, without fragment.
    pub url: String,
    /// Names in lower case; each name once.
    pub headers: Vec<(String, String)>,
    /// The body's bytes; `None` when there is no body.
    pub body: Option<Vec<u8>>,
}

/// Why arguments could not be written as a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither the tool nor the source has a base URL.
    #[error("the source has no base URL; an administrator must set one")]
    NoBaseUrl,
    /// The base URL, or the URL made from it, cannot be used.
    #[error("{url:?} is not an absolute http or https URL that can be called")]
    BadUrl {
        /// What it is.
        url: String,
    },
    /// An argument that the request needs is missing.
    #[error("the argument {key:?} is required")]
    Missing {
        /// The argument's key.
        key: String,
    },
    /// An argument cannot be written where it belongs.
    #[error("the argument {key:?} {problem}")]
    Unwritable {
        /// The argument's key.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl RequestError {
    pub(super) fn unwritable(key: &str, problem: &'static str) -> Self {
        Self::Unwritable { key: key.to_owned(), problem }
    }
}

/// Writes checked arguments as a request. `base_url` is the source's base, used where the binding has none.
///
/// The result depends on nothing but its inputs, so the same digest gives the same bytes.
pub fn build_request(
    binding: &HttpBinding,
    base_url: Option<&str>,
    arguments: &Value,
) -> Result<HttpRequest, RequestError> {
    let base = base_of(binding.base_url.as_deref().or(base_url).ok_or(RequestError::NoBaseUrl)?)?;
    let arguments = with_wire_names(arguments, &binding.renamed);
    let (path, mut query) = write_path(binding, &arguments)?;
    let mut headers = Vec::new();
    if let Some(accept) = &binding.accept {
        headers.push(("accept".to_owned(), accept.clone()));
    }
    let mut cookies = Vec::new();
    for parameter in &binding.parameters {
        let value = arguments.get(&parameter.key).filter(|value| !value.is_null());
        match parameter.location {
            ParameterLocation::Path => {}
            ParameterLocation::Query => query.extend(value.into_iter().flat_map(|value| write_query(parameter, value))),
            ParameterLocation::QueryString => {
                query.extend(value.into_iter().flat_map(|value| write_query_string(parameter, value)));
            }
            ParameterLocation::Header => {
                if let Some(value) = value {
                    headers.push((parameter.name.to_ascii_lowercase(), write_header(parameter, value)?));
                }
            }
            ParameterLocation::Cookie => {
                if let Some(value) = value {
                    cookies.extend(write_cookies(parameter, value)?);
                }
            }
        }
        if value.is_none() && parameter.required && parameter.location != ParameterLocation::Path {
            return Err(RequestError::Missing { key: parameter.key.clone() });
        }
    }
    if !cookies.is_empty() {
        headers.push(("cookie".to_owned(), cookies.join("; ")));
    }
    let mut body = None;
    if let Some(written) = binding.body.as_ref().map(|body| write_body(body, &arguments)).transpose()?.flatten() {
        headers.push(("content-type".to_owned(), written.media_type));
        body = Some(written.bytes);
    }
    let url = join_url(&base, &path, &query)?;
    Ok(HttpRequest { method: binding.method.clone(), url, headers, body })
}

/// The origin of an absolute http or https URL, such as `https://api.example.com`.
#[must_use]
pub fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.origin().ascii_serialization())
}

fn base_of(base: &str) -> Result<Url, RequestError> {
    let bad = || RequestError::BadUrl { url: base.to_owned() };
    let mut url = Url::parse(base).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err(bad());
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Base and path with exactly one slash between, then the query.
fn join_url(base: &Url, path: &str, query: &[String]) -> Result<String, RequestError> {
    let mut text = base.as_str().trim_end_matches('/').to_owned();
    text.push('/');
    text.push_str(path.trim_start_matches('/'));
    if !query.is_empty() {
        text.push('?');
        text.push_str(&query.join("&"));
    }
    let bad = || RequestError::BadUrl { url: text.clone() };
    let url = Url::parse(&text).map_err(|_| bad())?;
    // Whatever a document or an argument did to the path: the request stays below the base.
    let below = url.path().starts_with(base.path().trim_end_matches('/'));
    if url.origin() != base.origin() || !below {
        return Err(bad());
    }
    Ok(url.into())
}

/// The path with its places filled in, and the query that some documents have in the path.
fn write_path(binding: &HttpBinding, arguments: &Value) -> Result<(String, Vec<String>), RequestError> {
    // A fragment only tells operations of one path apart.
    let template = split_outside(&binding.path_template, '#').next().unwrap_or_default();
    let path = split_outside(template, '?').next().unwrap_or_default();
    let query = template.get(path.len() + 1..).unwrap_or_default();
    let mut written = Vec::new();
    for segment in split_outside(path, '/') {
        let (text, key) = write_segment(segment, binding, arguments)?;
        let is_dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        if text.split('/').any(is_dots) {
            return Err(RequestError::unwritable(&key, "must not make a path segment \".\" or \"..\""));
        }
        written.push(text);
    }
    let mut pairs = Vec::new();
    for pair in split_outside(query, '&').filter(|pair| !pair.is_empty()) {
        pairs.push(write_segment(pair, binding, arguments)?.0);
    }
    Ok((written.join("/"), pairs))
}

/// The parts between separators, where those inside of `{…}` do not count.
fn split_outside(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.split(move |character| {
        match character {
            '{' => is_inside = true,
            '}' => is_inside = false,
            _ => {}
        }
        character == separator && !is_inside
    })
}

/// One segment, and the key of the last argument in it.
fn write_segment(segment: &str, binding: &HttpBinding, arguments: &Value) -> Result<(String, String), RequestError> {
    let mut text = String::new();
    let mut key = String::new();
    let mut rest = segment;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        text.push_str(&encoded_template(before));
        let is_this =
            |parameter: &&ParameterBinding| parameter.location == ParameterLocation::Path && parameter.name == name;
        let parameter =
            binding.parameters.iter().find(is_this).ok_or_else(|| RequestError::Missing { key: name.to_owned() })?;
        key.clone_from(&parameter.key);
        let value = arguments.get(&parameter.key).filter(|value| !value.is_null());
        let value = value.ok_or_else(|| RequestError::Missing { key: key.clone() })?;
        let written = write_path_value(parameter, value);
        if written.is_empty() {
            return Err(RequestError::unwritable(&key, "must not be empty: it is part of the path"));
        }
        text.push_str(&written);
        rest = after;
    }
    text.push_str(&encoded_template(rest));
    Ok((text, key))
}

fn write_path_value(parameter: &ParameterBinding, value: &Value) -> String {
    let reserved = reserved_of(parameter, Reserved::KeepInPath);
    let encode = |text: &str| encoded(text, reserved);
    if parameter.content_type.is_some() {
        return encode(&content_text(parameter, value));
    }
    let name = encode(&parameter.name);
    match (parameter.style, value) {
        (ParameterStyle::Label, Value::Array(_) | Value::Object(_)) => {
            let separator = if parameter.explode { "." } else { "," };
            format!(".{}", joined(value, parameter.explode, separator, &encode))
        }
        (ParameterStyle::Label, _) => format!(".{}", encode(&plain_text(value))),
        (ParameterStyle::Matrix, Value::Array(_) | Value::Object(_)) if parameter.explode => {
            let pairs = named_pairs(&parameter.name, value, &encode);
            if pairs.is_empty() { String::new() } else { format!(";{}", pairs.join(";")) }
        }
        (ParameterStyle::Matrix, Value::Array(_) | Value::Object(_)) => {
            format!(";{name}={}", joined(value, false, ",", &encode))
        }
        (ParameterStyle::Matrix, _) => match encode(&plain_text(value)) {
            text if text.is_empty() => format!(";{name}"),
            text => format!(";{name}={text}"),
        },
        (ParameterStyle::SpaceDelimited | ParameterStyle::PipeDelimited | ParameterStyle::TabDelimited, _) => {
            delimited(value, parameter.style, &encode, true)
        }
        (ParameterStyle::Simple | ParameterStyle::Form | ParameterStyle::DeepObject | ParameterStyle::Cookie, _) => {
            joined(value, parameter.explode, ",", &encode)
        }
    }
}

fn write_query(parameter: &ParameterBinding, value: &Value) -> Vec<String> {
    let reserved = reserved_of(parameter, Reserved::KeepInQuery);
    if parameter.content_type.is_some() {
        let text = content_text(parameter, value);
        return vec![format!("{}={}", encoded(&parameter.name, Reserved::Encode), encoded(&text, reserved))];
    }
    let encode = |text: &str| encoded(text, reserved);
    super::style::query_pairs(&parameter.name, value, parameter.style, parameter.explode, &encode)
}

/// The whole query from one argument (`OpenAPI` 3.2).
fn write_query_string(parameter: &ParameterBinding, value: &Value) -> Vec<String> {
    let encode = |text: &str| encoded(text, Reserved::Encode);
    let is_form = parameter.content_type.as_deref().is_none_or(|media_type| media_type.contains("form-urlencoded"));
    match value {
        Value::Object(_) if is_form => named_pairs("", value, &encode),
        Value::String(text) if is_form => vec![encoded_template(&text.replace('#', "%23"))],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            vec![encode(&content_text(parameter, value))]
        }
    }
}

fn write_header(parameter: &ParameterBinding, value: &Value) -> Result<String, RequestError> {
    let text = if parameter.content_type.is_some() {
        content_text(parameter, value)
    } else {
        // Header values are not percent-encoded.
        match parameter.style {
            ParameterStyle::SpaceDelimited | ParameterStyle::PipeDelimited | ParameterStyle::TabDelimited => {
                delimited(value, parameter.style, &str::to_owned, false)
            }
            ParameterStyle::Simple
            | ParameterStyle::Label
            | ParameterStyle::Matrix
            | ParameterStyle::Form
            | ParameterStyle::DeepObject
            | ParameterStyle::Cookie => joined(value, parameter.explode, ",", &str::to_owned),
        }
    };
    // A line break would start a header of the caller's own; beyond ASCII, receivers disagree on the meaning.
    if text.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte)) {
        Ok(text)
    } else {
        Err(RequestError::unwritable(&parameter.key, "must be one line of ASCII text: it is sent as a header"))
    }
}

fn write_cookies(parameter: &ParameterBinding, value: &Value) -> Result<Vec<String>, RequestError> {
    let is_raw = parameter.style == ParameterStyle::Cookie || parameter.allow_reserved;
    let encode = |text: &str| if is_raw { text.to_owned() } else { encoded(text, Reserved::Encode) };
    let cookies = if parameter.content_type.is_some() {
        vec![format!("{}={}", parameter.name, encode(&content_text(parameter, value)))]
    } else {
        super::style::query_pairs(&parameter.name, value, ParameterStyle::Form, parameter.explode, &encode)
    };
    let is_cookie = |text: &String| text.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b';');
    if cookies.iter().all(is_cookie) {
        Ok(cookies)
    } else {
        Err(RequestError::unwritable(&parameter.key, "has characters that a cookie cannot have"))
    }
}

/// The text of a parameter that is described by a media type.
fn content_text(parameter: &ParameterBinding, value: &Value) -> String {
    use super::media::{MediaFamily, family_of};

    match parameter.content_type.as_deref().map(family_of) {
        Some(MediaFamily::Text | MediaFamily::Binary) => plain_text(value),
        _ => value.to_string(),
    }
}

fn reserved_of(parameter: &ParameterBinding, kept: Reserved) -> Reserved {
    if parameter.allow_reserved { kept } else { Reserved::Encode }
}

/// The arguments with nested properties under their names on the wire.
fn with_wire_names(arguments: &Value, renamed: &[RenamedProperty]) -> Value {
    let mut arguments = arguments.clone();
    if !renamed.is_empty() {
        arguments.as_object_mut().into_iter().flatten().for_each(|(_, value)| rename_within(value, renamed));
    }
    arguments
}

pub(crate) fn rename_within(value: &mut Value, renamed: &[RenamedProperty]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_within(item, renamed)),
        Value::Object(members) => {
            let old = std::mem::replace(members, Map::new());
            for (key, mut member) in old {
                rename_within(&mut member, renamed);
                let name = renamed.iter().find(|property| property.key == key).map(|property| property.name.clone());
                members.insert(name.unwrap_or(key), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
