//! The only part that names the platform: loads, calls the core, applies what it says.

mod admin_api;
mod approval_api;
mod authentication;
mod clock;
mod entry;
mod events;
mod http;
mod import;
mod import_room;
mod inbox;
mod invoke;
mod mcp_edge;
mod notify;
mod oauth;
mod organization;
mod outbound;
mod pages;
mod platform;
mod random;
mod runner;
mod sandbox;
mod secrets;
mod session;
mod store;
mod telemetry;
mod upstream;
