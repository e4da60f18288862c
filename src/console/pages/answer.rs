//! Members of the administration API's answers, as pages read them. What is missing is empty.

use serde_json::Value;

use super::markup::{Html, inline};
use crate::protocol::text::shortened;

/// Bytes of HTML that a text in a list may become: a character that nobody would see takes sixty.
const BRIEF_BYTES: usize = 1_200;

/// A member that is a text.
pub(super) fn text<'v>(answer: &'v Value, name: &str) -> &'v str {
    maybe(answer, name).unwrap_or_default()
}

/// A member that is a text, where there is one.
pub(super) fn maybe<'v>(answer: &'v Value, name: &str) -> Option<&'v str> {
    answer.get(name).and_then(Value::as_str)
}

/// A member that is a list.
pub(super) fn list<'v>(answer: &'v Value, name: &str) -> &'v [Value] {
    answer.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A member that is a count.
pub(super) fn count_of(answer: &Value, name: &str) -> usize {
    let number = answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A member that is true.
pub(super) fn flag(answer: &Value, name: &str) -> bool {
    answer.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The beginning of a text on one line of a list, of at most `characters`; the whole text is on the page that the list leads to.
pub(super) fn brief(text: &str, characters: usize) -> Html {
    let mut limit = characters;
    loop {
        let html = inline(&shortened(text, limit));
        if html.0.len() <= BRIEF_BYTES || limit < 10 {
            return html;
        }
        limit /= 2;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_of_another_kind_are_missing() {
        let answer = json!({ "a": 1, "b": "x", "c": [1], "d": true, "e": null });
        assert_eq!((text(&answer, "a"), text(&answer, "b"), maybe(&answer, "e")), ("", "x", None));
        assert_eq!((list(&answer, "c").len(), list(&answer, "b").len()), (1, 0));
        assert_eq!((count_of(&answer, "a"), count_of(&answer, "b")), (1, 0));
        assert!(flag(&answer, "d") && !flag(&answer, "b"));
    }

    #[test]
    fn a_text_of_a_list_stays_small_whatever_is_in_it() {
        assert_eq!(brief("short", 100).0, "short");
        for text in
            ["x".repeat(1 << 20), "\u{200B}x".repeat(1 << 16), "<".repeat(5_000), "\u{202E}\u{200B}".repeat(5_000)]
        {
            let html = brief(&text, 200).0;
            assert!(!html.is_empty() && html.len() <= BRIEF_BYTES, "{}", html.len());
        }
    }
}
