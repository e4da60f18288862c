//! Keys of properties that every client takes.

use crate::json::sha256_hex;

/// The longest key; clients refuse longer ones.
const MAX_KEY_CHARS: usize = 64;

/// A readable key of `[A-Za-z0-9_.-]{1,64}`.
pub(crate) fn argument_key(name: &str) -> String {
    if is_argument_key(name) {
        return name.to_owned();
    }
    let mut key = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-') {
            key.push(character);
        } else if !key.is_empty() && !key.ends_with('_') {
            key.push('_');
        }
    }
    let key = key.trim_matches('_');
    if key.is_empty() {
        return "argument".to_owned();
    }
    shortened_key(key, name)
}

fn shortened_key(key: &str, name: &str) -> String {
    if key.len() <= MAX_KEY_CHARS {
        return key.to_owned();
    }
    let kept = key.get(..MAX_KEY_CHARS - 9).unwrap_or(key);
    format!("{kept}_{}", sha256_hex(name.as_bytes()).get(..8).unwrap_or_default())
}

/// Whether every client takes `key` as a property's key.
pub(crate) fn is_argument_key(key: &str) -> bool {
    (1..=MAX_KEY_CHARS).contains(&key.len())
        && key != "__proto__"
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// A key for a nested property whose name clients refuse. Each refused character becomes `_` and its code in hex, so
/// that no other property is likely to have that key: keys are told apart by name only, anywhere in the body.
pub(crate) fn nested_key(name: &str) -> String {
    use std::fmt::Write as _;

    let mut key = String::with_capacity(name.len() + 4);
    if name == "__proto__" {
        key.push_str("_5f");
    }
    for character in name.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-') {
            key.push(character);
        } else {
            let _ = write!(key, "_{:02x}", u32::from(character));
        }
    }
    if key.is_empty() {
        key.push_str("_empty");
    }
    shortened_key(&key, name)
}
