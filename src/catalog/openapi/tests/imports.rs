use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{OPTIONS, body_text, document, header, http, import, request, tool_with};
use crate::catalog::openapi::request::build_request;
use crate::catalog::openapi::{Import, ImportError, ImportLimits, ImportOptions, ReportAction, import_openapi};
use crate::catalog::tool::{BodyFormat, ToolHints};

fn addresses(import: &Import) -> Vec<&str> {
    import.tools.iter().map(|tool| tool.address.as_str()).collect()
}

fn skipped(import: &Import) -> Vec<(&str, &str)> {
    let skipped = import.report.iter().filter(|entry| entry.action == ReportAction::Skipped);
    skipped.map(|entry| (entry.operation.as_deref().unwrap_or_default(), entry.why.as_str())).collect()
}

fn operations_named(ids: &[&str]) -> Value {
    let paths =
        ids.iter().enumerate().map(|(index, id)| (format!("/p{index}"), json!({ "get": { "operationId": id } })));
    Value::Object(paths.collect())
}

#[test]
fn names_come_from_operation_ids_or_method_and_path() {
    for (id, expected) in [
        ("listPets", "api.listPets"),
        ("repos/list-for-org", "api.repos.list_for_org"),
        ("Users#index", "api.Users.index"),
        ("pets:list", "api.pets.list"),
        ("list pets (all)", "api.list_pets_all"),
        ("read_item_items__item_id__get", "api.read_item_items__item_id__get"),
        ("2fa.enable", "api._2fa.enable"),
        ("then", "api.then_"),
        ("a.constructor", "api.a.constructor_"),
        ("__proto__", "api.__proto___"),
        ("日本", "api.get_p0"),
        ("...", "api.get_p0"),
    ] {
        assert_eq!(addresses(&import(&document(&operations_named(&[id]), &json!({})))), [expected], "{id}");
    }
    let paths = json!({ "/users/{id}/posts.json": { "get": {}, "post": {} }, "/": { "delete": {} } });
    let import = import(&document(&paths, &json!({})));
    assert_eq!(addresses(&import), ["api.get_users_id_posts_json", "api.post_users_id_posts_json", "api.delete"]);
}

#[test]
fn every_tool_has_a_name_of_its_own_whatever_the_order() {
    let ids = ["foo/list", "foo.list", "foo_list", "dup", "dup", "a-b", "a_b"];
    let forward = import(&document(&operations_named(&ids), &json!({})));
    let mut names = addresses(&forward);
    assert_eq!(names[1], "api.foo.list");
    assert_eq!(names[2], "api.foo_list");
    assert_eq!(names[6], "api.a_b");
    assert!(
        names[0].starts_with("api.foo.list_") && names[3].starts_with("api.dup_") && names[4].starts_with("api.dup_")
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ids.len());

    let mut paths: Vec<(String, Value)> =
        operations_named(&ids).as_object().unwrap().iter().map(|(path, item)| (path.clone(), item.clone())).collect();
    paths.reverse();
    let backward = import(&document(&Value::Object(paths.into_iter().collect()), &json!({})));
    let mut reversed = addresses(&backward);
    reversed.sort_unstable();
    assert_eq!(reversed, names);
}

#[test]
fn known_operations_keep_their_names() {
    let known = BTreeMap::from([("GET /p0".to_owned(), "old_name".to_owned()), ("GET /p1".to_owned(), "b".to_owned())]);
    let document = document(&operations_named(&["a", "c", "b", "old_name"]), &json!({})).to_string();
    let import = import_openapi(&document, &ImportOptions { known_names: Some(&known), ..OPTIONS }).unwrap();
    let names = addresses(&import);
    assert_eq!(names[..2], ["api.old_name", "api.b"]);
    assert!(names[2].starts_with("api.b_") && names[3].starts_with("api.old_name_"), "{names:?}");
}

#[test]
fn long_names_are_cut_with_a_hash() {
    let (one, two) = (format!("{}a", "x".repeat(200)), format!("{}b", "x".repeat(200)));
    let import = import(&document(&operations_named(&[&one, &two]), &json!({})));
    let names = addresses(&import);
    assert!(names.iter().all(|name| name.len() <= "api.".len() + 96));
    assert_ne!(names[0], names[1]);
}

