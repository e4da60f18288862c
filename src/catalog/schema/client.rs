//! Schemas of other servers' tools made into schemas that every client can take.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::clean::{Cleaned, Cleaner, Dialect, Direction, FlatObject, Scoped};

/// The input schema of a tool that another server describes, for clients: the root is `type: object` with plain
/// properties, whatever it was. Alternatives at the root become one object that takes the properties of all and
/// requires what all require; the other server still checks. About `limit` bytes at most.
#[must_use]
pub fn input_for_clients(schema: &Value, limit: usize) -> Value {
    clean_input(schema, limit).schema
}

/// The same, with what was changed: nested properties that had to get another key, and notes.
pub(crate) fn clean_input(schema: &Value, limit: usize) -> Cleaned {
    let lookup = |reference: &str| Err(format!("the reference {reference:?} leads nowhere"));
    let mut cleaner = Cleaner::new(&lookup, Direction::Both, Dialect::JsonSchema);
    let root = cleaner.scoped_root(schema.clone());
    let root = cleaner.resolved(&root);
    let flat = flat_root(&mut cleaner, &root).unwrap_or_default();
    let mut properties = Map::new();
    let is_open = flat.open || schema.get("additionalProperties") != Some(&Value::Bool(false));
    for (name, property) in &flat.properties {
        let clean = cleaner.clean(property);
        properties.insert(cleaner.property_key(name), clean);
    }
    let required: Vec<String> = flat.required.iter().map(|name| cleaner.property_key(name)).collect();
    let mut clean = Map::from_iter([("type".to_owned(), json!("object"))]);
    if !required.is_empty() {
        clean.insert("required".to_owned(), json!(required));
    }
    clean.insert("properties".to_owned(), Value::Object(properties));
    if !is_open {
        clean.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    cleaner.finish(Value::Object(clean), limit)
}

/// The output schema of a tool that another server describes; `None` where it is not an object, which MCP asks for.
#[must_use]
pub fn output_for_clients(schema: &Value, limit: usize) -> Option<Value> {
    let lookup = |reference: &str| Err(format!("the reference {reference:?} leads nowhere"));
    let mut cleaner = Cleaner::new(&lookup, Direction::Output, Dialect::JsonSchema);
    let root = cleaner.scoped_root(schema.clone());
    let root = cleaner.resolved(&root);
    let clean = cleaner.clean(&root);
    let finished = cleaner.finish(clean, limit).schema;
    Some(finished).filter(|schema| schema.get("type") == Some(&json!("object")))
}

fn flat_root(cleaner: &mut Cleaner<'_>, root: &Scoped) -> Option<FlatObject> {
    if let Some(flat) = cleaner.flattened(root) {
        return Some(flat);
    }
    let schema = root.schema.as_object()?;
    let mut beside = schema.clone();
    let alternatives = ["anyOf", "oneOf"].map(|keyword| beside.remove(keyword)).into_iter().flatten();
    let mut flat = cleaner.flattened(&root.with(Value::Object(beside))).unwrap_or_default();
    for alternatives in alternatives {
        let mut common: Option<BTreeSet<String>> = None;
        for alternative in alternatives.as_array()? {
            let other = flat_root(cleaner, &root.with(alternative.clone())).unwrap_or_default();
            for (name, property) in other.properties {
                match flat.properties.iter_mut().find(|(known, _)| *known == name) {
                    None => flat.properties.push((name, property)),
                    // Each alternative has its own idea of it: what fits any of them has to pass.
                    Some((_, known)) if known.schema != property.schema => {
                        let both = json!({ "anyOf": [*known.schema, *property.schema] });
                        let same = known.shares_scope(&property);
                        *known = known.with(if same { both } else { json!({}) });
                    }
                    Some(_) => {}
                }
            }
            flat.open |= other.open;
            common = Some(match common {
                Some(common) => common.intersection(&other.required).cloned().collect(),
                None => other.required,
            });
        }
        flat.required.extend(common.unwrap_or_default());
    }
    Some(flat)
}
