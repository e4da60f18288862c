//! Streams that can be read again: a client that lost the answer to a POST asks for it with `Last-Event-ID`
//! (specification, revision 2025-11-25, "Resumability and Redelivery").
//!
//! A few events and the response are kept. Event ids are the gateway's own and name the stream; whose stream it is, the
//! session says, so an id gives no access.

use serde::{Deserialize, Serialize};

use super::ElicitationMode;

/// Bytes of a response that is kept.
pub const RESPONSE_BYTES: usize = 16 << 20;

/// Events of one stream that are kept, beside the response. Of more than that the oldest are forgotten.
pub const EVENTS_KEPT: usize = 64;
/// Bytes of the events that are kept of one stream. A larger one is delivered live only.
pub const EVENT_BYTES_KEPT: usize = 2 << 20;
/// Bytes of a request that is kept so that it can be answered after a restart. A larger one is answered with an error.
pub const REQUEST_BYTES_KEPT: usize = 256 << 10;

/// The id of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The stream.
    pub stream: u32,
    /// The event's place on it; 0 is the empty first one.
    pub number: u32,
}

impl EventId {
    /// Reads a `Last-Event-ID` header; `None` for anything that [`Self`] does not write.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let id = Self { stream: stream.parse().ok()?, number: number.parse().ok()? };
        (id.to_string() == text).then_some(id)
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.stream, self.number)
    }
}

/// A stream, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRow {
    /// The request's id, as JSON text.
    pub request: String,
    /// What the request waits for; `None` until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Awaits>,
    /// When it was opened.
    pub opened_at: u64,
    /// When the response was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Number of the event that carries the response. Streams of layout 1 have no other event, and no such field.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub response: u32,
    /// The client's progress token, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_token: Option<String>,
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_first(number: &u32) -> bool {
    *number == 1
}

/// What a request waits for. With this it can be answered after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// `execute`: the first report of an execution.
    Execution(String),
    /// `resume`: what a pause led to.
    Pause {
        /// What the wire calls `executionId`.
        execution_id: String,
        /// How the session is asked.
        mode: ElicitationMode,
    },
    /// The request itself, which does no harm when it is handled again.
    Request {
        /// Its method.
        method: String,
        /// Its parameters, as JSON text.
        params: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_come_back_as_they_were_written() {
        let id = EventId { stream: 7, number: 1 };
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
        for text in ["", "7", "-1", "7-", "7-1-1", "07-1", "+7-1", "7-1 ", "x-1", "99999999999-1"] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn stream_row_format_unchanged() {
        let row = StreamRow {
            request: "1".to_owned(),
            awaits: Some(Awaits::Pause { execution_id: "exec_x".to_owned(), mode: ElicitationMode::Browser }),
            opened_at: 1,
            ended_at: Some(2),
            response: 1,
            progress_token: None,
        };
        let text =
            r#"{"request":"1","awaits":{"pause":{"execution_id":"exec_x","mode":"browser"}},"openedAt":1,"endedAt":2}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
        assert_eq!(serde_json::from_str::<StreamRow>(text).unwrap(), row);
        let row = StreamRow {
            request: "\"a\"".to_owned(),
            awaits: Some(Awaits::Request { method: "tools/call".to_owned(), params: "{}".to_owned() }),
            opened_at: 1,
            ended_at: None,
            response: 3,
            progress_token: Some("7".to_owned()),
        };
        let text = concat!(
            r#"{"request":"\"a\"","awaits":{"request":{"method":"tools/call","params":"{}"}},"#,
            r#""openedAt":1,"response":3,"progressToken":"7"}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
        assert_eq!(serde_json::from_str::<StreamRow>(text).unwrap(), row);
    }
}
