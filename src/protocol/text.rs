//! Texts cut to a length.

/// At most the first `characters` of a text.
#[must_use]
pub fn bounded(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// The text, or its first `limit` characters and how many there were.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    format!("{}… ({length} characters)", bounded(text, limit))
}
