//! Imports every document of a folder and holds the result against what clients need. Ignored: the documents are not in the
//! repository. `DOCUMENTS=/path cargo test --release --test real_documents -- --ignored --nocapture`; `REPORT=/file` writes a
//! line of JSON for each document.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, tells what it saw, and measures on this machine"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use countersign::catalog::openapi::request::{RequestError, build_request};
use countersign::catalog::openapi::{Import, ImportLimits, ImportOptions, ReportAction, import_openapi};
use countersign::catalog::schema::check_arguments;
use countersign::catalog::tool::{Binding, HttpBinding, ParameterBinding, ParameterLocation, Tool};
use countersign::catalog::typescript::type_text;
use countersign::session::direct::{direct_name, own_direct_name};
use serde_json::{Map, Value, json};

/// As in the Worker, whose stack has a megabyte.
const STACK_BYTES: usize = 512 << 10;
/// As in `shell/admin_api.rs`.
const DOCUMENT_BYTES: usize = 24 << 20;
/// The slowest that a document may be, in milliseconds, on any machine that runs this.
const SLOW_MS: u128 = 20_000;

/// What became of a document.
#[derive(Default)]
struct Seen {
    refused: Option<String>,
    tools: usize,
    skipped: Vec<(String, String)>,
    changed: Vec<(String, String)>,
    faults: Vec<String>,
    bytes: usize,
    ms: u128,
    input: usize,
    output: usize,
}

#[test]
#[ignore = "needs DOCUMENTS, a folder of documents"]
fn every_document_imports_or_is_refused_with_a_reason() {
    let folder = PathBuf::from(std::env::var("DOCUMENTS").unwrap());
    let mut files = Vec::new();
    find(&folder, &mut files);
    files.sort();
    let report = std::env::var("REPORT").ok().map(|path| Mutex::new(fs::File::create(path).unwrap()));
    let next = AtomicUsize::new(0);
    let all: Mutex<Vec<(PathBuf, Seen)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::env::var("THREADS").map_or(1, |n| n.parse().unwrap()) {
            let work = || {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seen = look_at(file);
                    if let Some(report) = &report {
                        let line = json!({
                            "file": file, "refused": seen.refused, "tools": seen.tools, "skipped": seen.skipped, "changed": seen.changed,
                            "faults": seen.faults, "bytes": seen.bytes, "ms": seen.ms, "input": seen.input, "output": seen.output,
                        });
                        writeln!(report.lock().unwrap(), "{line}").unwrap();
                    }
                    all.lock().unwrap().push((file.clone(), seen));
                }
            };
            std::thread::Builder::new().stack_size(4 << 20).spawn_scoped(scope, work).unwrap();
        }
    });
    let all = all.into_inner().unwrap();
    summarize(&all);
    let faulty = all.iter().filter(|(_, seen)| !seen.faults.is_empty()).count();
    assert_eq!(faulty, 0, "{faulty} documents break an invariant");
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.is_file() {
        found.push(folder.to_owned());
        return;
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|known| extension == *known))
        {
            found.push(path);
        }
    }
}

/// In a thread of its own, for its stack and in case that it panics.
fn look_at(file: &Path) -> Seen {
    let Ok(text) = String::from_utf8(fs::read(file).unwrap()) else {
        return Seen { refused: Some("not UTF-8".to_owned()), ..Seen::default() };
    };
    let bytes = text.len();
    let work = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let began = Instant::now();
        let first = import(&text, None);
        let ms = began.elapsed().as_millis();
        let mut seen = match first {
            Ok(import) => check(&text, &import),
            Err(why) => Seen { refused: Some(why), ..Seen::default() },
        };
        if ms > SLOW_MS {
            seen.faults.push(format!("it took {ms} ms"));
        }
        seen.ms = ms;
        seen
    });
    let seen = work.unwrap().join();
    let panicked = || Seen { faults: vec!["it panicked".to_owned()], ..Seen::default() };
    Seen { bytes, ..seen.unwrap_or_else(|_| panicked()) }
}

