//! Patterns over tool addresses: exact, `*` for one segment, `**` for the rest.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a pattern.
pub const PATTERN_LIMIT: usize = 512;

/// A pattern that was checked. `demo.*` has the demo's tools of one segment, `demo.**` all of them, `**` everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing, or too much.
    #[error("a pattern has 1 to {PATTERN_LIMIT} bytes")]
    Length,
    /// Two dots in a row, or one at an end.
    #[error("a pattern is made of segments with a dot between them, and none is empty")]
    EmptySegment,
    /// Something follows `**`.
    #[error("** stands for the rest, so it can only be the last segment")]
    RestIsNotLast,
    /// `*` beside other characters.
    #[error("* stands for a whole segment; it cannot be a part of one")]
    PartOfSegment,
    /// A character that no address has.
    #[error("a pattern has no spaces or control characters")]
    Character,
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() || text.len() > PATTERN_LIMIT {
            return Err(PatternError::Length);
        }
        if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err(PatternError::Character);
        }
        let mut segments = text.split('.').peekable();
        while let Some(segment) = segments.next() {
            match segment {
                "" => return Err(PatternError::EmptySegment),
                "**" if segments.peek().is_some() => return Err(PatternError::RestIsNotLast),
                "*" | "**" => {}
                other if other.contains('*') => return Err(PatternError::PartOfSegment),
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an address fits. `**` stands for at least one segment.
    #[must_use]
    pub fn matches(&self, address: &str) -> bool {
        let mut parts = address.split('.');
        for segment in self.0.split('.') {
            match (segment, parts.next()) {
                ("**", Some(_)) => return true,
                ("*", Some(_)) => {}
                (literal, Some(part)) if literal == part => {}
                (_, Some(_) | None) => return false,
            }
        }
        parts.next().is_none()
    }

    /// The source whose tools alone it can fit; `None` where it fits those of several.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.0.split('.').next().filter(|segment| !segment.contains('*'))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
