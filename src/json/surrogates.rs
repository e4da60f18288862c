//! Half characters: JavaScript can cut a string in the middle of one, Rust cannot hold that.

use std::borrow::Cow;

/// JSON text in which every escaped surrogate without its other half is replaced by U+FFFD.
///
/// `JSON.stringify` escapes a lone surrogate (`"\ud83d"`); no Rust string can hold what that stands for.
#[must_use]
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        clean.push_str(before);
        let length = match unit_of(escape) {
            Some(0xD800..=0xDBFF) if matches!(escape.get(6..).and_then(unit_of), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                clean.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            // Another escape: a backslash and one character.
            None => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length.min(escape.len()));
        clean.push_str(kept);
        rest = after;
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The code unit of a `\uXXXX` escape at the beginning of a text.
fn unit_of(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_characters_are_replaced_and_whole_ones_are_not() {
        for (text, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00b""#, r#""\ufffdb""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\uD83D\n""#, r#""\ufffd\n""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud8""#, r#""\ud8""#),
            ("\"\\ud8ä\"", "\"\\ud8ä\""),
            ("\\", "\\"),
        ] {
            assert_eq!(without_lone_surrogates(text), expected, "{text}");
        }
    }
}
