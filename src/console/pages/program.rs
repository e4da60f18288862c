//! A program's text as HTML: numbered lines, those of the calls marked.

use std::collections::BTreeMap;

use super::markup::{Breaks, Html, push_folded, push_text};

/// Lines up to which the whole program is in sight.
const WHOLE_LINES: usize = 40;
/// Bytes up to which the whole program is in sight.
const WHOLE_BYTES: usize = 6_000;
/// Lines around a marked one in an excerpt.
const AROUND: usize = 3;

/// A line of the program that belongs to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// What is written beside the line; markup never comes from outside.
    pub(super) label: String,
    /// Whether a call waits there.
    pub(super) waits: bool,
}

/// The program for the page.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The lines around the marked ones; empty when the whole program is in sight.
    pub(super) excerpt: Html,
    /// Every line.
    pub(super) whole: Html,
    /// Whether the whole is short enough to be in sight.
    pub(super) short: bool,
    /// How many lines there are.
    pub(super) lines: usize,
}

/// Prints a program. `marks` are by line number, from 1.
pub(super) fn listing(source: &str, marks: &BTreeMap<usize, Mark>) -> Listing {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let lines: Vec<&str> = source.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let short = lines.len() <= WHOLE_LINES && source.len() <= WHOLE_BYTES;
    let mut whole = String::with_capacity(source.len() + lines.len() * 32);
    for (index, line) in lines.iter().enumerate() {
        push_line(&mut whole, index + 1, line, marks.get(&(index + 1)), short, Fold::No);
    }
    let mut excerpt = String::new();
    if !short {
        let mut last = 0;
        for (index, line) in lines.iter().enumerate() {
            let number = index + 1;
            if marks.range(number.saturating_sub(AROUND)..=number + AROUND).next().is_none() {
                continue;
            }
            if number > last + 1 {
                excerpt.push_str("<span class=\"skip\">⋯</span>\n");
            }
            last = number;
            push_line(&mut excerpt, number, line, marks.get(&number), true, Fold::Long);
        }
        if last > 0 && last < lines.len() {
            excerpt.push_str("<span class=\"skip\">⋯</span>\n");
        }
    }
    Listing { excerpt: Html(excerpt), whole: Html(whole), short, lines: lines.len() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    No,
    Long,
}

fn push_line(html: &mut String, number: usize, line: &str, mark: Option<&Mark>, anchor: bool, fold: Fold) {
    let digits = number.to_string();
    match mark {
        Some(mark) => {
            html.push_str(if mark.waits { "<span class=\"ln waits\"" } else { "<span class=\"ln called\"" });
            if anchor {
                html.push_str(" id=\"line-");
                html.push_str(&digits);
                html.push('"');
            }
            html.push('>');
        }
        None => html.push_str("<span class=ln>"),
    }
    html.push_str("<i>");
    html.push_str(&digits);
    html.push_str("</i><span>");
    match fold {
        Fold::No => push_text(html, line, Breaks::Keep),
        Fold::Long => push_folded(html, line, |html, part| push_text(html, part, Breaks::Keep)),
    }
    if let Some(mark) = mark {
        html.push_str("<em>");
        push_text(html, &mark.label, Breaks::Mark);
        html.push_str("</em>");
    }
    html.push_str("</span></span>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(label: &str) -> Mark {
        Mark { label: label.to_owned(), waits: true }
    }

    #[test]
    fn lines_are_numbered_and_the_waiting_one_is_marked() {
        let listing =
            listing("const a = 1;\r\nawait tools.x(a < 2);\n", &BTreeMap::from([(2, mark("call 1 waits here"))]));
        assert_eq!(
            listing.whole.0,
            "<span class=ln><i>1</i><span>const a = 1;</span></span>\n\
             <span class=\"ln waits\" id=\"line-2\"><i>2</i><span>await tools.x(a &lt; 2);<em>call 1 waits here</em></span></span>\n"
        );
        assert!(listing.short && listing.excerpt.0.is_empty());
        assert_eq!(listing.lines, 2);
    }

    #[test]
    fn a_long_program_has_an_excerpt_and_is_complete() {
        let source = (1..=200).map(|line| format!("step({line});")).collect::<Vec<_>>().join("\n");
        let listing = listing(&source, &BTreeMap::from([(100, mark("x")), (104, mark("y"))]));
        assert!(!listing.short);
        assert_eq!(
            listing.excerpt.0.matches("class=ln").count() + listing.excerpt.0.matches("\"ln waits\"").count(),
            11
        );
        assert_eq!(listing.excerpt.0.matches("⋯").count(), 2);
        assert!(listing.excerpt.0.contains("id=\"line-100\"") && !listing.whole.0.contains("id="));
        assert!(listing.whole.0.contains("step(1);") && listing.whole.0.contains("step(200);"));
    }

    #[test]
    fn a_mark_outside_of_the_program_harms_nothing() {
        let listing = listing("x", &BTreeMap::from([(0, mark("a")), (9_999, mark("b"))]));
        assert_eq!(listing.lines, 1);
        assert!(!listing.whole.0.contains("<em>"));
    }

    #[test]
    fn a_hostile_program_is_text() {
        let listing = listing("</pre><script>alert(1)</script>\u{202E}\u{2028}x", &BTreeMap::new());
        assert!(!listing.whole.0.contains("<script") && !listing.whole.0.contains("</pre"));
        assert!(listing.whole.0.contains("⟦U+202E⟧⟦U+2028⟧"));
    }
}
