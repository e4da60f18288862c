use serde_json::{Value, json};

use super::{OPTIONS, document, import, tool_with};
use crate::catalog::openapi::{ImportLimits, ImportOptions, import_openapi};

/// The input schema of `POST /things` with a JSON body of this schema.
fn input_of(schema: &Value, components: &Value) -> Value {
    input_of_version("3.1.0", schema, components)
}

fn input_of_version(version: &str, schema: &Value, components: &Value) -> Value {
    let operation =
        json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } } });
    let mut document = document(&json!({ "/things": { "post": operation } }), components);
    document["openapi"] = json!(version);
    let import = import(&document);
    import.tools.into_iter().next().unwrap().input_schema
}

/// What a property of this schema becomes.
fn cleaned(version: &str, schema: &Value) -> Value {
    let body = json!({ "type": "object", "properties": { "p": schema } });
    input_of_version(version, &body, &json!({}))["properties"]["p"].clone()
}

#[test]
fn schemas_become_what_every_client_takes() {
    let rows = [
        ("3.0.3", json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (
            "3.0.3",
            json!({ "type": "string", "enum": ["a", "b"], "nullable": true }),
            json!({ "type": ["string", "null"], "enum": ["a", "b", null] }),
        ),
        ("2.0", json!({ "type": "string", "x-nullable": true }), json!({ "type": ["string", "null"] })),
        ("3.1.0", json!({ "type": ["string", "null"] }), json!({ "type": ["string", "null"] })),
        ("3.1.0", json!({ "type": ["string"] }), json!({ "type": "string" })),
        (
            "3.0.3",
            json!({ "type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false }),
            json!({ "type": "integer", "exclusiveMinimum": 1, "maximum": 9 }),
        ),
        (
            "3.1.0",
            json!({ "exclusiveMinimum": 1.5, "type": "number" }),
            json!({ "exclusiveMinimum": 1.5, "type": "number" }),
        ),
        ("3.0.3", json!({ "type": "array" }), json!({ "type": "array", "items": {} })),
        ("3.1.0", json!({ "type": ["array", "null"] }), json!({ "type": ["array", "null"], "items": {} })),
        (
            "3.1.0",
            json!({ "type": "array", "items": [{ "type": "string" }] }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": {} }),
        ),
        ("3.1.0", json!({ "type": "array", "items": true }), json!({ "type": "array", "items": {} })),
        (
            "3.0.3",
            json!({ "type": "string", "example": "x", "xml": {}, "externalDocs": {}, "x-go": 1, "title": "T", "discriminator": {} }),
            json!({ "type": "string" }),
        ),
        (
            "3.1.0",
            json!({ "$schema": "x", "$id": "y", "$comment": "z", "type": "string", "examples": [1] }),
            json!({ "type": "string" }),
        ),
        (
            "3.0.3",
            json!({ "properties": { "a": { "type": "int" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "integer" } } }),
        ),
        ("3.0.3", json!({ "type": "object", "required": [] }), json!({ "type": "object" })),
        (
            "3.0.3",
            json!({ "type": "object", "required": true, "properties": { "a": { "required": true, "type": "string" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
        ),
        (
            "3.0.3",
            json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
        ),
        (
            "3.0.3",
            json!({ "oneOf": [{ "type": "string" }], "nullable": true }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
        ),
        ("3.0.3", json!({ "type": "any" }), json!({})),
        (
            "3.0.3",
            json!({ "type": "string", "minLength": "3", "maxLength": 5, "pattern": 7, "enum": [] }),
            json!({ "type": "string", "maxLength": 5 }),
        ),
        (
            "3.0.3",
            json!({ "type": "string", "enum": ["a", "a", "b"] }),
            json!({ "type": "string", "enum": ["a", "b"] }),
        ),
        (
            "3.1.0",
            json!({ "const": 12_345_678_901_234_567_890_u64 }),
            json!({ "const": 12_345_678_901_234_567_890_u64 }),
        ),
        (
            "3.1.0",
            json!({ "type": "string", "deprecated": true, "default": "x", "format": "date" }),
            json!({ "type": "string", "deprecated": true, "default": "x", "format": "date" }),
        ),
        (
            "3.0.3",
            json!({ "allOf": [{ "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } }, { "properties": { "b": {} } }], "description": "both" }),
            json!({ "type": "object", "description": "both", "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a"] }),
        ),
        (
            "3.0.3",
            json!({ "allOf": [{ "type": "string" }], "nullable": true, "description": "d" }),
            json!({ "type": ["string", "null"], "description": "d" }),
        ),
        (
            "3.1.0",
            json!({ "additionalProperties": { "type": "array" }, "type": "object" }),
            json!({ "additionalProperties": { "type": "array", "items": {} }, "type": "object" }),
        ),
    ];
    for (version, schema, expected) in rows {
        let version = if version == "2.0" { "3.0.0" } else { version };
        assert_eq!(cleaned(version, &schema), expected, "{version} {schema}");
    }
}

#[test]
fn read_only_properties_are_left_out_of_inputs_wherever_they_are() {
    let schema = json!({
        "type": "object", "required": ["id", "name", "stamp", "nested"],
        "properties": {
            "id": { "type": "string", "readOnly": true },
            "name": { "type": "string" },
            "stamp": { "$ref": "#/components/schemas/Stamp" },
            "nested": { "type": "object", "required": ["x", "y"], "properties": { "x": { "readOnly": true }, "y": {} } },
        },
    });
    let components = json!({ "schemas": { "Stamp": { "type": "string", "readOnly": true } } });
    let input = input_of(&schema, &components);
    assert_eq!(
        input,
        json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "nested": { "type": "object", "properties": { "y": {} }, "required": ["y"] } },
            "required": ["name", "nested"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn write_only_properties_are_left_out_of_outputs_and_read_only_ones_stay() {
    let schema = json!({ "type": "object", "properties": { "id": { "readOnly": true, "type": "string" }, "password": { "writeOnly": true } } });
    let tool = tool_with(
        json!({ "responses": { "201": { "content": { "application/json": { "schema": schema } } } } }),
        &json!({}),
    );
    assert_eq!(tool.output_schema, Some(json!({ "type": "object", "properties": { "id": { "type": "string" } } })));
}

#[test]
fn cyclic_and_transitive_references_become_local_definitions_that_resolve() {
    let components = json!({ "schemas": {
        "Node": { "type": "object", "properties": {
            "value": { "$ref": "#/components/schemas/Text" },
            "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } },
            "parent": { "$ref": "#/components/schemas/Pair" },
        } },
        "Pair": { "type": "object", "properties": { "left": { "$ref": "#/components/schemas/Node" }, "right": { "$ref": "#/components/schemas/Pair" } } },
        "Text": { "type": "string", "maxLength": 5 },
        "Loop": { "$ref": "#/components/schemas/Loop" },
        "Unused": { "type": "object", "properties": {} },
    } });
    let schema = json!({ "type": "object", "properties": {
        "node": { "$ref": "#/components/schemas/Node" }, "again": { "$ref": "#/components/schemas/Node" },
        "loop": { "$ref": "#/components/schemas/Loop" }, "alias": { "$ref": "#/components/schemas/Text" },
    } });
    let input = input_of(&schema, &components);
    assert_eq!(input["properties"]["alias"], json!({ "type": "string", "maxLength": 5 }));
    let definitions: Vec<&String> = input["$defs"].as_object().unwrap().keys().collect();
    assert_eq!(definitions, ["Node", "Loop", "Pair"]);
    assert_eq!(input["$defs"]["Node"]["properties"]["children"]["items"], json!({ "$ref": "#/$defs/Node" }));
    assert_references_resolve(&input);
}

#[test]
fn the_body_itself_may_be_a_cyclic_reference() {
    let components = json!({ "schemas": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Node" } } } } });
    let input = input_of(&json!({ "$ref": "#/components/schemas/Node" }), &components);
    assert_eq!(input["properties"]["next"], json!({ "$ref": "#/$defs/Node" }));
    assert_references_resolve(&input);
}

fn assert_references_resolve(schema: &Value) {
    let mut pending = vec![schema];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix("#/$defs/").expect("a local reference");
                    assert!(schema["$defs"].get(pointer).is_some(), "{reference}");
                }
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[test]
fn references_may_lead_anywhere_in_the_document() {
    let components = json!({
        "schemas": { "a/b~c d": { "type": "object", "properties": { "x": { "$ref": "#/paths/~1things/post/x-schema" } } } },
        "x-schema": { "type": "object", "properties": { "deep": { "type": "array", "items": { "$ref": "#/components/x-schema" } } } },
    });
    let input = input_of(
        &json!({ "type": "object", "properties": {
        "a": { "$ref": "#/components/schemas/a~1b~0c%20d" }, "b": { "$ref": "#/components/x-schema/properties/deep" },
    } }),
        &components,
    );
    assert_references_resolve(&input);
    assert_eq!(input["$defs"]["a_b_c_d"]["type"], "object");
    assert_eq!(input["$defs"]["deep"]["type"], "array");
}

#[test]
fn a_schema_of_its_own_definitions_keeps_them() {
    let schema = json!({
        "type": "object", "properties": { "t": { "$ref": "#/$defs/Tree" } },
        "$defs": { "Tree": { "type": "object", "properties": { "kids": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } } } },
    });
    let input = input_of(&schema, &json!({}));
    assert_eq!(input["properties"]["t"], json!({ "$ref": "#/$defs/Tree" }));
    assert_references_resolve(&input);
}

#[test]
fn references_beside_other_keywords_follow_the_version() {
    let components = json!({ "schemas": { "O": { "type": "object", "properties": { "a": {} } } } });
    let schema = json!({ "type": "object", "properties": { "p": { "$ref": "#/components/schemas/O", "description": "d", "maxProperties": 1, "nullable": true } } });
    let reference = |extra: Value| json!({ "description": "d", "anyOf": [extra, { "type": "null" }] });
    assert_eq!(
        input_of_version("3.0.0", &schema, &components)["properties"]["p"],
        reference(json!({ "$ref": "#/$defs/O" }))
    );
    assert_eq!(
        input_of_version("3.1.0", &schema, &components)["properties"]["p"],
        reference(json!({ "$ref": "#/$defs/O", "maxProperties": 1 }))
    );
}

#[test]
fn references_that_lead_nowhere_or_outside_accept_anything_and_are_reported() {
    let schema = json!({ "type": "object", "properties": {
        "missing": { "$ref": "#/components/schemas/Nope" }, "outside": { "$ref": "https://evil.example/schema.json#/X" },
    } });
    let operation = json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
    let import = import(&document(&json!({ "/things": { "post": operation } }), &json!({})));
    assert_eq!(import.tools[0].input_schema["properties"], json!({ "missing": {}, "outside": {} }));
    let reasons: Vec<&str> = import.report.iter().map(|entry| entry.why.as_str()).collect();
    assert!(reasons.iter().any(|why| why.contains("leads nowhere")), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.contains("is not fetched")), "{reasons:?}");
}

#[test]
fn schemas_that_are_too_large_are_left_open_but_stay_whole() {
    let mut schemas = serde_json::Map::new();
    for index in 0..300 {
        let refs: serde_json::Map<String, Value> = (0..4)
            .map(|step| {
                (format!("p{step}"), json!({ "$ref": format!("#/components/schemas/S{}", (index * 3 + step) % 300) }))
            })
            .collect();
        schemas.insert(
            format!("S{index}"),
            json!({ "type": "object", "description": "d".repeat(200), "properties": refs }),
        );
    }
    let operation = json!({ "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/S0" } } } } });
    let document = document(&json!({ "/things": { "post": operation } }), &json!({ "schemas": schemas })).to_string();
    let limits = ImportLimits { input_schema_bytes: 8_000, ..OPTIONS.limits };
    let import = import_openapi(&document, &ImportOptions { limits, ..OPTIONS }).unwrap();
    let schema = &import.tools[0].input_schema;
    assert_references_resolve(schema);
    assert!(schema.to_string().len() < 16_000, "{}", schema.to_string().len());
    assert!(import.report.iter().any(|entry| entry.why.contains("accept any value")));
}

#[test]
fn one_large_schema_is_cut_at_a_depth() {
    let mut schema = json!({ "type": "string", "description": "x".repeat(100) });
    for level in 0..10 {
        schema = json!({ "type": "object", "properties": { "a": schema.clone(), "b": schema, "c": { "type": "integer", "description": format!("level {level}") } } });
    }
    let operation = json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
    let document = document(&json!({ "/things": { "post": operation } }), &json!({})).to_string();
    let limits = ImportLimits { input_schema_bytes: 4_000, ..OPTIONS.limits };
    let import = import_openapi(&document, &ImportOptions { limits, ..OPTIONS }).unwrap();
    let schema = &import.tools[0].input_schema;
    assert!(schema.to_string().len() <= 4_000);
    assert_eq!(schema["properties"]["c"]["type"], "integer");
}

#[test]
fn alternatives_that_multiply_end() {
    let mut schemas = serde_json::Map::new();
    for index in 0..40 {
        let next = json!({ "allOf": [{ "$ref": format!("#/components/schemas/S{}", index + 1) }, { "properties": { "z": {} } }] });
        schemas.insert(
            format!("S{index}"),
            json!({ "type": "object", "properties": { "a": next, "b": next, "c": next } }),
        );
    }
    let input = input_of(&json!({ "$ref": "#/components/schemas/S0" }), &json!({ "schemas": schemas }));
    assert_references_resolve(&input);
}

#[test]
fn inheritance_with_a_cycle_is_flattened_once() {
    let components = json!({ "schemas": {
        "Base": { "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" }, "owner": { "$ref": "#/components/schemas/Dog" } }, "discriminator": { "propertyName": "kind" } },
        "Dog": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "type": "object", "required": ["bark"], "properties": { "bark": { "type": "boolean" }, "friend": { "allOf": [{ "$ref": "#/components/schemas/Dog" }, { "properties": { "since": {} } }] } } }] },
        "Self": { "allOf": [{ "$ref": "#/components/schemas/Self" }, { "properties": { "x": {} } }] },
    } });
    let input = input_of(&json!({ "$ref": "#/components/schemas/Dog" }), &components);
    let keys: Vec<&String> = input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["kind", "owner", "bark", "friend"]);
    assert_eq!(input["required"], json!(["kind", "bark"]));
    assert_references_resolve(&input);
    let own = input_of(&json!({ "$ref": "#/components/schemas/Self" }), &components);
    assert_eq!(own["properties"], json!({ "x": {} }));
}

#[test]
fn which_properties_go_together_is_left_to_the_upstream() {
    let schema = json!({ "type": "object", "properties": { "a": {}, "b": {} }, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    assert_eq!(
        input_of(&schema, &json!({})),
        json!({ "type": "object", "properties": { "a": {}, "b": {} }, "additionalProperties": false })
    );
}

#[test]
fn outputs_keep_their_references_and_their_names() {
    let components = json!({
        "schemas": { "Pet": { "type": "object", "properties": { "+1": { "type": "integer" }, "mate": { "$ref": "#/components/schemas/Pet" } } } },
        "responses": { "Ok": { "description": "", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } } },
    });
    let tool = tool_with(json!({ "responses": { "200": { "$ref": "#/components/responses/Ok" } } }), &components);
    let output = tool.output_schema.unwrap();
    assert_eq!(output["properties"]["+1"], json!({ "type": "integer" }));
    assert_references_resolve(&output);
    for (media_type, kind) in [("text/plain", "string"), ("image/png", "object")] {
        let operation =
            json!({ "responses": { "200": { "content": { media_type: { "schema": { "type": "string" } } } } } });
        assert_eq!(tool_with(operation, &json!({})).output_schema.unwrap()["type"], kind);
    }
    assert_eq!(tool_with(json!({ "responses": { "204": {} } }), &json!({})).output_schema, None);
}
