//! The gateway as a client of an MCP server over streamable HTTP, without I/O: which requests are sent, and what their
//! answers mean. Both eras: sessions (2024-11-05 to 2025-11-25) and stateless (2026-07-28).
//!
//! A server is hostile until checked: bytes and messages are counted, ids have to be the gateway's own, an answer is taken
//! once, and nothing but what was asked for is passed on.

mod era;
mod events;
mod exchange;
mod outgoing;
mod pages;
#[cfg(test)]
mod tests;

pub use era::{Connected, Era, Probed, declared, offers_of, read_discovery, read_initialized};
pub use events::{EventReader, TooLong};
pub use exchange::{Answered, Exchange, Fault, Heard, Limits, RpcFault, StreamEnd};
pub use outgoing::{CallParts, Outgoing, Requests, header_value};
pub use pages::{Pages, PagesError};

/// Headers and body of a request disagree, as far as the server knows (revision 2026-07-28). The request was not processed.
pub const HEADER_MISMATCH: i32 = -32_020;
/// The server does not speak the version of the request (revision 2026-07-28), which was not processed.
pub const UNSUPPORTED_VERSION: i32 = -32_022;
/// The stateless version that is spoken.
pub const STATELESS: &str = "2026-07-28";
/// The newest version with sessions, which is asked for.
pub const NEWEST_SESSION: &str = "2025-11-25";
/// Versions with sessions that are understood.
pub const SESSION_VERSIONS: [&str; 4] = [NEWEST_SESSION, "2025-06-18", "2025-03-26", "2024-11-05"];
