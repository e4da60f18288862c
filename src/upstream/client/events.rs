//! Server-sent events as they come in, piece by piece (WHATWG HTML, section "Server-sent events").

/// A line or an event is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct TooLong {
    /// Bytes.
    pub limit: usize,
}

/// Reads one stream.
#[derive(Debug)]
pub struct EventReader {
    limit: usize,
    line: Vec<u8>,
    data: Option<String>,
    event: String,
    after_return: bool,
    begun: bool,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl EventReader {
    /// A stream whose events have at most `limit` bytes each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: None,
            event: String::new(),
            after_return: false,
            begun: false,
            last_id: None,
            retry_ms: None,
        }
    }

    /// The id of the last event that had one, by which the stream can be asked for again.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// When the server wants to be asked again, in milliseconds.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next piece; gives the data of the messages that are whole now.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut whole = Vec::new();
        for byte in piece {
            match byte {
                b'\n' if std::mem::take(&mut self.after_return) => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.take_line(&line, &mut whole)?;
                }
                byte => {
                    self.after_return = false;
                    if self.line.len() >= self.limit {
                        return Err(TooLong { limit: self.limit });
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(whole)
    }

    fn take_line(&mut self, line: &[u8], whole: &mut Vec<String>) -> Result<(), TooLong> {
        let text = String::from_utf8_lossy(line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            let event = std::mem::take(&mut self.event);
            if let Some(data) = self.data.take()
                && !data.is_empty()
                && (event.is_empty() || event == "message")
            {
                whole.push(data);
            }
            return Ok(());
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                let data = self.data.get_or_insert_default();
                if !data.is_empty() {
                    data.push('\n');
                }
                if data.len() + value.len() > self.limit {
                    return Err(TooLong { limit: self.limit });
                }
                data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event),
            // It goes back as a header.
            "id" if value.len() <= 1_024 && value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => {
                self.last_id = Some(value.to_owned()).filter(|id| !id.is_empty());
            }
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            _ => {}
        }
        Ok(())
    }
}
