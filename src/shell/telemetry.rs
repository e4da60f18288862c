//! One JSON line per event. No token, credential, tool argument or result is ever put into one.

use serde_json::{Map, Value};

/// Writes one line: the event's name and its fields.
pub(crate) fn log(event: &str, fields: Value) {
    let mut line = Map::new();
    line.insert("event".to_owned(), Value::String(event.to_owned()));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    worker::console_log!("{}", Value::Object(line));
}

/// Writes one line on the error channel.
pub(crate) fn log_error(event: &str, fields: Value) {
    let mut line = Map::new();
    line.insert("event".to_owned(), Value::String(event.to_owned()));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    worker::console_error!("{}", Value::Object(line));
}
