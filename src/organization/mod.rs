//! What an administrator may say to an organization: routes, requests and their faults, toolkits, reports, cursors.
//!
//! Pure: texts go in, operations or faults that name a field come out. Nothing is stored, fetched or encrypted here.

pub mod cursor;
pub mod fault;
mod fields;
pub mod grant;
pub mod keys;
pub mod report;
pub mod route;
pub mod slug;
pub mod source;
pub mod stop;
#[cfg(test)]
mod tests;
pub mod text;
pub mod toolkit;
pub mod webhook;

/// The gateway's own `OpenAPI` document: every route of the administration API.
pub const DOCUMENT: &str = include_str!("openapi.json");
/// The slug of the administration API as a source.
pub const SLUG: &str = "countersign";
