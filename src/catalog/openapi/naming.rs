//! Names: of tools from operations, of arguments from parameters and properties.
//!
//! The same document always gives the same names, and a name never moves to another operation because one was added.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::catalog::schema::keys::argument_key;
use crate::catalog::tool::ParameterLocation;
use crate::json::sha256_hex;

/// The longest name of a tool, without the source.
const MAX_NAME_CHARS: usize = 96;

/// Words that a program's proxy object or promise would take for something else.
const TAKEN_SEGMENTS: [&str; 10] = [
    "__proto__",
    "catch",
    "constructor",
    "finally",
    "hasOwnProperty",
    "prototype",
    "then",
    "toJSON",
    "toString",
    "valueOf",
];

/// One operation, as far as its name is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Unnamed<'a> {
    /// `METHOD /path`
    pub(crate) operation: String,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) operation_id: Option<&'a str>,
}

/// One name each, in the same order. An operation in `known` keeps its name.
pub(crate) fn name_tools(operations: &[Unnamed<'_>], known: Option<&BTreeMap<String, String>>) -> Vec<String> {
    let wanted: Vec<String> = operations.iter().map(wanted_name).collect();
    let known_name = |operation: &Unnamed<'_>| known.and_then(|known| known.get(&operation.operation));
    let mut taken: HashSet<&str> = operations.iter().filter_map(known_name).map(String::as_str).collect();

    let mut claims: HashMap<&str, usize> = HashMap::new();
    let mut exact_claims: HashMap<&str, usize> = HashMap::new();
    for (operation, name) in operations.iter().zip(&wanted) {
        if known_name(operation).is_none() {
            *claims.entry(name).or_default() += 1;
            if operation.operation_id == Some(name) {
                *exact_claims.entry(name).or_default() += 1;
            }
        }
    }
    // A name goes to the only operation that wants it, or to the only one whose `operationId` it is to the letter.
    // Nobody else's name may depend on the order of the document.
    let plain: Vec<bool> = operations
        .iter()
        .zip(&wanted)
        .map(|(operation, name)| {
            let sole = claims.get(name.as_str()) == Some(&1);
            let exact = operation.operation_id == Some(name) && exact_claims.get(name.as_str()) == Some(&1);
            known_name(operation).is_none() && !taken.contains(name.as_str()) && (sole || exact)
        })
        .collect();
    taken.extend(wanted.iter().zip(&plain).filter(|(_, plain)| **plain).map(|(name, _)| name.as_str()));
    let mut taken: HashSet<String> = taken.into_iter().map(str::to_owned).collect();

    let mut names = Vec::with_capacity(operations.len());
    for ((operation, name), plain) in operations.iter().zip(&wanted).zip(plain) {
        let name = if let Some(known) = known_name(operation) {
            known.clone()
        } else if plain {
            name.clone()
        } else {
            let hash = sha256_hex(operation.operation.as_bytes());
            let mut length = 6;
            loop {
                let candidate = with_suffix(name, hash.get(..length).unwrap_or(&hash));
                if length >= hash.len() || !taken.contains(&candidate) {
                    break candidate;
                }
                length += 2;
            }
        };
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

/// The name an operation has when nobody else wants it.
pub(super) fn wanted_name(operation: &Unnamed<'_>) -> String {
    let from_id = operation.operation_id.and_then(dotted_name);
    from_id.unwrap_or_else(|| {
        let words = operation.path.split(|character: char| !character.is_ascii_alphanumeric());
        let method = operation.method.to_lowercase();
        let words: Vec<&str> = [method.as_str()].into_iter().chain(words.filter(|word| !word.is_empty())).collect();
        dotted_name(&words.join("_")).unwrap_or_else(|| "operation".to_owned())
    })
}

/// Segments of `[A-Za-z0-9_]`, none starting with a digit, joined by dots; `None` when no letter or digit is left.
fn dotted_name(text: &str) -> Option<String> {
    let segments: Vec<String> = text.split(['/', '.', ':', '#']).filter_map(segment).collect();
    let name = segments.join(".");
    if name.is_empty() {
        return None;
    }
    if name.len() <= MAX_NAME_CHARS {
        return Some(name);
    }
    Some(with_suffix(&name, sha256_hex(text.as_bytes()).get(..8).unwrap_or_default()))
}

fn segment(text: &str) -> Option<String> {
    let mut segment = String::with_capacity(text.len());
    let mut replaced = false;
    for character in text.trim().chars() {
        if character.is_ascii_alphanumeric() || character == '_' {
            segment.push(character);
            replaced = false;
        } else if !replaced {
            segment.push('_');
            replaced = true;
        }
    }
    if replaced {
        segment.pop();
    }
    if text.starts_with(|first: char| !first.is_ascii_alphanumeric() && first != '_') {
        segment = segment.trim_start_matches('_').to_owned();
    }
    if !segment.contains(|character: char| character.is_ascii_alphanumeric()) {
        return None;
    }
    if segment.starts_with(|first: char| first.is_ascii_digit()) {
        segment.insert(0, '_');
    }
    if TAKEN_SEGMENTS.contains(&segment.as_str()) {
        segment.push('_');
    }
    Some(segment)
}

fn with_suffix(name: &str, suffix: &str) -> String {
    let room = MAX_NAME_CHARS.saturating_sub(suffix.len() + 1);
    let kept: String = name.chars().take(room).collect();
    format!("{}_{suffix}", kept.trim_end_matches(['.', '_']))
}

/// The keys of a tool's arguments, given out one by one; the first to ask for a key gets it.
#[derive(Debug, Default)]
pub(super) struct ArgumentKeys {
    taken: HashSet<String>,
}

impl ArgumentKeys {
    /// The key for a parameter.
    pub(super) fn parameter(&mut self, name: &str, location: ParameterLocation) -> String {
        let place = match location {
            ParameterLocation::Path => "path",
            ParameterLocation::Query | ParameterLocation::QueryString => "query",
            ParameterLocation::Header => "header",
            ParameterLocation::Cookie => "cookie",
        };
        self.key(name, place)
    }

    /// The key for a property of the body, or for the body as a whole.
    pub(super) fn body(&mut self, name: &str) -> String {
        self.key(name, "body")
    }

    fn key(&mut self, name: &str, place: &str) -> String {
        let plain = argument_key(name);
        let mut key = plain.clone();
        let mut count = 1;
        while !self.taken.insert(key.clone()) {
            key = match count {
                1 => argument_key(&format!("{place}_{plain}")),
                _ => argument_key(&format!("{place}_{plain}_{count}")),
            };
            count += 1;
        }
        key
    }
}
