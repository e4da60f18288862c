//! Messages that the gateway sends of itself: notifications and questions.

use serde_json::{Map, Value, json};

/// A notification, as JSON text.
#[must_use]
pub fn notification(method: &str, params: Option<Value>) -> String {
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, json!(method)),
        None => format!(r#"{{"jsonrpc":"2.0","method":{}}}"#, json!(method)),
    }
}

/// A request to the client, as JSON text.
#[must_use]
pub fn request(id: &str, method: &str, params: Option<Map<String, Value>>) -> String {
    let (id, method) = (json!(id), json!(method));
    match params {
        Some(params) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{}}}"#, Value::Object(params))
        }
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#),
    }
}

/// `notifications/progress` (specification, revision 2025-11-25, "Progress"). `token` is the client's, as JSON text.
#[must_use]
pub fn progress(token: &str, progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let mut fields = format!(r#""progressToken":{token},"progress":{}"#, number(progress));
    if let Some(total) = total {
        fields = format!(r#"{fields},"total":{}"#, number(total));
    }
    if let Some(message) = message {
        fields = format!(r#"{fields},"message":{}"#, json!(message));
    }
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{fields}}}}}"#)
}

/// A number as JSON; what JSON has no number for is 0.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_keeps_the_clients_token() {
        assert_eq!(
            progress("\"a\\\"b\"", 0.5, Some(100.0), Some("half")),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a\"b","progress":0.5,"total":100,"message":"half"}}"#
        );
        assert!(
            progress("12345678901234567890", f64::NAN, None, None).contains("12345678901234567890,\"progress\":0}")
        );
    }

    #[test]
    fn messages_without_parameters_have_none() {
        assert_eq!(notification("a", None), r#"{"jsonrpc":"2.0","method":"a"}"#);
        assert_eq!(request("1", "roots/list", None), r#"{"jsonrpc":"2.0","id":"1","method":"roots/list"}"#);
    }
}