fn import(text: &str, known: Option<&BTreeMap<String, String>>) -> Result<Import, String> {
    let limits = ImportLimits { document_bytes: DOCUMENT_BYTES, ..ImportLimits::default() };
    let options = ImportOptions {
        source: "source",
        base_url: Some("https://base.example.com/api"),
        document_url: None,
        known_names: known,
        limits,
    };
    import_openapi(text, &options).map_err(|error| error.to_string())
}

fn check(text: &str, import_first: &Import) -> Seen {
    let mut seen = Seen { tools: import_first.tools.len(), ..Seen::default() };
    let mut names: [BTreeSet<String>; 3] = Default::default();
    for tool in &import_first.tools {
        let mut fault = |what: String| seen.faults.push(format!("{}: {what}", tool.address));
        let of_all = [tool.address.clone(), direct_name(&tool.address), own_direct_name(&tool.address)];
        for (name, known) in of_all.into_iter().zip(&mut names) {
            let longest = if name.contains('.') { 128 } else { 64 };
            if !is_key(&name, longest) {
                fault(format!("{name:?} is no safe name"));
            }
            if !known.insert(name.clone()) {
                fault(format!("{name:?} is there twice"));
            }
        }
        if tool.input_schema.get("type") != Some(&json!("object")) || tool.input_schema.get("anyOf").is_some() {
            fault("the root is not an object".to_owned());
        }
        check_schema(&tool.input_schema, &tool.input_schema, true, true, &mut fault);
        let input = tool.input_schema.to_string().len();
        let output = tool.output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
        if input > 64 << 10 || output > 32 << 10 {
            fault(format!("the schemas have {input} and {output} bytes"));
        }
        if let Some(schema) = &tool.output_schema {
            check_schema(schema, schema, true, false, &mut fault);
        }
        if tool.title.is_empty() || tool.description.is_empty() {
            fault("it has no title or no description".to_owned());
        }
        if type_text(&tool.input_schema).is_empty() {
            fault("it cannot be described".to_owned());
        }
        let stored = serde_json::to_string(tool).unwrap();
        if serde_json::from_str::<Tool>(&stored).ok().as_ref() != Some(tool) {
            fault("it is not read as it was stored".to_owned());
        }
        let Binding::Http(binding) = &tool.binding else { unreachable!("a document's tool is called by HTTP") };
        if let Err(why) = check_call(tool, binding) {
            fault(why);
        }
        seen.input = seen.input.max(input);
        seen.output = seen.output.max(output);
    }
    let known: BTreeMap<String, String> =
        import_first.tools.iter().map(|tool| (operation_of(tool), own_part(tool))).collect();
    for known in [None, Some(&known)] {
        if import(text, known).map(|again| again.tools).as_ref() != Ok(&import_first.tools) {
            seen.faults.push("importing it again gives something else".to_owned());
        }
    }
    for entry in &import_first.report {
        let operation = entry.operation.clone().unwrap_or_default();
        if entry.why.trim().is_empty() {
            seen.faults.push(format!("{operation} is reported without a reason"));
        }
        match entry.action {
            ReportAction::Skipped => seen.skipped.push((operation, entry.why.clone())),
            ReportAction::Changed => seen.changed.push((operation, entry.why.clone())),
            ReportAction::Renamed => {}
        }
    }
    seen
}

fn operation_of(tool: &Tool) -> String {
    match &tool.binding {
        Binding::Http(http) => format!("{} {}", http.method, http.path_template),
        Binding::Mcp(_) | Binding::Graphql(_) => String::new(),
    }
}

fn own_part(tool: &Tool) -> String {
    tool.address.split_once('.').unwrap().1.to_owned()
}

