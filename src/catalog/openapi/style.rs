//! Values written in a style (`OpenAPI` 3.1.1, "Style Examples").
//!
//! `null` counts as undefined and is left out; an object or array where only text fits is written as JSON.

use serde_json::Value;

use super::percent::{Reserved, encoded};
use crate::catalog::tool::ParameterStyle;

/// How deep `deepObject` goes; below that, JSON is written.
const MAX_DEPTH: usize = 16;

/// How text is encoded where it is written.
pub(super) type Encode<'e> = &'e dyn Fn(&str) -> String;

/// A value as text: strings as they are, numbers with their digits, the rest as JSON.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// `a,b`, or for an object `k,v,k,v`, or with `explode` `k=v,k=v`.
pub(super) fn joined(value: &Value, explode: bool, separator: &str, encode: Encode<'_>) -> String {
    let parts: Vec<String> = match value {
        Value::Array(items) => {
            items.iter().filter(|item| !item.is_null()).map(|item| encode(&plain_text(item))).collect()
        }
        Value::Object(members) => {
            let inner = if explode { "=" } else { separator };
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.map(|(key, member)| format!("{}{inner}{}", encode(key), encode(&plain_text(member)))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return encode(&plain_text(value)),
    };
    parts.join(separator)
}

/// `name=a`, `name=b`, or for an object `k=v`, `k=v`.
pub(super) fn named_pairs(name: &str, value: &Value, encode: Encode<'_>) -> Vec<String> {
    let pair = |key: &str, value: &Value| format!("{}={}", encode(key), encode(&plain_text(value)));
    match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(|item| pair(name, item)).collect(),
        Value::Object(members) => {
            members.iter().filter(|(_, member)| !member.is_null()).map(|(key, member)| pair(key, member)).collect()
        }
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![pair(name, value)],
    }
}

/// `a b`, `a|b` or tabs between; percent-encoded separators in a URL.
pub(super) fn delimited(value: &Value, style: ParameterStyle, encode: Encode<'_>, in_url: bool) -> String {
    let separator = match (style, in_url) {
        (ParameterStyle::SpaceDelimited, true) => "%20",
        (ParameterStyle::SpaceDelimited, false) => " ",
        (ParameterStyle::PipeDelimited, true) => "%7C",
        (ParameterStyle::PipeDelimited, false) => "|",
        (ParameterStyle::TabDelimited, true) => "%09",
        (ParameterStyle::TabDelimited, false) => "\t",
        (
            ParameterStyle::Simple
            | ParameterStyle::Label
            | ParameterStyle::Matrix
            | ParameterStyle::Form
            | ParameterStyle::DeepObject
            | ParameterStyle::Cookie,
            _,
        ) => ",",
    };
    joined(value, false, separator, encode)
}

/// The `name=value` pairs of a query parameter or form field; empty arrays and objects give none.
pub(super) fn query_pairs(
    name: &str,
    value: &Value,
    style: ParameterStyle,
    explode: bool,
    encode: Encode<'_>,
) -> Vec<String> {
    let is_empty = match value {
        Value::Array(items) => items.iter().all(Value::is_null),
        Value::Object(members) => members.values().all(Value::is_null),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if is_empty {
        return Vec::new();
    }
    // Reserved characters of a name are always encoded: a name cannot ask for them to stay.
    let wire_name = encoded(name, Reserved::Encode);
    if style == ParameterStyle::DeepObject {
        let mut pairs = Vec::new();
        deep_pairs(&wire_name, value, encode, 0, &mut pairs);
        return pairs;
    }
    match value {
        Value::Object(_) if explode => named_pairs(name, value, encode),
        Value::Array(items) if explode => {
            let items = items.iter().filter(|item| !item.is_null());
            items.map(|item| format!("{wire_name}={}", encode(&plain_text(item)))).collect()
        }
        Value::Array(_) | Value::Object(_) => vec![format!("{wire_name}={}", delimited(value, style, encode, true))],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            vec![format!("{wire_name}={}", encode(&plain_text(value)))]
        }
    }
}

/// `name[key]=value`, deeper objects as further brackets, and items of arrays with their index, which is what servers
/// that take nested values expect (the specification leaves it open).
fn deep_pairs(name: &str, value: &Value, encode: Encode<'_>, depth: usize, pairs: &mut Vec<String>) {
    match value {
        Value::Object(members) if depth < MAX_DEPTH => {
            for (key, member) in members {
                deep_pairs(
                    &format!("{name}%5B{}%5D", encoded(key, Reserved::Encode)),
                    member,
                    encode,
                    depth + 1,
                    pairs,
                );
            }
        }
        Value::Array(items) if depth < MAX_DEPTH => {
            for (index, item) in items.iter().enumerate() {
                deep_pairs(&format!("{name}%5B{index}%5D"), item, encode, depth + 1, pairs);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            pairs.push(format!("{name}={}", encode(&plain_text(value))));
        }
    }
}
