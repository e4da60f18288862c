//! JSON text as HTML: indented and folded, but with every character of the text in the page.
//!
//! Works on the text itself, so that numbers keep their digits and objects their order and their
//! duplicates. What is no complete JSON (a shortened result) is shown as plain text.

use super::markup::{Breaks, Html, block, close_fold, number, open_fold, push_folded, push_text};

/// Deeper nesting is shown as plain text: the printer is recursive.
const DEPTH: usize = 256;
/// Bytes of a value that is written on one line.
const ONE_LINE: usize = 72;
/// Bytes of an array's elements up to which they share lines.
const SHORT: usize = 24;
/// Bytes of the whole text above which parts of it are folded.
const FOLD_WHOLE: usize = 4_000;
/// Bytes of an object or array inside it above which it is folded.
const FOLD_PART: usize = 1_200;
/// Members of an object or array above which those in the middle are folded.
const FOLD_MEMBERS: usize = 80;
/// Members before and after the folded ones.
const EDGE: usize = 30;
/// Characters of a string up to which it is not folded, and those in sight before and after the fold.
const STRING: (usize, usize, usize) = (600, 240, 120);
/// Characters of a string above which it stands in a block of its own.
const LONG_STRING: usize = 160;
/// The deepest indentation.
const INDENT: usize = 10;

/// JSON text as HTML.
pub(super) fn json(text: &str) -> Html {
    let text = text.trim();
    let Some(containers) = scan(text) else { return block(text) };
    let mut html = String::with_capacity(text.len() * 2);
    let printer = Printer { text, containers, fold: text.len() > FOLD_WHOLE };
    html.push_str("<div class=\"json\">");
    let container = printer.containers.first().filter(|first| first.open == 0).map(|_| 0);
    printer.value(&mut html, &Member { key: None, start: 0, end: text.len(), container }, 0, false);
    html.push_str("</div>");
    Html(html)
}

/// An object or array; they are listed in the order in which they open.
struct Container {
    open: usize,
    /// Offset of the closing bracket.
    close: usize,
    members: usize,
    /// How many containers are inside, at any depth.
    inside: usize,
}

/// One value in an object or array.
struct Member {
    key: Option<(usize, usize)>,
    start: usize,
    end: usize,
    /// Its index, where it is a container.
    container: Option<usize>,
}

/// Finds all objects and arrays; `None` when the text is no complete JSON, or too deep.
fn scan(text: &str) -> Option<Vec<Container>> {
    let bytes = text.as_bytes();
    let mut containers: Vec<Container> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut empty = true;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                open.push(containers.len());
                if open.len() > DEPTH {
                    return None;
                }
                containers.push(Container { open: at, close: 0, members: 0, inside: 0 });
                empty = true;
            }
            b'}' | b']' => {
                let index = open.pop()?;
                let listed = containers.len();
                let container = containers.get_mut(index)?;
                let expected = if bytes.get(container.open) == Some(&b'{') { b'}' } else { b']' };
                if byte != expected {
                    return None;
                }
                container.close = at;
                container.inside = listed - index - 1;
                container.members += usize::from(!empty);
                empty = false;
                if open.is_empty() && at + 1 < bytes.len() {
                    return None;
                }
            }
            b',' => containers.get_mut(*open.last()?)?.members += 1,
            b'"' => {
                at = string_end(bytes, at)? - 1;
                empty = false;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => empty = false,
        }
        at += 1;
    }
    (open.is_empty() && !text.is_empty()).then_some(containers)
}

/// The offset after a string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

struct Printer<'a> {
    text: &'a str,
    containers: Vec<Container>,
    fold: bool,
}

