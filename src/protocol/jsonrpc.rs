//! JSON-RPC 2.0 messages as MCP uses them (specification, revision 2025-11-25, "Base protocol").

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::errors::WireError;
use crate::json::json_depth_within;

/// Bytes of a POST body.
pub const BODY_LIMIT: usize = 4 << 20;
/// Bytes of a request's id.
pub const ID_LIMIT: usize = 1 << 10;
/// Depth of nesting of a body.
pub const DEPTH_LIMIT: usize = 256;
/// Messages of a batch.
pub const BATCH_LIMIT: usize = 100;

/// The id of a request: a string or an integer, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// The id as JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// An id, if it is a string or an integer of at most [`ID_LIMIT`] bytes.
    #[must_use]
    pub fn parse(value: &Value) -> Option<Self> {
        let text = match value {
            Value::String(_) => serde_json::to_string(value).ok()?,
            Value::Number(number) => {
                let text = number.to_string();
                let digits = text.strip_prefix('-').unwrap_or(&text);
                if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                text
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        (text.len() <= ID_LIMIT).then_some(Self(text))
    }
}

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// One message that a client sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// Its id.
        id: RequestId,
        /// Its method.
        method: String,
        /// Its parameters; an empty object where there were none.
        params: Map<String, Value>,
    },
    /// Wants none.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Map<String, Value>,
    },
    /// Answers a question of the gateway's, with a result or an error.
    Response {
        /// The id of the question.
        id: Option<RequestId>,
        /// The result, or the error object.
        outcome: Result<Value, Value>,
    },
}

impl Message {
    /// Whether it opens a session.
    #[must_use]
    pub fn is_initialize(&self) -> bool {
        matches!(self, Self::Request { method, .. } if method == "initialize")
    }
}

/// What a body holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// One message.
    Single(Message),
    /// Several, in an array (2025-03-26 only). A broken one has its error in its place.
    Batch(Vec<Result<Message, (WireError, Option<RequestId>)>>),
}

impl Body {
    /// Whether `initialize` is one of several messages, which no version allows.
    #[must_use]
    pub fn has_initialize_among_others(&self) -> bool {
        match self {
            Self::Single(_) => false,
            Self::Batch(messages) => messages.iter().flatten().any(Message::is_initialize),
        }
    }

    /// The id of a single request.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Single(Message::Request { id, .. }) => Some(id),
            Self::Single(Message::Notification { .. } | Message::Response { .. }) | Self::Batch(_) => None,
        }
    }

    /// Whether it is an `initialize` request, alone.
    #[must_use]
    pub fn is_initialize(&self) -> bool {
        matches!(self, Self::Single(message) if message.is_initialize())
    }
}

/// Why a body is refused, and the id that the answer carries.
pub type Refusal = (WireError, Option<RequestId>);

/// Reads a POST body.
pub fn parse_body(bytes: &[u8]) -> Result<Body, Refusal> {
    let parse_error = |what: &str| (WireError::parse_error(what), None);
    let text = std::str::from_utf8(bytes).map_err(|_| parse_error("the body is not UTF-8"))?;
    if !json_depth_within(text, DEPTH_LIMIT) {
        return Err(parse_error("the body is nested too deeply"));
    }
    let value: Value = serde_json::from_str(text).map_err(|_| parse_error("the body is not valid JSON"))?;
    match value {
        Value::Array(values) if values.is_empty() => Err((WireError::invalid_request("an empty batch"), None)),
        Value::Array(values) if values.len() > BATCH_LIMIT => {
            Err((WireError::invalid_request("more messages in a batch than 100"), None))
        }
        Value::Array(values) => Ok(Body::Batch(values.into_iter().map(parse_message).collect())),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            parse_message(value).map(Body::Single)
        }
    }
}

fn parse_message(value: Value) -> Result<Message, Refusal> {
    let Value::Object(mut object) = value else {
        return Err((WireError::invalid_request("a message has to be an object"), None));
    };
    let raw_id = object.remove("id");
    let id = raw_id.as_ref().and_then(RequestId::parse);
    let refuse = |what: &str| Err((WireError::invalid_request(what), id.clone()));
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse("jsonrpc has to be \"2.0\"");
    }
    if raw_id.is_some() && id.is_none() && !(raw_id == Some(Value::Null) && object.contains_key("error")) {
        return refuse("id has to be a string or an integer of at most 1024 bytes");
    }
    match object.remove("method") {
        Some(Value::String(method)) => {
            let params = match object.remove("params") {
                None => Map::new(),
                Some(Value::Object(params)) => params,
                Some(_) => return refuse("params has to be an object"),
            };
            Ok(match id {
                Some(id) => Message::Request { id, method, params },
                None => Message::Notification { method, params },
            })
        }
        Some(_) => refuse("method has to be a string"),
        None => match (object.remove("result"), object.remove("error")) {
            (Some(result), None) if id.is_some() => Ok(Message::Response { id, outcome: Ok(result) }),
            (None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
            _ => refuse("neither a request, a notification nor a response"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> i32 {
        parse_body(text.as_bytes()).unwrap_err().0.code
    }

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &str| parse_body(text.as_bytes()).unwrap();
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Body::Single(Message::Request { .. })));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Body::Single(Message::Notification { .. })
        ));
        for text in [
            r#"{"jsonrpc":"2.0","id":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
        ] {
            assert!(matches!(parse(text), Body::Single(Message::Response { .. })), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_right_code() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(1_100));
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#, "[".repeat(300), "]".repeat(300));
        for (text, code) in [
            ("", -32_700),
            ("{", -32_700),
            ("[]", -32_600),
            ("1", -32_600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32_600),
            (r#"{"id":1,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#, -32_600),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
            (r#"{"jsonrpc":"2.0","result":{}}"#, -32_600),
            (long.as_str(), -32_600),
            (deep.as_str(), -32_700),
        ] {
            assert_eq!(refusal(text), code, "{text:.80}");
        }
    }

    #[test]
    fn an_id_comes_back_as_it_was_written() {
        for id in ["1", "-7", "\"a\\u00e9\"", "12345678901234567890123"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Body::Single(Message::Request { id: parsed, .. }) = parse_body(text.as_bytes()).unwrap() else {
                panic!("{text}");
            };
            let value: Value = serde_json::from_str(id).unwrap();
            let back: Value = serde_json::from_str(parsed.as_json()).unwrap();
            assert_eq!(value, back);
        }
    }

    #[test]
    fn a_refused_message_keeps_its_id_where_it_can_be_read() {
        let (_, id) = parse_body(br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#).unwrap_err();
        assert_eq!(id.unwrap().as_json(), "7");
    }
}
