//! A document held as text, of which only the parts in use are parsed.
//!
//! A parsed document takes many times the memory of its text, so the outline keeps slices of the text and parses one
//! operation or component at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::ImportError;
use crate::catalog::schema::definitions::Definitions;

/// How much text of parsed components is kept for the next operations.
const CACHED_TEXT_BYTES: usize = 2 * 1024 * 1024;

/// How many `$ref`s may lead to each other.
const REFERENCE_HOPS: usize = 32;

/// The members of an object, in order, each as a slice of the text.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    entries: Vec<(String, &'a RawValue)>,
    positions: HashMap<String, usize>,
}

impl<'a> Members<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let position = *self.positions.get(key)?;
        self.entries.get(position).map(|(_, raw)| *raw)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.entries.iter().map(|(key, raw)| (key.as_str(), *raw))
    }

    /// The members of a value; `None` when it is no object.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Members::default();
                while let Some((key, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    // As in `Value`, the last of several members with the same key counts.
                    if let Some(&position) = members.positions.get(&key) {
                        if let Some(entry) = members.entries.get_mut(position) {
                            entry.1 = raw;
                        }
                    } else {
                        members.positions.insert(key.clone(), members.entries.len());
                        members.entries.push((key, raw));
                    }
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The version of the specification that a document follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Swagger 2.0.
    V2,
    /// `OpenAPI` 3.0.
    V3_0,
    /// `OpenAPI` 3.1 and later: its schemas are JSON Schema 2020-12.
    V3_1,
}

/// Why a reference leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("the reference {0:?} is outside the document and is not fetched")]
    External(String),
    #[error("the reference {0:?} leads nowhere")]
    Missing(String),
    #[error("the references through {0:?} lead in a circle")]
    Circular(String),
}

/// A document, read as far as its outline.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) version: Version,
    root: Rc<Members<'a>>,
    /// Where it came from.
    url: Option<&'a str>,
    /// Where it says that it is (`$self`, `OpenAPI` 3.2).
    own_url: Option<String>,
    indexes: RefCell<HashMap<String, Option<Rc<Members<'a>>>>>,
    parsed: RefCell<Parsed>,
    /// Cleaned for some tools, for the others.
    pub(super) definitions: Definitions,
    /// Schemas of answers, by the reference that is all of them.
    pub(super) answers: RefCell<HashMap<String, Option<Value>>>,
}

#[derive(Debug, Default)]
struct Parsed {
    values: HashMap<String, Rc<Value>>,
    text_bytes: usize,
}

impl<'a> Document<'a> {
    pub(super) fn read(text: &'a str, url: Option<&'a str>) -> Result<Self, ImportError> {
        let root: Members<'a> =
            serde_json::from_str(text).map_err(|error| ImportError::Unreadable { reason: error.to_string() })?;
        let version = read_version(&root)?;
        let own_url = root.get("$self").and_then(|raw| serde_json::from_str(raw.get()).ok());
        let root = Rc::new(root);
        Ok(Self {
            version,
            root,
            url,
            own_url,
            indexes: RefCell::default(),
            parsed: RefCell::default(),
            definitions: Definitions::default(),
            answers: RefCell::default(),
        })
    }