fn is_key(key: &str, longest: usize) -> bool {
    (1..=longest).contains(&key.len())
        && key != "__proto__"
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// `is_schema`: the value is a schema, not a map of schemas or plain data.
fn check_schema(root: &Value, value: &Value, is_root: bool, is_input: bool, fault: &mut impl FnMut(String)) {
    let Some(schema) = value.as_object() else {
        if !value.is_boolean() {
            fault(format!("{value} is no schema"));
        }
        return;
    };
    if let Some(reference) = schema.get("$ref") {
        let target =
            reference.as_str().and_then(|reference| reference.strip_prefix('#')).and_then(|to| root.pointer(to));
        if target.is_none() || !reference.as_str().unwrap_or_default().starts_with("#/$defs/") {
            fault(format!("{reference} does not resolve"));
        }
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if types.contains(&"array") && !schema.contains_key("items") {
        fault(format!("an array has no items: {value}"));
    }
    if schema.get("required").is_some_and(|required| required.as_array().is_none_or(Vec::is_empty)) {
        fault("`required` is empty".to_owned());
    }
    if schema.get("enum").is_some_and(|values| values.as_array().is_none_or(Vec::is_empty)) {
        fault("`enum` is empty".to_owned());
    }
    if schema.contains_key("$defs") != is_root && schema.contains_key("$defs") {
        fault("`$defs` is not at the root".to_owned());
    }
    for keyword in ["oneOf", "nullable", "definitions", "example", "discriminator", "xml", "$schema", "$id", "$anchor"]
    {
        if schema.contains_key(keyword) {
            fault(format!("it has {keyword}"));
        }
    }
    for (keyword, value) in schema {
        match keyword.as_str() {
            "properties" | "patternProperties" | "$defs" => {
                let Some(members) = value.as_object() else {
                    fault(format!("{keyword} is no object"));
                    continue;
                };
                for (key, member) in members {
                    if is_input && keyword == "properties" && !is_key(key, 64) {
                        fault(format!("the key {key:?} is not safe"));
                    }
                    check_schema(root, member, false, is_input, fault);
                }
                if keyword == "properties" {
                    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                        if !members.contains_key(name.as_str().unwrap_or_default()) {
                            fault(format!("{name} is required and not described"));
                        }
                    }
                }
            }
            "anyOf" | "allOf" | "prefixItems" => {
                for member in value.as_array().into_iter().flatten() {
                    check_schema(root, member, false, is_input, fault);
                }
            }
            "items" | "additionalProperties" | "not" => check_schema(root, value, false, is_input, fault),
            _ => {}
        }
    }
}

/// Makes arguments from the schema, all and only the required ones, and the request from them.
fn check_call(tool: &Tool, binding: &HttpBinding) -> Result<(), String> {
    for all in [false, true] {
        let arguments = example(&tool.input_schema, &tool.input_schema, all, 0);
        let Ok(arguments) = check_arguments(&tool.input_schema, arguments.clone()) else {
            // A pattern, or parts that contradict each other: nothing that this generator understands.
            continue;
        };
        let request = match build_request(binding, Some("https://base.example.com/api"), &arguments) {
            Ok(request) => request,
            Err(RequestError::Unwritable { .. }) => continue,
            Err(error) => return Err(format!("{error}: {arguments}")),
        };
        let path = request.url.split(['?', '#']).next().unwrap_or_default();
        let has_parts = |parameter: &&ParameterBinding| {
            let value = arguments.get(&parameter.key);
            parameter.location == ParameterLocation::Path
                && value.is_some_and(|value| value.is_object() || value.is_array())
        };
        // A value with parts may be written with braces.
        let is_open = path.contains("%7B") && !binding.parameters.iter().any(|parameter| has_parts(&parameter));
        if is_open || path.contains('{') || request.url.contains('#') {
            return Err(format!("{} has an open place", request.url));
        }
        let written = |name: &str| request.headers.iter().filter(|(header, _)| header == name).count();
        for parameter in &binding.parameters {
            let given = arguments.get(&parameter.key).is_some_and(|value| !value.is_null());
            if parameter.location == ParameterLocation::Header
                && written(&parameter.name.to_ascii_lowercase()) != usize::from(given)
            {
                return Err(format!("the header {} is not there once: {request:?}", parameter.name));
            }
        }
        if written("content-type") != usize::from(request.body.is_some()) {
            return Err(format!("a body and its type go together: {request:?}"));
        }
        if request.body.as_deref().is_some_and(|body| String::from_utf8_lossy(body).contains("[object")) {
            return Err("its body is [object Object]".to_owned());
        }
    }
    Ok(())
}

fn example(root: &Value, schema: &Value, all: bool, depth: usize) -> Value {
    if depth > 12 {
        return json!({});
    }
    let next = |schema: &Value| example(root, schema, all, depth + 1);
    let referred = schema.get("$ref").and_then(Value::as_str).and_then(|to| root.pointer(to.strip_prefix('#')?));
    if let Some(target) = referred {
        return next(target);
    }
    if let Some(value) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return value.clone();
    }
    if let Some(first) = schema.get("anyOf").and_then(|list| list.get(0)).filter(|_| schema.get("properties").is_none())
    {
        return next(first);
    }
    let kind = match schema.get("type") {
        Some(Value::String(name)) => name.as_str(),
        Some(Value::Array(names)) => names.first().and_then(Value::as_str).unwrap_or("string"),
        _ if schema.get("allOf").is_some() => "object",
        _ => "string",
    };
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    match kind {
        "object" => {
            let mut members = Map::new();
            for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                members.extend(next(part).as_object().cloned().unwrap_or_default());
            }
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if required.contains(&name.as_str()) || all && depth < 3 {
                    members.insert(name.clone(), next(member));
                }
            }
            Value::Object(members)
        }
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 5);
            (0..least).map(|_| schema.get("items").map_or(json!("x"), next)).collect()
        }
        "boolean" => json!(true),
        "null" => Value::Null,
        "integer" | "number" => json!(number("minimum").or(number("maximum")).unwrap_or(7.0) as i64),
        _ => {
            let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
            let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
            let text = if most < 9 { "a" } else { "a/b ü?&=%" };
            json!(
                text.chars()
                    .cycle()
                    .take(usize::try_from(least.max(text.chars().count() as u64).min(most)).unwrap())
                    .collect::<String>()
            )
        }
    }
}

