//! What a program emits for the user, as MCP content blocks. The value is the program's: nothing of it is believed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::protocol::text::{bounded, shortened};

/// Characters of an emitted text in one block.
const TEXT_LIMIT: usize = 30_000;
/// Characters of a file's name and of a link.
const NAME_LIMIT: usize = 2_000;
/// Blocks of one program.
const BLOCKS_LIMIT: usize = 100;
/// Characters of an emitted value in structured content.
const VALUE_LIMIT: usize = 4_000;

/// The content blocks of what was emitted, and what structured content says of it.
#[must_use]
pub fn emitted_content(emitted: &[String]) -> (Vec<Value>, Vec<Value>) {
    if emitted.is_empty() {
        return Default::default();
    }
    let read = |text: &String| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    emitted.iter().take(BLOCKS_LIMIT).map(read).enumerate().map(|(index, value)| content_block(&value, index)).unzip()
}

#[inline(never)]
fn content_block(value: &Value, index: usize) -> (Value, Value) {
    let (mut block, summary) = match value {
        Value::Object(object) => {
            if let Some(parts) = file_block(object, index).or_else(|| link_block(object)) {
                parts
            } else {
                text_block(value)
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => text_block(value),
    };
    if let Value::Object(block) = &mut block {
        block.insert("annotations".to_owned(), json!({ "audience": ["user"] }));
    }
    (block, summary)
}

fn text_block(value: &Value) -> (Value, Value) {
    let text = match value.as_str().or_else(|| typed_text(value)) {
        Some(text) => text.to_owned(),
        None => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    let short = value.to_string();
    let summary = if short.len() <= VALUE_LIMIT { value.clone() } else { Value::String(shortened(&text, VALUE_LIMIT)) };
    (json!({ "type": "text", "text": shortened(&text, TEXT_LIMIT) }), summary)
}

/// `{type: "text", text}`, the block of MCP itself.
fn typed_text(value: &Value) -> Option<&str> {
    value.get("text").and_then(Value::as_str).filter(|_| value.get("type").and_then(Value::as_str) == Some("text"))
}

/// A file, `{name?, mimeType, encoding: "base64", data}`, or MCP's own `{type: "image" | "audio", mimeType, data}`.
fn file_block(object: &Map<String, Value>, index: usize) -> Option<(Value, Value)> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let (mime, data) = (text("mimeType").filter(|mime| is_mime_type(mime))?, text("data")?);
    let is_file = text("encoding") == Some("base64") || matches!(text("type"), Some("image" | "audio"));
    let bytes = STANDARD.decode(data).ok().filter(|_| is_file)?;
    let name = text("name").map(|name| bounded(name, NAME_LIMIT));
    let block = match mime.split('/').next() {
        Some("image") => json!({ "type": "image", "data": data, "mimeType": mime }),
        Some("audio") => json!({ "type": "audio", "data": data, "mimeType": mime }),
        _ => {
            let path = name.as_deref().unwrap_or("file");
            let path: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
            let resource = json!({ "uri": format!("emitted:///{index}/{path}"), "mimeType": mime, "blob": data });
            json!({ "type": "resource", "resource": resource })
        }
    };
    Some((block, json!({ "name": name, "mimeType": mime, "bytes": bytes.len() })))
}

/// `{type: "resource_link", uri, name?, …}`, or `{uri, name?, mimeType?}`.
fn link_block(object: &Map<String, Value>) -> Option<(Value, Value)> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let uri = text("uri").filter(|uri| uri.len() <= NAME_LIMIT && url::Url::parse(uri).is_ok())?;
    if !matches!(text("type"), None | Some("resource_link")) {
        return None;
    }
    let mut link = Map::new();
    link.insert("type".to_owned(), json!("resource_link"));
    link.insert("uri".to_owned(), json!(uri));
    link.insert("name".to_owned(), json!(bounded(text("name").unwrap_or(uri), NAME_LIMIT)));
    for key in ["title", "description", "mimeType"] {
        if let Some(value) = text(key) {
            link.insert(key.to_owned(), json!(bounded(value, NAME_LIMIT)));
        }
    }
    let mut summary = link.clone();
    summary.remove("type");
    Some((Value::Object(link), Value::Object(summary)))
}

fn is_mime_type(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    text.len() <= 200
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && essence.trim_end().split_once('/').is_some_and(|(kind, subtype)| part(kind) && part(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(value: &Value) -> Value {
        emitted_content(&[value.to_string()]).0.remove(0)
    }

    #[test]
    fn blocks_follow_the_mime_type() {
        for (value, kind) in [
            (json!("text"), "text"),
            (json!({ "a": 1 }), "text"),
            (json!({ "type": "text", "text": "x" }), "text"),
            (json!({ "mimeType": "image/png", "encoding": "base64", "data": "AAAA" }), "image"),
            (json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }), "image"),
            (json!({ "mimeType": "audio/wav", "encoding": "base64", "data": "AAAA" }), "audio"),
            (json!({ "name": "a b.csv", "mimeType": "text/csv", "encoding": "base64", "data": "YQ==" }), "resource"),
            (json!({ "type": "resource_link", "uri": "https://x.example/a", "name": "a" }), "resource_link"),
            (json!({ "uri": "https://x.example/a" }), "resource_link"),
            // What only looks like one stays readable.
            (json!({ "mimeType": "image/png", "encoding": "base64", "data": "%%%" }), "text"),
            (json!({ "mimeType": "image", "encoding": "base64", "data": "AAAA" }), "text"),
            (json!({ "mimeType": "a/b\r\nc", "encoding": "base64", "data": "AAAA" }), "text"),
            (json!({ "uri": "no uri" }), "text"),
        ] {
            let block = block(&value);
            assert_eq!(block["type"], kind, "{value}");
            assert_eq!(block["annotations"]["audience"][0], "user");
        }
        let csv = block(&json!({ "name": "a b.csv", "mimeType": "text/csv", "encoding": "base64", "data": "YQ==" }));
        assert_eq!(csv["resource"]["uri"], "emitted:///0/a+b.csv");
        assert_eq!(csv["resource"]["blob"], "YQ==");
    }

    #[test]
    fn structured_content_says_what_a_file_is_and_not_its_bytes() {
        let file = json!({ "name": "a.png", "mimeType": "image/png", "encoding": "base64", "data": "AAAA" });
        let (_, told) = emitted_content(&[file.to_string(), "\"x\"".to_owned()]);
        assert_eq!(told, [json!({ "name": "a.png", "mimeType": "image/png", "bytes": 3 }), json!("x")]);
    }
}
