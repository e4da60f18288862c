//! Key sets of issuers (RFC 7517), and which of their keys a token may be verified with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Algorithm, Jwt};

/// Bytes of a key set's document.
pub const KEY_SET_BYTES: usize = 256 << 10;
/// Keys of a set that are looked at.
const KEYS: usize = 100;
/// Keys that one token is tried with, where several have its key id or it has none.
pub const CANDIDATES: usize = 4;
/// Bytes of an RSA modulus: 2048 bits (RFC 7518, section 3.3), and what still verifies in no time.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;
/// Bytes of an RSA exponent: a huge one would make every verification slow.
const EXPONENT_BYTES: usize = 4;

/// A public key. Of the document only what verification needs is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwk {
    kid: Option<String>,
    algorithm: Option<Algorithm>,
    /// `kty`, `crv` and the public numbers, as `WebCrypto` imports them.
    members: Vec<(&'static str, String)>,
}

impl Jwk {
    fn parse(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        // A key for encryption, or for signing only, verifies nothing (RFC 7517, sections 4.2 and 4.3).
        if object.get("use").is_some_and(|usage| usage.as_str() != Some("sig")) || !may_verify(object) {
            return None;
        }
        let algorithm = match object.get("alg") {
            None => None,
            Some(name) => Some(Algorithm::parse(name.as_str()?)?),
        };
        let number = |name: &str| text(name).filter(|text| URL_SAFE_NO_PAD.decode(text).is_ok());
        let length = |text: &str| text.len() * 3 / 4;
        let mut members = Vec::new();
        match text("kty")? {
            "RSA" => {
                let (modulus, exponent) = (number("n")?, number("e")?);
                if !MODULUS_BYTES.contains(&length(modulus)) || length(exponent) > EXPONENT_BYTES {
                    return None;
                }
                members.extend([("kty", "RSA"), ("n", modulus), ("e", exponent)]);
            }
            "EC" => {
                let curve = ["P-256", "P-384", "P-521"].into_iter().find(|curve| text("crv") == Some(curve))?;
                members.extend([("kty", "EC"), ("crv", curve), ("x", number("x")?), ("y", number("y")?)]);
            }
            "OKP" if text("crv") == Some("Ed25519") => {
                members.extend([("kty", "OKP"), ("crv", "Ed25519"), ("x", number("x")?)]);
            }
            // A symmetric key in a public document is nobody's secret.
            _ => return None,
        }
        let members = members.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        Some(Self { kid: text("kid").map(ToOwned::to_owned), algorithm, members })
    }

    fn member(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The members that `WebCrypto` imports the key from.
    #[must_use]
    pub fn members(&self) -> &[(&'static str, String)] {
        &self.members
    }

    /// Whether a token of that algorithm may be verified with it. The key decides what the algorithm may be, never the
    /// other way round (RFC 8725, section 2.1).
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        let (kind, curve) = algorithm.key_type();
        self.member("kty") == Some(kind)
            && self.member("crv") == curve
            && self.algorithm.is_none_or(|stated| stated == algorithm)
    }
}

fn may_verify(object: &Map<String, Value>) -> bool {
    match object.get("key_ops") {
        None => true,
        Some(Value::Array(uses)) => uses.iter().any(|usage| usage.as_str() == Some("verify")),
        Some(_) => false,
    }
}

/// The keys of an issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JwkSet {
    keys: Vec<Jwk>,
}

impl JwkSet {
    /// Reads a document. Keys that cannot verify anything here are left out; `None` where it is no key set, or none is left.
    #[must_use]
    pub fn parse(document: &[u8]) -> Option<Self> {
        let document: Value = crate::json::value_from_slice(document).ok()?;
        let keys: Vec<Jwk> = document.get("keys")?.as_array()?.iter().take(KEYS).filter_map(Jwk::parse).collect();
        (!keys.is_empty()).then_some(Self { keys })
    }

    /// Numbers and keys that may verify a token: those with its key id, or all that fit where it has none.
    #[must_use]
    pub fn candidates(&self, token: &Jwt<'_>) -> Vec<(usize, &Jwk)> {
        let asked = |key: &Jwk| token.kid.is_none() || key.kid == token.kid;
        let fitting = self.keys.iter().enumerate().filter(|(_, key)| asked(key) && key.fits(token.algorithm));
        fitting.take(CANDIDATES).collect()
    }
}
