//! Reads JSON Web Tokens (RFC 7515, 7519) and says whether their claims hold here.
//!
//! A token is hostile until its signature is verified, which the shell does with the platform's `WebCrypto`: nothing of it
//! decides anything before that but which key it asks for.

mod algorithm;
mod claims;
mod jwk;
#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

pub use algorithm::Algorithm;
pub use claims::{Expected, LEEWAY_S, check_claims};
pub use jwk::{CANDIDATES, Jwk, JwkSet, KEY_SET_BYTES};

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 16 << 10;
/// Bytes of a token's header, decoded.
const HEADER_BYTES: usize = 2 << 10;
/// Bytes of a key id.
const KID_BYTES: usize = 256;
/// Kinds of tokens that are access tokens or ID tokens. Others of the same issuer (RFC 8725, section 3.11), such as logout
/// tokens and security events, are none.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// Why a token is not taken. Its text goes into `error_description`: no quotation marks, nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtError {
    /// It is longer than [`TOKEN_BYTES`].
    TooLong,
    /// It is not three parts of base64url, or they hold no JSON objects.
    Malformed,
    /// `alg` is `none`, symmetric, or unknown (RFC 8725, section 3.1).
    Algorithm,
    /// It has `crit`, which this gateway knows no member of (RFC 7515, section 4.1.11).
    Critical,
    /// `typ` says that it is something else than an access token.
    Type,
    /// The issuer has no key that fits.
    UnknownKey,
    /// The signature is not the key's.
    Signature,
    /// `iss` is another one.
    Issuer,
    /// `aud` does not have this gateway.
    Audience,
    /// `exp` is missing.
    NoExpiry,
    /// `exp` is over.
    Expired,
    /// `nbf` or `iat` is in the future.
    NotYet,
    /// `nonce` is not the one of this sign-in.
    Nonce,
}

impl JwtError {
    /// What is wrong, for `error_description`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::TooLong => "The token is too long",
            Self::Malformed => "The token is not a well-formed JWT",
            Self::Algorithm => "The token is signed with an algorithm that is not accepted",
            Self::Critical => "The token has critical header parameters that are not understood",
            Self::Type => "The token is of another type",
            Self::UnknownKey => "The token is signed with a key that the issuer does not publish",
            Self::Signature => "The signature of the token is not valid",
            Self::Issuer => "The token comes from another issuer",
            Self::Audience => "The token is meant for another audience",
            Self::NoExpiry => "The token does not say when it expires",
            Self::Expired => "The token has expired",
            Self::NotYet => "The token is not valid yet",
            Self::Nonce => "The token belongs to another sign-in",
        }
    }
}

impl fmt::Display for JwtError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl std::error::Error for JwtError {}

/// A token that was taken apart, and is not verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Jwt<'t> {
    /// How it says that it is signed.
    pub algorithm: Algorithm,
    /// The key that it asks for.
    pub kid: Option<String>,
    /// What is signed.
    pub signed: &'t str,
    /// The signature.
    pub signature: Vec<u8>,
    /// What it says. Not to be believed before the signature is verified.
    pub claims: Map<String, Value>,
}

/// Whether a bearer looks like a JWT: three parts, two dots.
#[must_use]
pub fn looks_like_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Takes a token apart.
pub fn parse_jwt(token: &str) -> Result<Jwt<'_>, JwtError> {
    if token.len() > TOKEN_BYTES {
        return Err(JwtError::TooLong);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(JwtError::Malformed)?;
    if payload.contains('.') || header.len() > HEADER_BYTES * 4 / 3 {
        return Err(JwtError::Malformed);
    }
    let header = object(header)?;
    let text = |name: &str| match header.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(JwtError::Malformed),
    };
    if header.contains_key("crit") {
        return Err(JwtError::Critical);
    }
    if text("typ")?.is_some_and(|kind| !TYPES.contains(&kind.to_ascii_lowercase().as_str())) {
        return Err(JwtError::Type);
    }
    let algorithm = text("alg")?.and_then(Algorithm::parse).ok_or(JwtError::Algorithm)?;
    let kid = text("kid")?.map(ToOwned::to_owned);
    if kid.as_ref().is_some_and(|kid| kid.len() > KID_BYTES) {
        return Err(JwtError::Malformed);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Malformed)?;
    if signature.is_empty() {
        return Err(JwtError::Signature);
    }
    Ok(Jwt { algorithm, kid, signed, signature, claims: object(payload)? })
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed)?;
    match crate::json::value_from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) | Err(_) => Err(JwtError::Malformed),
    }
}
