//! Where the gateway may send requests to, and where a redirect leads. Decides; sends nothing.

mod address;
mod failure;
mod redirect;

pub use address::{Refusal, refuse_address};
pub use failure::SendError;
pub use redirect::{MAX_REDIRECTS, Redirect, decide_redirect, may_be_forwarded};
