//! `x-mcp-header`: arguments that are sent as headers too (specification, revision 2026-07-28, "Custom Headers from Tool
//! Parameters").

use std::collections::BTreeSet;

use serde_json::Value;

use crate::catalog::tool::HeaderArgument;

const ANNOTATION: &str = "x-mcp-header";

/// The annotated arguments of an input schema. An annotation that breaks a rule makes the whole tool invalid.
pub(super) fn header_arguments(schema: &Value) -> Result<Vec<HeaderArgument>, String> {
    let mut found = Vec::new();
    if annotated(schema) {
        return Err("an x-mcp-header annotation is not on an argument".to_owned());
    }
    reachable(schema, &mut Vec::new(), &mut found)?;
    // Whatever else holds one is not reached by properties alone.
    if count(schema) != found.len() {
        return Err("an x-mcp-header annotation is in a place that arguments cannot be read from".to_owned());
    }
    let mut names = BTreeSet::new();
    match found.iter().find(|header| !names.insert(header.name.to_ascii_lowercase())) {
        Some(twice) => Err(format!("two arguments have the x-mcp-header {}", twice.name)),
        None => Ok(found),
    }
}

fn annotated(schema: &Value) -> bool {
    schema.get(ANNOTATION).is_some()
}

fn reachable(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (key, property) in properties {
        path.push(key.clone());
        if let Some(annotation) = property.get(ANNOTATION) {
            let name = annotation.as_str().unwrap_or_default();
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(format!("the x-mcp-header of {} is no name of a header", path.join(".")));
            }
            if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
                return Err(format!("{} has an x-mcp-header and is no string, integer or boolean", path.join(".")));
            }
            found.push(HeaderArgument { path: path.clone(), name: name.to_owned() });
        }
        reachable(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Annotations anywhere in the schema. A property may be called like one: then its value is a schema, not a text.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| usize::from(key == ANNOTATION && !member.is_object()) + count(member))
            .sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
