//! What is asked for where a caller does not say it: the scalars of the result, some of what it leads to, in bounds.
//!
//! A default has to work, so it leaves out what needs arguments, lists that are asked for in pages, and what should not be used
//! any more. Cycles end where a type is met again.

use serde_json::{Map, Value, json};

use super::schema::{Definition, Field, Kind, Schema};
use super::syntax::{Selection, SelectionSet};
use super::type_ref::TypeRef;

/// Scalars of an object, by how deep it is in the answer.
const SCALARS: [usize; 3] = [60, 12, 6];
/// Objects in an object, by how deep it is.
const OBJECTS: [usize; 2] = [12, 4];
/// Fields in all.
const FIELDS: usize = 150;
/// Types around a field: connections in connections count here only.
const OPEN_TYPES: usize = 8;
/// Fields of one type that are looked at.
const LOOKED_AT: usize = 300;
/// Types of a union or an interface that are asked for by themselves.
const TYPES: usize = 12;
/// Values of an enumeration that the answer's schema lists.
const VALUES: usize = 30;
/// What says most of an object, where it has more fields than are asked for.
const TELLING: [&str; 12] =
    ["id", "name", "title", "key", "code", "slug", "login", "number", "url", "state", "status", "type"];

/// A selection and what it answers with.
pub(super) struct Selected {
    /// Empty for a scalar.
    pub(super) selection: SelectionSet,
    /// JSON Schema of the field's value.
    pub(super) schema: Value,
}

/// The default for a field; `None` where its type is not described.
pub(super) fn default_selection(schema: &Schema<'_>, field: &Field) -> Option<Selected> {
    let mut walk = Walk { schema, left: FIELDS, open: Vec::new() };
    match schema.kind(field.result.name())? {
        Kind::Input => None,
        Kind::Scalar | Kind::Enum => Some(Selected { selection: Vec::new(), schema: walk.leaf_schema(&field.result) }),
        Kind::Object | Kind::Interface | Kind::Union => {
            let (selection, object) = walk.object(field.result.name(), 0)?;
            Some(Selected { selection, schema: wrapped(&field.result, &object) })
        }
    }
}

struct Walk<'s, 'a> {
    schema: &'s Schema<'a>,
    /// Fields that there is room for.
    left: usize,
    /// The types around this place.
    open: Vec<String>,
}

/// An object of the answer while it is put together.
#[derive(Default)]
struct Answer {
    selection: SelectionSet,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Answer {
    fn add(&mut self, name: &str, selection: SelectionSet, schema: Value) {
        self.selection.push(plain(name, selection));
        self.properties.insert(name.to_owned(), schema);
        self.required.push(name.to_owned());
    }

    fn finish(self) -> (SelectionSet, Value) {
        let schema = json!({ "type": "object", "properties": self.properties, "required": self.required });
        (self.selection, schema)
    }
}

impl Walk<'_, '_> {
    fn object(&mut self, name: &str, level: usize) -> Option<(SelectionSet, Value)> {
        let definition = self.schema.definition(name).filter(|_| self.open.len() < OPEN_TYPES)?;
        let mut answer = Answer::default();
        self.open.push(name.to_owned());
        if definition.kind != Kind::Object {
            answer.add("__typename", Vec::new(), json!({ "type": "string" }));
        }
        if is_connection(&definition) {
            self.connection(&definition, level, &mut answer);
        } else {
            self.scalars(&definition, level, &mut answer);
            self.objects(&definition, level, &mut answer);
        }
        if definition.kind != Kind::Object {
            self.fragments(&definition, level, &mut answer);
        }
        self.open.pop();
        if answer.selection.is_empty() {
            answer.add("__typename", Vec::new(), json!({ "type": "string" }));
        }
        Some(answer.finish())
    }

    fn scalars(&mut self, definition: &Definition, level: usize, answer: &mut Answer) {
        let room = SCALARS.get(level).copied().unwrap_or(0).min(self.left);
        for field in self.usable_scalars(definition, room) {
            self.left = self.left.saturating_sub(1);
            answer.add(&field.name, Vec::new(), self.leaf_schema(&field.result));
        }
    }

