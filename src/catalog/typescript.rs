//! JSON Schema as TypeScript types, for `tools.describe`: what a model reads best.

use serde_json::{Map, Value};

/// Depths of nesting that are written out, the first at which the text is short enough; deeper is `unknown`.
const DEPTHS: [usize; 6] = [8, 5, 4, 3, 2, 1];
/// Types that are written: references to references multiply, and a text of that many is too long anyway.
const MOST_TYPES: usize = 6_000;
/// Characters of the whole text.
const TEXT_LIMIT: usize = 12_000;
/// Values of an enumeration that are written out.
const ENUM_LIMIT: usize = 40;

/// A type as TypeScript text. References are written in place, a cycle becomes `unknown`.
#[must_use]
pub fn type_text(schema: &Value) -> String {
    let mut text = String::new();
    for most in DEPTHS {
        let mut writer = Writer { root: schema, open: Vec::new(), most, types: 0 };
        text = writer.write(schema, 0);
        if text.len() <= TEXT_LIMIT && writer.types <= MOST_TYPES {
            return text;
        }
    }
    let kept: String = text.chars().take(TEXT_LIMIT).collect();
    format!("{kept} /* … cut */")
}

struct Writer<'a> {
    root: &'a Value,
    open: Vec<&'a str>,
    /// The depth that is written out.
    most: usize,
    /// How many types were written.
    types: usize,
}

impl<'a> Writer<'a> {
    fn write(&mut self, schema: &'a Value, depth: usize) -> String {
        let Value::Object(object) = schema else {
            return if schema == &Value::Bool(false) { "never" } else { "unknown" }.to_owned();
        };
        self.types += 1;
        if depth > self.most || self.types > MOST_TYPES {
            return "unknown".to_owned();
        }
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, depth);
        }
        if let Some(value) = object.get("const") {
            return value.to_string();
        }
        if let Some(Value::Array(values)) = object.get("enum") {
            return enumeration(values);
        }
        for (keyword, separator) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
            if let Some(Value::Array(parts)) = object.get(keyword).filter(|_| !object.contains_key("properties")) {
                let texts: Vec<String> = parts.iter().map(|part| self.write(part, depth + 1)).collect();
                return if texts.is_empty() { "unknown".to_owned() } else { texts.join(separator) };
            }
        }
        match object.get("type") {
            Some(Value::Array(kinds)) => {
                let texts: Vec<String> =
                    kinds.iter().filter_map(Value::as_str).map(|kind| self.one_type(kind, object, depth)).collect();
                if texts.is_empty() { "unknown".to_owned() } else { texts.join(" | ") }
            }
            Some(Value::String(kind)) => self.one_type(kind, object, depth),
            _ if object.contains_key("properties") => self.one_type("object", object, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn reference(&mut self, reference: &'a str, depth: usize) -> String {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        match target {
            Some(target) if !self.open.contains(&reference) => {
                self.open.push(reference);
                let text = self.write(target, depth);
                self.open.pop();
                text
            }
            _ => "unknown".to_owned(),
        }
    }

    fn one_type(&mut self, kind: &str, object: &'a Map<String, Value>, depth: usize) -> String {
        match kind {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => {
                let items =
                    object.get("items").map_or_else(|| "unknown".to_owned(), |items| self.write(items, depth + 1));
                if items.contains([' ', '|', '&']) { format!("Array<{items}>") } else { format!("{items}[]") }
            }
            _ => self.object_type(object, depth),
        }
    }

    fn object_type(&mut self, object: &'a Map<String, Value>, depth: usize) -> String {
        let required: Vec<&str> = object
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut fields = Vec::new();
        if let Some(Value::Object(properties)) = object.get("properties") {
            for (name, schema) in properties {
                let optional = if required.contains(&name.as_str()) { "" } else { "?" };
                let comment = comment_of(schema);
                fields.push(format!("{comment}{}{optional}: {}", property_name(name), self.write(schema, depth + 1)));
            }
        }
        match object.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => fields.push(format!("[key: string]: {}", self.write(schema, depth + 1))),
            Some(Value::Bool(true)) => fields.push("[key: string]: unknown".to_owned()),
            _ if fields.is_empty() => return "{}".to_owned(),
            _ => {}
        }
        format!("{{ {} }}", fields.join("; "))
    }
}

/// The property's description, on one line, in a comment that it cannot end.
fn comment_of(schema: &Value) -> String {
    let Some(description) = schema.get("description").and_then(Value::as_str) else {
        return String::new();
    };
    let line: String = description.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
    if line.is_empty() { String::new() } else { format!("/* {} */ ", line.replace("*/", "* /")) }
}

fn property_name(name: &str) -> String {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_' || first == '$')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_' || character == '$');
    if plain { name.to_owned() } else { Value::String(name.to_owned()).to_string() }
}

fn enumeration(values: &[Value]) -> String {
    let mut texts: Vec<String> = values.iter().take(ENUM_LIMIT).map(Value::to_string).collect();
    if values.len() > ENUM_LIMIT {
        texts.push(format!("unknown /* {} more */", values.len() - ENUM_LIMIT));
    }
    if texts.is_empty() { "never".to_owned() } else { texts.join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_read_as_typescript() {
        for (schema, expected) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b-c": {"type": "integer"}}, "required": ["a"]}),
                r#"{ a: string; "b-c"?: number }"#,
            ),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"enum": ["x", 1, null]}), r#""x" | 1 | null"#),
            (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
            (json!({"type": "array", "items": {"type": ["string", "null"]}}), "Array<string | null>"),
            (json!({"type": "object"}), "{}"),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), "{ [key: string]: number }"),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "string | number"),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "description": "one */ two\nthree"}}}),
                "{ /* one * / two three */ a?: string }",
            ),
            (json!(true), "unknown"),
        ] {
            assert_eq!(type_text(&schema), expected);
        }
    }

    #[test]
    fn a_cycle_ends() {
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}});
        assert_eq!(type_text(&schema), "{ next?: unknown }");
    }

    #[test]
    fn a_large_type_is_written_less_deep_rather_than_cut() {
        // Each of twelve types refers to all others: written out it would be larger than memory.
        let properties: Map<String, Value> =
            (0..12).map(|n| (format!("p{n}"), json!({"$ref": format!("#/$defs/t{n}")}))).collect();
        let definitions: Map<String, Value> =
            (0..12).map(|n| (format!("t{n}"), json!({"type": "object", "properties": properties}))).collect();
        let text = type_text(&json!({"type": "object", "properties": properties, "$defs": definitions}));
        assert!(text.len() < TEXT_LIMIT, "{}", text.len());
        assert!(text.starts_with("{ p0?: { p0?: unknown; p1?: unknown") && text.ends_with(" }"), "{text}");
        assert!(text.contains("p11?: {"));
    }
}
