//! `tool_mode=direct`: every tool of the catalog as an MCP tool of its own.

use serde_json::{Map, Value, json};

use super::tools::{cut, plain_text, resume_tool, text_result};
use crate::catalog::tool::{FileValue, Tool, ToolOutcome};
use crate::json::sha256_hex;

/// Characters of a tool's name that every client takes.
const NAME_LIMIT: usize = 64;
/// Hexadecimal digits that make a shortened name unique.
const HASH_DIGITS: usize = 10;
/// Bytes of a result's `structuredContent`; beyond it only the text is sent.
const STRUCTURED_LIMIT: usize = 200_000;
/// Bytes of a result that an MCP server gave.
const ORIGINAL_LIMIT: usize = 16 << 20;
/// Bytes of a file in a result.
const FILE_LIMIT: usize = 4 << 20;
/// The gateway's own tool, which is there in every mode.
const OWN_TOOL: &str = "resume";
/// Tools on one page of `tools/list`.
pub const PAGE: usize = 500;

/// The name of a tool: its address with `__` for dots. An address for which that is not possible, or could be another's
/// as well, is shortened and gets a hash. Depends on nothing but the address, so it is the same for ever.
#[must_use]
pub fn direct_name(address: &str) -> String {
    let parts: Vec<&str> = address.split('.').collect();
    let plain = parts.iter().all(|part| {
        !part.is_empty()
            && !part.starts_with('_')
            && !part.ends_with('_')
            && !part.contains("__")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    });
    let name = parts.join("__");
    if plain && name.len() <= NAME_LIMIT {
        return name;
    }
    let hash: String = sha256_hex(address.as_bytes()).chars().take(HASH_DIGITS).collect();
    let kept: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(NAME_LIMIT - HASH_DIGITS - 3)
        .collect();
    // Three underlines: no plain name has them.
    format!("{}___{hash}", kept.trim_matches('_'))
}

/// The name of a tool where all tools are of one source: its address without the source.
#[must_use]
pub fn own_direct_name(address: &str) -> String {
    match address.split_once('.') {
        // The gateway's own tool has that name.
        Some((_, own)) if own != OWN_TOOL => direct_name(own),
        _ => direct_name(address),
    }
}

/// How a tool is listed under a name. `asks` tells whether a person is asked before it runs.
///
/// No output schema: clients hold answers against it, and real answers differ.
#[must_use]
pub fn listed_tool(tool: &Tool, name: &str, asks: bool) -> Value {
    let mut description = tool.description.clone();
    if asks {
        let gap = if description.is_empty() { "" } else { "\n\n" };
        description = format!("{description}{gap}{ASKS}");
    }
    let title = if tool.title.is_empty() { &tool.address } else { &tool.title };
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": tool.input_schema,
        "annotations": {
            "title": title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": true,
        },
    })
}

const ASKS: &str = "A person has to approve each call. The result then has an approvalUrl: show it to the user and call `resume` \
with the executionId; do not call the tool again.";

/// The gateway's own tool in direct mode.
#[must_use]
pub fn own_tool() -> Value {
    let mut tool = resume_tool();
    if let Some(description) = tool.get_mut("description") {
        *description = json!(
            "Wait until a person has decided on a tool call that waits, and get the call's result. Safe to repeat with the \
             same executionId. While nobody has decided it answers `user_approval_required` again: call it again."
        );
    }
    tool
}

/// The result of a call, from the JSON text of its outcome.
#[must_use]
pub fn outcome_result(outcome: &str) -> String {
    match edited_arguments(outcome) {
        Some(edited) => with_note(&plain_result(outcome), &edited),
        None => plain_result(outcome),
    }
}

/// What a person put in place of the call's arguments.
fn edited_arguments(outcome: &str) -> Option<String> {
    if !outcome.contains(r#","edited":{"arguments":"#) {
        return None;
    }
    let outcome: Value = serde_json::from_str(outcome).ok()?;
    Some(outcome.pointer("/edited/arguments")?.to_string())
}

/// The result with a word more: what was called is not what the client asked for.
fn with_note(result: &str, edited: &str) -> String {
    let Ok(mut result) = serde_json::from_str::<Value>(result) else { return result.to_owned() };
    let note = cut(&format!("A person approved this call with other arguments. Sent was: {edited}"));
    if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
        content.push(json!({ "type": "text", "text": note }));
    }
    result.to_string()
}

fn plain_result(outcome: &str) -> String {
    if let Some(original) = original_result(outcome) {
        return original;
    }
    match serde_json::from_str::<ToolOutcome>(outcome) {
        Ok(ToolOutcome::Success { data, .. }) => success_result(data.get()),
        Ok(ToolOutcome::Failure(error)) => {
            let whole: Value = serde_json::from_str(outcome).unwrap_or_default();
            let mut text = match error.status {
                Some(status) => format!("{} (status {status})", error.message),
                None => error.message.clone(),
            };
            if let Some(reason) = whole.pointer("/error/reason").and_then(Value::as_str) {
                text = format!("{text} Reason: {reason}");
            }
            if let Some(details) = &error.details {
                text = format!("{text}\n{}", details.get());
            }
            let structured = json!({ "status": "error", "error": whole.get("error") });
            let small = outcome.len() <= STRUCTURED_LIMIT;
            text_result(&cut(&text), small.then_some(&structured), true)
        }
        Err(_) => text_result("The answer of the tool could not be read.", None, true),
    }
}

