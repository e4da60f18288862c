//! One JSON line per event. No token, credential, tool argument or result is ever put into one.

use serde_json::{Map, Value};

/// Writes one line: the event's name and its fields.
pub(crate) fn log(event: &str, fields: Value) {
    worker::console_log!("{}", line(event, fields));
}

/// Writes one line on the error channel.
pub(crate) fn log_error(event: &str, fields: Value) {
    worker::console_error!("{}", line(event, fields));
}

fn line(event: &str, fields: Value) -> Value {
    let mut line = Map::new();
    line.insert("event".to_owned(), Value::String(event.to_owned()));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    Value::Object(line)
}
