//! The text that is parsed, and where its parts stand in the text that was sent.
//!
//! Lines are counted as [`str::lines`] counts them: only a line feed ends one.

use std::borrow::Cow;

/// Characters of a line that an error shows.
const SHOWN_CHARACTERS: usize = 200;

/// A position in the text that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: u32,
    /// From 1, in characters.
    pub(super) column: u32,
    /// The line, cut to 200 characters around the column.
    pub(super) text: String,
}

/// The program's text as the parser gets it.
#[derive(Debug, Clone)]
pub(super) struct Source<'s> {
    text: Cow<'s, str>,
    /// Bytes at the start of `text` that were not sent.
    prefix: usize,
    /// Line of the sent text at which `text` starts, from 1.
    first_line: u32,
}

impl<'s> Source<'s> {
    /// A part of the sent text, which starts at `first_line` of it.
    pub(super) fn new(text: &'s str, first_line: u32) -> Self {
        Self { text: Cow::Borrowed(text), prefix: 0, first_line }
    }

    /// The same program with `prefix`, which holds no line break, in front of it.
    pub(super) fn prefixed(self, prefix: &str) -> Self {
        let text = format!("{prefix}{}", self.text);
        Self { text: Cow::Owned(text), prefix: self.prefix + prefix.len(), ..self }
    }

    /// What the parser reads.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where byte `offset` of [`Self::text`] stands in the text that was sent.
    pub(super) fn place(&self, offset: usize) -> Place {
        let sent = self.text.get(self.prefix..).unwrap_or_default();
        let mut offset = offset.saturating_sub(self.prefix).min(sent.len());
        while !sent.is_char_boundary(offset) {
            offset -= 1;
        }
        let (before, after) = sent.split_at(offset);
        let start = before.rfind('\n').map_or(0, |position| position + 1);
        let head = before.get(start..).unwrap_or_default();
        let tail = after.lines().next().unwrap_or_default();
        Place {
            line: self.first_line.saturating_add(count(before.matches('\n').count())),
            column: count(head.chars().count()).saturating_add(1),
            text: excerpt(head, tail),
        }
    }

    /// Line of the sent text at which [`Self::text`] starts.
    pub(super) fn first_line(&self) -> u32 {
        self.first_line
    }
}

/// For each line of `text` as ECMAScript counts lines, its number if only line feeds count and the
/// first one is `first`. (ECMAScript also ends lines at a lone carriage return, U+2028 and U+2029.)
pub(super) fn script_lines(text: &str, first: u32) -> Vec<u32> {
    let mut line = first;
    let mut lines = vec![line];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                line = line.saturating_add(1);
                lines.push(line);
            }
            // The line feed that follows ends the line.
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' | '\u{2028}' | '\u{2029}' => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// At most 200 characters of the line `head` + `tail`, around the point between them.
fn excerpt(head: &str, tail: &str) -> String {
    let before = head.chars().count();
    let after = tail.chars().count();
    if before + after <= SHOWN_CHARACTERS {
        return format!("{head}{tail}").trim().to_owned();
    }
    // Two characters are left for the marks of what was cut.
    let room = SHOWN_CHARACTERS - 2;
    let kept_after = after.min(room - before.min(room / 2));
    let kept_before = before.min(room - kept_after);
    let mut text = String::new();
    if kept_before < before {
        text.push('…');
    }
    text.extend(head.chars().skip(before - kept_before));
    text.extend(tail.chars().take(kept_after));
    if kept_after < after {
        text.push('…');
    }
    text.trim().to_owned()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
