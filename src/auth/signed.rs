//! Texts that the gateway gives out and recognises again: a prefix, JSON, and a code that only the gateway can make. They are
//! not secret by their form; whether one is a secret is a matter of what it stands for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// Bytes that SHA-256 takes at a time.
const BLOCK: usize = 64;
/// Characters of the longest text that is looked at.
const TEXT_LIMIT: usize = 8 * 1024;

/// The secrets that keys are made from: the present one, and the one before it, which is good for recognising only.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKeys {
    /// `COUNTERSIGN_SECRET_KEY`
    pub current: String,
    /// `COUNTERSIGN_SECRET_KEY_OLD`
    pub old: Option<String>,
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningKeys")
    }
}

/// Signs and recognises texts of one kind. Each kind has a key of its own, so that a text of one is never taken for another.
#[derive(Clone)]
pub struct Signer {
    prefix: &'static str,
    current: Hmac<Sha256>,
    old: Option<Hmac<Sha256>>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Signer({})", self.prefix)
    }
}

impl Signer {
    /// For the kind of text that begins with `prefix`.
    #[must_use]
    pub fn new(keys: &SigningKeys, prefix: &'static str) -> Self {
        let of = |secret: &str| {
            // A key of its own for each kind, from a secret that has full entropy (RFC 5869 without salt, one block).
            let derived = tag(&keyed(secret.as_bytes()), format!("countersign/signed/{prefix}/v1").as_bytes());
            keyed(&derived)
        };
        Self { prefix, current: of(&keys.current), old: keys.old.as_deref().map(of) }
    }

    /// The text that stands for a value.
    pub fn sign<T: Serialize>(&self, value: &T) -> Result<String, serde_json::Error> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(value)?);
        let code = URL_SAFE_NO_PAD.encode(tag(&self.current, payload.as_bytes()));
        Ok(format!("{}{payload}.{code}", self.prefix))
    }

    /// The value, where this gateway made the text; `None` for anything else.
    #[must_use]
    pub fn read<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        if text.len() > TEXT_LIMIT {
            return None;
        }
        let (payload, code) = text.strip_prefix(self.prefix)?.split_once('.')?;
        let code = URL_SAFE_NO_PAD.decode(code).ok()?;
        // In constant time, by the crate.
        let made_by = |key: &Hmac<Sha256>| key.clone().chain_update(payload.as_bytes()).verify_slice(&code).is_ok();
        if !made_by(&self.current) && !self.old.as_ref().is_some_and(made_by) {
            return None;
        }
        crate::json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// A secret that belongs to a text, made anew whenever it is needed.
    #[must_use]
    pub fn secret_of(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(tag(&self.current, text.as_bytes()))
    }

    /// Whether that is the secret of the text, under either key.
    #[must_use]
    pub fn is_secret_of(&self, text: &str, secret: &str) -> bool {
        let Ok(code) = URL_SAFE_NO_PAD.decode(secret) else {
            return false;
        };
        let fits = |key: &Hmac<Sha256>| key.clone().chain_update(text.as_bytes()).verify_slice(&code).is_ok();
        fits(&self.current) || self.old.as_ref().is_some_and(fits)
    }
}

/// A key of any length (RFC 2104, section 2): hashed where it is longer than a block, as the algorithm does it itself.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        let hash = Sha256::digest(key);
        block.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    } else {
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    Hmac::<Sha256>::new(&block.into())
}

/// HMAC with SHA-256 (RFC 2104) under any key.
#[must_use]
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    tag(&keyed(key), data)
}

fn tag(key: &Hmac<Sha256>, data: &[u8]) -> [u8; 32] {
    key.clone().chain_update(data).finalize().into_bytes().into()
}
