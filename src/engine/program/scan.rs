//! Looks at the text between two nodes of the syntax tree, where only punctuation, keywords and comments stand.

use super::tokens::{ends_line, is_space};

/// Byte of the first character at or after `start` that is neither white space nor in a comment.
pub(super) fn skip_trivia(text: &str, start: usize) -> usize {
    let mut position = start;
    loop {
        let rest = text.get(position..).unwrap_or_default();
        if rest.starts_with("//") {
            position += rest.find(ends_line).unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            position += rest.find("*/").map_or(rest.len(), |length| length + 2);
        } else if let Some(space) = rest.chars().next().filter(|&character| is_space(character)) {
            position += space.len_utf8();
        } else {
            return position;
        }
    }
}

/// Byte of the next `mark`, if nothing but semicolons stands before it.
pub(super) fn find(text: &str, start: usize, mark: char) -> Option<usize> {
    let mut position = skip_trivia(text, start);
    while mark != ';' && starts_with(text, position, ';') {
        position = skip_trivia(text, position + 1);
    }
    starts_with(text, position, mark).then_some(position)
}

/// Whether the character `mark` stands at byte `at`.
pub(super) fn starts_with(text: &str, at: usize, mark: char) -> bool {
    text.get(at..).is_some_and(|rest| rest.starts_with(mark))
}

/// The word of ASCII letters at byte `at`.
pub(super) fn word(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let end = rest.find(|character: char| !character.is_ascii_alphabetic());
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// Whether a line ends between two bytes.
pub(super) fn has_line_end(text: &str, start: usize, end: usize) -> bool {
    text.get(start..end).is_some_and(|part| part.contains(ends_line))
}

/// Byte of the word `class` at or after `start`, behind `abstract`.
pub(super) fn skip_modifiers(text: &str, start: usize) -> usize {
    if word(text, start) == "abstract" { skip_trivia(text, start + "abstract".len()) } else { start }
}
