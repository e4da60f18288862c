//! JSON text: canonical form, hashes, and a look at its depth before anything recursive reads it.

mod canonical;
mod depth;
mod surrogates;
mod unescape;

pub use canonical::{canonical_json, hex, sha256_hex};
pub use depth::json_depth_within;
pub use surrogates::without_lone_surrogates;
pub use unescape::unescaped;

use serde::de::{DeserializeOwned, Error as _};

/// Reads JSON from bytes. By way of text, always: what a type is read from is compiled anew for each kind of source, and the
/// bundle is small because there is only one.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(error) => Err(serde_json::Error::custom(error)),
    }
}
