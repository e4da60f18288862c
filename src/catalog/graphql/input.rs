//! What a field takes: arguments as one flat object with a JSON Schema, and as the variables of a document.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::schema::{Definition, Input, Kind, Schema};
use super::type_ref::TypeRef;
use crate::catalog::schema::clean::{Cleaned, Cleaner, Dialect, Direction, shortened};
use crate::catalog::schema::keys::argument_key;
use crate::catalog::tool::{GraphqlVariable, RenamedProperty};

/// Where the cleaner finds a type.
const PLACE: &str = "#/types/";
/// Values of an enumeration that a schema lists.
const VALUES: usize = 500;

/// Schemas of types, made once.
#[derive(Debug, Default)]
pub(super) struct InputTypes {
    made: RefCell<HashMap<String, Rc<Value>>>,
}

/// The arguments of a field.
pub(super) struct Arguments {
    /// The input schema of the tool, without what selects.
    pub(super) schema: Map<String, Value>,
    pub(super) variables: Vec<GraphqlVariable>,
    pub(super) renamed: Vec<RenamedProperty>,
    pub(super) notes: Vec<String>,
    /// The key of the argument that selects, where it is wanted.
    pub(super) select: Option<String>,
}

/// Reads the arguments of a field. About `limit` bytes of schema at most.
pub(super) fn read_arguments(
    schema: &Schema<'_>,
    types: &InputTypes,
    arguments: &[Input],
    selects: bool,
    limit: usize,
) -> Arguments {
    let lookup = |reference: &str| {
        let name = reference.strip_prefix(PLACE).unwrap_or_default();
        types.schema_of(schema, name).map(|found| (format!("/types/{name}"), found))
    };
    let mut cleaner = Cleaner::new(&lookup, Direction::Input, Dialect::JsonSchema);
    let mut taken = HashSet::new();
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut variables = Vec::new();
    let mut notes = Vec::new();
    for argument in arguments {
        if variables.iter().any(|known: &GraphqlVariable| known.name == argument.name) {
            notes.push(format!("the argument {} is described twice; the first counts", argument.name));
            continue;
        }
        let key = free_key(&mut taken, &argument.name);
        let scoped = cleaner.scoped(property(argument));
        properties.insert(key.clone(), cleaner.clean(&scoped));
        if argument.is_required() {
            required.push(Value::from(key.clone()));
        }
        // A variable that need not be given lets the argument's default count (October 2021, section 5.8.5).
        let declared = if argument.has_default { argument.takes.nullable() } else { &argument.takes };
        variables.push(GraphqlVariable { key, name: argument.name.clone(), takes: declared.text() });
    }
    let select = selects.then(|| free_key(&mut taken, "select"));
    let mut root =
        Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), Value::Object(properties))]);
    if !required.is_empty() {
        root.insert("required".to_owned(), Value::Array(required));
    }
    root.insert("additionalProperties".to_owned(), Value::Bool(false));
    let Cleaned { schema, shortened, notes: found, renamed } = cleaner.finish(Value::Object(root), limit);
    notes.extend(found);
    if shortened {
        notes.push(format!("the input schema has more than {limit} bytes; nested parts accept any value"));
    }
    Arguments {
        schema: schema.as_object().cloned().unwrap_or_default(),
        variables,
        renamed: renamed.into_iter().map(|(key, name)| RenamedProperty { key, name }).collect(),
        notes,
        select,
    }
}

/// The first to ask for a key gets it.
fn free_key(taken: &mut HashSet<String>, name: &str) -> String {
    let plain = argument_key(name);
    let mut key = plain.clone();
    let mut count = 1;
    while !taken.insert(key.clone()) {
        key = match count {
            1 => argument_key(&format!("result_{plain}")),
            _ => argument_key(&format!("result_{plain}_{count}")),
        };
        count += 1;
    }
    key
}

impl InputTypes {
    fn schema_of(&self, schema: &Schema<'_>, name: &str) -> Result<Rc<Value>, String> {
        if let Some(known) = self.made.borrow().get(name) {
            return Ok(Rc::clone(known));
        }
        let missing = || format!("the type {} is not described", shortened(name, 100));
        let definition = schema.definition(name).ok_or_else(missing)?;
        let made = Rc::new(named_schema(name, &definition)?);
        self.made.borrow_mut().insert(name.to_owned(), Rc::clone(&made));
        Ok(made)
    }
}

/// The schema of a type that has a name.
fn named_schema(name: &str, definition: &Definition) -> Result<Value, String> {
    let mut schema = match definition.kind {
        // Only the API knows what its own scalars look like.
        Kind::Scalar => json!({}),
        Kind::Enum if definition.values.is_empty() => json!({ "type": "string" }),
        Kind::Enum if definition.values.len() > VALUES => json!({ "type": "string" }),
        Kind::Enum => json!({ "type": "string", "enum": definition.values }),
        Kind::Input => {
            let properties: Map<String, Value> =
                definition.inputs.iter().map(|input| (input.name.clone(), property(input))).collect();
            let required: Vec<&str> =
                definition.inputs.iter().filter(|input| input.is_required()).map(|input| input.name.as_str()).collect();
            let mut schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
            if let (true, Some(schema)) = (definition.is_one_of, schema.as_object_mut()) {
                schema.insert("minProperties".to_owned(), 1.into());
                schema.insert("maxProperties".to_owned(), 1.into());
            }
            schema
        }
        Kind::Object | Kind::Interface | Kind::Union => return Err(format!("the type {name} cannot be an argument")),
    };
    let description = match (definition.kind, &definition.description) {
        (Kind::Scalar, Some(text)) => Some(format!("{name}: {text}")),
        (Kind::Scalar, None) => Some(format!("The scalar {name}.")),
        (_, Some(text)) => Some(text.clone()),
        (_, None) => None,
    };
    if let (Some(description), Some(schema)) = (description, schema.as_object_mut()) {
        schema.insert("description".to_owned(), Value::from(shortened(&description, 200)));
    }
    Ok(schema)
}

/// The schema of an argument or of a field of an input object. What is not required may also be null, which is not the same
/// as leaving it out.
fn property(input: &Input) -> Value {
    let mut schema = type_schema(&input.takes);
    if let Some(schema) = schema.as_object_mut() {
        if let Some(description) = &input.description {
            schema.insert("description".to_owned(), Value::from(description.as_str()));
        }
        if let Some(default) = input.default.as_ref().filter(|default| !default.is_null()) {
            schema.insert("default".to_owned(), default.clone());
        }
    }
    schema
}

fn type_schema(takes: &TypeRef) -> Value {
    let mut schema = match takes.nullable() {
        TypeRef::List(items) => json!({ "type": "array", "items": type_schema(items) }),
        TypeRef::NonNull(inner) => type_schema(inner),
        TypeRef::Named(name) => match name.as_str() {
            // 32 bits (October 2021, section 3.5.1).
            "Int" => json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX }),
            "Float" => json!({ "type": "number" }),
            "String" => json!({ "type": "string" }),
            "Boolean" => json!({ "type": "boolean" }),
            "ID" => json!({ "type": ["string", "integer"] }),
            name => json!({ "$ref": format!("{PLACE}{name}") }),
        },
    };
    if let (false, Some(schema)) = (takes.is_required(), schema.as_object_mut()) {
        schema.insert("nullable".to_owned(), Value::Bool(true));
    }
    schema
}
