//! What a signed-in browser carries: cookies that are signed, expire, and name the provider that they came from.
//!
//! They are signed and not encrypted: nothing in them is a secret to the person whose browser it is.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::signed::{Signer, SigningKeys};

/// The cookie of a signed-in browser.
pub const SESSION_COOKIE: &str = "__Host-countersign";
/// The cookie of a sign-in that is under way.
pub const SIGN_IN_COOKIE: &str = "__Host-countersign-sign-in";
/// How long a sign-in may take, in milliseconds: ten minutes.
pub const SIGN_IN_MS: u64 = 600_000;
/// Bytes of a cookie's value: browsers keep 4 096 with name and attributes.
const COOKIE_BYTES: usize = 3_800;

/// The keys that cookies are signed with; none where there is no `COUNTERSIGN_SECRET_KEY`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieKeys(Option<SigningKeys>);

impl CookieKeys {
    /// Made from the gateway's secrets.
    #[must_use]
    pub fn new(keys: SigningKeys) -> Self {
        Self(Some(keys))
    }

    /// Signs what a cookie says; `None` where there is no key, or it would be too long for a cookie.
    #[must_use]
    pub fn seal(&self, cookie: &'static str, value: &impl Serialize) -> Option<String> {
        let text = Signer::new(self.0.as_ref()?, cookie).sign(value).ok()?;
        Some(text).filter(|text| text.len() <= COOKIE_BYTES)
    }

    /// Reads what [`Self::seal`] gave for the same cookie. When it ends is for the reader to look at.
    #[must_use]
    pub fn open<T: DeserializeOwned>(&self, cookie: &'static str, text: &str) -> Option<T> {
        if text.len() > COOKIE_BYTES {
            return None;
        }
        Signer::new(self.0.as_ref()?, cookie).read(text)
    }
}

/// A signed-in browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrowserSession {
    /// The provider that the person signed in with, and its issuer: a cookie of one that is not there any more is worth nothing.
    pub via: String,
    /// The account.
    pub account: String,
    /// The organization that the provider named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Whether the provider said that it is an administrator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// When it ends, in milliseconds since the Unix epoch.
    pub until: u64,
}

/// A sign-in that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// Comes back with the answer: it answers this browser's question.
    pub state: String,
    /// Comes back in the ID token.
    pub nonce: String,
    /// PKCE (RFC 7636).
    pub verifier: String,
    /// Where the person wanted to go: a path of the gateway.
    pub return_to: String,
    /// Until when it counts, in milliseconds since the Unix epoch.
    pub until: u64,
}

/// The value of a `Set-Cookie` header. `__Host-` asks for `Secure`, `Path=/` and no `Domain`, so that no other host of the domain
/// can set it; browsers take it on a loopback address without TLS too.
#[must_use]
pub fn set_cookie(name: &str, value: &str, max_age_s: u64) -> String {
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={max_age_s}")
}

/// The value of a cookie in a `Cookie` header.
#[must_use]
pub fn cookie<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let mut pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(current: &str, old: Option<&str>) -> CookieKeys {
        CookieKeys::new(SigningKeys { current: current.to_owned(), old: old.map(ToOwned::to_owned) })
    }

    fn session() -> BrowserSession {
        BrowserSession {
            via: "oidc".to_owned(),
            account: "ann".to_owned(),
            organization: Some("acme".to_owned()),
            admin: true,
            until: 5,
        }
    }

    #[test]
    fn browser_session_format_unchanged() {
        let json = r#"{"via":"oidc","account":"ann","organization":"acme","admin":true,"until":5}"#;
        assert_eq!(serde_json::to_string(&session()).unwrap(), json);
    }

    #[test]
    fn only_what_was_signed_for_a_cookie_is_read_from_it() {
        let cookies = keys("the secret", None);
        let text = cookies.seal("a", &session()).unwrap();
        assert_eq!(cookies.open("a", &text), Some(session()));
        assert_eq!(keys("new", Some("the secret")).open("a", &text), Some(session()));
        assert_eq!(cookies.open::<BrowserSession>("b", &text), None);
        assert_eq!(keys("another", None).open::<BrowserSession>("a", &text), None);
        assert_eq!(CookieKeys::default().open::<BrowserSession>("a", &text), None);
        assert_eq!(CookieKeys::default().seal("a", &session()), None);
        let (payload, signature) = text.split_once('.').unwrap();
        for forged in [
            String::new(),
            payload.to_owned(),
            format!("{payload}."),
            format!(".{signature}"),
            format!("{payload}.{}", signature.replacen(char::is_alphanumeric, "_", 1)),
            format!("{payload}A.{signature}"),
            format!("{text}.x"),
            "x".repeat(10_000),
        ] {
            assert_eq!(cookies.open::<BrowserSession>("a", &forged), None, "{forged}");
        }
        let long = BrowserSession { account: "x".repeat(4_000), ..session() };
        assert_eq!(cookies.seal("a", &long), None);
    }

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let header = "a=1; __Host-countersign=x.y; b=2; xa=3";
        assert_eq!(cookie(header, SESSION_COOKIE), Some("x.y"));
        assert_eq!(cookie(header, "a"), Some("1"));
        assert_eq!(cookie(header, "c"), None);
        assert_eq!(
            set_cookie(SESSION_COOKIE, "v", 60),
            "__Host-countersign=v; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60"
        );
    }
}
