//! JSON text: canonical form, hashes, and a look at its depth before anything recursive reads it.

mod canonical;
mod depth;
mod surrogates;
mod typed;
mod unescape;

pub use canonical::{canonical_json, hex, sha256_hex};
pub use depth::json_depth_within;
pub use surrogates::without_lone_surrogates;
pub use unescape::unescaped;

use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

/// Reads a type from JSON text. All types are read by [`typed`]: what a type is read from is compiled anew for each kind of source,
/// and the bundle is small because there is only one. What borrows from the text (`RawValue`) is left to `serde_json`.
///
/// # Errors
///
/// Where it is no JSON, and where the type cannot be made of it.
pub fn from_str<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    from_value(serde_json::from_str(text)?)
}

/// The same from bytes.
///
/// # Errors
///
/// As [`from_str`], and where they are no UTF-8.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    from_value(value_from_slice(bytes)?)
}

/// The value itself, which nothing has to be made of.
///
/// # Errors
///
/// Where the bytes are no UTF-8, or no JSON.
pub fn value_from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(error) => Err(serde_json::Error::custom(error)),
    }
}

/// The same from a value.
///
/// # Errors
///
/// Where the type cannot be made of it.
pub fn from_value<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    T::deserialize(typed::Typed(value))
}