/// What an MCP server answered, as it came, where it is there and not too large.
fn original_result(outcome: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Original<'o> {
        #[serde(borrow, default)]
        result: Option<&'o serde_json::value::RawValue>,
    }
    let original = serde_json::from_str::<Original<'_>>(outcome).ok()?.result?.get();
    (original.len() <= ORIGINAL_LIMIT).then(|| original.to_owned()).or_else(|| {
        let text = "The tool's result is too large to be passed on. Ask for less.";
        Some(text_result(text, None, true))
    })
}

fn success_result(data: &str) -> String {
    let value: Value = serde_json::from_str(data).unwrap_or(Value::Null);
    if let Some(block) = file_block(&value) {
        return json!({ "content": [block], "isError": false }).to_string();
    }
    let structured = value.is_object() && data.len() <= STRUCTURED_LIMIT;
    let text = if value.is_null() { "Done; the tool answered with nothing.".to_owned() } else { plain_text(data) };
    text_result(&cut(&text), structured.then_some(&value), false)
}

/// A binary answer as a content block; `None` for anything else, or where it is too large to send.
fn file_block(value: &Value) -> Option<Value> {
    let fields: &Map<String, Value> = value.as_object()?;
    if fields.get("encoding").and_then(Value::as_str) != Some("base64")
        || fields.keys().any(|key| !matches!(key.as_str(), "name" | "mimeType" | "encoding" | "data"))
    {
        return None;
    }
    let file: FileValue = crate::json::from_value(value.clone()).ok()?;
    if file.data.len() > FILE_LIMIT {
        return None;
    }
    let kind = file.mime_type.as_deref().unwrap_or("application/octet-stream");
    Some(match kind.split('/').next() {
        Some("image") => json!({ "type": "image", "data": file.data, "mimeType": kind }),
        Some("audio") => json!({ "type": "audio", "data": file.data, "mimeType": kind }),
        _ => {
            let name: String =
                url::form_urlencoded::byte_serialize(file.name.as_deref().unwrap_or("file").as_bytes()).collect();
            json!({
                "type": "resource",
                "resource": { "uri": format!("file:///{name}"), "mimeType": kind, "blob": file.data },
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_valid_stable_and_different() {
        assert_eq!(direct_name("demo.listItems"), "demo__listItems");
        assert_eq!(direct_name("github.issues.create"), "github__issues__create");
        let long = format!("source.{}", "a".repeat(80));
        let addresses = [
            "demo.listItems",
            "a_.b",
            "a._b",
            "a.b__c",
            "a.b.c",
            "a.b/c",
            "a.b c",
            "a.b_c",
            "a.ü",
            "a..b",
            "a.",
            long.as_str(),
            &format!("{long}b"),
        ];
        let names: BTreeSet<String> = addresses.iter().map(|address| direct_name(address)).collect();
        assert_eq!(names.len(), addresses.len(), "{names:?}");
        for name in &names {
            assert!(name.len() <= 64 && !name.is_empty(), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{name}");
        }
    }

    #[test]
    fn outcomes_read_as_results() {
        let result = |outcome: &str| serde_json::from_str::<Value>(&outcome_result(outcome)).unwrap();
        let object = result(r#"{"ok":true,"data":{"n":12345678901234567890123},"http":{"status":200}}"#);
        assert_eq!(object["isError"], false);
        assert_eq!(object["structuredContent"].to_string(), r#"{"n":12345678901234567890123}"#);
        let list = result(r#"{"ok":true,"data":[1]}"#);
        assert!(list.get("structuredContent").is_none(), "structured content is an object");
        assert_eq!(result(r#"{"ok":true,"data":"text"}"#)["content"][0]["text"], "text");
        let passed = r#"{"content":[{"type":"odd","n":1.50}],"isError":false}"#;
        assert_eq!(outcome_result(&format!(r#"{{"ok":true,"result":{passed}}}"#)), passed);
        let failed =
            r#"{"ok":false,"error":{"code":"tool_error","message":"m"},"result":{"content":[],"isError":true}}"#;
        assert_eq!(outcome_result(failed), r#"{"content":[],"isError":true}"#);
        let edited = result(r#"{"ok":true,"data":{"n":1},"edited":{"arguments":{"id":"i2"}}}"#);
        assert_eq!(edited["structuredContent"]["n"], 1);
        let note = "A person approved this call with other arguments. Sent was: {\"id\":\"i2\"}";
        assert_eq!(edited["content"][1]["text"], note);
        let passed = format!(r#"{{"ok":true,"result":{passed},"edited":{{"arguments":{{}}}}}}"#);
        assert_eq!(result(&passed)["content"].as_array().unwrap().len(), 2);
        // Only what the gateway says of a call counts, not what the tool says.
        let said = result(r#"{"ok":true,"data":{"n":1,"edited":{"arguments":{}}}}"#);
        assert_eq!(said["content"].as_array().unwrap().len(), 1);
        let image = result(r#"{"ok":true,"data":{"mimeType":"image/png","encoding":"base64","data":"AA=="}}"#);
        assert_eq!(image["content"][0]["type"], "image");
        let failed =
            result(r#"{"ok":false,"error":{"code":"upstream_error","message":"No","status":404,"details":{"why":1}}}"#);
        assert_eq!(failed["isError"], true);
        assert_eq!(failed["content"][0]["text"], "No (status 404)\n{\"why\":1}");
        assert_eq!(failed["structuredContent"]["error"]["code"], "upstream_error");
    }
}
