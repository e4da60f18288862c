//! Lists of any length, read up to a bound.

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The first items of a list, as they stand, and how many there are beyond.
pub(super) struct RawList<'a> {
    pub(super) items: Vec<&'a RawValue>,
    pub(super) more: usize,
}

/// Reads a list; `None` where it is none.
pub(super) fn list(raw: &RawValue, limit: usize) -> Option<RawList<'_>> {
    struct Items<'a> {
        limit: usize,
        found: RawList<'a>,
    }
    impl<'de> Visitor<'de> for Items<'de> {
        type Value = RawList<'de>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<RawList<'de>, A::Error> {
            while self.found.items.len() < self.limit {
                match items.next_element()? {
                    Some(item) => self.found.items.push(item),
                    None => return Ok(self.found),
                }
            }
            while items.next_element::<IgnoredAny>()?.is_some() {
                self.found.more += 1;
            }
            Ok(self.found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    let items = Items { limit, found: RawList { items: Vec::new(), more: 0 } };
    deserializer.deserialize_seq(items).ok()
}