impl<'a> Printer<'a> {
    fn part(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// The members of a container.
    fn members(&self, index: usize) -> Members<'_, 'a> {
        let container = self.containers.get(index);
        Members {
            printer: self,
            at: container.map_or(0, |container| container.open + 1),
            close: container.map_or(0, |container| container.close),
            next: index + 1,
        }
    }

    /// A value on lines of its own.
    fn value(&self, html: &mut String, member: &Member, depth: usize, comma: bool) {
        let length = member.end - member.start;
        open_line(html, depth);
        if let Some((start, end)) = member.key {
            push_string(html, self.part(start, end), "k", "");
            html.push_str(": ");
        }
        match member.container.and_then(|index| Some((index, self.containers.get(index)?))) {
            None => {
                self.scalar(html, member, if comma { "," } else { "" });
                close_line(html, false);
                return;
            }
            Some((index, container)) if container.members == 0 || length <= ONE_LINE => self.one_line(html, index),
            Some((index, _)) if self.fold && depth > 0 && length > FOLD_PART => {
                self.folded(html, member, |html| self.lines(html, index, 0, false));
            }
            Some((index, _)) => {
                self.lines(html, index, depth, comma);
                return;
            }
        }
        close_line(html, comma);
    }

    /// A container on several lines, the first of which is open already.
    fn lines(&self, html: &mut String, index: usize, depth: usize, comma: bool) {
        let Some(container) = self.containers.get(index) else { return };
        html.push_str(self.part(container.open, container.open + 1));
        close_line(html, false);
        let count = container.members;
        let is_array = self.part(container.open, container.open + 1) == "[";
        if is_array && self.members(index).all(|member| member.end - member.start <= SHORT) {
            open_line(html, depth + 1);
            self.separated(html, index);
            close_line(html, false);
        } else {
            let middle = if self.fold && count > FOLD_MEMBERS { EDGE..count - EDGE } else { 0..0 };
            for (place, member) in self.members(index).enumerate() {
                if !middle.is_empty() && place == middle.start {
                    html.push_str("<details class=\"fold more\"><summary><span class=\"gap\">… ");
                    html.push_str(&number(middle.len()));
                    html.push_str(" more …</span></summary><div class=\"full\">");
                }
                self.value(html, &member, depth + 1, place + 1 < count);
                if !middle.is_empty() && place + 1 == middle.end {
                    close_fold(html);
                }
            }
        }
        open_line(html, depth);
        html.push_str(self.part(container.close, container.close + 1));
        close_line(html, comma);
    }

    fn one_line(&self, html: &mut String, index: usize) {
        let Some(container) = self.containers.get(index) else { return };
        html.push_str(self.part(container.open, container.open + 1));
        self.separated(html, index);
        html.push_str(self.part(container.close, container.close + 1));
    }

    /// The members of a container, one beside the other.
    fn separated(&self, html: &mut String, index: usize) {
        for (place, member) in self.members(index).enumerate() {
            if place > 0 {
                html.push_str(", ");
            }
            if let Some((start, end)) = member.key {
                push_string(html, self.part(start, end), "k", "");
                html.push_str(": ");
            }
            match member.container {
                Some(inner) => self.one_line(html, inner),
                None => self.scalar(html, &member, ""),
            }
        }
    }

    fn scalar(&self, html: &mut String, member: &Member, after: &str) {
        let part = self.part(member.start, member.end);
        if part.starts_with('"') {
            push_string(html, part, "s", after);
        } else {
            push_folded(html, part, |html, part| push_text(html, part, Breaks::Mark));
            html.push_str(after);
        }
    }

    fn folded(&self, html: &mut String, member: &Member, full: impl FnOnce(&mut String)) {
        let part = self.part(member.start, member.end);
        let (head, tail) = (part.char_indices().nth(120), part.char_indices().nth_back(80));
        let (Some((head, _)), Some((tail, _))) = (head, tail) else { return full(html) };
        let between = part.get(head..tail).map_or(0, |middle| middle.chars().count());
        open_fold(
            html,
            |html| push_text(html, part.get(..head).unwrap_or_default(), Breaks::Mark),
            between,
            |html| push_text(html, part.get(tail..).unwrap_or_default(), Breaks::Mark),
        );
        open_line(html, 0);
        full(html);
        close_fold(html);
    }
}

struct Members<'p, 'a> {
    printer: &'p Printer<'a>,
    at: usize,
    close: usize,
    next: usize,
}

impl Members<'_, '_> {
    fn skip(&mut self, skipped: &[u8]) {
        while self.at < self.close
            && self.printer.text.as_bytes().get(self.at).is_some_and(|byte| skipped.contains(byte))
        {
            self.at += 1;
        }
    }
}

impl Iterator for Members<'_, '_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let bytes = self.printer.text.as_bytes();
        self.skip(b" \t\r\n,");
        if self.at >= self.close {
            return None;
        }
        let mut key = None;
        if bytes.get(self.at) == Some(&b'"') {
            let end = string_end(bytes, self.at)?;
            let start = self.at;
            self.at = end;
            self.skip(b" \t\r\n");
            if bytes.get(self.at) != Some(&b':') {
                return Some(Member { key: None, start, end, container: None });
            }
            key = Some((start, end));
            self.skip(b" \t\r\n:");
        }
        let start = self.at;
        let mut container = None;
        match self.printer.containers.get(self.next) {
            Some(inner) if inner.open == start => {
                container = Some(self.next);
                self.next += inner.inside + 1;
                self.at = inner.close + 1;
            }
            _ if bytes.get(start) == Some(&b'"') => self.at = string_end(bytes, start)?,
            _ => {
                while self.at < self.close && bytes.get(self.at) != Some(&b',') {
                    self.at += 1;
                }
            }
        }
        Some(Member { key, start, end: self.at, container })
    }
}

