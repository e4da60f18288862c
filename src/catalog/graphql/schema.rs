//! The result of introspection (specification, October 2021, section 4), read type by type as types are needed.
//!
//! Nothing of it is trusted: names are checked before they get into a document, lists are bounded, and what has not the right
//! form is passed over and counted.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::list::list;
use super::syntax::{is_name, parse_literal};
use super::type_ref::{TypeRef, name_of};
use crate::catalog::schema::clean::shortened;

/// Types of a schema.
const TYPES: usize = 50_000;
/// Fields of a type, values of an enumeration, and the like.
const MEMBERS: usize = 10_000;
/// Arguments of a field.
const ARGUMENTS: usize = 200;
/// Characters of a description.
const DESCRIPTION_CHARS: usize = 1_200;

/// Why a text is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is not JSON.
    #[error("it is not JSON: {reason}")]
    NotJson {
        /// What the parser said.
        reason: String,
    },
    /// The endpoint answered with errors instead.
    #[error("the endpoint refuses introspection: {messages}")]
    Refused {
        /// What it said.
        messages: String,
    },
    /// It is JSON, but no result of introspection.
    #[error("it is no result of an introspection query: {reason}")]
    NotIntrospection {
        /// What is missing.
        reason: &'static str,
    },
}

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Enum,
    Object,
    Interface,
    Union,
    Input,
}

/// A field of an object or an interface.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Input>,
    pub(super) result: TypeRef,
    /// Why it should not be used any more; may be empty.
    pub(super) deprecated: Option<String>,
}

/// An argument, or a field of an input object.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) takes: TypeRef,
    pub(super) has_default: bool,
    /// The default, where it can be read.
    pub(super) default: Option<Value>,
}

/// A type.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) description: Option<String>,
    /// Of objects and interfaces.
    pub(super) fields: Vec<Field>,
    /// Of input objects.
    pub(super) inputs: Vec<Input>,
    /// Of input objects: exactly one field is given (`@oneOf`, September 2025, section 3.10.1).
    pub(super) is_one_of: bool,
    /// Of enumerations.
    pub(super) values: Vec<String>,
    /// Of interfaces and unions: the objects that it can be.
    pub(super) possible: Vec<String>,
    /// Members that could not be read, and why.
    pub(super) broken: Vec<String>,
}

impl Input {
    /// Whether a call has to give it.
    pub(super) fn is_required(&self) -> bool {
        self.takes.is_required() && !self.has_default
    }

    fn read(value: &Value) -> Result<Self, String> {
        let name = name_of(value).ok_or("an argument has no usable name")?;
        let takes = value.get("type").ok_or_else(|| "it has no type".to_owned());
        let takes = takes.and_then(|takes| TypeRef::read(takes, 0)).map_err(|why| format!("{name}: {why}"))?;
        let default = value.get("defaultValue").and_then(Value::as_str);
        Ok(Self {
            description: text_of(value, "description"),
            takes,
            has_default: default.is_some(),
            default: default.and_then(|text| parse_literal(text).ok()).map(|literal| literal.json()),
            name,
        })
    }
}

impl Field {
    fn read(value: &Value) -> Result<Self, String> {
        let name = name_of(value).ok_or("a field has no usable name")?;
        let broken = |why: String| format!("{name}: {why}");
        let result = value.get("type").ok_or_else(|| broken("it has no type".to_owned()))?;
        let result = TypeRef::read(result, 0).map_err(broken)?;
        let arguments = value.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if arguments.len() > ARGUMENTS {
            return Err(broken(format!("it has more than {ARGUMENTS} arguments")));
        }
        let arguments = arguments.iter().map(Input::read).collect::<Result<Vec<_>, _>>().map_err(broken)?;
        let is_deprecated = value.get("isDeprecated").and_then(Value::as_bool) == Some(true);
        Ok(Self {
            description: text_of(value, "description"),
            arguments,
            result,
            deprecated: is_deprecated.then(|| text_of(value, "deprecationReason").unwrap_or_default()),
            name,
        })
    }
}

/// The types of an API.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    types: HashMap<String, &'a RawValue>,
    read: RefCell<HashMap<String, Option<Rc<Definition>>>>,
    pub(super) query: Option<String>,
    pub(super) mutation: Option<String>,
    pub(super) subscription: Option<String>,
    /// What is wrong with the schema as a whole.
    pub(super) faults: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    errors: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "__schema")]
    schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    types: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<'a> {
    #[serde(borrow, default)]
    query_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mutation_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    subscription_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    types: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeOutline<'a> {
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_one_of: Option<&'a RawValue>,
    #[serde(borrow, default)]
    enum_values: Option<&'a RawValue>,
    #[serde(borrow, default)]
    possible_types: Option<&'a RawValue>,
}

