//! Schemas from documents made into schemas that every client can take.
//!
//! What comes out is JSON Schema 2020-12 with a known set of keywords. Every `$ref` leads to `#/$defs/…` and resolves,
//! cycles included; arrays have `items`; `oneOf` has become `anyOf`, because documents let alternatives overlap;
//! what a client would refuse is gone. Nothing is fetched.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::definitions::{Definition, Definitions, Refers};
use super::keys::{argument_key, is_argument_key, nested_key};

/// How deep one schema may nest without a `$ref` between.
const MAX_DEPTH: usize = 48;

/// How many `$ref`s may lead to each other.
const REFERENCE_HOPS: usize = 32;

/// How many schemas are cleaned for one tool; alternatives within alternatives multiply.
const MAX_STEPS: usize = 20_000;

/// The longest description of a property.
const MAX_DESCRIPTION_CHARS: usize = 500;

/// How many definitions that do not fit are tried before the rest is left open.
const MAX_MISFITS: usize = 4;

/// How many properties are laid flat; an object with more is one argument.
const MAX_FLAT_PROPERTIES: usize = 1_000;

/// The largest schema that is written in place of a `$ref` to it, in bytes.
const INLINE_BYTES: usize = 400;

/// Gives the value that a reference means, or why there is none.
pub(crate) type Lookup<'r> = &'r dyn Fn(&str) -> Result<(String, Rc<Value>), String>;

/// Whether a schema describes what is sent or what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// Read-only properties are left out.
    Input,
    /// Write-only properties are left out.
    Output,
    /// Nothing is left out: the schema is somebody else's.
    Both,
}

/// The rules a schema was written by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0 and `OpenAPI` 3.0: `nullable`, boolean `exclusiveMinimum`, nothing counts beside a `$ref`.
    OpenApi3_0,
    /// JSON Schema 2020-12 (and what older drafts have in common with it).
    JsonSchema,
}

/// A schema together with where `#/$defs/…` in it is looked up when the document has no such place.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    pub(crate) schema: Rc<Value>,
    scope: usize,
}

impl Scoped {
    /// Whether references in both lead to the same places.
    pub(super) fn shares_scope(&self, other: &Self) -> bool {
        self.scope == other.scope
    }

    /// A part of this schema.
    pub(crate) fn with(&self, part: Value) -> Self {
        Self { schema: Rc::new(part), scope: self.scope }
    }
}

/// Where a reference leads: the scope it counts in (0: the document) and the pointer.
type Place = (usize, String);

/// An object schema with its properties laid flat, those of `allOf` included.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlatObject {
    /// Without what the direction leaves out.
    pub(crate) properties: Vec<(String, Scoped)>,
    /// Only names in `properties`.
    pub(crate) required: BTreeSet<String>,
    /// `additionalProperties` where it is stated and not `false`, or `patternProperties`.
    pub(crate) open: bool,
    pub(crate) description: Option<String>,
    left_out: BTreeSet<String>,
    through: HashSet<Place>,
}

/// Cleans the schemas of one tool and collects what they refer to.
pub(crate) struct Cleaner<'r> {
    lookup: Lookup<'r>,
    direction: Direction,
    dialect: Dialect,
    scopes: Vec<Rc<Value>>,
    names: HashMap<Place, String>,
    taken: HashSet<String>,
    queue: VecDeque<(String, Place, Scoped)>,
    /// What the document's other tools know of its definitions.
    shared: Option<&'r Definitions>,
    /// References to definitions that were written since somebody looked.
    refers: Vec<Refers>,
    /// References that the objects being laid flat right now came through.
    merging: Vec<Place>,
    steps: usize,
    notes: BTreeSet<String>,
    renamed: BTreeMap<String, String>,
}

impl<'r> Cleaner<'r> {
    pub(crate) fn new(lookup: Lookup<'r>, direction: Direction, dialect: Dialect) -> Self {
        Self {
            lookup,
            direction,
            dialect,
            scopes: vec![Rc::new(Value::Null)],
            names: HashMap::new(),
            taken: HashSet::new(),
            queue: VecDeque::new(),
            shared: None,
            refers: Vec::new(),
            merging: Vec::new(),
            steps: 0,
            notes: BTreeSet::new(),
            renamed: BTreeMap::new(),
        }
    }

