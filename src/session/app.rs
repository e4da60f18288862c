//! The approval as an MCP App (SEP-1865, revision 2026-01-26): clients that show apps inside the chat get one that shows what waits
//! and opens the page. It can decide nothing: it has no credential, and may not call the tools that it is shown for.

use serde_json::{Value, json};

/// The extension, as clients declare it.
const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// What they have to be able to show.
const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// The app.
const URI: &str = "ui://countersign/approval";
/// What it is shown for.
const TOOLS: [&str; 2] = ["execute", "resume"];

/// Whether a client shows apps; `capabilities` is what it declared, as JSON text.
#[must_use]
pub fn shows_apps(capabilities: &str) -> bool {
    // Nearly no client does, and this is asked with every list.
    if !capabilities.contains(EXTENSION) {
        return false;
    }
    let value: Value = serde_json::from_str(capabilities).unwrap_or(Value::Null);
    let types = value.pointer("/extensions/io.modelcontextprotocol~1ui/mimeTypes").and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|kind| kind == MIME_TYPE))
}

/// What is declared to such a client.
#[must_use]
pub fn extensions() -> Value {
    json!({ EXTENSION: {} })
}

/// Links a tool of the gateway's own with the app.
pub fn link_tool(tool: &mut Value) {
    let is_one = tool.get("name").and_then(Value::as_str).is_some_and(|name| TOOLS.contains(&name));
    if let Some(tool) = tool.as_object_mut().filter(|_| is_one) {
        // Without "app": the app may not call it.
        tool.insert("_meta".to_owned(), json!({ "ui": { "resourceUri": URI, "visibility": ["model"] } }));
    }
}

/// The app's entry in `resources/list`.
#[must_use]
pub fn entry() -> Value {
    json!({
        "uri": URI,
        "name": "approval",
        "title": "Approval",
        "description": "Shows what waits for a person, and opens the page where it is decided.",
        "mimeType": MIME_TYPE,
    })
}

/// Whether it is the app that is asked for.
#[must_use]
pub fn is_own(uri: Option<&str>) -> bool {
    uri == Some(URI)
}

/// The answer to `resources/read`; `None` for any other URI.
#[must_use]
pub fn read(uri: Option<&str>) -> Option<Value> {
    is_own(uri).then(|| {
        json!({
            "contents": [{
                "uri": URI,
                "mimeType": MIME_TYPE,
                "text": include_str!("app.html"),
                "_meta": {
                    "ui": {
                        "csp": { "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [] },
                        "prefersBorder": true,
                    },
                },
            }],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_say_whether_they_show_apps() {
        for (capabilities, shows) in [
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#, true),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":"text/html;profile=mcp-app"}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, false),
            (r#"{"experimental":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#, false),
            ("{}", false),
            ("io.modelcontextprotocol/ui", false),
        ] {
            assert_eq!(shows_apps(capabilities), shows, "{capabilities}");
        }
    }

    #[test]
    fn only_tools_that_wait_are_linked_and_the_app_may_not_call_them() {
        let mut tool = json!({ "name": "resume" });
        link_tool(&mut tool);
        assert_eq!(tool["_meta"]["ui"], json!({ "resourceUri": URI, "visibility": ["model"] }));
        let mut tool = json!({ "name": "skills" });
        link_tool(&mut tool);
        assert_eq!(tool, json!({ "name": "skills" }));
        assert!(read(Some("ui://countersign/other")).is_none());
        assert!(read(None).is_none());
    }
}
