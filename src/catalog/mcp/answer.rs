//! The result of `tools/call` as a value (specification, revision 2025-11-25, "Tool Result").

use serde_json::{Map, Value, json};

use super::uris::prefix_block;
use crate::catalog::schema::clean::shortened;
use crate::catalog::tool::{ToolError, ToolOutcome, raw_json};
use crate::json::json_depth_within;

/// Characters of an error's text.
const ERROR_CHARS: usize = 4_000;
/// Bytes of what an error carries beside its text.
const DETAILS_BYTES: usize = 64 << 10;
/// Depth of JSON that is read out of a text block.
const DEPTH: usize = 128;

/// What a program gets: structured content where there is some, else the text (as JSON where it is one block of JSON), a
/// file where there is nothing but one, else the blocks as they came. An output schema is never held against it.
#[must_use]
pub fn read_result(result: &Value) -> ToolOutcome {
    let none = Vec::new();
    let content = result.get("content").and_then(Value::as_array).unwrap_or(&none);
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        return ToolOutcome::Failure(failure(content, structured));
    }
    if let Some(structured) = structured {
        return ToolOutcome::success(structured);
    }
    match content.as_slice() {
        [] => ToolOutcome::success(&Value::Null),
        [only] => ToolOutcome::success(&block_value(only)),
        blocks => match texts(blocks) {
            Some(text) => ToolOutcome::success(&Value::String(text)),
            None => ToolOutcome::success(&Value::Array(blocks.iter().map(kept_block).collect())),
        },
    }
}

/// What direct mode gets: whether it went well, and the result as it came, but for `prefix` in front of its URIs of resources.
/// `None` where it is no object.
#[must_use]
pub fn passed_outcome(result: &Value, prefix: Option<&str>) -> Option<String> {
    let object = result.as_object()?;
    let mut passed: Map<String, Value> = ["content", "structuredContent", "isError"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), object.get(key)?.clone())))
        .collect();
    if !passed.get("content").is_some_and(Value::is_array) {
        // Clients take no result without a list of blocks; the value is told as text as well.
        let text = object.get("structuredContent").map(ToString::to_string);
        let blocks: Vec<Value> = text.into_iter().map(|text| json!({ "type": "text", "text": text })).collect();
        passed.insert("content".to_owned(), Value::Array(blocks));
    }
    if let (Some(prefix), Some(Value::Array(blocks))) = (prefix, passed.get_mut("content")) {
        for block in blocks {
            prefix_block(block, prefix);
        }
    }
    let ok = passed.get("isError").and_then(Value::as_bool) != Some(true);
    let error = if ok {
        String::new()
    } else {
        r#""error":{"code":"tool_error","message":"The tool reported an error."},"#.to_owned()
    };
    Some(format!(r#"{{"ok":{ok},{error}"result":{}}}"#, Value::Object(passed)))
}

fn failure(content: &[Value], structured: Option<&Value>) -> ToolError {
    let text = content.iter().filter_map(text_of).collect::<Vec<_>>().join("\n");
    let message = match (text.trim(), structured) {
        ("", Some(structured)) => structured.to_string(),
        ("", None) => "The tool reported an error and did not say which.".to_owned(),
        (text, _) => text.to_owned(),
    };
    let mut error = ToolError::new("tool_error", shortened(&message, ERROR_CHARS));
    error.details = structured.map(raw_json).filter(|details| details.get().len() <= DETAILS_BYTES);
    error
}

fn text_of(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").and_then(Value::as_str).filter(|_| is_text)
}

fn texts(blocks: &[Value]) -> Option<String> {
    let texts: Option<Vec<&str>> = blocks.iter().map(text_of).collect();
    texts.map(|texts| texts.join("\n"))
}

/// The value of a result's only block.
fn block_value(block: &Value) -> Value {
    match text_of(block) {
        Some(text) => json_in(text).unwrap_or_else(|| Value::String(text.to_owned())),
        None => kept_block(block),
    }
}

/// Objects and lists only: a text of digits stays a text.
fn json_in(text: &str) -> Option<Value> {
    let looks = text.trim_start().starts_with(['{', '[']);
    (looks && json_depth_within(text, DEPTH)).then(|| serde_json::from_str(text).ok()).flatten()
}

/// A block with its file, if it is one, in the form that arguments take; anything else as it came.
fn kept_block(block: &Value) -> Value {
    let kind = block.get("type").and_then(Value::as_str);
    let (holder, data) = match kind {
        Some("image" | "audio") => (Some(block), block.get("data")),
        Some("resource") => (block.get("resource"), block.get("resource").and_then(|resource| resource.get("blob"))),
        _ => (None, None),
    };
    let (Some(holder), Some(data)) = (holder, data.and_then(Value::as_str)) else { return block.clone() };
    let mut file = Map::new();
    let uri = holder.get("uri").and_then(Value::as_str);
    let name = uri.and_then(|uri| uri.rsplit('/').next()).filter(|name| !name.is_empty());
    if let Some(name) = name {
        file.insert("name".to_owned(), Value::from(name));
    }
    if let Some(kind) = holder.get("mimeType").and_then(Value::as_str) {
        file.insert("mimeType".to_owned(), Value::from(kind));
    }
    file.insert("encoding".to_owned(), Value::from("base64"));
    file.insert("data".to_owned(), Value::from(data));
    Value::Object(file)
}
