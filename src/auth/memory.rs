//! What was found out a moment ago, each until a time of its own, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key. When `LIMIT` are there, those go whose time is over; when none is, all go.
#[derive(Debug)]
pub struct Memory<K, V, const LIMIT: usize> {
    known: HashMap<K, (V, u64)>,
}

impl<K, V, const LIMIT: usize> Default for Memory<K, V, LIMIT> {
    fn default() -> Self {
        Self { known: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Clone, const LIMIT: usize> Memory<K, V, LIMIT> {
    /// A value whose time is not over, and until when it counts.
    #[must_use]
    pub fn recall(&self, key: &K, now: u64) -> Option<(V, u64)> {
        self.known.get(key).filter(|(_, until)| now < *until).cloned()
    }

    /// Remembers a value until a time, in milliseconds since the Unix epoch.
    pub fn remember(&mut self, key: K, value: V, until: u64, now: u64) {
        if self.known.len() >= LIMIT {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= LIMIT {
            self.known.clear();
        }
        self.known.insert(key, (value, until));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_until_its_time_and_memory_is_bounded() {
        let mut memory = Memory::<u32, &str, 3>::default();
        memory.remember(1, "a", 10, 0);
        assert_eq!(memory.recall(&1, 9), Some(("a", 10)));
        assert_eq!(memory.recall(&1, 10), None);
        for key in 2..9 {
            memory.remember(key, "b", 20, 10);
            assert!(memory.known.len() <= 3);
            assert_eq!(memory.recall(&key, 11), Some(("b", 20)));
        }
        memory.clear();
        assert_eq!(memory.recall(&8, 11), None);
    }
}
