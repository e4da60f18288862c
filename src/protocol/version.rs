//! Protocol versions of the session-based era.

/// The versions that are spoken, newest first.
pub const SUPPORTED: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The version that `initialize` is answered with: the asked one if it is known, else the newest
/// (specification, revision 2025-11-25, "Lifecycle").
#[must_use]
pub fn negotiate(asked: &str) -> &'static str {
    SUPPORTED.into_iter().find(|version| *version == asked).unwrap_or(SUPPORTED[0])
}

/// Whether a `MCP-Protocol-Version` header is acceptable inside a session; absent is.
#[must_use]
pub fn header_is_supported(header: Option<&str>) -> bool {
    header.is_none_or(|version| SUPPORTED.contains(&version))
}

/// Whether this version has JSON-RPC batches.
#[must_use]
pub fn has_batches(version: &str) -> bool {
    version == "2025-03-26"
}

/// Whether streams of this version begin with an id, so that clients can come back to them.
#[must_use]
pub fn is_primed(version: &str) -> bool {
    version == "2025-11-25"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_versions_are_answered_with_the_newest() {
        for (asked, answer) in [
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2024-11-05"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            assert_eq!(negotiate(asked), answer);
        }
    }
}
