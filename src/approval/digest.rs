//! Digests that bind a decision to exactly what was shown.

use sha2::{Digest, Sha256};

use crate::json::hex;

/// Digest of one call: execution, number, address, canonical arguments and the canonical JSON of
/// the tool's binding. SHA-256, 64 hexadecimal digits. Every part is preceded by its length, so
/// that no two different inputs are the same bytes.
#[must_use]
pub fn call_digest(execution: &str, seq: u32, address: &str, arguments: &str, binding: &str) -> String {
    digest_of(&[execution, &seq.to_string(), address, arguments, binding])
}

/// Digest of everything that waits under one pause, in the order of the calls.
#[must_use]
pub fn pause_digest<'a>(pause: &'a str, calls: impl Iterator<Item = &'a str>) -> String {
    let mut parts = vec![pause];
    parts.extend(calls);
    digest_of(&parts)
}

fn digest_of(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_changes_with_every_part() {
        let base = call_digest("e", 0, "a.b", "{}", "{}");
        assert_eq!(base.len(), 64);
        for other in [
            call_digest("f", 0, "a.b", "{}", "{}"),
            call_digest("e", 1, "a.b", "{}", "{}"),
            call_digest("e", 0, "a.c", "{}", "{}"),
            call_digest("e", 0, "a.b", "{\"x\":1}", "{}"),
            call_digest("e", 0, "a.b", "{}", "{\"x\":1}"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn moving_a_character_between_parts_changes_the_digest() {
        assert_ne!(call_digest("e", 0, "ab", "c", "d"), call_digest("e", 0, "a", "bc", "d"));
        assert_ne!(pause_digest("p", ["ab", "c"].into_iter()), pause_digest("p", ["a", "bc"].into_iter()));
    }

    #[test]
    fn call_digest_format_unchanged() {
        assert_eq!(
            call_digest("e1", 7, "demo.deleteItem", r#"{"id":"i1"}"#, "{}"),
            "be45c4c96ad974e3c64b232618d8b5b02d22f4d8cda2fc0fa83d28fb5cff7663"
        );
    }
}
