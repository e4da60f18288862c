//! Documents to tools, tools to requests, answers to outcomes.

mod answers;
mod imports;
mod properties;
mod requests;
mod schemas;
mod yaml;

use serde_json::{Map, Value, json};

use super::request::{HttpRequest, RequestError, build_request};
use super::{Import, ImportLimits, ImportOptions, import_openapi};
use crate::catalog::tool::{Binding, HttpBinding, Tool};

const OPTIONS: ImportOptions<'_> = ImportOptions {
    source: "api",
    base_url: None,
    document_url: None,
    known_names: None,
    limits: ImportLimits {
        document_bytes: 1024 * 1024,
        tools: 100,
        input_schema_bytes: 32 * 1024,
        output_schema_bytes: 16 * 1024,
    },
};

/// A document of 3.1 with these paths and components.
fn document(paths: &Value, components: &Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Test", "version": "1" },
        "servers": [{ "url": "https://api.example.com/v1" }],
        "paths": paths,
        "components": components,
    })
}

fn import(document: &Value) -> Import {
    import_openapi(&document.to_string(), &OPTIONS).unwrap()
}

/// The tool of the only operation: `POST /things` with these members.
fn tool_with(operation: Value, components: &Value) -> Tool {
    let item = Value::Object(Map::from_iter([("post".to_owned(), operation)]));
    let import = import(&document(&json!({ "/things": item }), components));
    assert_eq!(import.tools.len(), 1, "{:?}", import.report);
    import.tools.into_iter().next().unwrap()
}

fn http(tool: &Tool) -> &HttpBinding {
    let Binding::Http(binding) = &tool.binding else { panic!("{tool:?}") };
    binding
}

fn request(tool: &Tool, arguments: &Value) -> Result<HttpRequest, RequestError> {
    build_request(http(tool), Some("https://api.example.com/v1"), arguments)
}

fn body_text(request: &HttpRequest) -> String {
    String::from_utf8(request.body.clone().unwrap()).unwrap()
}

fn header<'r>(request: &'r HttpRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
