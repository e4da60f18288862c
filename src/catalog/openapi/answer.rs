//! An HTTP answer read as a tool's outcome.
//!
//! Decides what the payload is: JSON, text, or a file. It never holds an answer against a schema, and never changes a
//! digit or a character of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::document::percent_decoded;
use super::media::{MediaFamily, essence, family_of};
use crate::catalog::tool::{ToolError, ToolOutcome, raw_json};
use crate::json::json_depth_within;

/// How much of an error's body is passed on.
const MAX_DETAILS_BYTES: usize = 8 * 1024;

/// How long a message taken from an error's body can be.
const MAX_MESSAGE_CHARS: usize = 500;

/// How deep JSON may nest before it is passed on as text.
const MAX_DEPTH: usize = 256;

/// An answer as it came, after redirects and content decoding.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer<'a> {
    /// The status.
    pub status: u16,
    /// The headers; names in any case.
    pub headers: &'a [(String, String)],
    /// The whole body.
    pub body: &'a [u8],
}

impl HttpAnswer<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Reads an answer: JSON as JSON, text as text, anything else as a file value; 400 and above is a failure that carries
/// a bounded part of the body. A redirect that nobody followed is a failure too.
#[must_use]
pub fn read_answer(answer: &HttpAnswer<'_>) -> ToolOutcome {
    match answer.status {
        400.. => ToolOutcome::Failure(read_failure(answer)),
        304 | ..300 => ToolOutcome::Success { data: read_payload(answer), status: Some(answer.status) },
        300.. => ToolOutcome::Failure(ToolError {
            status: Some(answer.status),
            retryable: Some(false),
            ..ToolError::new(
                "redirect_refused",
                match answer.header("location") {
                    Some(location) => {
                        format!("the answer is a redirect to {}, which is not followed", cut(location, 200))
                    }
                    None => "the answer is a redirect to nowhere".to_owned(),
                },
            )
        }),
    }
}

fn read_payload(answer: &HttpAnswer<'_>) -> Box<RawValue> {
    if answer.body.is_empty() {
        return raw_json(&Value::Null);
    }
    let content_type = answer.header("content-type").unwrap_or_default();
    let is_untyped = essence(content_type).is_empty();
    match family_of(content_type) {
        MediaFamily::Json | MediaFamily::Any => {
            let text = text_of(answer.body, content_type);
            match text {
                Some(text) => json_of(&text).unwrap_or_else(|| raw_json(&Value::String(text))),
                None => file_of(answer, is_untyped),
            }
        }
        MediaFamily::JsonLines | MediaFamily::Form | MediaFamily::Text => match text_of(answer.body, content_type) {
            Some(text) => raw_json(&Value::String(text)),
            None => file_of(answer, false),
        },
        MediaFamily::Multipart | MediaFamily::Binary => file_of(answer, false),
    }
}

/// The body as JSON text on one line; digits, order and duplicate keys as they came.
fn json_of(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if !json_depth_within(text, MAX_DEPTH) {
        return None;
    }
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    RawValue::from_string(compact(raw.get())).ok()
}

/// JSON text without spaces and line breaks between its tokens: what carries it may be framed in lines.
fn compact(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for character in text.chars() {
        if in_string {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
        } else if matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else if character == '"' {
            in_string = true;
        }
        compact.push(character);
    }
    compact
}

/// The body as text in the stated character set; `None` when it is not text in it.
fn text_of(body: &[u8], content_type: &str) -> Option<String> {
    let charset = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    match charset.as_deref() {
        Some("iso-8859-1" | "latin1" | "us-ascii") => match std::str::from_utf8(body) {
            // Many servers state a default that is not what they send.
            Ok(text) => Some(text.to_owned()),
            Err(_) => Some(body.iter().copied().map(char::from).collect()),
        },
        Some("utf-16" | "utf-16le" | "utf-16be") => utf16(body, charset.as_deref() == Some("utf-16be")),
        _ => std::str::from_utf8(body).ok().map(str::to_owned),
    }
}

fn utf16(body: &[u8], big_endian: bool) -> Option<String> {
    let (body, big_endian) = match body {
        [0xfe, 0xff, rest @ ..] => (rest, true),
        [0xff, 0xfe, rest @ ..] => (rest, false),
        _ => (body, big_endian),
    };
    let (pairs, rest) = body.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let units: Vec<u16> = pairs
        .iter()
        .map(|pair| if big_endian { u16::from_be_bytes(*pair) } else { u16::from_le_bytes(*pair) })
        .collect();
    String::from_utf16(&units).ok()
}

