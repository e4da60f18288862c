//! Who asks: what a credential means. Decides nothing about sessions or tools, and does no I/O: keys, signatures and directories
//! are asked by the shell, which carries out what is said here.
//!
//! A credential is tried with the providers of `AUTH_MODE` in their order ([`settings::Provider`]); each says whether it is one
//! of its own. What comes of it is an [`Outcome`].

pub mod api_key;
pub mod browser;
mod dev;
pub mod identity;
pub mod jwt;
pub mod membership;
pub mod memory;
pub mod passphrase;
pub mod rate;
pub mod settings;
pub mod sign_in;
pub mod signed;

use serde::{Deserialize, Serialize};

pub use dev::{DEV_COOKIE, DevMode, parse_dev_account};

/// Characters of an account or an organization.
pub const NAME_LIMIT: usize = 200;

/// What a credential may be used for. The agent can read its own bearer, so one that is accepted on
/// `/mcp` never decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Calls tools.
    Mcp,
    /// Decides, through the approval API.
    Approve,
    /// Administers, and nothing else.
    Admin,
    /// A person in a browser: sees pages and decides.
    Browser,
}

impl Purpose {
    /// The word for it in keys and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Approve => "approve",
            Self::Admin => "admin",
            Self::Browser => "browser",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Mcp, Self::Approve, Self::Admin, Self::Browser].into_iter().find(|purpose| purpose.name() == name)
    }
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

    /// Whether it may use the administration API.
    #[must_use]
    pub fn administers(&self) -> bool {
        self.admin && self.purpose != Purpose::Approve
    }

    /// Whether it may make a key for `purpose`. What an agent can read must not make what decides, or what makes that.
    #[must_use]
    pub fn may_make_key_for(&self, purpose: Purpose) -> bool {
        match self.purpose {
            Purpose::Admin | Purpose::Browser => self.admin,
            Purpose::Mcp => self.admin && purpose == Purpose::Mcp,
            Purpose::Approve => false,
        }
    }
}

/// What authentication can come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Verified.
    Authenticated(Principal),
    /// No credential, or one that is not valid.
    Unauthorized {
        /// What is wrong with the credential, for `error_description`; `None` when there was none.
        problem: Option<&'static str>,
    },
    /// Verified, and without access here.
    Forbidden(Denial),
    /// It cannot be told just now. Nothing may be ended because of it.
    Unavailable(Cause),
}

/// A verified identity that has no access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Says what to do.
    pub message: String,
    /// Whose sessions end.
    pub account: String,
    /// Only those of this organization; `None` where the identity does not name one any more.
    pub organization: Option<String>,
}

/// Why it cannot be told who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Keys of an issuer, or the directory.
    Infrastructure,
    /// The organization's own record.
    Storage,
}

/// The token of an `Authorization: Bearer` header (RFC 6750, section 2.1).
#[must_use]
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a text can name an account or an organization: 1 to [`NAME_LIMIT`] characters, none of them a control character, and
/// no space at either end.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=NAME_LIMIT).contains(&text.chars().count()) && !text.contains(char::is_control) && text.trim() == text
}

/// Whether two byte strings are the same, in a time that does not say where they differ.
#[must_use]
pub fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && std::hint::black_box(left.iter().zip(right).fold(0, |differ, (one, other)| differ | (one ^ other))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(purpose: Purpose, admin: bool) -> Principal {
        Principal { account: "ann".to_owned(), organization: "acme".to_owned(), admin, purpose }
    }

    #[test]
    fn what_an_agent_can_read_makes_no_key_that_decides() {
        for (holder, may_mcp, may_other) in [
            (principal(Purpose::Mcp, true), true, false),
            (principal(Purpose::Mcp, false), false, false),
            (principal(Purpose::Approve, true), false, false),
            (principal(Purpose::Admin, true), true, true),
            (principal(Purpose::Browser, true), true, true),
            (principal(Purpose::Browser, false), false, false),
        ] {
            assert_eq!(holder.may_make_key_for(Purpose::Mcp), may_mcp, "{holder:?}");
            assert_eq!(holder.may_make_key_for(Purpose::Approve), may_other, "{holder:?}");
            assert_eq!(holder.may_make_key_for(Purpose::Admin), may_other, "{holder:?}");
        }
    }

    #[test]
    fn names_are_bounded_and_have_no_control_characters() {
        for (text, expected) in [
            ("ann", true),
            ("auth0|5f7c8ec7c33c6c004bbafe82", true),
            ("Ann Äpfel", true),
            ("", false),
            (" ann", false),
            ("ann\n", false),
            ("a\tb", false),
        ] {
            assert_eq!(is_name(text), expected, "{text:?}");
        }
        assert!(is_name(&"é".repeat(NAME_LIMIT)));
        assert!(!is_name(&"a".repeat(NAME_LIMIT + 1)));
    }

    #[test]
    fn bytes_are_compared_whole() {
        assert!(same_bytes(b"abc", b"abc"));
        assert!(!same_bytes(b"abc", b"abd"));
        assert!(!same_bytes(b"abc", b"ab"));
    }
}
