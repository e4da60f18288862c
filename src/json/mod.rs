//! JSON text: canonical form, hashes, and a look at its depth before anything recursive reads it.

mod canonical;
mod depth;
mod surrogates;

pub use canonical::{canonical_json, hex, sha256_hex};
pub use depth::json_depth_within;
pub use surrogates::without_lone_surrogates;