impl<'a> Schema<'a> {
    /// Reads the outline: the answer to an introspection query, its `data`, or the `__schema` in it.
    pub(super) fn read(text: &'a str) -> Result<Self, SchemaError> {
        let not = |reason| SchemaError::NotIntrospection { reason };
        let text = text.trim_start_matches('\u{feff}').trim();
        if !text.starts_with('{') {
            return match serde_json::from_str::<IgnoredAny>(text) {
                Err(error) => Err(SchemaError::NotJson { reason: error.to_string() }),
                Ok(_) => Err(not("it is no object")),
            };
        }
        let envelope = |text| {
            serde_json::from_str::<Envelope<'a>>(text)
                .map_err(|error| SchemaError::NotJson { reason: error.to_string() })
        };
        let mut found = envelope(text)?;
        if let Some(data) = found.data {
            let errors = found.errors;
            found = if data.get().starts_with('{') {
                envelope(data.get())?
            } else {
                return Err(not("its data is no object"));
            };
            found.errors = errors;
        }
        let outline = match (found.schema, found.types) {
            (Some(schema), _) if schema.get().starts_with('{') => schema.get(),
            (None, Some(_)) => text,
            _ => {
                let messages = found.errors.map(super::answer::messages).unwrap_or_default();
                return Err(if messages.is_empty() {
                    not("it has no __schema")
                } else {
                    SchemaError::Refused { messages }
                });
            }
        };
        let outline: Outline<'a> =
            serde_json::from_str(outline).map_err(|error| SchemaError::NotJson { reason: error.to_string() })?;
        let listed = outline.types.and_then(|types| list(types, TYPES)).ok_or_else(|| not("its types are no list"))?;
        let mut faults = Vec::new();
        if listed.more > 0 {
            faults.push(format!("the schema has more than {TYPES} types; the other {} do not count", listed.more));
        }
        let mut types = HashMap::with_capacity(listed.items.len());
        let mut nameless = 0_usize;
        for raw in listed.items {
            let outline = serde_json::from_str::<TypeOutline<'a>>(raw.get()).ok();
            match outline.and_then(|outline| string(outline.name)).filter(|name| is_name(name)) {
                Some(name) => {
                    types.entry(name).or_insert(raw);
                }
                None => nameless += 1,
            }
        }
        if nameless > 0 {
            faults.push(format!("{nameless} types of the schema have no usable name and do not count"));
        }
        let root = |raw: Option<&RawValue>| {
            raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).as_ref().and_then(name_of)
        };
        Ok(Self {
            query: root(outline.query_type),
            mutation: root(outline.mutation_type),
            subscription: root(outline.subscription_type),
            types,
            read: RefCell::default(),
            faults,
        })
    }

    /// A type; `None` where it is not described, or not in a form that can be read.
    pub(super) fn definition(&self, name: &str) -> Option<Rc<Definition>> {
        if let Some(known) = self.read.borrow().get(name) {
            return known.clone();
        }
        let found = self.types.get(name).and_then(|raw| define(raw)).map(Rc::new);
        self.read.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }

    /// What a type is; `None` where that is not known.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        match self.definition(name) {
            Some(definition) => Some(definition.kind),
            None if matches!(name, "Int" | "Float" | "String" | "Boolean" | "ID") => Some(Kind::Scalar),
            None => None,
        }
    }
}

fn define(raw: &RawValue) -> Option<Definition> {
    let outline: TypeOutline<'_> = serde_json::from_str(raw.get()).ok()?;
    let kind = match string(outline.kind)?.as_ref() {
        "SCALAR" => Kind::Scalar,
        "ENUM" => Kind::Enum,
        "OBJECT" => Kind::Object,
        "INTERFACE" => Kind::Interface,
        "UNION" => Kind::Union,
        "INPUT_OBJECT" => Kind::Input,
        _ => return None,
    };
    let mut broken = Vec::new();
    let possible = members(outline.possible_types, &mut broken, |value| name_of(value).ok_or_else(String::new));
    let values = members(outline.enum_values, &mut broken, |value| {
        name_of(value).ok_or_else(|| "a value has no usable name".to_owned())
    });
    let mut fields = members(outline.fields, &mut broken, Field::read);
    let mut seen = HashSet::new();
    fields.retain(|field| {
        let is_first = seen.insert(field.name.clone());
        if !is_first {
            broken.push(format!("{} is described twice; the first counts", field.name));
        }
        is_first
    });
    Some(Definition {
        kind,
        description: string(outline.description).map(|text| shortened(text.trim(), DESCRIPTION_CHARS)),
        fields,
        inputs: members(outline.input_fields, &mut broken, Input::read),
        is_one_of: outline.is_one_of.is_some_and(|raw| raw.get() == "true"),
        values,
        possible,
        broken,
    })
}

fn members<T>(raw: Option<&RawValue>, broken: &mut Vec<String>, read: impl Fn(&Value) -> Result<T, String>) -> Vec<T> {
    let Some(listed) = raw.and_then(|raw| list(raw, MEMBERS)) else { return Vec::new() };
    if listed.more > 0 {
        broken.push(format!("the type has more than {MEMBERS} members; {} do not count", listed.more));
    }
    let mut found = Vec::with_capacity(listed.items.len());
    for item in listed.items {
        let value =
            serde_json::from_str::<Value>(item.get()).map_err(|error| format!("a member cannot be read: {error}"));
        match value.and_then(|value| read(&value)) {
            Ok(member) => found.push(member),
            Err(why) => broken.push(why),
        }
    }
    found
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())?;
    Some(shortened(text, DESCRIPTION_CHARS))
}

fn string(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str::<Cow<'_, str>>(raw?.get()).ok().map(Cow::into_owned)
}
