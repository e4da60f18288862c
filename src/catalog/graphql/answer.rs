//! An endpoint's answer read as a tool's outcome (specification, October 2021, section 7; GraphQL over HTTP, section 6.4).
//!
//! An answer with errors is a failure even where it has data: what is missing must not pass for nothing. The data that came
//! is among the details.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::list::list;
use crate::catalog::openapi::answer::{HttpAnswer, read_answer as read_http_answer};
use crate::catalog::schema::clean::shortened;
use crate::catalog::tool::{ToolError, ToolOutcome, raw_json};

/// Errors that are told.
const ERRORS: usize = 5;
/// Errors that are kept in the details.
const KEPT: usize = 20;
/// Characters of one error.
const ERROR_CHARS: usize = 500;
/// Bytes of the details.
const DETAILS_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    errors: Option<&'a RawValue>,
}

/// Reads the answer to a document that asks for one field.
#[must_use]
pub fn read_answer(field: &str, answer: &HttpAnswer<'_>) -> ToolOutcome {
    let response = std::str::from_utf8(answer.body).ok();
    let response = response.map(|text| text.trim_start_matches('\u{feff}').trim()).filter(|text| text.starts_with('{'));
    let response = response.and_then(|text| serde_json::from_str::<Response<'_>>(text).ok());
    let Some(response) = response else { return no_graphql(answer) };
    let told = response.errors.map(messages).unwrap_or_default();
    if !told.is_empty() {
        return ToolOutcome::Failure(failure(&response, told, answer.status));
    }
    if answer.status >= 300 {
        return no_graphql(answer);
    }
    let value = match response.data {
        Some(data) => member(data, field),
        None => None,
    };
    match value {
        // Digits and the order of members stay as they came.
        Some(value) => read_http_answer(&HttpAnswer {
            status: answer.status,
            headers: &[("content-type".to_owned(), "application/json".to_owned())],
            body: value.get().as_bytes(),
        }),
        None => no_graphql(answer),
    }
}

/// What is no answer of GraphQL: an error of HTTP, a redirect, or of whatever stands before the endpoint.
fn no_graphql(answer: &HttpAnswer<'_>) -> ToolOutcome {
    if answer.status >= 300 {
        return read_http_answer(answer);
    }
    let mut error = ToolError::new("invalid_response", "What the endpoint answered is no GraphQL response.");
    error.status = Some(answer.status);
    ToolOutcome::Failure(error)
}

fn failure(response: &Response<'_>, message: String, status: u16) -> ToolError {
    let mut error = ToolError::new("graphql_error", message);
    error.status = (status >= 400).then_some(status);
    error.retryable = Some(matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504));
    let mut details = serde_json::Map::new();
    let errors = response.errors.and_then(|errors| list(errors, KEPT));
    let errors = errors.map(|errors| errors.items).unwrap_or_default();
    let mut room = DETAILS_BYTES;
    let mut kept = Vec::new();
    for error in errors {
        let Some(left) = room.checked_sub(error.get().len()) else { break };
        room = left;
        kept.extend(serde_json::from_str::<Value>(error.get()).ok());
    }
    details.insert("errors".to_owned(), Value::Array(kept));
    if let Some(data) = response.data {
        if data.get().len() <= room {
            details.extend(serde_json::from_str::<Value>(data.get()).ok().map(|data| ("data".to_owned(), data)));
        } else {
            details.insert("dataOmitted".to_owned(), json!(format!("{} bytes", data.get().len())));
        }
    }
    error.details = Some(raw_json(&Value::Object(details)));
    error
}

/// The messages of a list of errors, in bounds; empty where there is none.
pub(super) fn messages(errors: &RawValue) -> String {
    let Some(errors) = list(errors, ERRORS) else { return String::new() };
    let mut told: Vec<String> = errors
        .items
        .iter()
        .map(|error| {
            let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str).or_else(|| error.as_str());
            let message = shortened(message.unwrap_or("an error without a message").trim(), ERROR_CHARS);
            let path = error.get("path").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            // The first part is the field that was called.
            let path: Vec<String> = path.iter().skip(1).take(20).map(part_of_path).collect();
            if path.is_empty() { message } else { format!("{message} (at {})", shortened(&path.join("."), 200)) }
        })
        .collect();
    if errors.more > 0 {
        told.push(format!("and {} more", errors.more));
    }
    told.join("; ")
}

fn part_of_path(part: &Value) -> String {
    match part {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => part.to_string(),
    }
}

/// A member of an object, as it stands.
fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    struct Named<'n>(&'n str);
    impl<'de> Visitor<'de> for Named<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = members.next_key::<Cow<'de, str>>()? {
                if key == self.0 {
                    found = Some(members.next_value()?);
                } else {
                    members.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object.get()).deserialize_map(Named(name)).ok()?
}