    /// Shares definitions with the other tools of the document that `lookup` looks into.
    pub(crate) fn sharing(mut self, definitions: &'r Definitions) -> Self {
        self.shared = Some(definitions);
        self
    }

    /// A schema of the document. One with `$defs` of its own is also where references into those lead.
    pub(crate) fn scoped(&mut self, schema: Value) -> Scoped {
        self.scoped_within(Rc::new(schema), 0)
    }

    /// A schema that is a document of its own: its references lead into itself.
    pub(crate) fn scoped_root(&mut self, schema: Value) -> Scoped {
        let schema = Rc::new(schema);
        self.scopes.push(Rc::clone(&schema));
        Scoped { schema, scope: self.scopes.len() - 1 }
    }

    fn scoped_within(&mut self, schema: Rc<Value>, outer: usize) -> Scoped {
        if schema.get("$defs").is_none() && schema.get("definitions").is_none() {
            return Scoped { schema, scope: outer };
        }
        self.scopes.push(Rc::clone(&schema));
        Scoped { schema, scope: self.scopes.len() - 1 }
    }

    /// Follows `$ref`s, and `allOf`s with one member, to the schema that is meant.
    pub(crate) fn resolved(&mut self, scoped: &Scoped) -> Scoped {
        let mut current = scoped.clone();
        for _ in 0..REFERENCE_HOPS {
            if let Some(reference) = reference_of(&current.schema).map(str::to_owned) {
                match self.look_up(&reference, current.scope) {
                    Ok((_, target)) => current = target,
                    Err(why) => {
                        self.notes.insert(why);
                        return anything();
                    }
                }
            } else if let Some(only) = sole_member(&current.schema) {
                current = Scoped { schema: Rc::new(only.clone()), scope: current.scope };
            } else {
                return current;
            }
        }
        self.notes.insert("references lead in a circle; any value is accepted there".to_owned());
        anything()
    }

    /// The properties of an object schema laid flat; `None` where it is something else, or alternatives.
    pub(crate) fn flattened(&mut self, scoped: &Scoped) -> Option<FlatObject> {
        let mut flat = FlatObject::default();
        self.flatten_into(scoped, &mut flat, false, 0)?;
        let FlatObject { properties, required, left_out, .. } = &mut flat;
        properties.retain(|(name, _)| !left_out.contains(name));
        required.retain(|name| properties.iter().any(|(property, _)| property == name));
        Some(flat)
    }

