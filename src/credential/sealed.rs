//! The text that a secret is stored as, and what it is bound to. The encryption itself is the platform's.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::json::sha256_hex;

/// The only format so far: AES-256-GCM, a nonce of 96 bits, a key from HKDF with SHA-256.
const FORMAT: &str = "v1";
/// What the key is used for, so that another use of the same secret gives another key.
pub const KEY_PURPOSE: &str = "countersign/credential/v1";
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;
/// Characters of the secret that keys are made from: what `openssl rand -base64 24` gives.
const LEAST_KEY_LENGTH: usize = 32;
/// Different characters in it. A random one has about twenty; `aaaa…` or `1234512345…` is no secret.
const LEAST_KEY_VARIETY: usize = 12;

/// Why a text could not be encrypted or decrypted. Says nothing about the text or the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// The variable is not set.
    #[error(
        "Secrets cannot be stored: COUNTERSIGN_SECRET_KEY is not set. An operator sets it with `wrangler secret put COUNTERSIGN_SECRET_KEY`."
    )]
    NoKey,
    /// The variable is too short or too regular.
    #[error(
        "{name} is too weak: use at least {LEAST_KEY_LENGTH} random characters, such as `openssl rand -base64 32` gives."
    )]
    WeakKey {
        /// The variable.
        name: &'static str,
    },
    /// It was encrypted under a key that is not there any more.
    #[error(
        "The stored secret was encrypted under another key. Set COUNTERSIGN_SECRET_KEY_OLD to the former key, or write the credential again."
    )]
    UnknownKey,
    /// The stored text is damaged, or belongs to another place.
    #[error("The stored secret cannot be read. Write the credential again.")]
    Unreadable,
    /// The platform refused.
    #[error("The platform could not encrypt: {reason}")]
    Platform {
        /// What it said.
        reason: String,
    },
}

/// What an encrypted secret belongs to. Moved to another place, it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretPlace<'p> {
    /// The organization.
    pub organization: &'p str,
    /// The credential.
    pub credential: &'p str,
    /// The credential's version, which every writing raises: an old secret cannot be put back.
    pub version: u64,
}

impl SecretPlace<'_> {
    /// The data that is authenticated together with the secret.
    #[must_use]
    pub fn associated_data(&self, key_id: &str) -> String {
        json!([FORMAT, key_id, self.organization, self.credential, self.version]).to_string()
    }
}

/// An encrypted secret, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Which key it is under.
    pub key_id: String,
    /// Drawn for this one text.
    pub nonce: [u8; NONCE_BYTES],
    /// With the tag at its end.
    pub ciphertext: Vec<u8>,
}

impl Sealed {
    /// The text that is stored.
    #[must_use]
    pub fn text(&self) -> String {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        format!("{FORMAT}.{}.{}.{}", self.key_id, encoded(&self.nonce), encoded(&self.ciphertext))
    }

    /// Reads a stored text.
    pub fn parse(text: &str) -> Result<Self, SecretsError> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(SecretsError::Unreadable);
        let (format, key_id, nonce, ciphertext) = (next()?, next()?, next()?, next()?);
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| SecretsError::Unreadable);
        if format != FORMAT || parts.next().is_some() {
            return Err(SecretsError::Unreadable);
        }
        let nonce = decoded(nonce)?.try_into().map_err(|_| SecretsError::Unreadable)?;
        Ok(Self { key_id: key_id.to_owned(), nonce, ciphertext: decoded(ciphertext)? })
    }
}

/// The name of a key: stored beside what it encrypts, so it must not help to guess the key.
#[must_use]
pub fn key_id(secret: &str) -> String {
    sha256_hex(format!("{KEY_PURPOSE}/id\0{secret}").as_bytes()).chars().take(8).collect()
}

/// Whether a secret is strong enough to make keys from.
pub fn check_key(name: &'static str, secret: &str) -> Result<(), SecretsError> {
    let mut different: Vec<char> = secret.chars().collect();
    let length = different.len();
    different.sort_unstable();
    different.dedup();
    if length < LEAST_KEY_LENGTH || different.len() < LEAST_KEY_VARIETY {
        return Err(SecretsError::WeakKey { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_format_unchanged() {
        let sealed = Sealed { key_id: "0011aabb".to_owned(), nonce: [7; 12], ciphertext: vec![1, 2, 3, 255] };
        assert_eq!(sealed.text(), "v1.0011aabb.BwcHBwcHBwcHBwcH.AQID_w");
        assert_eq!(Sealed::parse(&sealed.text()), Ok(sealed));
        let place = SecretPlace { organization: "a\"c", credential: "x", version: 3 };
        assert_eq!(place.associated_data("k"), r#"["v1","k","a\"c","x",3]"#);
        assert_eq!(key_id("abcdefghijklmnopqrstuvwxyz0123456789"), "c8d31dc9");
    }

    #[test]
    fn what_is_not_a_sealed_text_is_unreadable() {
        for text in [
            "",
            "v1",
            "v1.a.b",
            "v2.a.BwcHBwcHBwcHBwcH.AQID",
            "v1.a.BwcH.AQID",
            "v1.a.BwcHBwcHBwcHBwcH.%%",
            "v1.a.BwcHBwcHBwcHBwcH.AQID.x",
        ] {
            assert_eq!(Sealed::parse(text), Err(SecretsError::Unreadable), "{text}");
        }
    }

    #[test]
    fn weak_keys_are_refused_by_name() {
        for weak in [
            "",
            "short",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "1234512345123451234512345123451234512345",
            "abcdefghijklmnopqrstuvwxyz01234",
        ] {
            assert_eq!(
                check_key("COUNTERSIGN_SECRET_KEY_OLD", weak),
                Err(SecretsError::WeakKey { name: "COUNTERSIGN_SECRET_KEY_OLD" })
            );
        }
        assert_eq!(check_key("COUNTERSIGN_SECRET_KEY", "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D"), Ok(()));
        let error = SecretsError::WeakKey { name: "COUNTERSIGN_SECRET_KEY" }.to_string();
        assert!(error.starts_with("COUNTERSIGN_SECRET_KEY is too weak"), "{error}");
    }
}
