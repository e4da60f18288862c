//! Changes of a text, collected in any order and made at once. No change adds or takes away a line.

use std::borrow::Cow;

/// A text or a part of it.
type Text = Cow<'static, str>;

/// What comes first where several changes meet: what ends before, then what begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Close,
    Separator,
    Open,
}

#[derive(Debug)]
struct Edit {
    start: usize,
    rank: Rank,
    /// End of what is blanked.
    end: usize,
    /// What is written before the blanks.
    text: Text,
}

/// The changes of one text. Among those at one place and of one kind, the first that was added comes first.
#[derive(Debug, Default)]
pub(super) struct Edits {
    edits: Vec<Edit>,
}

impl Edits {
    fn add(&mut self, start: usize, end: usize, rank: Rank, text: Text) {
        self.edits.push(Edit { start, rank, end, text });
    }

    /// Writes `text` before what begins at byte `at`: added from the outside to the inside.
    pub(super) fn open(&mut self, at: usize, text: impl Into<Text>) {
        self.add(at, at, Rank::Open, text.into());
    }

    /// Writes `text` after what ends at byte `at`: added from the inside to the outside.
    pub(super) fn close(&mut self, at: usize, text: impl Into<Text>) {
        self.add(at, at, Rank::Close, text.into());
    }

    /// Ends a statement after all that ends at byte `at`.
    pub(super) fn separate(&mut self, at: usize) {
        self.add(at, at, Rank::Separator, ";".into());
    }

    /// Blanks a part, except for its line breaks.
    pub(super) fn blank(&mut self, start: usize, end: usize) {
        self.replace(start, end, "");
    }

    /// Blanks a part, and writes `text` where it began.
    pub(super) fn replace(&mut self, start: usize, end: usize, text: impl Into<Text>) {
        self.add(start, end, Rank::Open, text.into());
    }

    /// The changed text, and where its pieces come from.
    pub(super) fn apply(mut self, text: &str) -> Edited {
        self.edits.sort_by_key(|edit| (edit.start, edit.rank));
        let mut edited = Edited { text: String::with_capacity(text.len() * 2), origins: vec![(0, 0)] };
        let mut position = 0;
        for edit in &self.edits {
            edited.copy(text, position, edit.start);
            position = position.max(edit.start);
            edited.text.push_str(&edit.text);
            for character in text.get(position..edit.end).unwrap_or_default().chars() {
                edited.text.push(if super::tokens::ends_line(character) { character } else { ' ' });
            }
            position = position.max(edit.end);
            edited.origins.push((edited.text.len(), position));
        }
        edited.copy(text, position, text.len());
        edited
    }
}

/// A changed text.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    /// A byte of the changed text and the byte of the original that stands there.
    origins: Vec<(usize, usize)>,
}

impl Edited {
    fn copy(&mut self, text: &str, start: usize, end: usize) {
        self.text.push_str(text.get(start..end).unwrap_or_default());
    }

    /// Byte of the original text for a byte of the changed one; the next one where it was written or blanked.
    pub(super) fn origin(&self, offset: usize) -> usize {
        let index = self.origins.partition_point(|(changed, _)| *changed <= offset);
        let (changed, original) = index.checked_sub(1).and_then(|index| self.origins.get(index)).unwrap_or(&(0, 0));
        let next = self.origins.get(index).map_or(usize::MAX, |(_, original)| *original);
        (original + offset.saturating_sub(*changed)).min(next)
    }
}
