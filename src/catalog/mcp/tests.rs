//! What becomes of a server's tools, of arguments, and of results.

use super::*;
use crate::catalog::tool::ToolOutcome;

fn listed(entries: &[Value]) -> ListedTools {
    let known = BTreeMap::new();
    read_tools(entries, &ListOptions { source: "up", stateless: true, known_names: &known })
}

fn binding(tool: &Tool) -> &McpBinding {
    let Binding::Mcp(binding) = &tool.binding else { panic!("{tool:?}") };
    binding
}

#[test]
fn names_are_safe_unique_and_stay() {
    let names = ["foo/list", "foo.list", "get-sum", "get_sum", "ü", "then", "", "get-sum"];
    let entries: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    let first = listed(&entries);
    assert_eq!(first.tools.len(), 6, "{:?}", first.report);
    let addresses: BTreeSet<&str> = first.tools.iter().map(|tool| tool.address.as_str()).collect();
    assert_eq!(addresses.len(), 6, "{addresses:?}");
    assert!(addresses.contains("up.foo.list") && addresses.contains("up.get_sum"), "{addresses:?}");
    for tool in &first.tools {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        assert!(tool.address.chars().all(plain), "{}", tool.address);
    }
    assert_eq!(first.tools.iter().map(|tool| binding(tool).name.as_str()).collect::<Vec<_>>(), names[..6]);
    // One that was there alone keeps its name when a rival comes.
    let alone = listed(&[json!({ "name": "get-sum" })]);
    assert_eq!(alone.tools[0].address, "up.get_sum");
    let known = BTreeMap::from([("get-sum".to_owned(), "get_sum".to_owned())]);
    let options = ListOptions { source: "up", stateless: true, known_names: &known };
    let again = read_tools(&entries, &options);
    let with_name = |name: &str| again.tools.iter().find(|tool| binding(tool).name == name).unwrap().address.clone();
    assert_eq!(with_name("get-sum"), "up.get_sum");
    assert_ne!(with_name("get_sum"), "up.get_sum");
}

#[test]
fn a_broken_entry_costs_only_itself() {
    let listed = listed(&[
        json!(7),
        json!({}),
        json!({ "name": "a", "inputSchema": "none", "annotations": [] }),
        json!({ "name": "b", "inputSchema": { "type": "object", "properties": { "x": { "x-mcp-header": "A B", "type": "string" } } } }),
    ]);
    assert_eq!(listed.tools.len(), 1);
    assert_eq!(listed.tools[0].input_schema["type"], "object");
    assert_eq!(listed.report.len(), 3, "{:?}", listed.report);
}

#[test]
fn hints_are_careful_unless_stated() {
    let of = |annotations: Value| listed(&[json!({ "name": "a", "annotations": annotations })]).tools[0].hints;
    assert_eq!(of(json!({})), ToolHints { read_only: false, destructive: true, idempotent: false });
    assert_eq!(
        of(json!({ "readOnlyHint": true })),
        ToolHints { read_only: true, destructive: false, idempotent: true }
    );
    assert_eq!(
        of(json!({ "readOnlyHint": "yes", "idempotentHint": true })),
        ToolHints { read_only: false, destructive: true, idempotent: true }
    );
}

#[test]
fn a_changed_definition_has_another_hash() {
    let hash = |tool: Value| binding(&listed(&[tool]).tools[0]).definition_hash.clone();
    let plain = hash(json!({ "name": "a", "description": "x" }));
    assert_eq!(plain, hash(json!({ "description": "x", "name": "a", "_meta": { "n": 1 } })));
    assert_ne!(plain, hash(json!({ "name": "a", "description": "y" })));
    assert_ne!(
        plain,
        hash(
            json!({ "name": "a", "description": "x", "inputSchema": { "type": "object", "properties": { "p": {} } } })
        )
    );
    assert_ne!(plain, hash(json!({ "name": "a", "description": "x", "annotations": { "readOnlyHint": true } })));
}

#[test]
fn arguments_get_their_names_on_the_wire_and_headers_back() {
    let schema = json!({ "type": "object", "required": ["a b"], "properties": {
        "a b": { "type": "object", "properties": { "$in": { "type": "string", "x-mcp-header": "In" } } },
        "n": { "type": "integer", "x-mcp-header": "N" }, "gone": { "type": "boolean", "x-mcp-header": "Gone" } } });
    let listed = listed(&[json!({ "name": "t", "inputSchema": schema })]);
    let tool = &listed.tools[0];
    assert!(!tool.input_schema.to_string().contains("x-mcp-header"), "{}", tool.input_schema);
    assert_eq!(tool.input_schema["required"], json!(["a_20b"]));
    let wire = wire_arguments(binding(tool), &json!({ "a_20b": { "_24in": "é" }, "n": 7, "gone": null }));
    assert_eq!(wire, json!({ "a b": { "$in": "é" }, "n": 7, "gone": null }));
    let headers = wire_headers(binding(tool), &wire);
    assert_eq!(headers, [("mcp-param-In".to_owned(), "é".to_owned()), ("mcp-param-N".to_owned(), "7".to_owned())]);
}

