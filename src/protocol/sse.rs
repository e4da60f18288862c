//! Server-sent events (WHATWG HTML, section "Server-sent events").

/// A comment that keeps a connection open; clients ignore it.
pub const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// One `message` event. `text` is JSON on one line, so it holds no line break.
#[must_use]
pub fn message_event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 24);
    event.push_str("event: message\n");
    for line in text.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

/// The same with an id, by which a client asks for what came after it.
#[must_use]
pub fn message_event_with_id(id: &str, text: &str) -> String {
    format!("id: {id}\n{}", message_event(text))
}

/// The first event of a stream: an id and no data (specification, revision 2025-11-25, "Sending Messages to the Server").
#[must_use]
pub fn priming_event(id: &str) -> String {
    format!("id: {id}\ndata: \n\n")
}

/// Tells a client when to come back to a stream that is closed now and goes on, in milliseconds.
#[must_use]
pub fn retry(milliseconds: u32) -> String {
    format!("retry: {milliseconds}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_cannot_end_an_event() {
        assert_eq!(message_event("{}"), "event: message\ndata: {}\n\n");
        assert_eq!(message_event("a\n\nevent: x"), "event: message\ndata: a\ndata: \ndata: event: x\n\n");
    }
}
