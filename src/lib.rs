//! Countersign: an MCP gateway whose risky tool calls wait until a person countersigns them.
//!
//! Functional core, imperative shell: everything outside [`shell`] is plain Rust without I/O, and is
//! tested natively; only `shell` names the platform. `ARCHITECTURE.md` has the map.

pub mod approval;
pub mod auth;
pub mod catalog;
pub mod config;
pub mod console;
pub mod credential;
pub mod demo;
pub mod engine;
pub mod internal;
pub mod json;
pub mod oauth;
pub mod organization;
pub mod outbound;
pub mod policy;
pub mod protocol;
pub mod session;
mod shell;
pub mod upstream;
