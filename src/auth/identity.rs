//! Who a verified token is about: its claims become an identity.

use serde_json::{Map, Value};

use super::is_name;

/// Somebody whose credential was verified. Whether there is access for it is for [`super::membership`] to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The account.
    pub account: String,
    /// Where it belongs.
    pub organization: Belongs,
    /// Whether the token says that it is an administrator.
    pub admin: bool,
}

/// What a credential says of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belongs {
    /// It names one.
    To(String),
    /// It should name one, and does not.
    Nowhere,
    /// It is of a kind that names none: `ORGANIZATION_NAME` says.
    AsSet,
}

/// Which claims say what, of tokens of an OIDC issuer. A name is looked for as it is, then as a path whose parts are separated
/// by dots (`realm_access.roles`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimNames {
    /// The account.
    pub account: String,
    /// The organization; `None` where it is not in the token.
    pub organization: Option<String>,
    /// The claim, and the value that it has, or has among others, for an administrator.
    pub admin: Option<(String, String)>,
}

/// Why claims name nobody. The texts go into `error_description`.
pub type Nobody = &'static str;

/// The identity in the claims of an OIDC issuer's token.
pub fn identity_of_claims(claims: &Map<String, Value>, names: &ClaimNames) -> Result<Identity, Nobody> {
    let account = find(claims, &names.account).and_then(name_of).ok_or("The token does not name an account")?;
    // Anybody can enter somebody else's address at some issuers; only a verified one is an identity.
    if names.account == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
        return Err("The token does not say that its e-mail address is verified");
    }
    let organization = match &names.organization {
        None => Belongs::AsSet,
        Some(name) => find(claims, name).and_then(name_of).map_or(Belongs::Nowhere, Belongs::To),
    };
    let admin =
        names.admin.as_ref().is_some_and(|(name, wanted)| find(claims, name).is_some_and(|has| holds(has, wanted)));
    Ok(Identity { account, organization, admin })
}

/// The identity in the claims of a token of Cloudflare Access: the person's e-mail address, or a service token's name.
/// (<https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/authorization-cookie/application-token/>)
pub fn identity_of_access(claims: &Map<String, Value>) -> Result<(Identity, IsService), Nobody> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (account, is_service) = match (text("email"), text("common_name")) {
        // Access has the address from its identity provider, which may write it in any case.
        (Some(email), _) => (email.to_lowercase(), false),
        (None, Some(name)) => (name.to_owned(), true),
        (None, None) => return Err("The Access token names neither a person nor a service token"),
    };
    if !is_name(&account) {
        return Err("The Access token names neither a person nor a service token");
    }
    Ok((Identity { account, organization: Belongs::AsSet, admin: false }, is_service))
}

/// Whether an identity is a program's.
pub type IsService = bool;

fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// A claim that is one name. Some issuers number their accounts.
fn name_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        // An organization is often a list; one with several members does not say which.
        Value::Array(list) => match list.as_slice() {
            [Value::String(text)] => text.clone(),
            _ => return None,
        },
        Value::Null | Value::Bool(_) | Value::Object(_) => return None,
    };
    is_name(&text).then_some(text)
}

