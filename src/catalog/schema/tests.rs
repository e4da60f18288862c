use serde_json::{Value, json};

use super::{ArgumentFault, check_arguments, input_for_clients, output_for_clients};
use crate::json::json_depth_within;

fn check(schema: &Value, arguments: &str) -> Result<Value, Vec<ArgumentFault>> {
    check_arguments(schema, serde_json::from_str(arguments).unwrap())
}

/// `path message` of each fault.
fn faults(schema: &Value, arguments: &str) -> Vec<String> {
    let faults = check(schema, arguments).err().unwrap_or_default();
    faults.into_iter().map(|fault| format!("{} {}", fault.path, fault.message)).collect()
}

#[test]
fn each_keyword_refuses_what_it_should() {
    let rows: [(Value, &[&str], &[&str]); 31] = [
        (json!({ "type": "string" }), &["\"\"", "\"x\""], &["1", "null", "[]"]),
        (
            json!({ "type": "integer" }),
            &["1", "1.0", "1e3", "-12345678901234567890123"],
            &["1.5", "\"1\"", "1e-1", "true"],
        ),
        (json!({ "type": "number" }), &["1", "1.5"], &["\"1\""]),
        (json!({ "type": ["string", "null"] }), &["null", "\"\""], &["1"]),
        (json!({ "type": "boolean" }), &["true"], &["\"true\"", "0"]),
        (
            json!({ "enum": ["a", 1, null, { "k": [1] }] }),
            &["\"a\"", "1.0", "null", "{\"k\":[1.0]}"],
            &["\"b\"", "2", "{\"k\":[]}"],
        ),
        (json!({ "const": 1.0 }), &["1", "1.00", "10e-1"], &["1.0000000000000000000001", "\"1\""]),
        (
            json!({ "minimum": 9_007_199_254_740_993_u64 }),
            &["9007199254740993", "9007199254740994"],
            &["9007199254740992", "9007199254740992.9"],
        ),
        (json!({ "maximum": -0.5 }), &["-0.5", "-1", "-1e400"], &["-0.49", "0", "1e400"]),
        (json!({ "exclusiveMinimum": 0 }), &["1e-400", "1"], &["0", "-0.0", "-1"]),
        (json!({ "exclusiveMaximum": 10 }), &["9.999"], &["10", "1e1", "11"]),
        (json!({ "multipleOf": 0.01 }), &["0.07", "19.99", "-3", "0"], &["0.075", "1e-3"]),
        (json!({ "minLength": 2, "maxLength": 3 }), &["\"üü\"", "\"日本語\""], &["\"ü\"", "\"abcd\""]),
        (json!({ "pattern": "^[a-z]+$" }), &["\"abc\"", "1"], &["\"ABC\"", "\"\""]),
        (json!({ "pattern": "b" }), &["\"abc\""], &["\"ac\""]),
        (json!({ "pattern": "^(?=x)" }), &["\"y\""], &[]),
        (json!({ "minItems": 1, "maxItems": 2 }), &["[1]", "[1,2]"], &["[]", "[1,2,3]"]),
        (
            json!({ "uniqueItems": true }),
            &["[1,2]", "[\"1\",1]", "[{\"a\":1},{\"a\":2}]"],
            &["[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"],
        ),
        (json!({ "items": { "type": "integer" } }), &["[]", "[1,2]"], &["[1,\"2\"]"]),
        (
            json!({ "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } }),
            &["[\"a\",1]"],
            &["[1]", "[\"a\",\"b\"]"],
        ),
        (json!({ "required": ["a"] }), &["{\"a\":null}", "[]"], &["{}"]),
        (json!({ "properties": { "a": { "type": "string" } } }), &["{\"a\":\"x\",\"b\":1}"], &["{\"a\":1}"]),
        (json!({ "properties": { "a": {} }, "additionalProperties": false }), &["{\"a\":1}"], &["{\"b\":1}"]),
        (json!({ "additionalProperties": { "type": "integer" } }), &["{\"a\":1}"], &["{\"a\":\"1\"}"]),
        (
            json!({ "patternProperties": { "^x-": { "type": "string" } }, "additionalProperties": false }),
            &["{\"x-a\":\"1\"}"],
            &["{\"x-a\":1}", "{\"y\":1}"],
        ),
        (json!({ "minProperties": 1, "maxProperties": 1 }), &["{\"a\":1}"], &["{}", "{\"a\":1,\"b\":2}"]),
        (json!({ "allOf": [{ "type": "integer" }, { "minimum": 3 }] }), &["3"], &["2", "\"3\""]),
        (
            json!({ "anyOf": [{ "type": "integer" }, { "type": "string", "minLength": 2 }] }),
            &["3", "\"ab\""],
            &["true", "\"a\""],
        ),
        (json!({ "oneOf": [{ "minimum": 3 }, { "multipleOf": 2 }] }), &["2", "3"], &["4", "1"]),
        (json!({ "not": { "type": "null" } }), &["1"], &["null"]),
        (
            json!({ "$ref": "#/$defs/Tree", "$defs": { "Tree": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } } }),
            &["[[],[[]]]"],
            &["[1]", "[[[1]]]"],
        ),
    ];
    for (schema, good, bad) in rows {
        for good in good {
            assert_eq!(check(&schema, good), Ok(serde_json::from_str(good).unwrap()), "{schema}");
        }
        for bad in bad {
            assert!(check(&schema, bad).is_err(), "{schema} took {bad}");
        }
    }
}

#[test]
fn faults_say_where_and_what() {
    let schema = json!({
        "type": "object", "required": ["name", "items"], "additionalProperties": false,
        "properties": {
            "name": { "type": "string" }, "dueDate": { "type": "string" }, "kind": { "enum": ["a", "b"] },
            "items": { "type": "array", "items": { "type": "object", "required": ["id"], "properties": { "id": { "type": "integer", "minimum": 1 } } } },
            "or": { "anyOf": [{ "type": "string" }, { "type": "object", "properties": { "deep": { "type": "integer" } } }] },
            "a/b~c": { "type": "integer" },
        },
    });
    for (arguments, expected) in [
        (
            r#"{"items":[{"id":0},{}]}"#,
            vec!["/name is required", "/items/0/id must be at least 1", "/items/1/id is required"],
        ),
        (r#"{"name":1,"items":[]}"#, vec!["/name must be string, not number"]),
        (r#"{"name":"","items":[],"due_date":1}"#, vec!["/due_date is not known; did you mean \"dueDate\"?"]),
        (
            r#"{"name":"","items":[],"zzz":1}"#,
            vec!["/zzz is not known; known are name, dueDate, kind, items, or, a/b~c"],
        ),
        (r#"{"name":"","items":[],"kind":"c"}"#, vec!["/kind must be one of \"a\", \"b\""]),
        (r#"{"name":"","items":[],"or":{"deep":"x"}}"#, vec!["/or/deep must be integer, not string"]),
        (
            r#"{"name":"","items":[],"or":true}"#,
            vec!["/or has none of the allowed forms; of one: must be string, not boolean"],
        ),
        (r#"{"name":"","items":[],"a/b~c":"x"}"#, vec!["/a~1b~0c must be integer, not string"]),
        ("[]", vec![" must be object, not array"]),
    ] {
        assert_eq!(faults(&schema, arguments), expected);
    }
}

#[test]
fn json_strings_are_parsed_where_no_string_is_allowed_and_the_value_fits() {
    let tree = json!({ "type": "object", "required": ["v"], "additionalProperties": false, "properties": { "v": { "type": "integer" }, "next": { "$ref": "#/$defs/Tree" } } });
    let schema = json!({
        "type": "object", "additionalProperties": false, "$defs": { "Tree": tree },
        "properties": {
            "object": { "type": "object" }, "array": { "type": "array", "items": { "type": "object" } }, "text": { "type": "string" },
            "any": {}, "or": { "anyOf": [{ "type": "array" }, { "type": "null" }] }, "or_text": { "anyOf": [{ "type": "array" }, { "type": "string" }] },
            "tree": { "$ref": "#/$defs/Tree" }, "number": { "type": "integer" }, "nullable": { "type": ["object", "null"] },
        },
    });
    for (arguments, expected) in [
        (r#"{"object":"{\"a\":12345678901234567890.10}"}"#, Some(r#"{"object":{"a":12345678901234567890.10}}"#)),
        (r#"{"array":" [ {} ] "}"#, Some(r#"{"array":[{}]}"#)),
        (r#"{"array":["{\"a\":1}"]}"#, Some(r#"{"array":[{"a":1}]}"#)),
        (r#"{"array":"[\"{}\"]"}"#, Some(r#"{"array":[{}]}"#)),
        (r#"{"tree":"{\"v\":1,\"next\":\"{\\\"v\\\":2}\"}"}"#, Some(r#"{"tree":{"v":1,"next":{"v":2}}}"#)),
        (r#"{"or":"[1]"}"#, Some(r#"{"or":[1]}"#)),
        (r#"{"nullable":"{}"}"#, Some(r#"{"nullable":{}}"#)),
        (r#""{\"text\":\"x\"}""#, Some(r#"{"text":"x"}"#)),
        (r#"{"text":"{\"a\":1}"}"#, Some(r#"{"text":"{\"a\":1}"}"#)),
        (r#"{"any":"[1]"}"#, Some(r#"{"any":"[1]"}"#)),
        (r#"{"or_text":"[1]"}"#, Some(r#"{"or_text":"[1]"}"#)),
        (r#"{"tree":"{\"v\":\"x\"}"}"#, None),
        (r#"{"array":"{}"}"#, None),
        (r#"{"number":"1"}"#, None),
        (r#"{"object":"{broken"}"#, None),
    ] {
        let expected = expected.map(|expected| serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(check(&schema, arguments).ok(), expected, "{arguments}");
    }
}

#[test]
fn hostile_schemas_and_values_end() {
    let looping = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "$ref": "#/$defs/B" }, "B": { "allOf": [{ "$ref": "#/$defs/A" }] } } });
    assert!(check(&looping, "{}").is_err());
    let branching = json!({
        "$ref": "#/$defs/N",
        "$defs": { "N": { "anyOf": [
            { "type": "object", "properties": { "a": { "$ref": "#/$defs/N" } }, "required": ["x"] },
            { "type": "object", "properties": { "a": { "$ref": "#/$defs/N" } }, "required": ["y"] },
            { "type": "object", "properties": { "a": { "$ref": "#/$defs/N" } }, "required": ["z"] },
        ] } },
    });
    let deep = format!("{}1{}", "{\"a\":".repeat(60), "}".repeat(60));
    assert_eq!(faults(&branching, &deep), [" too large or too nested to be checked"]);
    let slow = json!({ "type": "string", "pattern": "^(a+)+$" });
    assert!(check(&slow, &format!("\"{}b\"", "a".repeat(50_000))).is_err());
    let huge_pattern = json!({ "type": "string", "pattern": "(a{1000}){1000}" });
    assert!(check(&huge_pattern, "\"b\"").is_ok());
    let many = format!("[{}]", vec!["\"x\""; 100].join(","));
    assert_eq!(faults(&json!({ "items": { "type": "integer" } }), &many).len(), 20);
    let nested = format!("\"{}{}\"", "[".repeat(200), "]".repeat(200));
    assert!(check(&json!({ "type": "array" }), &nested).is_err());
}

#[test]
fn depth_is_counted_outside_strings_only() {
    for (text, depth) in [
        ("1", 0),
        ("[]", 1),
        (r#"{"a":[1,{"b":[]}]}"#, 4),
        (r#"["[[[[","\"[[[",{}]"#, 2),
        (r#"["\\",[]]"#, 2),
        ("[[]][[]]", 2),
        ("]]]][[", 2),
    ] {
        assert!(json_depth_within(text, depth), "{text}");
        assert!(depth == 0 || !json_depth_within(text, depth - 1), "{text}");
    }
    assert!(!json_depth_within(&"[".repeat(10_000_000), 256));
}

#[test]
fn schemas_of_other_servers_get_a_root_that_every_client_takes() {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let rows = [
        (json!({}), object(json!({}))),
        (json!({ "type": "string" }), object(json!({}))),
        (json!(true), object(json!({}))),
        (
            json!({ "$schema": "x", "type": "object", "properties": { "a": { "type": "array", "readOnly": true } }, "required": ["a"], "additionalProperties": false }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "array", "items": {} } }, "additionalProperties": false }),
        ),
        (
            json!({ "anyOf": [object(json!({ "a": { "type": "string" } })), { "type": "object", "properties": { "b": {} }, "required": ["b"] }] }),
            object(json!({ "a": { "type": "string" }, "b": {} })),
        ),
        (
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "oneOf": [
                { "properties": { "k": { "const": 1 }, "x": {} }, "required": ["k", "x"] }, { "properties": { "k": { "const": 2 } }, "required": ["k"] } ] }),
            json!({ "type": "object", "required": ["a", "k"], "properties": { "a": {}, "k": { "anyOf": [{ "const": 1 }, { "const": 2 }] }, "x": {} } }),
        ),
        (
            json!({ "$ref": "#/definitions/A", "definitions": { "A": { "type": "object", "properties": { "next": { "$ref": "#/definitions/A" } } } } }),
            json!({ "type": "object", "properties": { "next": { "$ref": "#/$defs/A" } }, "$defs": { "A": object(json!({ "next": { "$ref": "#/$defs/A" } })) } }),
        ),
        (
            json!({ "type": "object", "properties": { "$odd": {}, "fine": {} }, "required": ["$odd"], "additionalProperties": false }),
            json!({ "type": "object", "required": ["_24odd"], "properties": { "_24odd": {}, "fine": {} }, "additionalProperties": false }),
        ),
        (
            json!({ "type": "object", "properties": { "bad": { "$ref": "http://x" }, "root": { "$ref": "#/properties/leaf" }, "leaf": { "type": "string" } } }),
            object(json!({ "bad": {}, "root": { "type": "string" }, "leaf": { "type": "string" } })),
        ),
    ];
    for (schema, expected) in rows {
        assert_eq!(input_for_clients(&schema, 10_000), expected, "{schema}");
    }
    assert_eq!(output_for_clients(&json!({ "type": "string" }), 10_000), None);
    assert_eq!(
        output_for_clients(&json!({ "properties": { "$odd": {} } }), 10_000),
        Some(object(json!({ "$odd": {} })))
    );
}
