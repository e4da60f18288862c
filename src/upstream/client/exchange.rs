//! One request to a server, from its HTTP response to its answer.

use serde_json::{Map, Value};

use super::events::EventReader;
use crate::protocol::jsonrpc::{Body, Message, RequestId, parse_body};
use crate::upstream::{Changed, LogLevel, Question};

/// Characters of what a server says of an error.
const ERROR_CHARS: usize = 2_000;
/// Bytes of the `data` of an error.
const ERROR_DATA_BYTES: usize = 64 << 10;

/// Bounds of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the answer, and of everything before it together.
    pub bytes: usize,
    /// Messages before the answer.
    pub messages: usize,
}

/// A JSON-RPC error of the server's.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcFault {
    /// The code.
    pub code: i32,
    /// The message, bounded.
    pub message: String,
    /// More of it, bounded.
    pub data: Option<Value>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The server does not know our session any more. The request was refused unprocessed.
    #[error("it does not know the session any more")]
    SessionLost,
    /// An HTTP status that is no answer. A request with one below 500 was refused.
    #[error("it answered {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// What came is no MCP.
    #[error("it answered what is no MCP: {0}")]
    Garbage(&'static str),
    /// More bytes or messages than the limit.
    #[error("its answer is larger than the limit")]
    TooLarge,
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// With a result.
    Result(Value),
    /// With an error.
    Error(RpcFault),
}

/// What was heard.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The answer. Nothing is heard after it.
    Answer(Answered),
    /// How far it is.
    Progress {
        /// A number that grows.
        progress: f64,
        /// What it grows to.
        total: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// A log message.
    Log {
        /// How severe.
        level: LogLevel,
        /// By whom.
        logger: Option<String>,
        /// Any JSON.
        data: Value,
    },
    /// A question to the client, whose answer is sent with this id (JSON text).
    Ask {
        /// The server's id of it.
        id: String,
        /// The question.
        question: Question,
    },
    /// A request that is answered without anybody: the id, and the answer.
    Reply {
        /// The server's id of it.
        id: String,
        /// The answer.
        outcome: Result<Value, (i32, String)>,
    },
    /// Something of the server's changed.
    Changed(Changed),
}

/// A stream ended before the answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The rest can be asked for.
    Resume {
        /// The last event that came.
        last_event_id: String,
        /// When the server wants to be asked, in milliseconds.
        after_ms: u64,
    },
    /// It cannot: what became of the request is not known.
    Broken,
}

/// Reads what comes back for one request.
#[derive(Debug)]
pub struct Exchange {
    id: Option<u64>,
    limits: Limits,
    reader: Option<EventReader>,
    body: Vec<u8>,
    resumable: bool,
    asks: bool,
    last_event_id: Option<String>,
    retry_ms: Option<u64>,
    answered: bool,
}

impl Exchange {
    /// For the request with that id; `None`: for a stream that belongs to no request. `sessions` says whether the server
    /// may ask questions and send the rest of a stream later.
    #[must_use]
    pub fn new(id: Option<u64>, sessions: bool, limits: Limits) -> Self {
        Self {
            id,
            limits,
            reader: None,
            body: Vec::new(),
            resumable: sessions,
            asks: sessions,
            last_event_id: None,
            retry_ms: None,
            answered: false,
        }
    }

    /// Takes status and content type of a response. `has_session`: whether the request named one.
    /// A status that is an error is told only once the body is there, because the body may be the answer.
    pub fn begin(&mut self, status: u16, content_type: Option<&str>) -> Result<(), Fault> {
        self.keep_place();
        self.body.clear();
        let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.reader = (kind == "text/event-stream" && status < 300).then(|| EventReader::new(self.limits.bytes));
        match status {
            300..=399 => Err(Fault::Status { status }),
            200..=299 if self.reader.is_none() && kind != "application/json" => {
                Err(Fault::Garbage("neither JSON nor events"))
            }
            _ => Ok(()),
        }
    }