/// Whether a claim has a value: as itself, in a list, or as a word (as in `scope`).
fn holds(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted || text.split(' ').any(|word| word == wanted),
        Value::Array(list) => list.iter().any(|item| item.as_str() == Some(wanted)),
        Value::Bool(flag) => flag.to_string() == wanted,
        Value::Number(number) => number.to_string() == wanted,
        Value::Null | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(account: &str, organization: Option<&str>, admin: Option<(&str, &str)>) -> ClaimNames {
        ClaimNames {
            account: account.to_owned(),
            organization: organization.map(ToOwned::to_owned),
            admin: admin.map(|(name, value)| (name.to_owned(), value.to_owned())),
        }
    }

    fn read(claims: &Value, names: &ClaimNames) -> Result<(String, Belongs, bool), Nobody> {
        identity_of_claims(claims.as_object().unwrap(), names).map(|one| (one.account, one.organization, one.admin))
    }

    #[test]
    fn claims_name_an_account_an_organization_and_a_role() {
        use Belongs::{AsSet, Nowhere};
        let to = |text: &str| Belongs::To(text.to_owned());
        for (claims, names, expected) in [
            (json!({ "sub": "a" }), names("sub", None, None), Ok(("a".to_owned(), AsSet, false))),
            (json!({ "sub": 7 }), names("sub", None, None), Ok(("7".to_owned(), AsSet, false))),
            (
                json!({ "sub": "a", "org": "acme" }),
                names("sub", Some("org"), None),
                Ok(("a".to_owned(), to("acme"), false)),
            ),
            (
                json!({ "sub": "a", "org": ["acme"] }),
                names("sub", Some("org"), None),
                Ok(("a".to_owned(), to("acme"), false)),
            ),
            (
                json!({ "sub": "a", "org": ["acme", "b"] }),
                names("sub", Some("org"), None),
                Ok(("a".to_owned(), Nowhere, false)),
            ),
            (json!({ "sub": "a" }), names("sub", Some("org"), None), Ok(("a".to_owned(), Nowhere, false))),
            (
                json!({ "sub": "a", "https://x.example/org": "acme" }),
                names("sub", Some("https://x.example/org"), None),
                Ok(("a".to_owned(), to("acme"), false)),
            ),
            (
                json!({ "sub": "a", "realm_access": { "roles": ["x", "boss"] } }),
                names("sub", None, Some(("realm_access.roles", "boss"))),
                Ok(("a".to_owned(), AsSet, true)),
            ),
            (
                json!({ "sub": "a", "scope": "openid gw:admin" }),
                names("sub", None, Some(("scope", "gw:admin"))),
                Ok(("a".to_owned(), AsSet, true)),
            ),
            (
                json!({ "sub": "a", "scope": "gw:administrator" }),
                names("sub", None, Some(("scope", "gw:admin"))),
                Ok(("a".to_owned(), AsSet, false)),
            ),
            (
                json!({ "sub": "a", "admin": true }),
                names("sub", None, Some(("admin", "true"))),
                Ok(("a".to_owned(), AsSet, true)),
            ),
            (
                json!({ "email": "a@b.c", "email_verified": true }),
                names("email", None, None),
                Ok(("a@b.c".to_owned(), AsSet, false)),
            ),
        ] {
            assert_eq!(read(&claims, &names), expected, "{claims}");
        }
        for (claims, names) in [
            (json!({}), names("sub", None, None)),
            (json!({ "sub": "" }), names("sub", None, None)),
            (json!({ "sub": " a" }), names("sub", None, None)),
            (json!({ "sub": {"a": 1} }), names("sub", None, None)),
            (json!({ "email": "a@b.c" }), names("email", None, None)),
            (json!({ "email": "a@b.c", "email_verified": "true" }), names("email", None, None)),
            (json!({ "email": "a@b.c", "email_verified": false }), names("email", None, None)),
        ] {
            assert!(read(&claims, &names).is_err(), "{claims}");
        }
    }

    #[test]
    fn an_access_token_is_a_persons_or_a_service_tokens() {
        let read = |claims: Value| {
            identity_of_access(claims.as_object().unwrap()).map(|(one, service)| (one.account, service))
        };
        assert_eq!(
            read(json!({ "email": "Ann@Acme.example", "sub": "x" })),
            Ok(("ann@acme.example".to_owned(), false))
        );
        assert_eq!(read(json!({ "common_name": "ci.access", "sub": "" })), Ok(("ci.access".to_owned(), true)));
        assert!(read(json!({ "sub": "x" })).is_err());
        assert!(read(json!({ "email": "", "common_name": "" })).is_err());
    }
}
