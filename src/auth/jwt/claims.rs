//! Whether a verified token counts here and now (RFC 7519, section 4.1).

use serde_json::{Map, Value};

use super::JwtError;

/// How far clocks may differ, in seconds.
pub const LEEWAY_S: u64 = 30;

/// What a token has to say.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'e> {
    /// `iss`, exactly.
    pub issuer: &'e str,
    /// `aud` has to have one of them.
    pub audiences: &'e [String],
}

/// Checks issuer, audience and times; gives the end of the token's validity, in milliseconds since the Unix epoch.
pub fn check_claims(claims: &Map<String, Value>, expected: Expected<'_>, now_ms: u64) -> Result<u64, JwtError> {
    if claims.get("iss").and_then(Value::as_str) != Some(expected.issuer) {
        return Err(JwtError::Issuer);
    }
    let is_ours = |value: &Value| value.as_str().is_some_and(|name| expected.audiences.iter().any(|one| one == name));
    let has_audience = match claims.get("aud") {
        Some(Value::Array(list)) => list.iter().any(is_ours),
        Some(value) => is_ours(value),
        None => false,
    };
    if !has_audience {
        return Err(JwtError::Audience);
    }
    let leeway = LEEWAY_S * 1_000;
    let expires = time(claims, "exp")?.ok_or(JwtError::NoExpiry)?;
    if now_ms >= expires.saturating_add(leeway) {
        return Err(JwtError::Expired);
    }
    // A token from the future has a wrong clock or a wrong maker.
    for name in ["nbf", "iat"] {
        if time(claims, name)?.is_some_and(|time| time > now_ms.saturating_add(leeway)) {
            return Err(JwtError::NotYet);
        }
    }
    Ok(expires.saturating_add(leeway))
}

/// A `NumericDate` in milliseconds. It may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, JwtError> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0).ok_or(JwtError::Malformed)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is not negative, and saturates")]
    Ok(Some((seconds * 1_000.0) as u64))
}