    /// `extended`: the object is a part of another, by `allOf`.
    fn flatten_into(&mut self, scoped: &Scoped, flat: &mut FlatObject, extended: bool, depth: usize) -> Option<()> {
        if depth > REFERENCE_HOPS {
            return None;
        }
        let schema = scoped.schema.as_object()?;
        if let Some(reference) = reference_of(&scoped.schema) {
            let (place, target) = self.look_up(reference, scoped.scope).ok()?;
            // A schema that is part of itself adds nothing the second time.
            if flat.through.insert(place) {
                self.flatten_into(&target, flat, extended, depth + 1)?;
            }
            if self.dialect == Dialect::OpenApi3_0 {
                return Some(());
            }
        }
        if !accepts_only_objects(schema) {
            return None;
        }
        for (keyword, value) in schema {
            match keyword.as_str() {
                // Alternatives that only say which properties go together are left to the upstream.
                "anyOf" | "oneOf" if is_about_required_only(value) => {}
                "anyOf" | "oneOf" | "not" | "if" | "enum" | "const" | "items" | "$dynamicRef" => return None,
                "patternProperties" => flat.open = true,
                // Of a base type: the types that extend it have properties of their own.
                "discriminator" if !extended => flat.open = true,
                "additionalProperties" if *value != Value::Bool(false) => flat.open = true,
                _ => {}
            }
        }
        if flat.description.is_none() {
            flat.description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        }
        let is_alone = sole_member(&scoped.schema).is_some();
        for member in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let member = self.scoped_within(Rc::new(member.clone()), scoped.scope);
            self.flatten_into(&member, flat, extended || !is_alone, depth + 1)?;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if self.is_left_out(property, scoped.scope) {
                flat.left_out.insert(name.clone());
                continue;
            }
            let property = self.scoped_within(Rc::new(property.clone()), scoped.scope);
            flat.left_out.remove(name);
            if flat.properties.len() >= MAX_FLAT_PROPERTIES {
                return None;
            }
            match flat.properties.iter_mut().find(|(known, _)| known == name) {
                // Of two members that describe the same property, the later one says more in practice.
                Some((_, known)) => *known = property,
                None => flat.properties.push((name.clone(), property)),
            }
        }
        flat.required.extend(required_names(schema));
        Some(())
    }

    /// A property that the direction leaves out, or that nothing satisfies.
    fn is_left_out(&mut self, property: &Value, scope: usize) -> bool {
        let keyword = match self.direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
            Direction::Both => return property.as_bool() == Some(false),
        };
        let says_so = |schema: &Value| *schema == Value::Bool(false) || schema.get(keyword) == Some(&Value::Bool(true));
        if says_so(property) {
            return true;
        }
        let refers = reference_of(property).is_some() || sole_member(property).is_some();
        refers && {
            let property = self.scoped_within(Rc::new(property.clone()), scope);
            says_so(&self.resolved(&property).schema)
        }
    }

    /// The cleaned schema; what it refers to is added by [`finish`](Self::finish).
    pub(crate) fn clean(&mut self, scoped: &Scoped) -> Value {
        self.clean_at(&scoped.schema, scoped.scope, 0)
    }

    fn clean_at(&mut self, schema: &Value, scope: usize, depth: usize) -> Value {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            self.notes.insert("a schema nests too deep or is too large; any value is accepted there".to_owned());
            return json!({});
        }
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => return json!({ "not": {} }),
            Value::Null | Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return json!({});
            }
        };
        let scope = if depth > 0 && (schema.contains_key("$defs") || schema.contains_key("definitions")) {
            self.scoped_within(Rc::new(Value::Object(schema.clone())), scope).scope
        } else {
            scope
        };
        let nullable = schema.get("nullable").or_else(|| schema.get("x-nullable")) == Some(&Value::Bool(true));
        let mut clean = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.clean_reference(reference, schema, scope, depth),
            None => self.clean_keywords(schema, scope, depth),
        };
        if nullable {
            make_nullable(&mut clean);
        }
        Value::Object(clean)
    }

    fn clean_reference(
        &mut self,
        reference: &str,
        schema: &Map<String, Value>,
        scope: usize,
        depth: usize,
    ) -> Map<String, Value> {
        let mut clean = match self.look_up(reference, scope) {
            Ok((place, target)) => {
                if is_small_leaf(&target.schema) {
                    match self.clean_at(&target.schema, target.scope, depth + 1) {
                        Value::Object(clean) => clean,
                        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                            Map::new()
                        }
                    }
                } else {
                    let pointer = place.1.clone();
                    let name = self.definition_name(place, target);
                    self.refers.push(Refers { reference: reference.to_owned(), pointer, name: name.clone() });
                    Map::from_iter([("$ref".to_owned(), Value::from(format!("#/$defs/{name}")))])
                }
            }
            Err(why) => {
                self.notes.insert(format!("{why}; any value is accepted there"));
                Map::new()
            }
        };
        let mut beside = schema.clone();
        beside.remove("$ref");
        if self.dialect == Dialect::OpenApi3_0 {
            beside.retain(|keyword, _| keyword == "description" || keyword == "deprecated" || keyword == "default");
        }
        if !beside.is_empty() {
            for (keyword, value) in self.clean_keywords(&beside, scope, depth) {
                match clean.get(&keyword) {
                    Some(_) if !is_annotation(&keyword) => {}
                    _ => {
                        clean.insert(keyword, value);
                    }
                }
            }
        }
        clean
    }

    fn clean_keywords(&mut self, schema: &Map<String, Value>, scope: usize, depth: usize) -> Map<String, Value> {
        if schema.contains_key("allOf") {
            return self.clean_all_of(schema, scope, depth);
        }
        let mut clean = Map::new();
        if let Some(types) = clean_type(schema) {
            clean.insert("type".to_owned(), types);
        }
        let mut left_out = BTreeSet::new();
        for (keyword, value) in schema {
            let cleaned = match keyword.as_str() {
                "description" => value
                    .as_str()
                    .filter(|text| !text.trim().is_empty())
                    .map(|text| Value::from(shortened(text.trim(), MAX_DESCRIPTION_CHARS))),
                "properties" => value
                    .as_object()
                    .map(|properties| self.clean_properties(properties, scope, depth, &mut left_out))
                    .filter(|properties| !properties.is_empty())
                    .map(Value::Object),
                "items" => Some(match value {
                    Value::Array(items) => {
                        let items = items.iter().map(|item| self.clean_at(item, scope, depth + 1)).collect();
                        clean.insert("prefixItems".to_owned(), Value::Array(items));
                        json!({})
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                        self.clean_at(value, scope, depth + 1)
                    }
                }),
                "additionalProperties" => match value {
                    Value::Bool(_) => Some(value.clone()),
                    Value::Object(_) => Some(self.clean_at(value, scope, depth + 1)),
                    Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
                },
                "not" => value.is_object().then(|| self.clean_at(value, scope, depth + 1)),
                "patternProperties" => value.as_object().map(|patterns| {
                    let cleaned = patterns
                        .iter()
                        .map(|(pattern, value)| (pattern.clone(), self.clean_at(value, scope, depth + 1)));
                    Value::Object(cleaned.collect())
                }),
                "prefixItems" => self.clean_list(value, scope, depth),
                "anyOf" if schema.contains_key("oneOf") => None,
                "oneOf" if schema.contains_key("anyOf") => {
                    let both = ["anyOf", "oneOf"].map(|keyword| {
                        let list = schema.get(keyword).and_then(|list| self.clean_list(list, scope, depth));
                        list.map_or_else(|| json!({}), |list| json!({ "anyOf": list }))
                    });
                    clean.insert("allOf".to_owned(), Value::from(both.to_vec()));
                    None
                }
                "anyOf" | "oneOf" => {
                    if let Some(list) = self.clean_list(value, scope, depth) {
                        clean.insert("anyOf".to_owned(), list);
                    }
                    None
                }
                "enum" => value.as_array().filter(|values| !values.is_empty()).map(|values| {
                    let mut seen = HashSet::new();
                    values.iter().filter(|value| seen.insert(value.to_string())).cloned().collect()
                }),
                "const" | "default" => Some(value.clone()),
                "format" | "pattern" | "contentEncoding" | "contentMediaType" => {
                    value.is_string().then(|| value.clone())
                }
                "multipleOf" => value.as_f64().filter(|step| *step > 0.0).map(|_| value.clone()),
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                    value.as_u64().map(Value::from)
                }
                "uniqueItems" | "deprecated" => (*value == Value::Bool(true)).then(|| value.clone()),
                // `required` and bounds follow below. The rest is for documentation or for other tools: `example`,
                // `xml`, `discriminator`, `x-…`.
                _ => None,
            };
            if let Some(cleaned) = cleaned {
                clean.insert(keyword.clone(), cleaned);
            }
        }
        clean_bounds(schema, &mut clean);
        self.clean_required(schema, &left_out, &mut clean);
        if takes_type(&clean, "array") && !clean.contains_key("items") {
            clean.insert("items".to_owned(), json!({}));
        }
        clean
    }

    /// One object where all members are plain objects; else `allOf` stays.
    fn clean_all_of(&mut self, schema: &Map<String, Value>, scope: usize, depth: usize) -> Map<String, Value> {
        let mut beside = schema.clone();
        let members = beside.remove("allOf");
        let members = members.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let only_annotated = beside.keys().all(|keyword| is_annotation(keyword) || is_noise(keyword));
        if let [only] = members
            && only_annotated
        {
            let mut clean = match self.clean_at(only, scope, depth + 1) {
                Value::Object(clean) => clean,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
            };
            clean.extend(self.clean_keywords(&beside, scope, depth));
            return clean;
        }
        let scoped = Scoped { schema: Rc::new(Value::Object(schema.clone())), scope };
        if let Some(flat) = self.flattened(&scoped)
            && !flat.open
            && !flat.properties.is_empty()
            && !self.merging.iter().any(|place| flat.through.contains(place))
        {
            let outer = self.merging.len();
            self.merging.extend(flat.through.iter().cloned());
            let mut clean = Map::from_iter([("type".to_owned(), json!("object"))]);
            if let Some(description) = &flat.description {
                clean.insert("description".to_owned(), Value::from(shortened(description, MAX_DESCRIPTION_CHARS)));
            }
            let mut properties = Map::new();
            for (name, property) in &flat.properties {
                let cleaned = self.clean_at(&property.schema, property.scope, depth + 1);
                properties.insert(self.property_key(name), cleaned);
            }
            self.merging.truncate(outer);
            let required: Vec<Value> = flat.required.iter().map(|name| Value::from(self.property_key(name))).collect();
            clean.insert("properties".to_owned(), Value::Object(properties));
            if !required.is_empty() {
                clean.insert("required".to_owned(), Value::Array(required));
            }
            return clean;
        }
        let members = members.iter().map(|member| {
            let mut member = self.clean_at(member, scope, depth + 1);
            // Of a part, `additionalProperties: false` would refuse what the other parts describe.
            if let Some(member) = member.as_object_mut()
                && member.get("additionalProperties") == Some(&Value::Bool(false))
            {
                member.remove("additionalProperties");
            }
            member
        });
        let members: Vec<Value> =
            members.filter(|member| member.as_object().is_none_or(|member| !member.is_empty())).collect();
        let mut clean = self.clean_keywords(&beside, scope, depth);
        if !members.is_empty() {
            clean.insert("allOf".to_owned(), Value::Array(members));
        }
        clean
    }

    fn clean_list(&mut self, list: &Value, scope: usize, depth: usize) -> Option<Value> {
        let list = list.as_array().filter(|list| !list.is_empty())?;
        Some(Value::Array(list.iter().map(|schema| self.clean_at(schema, scope, depth + 1)).collect()))
    }

    fn clean_properties(
        &mut self,
        properties: &Map<String, Value>,
        scope: usize,
        depth: usize,
        left_out: &mut BTreeSet<String>,
    ) -> Map<String, Value> {
        let mut clean = Map::new();
        for (name, property) in properties {
            if self.is_left_out(property, scope) {
                left_out.insert(name.clone());
                continue;
            }
            let cleaned = self.clean_at(property, scope, depth + 1);
            clean.insert(self.property_key(name), cleaned);
        }
        clean
    }

    /// The key a nested property is exposed under. Answers keep their names; nobody sends them.
    pub(super) fn property_key(&mut self, name: &str) -> String {
        if self.direction == Direction::Output || is_argument_key(name) {
            return name.to_owned();
        }
        let key = nested_key(name);
        self.renamed.insert(key.clone(), name.to_owned());
        key
    }

    fn clean_required(
        &mut self,
        schema: &Map<String, Value>,
        left_out: &BTreeSet<String>,
        clean: &mut Map<String, Value>,
    ) {
        let mut required: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        for name in required_names(schema) {
            let key = self.property_key(&name);
            // What is required but not described cannot be given by anyone who goes by the schema.
            let described = clean
                .get("properties")
                .and_then(Value::as_object)
                .is_none_or(|properties| properties.contains_key(&key));
            if described && !left_out.contains(&name) && seen.insert(key.clone()) {
                required.push(Value::from(key));
            }
        }
        if !required.is_empty() {
            clean.insert("required".to_owned(), Value::Array(required));
        }
    }

    fn look_up(&mut self, reference: &str, scope: usize) -> Result<(Place, Scoped), String> {
        let problem = match (self.lookup)(reference) {
            Ok((pointer, value)) => return Ok(((0, pointer), self.scoped_within(value, 0))),
            Err(problem) => problem,
        };
        // Documents made from other tools' schemas refer to `#/$defs/…` and mean the schema itself.
        let own = reference.strip_prefix('#').zip(self.scopes.get(scope));
        match own.and_then(|(pointer, root)| Some((pointer, root.pointer(pointer)?))) {
            Some((pointer, value)) => {
                let schema = Rc::new(value.clone());
                Ok(((scope, pointer.to_owned()), Scoped { schema, scope }))
            }
            None => Err(problem),
        }
    }

    fn definition_name(&mut self, place: Place, target: Scoped) -> String {
        if let Some(name) = self.names.get(&place) {
            return name.clone();
        }
        let plain = plain_name(&place.1);
        let mut name = plain.clone();
        let mut count = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{plain}_{count}");
            count += 1;
        }
        self.names.insert(place.clone(), name.clone());
        self.queue.push_back((name.clone(), place, target));
        name
    }

    /// The cleaned schema of a definition, and the bytes of its text.
    fn definition(&mut self, place: &Place, target: &Scoped) -> Rc<Definition> {
        // Names within a schema of its own mean other things elsewhere.
        let shared = self.shared.filter(|_| place.0 == 0 && target.scope == 0);
        if let Some(known) = shared.and_then(|shared| shared.get(self.direction, &place.1))
            && self.takes_over(&known)
        {
            return known;
        }
        let (steps, scopes) = (self.steps, self.scopes.len());
        let notes = std::mem::take(&mut self.notes);
        let renamed = std::mem::take(&mut self.renamed);
        self.refers.clear();
        let schema = self.clean_at(&target.schema, target.scope, 0);
        let size = size_of(&schema);
        let refers = std::mem::take(&mut self.refers);
        let definition = Rc::new(Definition { schema, size, steps: self.steps - steps, refers });
        if let Some(shared) = shared
            && self.notes.is_empty()
            && self.renamed.is_empty()
            && self.scopes.len() == scopes
        {
            shared.keep(self.direction, &place.1, &definition);
        }
        self.notes.extend(notes);
        self.renamed.extend(renamed);
        definition
    }

    /// Whether what was cleaned for another tool is what would be made here: what it refers to has the same names.
    fn takes_over(&mut self, known: &Definition) -> bool {
        let fits = known.refers.iter().all(|refers| match self.names.get(&(0, refers.pointer.clone())) {
            Some(name) => *name == refers.name,
            None => !self.taken.contains(&refers.name) && plain_name(&refers.pointer) == refers.name,
        });
        if !fits || self.steps + known.steps > MAX_STEPS {
            return false;
        }
        for refers in &known.refers {
            let Ok((place, target)) = self.look_up(&refers.reference, 0) else { return false };
            self.definition_name(place, target);
        }
        self.steps += known.steps;
        true
    }

    /// Adds what the schemas refer to as `$defs`, nearest first, as long as the whole stays within `limit` bytes. What
    /// does not fit becomes a schema that accepts anything of its type.
    pub(crate) fn finish(mut self, root: Value, limit: usize) -> Cleaned {
        let mut schema = match root {
            Value::Object(schema) => schema,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        };
        let mut size = size_of_members(&schema);
        let mut shortened = size > limit;
        if shortened {
            schema = shrunk(schema, limit, self.direction);
            size = size_of_members(&schema);
        }
        let mut definitions = Map::new();
        // One that does not fit may be followed by smaller ones that do, but not for ever.
        let mut misfits = 0;
        while let Some((name, place, target)) = self.queue.pop_front() {
            let mut definition = None;
            if misfits < MAX_MISFITS {
                let full = self.definition(&place, &target);
                if size + full.size <= limit {
                    definition = Some((full.schema.clone(), full.size));
                } else {
                    misfits += 1;
                    shortened = true;
                }
            }
            let (definition, bytes) = definition.unwrap_or_else(|| {
                let mut stub = stub_of(&target.schema);
                if let Some(stub) = stub.as_object_mut() {
                    stub.remove("description");
                }
                let bytes = size_of(&stub);
                (stub, bytes)
            });
            size += bytes + name.len() + 4;
            definitions.insert(name, definition);
        }
        if !definitions.is_empty() {
            let used = reachable(&schema, &definitions);
            definitions.retain(|name, _| used.contains(name));
            if !definitions.is_empty() {
                schema.insert("$defs".to_owned(), Value::Object(definitions));
            }
        }
        Cleaned { schema: Value::Object(schema), shortened, notes: self.notes, renamed: self.renamed }
    }
}

