//! JSON-RPC and MCP on the wire: messages, versions, headers, error codes, server-sent events.
//!
//! Pure: text and header values in, values and text out. Never knows who asks.

pub mod cors;
pub mod errors;
pub mod headers;
pub mod jsonrpc;
pub mod outgoing;
pub mod sse;
pub mod text;
pub mod time;
pub mod trace;
pub mod version;