/// The body as a file value, byte for byte.
fn file_of(answer: &HttpAnswer<'_>, is_untyped: bool) -> Box<RawValue> {
    let stated = answer.header("content-type").map(str::trim).filter(|_| !is_untyped);
    let mut file = json!({});
    if let Some(members) = file.as_object_mut() {
        if let Some(name) = answer.header("content-disposition").and_then(file_name) {
            members.insert("name".to_owned(), Value::String(name));
        }
        members.insert("mimeType".to_owned(), Value::from(stated.unwrap_or("application/octet-stream")));
        members.insert("encoding".to_owned(), Value::from("base64"));
        members.insert("data".to_owned(), Value::String(STANDARD.encode(answer.body)));
    }
    raw_json(&file)
}

/// The file name of a `Content-Disposition` (RFC 6266): `filename*` before `filename`, without folders.
fn file_name(disposition: &str) -> Option<String> {
    let mut plain = None;
    let mut extended = None;
    for (name, value) in parameters(disposition) {
        match name.as_str() {
            "filename*" => {
                let mut parts = value.splitn(3, '\'');
                if let (Some(charset), Some(_), Some(encoded)) = (parts.next(), parts.next(), parts.next())
                    && charset.eq_ignore_ascii_case("utf-8")
                {
                    extended = Some(percent_decoded(encoded));
                }
            }
            "filename" => plain = Some(value),
            _ => {}
        }
    }
    let name = extended.or(plain)?;
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    let name: String = name.chars().filter(|character| !character.is_control()).collect();
    Some(name).filter(|name| !name.is_empty() && name != "." && name != "..")
}

/// The parameters of a header value, names in lower case, quotes taken away.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut characters = value.chars().skip_while(|character| *character != ';').skip(1).peekable();
    while characters.peek().is_some() {
        let mut name = String::new();
        while let Some(character) = characters.next_if(|character| *character != '=' && *character != ';') {
            name.push(character);
        }
        let mut text = String::new();
        if characters.next() == Some('=') {
            while characters.next_if(|character| *character == ' ').is_some() {}
            if characters.next_if_eq(&'"').is_some() {
                while let Some(character) = characters.next() {
                    match character {
                        '"' => break,
                        '\\' => text.extend(characters.next()),
                        other => text.push(other),
                    }
                }
                while characters.next_if(|character| *character != ';').is_some() {}
            } else {
                while let Some(character) = characters.next_if(|character| *character != ';') {
                    text.push(character);
                }
                text.truncate(text.trim_end().len());
            }
            characters.next();
        }
        found.push((name.trim().to_ascii_lowercase(), text));
    }
    found
}

fn read_failure(answer: &HttpAnswer<'_>) -> ToolError {
    let payload = read_payload(answer);
    let parsed: Value = serde_json::from_str(payload.get()).unwrap_or_default();
    let stated = stated_message(&parsed).map(|message| cut(message.trim(), MAX_MESSAGE_CHARS));
    let mut message = match stated {
        Some(stated) => format!("HTTP {}: {stated}", answer.status),
        None => format!("HTTP {} {}", answer.status, reason(answer.status)).trim_end().to_owned(),
    };
    if let Some(after) = answer.header("retry-after").filter(|_| matches!(answer.status, 429 | 503)) {
        message = format!("{message} (Retry-After: {})", cut(after, 40));
    }
    let details = if payload.get() == "null" {
        None
    } else if payload.get().len() <= MAX_DETAILS_BYTES {
        Some(payload)
    } else {
        // Half a JSON text is no JSON: as text it still says what went wrong.
        let whole = match &parsed {
            Value::String(text) => text.as_str(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => payload.get(),
        };
        let mut end = MAX_DETAILS_BYTES;
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        let kept = whole.get(..end).unwrap_or(whole);
        Some(raw_json(&Value::String(format!("{kept}… ({} bytes in all)", answer.body.len()))))
    };
    ToolError {
        code: "http_error".to_owned(),
        message,
        status: Some(answer.status),
        details,
        retryable: Some(matches!(answer.status, 408 | 425 | 429 | 500 | 502 | 503 | 504)),
    }
}

/// The sentence in an error body, where common shapes have it.
fn stated_message(body: &Value) -> Option<&str> {
    if let Value::String(text) = body {
        let is_page = text.trim_start().starts_with('<');
        return Some(text.as_str()).filter(|text| !is_page && text.lines().count() <= 3);
    }
    let direct = ["message", "error_description", "detail", "title", "error", "reason", "description", "msg"];
    let found = direct.iter().find_map(|key| body.get(key)?.as_str());
    let nested = || {
        ["error", "errors", "fault"].iter().find_map(|key| {
            let inner = body.get(key)?;
            let inner = inner.get(0).unwrap_or(inner);
            inner.as_str().or_else(|| direct.iter().find_map(|key| inner.get(key)?.as_str()))
        })
    };
    found.or_else(nested).filter(|message| !message.trim().is_empty())
}

fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit).chain(['…']).collect()
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
