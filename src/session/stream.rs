//! Streams that can be read again: a client that lost the answer to a POST asks for it with `Last-Event-ID`
//! (specification, revision 2025-11-25, "Resumability and Redelivery").
//!
//! Only what cannot be had again from the journal is kept: the response. Event ids are the gateway's own and name the
//! stream; whose stream it is, the session says, so an id gives no access.

use serde::{Deserialize, Serialize};

use super::ElicitationMode;

/// Bytes of a response that is kept.
pub const RESPONSE_BYTES: usize = 16 << 20;

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
        };
        let text =
            r#"{"request":"1","awaits":{"pause":{"execution_id":"exec_x","mode":"browser"}},"openedAt":1,"endedAt":2}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
        assert_eq!(serde_json::from_str::<StreamRow>(text).unwrap(), row);
    }
}
