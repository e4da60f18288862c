use serde_json::{Value, json};

use super::OPTIONS;
use crate::catalog::openapi::{ImportError, import_openapi, yaml::json_of};

fn value_of(yaml: &str) -> Value {
    serde_json::from_str(&json_of(yaml, 1_000_000).unwrap()).unwrap()
}

#[test]
fn scalars_are_what_the_core_schema_says() {
    for (yaml, json) in [
        ("2024-01-31", "\"2024-01-31\""),
        ("2024-01-31T10:00:00Z", "\"2024-01-31T10:00:00Z\""),
        ("12:30:45", "\"12:30:45\""),
        ("yes", "\"yes\""),
        ("on", "\"on\""),
        ("no", "\"no\""),
        ("null", "null"),
        ("~", "null"),
        ("", "null"),
        ("true", "true"),
        ("False", "false"),
        ("1", "1"),
        ("+1", "1"),
        ("-0", "-0"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1.10", "1.10"),
        (".5", "0.5"),
        ("1.", "1.0"),
        ("1e3", "1e3"),
        ("-1.5E-3", "-1.5e-3"),
        ("0x1F", "31"),
        ("0o17", "15"),
        ("007", "\"007\""),
        (".inf", "\".inf\""),
        ("1.2.3", "\"1.2.3\""),
        ("1_000", "\"1_000\""),
        ("e5", "\"e5\""),
        (".", "\".\""),
        ("'1'", "\"1\""),
        ("\"null\"", "\"null\""),
        ("\"a\\n\\u00fc\"", "\"a\\nü\""),
        ("!!str 1", "\"1\""),
        ("!!int '1'", "1"),
        ("!!timestamp 2024-01-31", "\"2024-01-31\""),
        ("!custom x", "\"x\""),
        ("http://a.example/#b", "\"http://a.example/#b\""),
        ("a # comment", "\"a\""),
        ("[1, two, {three: 3}]", "[1,\"two\",{\"three\":3}]"),
        ("|\n  line\n   more\n", "\"line\\n more\\n\""),
        (">-\n  folded\n  text\n", "\"folded text\""),
    ] {
        assert_eq!(json_of(&format!("k: {yaml}\n"), 1_000).unwrap(), format!("{{\"k\":{json}}}"), "{yaml}");
    }
}

#[test]
fn keys_are_text_whatever_they_look_like() {
    let yaml = "200: a\non: b\ntrue: c\n'x y': d\n1.10: e\n2024-01-01: f\n? g\n: h\n";
    assert_eq!(
        json_of(yaml, 1_000).unwrap(),
        r#"{"200":"a","on":"b","true":"c","x y":"d","1.10":"e","2024-01-01":"f","g":"h"}"#
    );
    assert!(json_of("? [a]\n: b\n", 1_000).is_err());
}

#[test]
fn anchors_aliases_and_merges_are_resolved() {
    let yaml = "base: &base {a: 1, b: 2}\nlist: &list [x, *base]\nkey: &key name\none: *list\n*key : v\n\
                own: {<<: *base, b: 3, c: 4}\nlate:\n  b: 5\n  <<: *base\nmany:\n  <<: [*base, {a: 9, z: 8}]\nnone: {<<: {}}\n";
    assert_eq!(
        value_of(yaml),
        json!({
            "base": { "a": 1, "b": 2 }, "list": ["x", { "a": 1, "b": 2 }], "key": "name", "one": ["x", { "a": 1, "b": 2 }], "name": "v",
            "own": { "a": 1, "b": 3, "c": 4 }, "late": { "a": 1, "b": 5 }, "many": { "a": 1, "z": 8, "b": 2 }, "none": {},
        })
    );
    assert!(json_of("a: {<<: 1}", 1_000).is_err());
}

#[test]
fn hostile_documents_end() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb = format!("{bomb}a{level}: &a{level} [{before}]\n");
    }
    assert!(matches!(json_of(&bomb, 100_000), Err(ImportError::TooLarge { .. })));
    assert!(json_of(&"[".repeat(100_000), 1_000_000).is_err());
    let deep = (0..300).fold("k:\n".to_owned(), |text, level| text + &" ".repeat(level) + "-\n");
    assert!(matches!(json_of(&deep, 1_000_000), Err(ImportError::TooDeep { .. })));
    assert!(matches!(json_of("a: &a [*a]", 1_000), Err(ImportError::Unreadable { .. })));
    assert!(matches!(json_of("a: *nope", 1_000), Err(ImportError::Unreadable { .. })));
    assert!(matches!(json_of("a: [1, 2", 1_000), Err(ImportError::Unreadable { .. })));
    let nested = (0..200).fold(String::new(), |text, level| text + &"  ".repeat(level) + "k:\n");
    assert!(json_of(&nested, 1_000_000).is_ok());
}

#[test]
fn a_yaml_document_is_imported_like_its_json() {
    let yaml = "
openapi: 3.0.3
info: {title: Pets, version: 1.10}
servers:
  - url: https://pets.example/v1
paths:
  /pets/{id}:
    get:
      operationId: getPet
      parameters:
        - {name: id, in: path, required: true, schema: {type: string, default: 2024-01-31}}
      responses:
        200:
          description: ok
          content:
            application/json:
              schema: {type: object, properties: {on: {type: boolean}}}
";
    let import = import_openapi(yaml, &OPTIONS).unwrap();
    assert_eq!((import.title.as_deref(), import.base_url.as_deref()), (Some("Pets"), Some("https://pets.example/v1")));
    let tool = &import.tools[0];
    assert_eq!(tool.address, "api.getPet");
    assert_eq!(tool.input_schema["properties"]["id"]["default"], "2024-01-31");
    assert_eq!(tool.output_schema.as_ref().unwrap()["properties"]["on"]["type"], "boolean");
    let json = serde_json::to_string(&value_of(yaml)).unwrap();
    assert_eq!(import_openapi(&json, &OPTIONS).unwrap(), import);
    let swagger = "swagger: 2.0\nhost: a.example\npaths: {/: {get: {}}}\n";
    assert_eq!(import_openapi(swagger, &OPTIONS).unwrap().base_url.as_deref(), Some("https://a.example"));
    for not_open_api in ["<html></html>", "just text", "[1]", "", "- a"] {
        assert!(
            matches!(import_openapi(not_open_api, &OPTIONS), Err(ImportError::NotOpenApi { .. })),
            "{not_open_api}"
        );
    }
}
