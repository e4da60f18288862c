//! Arguments as a text that a person can correct, and what changed between two texts.

use std::fmt::Write as _;

use serde_json::Value;

use super::markup::{Breaks, Html, block, push_text};
use super::text::{Piece, visible};

/// Bytes of arguments that can be corrected on the page, of one call.
pub(super) const EDITABLE: usize = 16 << 10;
/// Bytes that the texts of all calls of a page have when they are sent back; a decision has 256 KiB.
pub(super) const EDITABLE_TOGETHER: usize = 160 << 10;
/// Bytes of a text of which differences are looked for by lines.
const COMPARED: usize = 64 << 10;
/// Lines around a difference.
const AROUND: usize = 2;

/// JSON text, indented, with every character that nobody would see as an escape: what comes back means the same. `None` for
/// what is no JSON.
pub(super) fn editable(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let indented = serde_json::to_string_pretty(&value).ok()?;
    let mut shown = String::with_capacity(indented.len());
    for piece in visible(&indented) {
        match piece {
            Piece::Plain(part) | Piece::RightToLeft(part) => shown.push_str(part),
            Piece::Hidden(part) => {
                for unit in part.encode_utf16() {
                    // Writing to a string never fails. Outside of strings JSON has nothing that is hidden.
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            Piece::Spaces(count) => shown.extend(std::iter::repeat_n(' ', count)),
            Piece::LineBreak => shown.push('\n'),
            Piece::Tab => shown.push('\t'),
        }
    }
    Some(shown)
}

/// Bytes of a text in a form that is sent (`application/x-www-form-urlencoded`).
pub(super) fn sent_size(text: &str) -> usize {
    let size = |byte: u8| match byte {
        // A browser sends a line break as a carriage return and a line feed.
        b'\n' => 6,
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b' ' | b'*' | b'-' | b'.' | b'_' => 1,
        _ => 3,
    };
    text.bytes().map(size).sum()
}

/// What is different, line by line; both texts as they are where they are too large for that.
pub(super) fn difference(before: &str, now: &str) -> Html {
    if before.len() > COMPARED || now.len() > COMPARED {
        return Html(format!("<del>{}</del>\n<ins>{}</ins>", block(before), block(now)));
    }
    let indented = |text: &str| editable(text).unwrap_or_else(|| text.to_owned());
    let (before, now) = (indented(before), indented(now));
    let (before, now): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    let same = before.iter().zip(&now).take_while(|(one, other)| one == other).count();
    let rest = before.len().min(now.len()) - same;
    let tail = before.iter().rev().zip(now.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let part = |lines: &[&str], from: usize, to: usize| lines.get(from..to).unwrap_or_default().join("\n");
    let mut html = String::new();
    for (tag, mark, text) in [
        ("span", "  ", part(&now, same.saturating_sub(AROUND), same)),
        ("del", "− ", part(&before, same, before.len() - tail)),
        ("ins", "+ ", part(&now, same, now.len() - tail)),
        ("span", "  ", part(&now, now.len() - tail, (now.len() - tail + AROUND).min(now.len()))),
    ] {
        for line in text.lines() {
            // Writing to a string never fails.
            let _ = write!(html, "<{tag}>{mark}");
            push_text(&mut html, line, Breaks::Mark);
            let _ = writeln!(html, "</{tag}>");
        }
    }
    Html(html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_unchanged_means_the_same_and_hides_nothing() {
        let text = r#"{"b":100000000000000000000.10,"a":["x\n\ty","\u202egnp","é אב","😀\u200b","       "],"c":{}}"#;
        let shown = editable(text).unwrap();
        assert!(!shown.contains('\u{202E}') && !shown.contains('\u{200B}'), "{shown}");
        assert!(shown.contains("\\u202e") && shown.contains("\\u200b") && shown.contains("é אב"), "{shown}");
        assert!(shown.lines().count() > 5);
        let (one, other): (Value, Value) = (serde_json::from_str(text).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(one.to_string(), other.to_string());
        assert_eq!(editable("{"), None);
    }

    #[test]
    fn the_size_is_that_of_the_form() {
        for text in ["{\n  \"a\": 1\n}", "é 😀 *-._~", "plain"] {
            let sent: String = url::form_urlencoded::byte_serialize(text.replace('\n', "\r\n").as_bytes()).collect();
            assert_eq!(sent_size(text), sent.len(), "{text}");
        }
    }

    #[test]
    fn only_what_is_different_is_marked() {
        let html = difference(r#"{"a":1,"b":2,"c":"<b>"}"#, r#"{"a":1,"b":3,"c":"<b>"}"#).0;
        assert!(html.contains("<del>−   &#34;b&#34;: 2,</del>"), "{html}");
        assert!(html.contains("<ins>+   &#34;b&#34;: 3,</ins>"), "{html}");
        assert!(html.contains("&#34;a&#34;: 1") && !html.contains("<b>"), "{html}");
        assert_eq!(html.matches("<del>").count(), 1);
        let same = difference("{}", "{}").0;
        assert!(!same.contains("<del>") && !same.contains("<ins>"));
        let longer = difference("[1]", "[1,1]").0;
        assert!(longer.contains("<ins>"), "{longer}");
        let text = difference("old <i>", "new \u{202E}").0;
        assert!(text.contains("<del>− old &lt;i&gt;</del>") && text.contains("⟦U+202E⟧"), "{text}");
    }

    #[test]
    fn large_texts_are_shown_both() {
        let large = format!("\"{}\"", "x".repeat(COMPARED));
        let html = difference(&large, "{}").0;
        assert!(html.contains("<del>") && html.contains("<ins>"));
    }
}
