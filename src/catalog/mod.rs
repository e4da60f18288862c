//! The catalog: what a source offers, as tools that a model can call.
//!
//! This module turns descriptions of APIs into [`tool::Tool`]s, checks arguments against a tool's schema, and turns
//! checked arguments into the bytes of a request and an answer into a value. It never sends anything, never reads a
//! clock, never sees a credential, and never fetches what a document refers to.

pub mod graphql;
pub mod mcp;
pub mod openapi;
pub mod rank;
pub mod schema;
pub mod search;
mod stem;
pub mod tool;
pub mod typescript;

#[cfg(test)]
mod tests;
