//! Chooses identifiers that the program cannot know.

use std::collections::HashSet;

/// First character of every name that is chosen.
const MARK: char = '$';

/// All names of ASCII letters and digits that start with `$` and that a text mentions anywhere, with or without escapes.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Reads the program's text.
    pub(super) fn of(text: &str) -> Self {
        let mut names = Self::default();
        names.take_all(text);
        if text.contains("\\u") {
            names.take_all(&without_escapes(text));
        }
        names
    }

    fn take_all(&mut self, text: &str) {
        for part in text.split(MARK).skip(1) {
            let end = part.find(|character: char| !character.is_ascii_alphanumeric());
            self.taken.insert(format!("{MARK}{}", part.get(..end.unwrap_or(part.len())).unwrap_or(part)));
        }
    }

    /// `base`, or `base` with the first number that makes it new. It is taken from then on.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let mut number = 0_u64;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{base}{number}");
        }
        name
    }
}

/// The text with `\u0024` and `\u{24}` resolved everywhere, also where they are none.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let braced = part.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let escape = braced.or_else(|| part.split_at_checked(4));
        let character = escape.and_then(|(digits, _)| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
        match (character, escape) {
            (Some(character), Some((_, rest))) => {
                plain.push(character);
                plain.push_str(rest);
            }
            (_, _) => plain.push_str(part),
        }
    }
    plain
}