/// A finished schema.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) schema: Value,
    /// Whether something was left open because the whole was too large.
    pub(crate) shortened: bool,
    /// What was changed beyond the ordinary, in sentences.
    pub(crate) notes: BTreeSet<String>,
    /// Exposed key to name, of nested properties.
    pub(crate) renamed: BTreeMap<String, String>,
}

/// The names of definitions that `schema` leads to, directly or through others.
fn reachable(schema: &Map<String, Value>, definitions: &Map<String, Value>) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut pending: Vec<&Value> = schema.values().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                if let Some(name) =
                    members.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/"))
                    && found.insert(name.to_owned())
                {
                    pending.extend(definitions.get(name));
                }
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// How many bytes of JSON a value is, as `serde_json` writes it. Not written for that: it is asked for every definition of every tool.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => size_of_text(text),
        Value::Array(items) => 2 + items.len().saturating_sub(1) + items.iter().map(size_of).sum::<usize>(),
        Value::Object(members) => size_of_members(members),
    }
}

fn size_of_members(members: &Map<String, Value>) -> usize {
    let each = members.iter().map(|(key, value)| size_of_text(key) + 1 + size_of(value));
    2 + members.len().saturating_sub(1) + each.sum::<usize>()
}

fn size_of_text(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

/// What a definition is called unless the name is taken.
fn plain_name(pointer: &str) -> String {
    let last = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    argument_key(if last.is_empty() { "root" } else { &last })
}

fn anything() -> Scoped {
    Scoped { schema: Rc::new(json!({})), scope: 0 }
}

/// The schema with everything below some depth left open, so that it fits.
fn shrunk(schema: Map<String, Value>, limit: usize, direction: Direction) -> Map<String, Value> {
    for depth in (1..8).rev() {
        let mut candidate = schema.clone();
        cut_below(&mut candidate, depth);
        if size_of_members(&candidate) <= limit {
            return candidate;
        }
    }
    // Still too large: descriptions go, then the list of properties is all that remains.
    let mut candidate = schema;
    cut_below(&mut candidate, 1);
    if let Some(properties) = candidate.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut() {
            if let Some(property) = property.as_object_mut() {
                property.retain(|keyword, _| keyword == "type" || keyword == "items");
            }
        }
    }
    // Of an input every property has to be there to be set; of an answer the type is enough.
    if direction == Direction::Output && size_of_members(&candidate) > limit {
        candidate.retain(|keyword, _| keyword == "type" || keyword == "items" || keyword == "description");
    }
    candidate
}

