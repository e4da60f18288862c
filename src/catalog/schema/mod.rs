//! JSON Schema as clients can take it, and arguments held against it.
//!
//! Decides what a schema looks like after cleaning and whether arguments satisfy it. Never fetches a reference and
//! never rejects an answer.

pub mod arguments;
pub(crate) mod clean;
mod client;
mod decimal;
pub(crate) mod definitions;
pub(crate) mod keys;

pub use arguments::{ArgumentFault, check_arguments};
pub(crate) use client::clean_input;
pub use client::{input_for_clients, output_for_clients};

#[cfg(test)]
mod tests;
