//! Ids on the wire.
//!
//! A session id is a Durable Object id: 64 hexadecimal digits, drawn by the platform. What the wire
//! calls `executionId` is the id of one pause; it carries the id of the object that holds it, so
//! that any session of the same identity can resume it. No id gives access.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::json::hex;

const PREFIX: &str = "exec_";
const OBJECT_BYTES: usize = 32;
/// Random bytes of a pause id: 96 bits.
pub const NONCE_BYTES: usize = 12;

/// An `executionId`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionId {
    /// Id of the session object, 64 hexadecimal digits.
    pub session: String,
    /// Id of the pause in that object.
    pub pause: String,
}

impl ExecutionId {
    /// The text on the wire; `None` when the parts are not of their form.
    #[must_use]
    pub fn encode(session: &str, pause: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(OBJECT_BYTES + NONCE_BYTES);
        let mut digits = session.as_bytes().chunks_exact(2);
        for pair in &mut digits {
            bytes.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
        let nonce = URL_SAFE_NO_PAD.decode(pause).ok()?;
        if bytes.len() != OBJECT_BYTES || !digits.remainder().is_empty() || nonce.len() != NONCE_BYTES {
            return None;
        }
        bytes.extend(nonce);
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Takes an id apart; `None` for anything that [`Self::encode`] does not make.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let encoded = text.strip_prefix(PREFIX)?;
        if encoded.len() > 80 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (object, nonce) = bytes.split_at_checked(OBJECT_BYTES)?;
        if nonce.len() != NONCE_BYTES {
            return None;
        }
        Some(Self { session: hex(object), pause: pause_id(nonce) })
    }
}

/// The id of a pause, from [`NONCE_BYTES`] random bytes.
#[must_use]
pub fn pause_id(nonce: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(nonce)
}

/// Whether a text has the form of a session id. Whether it is one of this gateway, the platform
/// says.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    text.len() == 2 * OBJECT_BYTES && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_id_comes_apart_as_it_was_put_together() {
        let session = "0123456789abcdef".repeat(4);
        let pause = pause_id(&[7; NONCE_BYTES]);
        let text = ExecutionId::encode(&session, &pause).unwrap();
        assert_eq!(text.len(), 64);
        assert_eq!(ExecutionId::parse(&text), Some(ExecutionId { session, pause }));
    }

    #[test]
    fn what_is_no_execution_id_is_none() {
        for text in ["", "exec_", "exec_AAAA", "exec_%%%", &format!("exec_{}", "A".repeat(500)), "x"] {
            assert_eq!(ExecutionId::parse(text), None, "{text}");
        }
        assert_eq!(ExecutionId::encode("zz", "AAAA"), None);
        assert_eq!(ExecutionId::encode(&"a".repeat(64), "AAAA"), None);
        assert_eq!(ExecutionId::encode(&"a".repeat(65), &pause_id(&[1; 12])), None);
    }

    #[test]
    fn session_ids_are_lower_case_hexadecimal() {
        assert!(is_session_id(&"0a".repeat(32)));
        assert!(!is_session_id(&"0A".repeat(32)));
        assert!(!is_session_id(&"0a".repeat(31)));
        assert!(!is_session_id("../../etc/passwd"));
    }
}