fn cut_below(schema: &mut Map<String, Value>, depth: usize) {
    let cut = |value: &mut Value| {
        if depth == 0 {
            *value = stub_of(value);
        } else if let Some(schema) = value.as_object_mut() {
            cut_below(schema, depth - 1);
        }
    };
    for (keyword, value) in schema.iter_mut() {
        match keyword.as_str() {
            "properties" | "patternProperties" => {
                value
                    .as_object_mut()
                    .into_iter()
                    .flat_map(|members| members.iter_mut())
                    .for_each(|(_, member)| cut(member));
            }
            "anyOf" | "allOf" | "prefixItems" => value.as_array_mut().into_iter().flatten().for_each(cut),
            "items" | "additionalProperties" | "not" | "contains" if value.is_object() => cut(value),
            _ => {}
        }
    }
}

/// A schema that accepts whatever the given one accepts, and says no more than its type.
fn stub_of(schema: &Value) -> Value {
    let mut stub = Map::new();
    if let Some(schema) = schema.as_object() {
        if !schema.contains_key("$ref")
            && let Some(types) = clean_type(schema)
        {
            stub.insert("type".to_owned(), types);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            make_nullable(&mut stub);
        }
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            stub.insert("description".to_owned(), Value::from(shortened(description, 120)));
        }
    }
    if takes_type(&stub, "array") {
        stub.insert("items".to_owned(), json!({}));
    }
    Value::Object(stub)
}

