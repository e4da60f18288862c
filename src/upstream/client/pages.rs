//! Lists that come in pages.

use std::collections::BTreeSet;

use serde_json::Value;

/// Pages of one list.
const PAGES: usize = 200;
/// Entries of one list.
const ENTRIES: usize = 10_000;
/// Bytes of one list, all pages together: an isolate has 128 MB for everything.
const LIST_BYTES: usize = 16 << 20;
/// Bytes of a cursor.
const CURSOR_BYTES: usize = 16 << 10;

/// Collects the pages of a list.
#[derive(Debug, Default)]
pub struct Pages {
    entries: Vec<Value>,
    bytes: usize,
    seen: BTreeSet<String>,
}

/// A page cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PagesError {
    /// It is no page.
    #[error("the answer has no list of {0}")]
    NoList(&'static str),
    /// All pages together are too large.
    #[error("the list of {0} has more than {LIST_BYTES} bytes")]
    TooLarge(&'static str),
}

impl Pages {
    /// Takes a page; gives the cursor of the next one. A cursor that was given before ends the list, as do 200 pages or
    /// 10 000 entries.
    pub fn take(&mut self, page: &mut Value, key: &'static str) -> Result<Option<String>, PagesError> {
        let Some(Value::Array(entries)) = page.get_mut(key).map(Value::take) else {
            return Err(PagesError::NoList(key));
        };
        self.bytes += entries.iter().map(|entry| entry.to_string().len()).sum::<usize>();
        if self.bytes > LIST_BYTES {
            return Err(PagesError::TooLarge(key));
        }
        let room = ENTRIES.saturating_sub(self.entries.len());
        let is_full = entries.len() >= room;
        self.entries.extend(entries.into_iter().take(room));
        let next = page.get("nextCursor").and_then(Value::as_str).filter(|cursor| cursor.len() <= CURSOR_BYTES);
        let next = next.filter(|_| !is_full && self.seen.len() < PAGES);
        Ok(next.filter(|cursor| self.seen.insert((*cursor).to_owned())).map(ToOwned::to_owned))
    }

    /// All entries.
    #[must_use]
    pub fn into_entries(self) -> Vec<Value> {
        self.entries
    }
}
