//! Arguments held against a tool's input schema.
//!
//! A validator of our own, because the complete ones add 800 KB to the Worker and compile patterns with an engine that
//! an attacker can keep busy. It knows the keywords that cleaned schemas have; what it does not know it lets pass,
//! because the upstream checks again. Patterns run in linear time, references only lead into the schema itself, and
//! the work is bounded.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::decimal::Decimal;
use crate::json::json_depth_within;

/// How many faults are reported.
const MAX_FAULTS: usize = 20;

/// How many schemas are held against values for one call.
const MAX_STEPS: usize = 200_000;

/// How deep schemas and values are walked together.
const MAX_DEPTH: usize = 256;

/// How large a compiled pattern can get, in bytes.
const MAX_PATTERN_BYTES: usize = 256 * 1024;

/// One place where arguments do not satisfy the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentFault {
    /// JSON pointer to the place, such as `/items/0/name`; empty for the arguments themselves.
    pub path: String,
    /// What is wrong there, for the model.
    pub message: String,
}

/// Checks arguments against a tool's input schema and returns them as they will be sent.
///
/// An object or array that came as a JSON string is parsed where the schema allows no string and the parsed value
/// fits; nothing else is changed. At most 20 faults are reported.
pub fn check_arguments(schema: &Value, arguments: Value) -> Result<Value, Vec<ArgumentFault>> {
    let mut check = Check::new(schema);
    if check.faults(schema, &arguments).is_empty() {
        return Ok(arguments);
    }
    let mut check = Check::new(schema);
    let parsed = check.parsed(schema, arguments, 0);
    let mut check = Check::new(schema);
    let mut faults = check.faults(schema, &parsed);
    if check.steps > MAX_STEPS {
        faults =
            vec![ArgumentFault { path: String::new(), message: "too large or too nested to be checked".to_owned() }];
    }
    faults.truncate(MAX_FAULTS);
    if faults.is_empty() { Ok(parsed) } else { Err(faults) }
}

/// One check of one value.
struct Check<'s> {
    root: &'s Value,
    steps: usize,
    /// Patterns are compiled once; `None`: this engine cannot.
    patterns: HashMap<&'s str, Option<Rc<Regex>>>,
}

impl<'s> Check<'s> {
    fn new(root: &'s Value) -> Self {
        Self { root, steps: 0, patterns: HashMap::new() }
    }

    /// The pattern, where this engine has what it needs: look-around and back-references it does not have, on purpose.
    fn compiled(&mut self, pattern: &'s str) -> Option<Rc<Regex>> {
        let compile = || RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().ok().map(Rc::new);
        self.patterns.entry(pattern).or_insert_with(compile).clone()
    }

