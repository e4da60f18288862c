//! The kinds of text that the authorization server gives out, each with a key of its own.

use crate::auth::signed::{Signer, SigningKeys};

/// The kinds of text that the authorization server gives out.
#[derive(Debug, Clone)]
pub struct Signers {
    /// Ids of registered clients.
    pub client: Signer,
    /// Requests that a person is looking at.
    pub pending: Signer,
    /// Codes.
    pub code: Signer,
    /// Refresh tokens.
    pub refresh: Signer,
    /// Access tokens.
    pub access: Signer,
}

impl Signers {
    /// With keys of the gateway's secret.
    #[must_use]
    pub fn new(keys: &SigningKeys) -> Self {
        let of = |prefix| Signer::new(keys, prefix);
        Self {
            client: of("cs_client_"),
            pending: of("cs_pending_"),
            code: of("cs_code_"),
            refresh: of("cs_refresh_"),
            access: of("cs_access_"),
        }
    }
}