#[test]
fn parameters_of_the_path_count_and_the_operation_overrides_them() {
    let paths = json!({ "/pets/{id}": {
        "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "limit", "in": "query", "schema": { "type": "string" } },
            { "$ref": "#/components/parameters/Page" },
        ],
        "get": { "parameters": [{ "name": "limit", "in": "query", "required": true, "schema": { "type": "integer" } }] },
    } });
    let components = json!({ "parameters": { "Page": { "$ref": "#/components/parameters/RealPage" }, "RealPage": { "name": "page", "in": "query", "schema": { "type": "integer" } } } });
    let schema = import(&document(&paths, &components)).tools[0].input_schema.clone();
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": { "id": { "type": "string" }, "limit": { "type": "integer" }, "page": { "type": "integer" } },
            "required": ["id", "limit"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn places_and_parameters_that_do_not_match_are_put_right() {
    let paths = json!({ "/a/{x}/{y}": { "get": { "parameters": [
        { "name": "x", "in": "path", "schema": { "type": "integer" } }, { "name": "z", "in": "path", "schema": {} },
    ] } } });
    let import = import(&document(&paths, &json!({})));
    assert_eq!(
        import.tools[0].input_schema["properties"],
        json!({ "x": { "type": "integer" }, "y": { "type": "string" } })
    );
    assert_eq!(import.tools[0].input_schema["required"], json!(["x", "y"]));
    assert_eq!(import.report.iter().filter(|entry| entry.action == ReportAction::Changed).count(), 2);
}

#[test]
fn a_broken_operation_is_skipped_and_the_rest_stays() {
    let paths = json!({
        "/good": { "get": { "operationId": "good" } },
        "/null": { "get": null },
        "/list": { "get": [] },
        "/nameless": { "get": { "parameters": [{ "in": "query" }] } },
        "/nowhere": { "get": { "parameters": [{ "$ref": "#/components/parameters/Nope" }] } },
        "/outside": { "get": { "parameters": [{ "$ref": "other.yaml#/X" }] } },
        "/loop": { "get": { "parameters": [{ "$ref": "#/components/parameters/Loop" }] } },
        "/place": { "get": { "parameters": [{ "name": "x", "in": "pocket" }] } },
        "/{open": { "get": {} },
        "/trace": { "trace": {} },
        "/body": { "get": { "requestBody": { "required": true, "content": { "application/json": {} } } } },
        "/text": "not an object",
        "/servers": { "get": { "servers": [{ "url": "ftp://files.example" }] } },
        "/dots/../up": { "get": {} },
        "/fine": { "post": { "operationId": "fine", "tags": 7, "responses": "?", "parameters": {}, "summary": 1 } },
        "x-note": {},
    });
    let components = json!({ "parameters": { "Loop": { "$ref": "#/components/parameters/Loop" } } });
    let import = import(&document(&paths, &components));
    assert_eq!(addresses(&import), ["api.good", "api.fine"]);
    let mut skipped: Vec<&str> = skipped(&import).into_iter().map(|(operation, _)| operation).collect();
    skipped.sort_unstable();
    assert_eq!(
        skipped,
        [
            "/text",
            "GET /body",
            "GET /dots/../up",
            "GET /list",
            "GET /loop",
            "GET /nameless",
            "GET /nowhere",
            "GET /null",
            "GET /outside",
            "GET /place",
            "GET /servers",
            "GET /{open",
            "TRACE /trace",
        ]
    );
}

#[test]
fn an_operation_that_nests_too_deep_is_skipped() {
    let mut schema = json!({});
    for _ in 0..70 {
        schema = json!({ "properties": { "a": schema } });
    }
    let deep = json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
    let paths = json!({ "/deep": { "post": deep }, "/good": { "get": { "operationId": "good" } } });
    let import = import(&document(&paths, &json!({})));
    assert_eq!(addresses(&import), ["api.good"]);
}

#[test]
fn documents_that_cannot_be_read_say_why() {
    let limits = ImportLimits { document_bytes: 10_000, ..OPTIONS.limits };
    let read = |text: &str| import_openapi(text, &ImportOptions { limits, ..OPTIONS }).unwrap_err();
    assert_eq!(read(&" ".repeat(10_001)), ImportError::TooLarge { size: 10_001, limit: 10_000 });
    let deep = format!("{{\"openapi\":{}{}}}", "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(read(&deep), ImportError::TooDeep { limit: 256 });
    assert!(matches!(read("{\"openapi\": \"3.0.0\","), ImportError::Unreadable { .. }));
    for not_open_api in [
        "{}",
        "{\"openapi\":\"4.0.0\"}",
        "{\"swagger\":\"1.2\"}",
        "{\"openapi\":\"3.0.0\"}",
        "{\"openapi\":\"3.0.0\",\"paths\":[]}",
    ] {
        assert!(matches!(read(not_open_api), ImportError::NotOpenApi { .. }), "{not_open_api}");
    }
    let webhooks_only = import_openapi(r#"{"openapi":"3.1.0","info":{"title":"T"}}"#, &OPTIONS).unwrap();
    assert!(webhooks_only.tools.is_empty());
}

#[test]
fn tools_beyond_the_limit_are_reported() {
    let document = document(&operations_named(&["a", "b", "c"]), &json!({})).to_string();
    let limits = ImportLimits { tools: 2, ..OPTIONS.limits };
    let import = import_openapi(&document, &ImportOptions { limits, ..OPTIONS }).unwrap();
    assert_eq!(addresses(&import), ["api.a", "api.b"]);
    assert_eq!(skipped(&import), [("GET /p2", "the limit is 2 tools a source")]);
}

#[test]
fn servers_become_bases() {
    let server = |url: &str| json!([{ "url": url }]);
    let region = json!([{ "url": "https://{region}.example.com:{port}/{base}/", "variables": {
        "region": { "default": "eu" }, "port": { "default": 8443 }, "base": { "enum": ["v2", "v1"] } } }]);
    // Servers, stated base, document's URL, resulting base.
    let rows = [
        (server("https://a.example/v1/"), None, None, Some("https://a.example/v1")),
        (region, None, None, Some("https://eu.example.com:8443/v2")),
        (server("/v1"), None, Some("https://docs.example/x/openapi.json"), Some("https://docs.example/v1")),
        (server("v1"), None, Some("https://docs.example/x/openapi.json"), Some("https://docs.example/x/v1")),
        (server("/v1"), None, None, None),
        (json!([]), None, Some("https://docs.example/x/openapi.json"), Some("https://docs.example")),
        (server("//a.example/v1"), None, None, Some("https://a.example/v1")),
        (server("a.example.com/v1"), None, Some("https://docs.example/"), Some("https://a.example.com/v1")),
        (server("https://user:pw@a.example/?q=1#f"), None, None, Some("https://a.example")),
        (json!([{ "url": "wss://a.example" }, { "url": "https://b.example" }]), None, None, Some("https://b.example")),
        (server("https://{nope}.example"), None, None, None),
        (server("https://a.example"), Some("https://mine.example/api/"), None, Some("https://mine.example/api")),
        (server("https://a.example"), Some("not a url"), None, None),
    ];
    for (servers, stated, document_url, expected) in rows {
        let mut document = document(&operations_named(&["a"]), &json!({}));
        document["servers"] = servers.clone();
        let options = ImportOptions { base_url: stated, document_url, ..OPTIONS };
        let import = import_openapi(&document.to_string(), &options).unwrap();
        assert_eq!(import.base_url.as_deref(), expected, "{servers}");
        assert_eq!(import.tools.len(), 1);
        assert_eq!(import.report.is_empty(), expected.is_some());
    }
}

#[test]
fn servers_of_paths_and_operations_override_the_root() {
    let paths = json!({
        "/root": { "get": {} },
        "/same": { "get": { "servers": [{ "url": "https://api.example.com/v1" }] } },
        "/path": { "servers": [{ "url": "https://path.example" }], "get": {}, "post": { "servers": [{ "url": "https://op.example/x/" }] } },
        "/relative": { "get": { "servers": [{ "url": "/v9" }] } },
    });
    let import = import(&document(&paths, &json!({})));
    let urls: Vec<String> = import
        .tools
        .iter()
        .map(|tool| build_request(http(tool), import.base_url.as_deref(), &json!({})).unwrap().url)
        .collect();
    assert_eq!(
        urls,
        [
            "https://api.example.com/v1/root",
            "https://api.example.com/v1/same",
            "https://path.example/path",
            "https://op.example/x/path",
            "https://api.example.com/v9/relative",
        ]
    );
    assert_eq!(import.origins, ["https://api.example.com", "https://op.example", "https://path.example"]);
}

#[test]
fn a_path_item_may_be_a_reference() {
    let mut document = document(
        &json!({ "/a": { "$ref": "#/components/pathItems/Shared" }, "/b": { "$ref": "#/components/pathItems/Nope" } }),
        &json!({ "pathItems": { "Shared": { "parameters": [{ "name": "q", "in": "query", "schema": {} }], "get": { "operationId": "shared" } } } }),
    );
    document["openapi"] = json!("3.1.1");
    let import = import(&document);
    assert_eq!(addresses(&import), ["api.shared"]);
    assert!(import.tools[0].input_schema["properties"].get("q").is_some());
    assert_eq!(skipped(&import)[0].0, "/b");
}

#[test]
fn what_carries_credentials_is_not_an_argument() {
    let paths = json!({ "/a": { "get": { "parameters": [
        { "name": "X-Api-Key", "in": "header", "required": true, "schema": {} },
        { "name": "key", "in": "query", "schema": {} },
        { "name": "Authorization", "in": "header", "schema": {} },
        { "name": "Cookie", "in": "header", "schema": {} },
        { "name": "Host", "in": "header", "schema": {} },
        { "name": "Content-Type", "in": "header", "schema": {} },
        { "name": "q", "in": "query", "schema": {} },
    ] } } });
    let components = json!({ "securitySchemes": {
        "a": { "type": "apiKey", "in": "header", "name": "x-api-key" }, "b": { "type": "apiKey", "in": "query", "name": "key" }, "c": { "type": "http", "scheme": "bearer" },
    } });
    let import = import(&document(&paths, &components));
    assert_eq!(import.tools[0].input_schema["properties"], json!({ "q": {} }));
    assert_eq!(import.tools[0].input_schema.get("required"), None);
}

#[test]
fn names_and_media_types_that_would_start_another_line_are_left_out() {
    let operation = json!({
        "parameters": [
            { "name": "X-A\r\nX-Evil", "in": "header", "schema": {} },
            { "name": "a; b", "in": "cookie", "schema": {} },
            { "name": "ok", "in": "header", "schema": {} },
        ],
        "requestBody": { "content": { "application/json\r\nX-Evil: 1": { "schema": {} }, "text/plain": { "schema": {} } } },
    });
    let tool = tool_with(operation, &json!({}));
    let keys: Vec<&String> = tool.input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ok", "body"]);
    assert_eq!(http(&tool).body.as_ref().unwrap().media_type, "text/plain");
}

#[test]
fn swagger_2_documents_are_read() {
    let document = json!({
        "swagger": "2.0",
        "info": { "title": "Old" },
        "host": "old.example", "basePath": "/api/", "schemes": ["http", "https"],
        "consumes": ["application/json"], "produces": ["application/json"],
        "parameters": { "Limit": { "name": "limit", "in": "query", "type": "integer", "format": "int64", "maximum": 5, "exclusiveMaximum": true } },
        "definitions": { "Pet": { "type": "object", "required": ["name", "id"], "properties": {
            "id": { "type": "integer", "readOnly": true }, "name": { "type": "string" }, "mother": { "$ref": "#/definitions/Pet" } } } },
        "responses": { "Pet": { "description": "", "schema": { "$ref": "#/definitions/Pet" } } },
        "paths": {
            "/pets": {
                "get": { "operationId": "list", "parameters": [
                    { "$ref": "#/parameters/Limit" },
                    { "name": "csv", "in": "query", "type": "array", "items": { "type": "string" } },
                    { "name": "ssv", "in": "query", "type": "array", "collectionFormat": "ssv" },
                    { "name": "tsv", "in": "query", "type": "array", "collectionFormat": "tsv" },
                    { "name": "pipes", "in": "query", "type": "array", "collectionFormat": "pipes" },
                    { "name": "multi", "in": "query", "type": "array", "collectionFormat": "multi" },
                ] },
                "post": { "operationId": "create", "parameters": [{ "name": "pet", "in": "body", "required": true, "schema": { "$ref": "#/definitions/Pet" } }], "responses": { "200": { "$ref": "#/responses/Pet" } } },
            },
            "/form": { "post": { "operationId": "form", "consumes": ["application/x-www-form-urlencoded"], "parameters": [
                { "name": "a", "in": "formData", "type": "string", "required": true }, { "name": "b", "in": "formData", "type": "array", "items": { "type": "string" } } ] } },
            "/upload/{id}": { "post": { "operationId": "upload", "parameters": [
                { "name": "id", "in": "path", "type": "string", "required": true },
                { "name": "file", "in": "formData", "type": "file", "description": "The file", "required": true }, { "name": "note", "in": "formData", "type": "string" } ] } },
        },
    });
    let import = import(&document);
    assert_eq!((import.title.as_deref(), import.base_url.as_deref()), (Some("Old"), Some("https://old.example/api")));
    assert_eq!(addresses(&import), ["api.list", "api.create", "api.form", "api.upload"]);
    let [list, create, form, upload] = import.tools.as_slice() else { panic!("four tools") };

    assert_eq!(
        list.input_schema["properties"]["limit"],
        json!({ "type": "integer", "format": "int64", "exclusiveMaximum": 5 })
    );
    assert_eq!(list.input_schema["properties"]["ssv"]["items"], json!({}));
    let both = json!(["x", "y"]);
    let written =
        request(list, &json!({ "csv": both, "ssv": both, "tsv": both, "pipes": both, "multi": both })).unwrap();
    assert!(written.url.ends_with("/pets?csv=x,y&ssv=x%20y&tsv=x%09y&pipes=x%7Cy&multi=x&multi=y"), "{}", written.url);

    assert_eq!(create.input_schema["required"], json!(["name"]));
    assert_eq!(create.input_schema["properties"]["mother"], json!({ "$ref": "#/$defs/Pet" }));
    assert_eq!(create.output_schema.as_ref().unwrap()["properties"]["id"]["type"], "integer");
    let written = request(create, &json!({ "name": "Rex" })).unwrap();
    assert_eq!(
        (header(&written, "content-type"), body_text(&written).as_str()),
        (Some("application/json"), r#"{"name":"Rex"}"#)
    );

    assert_eq!(body_text(&request(form, &json!({ "a": "x", "b": ["1", "2"] })).unwrap()), "a=x&b=1,2");

    assert_eq!(http(upload).body.as_ref().unwrap().format, BodyFormat::Multipart);
    assert_eq!(upload.input_schema["properties"]["file"]["description"], "The file");
    assert_eq!(upload.input_schema["required"], json!(["id", "file"]));
    let written = body_text(
        &request(upload, &json!({ "id": "1", "file": { "encoding": "utf8", "data": "hello" }, "note": "n" })).unwrap(),
    );
    assert!(
        written.contains("filename=\"file\"")
            && written.contains("\r\n\r\nhello\r\n")
            && written.contains("name=\"note\"\r\n\r\nn\r\n")
    );
}

#[test]
fn later_methods_of_3_2_are_read() {
    let paths = json!({ "/a": { "query": { "operationId": "q" }, "additionalOperations": { "COPY": { "operationId": "c" }, "LINK": [] } } });
    let mut document = document(&paths, &json!({}));
    document["openapi"] = json!("3.2.0");
    let import = import(&document);
    assert_eq!(addresses(&import), ["api.q", "api.c"]);
    assert_eq!(http(&import.tools[1]).method, "COPY");
    assert!(import.tools[0].hints.read_only && !import.tools[1].hints.read_only);
}

#[test]
fn hints_follow_the_method() {
    let hints = |read_only, destructive, idempotent| ToolHints { read_only, destructive, idempotent };
    for (method, expected) in [
        ("get", hints(true, false, true)),
        ("head", hints(true, false, true)),
        ("options", hints(true, false, true)),
        ("post", hints(false, false, false)),
        ("put", hints(false, true, true)),
        ("patch", hints(false, true, false)),
        ("delete", hints(false, true, true)),
    ] {
        let import = import(&document(&json!({ "/a": { method: {} } }), &json!({})));
        assert_eq!(import.tools[0].hints, expected, "{method}");
    }
}

#[test]
fn descriptions_say_what_it_does_and_are_bounded() {
    for (operation, title, description) in [
        (
            json!({ "summary": " List\n pets ", "description": "All of them." }),
            "List pets",
            "List\n pets\n\nAll of them.",
        ),
        (
            json!({ "summary": "List pets.", "description": "List pets, all of them." }),
            "List pets.",
            "List pets, all of them.",
        ),
        (json!({ "description": "All." }), "POST /things", "All."),
        (json!({ "operationId": "x" }), "x", "POST /things"),
        (json!({ "summary": "Old", "deprecated": true }), "Old", "Deprecated. Old"),
    ] {
        let tool = tool_with(operation, &json!({}));
        assert_eq!((tool.title.as_str(), tool.description.as_str()), (title, description));
    }
    let long = tool_with(json!({ "description": "wörd ".repeat(1_000), "summary": "s".repeat(500) }), &json!({}));
    assert!(long.description.chars().count() <= 1_000 && long.description.ends_with('…'));
    assert!(long.title.chars().count() <= 120);
}

#[test]
fn the_definition_hash_changes_with_the_definition_and_with_nothing_else() {
    let hash = |schema: &Value, other: &Value| {
        let operation = json!({ "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/A" } } } } });
        let components = json!({ "schemas": { "Other": other, "A": { "type": "object", "properties": { "b": { "$ref": "#/components/schemas/B" } } }, "B": { "type": "object", "properties": { "c": schema } } } });
        http(&tool_with(operation, &components)).definition_hash.clone()
    };
    let first = hash(&json!({ "type": "string" }), &json!(1));
    assert_eq!(first.len(), 64);
    assert_eq!(first, hash(&json!({ "type": "string" }), &json!(2)));
    assert_ne!(first, hash(&json!({ "type": "integer" }), &json!(1)));
}

