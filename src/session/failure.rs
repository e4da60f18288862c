//! What a failure of the platform at a Durable Object call means for the client.

use crate::protocol::errors::WireError;

/// What is known of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformFailure {
    /// Its message and those of its causes, at most [`MESSAGES`].
    pub messages: Vec<String>,
    /// The platform's property `retryable`.
    pub retryable: bool,
    /// The platform's property `overloaded`.
    pub overloaded: bool,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The session is gone.
    Dead,
    /// The same id works again in a moment.
    Transient,
    /// The object has too much to do; a retry here would add to it.
    Overloaded,
    /// Nothing is known; a retry may repeat it.
    Unknown,
}

/// Messages of a failure that are looked at: its own and those of five causes.
pub const MESSAGES: usize = 6;

impl Disposition {
    /// The word for the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Transient => "transient",
            Self::Overloaded => "overloaded",
            Self::Unknown => "unknown",
        }
    }
}

const TRANSIENT: [(&str, &str); 8] = [
    ("durable object reset because its code was updated", "code_update"),
    ("storage operation exceeded timeout", "storage_timeout"),
    ("internal error in durable object storage", "storage_internal"),
    ("internal error while starting up durable object", "startup_internal_error"),
    ("blockconcurrencywhile() in a durable object waited for too long", "concurrency_reset"),
    ("exceeded its cpu time limit and was reset", CPU_LIMIT),
    ("internal error; reference =", "internal_error"),
    ("moved to a different machine", RELOCATED),
];

/// The kind of a failure that is transient only the first time for a request.
pub const CPU_LIMIT: &str = "cpu_limit";
/// The kind of a failure after which a first call may be repeated.
pub const RELOCATED: &str = "relocated";

/// Tells what a failure is: its kind for the log, and what to do.
#[must_use]
pub fn classify(failure: &PlatformFailure) -> (&'static str, Disposition) {
    for message in failure.messages.iter().take(MESSAGES) {
        let message = message.to_lowercase();
        if message == "destroyed" {
            return ("destroyed", Disposition::Dead);
        }
        if let Some((_, kind)) = TRANSIENT.iter().find(|(fragment, _)| message.contains(fragment)) {
            return (kind, Disposition::Transient);
        }
    }
    if failure.overloaded {
        ("overloaded", Disposition::Overloaded)
    } else if failure.retryable {
        ("retryable", Disposition::Transient)
    } else {
        ("unknown", Disposition::Unknown)
    }
}

/// What the client is told; `None` for a failure of which nothing is known.
#[must_use]
pub fn wire_error(disposition: Disposition) -> Option<WireError> {
    match disposition {
        Disposition::Dead => Some(WireError::session_timed_out()),
        Disposition::Transient => Some(WireError::restarting()),
        Disposition::Overloaded => Some(WireError::overloaded()),
        Disposition::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified() {
        let failure = |messages: &[&str], retryable, overloaded| PlatformFailure {
            messages: messages.iter().map(|text| (*text).to_owned()).collect(),
            retryable,
            overloaded,
        };
        for (messages, retryable, overloaded, kind, disposition) in [
            (&["destroyed"][..], false, false, "destroyed", Disposition::Dead),
            (&["the object was destroyed"], false, false, "unknown", Disposition::Unknown),
            (
                &["Durable Object reset because its code was updated."],
                true,
                false,
                "code_update",
                Disposition::Transient,
            ),
            (
                &["Internal error in Durable Object storage caused object to be reset."],
                true,
                true,
                "storage_internal",
                Disposition::Transient,
            ),
            (
                &["outer", "Durable Object exceeded its CPU time limit and was reset."],
                false,
                false,
                "cpu_limit",
                Disposition::Transient,
            ),
            (&["internal error; reference = abc"], false, false, "internal_error", Disposition::Transient),
            (&["x"], true, true, "overloaded", Disposition::Overloaded),
            (&["x"], true, false, "retryable", Disposition::Transient),
            (
                &["Durable Object's isolate exceeded its memory limit and was reset."],
                false,
                false,
                "unknown",
                Disposition::Unknown,
            ),
        ] {
            assert_eq!(classify(&failure(messages, retryable, overloaded)), (kind, disposition), "{messages:?}");
        }
    }
}
