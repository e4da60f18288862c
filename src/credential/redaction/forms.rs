//! The forms in which a secret may come back.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Bytes below which a secret is not looked for.
const SHORTEST: usize = 4;
/// Bytes from which on a secret counts wherever it stands.
const LONG: usize = 8;
/// Bytes of the part of a base64 text that all texts with the secret have in common.
const SHORTEST_BASE64: usize = 8;

/// One form of a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    /// It counts only where no letter or digit touches it.
    pub(super) alone: bool,
    /// A base64 character before it holds bits of the secret too.
    before: bool,
    /// A base64 character after it holds bits of the secret too.
    after: bool,
}

impl Form {
    /// The range that is taken away where the form begins at `at`.
    pub(super) fn found_at(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let end = at + self.bytes.len();
        if text.get(at..end)? != self.bytes {
            return None;
        }
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(end);
        let touches = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        if self.alone && (touches(before) || touches(after)) {
            return None;
        }
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
        let start = if self.before && before.is_some_and(is_base64) { at - 1 } else { at };
        let end = if self.after && after.is_some_and(is_base64) { end + 1 } else { end };
        Some((start, end))
    }
}

/// All forms of a secret; none of one that is too short.
pub(super) fn forms_of(secret: &str) -> Vec<Form> {
    let length = secret.len();
    if length < SHORTEST {
        return Vec::new();
    }
    let alone = length < LONG;
    let mut forms = Vec::new();
    let mut add = |text: String, before: bool, after: bool| {
        for bytes in written(&text) {
            forms.push(Form { bytes, alone, before, after });
        }
    };
    add(secret.to_owned(), false, false);
    for (padding, dropped) in [(&[][..], 0), (&[0][..], 2), (&[0, 0][..], 3)] {
        let offset = padding.len();
        let padded = [padding, secret.as_bytes()].concat();
        // Only characters all of whose bits are the secret's are the same in every text.
        let whole = padded.len() * 8 / 6;
        let after = !(padded.len() * 8).is_multiple_of(6);
        for text in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            match text.get(dropped..whole) {
                Some(common) if common.len() >= SHORTEST_BASE64 || alone && offset == 0 => {
                    add(common.to_owned(), offset > 0, after);
                }
                _ => {}
            }
        }
    }
    for upper in [false, true] {
        let mut hex = String::with_capacity(length * 2);
        for byte in secret.bytes() {
            let _ = if upper { write!(hex, "{byte:02X}") } else { write!(hex, "{byte:02x}") };
        }
        add(hex, false, false);
    }
    forms
}

/// A text as URLs, forms, JSON and HTML write it. Where it has nothing but letters and digits all of them are the same.
fn written(text: &str) -> Vec<Vec<u8>> {
    let mut written = vec![text.as_bytes().to_vec()];
    let mut add = |text: String| {
        let bytes = text.into_bytes();
        if !written.contains(&bytes) {
            written.push(bytes);
        }
    };
    let is_plain = |character: char| character.is_ascii_alphanumeric();
    if text.chars().all(is_plain) {
        return written;
    }
    // RFC 3986; `encodeURIComponent`; `encodeURI`; HTML forms; and encoders that leave a slash.
    for kept in ["-._~", "-._~!'()*", "-._~!'()*;,/?:@&=+$#", "-._*", "-._~/"] {
        for upper in [true, false] {
            add(percent_encoded(text, kept, upper, "%20"));
            add(percent_encoded(text, kept, upper, "+"));
        }
    }
    // JSON: as it has to be, with slashes escaped, and with what is special in HTML escaped too.
    for special in ["", "/", "<>&'", "<>&'+=/"] {
        let json = json_escaped(text, special, false);
        add(json_escaped(&json, "", false));
        add(json);
        add(json_escaped(text, special, true));
    }
    for (quote, apostrophe) in [("&quot;", "&#39;"), ("&#34;", "&#x27;"), ("&quot;", "&apos;"), ("\"", "'")] {
        let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        add(html.replace('"', quote).replace('\'', apostrophe));
    }
    written
}

fn percent_encoded(text: &str, kept: &str, upper: bool, space: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || kept.contains(character) && byte.is_ascii() {
            encoded.push(character);
        } else if byte == b' ' {
            encoded.push_str(space);
        } else {
            let _ = if upper { write!(encoded, "%{byte:02X}") } else { write!(encoded, "%{byte:02x}") };
        }
    }
    encoded
}

/// Inside a JSON string. `special` characters are escaped too: a slash with a backslash, others by their number.
fn json_escaped(text: &str, special: &str, ascii: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '/' if special == "/" => escaped.push_str("\\/"),
            _ if special != "/" && special.contains(character) || ascii && !character.is_ascii() => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            _ => escaped.push(character),
        }
    }
    escaped
}