#[test]
fn header_annotations_that_break_a_rule_make_the_tool_invalid() {
    let property = |schema: Value| json!({ "type": "object", "properties": { "a": schema, "x-mcp-header": { "type": "string" } } });
    for (schema, valid) in [
        (property(json!({ "type": "string", "x-mcp-header": "Region" })), true),
        (property(json!({ "type": "number", "x-mcp-header": "Region" })), false),
        (property(json!({ "type": "string", "x-mcp-header": "" })), false),
        (property(json!({ "type": "string", "x-mcp-header": "a\r\nb" })), false),
        (property(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } })), false),
        (property(json!({ "anyOf": [{ "type": "string", "x-mcp-header": "A" }] })), false),
        (json!({ "type": "object", "x-mcp-header": "A" }), false),
        (
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A" }, "b": { "type": "string", "x-mcp-header": "a" } } }),
            false,
        ),
    ] {
        assert_eq!(
            listed(&[json!({ "name": "t", "inputSchema": schema })]).tools.len(),
            usize::from(valid),
            "{schema}"
        );
    }
    let known = BTreeMap::new();
    let old = ListOptions { source: "up", stateless: false, known_names: &known };
    let tool = json!({ "name": "t", "inputSchema": property(json!({ "type": "number", "x-mcp-header": "R" })) });
    assert_eq!(read_tools(&[tool], &old).tools.len(), 1, "older versions have no such rule");
}

#[test]
fn results_become_values() {
    let data = |result: Value| match read_result(&result) {
        ToolOutcome::Success { data, .. } => data.get().to_owned(),
        ToolOutcome::Failure(error) => format!("{}: {}", error.code, error.message),
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    for (result, expected) in [
        (json!({ "content": [] }), "null"),
        (json!({}), "null"),
        (json!({ "structuredContent": { "n": 1 } }), r#"{"n":1}"#),
        (json!({ "structuredContent": [1], "content": [text("x")] }), "[1]"),
        (json!({ "content": [text(r#"{"a":12345678901234567890}"#)] }), r#"{"a":12345678901234567890}"#),
        (json!({ "content": [text("123")] }), r#""123""#),
        (json!({ "content": [text("{no json")] }), r#""{no json""#),
        (json!({ "content": [text("a"), text("b")] }), r#""a\nb""#),
        (json!({ "content": [image] }), r#"{"mimeType":"image/png","encoding":"base64","data":"AA=="}"#),
        (
            json!({ "content": [text("a"), image] }),
            r#"[{"type":"text","text":"a"},{"mimeType":"image/png","encoding":"base64","data":"AA=="}]"#,
        ),
        (
            json!({ "content": [{ "type": "resource", "resource": { "uri": "f:///d/a.bin", "blob": "AA==" } }] }),
            r#"{"name":"a.bin","encoding":"base64","data":"AA=="}"#,
        ),
        (json!({ "content": [{ "type": "resource_link", "uri": "x:y" }] }), r#"{"type":"resource_link","uri":"x:y"}"#),
        (json!({ "isError": true, "content": [text("no"), text("way")] }), "tool_error: no\nway"),
        (json!({ "isError": true, "structuredContent": { "why": 1 } }), r#"tool_error: {"why":1}"#),
        (json!({ "isError": true }), "tool_error: The tool reported an error and did not say which."),
    ] {
        assert_eq!(data(result.clone()), expected, "{result}");
    }
}

#[test]
fn direct_mode_gets_the_result_as_it_came() {
    let passed = |result: Value| serde_json::from_str::<Value>(&passed_outcome(&result, None).unwrap()).unwrap();
    let result =
        json!({ "content": [{ "type": "odd", "x": 1 }], "structuredContent": { "n": 1.50 }, "isError": false });
    assert_eq!(passed(result.clone()), json!({ "ok": true, "result": result }));
    let failed =
        passed(json!({ "content": [], "isError": true, "_meta": { "io.modelcontextprotocol/serverInfo": {} } }));
    assert_eq!((&failed["ok"], &failed["result"]), (&json!(false), &json!({ "content": [], "isError": true })));
    assert_eq!(passed(json!({ "structuredContent": { "n": 1 } }))["result"]["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(passed_outcome(&json!([]), None), None);
}
