//! Who asks: what a verified credential means. Decides nothing about sessions or tools.

mod dev;
pub mod passphrase;

use serde::{Deserialize, Serialize};

pub use dev::{DEV_COOKIE, DevMode, parse_dev_account};

/// What a credential may be used for. The agent can read its own bearer, so one that is accepted on
/// `/mcp` never decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Calls tools.
    Mcp,
    /// Decides, through the approval API.
    Approve,
    /// A person in a browser: sees pages and decides.
    Browser,
}

/// A verified identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// The account, unique in its organization.
    pub account: String,
    /// The organization.
    pub organization: String,
    /// Whether it may use the administration API.
    pub admin: bool,
    /// What the credential may be used for.
    pub purpose: Purpose,
}

impl Principal {
    /// Whether a session of `account` and `organization` is this principal's own.
    #[must_use]
    pub fn owns(&self, account: &str, organization: &str) -> bool {
        self.account == account && self.organization == organization
    }
}

/// What authentication can come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Verified.
    Authenticated(Principal),
    /// No credential, or one that is not valid.
    Unauthorized {
        /// What is wrong with the credential; `None` when there was none.
        problem: Option<&'static str>,
    },
    /// Verified or not, this may not be used here; says what to do.
    Forbidden(String),
}

/// The token of an `Authorization: Bearer` header (RFC 6750, section 2.1).
#[must_use]
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
