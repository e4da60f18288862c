//! The gateway as an authorization server of its own (OAuth 2.1, as MCP's authorization specification of 2025-11-25 asks for):
//! what clients may register, what they may ask a person for, and which tokens come of it.
//!
//! Nothing is stored for a client, a pending request or an access token: they are texts that the gateway signed. What a person
//! granted is one row ([`Grant`]), and every code and refresh token leads to it. Decides nothing about who a person is.

mod client;
mod grant;
mod metadata;
mod request;
mod signers;
mod token;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use client::{
    CLIENT_METADATA_LIMIT, Client, ClientAuthentication, is_metadata_url, read_client_metadata, register,
    registered_client,
};
pub use grant::{
    CODE_LIFETIME_MS, Change, CodeAsked, Exchange, Grant, GrantAnswer, GrantStep, RefreshAsked, Refused, take_step,
};
pub use metadata::{SCOPE, authorization_server_metadata};
pub use request::{AuthorizationRequest, Fault, PENDING_LIFETIME_MS, Pending, error_redirect, read_request};
pub use signers::Signers;
pub use token::{
    Access, AccessClaims, Handle, TokenRequest, read_access, read_credentials, read_revocation, read_token_request,
    token_answer,
};

/// An error of the token, registration or revocation endpoint (RFC 6749, section 5.2; RFC 7591, section 3.2.2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {description}")]
pub struct OAuthError {
    /// The HTTP status.
    pub status: u16,
    /// The code of the specification.
    pub code: &'static str,
    /// What is wrong, for whoever builds the client.
    pub description: String,
}

impl OAuthError {
    fn new(code: &'static str, description: impl Into<String>) -> Self {
        let status = if code == "invalid_client" { 401 } else { 400 };
        Self { status, code, description: description.into() }
    }

    /// The request itself is wrong.
    #[must_use]
    pub fn invalid_request(description: &str) -> Self {
        Self::new("invalid_request", description)
    }

    /// A code or token is worth nothing.
    #[must_use]
    pub fn invalid_grant(description: String) -> Self {
        Self::new("invalid_grant", description)
    }

    /// The client id is none that this gateway gave out.
    #[must_use]
    pub fn unknown_client() -> Self {
        Self::new("invalid_client", "This gateway does not know the client. Register it again.")
    }

    /// The body has more than `limit` bytes.
    #[must_use]
    pub fn too_large(code: &'static str, limit: usize) -> Self {
        Self { status: 413, ..Self::new(code, format!("The body is larger than {limit} bytes.")) }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({ "error": self.code, "error_description": self.description })
    }
}