    /// A member of the root, as text.
    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.root.get(key)
    }

    /// A member of the root, parsed.
    pub(super) fn get(&self, key: &str) -> Option<Value> {
        serde_json::from_str(self.raw(key)?.get()).ok()
    }

    /// The pointer that a `$ref` of this document means.
    pub(super) fn pointer_of(&self, reference: &str) -> Result<String, ReferenceError> {
        let external = || ReferenceError::External(reference.to_owned());
        let (place, fragment) = reference.split_once('#').ok_or_else(external)?;
        if !place.is_empty() && Some(place) != self.url && Some(place) != self.own_url.as_deref() {
            return Err(external());
        }
        let pointer = percent_decoded(fragment);
        if pointer.is_empty() || pointer.starts_with('/') {
            Ok(pointer)
        } else {
            Err(ReferenceError::Missing(reference.to_owned()))
        }
    }

    /// The value at a JSON pointer (RFC 6901).
    pub(super) fn at(&self, pointer: &str) -> Option<Rc<Value>> {
        if let Some(value) = self.parsed.borrow().values.get(pointer) {
            return Some(Rc::clone(value));
        }
        let (raw, rest) = self.raw_at(pointer)?;
        let mut value: Value = serde_json::from_str(raw.get()).ok()?;
        let value = Rc::new(if rest.is_empty() { value } else { value.pointer_mut(rest)?.take() });
        let mut parsed = self.parsed.borrow_mut();
        if parsed.text_bytes > CACHED_TEXT_BYTES {
            *parsed = Parsed::default();
        }
        parsed.text_bytes += raw.get().len();
        parsed.values.insert(pointer.to_owned(), Rc::clone(&value));
        Some(value)
    }

    /// Follows `$ref`s until there is none.
    pub(super) fn resolved(&self, value: Value) -> Result<Rc<Value>, ReferenceError> {
        let mut value = Rc::new(value);
        for _ in 0..REFERENCE_HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return Ok(value);
            };
            let pointer = self.pointer_of(reference)?;
            let next = self.at(&pointer).ok_or_else(|| ReferenceError::Missing(reference.to_owned()))?;
            value = next;
        }
        let through = value.get("$ref").and_then(Value::as_str).unwrap_or_default();
        Err(ReferenceError::Circular(through.to_owned()))
    }

    /// The deepest indexed slice on the way to `pointer`, and what remains of the pointer below it.
    fn raw_at<'p>(&self, pointer: &'p str) -> Option<(&'a RawValue, &'p str)> {
        let mut members = Rc::clone(&self.root);
        let mut end = 0;
        loop {
            let rest = pointer.get(end..)?.strip_prefix('/')?;
            let token = rest.split('/').next()?;
            end += 1 + token.len();
            let raw = members.get(&token.replace("~1", "/").replace("~0", "~"))?;
            let (prefix, rest) = (pointer.get(..end)?, pointer.get(end..)?);
            // Only containers of components are indexed; below them values are small.
            let is_container = match prefix.strip_prefix("/components") {
                Some("") => true,
                Some(below) => below.matches('/').count() == 1,
                None => prefix.matches('/').count() == 1,
            };
            if rest.is_empty() || !is_container {
                return Some((raw, rest));
            }
            match self.index(prefix, raw) {
                Some(index) => members = index,
                None => return Some((raw, rest)),
            }
        }
    }

    fn index(&self, prefix: &str, raw: &'a RawValue) -> Option<Rc<Members<'a>>> {
        if let Some(index) = self.indexes.borrow().get(prefix) {
            return index.clone();
        }
        let index = Members::of(raw).map(Rc::new);
        self.indexes.borrow_mut().insert(prefix.to_owned(), index.clone());
        index
    }
}

fn read_version(root: &Members<'_>) -> Result<Version, ImportError> {
    let stated = |key| {
        let value: Value = serde_json::from_str(root.get(key)?.get()).ok()?;
        match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    };
    let not_open_api = |reason: String| ImportError::NotOpenApi { reason };
    if let Some(version) = stated("openapi") {
        return match version.trim() {
            three if three == "3.0" || three.starts_with("3.0.") => Ok(Version::V3_0),
            three if three == "3" || three.starts_with("3.") => Ok(Version::V3_1),
            _ => Err(not_open_api(format!("version {version:?} is not known"))),
        };
    }
    match stated("swagger") {
        Some(version) if version.trim() == "2" || version.trim().starts_with("2.") => Ok(Version::V2),
        Some(version) => Err(not_open_api(format!("version {version:?} of Swagger is not known"))),
        None => Err(not_open_api("neither `openapi` nor `swagger` states a version".to_owned())),
    }
}

/// `%XX` replaced by what it stands for; anything that is not valid stays.
pub(super) fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%'
            && let Some(&[high, low]) = tail.first_chunk::<2>()
            && let (Some(high), Some(low)) = (char::from(high).to_digit(16), char::from(low).to_digit(16))
        {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