fn reference_of(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)
}

/// The only member of an `allOf`, where nothing but annotations stands beside it.
fn sole_member(schema: &Value) -> Option<&Value> {
    let schema = schema.as_object()?;
    let [only] = schema.get("allOf")?.as_array()?.as_slice() else { return None };
    schema.keys().all(|keyword| keyword == "allOf" || is_annotation(keyword) || is_noise(keyword)).then_some(only)
}

fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "description" | "default" | "deprecated" | "title" | "readOnly" | "writeOnly")
}

fn is_noise(keyword: &str) -> bool {
    matches!(keyword, "nullable" | "example" | "examples" | "xml" | "externalDocs" | "discriminator" | "$comment")
        || keyword.starts_with("x-")
}

/// A schema that fits in place: no parts of its own and little text.
fn is_small_leaf(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return true };
    let has_parts = members.keys().any(|keyword| {
        matches!(
            keyword.as_str(),
            "$ref"
                | "properties"
                | "items"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "not"
                | "if"
                | "prefixItems"
                | "additionalProperties"
                | "patternProperties"
                | "$defs"
                | "definitions"
        )
    });
    !has_parts && size_of(schema) <= INLINE_BYTES
}

fn accepts_only_objects(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        None => true,
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => {
            names.iter().any(|name| name == "object") && names.iter().all(|name| name == "object" || name == "null")
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
    }
}