    /// The scalars of an object in its own order; where there are too many, those that say most.
    fn usable_scalars<'d>(&self, definition: &'d Definition, room: usize) -> Vec<&'d Field> {
        let is_leaf = |field: &&Field| {
            is_usable(field)
                && !field.arguments.iter().any(super::schema::Input::is_required)
                && matches!(self.schema.kind(field.result.name()), Some(Kind::Scalar | Kind::Enum))
        };
        let mut found: Vec<(usize, &Field)> =
            definition.fields.iter().take(LOOKED_AT).filter(is_leaf).enumerate().collect();
        if found.len() > room {
            let telling = |field: &Field| TELLING.iter().position(|name| *name == field.name).unwrap_or(TELLING.len());
            found.sort_by_cached_key(|(at, field)| (telling(field), *at));
            found.truncate(room);
            found.sort_by_key(|(at, _)| *at);
        }
        found.into_iter().map(|(_, field)| field).collect()
    }

    fn objects(&mut self, definition: &Definition, level: usize, answer: &mut Answer) {
        let room = OBJECTS.get(level).copied().unwrap_or(0);
        let mut added = 0;
        for field in definition.fields.iter().take(LOOKED_AT) {
            let name = field.result.name();
            let is_composite =
                |name| matches!(self.schema.kind(name), Some(Kind::Object | Kind::Interface | Kind::Union));
            if added >= room || self.left == 0 {
                return;
            }
            // Lists in lists multiply, and what takes arguments is a question of its own.
            let is_too_much = level > 0 && field.result.is_list() || !field.arguments.is_empty();
            if !is_usable(field)
                || is_too_much
                || answer.properties.contains_key(&field.name)
                || self.open.iter().any(|open| open == name)
                || !is_composite(name)
            {
                continue;
            }
            self.left = self.left.saturating_sub(1);
            if let Some((selection, object)) = self.object(name, level + 1) {
                answer.add(&field.name, selection, wrapped(&field.result, &object));
                added += 1;
            }
        }
    }

    /// Relay's connections: their nodes are what was asked for, whatever is around them.
    fn connection(&mut self, definition: &Definition, level: usize, answer: &mut Answer) {
        let field = |name: &str| definition.fields.iter().find(|field| field.name == name);
        if let Some(nodes) = field("nodes") {
            self.inside(nodes, level, answer);
        } else if let Some(edges) = field("edges")
            && let Some(edge) = self.schema.definition(edges.result.name())
        {
            let mut inner = Answer::default();
            self.scalars(&edge, 1, &mut inner);
            if let Some(node) = edge.fields.iter().find(|field| field.name == "node") {
                self.inside(node, level, &mut inner);
            }
            if !inner.selection.is_empty() {
                let (selection, schema) = inner.finish();
                answer.add("edges", selection, wrapped(&edges.result, &schema));
            }
        }
        self.scalars(definition, 1, answer);
        if let Some(page) = field("pageInfo") {
            self.inside(page, 1, answer);
        }
    }

    /// A field without a check of how deep it is.
    fn inside(&mut self, field: &Field, level: usize, answer: &mut Answer) {
        let name = field.result.name();
        if !is_usable(field) || !field.arguments.is_empty() || self.open.iter().any(|open| open == name) {
            return;
        }
        match self.schema.kind(name) {
            Some(Kind::Object | Kind::Interface | Kind::Union) => {
                if let Some((selection, object)) = self.object(name, level) {
                    answer.add(&field.name, selection, wrapped(&field.result, &object));
                }
            }
            Some(Kind::Scalar | Kind::Enum) => {
                answer.add(&field.name, Vec::new(), self.leaf_schema(&field.result));
            }
            Some(Kind::Input) | None => {}
        }
    }

    /// What single types have beyond what all have. One name must not mean two shapes in one answer (section 5.3.2), so a
    /// second shape gets a name of its own.
    fn fragments(&mut self, definition: &Definition, level: usize, answer: &mut Answer) {
        // Of the many types behind something like `Node`, twelve would be chance.
        if definition.kind == Kind::Interface && definition.possible.len() > TYPES {
            return;
        }
        let common: Vec<String> = answer.properties.keys().cloned().collect();
        let mut shapes: Vec<(String, String)> = Vec::new();
        for name in definition.possible.iter().take(TYPES) {
            let Some(object) = self.schema.definition(name).filter(|object| object.kind == Kind::Object) else {
                continue;
            };
            let room = SCALARS.get(level + 1).copied().unwrap_or(0).min(self.left);
            let mut selection = Vec::new();
            for field in self.usable_scalars(&object, room) {
                if common.contains(&field.name) {
                    continue;
                }
                self.left = self.left.saturating_sub(1);
                let shape = field.result.text();
                let known = shapes.iter().find(|(known, _)| *known == field.name);
                let key = match known {
                    Some((_, known)) if *known != shape => format!("{}_{name}", field.name),
                    Some(_) => field.name.clone(),
                    None => {
                        shapes.push((field.name.clone(), shape));
                        field.name.clone()
                    }
                };
                answer.properties.entry(key.clone()).or_insert_with(|| self.leaf_schema(&field.result));
                selection.push(Selection::Field {
                    alias: (key != field.name).then_some(key),
                    name: field.name.clone(),
                    arguments: Vec::new(),
                    selection: Vec::new(),
                });
            }
            if !selection.is_empty() {
                answer.selection.push(Selection::Fragment { on: Some(name.clone()), selection });
            }
        }
    }

    fn leaf_schema(&self, result: &TypeRef) -> Value {
        let leaf = match result.name() {
            "Int" => json!({ "type": "integer" }),
            "Float" => json!({ "type": "number" }),
            "String" | "ID" => json!({ "type": "string" }),
            "Boolean" => json!({ "type": "boolean" }),
            name => match self.schema.definition(name) {
                Some(definition)
                    if definition.kind == Kind::Enum && (1..=VALUES).contains(&definition.values.len()) =>
                {
                    json!({ "type": "string", "enum": definition.values })
                }
                Some(definition) if definition.kind == Kind::Enum => json!({ "type": "string" }),
                Some(_) | None => json!({}),
            },
        };
        wrapped(result, &leaf)
    }
}

fn plain(name: &str, selection: SelectionSet) -> Selection {
    Selection::Field { alias: None, name: name.to_owned(), arguments: Vec::new(), selection }
}

fn is_usable(field: &Field) -> bool {
    field.deprecated.is_none() && !field.name.starts_with("__")
}

fn is_connection(definition: &Definition) -> bool {
    let has = |name: &str| definition.fields.iter().any(|field| field.name == name);
    has("pageInfo") && (has("nodes") || has("edges"))
}

/// The schema of a value whose innermost part has the schema `inner`.
fn wrapped(result: &TypeRef, inner: &Value) -> Value {
    let mut schema = match result.nullable() {
        TypeRef::List(items) => json!({ "type": "array", "items": wrapped(items, inner) }),
        TypeRef::Named(_) | TypeRef::NonNull(_) => inner.clone(),
    };
    if !result.is_required()
        && let Some(members) = schema.as_object_mut()
    {
        let kind = members.get("type").and_then(Value::as_str).map(|kind| json!([kind, "null"]));
        if let Some(kind) = kind {
            members.insert("type".to_owned(), kind);
        }
        if let Some(values) = members.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
    }
    schema
}