fn open_line(html: &mut String, depth: usize) {
    html.push_str("<div class=d");
    html.push_str(&depth.min(INDENT).to_string());
    html.push('>');
}

fn close_line(html: &mut String, comma: bool) {
    html.push_str(if comma { ",</div>" } else { "</div>" });
}

/// A string with its quotes, then `after`. Its escapes stay; after `\n` the line breaks as well.
fn push_string(html: &mut String, raw: &str, class: &str, after: &str) {
    let (limit, head, tail) = STRING;
    let ends = unit_ends(raw);
    let length = ends.len();
    let long = class == "s" && (length > LONG_STRING || ends.windows(2).any(|pair| is_line_feed(raw, pair)));
    html.push_str(if long { "<span class=\"long " } else { "<span class=\"" });
    html.push_str(class);
    html.push_str("\">");
    if length <= limit {
        push_units(html, raw, long);
    } else {
        let at = |count: usize| count.checked_sub(1).and_then(|index| ends.get(index)).copied().unwrap_or_default();
        open_fold(
            html,
            |html| push_units(html, raw.get(..at(head)).unwrap_or_default(), false),
            length - head - tail,
            |html| push_units(html, raw.get(at(length - tail)..).unwrap_or_default(), false),
        );
        push_units(html, raw, long);
        close_fold(html);
    }
    // A long string is a block: what follows it must stand inside, or it would begin a line.
    html.push_str(if long { after } else { "" });
    html.push_str("</span>");
    html.push_str(if long { "" } else { after });
}

/// Where each character ends; an escape counts as one.
fn unit_ends(raw: &str) -> Vec<usize> {
    let mut ends = Vec::with_capacity(raw.len());
    let mut characters = raw.char_indices();
    while let Some((at, character)) = characters.next() {
        let mut end = at + character.len_utf8();
        if character == '\\' {
            let digits = if raw.get(end..).is_some_and(|rest| rest.starts_with('u')) { 5 } else { 1 };
            for (at, escaped) in characters.by_ref().take(digits) {
                end = at + escaped.len_utf8();
            }
        }
        ends.push(end);
    }
    ends
}

fn is_line_feed(raw: &str, pair: &[usize]) -> bool {
    matches!(pair, &[start, end] if raw.get(start..end) == Some("\\n"))
}