fn is_about_required_only(alternatives: &Value) -> bool {
    alternatives.as_array().is_some_and(|alternatives| {
        alternatives.iter().all(|alternative| {
            alternative.as_object().is_some_and(|alternative| {
                alternative.keys().all(|keyword| {
                    matches!(keyword.as_str(), "required" | "type") || is_annotation(keyword) || is_noise(keyword)
                })
            })
        })
    })
}

fn required_names(schema: &Map<String, Value>) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The type or types, with names that documents use by mistake put right.
fn clean_type(schema: &Map<String, Value>) -> Option<Value> {
    let stated: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Vec::new(),
    };
    let mut types: Vec<Value> = Vec::new();
    for name in stated {
        let name = match name {
            "object" | "array" | "string" | "number" | "integer" | "boolean" | "null" => name,
            "int" | "int32" | "int64" | "long" => "integer",
            "float" | "double" | "decimal" => "number",
            "bool" => "boolean",
            "date" | "datetime" | "date-time" | "file" | "str" | "text" | "uuid" | "binary" => "string",
            "dict" | "map" => "object",
            "list" => "array",
            // An unknown name says nothing: any value.
            _ => return None,
        };
        if !types.contains(&Value::from(name)) {
            types.push(Value::from(name));
        }
    }
    match types.as_slice() {
        [] if schema.get("properties").is_some_and(Value::is_object) => Some(json!("object")),
        [] if schema.contains_key("items") && !schema.contains_key("properties") => Some(json!("array")),
        [] => None,
        [only] => Some(only.clone()),
        _ => Some(Value::Array(types)),
    }
}