fn summarize(all: &[(PathBuf, Seen)]) {
    let count = |reasons: &mut dyn Iterator<Item = &str>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for reason in reasons {
            *counts.entry(kind_of(reason)).or_default() += 1;
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (reason, count) in counts.iter().take(40) {
            println!("  {count:7}  {reason}");
        }
    };
    let imported = all.iter().filter(|(_, seen)| seen.refused.is_none()).count();
    let tools: usize = all.iter().map(|(_, seen)| seen.tools).sum();
    println!("{} documents, {imported} imported, {tools} tools", all.len());
    println!("refused:");
    count(&mut all.iter().filter_map(|(_, seen)| seen.refused.as_deref()));
    println!("skipped operations:");
    count(&mut all.iter().flat_map(|(_, seen)| seen.skipped.iter().map(|(_, why)| why.as_str())));
    println!("adjusted operations:");
    count(&mut all.iter().flat_map(|(_, seen)| seen.changed.iter().map(|(_, why)| why.as_str())));
    println!("slowest:");
    let mut slowest: Vec<&(PathBuf, Seen)> = all.iter().collect();
    slowest.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.ms));
    for (file, seen) in slowest.iter().take(8) {
        println!("  {:7} ms, {} bytes, {} tools: {}", seen.ms, seen.bytes, seen.tools, file.display());
    }
    println!("faults:");
    for (file, seen) in all {
        for fault in seen.faults.iter().take(3) {
            println!("  {}: {}", file.display(), fault.chars().take(400).collect::<String>());
        }
    }
}

/// A reason without what it quotes.
fn kind_of(reason: &str) -> String {
    let outside: Vec<&str> = reason.split('"').step_by(2).collect();
    outside.join("…").chars().take(140).map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect()
}
