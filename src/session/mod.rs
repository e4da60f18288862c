//! A session's life: what is stored of it, whose it is, when it ends, when the alarm rings.
//!
//! Pure: the stored values and the time go in, decisions come out.

pub mod alarm;
pub mod app;
pub mod content;
pub mod direct;
pub mod events;
pub mod failure;
pub mod form;
pub mod id;
mod meta;
mod mode;
pub mod question;
pub mod results;
pub mod stream;
pub mod tools;

pub use meta::{ClientInfo, SCHEMA_VERSION, SessionMeta, Termination, Tombstone};
pub use mode::{ElicitationMode, ModeError, Modes, ToolMode, parse_modes};
