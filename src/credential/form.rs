//! Form encoding of one value.

/// A text as it stands in a form (`application/x-www-form-urlencoded`).
#[must_use]
pub fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