    /// The schemas that count for a member: of its name, of patterns that its name has, or else of all other members.
    fn member_schemas(&mut self, schema: &'s Map<String, Value>, name: &str) -> Vec<&'s Value> {
        let mut found: Vec<&Value> =
            schema.get("properties").and_then(|properties| properties.get(name)).into_iter().collect();
        for (pattern, member) in schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten() {
            self.steps += 1;
            // A pattern that cannot be read might match: then `additionalProperties` must not refuse the member.
            if self.compiled(pattern).is_none_or(|pattern| pattern.is_match(name)) {
                found.push(member);
            }
        }
        if found.is_empty() {
            found.extend(schema.get("additionalProperties"));
        }
        found
    }

    fn check_string(
        &mut self,
        schema: &'s Map<String, Value>,
        text: &str,
        path: &str,
        faults: &mut Vec<ArgumentFault>,
    ) {
        let length = || text.chars().count();
        if let Some(least) = limit(schema, "minLength").filter(|least| length() < *least) {
            fault(faults, path, format!("must have at least {least} characters"));
        }
        if let Some(most) = limit(schema, "maxLength").filter(|most| length() > *most) {
            fault(faults, path, format!("must have at most {most} characters"));
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && self.compiled(pattern).is_some_and(|compiled| !compiled.is_match(text))
        {
            fault(faults, path, format!("must match the pattern {pattern}"));
        }
    }

    fn faults(&mut self, schema: &'s Value, value: &Value) -> Vec<ArgumentFault> {
        let mut faults = Vec::new();
        self.check(schema, value, &mut String::new(), 0, &mut faults);
        faults
    }

    fn satisfies(&mut self, schema: &'s Value, value: &Value, depth: usize) -> bool {
        let mut faults = Vec::new();
        self.check(schema, value, &mut String::new(), depth, &mut faults);
        faults.is_empty()
    }

    fn check(
        &mut self,
        schema: &'s Value,
        value: &Value,
        path: &mut String,
        depth: usize,
        faults: &mut Vec<ArgumentFault>,
    ) {
        self.steps += 1;
        if self.steps > MAX_STEPS || depth > MAX_DEPTH {
            self.steps = self.steps.max(MAX_STEPS + 1);
            fault(faults, path, "too large or too nested to be checked".to_owned());
            return;
        }
        if faults.len() >= MAX_FAULTS {
            return;
        }
        let schema = match schema {
            Value::Bool(false) => return fault(faults, path, "is not allowed here".to_owned()),
            Value::Object(schema) => schema,
            Value::Null | Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Array(_) => return,
        };
        if let Some(target) = self.referred(schema) {
            self.check(target, value, path, depth + 1, faults);
        }
        if let Some(types) = schema.get("type") {
            let types = type_names(types);
            if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
                return fault(faults, path, format!("must be {}, not {}", types.join(" or "), kind_of(value)));
            }
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.iter().any(|allowed| same_value(allowed, value))
        {
            let listed: Vec<String> = allowed.iter().take(20).map(Value::to_string).collect();
            let more = if allowed.len() > 20 { ", …" } else { "" };
            return fault(faults, path, format!("must be one of {}{more}", listed.join(", ")));
        }
        if let Some(expected) = schema.get("const")
            && !same_value(expected, value)
        {
            return fault(faults, path, format!("must be {expected}"));
        }
        match value {
            Value::Number(number) => check_number(schema, &Decimal::of(number), path, faults),
            Value::String(text) => self.check_string(schema, text, path, faults),
            Value::Array(items) => self.check_array(schema, items, path, depth, faults),
            Value::Object(members) => self.check_object(schema, members, path, depth, faults),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_combined(schema, value, path, depth, faults);
    }

    fn check_combined(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        path: &mut String,
        depth: usize,
        faults: &mut Vec<ArgumentFault>,
    ) {
        for part in list(schema, "allOf") {
            self.check(part, value, path, depth + 1, faults);
        }
        for keyword in ["anyOf", "oneOf"] {
            let mut closest: Option<Vec<ArgumentFault>> = None;
            let mut matches = 0;
            for alternative in list(schema, keyword) {
                let mut found = Vec::new();
                self.check(alternative, value, path, depth + 1, &mut found);
                if found.is_empty() {
                    matches += 1;
                    if keyword == "anyOf" {
                        break;
                    }
                } else {
                    // The alternative that the model meant is the one whose faults are deepest inside the value.
                    let rank = |found: &[ArgumentFault]| found.iter().map(|fault| fault.path.len()).max();
                    if closest.as_ref().is_none_or(|closest| rank(&found) > rank(closest)) {
                        closest = Some(found);
                    }
                }
            }
            match closest {
                Some(closest) if matches == 0 => {
                    let inside = closest.iter().any(|fault| fault.path.len() > path.len());
                    if inside || list(schema, keyword).len() == 1 {
                        faults.extend(closest);
                    } else {
                        let reasons: HashSet<String> = closest.into_iter().map(|fault| fault.message).collect();
                        let mut reasons: Vec<String> = reasons.into_iter().collect();
                        reasons.sort();
                        fault(faults, path, format!("has none of the allowed forms; of one: {}", reasons.join("; ")));
                    }
                }
                _ if matches > 1 => {
                    fault(faults, path, "has more than one of forms that exclude each other".to_owned());
                }
                _ => {}
            }
        }
        if let Some(refused) = schema.get("not")
            && self.satisfies(refused, value, depth + 1)
        {
            fault(faults, path, "has a form that is not allowed".to_owned());
        }
    }

    fn check_array(
        &mut self,
        schema: &'s Map<String, Value>,
        items: &[Value],
        path: &mut String,
        depth: usize,
        faults: &mut Vec<ArgumentFault>,
    ) {
        if let Some(least) = limit(schema, "minItems").filter(|least| items.len() < *least) {
            fault(faults, path, format!("must have at least {least} items"));
        }
        if let Some(most) = limit(schema, "maxItems").filter(|most| items.len() > *most) {
            fault(faults, path, format!("must have at most {most} items"));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(comparable(item))) {
                fault(faults, path, "must not have the same item twice".to_owned());
            }
        }
        let first = list(schema, "prefixItems");
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or_else(|| schema.get("items")) {
                let end = path.len();
                path.push('/');
                path.push_str(&index.to_string());
                self.check(schema, item, path, depth + 1, faults);
                path.truncate(end);
            }
        }
    }

    fn check_object(
        &mut self,
        schema: &'s Map<String, Value>,
        members: &Map<String, Value>,
        path: &mut String,
        depth: usize,
        faults: &mut Vec<ArgumentFault>,
    ) {
        if let Some(least) = limit(schema, "minProperties").filter(|least| members.len() < *least) {
            fault(faults, path, format!("must have at least {least} properties"));
        }
        if let Some(most) = limit(schema, "maxProperties").filter(|most| members.len() > *most) {
            fault(faults, path, format!("must have at most {most} properties"));
        }
        for name in list(schema, "required").iter().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let place = format!("{path}/{}", pointer_token(name));
                fault(faults, &place, "is required".to_owned());
            }
        }
        for (name, member) in members {
            let end = path.len();
            path.push('/');
            path.push_str(&pointer_token(name));
            let member_schemas = self.member_schemas(schema, name);
            for member_schema in &member_schemas {
                if **member_schema == Value::Bool(false) {
                    fault(faults, path, unknown_message(schema, name));
                } else {
                    self.check(member_schema, member, path, depth + 1, faults);
                }
            }
            path.truncate(end);
        }
    }

    /// Where `$ref` leads, inside the schema only; one that leads nowhere says nothing.
    fn referred(&self, schema: &Map<String, Value>) -> Option<&'s Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    /// The value with JSON strings parsed where the schema wants an object or array.
    fn parsed(&mut self, schema: &'s Value, value: Value, depth: usize) -> Value {
        self.steps += 1;
        if self.steps > MAX_STEPS || depth > MAX_DEPTH {
            return value;
        }
        let Some(members) = schema.as_object() else { return value };
        let mut value = match self.referred(members) {
            Some(target) => self.parsed(target, value, depth + 1),
            None => value,
        };
        if let Value::String(text) = &value {
            if self.allows_string(schema, 0) {
                return value;
            }
            let text = text.trim();
            if !text.starts_with(['{', '[']) || !json_depth_within(text, MAX_DEPTH / 2) {
                return value;
            }
            let Ok(inner) = serde_json::from_str::<Value>(text) else { return value };
            let inner = self.parsed(schema, inner, depth + 1);
            return if self.satisfies(schema, &inner, depth + 1) { inner } else { value };
        }
        for part in list(members, "allOf") {
            value = self.parsed(part, value, depth + 1);
        }
        let alternatives = list(members, "anyOf");
        if !alternatives.is_empty()
            && !alternatives.iter().any(|alternative| self.satisfies(alternative, &value, depth + 1))
        {
            for alternative in alternatives {
                let candidate = self.parsed(alternative, value.clone(), depth + 1);
                if self.satisfies(alternative, &candidate, depth + 1) {
                    value = candidate;
                    break;
                }
            }
        }
        match value {
            Value::Array(items) => {
                let first = list(members, "prefixItems");
                let items = items.into_iter().enumerate().map(|(index, item)| {
                    match first.get(index).or_else(|| members.get("items")) {
                        Some(schema) => self.parsed(schema, item, depth + 1),
                        None => item,
                    }
                });
                Value::Array(items.collect())
            }
            Value::Object(object) => {
                let object = object.into_iter().map(|(name, member)| {
                    let schemas = self.member_schemas(members, &name);
                    let member =
                        schemas.into_iter().fold(member, |member, schema| self.parsed(schema, member, depth + 1));
                    (name, member)
                });
                Value::Object(object.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
        }
    }

    /// Whether some string might satisfy the schema.
    fn allows_string(&self, schema: &'s Value, depth: usize) -> bool {
        let Some(members) = schema.as_object() else { return *schema != Value::Bool(false) };
        if depth > 32 {
            return true;
        }
        let types = members.get("type").map(type_names).unwrap_or_default();
        if !types.is_empty() && !types.contains(&"string") {
            return false;
        }
        let values = members.get("enum").and_then(Value::as_array);
        if values.is_some_and(|values| !values.iter().any(Value::is_string)) {
            return false;
        }
        if members.get("const").is_some_and(|expected| !expected.is_string()) {
            return false;
        }
        if self.referred(members).is_some_and(|target| !self.allows_string(target, depth + 1)) {
            return false;
        }
        let alternatives = list(members, "anyOf");
        list(members, "allOf").iter().all(|part| self.allows_string(part, depth + 1))
            && (alternatives.is_empty() || alternatives.iter().any(|part| self.allows_string(part, depth + 1)))
    }
}

fn check_number(schema: &Map<String, Value>, value: &Decimal, path: &str, faults: &mut Vec<ArgumentFault>) {
    let bound = |keyword: &str| match schema.get(keyword) {
        Some(Value::Number(number)) => Some((Decimal::of(number), number)),
        _ => None,
    };
    if let Some((_, stated)) = bound("minimum").filter(|(least, _)| value < least) {
        fault(faults, path, format!("must be at least {stated}"));
    }
    if let Some((_, stated)) = bound("maximum").filter(|(most, _)| value > most) {
        fault(faults, path, format!("must be at most {stated}"));
    }
    if let Some((_, stated)) = bound("exclusiveMinimum").filter(|(least, _)| value <= least) {
        fault(faults, path, format!("must be more than {stated}"));
    }
    if let Some((_, stated)) = bound("exclusiveMaximum").filter(|(most, _)| value >= most) {
        fault(faults, path, format!("must be less than {stated}"));
    }
    if let Some((_, stated)) = bound("multipleOf").filter(|(step, _)| value.is_multiple_of(step) == Some(false)) {
        fault(faults, path, format!("must be a multiple of {stated}"));
    }
}

fn unknown_message(schema: &Map<String, Value>, name: &str) -> String {
    let known: Vec<&str> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    if let Some(meant) = known.iter().find(|known| plain(known) == plain(name)) {
        return format!("is not known; did you mean {meant:?}?");
    }
    if known.is_empty() {
        return "is not known; nothing is taken here".to_owned();
    }
    let more = if known.len() > 20 { ", …" } else { "" };
    let listed: Vec<&str> = known.into_iter().take(20).collect();
    format!("is not known; known are {}{more}", listed.join(", "))
}

fn fault(faults: &mut Vec<ArgumentFault>, path: &str, message: String) {
    if faults.len() < MAX_FAULTS {
        faults.push(ArgumentFault { path: path.to_owned(), message });
    }
}

fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> &'s [Value] {
    schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn limit(schema: &Map<String, Value>, keyword: &str) -> Option<usize> {
    schema.get(keyword)?.as_u64().and_then(|limit| usize::try_from(limit).ok())
}

fn type_names(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => matches!(value, Value::Number(number) if Decimal::of(number).is_integer()),
        _ => true,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Equality of JSON Schema: numbers by value, objects whatever the order.
fn same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Decimal::of(left) == Decimal::of(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_value(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same_value(left, right)))
        }
        _ => left == right,
    }
}

/// A text that two values have in common exactly when they are the same to JSON Schema.
fn comparable(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{:?}", Decimal::of(number)),
        Value::Array(items) => format!("[{}]", items.iter().map(comparable).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(key, member)| format!("{}:{}", Value::from(key.as_str()), comparable(member)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