#[test]
fn identity_names_method_origin_and_serialisation() {
    let tool = tool_with(json!({ "parameters": [{ "name": "q", "in": "query", "schema": {} }] }), &json!({}));
    let identity = tool.binding.identity(Some("https://api.example.com/v1"));
    assert_eq!(identity["method"], "POST");
    assert_eq!(identity["origin"], "https://api.example.com");
    assert_eq!(identity["pathTemplate"], "/things");
    assert_ne!(identity, tool.binding.identity(Some("https://other.example")));
}

#[test]
fn tools_survive_storage() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "maximum": 1e300 }, "f": { "type": "string", "format": "binary" } } });
    let operation = json!({ "requestBody": { "content": { "multipart/form-data": { "schema": schema } } }, "parameters": [{ "name": "a/b", "in": "query", "schema": { "const": 1 } }] });
    let tool = tool_with(operation, &json!({}));
    let text = serde_json::to_string(&tool).unwrap();
    assert_eq!(serde_json::from_str::<crate::catalog::tool::Tool>(&text).unwrap(), tool);
    assert!(text.contains(r#""binding":{"kind":"http","method":"POST""#));
}

#[test]
fn media_types_may_be_references_and_references_may_name_the_document_itself() {
    let body = json!({ "required": true, "content": { "application/json": { "$ref": "https://x.example/api#/components/mediaTypes/Thing" } } });
    let answer =
        json!({ "description": "ok", "content": { "application/json": { "$ref": "#/components/mediaTypes/Thing" } } });
    let mut document = document(
        &json!({ "/things": { "post": { "requestBody": body, "responses": { "200": answer } } } }),
        &json!({ "mediaTypes": { "Thing": { "schema": { "type": "object", "properties": { "name": { "type": "string" } } } } } }),
    );
    document["openapi"] = json!("3.2.0");
    document["$self"] = json!("https://x.example/api");
    let import = import(&document);
    let tool = &import.tools[0];
    assert_eq!(tool.input_schema["properties"], json!({ "name": { "type": "string" } }));
    assert_eq!(tool.output_schema.as_ref().unwrap()["properties"], json!({ "name": { "type": "string" } }));
}

#[test]
fn a_body_with_a_file_goes_as_multipart_where_that_is_offered() {
    let media = json!({ "schema": { "type": "object", "properties": {
        "title": { "type": "string" }, "file": { "$ref": "#/components/schemas/Upload" },
    } } });
    let content =
        json!({ "application/json": media, "application/x-www-form-urlencoded": media, "multipart/form-data": media });
    let components = json!({ "schemas": { "Upload": { "type": "string", "format": "binary" } } });
    let tool = tool_with(json!({ "requestBody": { "content": content } }), &components);
    assert_eq!(http(&tool).body.as_ref().unwrap().format, BodyFormat::Multipart);
    let sent = request(&tool, &json!({ "file": { "data": "aGk=", "name": "a.txt" } })).unwrap();
    assert!(body_text(&sent).contains("filename=\"a.txt\""), "{}", body_text(&sent));
}

#[test]
fn a_body_that_others_extend_takes_their_properties_too() {
    let components = json!({ "schemas": {
        "Pet": { "type": "object", "discriminator": { "propertyName": "kind" }, "properties": { "kind": { "type": "string" } } },
        "Cat": { "allOf": [{ "$ref": "#/components/schemas/Pet" }, { "properties": { "claws": { "type": "integer" } } }] },
    } });
    let body_of = |name: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        tool_with(
            json!({ "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } } }),
            &components,
        )
    };
    let arguments = json!({ "body": { "kind": "cat", "claws": 18 } });
    let tool = body_of("Pet");
    let checked = crate::catalog::schema::check_arguments(&tool.input_schema, arguments).unwrap();
    assert_eq!(body_text(&request(&tool, &checked).unwrap()), r#"{"kind":"cat","claws":18}"#);
    // What extends it is known as a whole.
    assert_eq!(
        body_of("Cat").input_schema["properties"],
        json!({ "kind": { "type": "string" }, "claws": { "type": "integer" } })
    );
}

#[test]
fn two_keys_for_one_path_give_one_tool() {
    let paths =
        json!({ "/a": { "get": { "operationId": "one" } }, "a": { "get": { "operationId": "two" }, "post": {} } });
    let import = import(&document(&paths, &json!({})));
    assert_eq!(addresses(&import), ["api.one", "api.post_a"]);
    assert_eq!(skipped(&import), [("GET /a", "the document has it twice")]);
}

#[test]
fn a_body_that_a_get_requires_is_left_out_where_nothing_in_it_is_required() {
    let get_with = |schema: Value| {
        let body = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        import(&document(&json!({ "/things": { "get": { "requestBody": body } } }), &json!({})))
    };
    let optional = json!({ "type": "object", "properties": { "limit": { "type": "integer" } } });
    let all_optional = get_with(optional);
    assert_eq!(all_optional.tools.len(), 1);
    assert!(http(&all_optional.tools[0]).body.is_none());
    let required =
        get_with(json!({ "type": "object", "properties": { "ids": { "type": "array" } }, "required": ["ids"] }));
    assert_eq!(
        skipped(&required),
        [("GET /things", "a GET request cannot carry the body that the operation requires")]
    );
}

#[test]
fn a_body_parameter_counts_in_a_document_of_openapi_3_too() {
    let parameters = json!([{ "name": "body", "in": "body", "required": true, "schema": { "type": "object", "properties": { "a": { "type": "integer" } } } }]);
    let tool = tool_with(json!({ "parameters": parameters }), &json!({}));
    assert_eq!(body_text(&request(&tool, &json!({ "a": 1 })).unwrap()), r#"{"a":1}"#);
}

#[test]
fn a_body_without_a_media_type_takes_any_json() {
    let tool = tool_with(json!({ "requestBody": { "content": {} } }), &json!({}));
    assert_eq!(body_text(&request(&tool, &json!({ "body": [1] })).unwrap()), "[1]");
}

#[test]
fn what_is_almost_json_is_read() {
    let text = r#"{ "openapi": "3.0.0", "paths": { "/a": { "get": { "operationId": "a", "tags": ["x",], }, }, }, }"#;
    let import = import_openapi(text, &OPTIONS).unwrap();
    assert_eq!(addresses(&import), ["api.a"]);
    let broken = import_openapi(r#"{ "openapi": "3.0.0", "paths": [ "#, &OPTIONS).unwrap_err();
    assert!(broken.to_string().contains("EOF"), "{broken}");
}

#[test]
fn an_empty_description_is_none() {
    let paths =
        json!({ "/a": { "summary": " ", "description": "", "get": { "operationId": "a", "description": "" } } });
    let import = import(&document(&paths, &json!({})));
    assert_eq!((import.tools[0].title.as_str(), import.tools[0].description.as_str()), ("a", "GET /a"));
}