    /// Takes a piece of the body.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Heard>, Fault> {
        self.limits.bytes = self.limits.bytes.checked_sub(piece.len()).ok_or(Fault::TooLarge)?;
        let Some(reader) = self.reader.as_mut() else {
            self.body.extend_from_slice(piece);
            return Ok(Vec::new());
        };
        let messages = reader.push(piece).map_err(|_| Fault::TooLarge)?;
        let mut heard = Vec::new();
        for text in messages {
            self.hear(text.as_bytes(), &mut heard)?;
        }
        Ok(heard)
    }

    /// The body is whole. For one that was no stream this is where the answer is.
    pub fn end(&mut self, status: u16, has_session: bool) -> Result<Vec<Heard>, Fault> {
        if self.reader.is_some() {
            return Ok(Vec::new());
        }
        let body = std::mem::take(&mut self.body);
        let mut heard = Vec::new();
        let understood = self.hear(&body, &mut heard);
        let answer = heard.iter().find_map(|heard| match heard {
            Heard::Answer(answer) => Some(answer),
            Heard::Progress { .. }
            | Heard::Log { .. }
            | Heard::Ask { .. }
            | Heard::Reply { .. }
            | Heard::Changed(_) => None,
        });
        if has_session && session_is_lost(status, answer, &body) {
            return Err(Fault::SessionLost);
        }
        match (status, answer) {
            // It is about the credential, whatever the body says.
            (401 | 403, _) => Err(Fault::Status { status }),
            (_, Some(_)) => Ok(heard),
            (200..=299, None) => Err(understood.err().unwrap_or(Fault::Garbage("no answer to the request"))),
            (status, None) => Err(Fault::Status { status }),
        }
    }

    /// The stream ended or broke off before the answer.
    #[must_use]
    pub fn broke(&mut self) -> StreamEnd {
        self.keep_place();
        match &self.last_event_id {
            Some(id) if self.resumable => {
                StreamEnd::Resume { last_event_id: id.clone(), after_ms: self.retry_ms.unwrap_or(500).min(10_000) }
            }
            _ => StreamEnd::Broken,
        }
    }

    fn keep_place(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.last_event_id = reader.last_id().map(ToOwned::to_owned).or(self.last_event_id.take());
            self.retry_ms = reader.retry_ms().or(self.retry_ms);
        }
    }

    fn hear(&mut self, text: &[u8], heard: &mut Vec<Heard>) -> Result<(), Fault> {
        let messages = match parse_body(text) {
            Ok(Body::Single(message)) => vec![message],
            Ok(Body::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(_) => return Err(Fault::Garbage("no JSON-RPC message")),
        };
        for message in messages {
            self.limits.messages = self.limits.messages.checked_sub(1).ok_or(Fault::TooLarge)?;
            heard.extend(self.understand(message));
        }
        Ok(())
    }

    fn understand(&mut self, message: Message) -> Option<Heard> {
        if self.answered {
            return None;
        }
        match message {
            Message::Response { id, outcome } => {
                let ours = self.id.is_some_and(|own| is_id(id.as_ref(), own));
                // A server that could not read a request answers it without an id.
                let nameless = id.is_none() && self.id.is_some() && outcome.is_err();
                if !ours && !nameless {
                    return None;
                }
                self.answered = true;
                Some(Heard::Answer(match outcome {
                    Ok(result) => Answered::Result(result),
                    Err(error) => Answered::Error(fault_of(&error)),
                }))
            }
            Message::Notification { method, params } => self.notification(&method, params),
            Message::Request { id, method, params } if self.asks => Some(question_of(&id, &method, params)),
            Message::Request { .. } => None,
        }
    }

    fn notification(&self, method: &str, mut params: Map<String, Value>) -> Option<Heard> {
        let text = |params: &Map<String, Value>, key: &str| {
            params.get(key).and_then(Value::as_str).map(|t| bounded(t, ERROR_CHARS))
        };
        match method {
            "notifications/progress" => {
                let token = params.get("progressToken").and_then(RequestId::parse);
                if !self.id.is_some_and(|own| is_id(token.as_ref(), own)) {
                    return None;
                }
                let number = |key: &str| params.get(key).and_then(Value::as_f64).filter(|number| number.is_finite());
                Some(Heard::Progress {
                    progress: number("progress")?,
                    total: number("total"),
                    message: text(&params, "message"),
                })
            }
            "notifications/message" => Some(Heard::Log {
                level: params.get("level").and_then(Value::as_str).and_then(LogLevel::parse)?,
                logger: text(&params, "logger"),
                data: params.remove("data").unwrap_or(Value::Null),
            }),
            "notifications/tools/list_changed" => Some(Heard::Changed(Changed::Tools)),
            "notifications/resources/list_changed" => Some(Heard::Changed(Changed::Resources)),
            "notifications/prompts/list_changed" => Some(Heard::Changed(Changed::Prompts)),
            "notifications/resources/updated" => Some(Heard::Changed(Changed::Resource(text(&params, "uri")?))),
            _ => None,
        }
    }
}