fn push_units(html: &mut String, raw: &str, breaks: bool) {
    if !breaks {
        push_text(html, raw, Breaks::Mark);
        return;
    }
    let mut start = 0;
    for pair in unit_ends(raw).windows(2) {
        if let (true, &[at, end]) = (is_line_feed(raw, pair), pair) {
            push_text(html, raw.get(start..at).unwrap_or_default(), Breaks::Mark);
            html.push_str("<i>\\n</i>\n");
            start = end;
        }
    }
    push_text(html, raw.get(start..).unwrap_or_default(), Breaks::Mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser shows of it, a line for each line element.
    fn shown(text: &str) -> String {
        let html = json(text).0.replace("</div>", "</div>\n");
        let mut plain = String::new();
        let mut tag = false;
        for character in html.chars() {
            match character {
                '<' => tag = true,
                '>' => tag = false,
                _ if !tag => plain.push(character),
                _ => {}
            }
        }
        let plain = plain.replace("&#34;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn short_values_stay_on_one_line() {
        assert_eq!(shown(r#"{"id":"i1","n":[1,2],"o":{}}"#), r#"{"id": "i1", "n": [1, 2], "o": {}}"#);
        for scalar in ["1", "null", "-0.10e+5", "\"x\"", "[]", "{}"] {
            assert_eq!(shown(scalar), scalar);
        }
    }

    #[test]
    fn longer_values_are_indented_and_digits_kept() {
        let text = r#"{"amount":100000000000000000000.10,"list":[{"name":"a long enough name for a line","tags":["one","two"]},12345678901234567890],"again":1e400}"#;
        assert_eq!(
            shown(text),
            "{\n\"amount\": 100000000000000000000.10,\n\"list\": [\n\
             {\"name\": \"a long enough name for a line\", \"tags\": [\"one\", \"two\"]},\n\
             12345678901234567890\n],\n\"again\": 1e400\n}"
        );
        assert!(json(text).0.contains("<div class=d2>"));
    }

    #[test]
    fn duplicate_keys_and_order_are_kept() {
        assert_eq!(shown(r#"{"b":1,"a":2,"b":3}"#), r#"{"b": 1, "a": 2, "b": 3}"#);
    }

    #[test]
    fn markup_in_keys_and_values_is_escaped() {
        let html = json(r#"{"<script>":"</textarea><img src=x onerror=alert(1)>","\"":"'\u202e"}"#).0;
        assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("</textarea"));
        assert!(html.contains("&lt;script&gt;"));
        assert!(json("{\"a\":\"\u{202E}\"}").0.contains("⟦U+202E⟧"));
    }

    #[test]
    fn what_is_no_complete_json_is_plain_text() {
        for text in ["{\"a\":1… (9 characters)", "[1,2", "\"abc", "{]", "[1] x", "{}{}", ""] {
            let html = json(text).0;
            assert!(!html.contains("class=\"json\""), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        assert!(!json(&deep).0.contains("class=\"json\""));
        let less = format!("{}{}", "[".repeat(256), "]".repeat(256));
        assert!(json(&less).0.contains("class=\"json\""));
    }

    #[test]
    fn a_long_string_shows_both_ends_and_is_complete() {
        let long = format!("begin{}\\n--force", "x".repeat(3_000));
        let html = json(&format!("{{\"text\":\"{long}\"}}")).0;
        assert!(html.contains("more characters"));
        assert!(html.contains("<span class=\"tail\">") && html.contains("--force&#34;</span></summary>"));
        assert!(html.contains(&"x".repeat(3_000)));
    }

    #[test]
    fn a_fold_never_cuts_an_escape() {
        let text = format!("\"{}\"", "\\u0041\\\\\\\"".repeat(400));
        let html = json(&text).0;
        assert!(html.contains("<span class=\"head\">&#34;\\u0041"));
        assert_eq!(unit_ends(r#"a\\\"\u0041b"#), [1, 3, 5, 11, 12]);
    }

    #[test]
    fn line_feeds_of_a_string_break_the_line_and_stay_in_sight() {
        let html = json(r#""one\ntwo\\n""#).0;
        assert!(html.contains("one<i>\\n</i>\ntwo\\\\n"), "{html}");
    }

    #[test]
    fn long_lists_and_parts_are_folded_and_complete() {
        let entries: Vec<String> =
            (0..500).map(|number| format!("{{\"entry\":\"number {number} of many entries\"}}")).collect();
        let html = json(&format!("[{}]", entries.join(","))).0;
        assert!(html.contains("… 440 more …"));
        assert!((0..500).all(|number| html.contains(&format!("number {number} of"))));
        let html = json(&format!("{{\"small\":1,\"big\":[{}],\"last\":2}}", entries.join(","))).0;
        assert_eq!(html.matches("<details").count(), html.matches("</details>").count());
        assert_eq!(html.matches("<div").count(), html.matches("</div>").count());
        assert!(html.contains("\"last&#34;") || html.contains("&#34;last&#34;"));
    }

    #[test]
    fn no_text_grows_more_than_fifteen_times() {
        let full = |unit: &str, open: &str, close: &str| {
            format!("{open}{}{close}", vec![unit; (1 << 18) / (unit.len() + 1)].join(","))
        };
        for text in [
            full("1", "[", "]"),
            full("[]", "[", "]"),
            full("[1]", "[", "]"),
            full("\"a\":1", "{", "}"),
            full("\"\":\"\"", "{", "}"),
            full("\"a\":{}", "{", "}"),
            format!("\"{}\"", "&".repeat(1 << 18)),
            format!("\"{}\"", "\u{AD}\u{80}".repeat(1 << 16)),
            format!("\"{}\"", "\\n".repeat(1 << 17)),
        ] {
            let html = json(&text).0;
            assert!(html.len() < 15 * text.len(), "{} bytes from {}", html.len(), text.get(..12).unwrap_or_default());
        }
    }
}
