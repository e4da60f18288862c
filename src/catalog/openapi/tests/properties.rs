use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{OPTIONS, document, http};
use crate::catalog::openapi::import_openapi;
use crate::catalog::openapi::request::build_request;
use crate::catalog::schema::check_arguments;

/// JSON that looks like schemas and parameters, with every kind of mistake.
fn anything() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "$ref",
        "required",
        "enum",
        "const",
        "nullable",
        "readOnly",
        "additionalProperties",
        "minimum",
        "exclusiveMinimum",
        "pattern",
        "format",
        "$defs",
        "default",
        "description",
        "name",
        "in",
        "schema",
        "content",
        "application/json",
        "multipart/form-data",
        "style",
        "explode",
        "encoding",
        "a",
        "b c",
        "$odd",
        "__proto__",
        "patternProperties",
        "prefixItems",
    ]);
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "integer",
            "null",
            "#/components/schemas/A",
            "#/components/schemas/B",
            "#/$defs/a",
            "#/nowhere",
            "other.json",
            "path",
            "query",
            "header",
            "cookie",
            "a",
            "b c",
            "binary",
            "deepObject",
            "matrix",
            "..",
            "",
        ])
        .prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keyword.clone(), inner), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, member)| (key.to_owned(), member)).collect())
            }),
        ]
    })
}

/// What every client needs of a schema, at every depth.
fn assert_fit_for_clients(root: &Value) {
    assert_eq!(root["type"], "object");
    assert!(["anyOf", "oneOf", "allOf", "$ref"].iter().all(|keyword| root.get(keyword).is_none()));
    let mut pending = vec![root];
    while let Some(schema) = pending.pop() {
        let Some(members) = schema.as_object() else { continue };
        assert!(members.get("oneOf").is_none() && members.get("nullable").is_none(), "{schema}");
        if let Some(reference) = members.get("$ref") {
            let name = reference.as_str().and_then(|reference| reference.strip_prefix("#/$defs/")).unwrap();
            assert!(root["$defs"].get(name).is_some(), "{reference}");
        }
        let is_array = members.get("type").is_some_and(|types| {
            types == "array" || types.as_array().is_some_and(|types| types.contains(&json!("array")))
        });
        assert!(!is_array || members.contains_key("items"), "{schema}");
        assert!(members.get("required").and_then(Value::as_array).is_none_or(|required| !required.is_empty()));
        for keyword in ["properties", "$defs", "patternProperties"] {
            for (key, member) in members.get(keyword).and_then(Value::as_object).unwrap_or(&Map::new()) {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
                assert!(
                    keyword != "properties" || !key.is_empty() && key.len() <= 64 && key.bytes().all(fits),
                    "{key}"
                );
                let _ = member;
            }
            pending.extend(members.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values));
        }
        for keyword in ["anyOf", "allOf", "prefixItems"] {
            pending.extend(members.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        pending.extend(["items", "additionalProperties", "not"].iter().filter_map(|keyword| members.get(*keyword)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_document_gives_tools_that_clients_take_and_calls_that_stay_at_home(
        body in anything(), parameters in prop::collection::vec(anything(), 0..3), a in anything(), b in anything(), arguments in anything(),
    ) {
        let described = json!([
            { "name": "a", "in": "path", "schema": a, "style": "matrix", "explode": true },
            { "name": "q[]", "in": "query", "schema": b, "style": "deepObject" },
            { "name": "h", "in": "header", "schema": body },
        ]);
        let operation = json!({ "parameters": described, "requestBody": { "content": { "application/json": { "schema": body }, "x": body } }, "responses": { "200": body } });
        let other = json!({ "parameters": a, "requestBody": b });
        let form = json!({ "requestBody": { "content": { "multipart/form-data": { "schema": body, "encoding": a } } } });
        let paths = json!({ "/things/{a}": { "post": operation, "put": other }, "/broken": { "get": { "parameters": parameters } }, "/form": { "post": form } });
        for version in ["3.0.0", "3.1.0"] {
            let mut document = document(&paths, &json!({ "schemas": { "A": a, "B": b } }));
            document["openapi"] = json!(version);
            let import = import_openapi(&document.to_string(), &OPTIONS).unwrap();
            prop_assert!(import.tools.len() >= 2, "{:?}", import.report);
            for tool in &import.tools {
                assert_fit_for_clients(&tool.input_schema);
                let _ = check_arguments(&tool.input_schema, arguments.clone());
                if let Ok(request) = build_request(http(tool), import.base_url.as_deref(), &arguments) {
                    prop_assert!(request.url.starts_with("https://api.example.com/v1/"), "{}", request.url);
                }
            }
        }
    }

    #[test]
    fn a_path_value_never_leaves_its_segment(value in ".*", reserved in any::<bool>()) {
        let parameter = json!({ "name": "id", "in": "path", "required": true, "allowReserved": reserved, "schema": { "type": "string" } });
        let paths = json!({ "/a/{id}/b": { "get": { "parameters": [parameter] } } });
        let import = import_openapi(&document(&paths, &json!({})).to_string(), &OPTIONS).unwrap();
        if let Ok(request) = build_request(http(&import.tools[0]), Some("https://api.example.com/v1"), &json!({ "id": value })) {
            let path = request.url.strip_prefix("https://api.example.com/v1/a/").unwrap();
            prop_assert!(path.ends_with("/b") && !path.contains(['?', '#']), "{path}");
            prop_assert!(reserved || path.matches('/').count() == 1, "{path}");
        }
    }
}
