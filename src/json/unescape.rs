//! The text that a JSON string means, made in place: a document of many megabytes must not be in memory twice.

/// What the JSON string `literal`, quotes included, means (RFC 8259, 7). `None` when it is no such string.
#[must_use]
pub fn unescaped(literal: String) -> Option<String> {
    let mut bytes = literal.into_bytes();
    if bytes.len() < 2 || bytes.pop() != Some(b'"') || bytes.first() != Some(&b'"') {
        return None;
    }
    let (mut read, mut written) = (1, 0);
    while let Some(rest) = bytes.get(read..).filter(|rest| !rest.is_empty()) {
        let plain = rest.iter().position(|byte| *byte == b'\\').unwrap_or(rest.len());
        bytes.copy_within(read..read + plain, written);
        (read, written) = (read + plain, written + plain);
        if read == bytes.len() {
            break;
        }
        let (character, length) = escape(bytes.get(read + 1..)?)?;
        let mut buffer = [0; 4];
        // An escape is never shorter than what it means.
        for byte in character.encode_utf8(&mut buffer).bytes() {
            *bytes.get_mut(written)? = byte;
            written += 1;
        }
        read += 1 + length;
    }
    bytes.truncate(written);
    String::from_utf8(bytes).ok()
}

/// The character of an escape without its backslash, and how many bytes that takes.
fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let plain = |character| Some((character, 1));
    match rest.first()? {
        b'"' => plain('"'),
        b'\\' => plain('\\'),
        b'/' => plain('/'),
        b'b' => plain('\u{8}'),
        b'f' => plain('\u{c}'),
        b'n' => plain('\n'),
        b'r' => plain('\r'),
        b't' => plain('\t'),
        b'u' => {
            let unit = |at: usize| {
                let mut digits = rest.get(at..at + 4)?.iter().map(|byte| char::from(*byte).to_digit(16));
                digits.try_fold(0, |number, digit| Some(number * 16 + digit?))
            };
            let first = unit(1)?;
            if !(0xd800..0xdc00).contains(&first) {
                return Some((char::from_u32(first)?, 5));
            }
            let second = rest.get(5..7).filter(|next| *next == b"\\u").and_then(|_| unit(7))?;
            let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low)?, 11))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_become_what_they_mean() {
        for (literal, expected) in [
            (r#""""#, Some("")),
            (r#""plain ünicode""#, Some("plain ünicode")),
            (r#""a\n\t\"\\\/\b\f\r""#, Some("a\n\t\"\\/\u{8}\u{c}\r")),
            (r#""\u00e9\ud83d\ude00x""#, Some("é😀x")),
            (r#""\ud83d""#, None),
            (r#""\ud83d\u0041""#, None),
            (r#""\ude00""#, None),
            (r#""\q""#, None),
            (r#""\u12""#, None),
            (r#""\""#, None),
            ("\"", None),
            ("", None),
            ("x", None),
            ("{}", None),
        ] {
            assert_eq!(unescaped(literal.to_owned()).as_deref(), expected, "{literal}");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in ".*") {
            let literal = serde_json::Value::from(text.as_str()).to_string();
            prop_assert_eq!(unescaped(literal), Some(text));
        }
    }
}