/// Whether the schema states the type, alone or among others.
fn takes_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(names)) => names.iter().any(|stated| stated == name),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
    }
}

fn make_nullable(schema: &mut Map<String, Value>) {
    if schema.contains_key("$ref") || schema.contains_key("allOf") || schema.contains_key("const") {
        let mut inner = std::mem::take(schema);
        for keyword in ["description", "default", "deprecated"] {
            if let Some(value) = inner.remove(keyword) {
                schema.insert(keyword.to_owned(), value);
            }
        }
        schema.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
        return;
    }
    match schema.get_mut("type") {
        Some(Value::Array(names)) => {
            if !names.contains(&json!("null")) {
                names.push(json!("null"));
            }
        }
        Some(Value::String(name)) if name != "null" => {
            let both = json!([name, "null"]);
            schema.insert("type".to_owned(), both);
        }
        None | Some(Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {}
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(alternatives) = schema.get_mut("anyOf").and_then(Value::as_array_mut)
        && !alternatives.contains(&json!({ "type": "null" }))
    {
        alternatives.push(json!({ "type": "null" }));
    }
}

/// `minimum` and the like; a boolean `exclusiveMinimum` (`OpenAPI` 3.0) makes the bound beside it exclusive.
fn clean_bounds(schema: &Map<String, Value>, clean: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let number = |keyword: &str| schema.get(keyword).filter(|value| value.is_number());
        let is_exclusive = schema.get(exclusive) == Some(&Value::Bool(true));
        if let Some(value) = number(bound) {
            clean.insert(if is_exclusive { exclusive } else { bound }.to_owned(), value.clone());
        }
        if let Some(value) = number(exclusive) {
            clean.insert(exclusive.to_owned(), value.clone());
        }
    }
}

/// At most `limit` characters, cut at a word where one is near.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    let kept = match cut.rfind(char::is_whitespace) {
        Some(end) if end + 40 > cut.len() => cut.get(..end).unwrap_or(&cut),
        _ => &cut,
    };
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_size_is_that_of_the_text(text in ".*", other in "[\\x00-\\x30\"\\\\]*", number in any::<f64>(), flag in any::<bool>()) {
            let value = json!({ text.as_str(): [other, number, flag, null, [], {}], "n": -12, "o": { "a": [1, 2] } });
            prop_assert_eq!(size_of(&value), value.to_string().len());
        }
    }
}