/// An error's text with a bound.
fn bounded(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

fn is_id(id: Option<&RequestId>, own: u64) -> bool {
    // Some servers give a number back as a text.
    id.is_some_and(|id| id.as_json().trim_matches('"') == own.to_string())
}

fn fault_of(error: &Value) -> RpcFault {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str).unwrap_or("the server answered with an error");
    let data = error.get("data").filter(|data| data.to_string().len() <= ERROR_DATA_BYTES);
    RpcFault { code: code.unwrap_or(-32_603), message: bounded(message, ERROR_CHARS), data: data.cloned() }
}

fn question_of(id: &RequestId, method: &str, mut params: Map<String, Value>) -> Heard {
    params.remove("_meta");
    let id = id.as_json().to_owned();
    match question(method, params) {
        Some(question) => Heard::Ask { id, question },
        None if method == "ping" => Heard::Reply { id, outcome: Ok(Value::Object(Map::new())) },
        None => Heard::Reply { id, outcome: Err((-32_601, "Method not found".to_owned())) },
    }
}

/// A question by its method, in either era.
pub(super) fn question(method: &str, params: Map<String, Value>) -> Option<Question> {
    match method {
        "elicitation/create" => Some(Question::Elicitation(params)),
        "sampling/createMessage" => Some(Question::Sampling(params)),
        "roots/list" => Some(Question::Roots),
        _ => None,
    }
}

/// 404 is what the specification says; some say 400 and that it is about the session.
fn session_is_lost(status: u16, answer: Option<&Answered>, body: &[u8]) -> bool {
    if status == 404 {
        // A method that does not exist is no session that does not.
        return !matches!(answer, Some(Answered::Error(fault)) if fault.code == -32_601);
    }
    status == 400 && {
        let text = match answer {
            Some(Answered::Error(fault)) => fault.message.to_lowercase(),
            Some(Answered::Result(_)) => return false,
            None => String::from_utf8_lossy(body.get(..2_048).unwrap_or(body)).to_lowercase(),
        };
        text.contains("session") || text.contains("not initialized")
    }
}

impl Answered {
    /// What the server needs before it can answer, in the stateless era: the questions by its own keys, and the state
    /// that goes back with the answers. `None`: this is the answer.
    #[must_use]
    #[expect(clippy::type_complexity, reason = "questions by key, and a state")]
    pub fn input_required(&self) -> Option<(Vec<(String, Option<Question>)>, Option<Value>)> {
        let Self::Result(result) = self else { return None };
        if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
            return None;
        }
        let requests = result.get("inputRequests").and_then(Value::as_object);
        let read = |(key, request): (&String, &Value)| {
            let params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            (key.clone(), question(method, params))
        };
        let questions = requests.into_iter().flatten().take(32).map(read).collect();
        Some((questions, result.get("requestState").cloned()))
    }
}
