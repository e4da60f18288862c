//! The requests that are sent to a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::era::Era;
use super::{NEWEST_SESSION, STATELESS};
use crate::upstream::LogLevel;

/// One HTTP request, without what the transport adds: credentials, trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// `POST`, `GET` or `DELETE`.
    pub method: &'static str,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// JSON text.
    pub body: Option<String>,
}

/// What a request carries beside method and parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallParts {
    /// Arguments that are sent as headers too, by the header's name; values are not encoded yet. Stateless era only.
    pub headers: Vec<(String, String)>,
    /// Headers of the trace that the request belongs to, in both eras.
    pub trace: Vec<(String, String)>,
    /// Whether progress is wanted. The token is the request's id.
    pub progress: bool,
    /// From which level on log messages are wanted. Stateless era only; sessions have `logging/setLevel`.
    pub log_level: Option<LogLevel>,
    /// Answers to what the server asked for, in the stateless era: `inputResponses` and `requestState`.
    #[expect(clippy::type_complexity, reason = "two values that come and go together")]
    pub input: Option<(Option<Map<String, Value>>, Option<Value>)>,
}

/// Writes the requests of one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Requests {
    /// How the server is spoken to.
    pub era: Era,
    /// What the server may ask: the value of `capabilities`.
    pub capabilities: Value,
}

impl Requests {
    /// A request of its own.
    #[must_use]
    pub fn request(&self, id: u64, method: &str, mut params: Map<String, Value>, parts: &CallParts) -> Outgoing {
        let mut meta = Map::new();
        if parts.progress {
            meta.insert("progressToken".to_owned(), json!(id));
        }
        let mut headers = self.headers();
        headers.extend(parts.trace.iter().cloned());
        if self.era == Era::Stateless {
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!(STATELESS));
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), client_info());
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), self.capabilities.clone());
            if let Some(level) = parts.log_level {
                meta.insert("io.modelcontextprotocol/logLevel".to_owned(), json!(level));
            }
            headers.push(("mcp-method".to_owned(), method.to_owned()));
            let name = match method {
                "tools/call" | "prompts/get" => params.get("name"),
                "resources/read" => params.get("uri"),
                _ => None,
            };
            if let Some(name) = name.and_then(Value::as_str) {
                headers.push(("mcp-name".to_owned(), header_value(name)));
            }
            headers.extend(parts.headers.iter().map(|(name, value)| (name.clone(), header_value(value))));
            if let Some((responses, state)) = &parts.input {
                if let Some(responses) = responses {
                    params.insert("inputResponses".to_owned(), Value::Object(responses.clone()));
                }
                if let Some(state) = state {
                    params.insert("requestState".to_owned(), state.clone());
                }
            }
        }
        if !meta.is_empty() {
            params.insert("_meta".to_owned(), Value::Object(meta));
        }
        let body = if params.is_empty() {
            json!({ "jsonrpc": "2.0", "id": id, "method": method })
        } else {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        };
        Self::post(headers, &body.to_string())
    }

    /// A notification; sessions only.
    #[must_use]
    pub fn notification(&self, method: &str, params: Option<Value>) -> Outgoing {
        let mut body = json!({ "jsonrpc": "2.0", "method": method });
        if let (Some(params), Some(body)) = (params, body.as_object_mut()) {
            body.insert("params".to_owned(), params);
        }
        Self::post(self.headers(), &body.to_string())
    }

    /// An answer to a question of the server's; sessions only. `id` is JSON text, as the server wrote it.
    #[must_use]
    pub fn answer(&self, id: &str, outcome: &Result<Value, (i32, String)>) -> Outgoing {
        let part = match outcome {
            Ok(result) => format!(r#""result":{result}"#),
            Err((code, message)) => format!(r#""error":{}"#, json!({ "code": code, "message": message })),
        };
        Self::post(self.headers(), &format!(r#"{{"jsonrpc":"2.0","id":{id},{part}}}"#))
    }

    /// Asks for what came after an event, or, without one, for what belongs to no request. Sessions only.
    #[must_use]
    pub fn read_events(&self, last_event_id: Option<&str>) -> Outgoing {
        let mut headers = self.headers();
        headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
        headers.extend(last_event_id.map(|id| ("last-event-id".to_owned(), id.to_owned())));
        Outgoing { method: "GET", headers, body: None }
    }

    /// Ends the session; `None` where there is none.
    #[must_use]
    pub fn end(&self) -> Option<Outgoing> {
        let has_session = matches!(&self.era, Era::Session { id: Some(_), .. });
        has_session.then(|| Outgoing { method: "DELETE", headers: self.headers(), body: None })
    }

    /// `initialize`: asks for the newest version with sessions.
    #[must_use]
    pub fn initialize(id: u64, capabilities: &Value) -> Outgoing {
        let params = json!({
            "protocolVersion": NEWEST_SESSION,
            "capabilities": capabilities,
            "clientInfo": client_info(),
        });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params });
        Self::post(Vec::new(), &body.to_string())
    }

    fn post(mut headers: Vec<(String, String)>, body: &str) -> Outgoing {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "application/json, text/event-stream".to_owned()));
        Outgoing { method: "POST", headers, body: Some(body.to_owned()) }
    }

    fn headers(&self) -> Vec<(String, String)> {
        let version = |version: &str| ("mcp-protocol-version".to_owned(), version.to_owned());
        match &self.era {
            Era::Stateless => vec![version(STATELESS)],
            Era::Session { version: negotiated, id } => {
                let id = id.iter().map(|id| ("mcp-session-id".to_owned(), id.clone()));
                [version(negotiated)].into_iter().chain(id).collect()
            }
        }
    }
}

fn client_info() -> Value {
    json!({ "name": "countersign", "title": "Countersign", "version": env!("CARGO_PKG_VERSION") })
}

/// A value as it may stand in a header (revision 2026-07-28, "Value Encoding").
#[must_use]
pub fn header_value(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e))
        && value.trim_matches([' ', '\t']) == value
        && !value.is_empty()
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if plain { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) }
}
