//! What a signed-in browser carries: cookies that are signed, expire, and name the provider that they came from.
//!
//! They are signed and not encrypted: nothing in them is a secret to the person whose browser it is.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::same_bytes;

/// The cookie of a signed-in browser.
pub const SESSION_COOKIE: &str = "__Host-countersign";
/// The cookie of a sign-in that is under way.
pub const SIGN_IN_COOKIE: &str = "__Host-countersign-sign-in";
/// How long a sign-in may take, in milliseconds: ten minutes.
pub const SIGN_IN_MS: u64 = 600_000;
/// Bytes of a cookie's value: browsers keep 4 096 with name and attributes.
const COOKIE_BYTES: usize = 3_800;
/// SHA-256 hashes 64 bytes at a time.
const BLOCK: usize = 64;

/// A key for one kind of cookie, made from `COUNTERSIGN_SECRET_KEY`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey([u8; 32]);

impl SigningKey {
    /// The key for a purpose (HKDF-Extract, RFC 5869, with the purpose as salt): what signs one thing signs no other.
    #[must_use]
    pub fn derive(secret: &str, purpose: &str) -> Self {
        Self(hmac_sha256(purpose.as_bytes(), secret.as_bytes()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[key]")
    }
}

/// RFC 2104.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    let hashed: [u8; 32];
    let key = if key.len() > BLOCK {
        hashed = Sha256::digest(key).into();
        hashed.as_slice()
    } else {
        key
    };
    block.iter_mut().zip(key).for_each(|(byte, key)| *byte = *key);
    let pass = |pad: u8, message: &[u8]| -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(block.map(|byte| byte ^ pad));
        hash.update(message);
        hash.finalize().into()
    };
    pass(0x5c, &pass(0x36, message))
}

/// The keys that cookies are signed with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieKeys(Vec<SigningKey>);

impl CookieKeys {
    /// Made from the present secret, and the one before it, which still verifies.
    pub fn derive<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self(secrets.into_iter().map(|secret| SigningKey::derive(secret, "countersign/browser-cookie/v1")).collect())
    }

    /// Signs what a cookie says; `None` where there is no key, or it would be too long for a cookie.
    #[must_use]
    pub fn seal(&self, cookie: &str, value: &impl Serialize) -> Option<String> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).ok()?);
        let signature = URL_SAFE_NO_PAD.encode(sign(self.0.first()?, cookie, &payload));
        Some(format!("{payload}.{signature}")).filter(|text| text.len() <= COOKIE_BYTES)
    }

    /// Reads what [`Self::seal`] gave for the same cookie. When it ends is for the reader to look at.
    #[must_use]
    pub fn open<T: DeserializeOwned>(&self, cookie: &str, text: &str) -> Option<T> {
        if text.len() > COOKIE_BYTES {
            return None;
        }
        let (payload, signature) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.0.iter().find(|key| same_bytes(&sign(key, cookie, payload), &signature))?;
        crate::json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }
}

fn sign(key: &SigningKey, cookie: &str, payload: &str) -> [u8; 32] {
    hmac_sha256(&key.0, format!("{cookie}\0{payload}").as_bytes())
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

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        for (key, message, expected) in [
            (vec![0x0b; 20], b"Hi There".to_vec(), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hmac_sha256(&key, &message).as_slice(), unhex(expected));
        }
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
        let keys = CookieKeys::derive(["the secret"]);
        let text = keys.seal("a", &session()).unwrap();
        assert_eq!(keys.open("a", &text), Some(session()));
        assert_eq!(CookieKeys::derive(["new", "the secret"]).open("a", &text), Some(session()));
        assert_eq!(keys.open::<BrowserSession>("b", &text), None);
        assert_eq!(CookieKeys::derive(["another"]).open::<BrowserSession>("a", &text), None);
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
            assert_eq!(keys.open::<BrowserSession>("a", &forged), None, "{forged}");
        }
        let long = BrowserSession { account: "x".repeat(4_000), ..session() };
        assert_eq!(keys.seal("a", &long), None);
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
