//! Development mode: every name is believed, therefore on loopback only.

use super::{Outcome, Principal, Purpose, bearer_token};

/// The cookie that holds the account a person chose on `/sign-in`.
pub const DEV_COOKIE: &str = "countersign-dev";
const NAME_LIMIT: usize = 64;

/// The settings of development mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevMode {
    /// Whether a request without a bearer is refused.
    pub require_token: bool,
}

impl DevMode {
    /// Whether a credential is one of this mode's: a bearer `dev:…`, or none where none is needed.
    #[must_use]
    pub fn claims(self, bearer: Option<&str>) -> bool {
        match bearer {
            Some(token) => token.starts_with("dev:"),
            None => !self.require_token,
        }
    }

    /// The principal of a program.
    #[must_use]
    pub fn authenticate(self, authorization: Option<&str>) -> Outcome {
        let Some(header) = authorization else {
            return if self.require_token {
                Outcome::Unauthorized { problem: None }
            } else {
                Outcome::Authenticated(Principal {
                    account: "dev".to_owned(),
                    organization: "dev".to_owned(),
                    admin: true,
                    purpose: Purpose::Mcp,
                })
            };
        };
        match bearer_token(header).and_then(parse_dev_bearer) {
            Some(principal) => Outcome::Authenticated(principal),
            None => Outcome::Unauthorized {
                problem: Some(
                    "In development mode a bearer is dev:<account>@<organization>, optionally with :admin or :approver",
                ),
            },
        }
    }

    /// The person in a browser: who signed in, else `dev@dev`.
    #[must_use]
    pub fn person(self, cookie: Option<&str>) -> Principal {
        let (account, organization) =
            cookie.and_then(parse_dev_account).unwrap_or(("dev".to_owned(), "dev".to_owned()));
        Principal { account, organization, admin: true, purpose: Purpose::Browser }
    }
}

fn parse_dev_bearer(token: &str) -> Option<Principal> {
    let rest = token.strip_prefix("dev:")?;
    let (names, role) = match rest.split_once(':') {
        Some((names, role)) => (names, Some(role)),
        None => (rest, None),
    };
    let (account, organization) = parse_dev_account(names)?;
    let (admin, purpose) = match role {
        None => (false, Purpose::Mcp),
        Some("admin") => (true, Purpose::Mcp),
        Some("approver") => (false, Purpose::Approve),
        Some("approver,admin" | "admin,approver") => (true, Purpose::Approve),
        Some(_) => return None,
    };
    Some(Principal { account, organization, admin, purpose })
}

/// Splits `<account>@<organization>`; each is 1 to 64 letters, digits, dots, dashes, underscores
/// or pluses.
#[must_use]
pub fn parse_dev_account(text: &str) -> Option<(String, String)> {
    let (account, organization) = text.split_once('@')?;
    let fits = |name: &str| {
        (1..=NAME_LIMIT).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte))
    };
    (fits(account) && fits(organization)).then(|| (account.to_owned(), organization.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose_of(header: &str) -> Option<(String, bool, Purpose)> {
        match (DevMode { require_token: true }).authenticate(Some(header)) {
            Outcome::Authenticated(p) => Some((format!("{}@{}", p.account, p.organization), p.admin, p.purpose)),
            Outcome::Unauthorized { .. } | Outcome::Forbidden(_) | Outcome::Unavailable(_) => None,
        }
    }

    #[test]
    fn bearers_of_development_mode() {
        let some = |name: &str, admin, purpose| Some((name.to_owned(), admin, purpose));
        for (header, expected) in [
            ("Bearer dev:ann@acme", some("ann@acme", false, Purpose::Mcp)),
            ("bearer  dev:ann@acme:admin", some("ann@acme", true, Purpose::Mcp)),
            ("Bearer dev:ann@acme:approver", some("ann@acme", false, Purpose::Approve)),
            ("Bearer dev:ann@acme:approver,admin", some("ann@acme", true, Purpose::Approve)),
            ("Bearer dev:ann@acme:owner", None),
            ("Bearer dev:ann@acme:admin:approver", None),
            ("Bearer dev:ann", None),
            ("Bearer dev:@acme", None),
            ("Bearer dev:a b@acme", None),
            ("Bearer dev:ann@ac@me", None),
            ("Bearer ann@acme", None),
            ("Basic dev:ann@acme", None),
            ("", None),
        ] {
            assert_eq!(purpose_of(header), expected, "{header}");
        }
    }

    #[test]
    fn without_a_bearer_the_setting_decides() {
        assert!(matches!(
            (DevMode { require_token: false }).authenticate(None),
            Outcome::Authenticated(Principal { admin: true, purpose: Purpose::Mcp, .. })
        ));
        assert_eq!((DevMode { require_token: true }).authenticate(None), Outcome::Unauthorized { problem: None });
    }
}
