//! Percent-encoding (RFC 3986, 2.1).

/// What happens to reserved characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    /// They are encoded; only unreserved characters stay.
    Encode,
    /// `allowReserved` in a query: they stay, and so do `%XX`, except what a query cannot have (`[`, `]`, `#`) or what
    /// separates pairs (`&`, `+`).
    KeepInQuery,
    /// `allowReserved` in a path: likewise, except what ends a path (`?`, `#`) or cannot be in one (`[`, `]`).
    KeepInPath,
    /// Form bodies: as `Encode`, with `+` for a space.
    Form,
    /// Form bodies with `allowReserved`.
    KeepInForm,
}

/// The text as it stands in a URL or form.
pub(super) fn encoded(text: &str, reserved: Reserved) -> String {
    let mut written = String::with_capacity(text.len() + 8);
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let keeps = |kept: &[u8]| kept.contains(&byte) || byte == b'%' && is_hex_pair(tail);
        let stays = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || match reserved {
                Reserved::Encode | Reserved::Form => false,
                Reserved::KeepInQuery | Reserved::KeepInForm => keeps(b":/?@!$'()*,;="),
                Reserved::KeepInPath => keeps(b":/@!$&'()*+,;="),
            };
        if stays {
            written.push(char::from(byte));
        } else if byte == b' ' && matches!(reserved, Reserved::Form | Reserved::KeepInForm) {
            written.push('+');
        } else {
            push_encoded(&mut written, byte);
        }
    }
    written
}

/// Text of a path template: what a URL can have stays as the document has it.
pub(super) fn encoded_template(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%".contains(&byte) {
            written.push(char::from(byte));
        } else {
            push_encoded(&mut written, byte);
        }
    }
    written
}

fn push_encoded(written: &mut String, byte: u8) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    written.push('%');
    for digit in [byte >> 4, byte & 15] {
        written.push(DIGITS.get(usize::from(digit)).copied().unwrap_or('0'));
    }
}

fn is_hex_pair(bytes: &[u8]) -> bool {
    matches!(bytes, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}
