//! A call's arguments on the wire.

use serde_json::Value;

use crate::catalog::openapi::request::rename_within;
use crate::catalog::tool::McpBinding;

/// The arguments under the names that the server gave them.
#[must_use]
pub fn wire_arguments(binding: &McpBinding, arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    if !binding.renamed.is_empty() {
        rename_within(&mut arguments, &binding.renamed);
    }
    arguments
}

/// The headers that repeat arguments, from those on the wire; values are not encoded yet. What is missing or null has none.
#[must_use]
pub fn wire_headers(binding: &McpBinding, arguments: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let at = |path: &[String]| path.iter().try_fold(arguments, |value, key| value.get(key));
    binding
        .headers
        .iter()
        .filter_map(|header| Some((format!("mcp-param-{}", header.name), text(at(&header.path)?)?)))
        .collect()
}
