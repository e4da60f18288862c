//! What an operation answers with: the schema of a success, and what to accept.

use serde_json::{Value, json};

use super::document::Version;
use super::input::is_header_text;
use super::media::{MediaFamily, best_media_type, family_of};
use super::operation::{Context, dialect, look_up};
use crate::catalog::schema::clean::{Cleaner, Direction};

/// How many schemas of answers are kept for other operations.
const KEPT_ANSWERS: usize = 32;

/// The schema of a successful answer, and the `Accept` header.
pub(super) fn read_answers(context: &Context<'_, '_>, definition: &Value) -> (Option<Value>, Option<String>) {
    let answers = definition.get("responses").and_then(Value::as_object);
    let Some(answers) = answers else { return (None, None) };
    let mut statuses: Vec<&String> =
        answers.keys().filter(|status| status.starts_with('2') || *status == "default").collect();
    statuses.sort_by_key(|status| (*status == "default", status.to_ascii_uppercase()));
    let mut accepted: Vec<String> = Vec::new();
    let mut schema = None;
    for status in statuses {
        let Some(answer) = answers.get(status).and_then(|answer| context.document.resolved(answer.clone()).ok()) else {
            continue;
        };
        // An answer without a success of its own may be an error.
        if status == "default" && !accepted.is_empty() {
            continue;
        }
        let media_types: Vec<(String, Option<Value>)> = if context.document.version == Version::V2 {
            let own = definition.get("produces").cloned().filter(Value::is_array);
            let produces = own.or_else(|| context.document.get("produces"));
            let listed = produces.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let listed: Vec<&str> = listed.collect();
            let listed = if listed.is_empty() { vec!["application/json"] } else { listed };
            listed.into_iter().map(|media_type| (media_type.to_owned(), answer.get("schema").cloned())).collect()
        } else {
            let stated = answer.get("content").and_then(Value::as_object);
            stated
                .into_iter()
                .flatten()
                .map(|(media_type, media)| {
                    let media = context.document.resolved(media.clone()).ok();
                    (media_type.clone(), media.and_then(|media| media.get("schema").cloned()))
                })
                .collect()
        };
        let Some(best) = best_media_type(media_types.iter().map(|(media_type, _)| media_type.as_str())) else {
            continue;
        };
        if schema.is_none() {
            let of_best = media_types.iter().find(|(media_type, _)| media_type == best);
            schema = of_best.and_then(|(media_type, schema)| Some((media_type.clone(), schema.clone()?)));
        }
        for media_type in [best].into_iter().chain(media_types.iter().map(|(media_type, _)| media_type.as_str())) {
            if is_header_text(media_type) && !accepted.iter().any(|known| known == media_type) {
                accepted.push(media_type.to_owned());
            }
        }
    }
    (schema.and_then(|(media_type, schema)| output_schema(context, &media_type, schema)), accept_header(&accepted))
}

/// The preferred media type, then the others: JSON is what a program can use best.
fn accept_header(accepted: &[String]) -> Option<String> {
    match accepted {
        [] => None,
        [only] => Some(only.clone()),
        [first, others @ ..] => {
            let others = others.iter().take(5).map(|media_type| format!(", {media_type};q=0.5"));
            Some(others.fold(first.clone(), |header, other| header + &other))
        }
    }
}

fn output_schema(context: &Context<'_, '_>, media_type: &str, schema: Value) -> Option<Value> {
    match family_of(media_type) {
        MediaFamily::Json | MediaFamily::Any => {
            // Most operations on a thing answer with the thing.
            let reference = schema.get("$ref").and_then(Value::as_str).map(str::to_owned);
            let answers = &context.document.answers;
            if let Some(known) = reference.as_ref().and_then(|reference| answers.borrow().get(reference).cloned()) {
                return known;
            }
            let lookup = |reference: &str| look_up(context.document, reference);
            let mut cleaner = Cleaner::new(&lookup, Direction::Output, dialect(context.document))
                .sharing(&context.document.definitions);
            let scoped = cleaner.scoped(schema);
            let resolved = cleaner.resolved(&scoped);
            let root = cleaner.clean(&resolved);
            let finished = cleaner.finish(root, context.limits.output_schema_bytes);
            let made =
                Some(finished.schema).filter(|schema| schema.as_object().is_some_and(|schema| !schema.is_empty()));
            if let Some(reference) = reference {
                let mut answers = answers.borrow_mut();
                if answers.len() >= KEPT_ANSWERS {
                    answers.clear();
                }
                answers.insert(reference, made.clone());
            }
            made
        }
        MediaFamily::Text | MediaFamily::Form | MediaFamily::JsonLines => Some(json!({ "type": "string" })),
        MediaFamily::Binary | MediaFamily::Multipart => Some(json!({
            "type": "object",
            "description": "A file.",
            "properties": {
                "name": { "type": "string" },
                "mimeType": { "type": "string" },
                "encoding": { "type": "string", "const": "base64" },
                "data": { "type": "string", "contentEncoding": "base64" },
            },
            "required": ["mimeType", "encoding", "data"],
        })),
    }
}
