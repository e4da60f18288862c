//! HTML of texts that are not trusted. Every one goes through [`text::visible`] and is escaped here.

use std::fmt::{self, Write as _};

use super::text::{self, Piece};

/// Characters of a text up to which it is not folded.
const FOLD_ABOVE: usize = 600;
/// Characters of a folded text's beginning that stay in sight.
const HEAD: usize = 240;
/// Characters of a folded text's end that stay in sight.
const TAIL: usize = 120;

/// Finished HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(pub(super) String);

impl fmt::Display for Html {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Html {}

/// What becomes of line breaks and tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    /// They stay: the text stands in a block that keeps them.
    Keep,
    /// They are marked: the text is one line.
    Mark,
}

/// A text on one line.
pub(super) fn inline(text: &str) -> Html {
    let mut html = String::with_capacity(text.len() + 16);
    push_text(&mut html, text, Breaks::Mark);
    Html(html)
}

/// A text of any length in a block that keeps line breaks; folded when it is long, and complete then too.
pub(super) fn block(text: &str) -> Html {
    let mut html = String::with_capacity(text.len() + 64);
    push_folded(&mut html, text, |html, part| push_text(html, part, Breaks::Keep));
    Html(html)
}

/// A text on one line, folded when it is long.
pub(super) fn line(text: &str) -> Html {
    let mut html = String::with_capacity(text.len() + 64);
    push_folded(&mut html, text, |html, part| push_text(html, part, Breaks::Mark));
    Html(html)
}

/// A text by `push`: as it is, or folded when it is long.
pub(super) fn push_folded(html: &mut String, text: &str, push: impl Fn(&mut String, &str)) {
    let length = text.chars().count();
    if length <= FOLD_ABOVE {
        push(html, text);
        return;
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    let head = text.get(..at(HEAD)).unwrap_or_default();
    let tail = text.get(at(length - TAIL)..).unwrap_or_default();
    open_fold(html, |html| push(html, head), length - HEAD - TAIL, |html| push(html, tail));
    push(html, text);
    close_fold(html);
}

/// The beginning of a folded part: its head, how much is between, and its tail. The part itself follows.
pub(super) fn open_fold(
    html: &mut String,
    head: impl FnOnce(&mut String),
    between: usize,
    tail: impl FnOnce(&mut String),
) {
    html.push_str("<details class=\"fold\"><summary><span class=\"head\">");
    head(html);
    html.push_str("</span><span class=\"gap\">… ");
    html.push_str(&number(between));
    html.push_str(" more characters …</span><span class=\"tail\">");
    tail(html);
    html.push_str("</span></summary><div class=\"full\">");
}

/// The end of what [`open_fold`] began.
pub(super) fn close_fold(html: &mut String) {
    html.push_str("</div></details>");
}

/// Escapes a text and makes visible what would not be seen.
pub(super) fn push_text(html: &mut String, text: &str, breaks: Breaks) {
    for piece in text::visible(text) {
        match piece {
            Piece::Plain(part) => push_escaped(html, part),
            Piece::RightToLeft(part) => {
                html.push_str("<bdi>");
                push_escaped(html, part);
                html.push_str("</bdi>");
            }
            Piece::Hidden(part) => push_hidden(html, part),
            Piece::Spaces(count) => {
                html.push_str("<b class=\"u\">⟦");
                html.push_str(&number(count));
                html.push_str(" spaces⟧</b>");
            }
            Piece::LineBreak if breaks == Breaks::Keep => html.push('\n'),
            Piece::Tab if breaks == Breaks::Keep => html.push('\t'),
            Piece::LineBreak => html.push_str("<b class=\"u\">⟦line break⟧</b>"),
            Piece::Tab => html.push_str("<b class=\"u\">⟦tab⟧</b>"),
        }
    }
}

fn push_hidden(html: &mut String, part: &str) {
    let mut runs: Vec<(char, usize)> = Vec::new();
    for character in part.chars() {
        match runs.last_mut() {
            Some((last, count)) if *last == character => *count += 1,
            _ => runs.push((character, 1)),
        }
    }
    html.push_str("<b class=\"u\"");
    let only = if let [(character, _)] = runs.as_slice() { text::name(*character) } else { None };
    if let Some(name) = only {
        html.push_str(" title=\"");
        html.push_str(name);
        html.push('"');
    }
    html.push('>');
    for (character, count) in runs {
        // Writing to a string never fails.
        let _ = write!(html, "⟦U+{:04X}", u32::from(character));
        if count > 1 {
            html.push_str(" × ");
            html.push_str(&number(count));
        }
        html.push('⟧');
    }
    html.push_str("</b>");
}

fn push_escaped(html: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        html.push_str(before);
        let mut tail = from.chars();
        html.push_str(match tail.next() {
            Some('&') => "&amp;",
            Some('<') => "&lt;",
            Some('>') => "&gt;",
            Some('"') => "&#34;",
            Some(_) => "&#39;",
            None => "",
        });
        rest = tail.as_str();
    }
    html.push_str(rest);
}

/// A number with its thousands apart.
pub(super) fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 call`, `3 calls`.
pub(super) fn count(value: usize, one: &str, many: &str) -> String {
    if value == 1 { format!("1 {one}") } else { format!("{} {many}", number(value)) }
}

/// A part of a URL's path or query, percent-encoded.
pub(super) fn percent(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(inline("<b a=\"x\" b='y'>&").0, "&lt;b a=&#34;x&#34; b=&#39;y&#39;&gt;&amp;");
    }

    #[test]
    fn hidden_characters_are_named_and_counted() {
        assert_eq!(inline("a\u{202E}b").0, "a<b class=\"u\" title=\"right-to-left override\">⟦U+202E⟧</b>b");
        assert_eq!(inline("\u{200B}\u{200B}\u{200B}").0, "<b class=\"u\" title=\"zero-width space\">⟦U+200B × 3⟧</b>");
        assert_eq!(inline("\u{200B}\u{200C}").0, "<b class=\"u\">⟦U+200B⟧⟦U+200C⟧</b>");
        assert_eq!(inline("a\nb\tc").0, "a<b class=\"u\">⟦line break⟧</b>b<b class=\"u\">⟦tab⟧</b>c");
        assert_eq!(block("a\nb").0, "a\nb");
        assert_eq!(inline("א < ב").0, "<bdi>א</bdi> &lt; <bdi>ב</bdi>");
    }

    #[test]
    fn a_long_text_is_folded_and_complete() {
        let text = format!("begin{}end", "x".repeat(2_000));
        let html = line(&text).0;
        assert!(html.starts_with("<details class=\"fold\"><summary><span class=\"head\">beginxxx"));
        assert!(html.contains("… 1,648 more characters …"));
        assert!(html.contains("xxxend</span></summary>"));
        assert!(html.contains(&text));
        assert!(!line(&"x".repeat(600)).0.contains("details"));
    }

    #[test]
    fn numbers_and_counts() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_048_576, "1,048,576")] {
            assert_eq!(number(value), text);
        }
        assert_eq!(count(1, "call", "calls"), "1 call");
        assert_eq!(count(2, "call", "calls"), "2 calls");
    }

    #[test]
    fn parts_of_urls_are_percent_encoded() {
        assert_eq!(percent("aZ0-._~"), "aZ0-._~");
        assert_eq!(percent("\"><?&#/ é"), "%22%3E%3C%3F%26%23%2F%20%C3%A9");
    }
}
