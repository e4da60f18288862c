//! API keys of the gateway: what one looks like, and what is kept of it.
//!
//! `cs_<purpose>_<id>_<organization>_<secret>`: the organization (base64url) says which object knows the key, the id which of its
//! keys it is, and only the secret (256 random bits) proves anything. A hash of the secret is kept, fast because the secret
//! cannot be guessed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Purpose, is_name};

/// What every key begins with.
pub const PREFIX: &str = "cs_";
/// Random bytes of an id.
pub const ID_BYTES: usize = 8;
/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Characters of an id, hexadecimal.
const ID_LENGTH: usize = ID_BYTES * 2;
/// Characters of a secret, base64url.
const SECRET_LENGTH: usize = 43;
/// How rarely the last use is written, in milliseconds: an hour.
pub const LAST_USE_EVERY_MS: u64 = 3_600_000;

/// A key as it is presented, taken apart. Not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedKey {
    /// What it says that it is for; what is stored counts.
    pub purpose: Purpose,
    /// Which key of its organization.
    pub id: String,
    /// The organization.
    pub organization: String,
    /// Hash of the secret.
    pub hash: String,
}

/// Takes a key apart; `None` where it is none.
#[must_use]
pub fn parse_key(text: &str) -> Option<PresentedKey> {
    let (purpose, rest) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let purpose = Purpose::parse(purpose).filter(|purpose| *purpose != Purpose::Browser)?;
    let (id, rest) = rest.split_once('_')?;
    if !is_key_id(id) || !rest.is_ascii() {
        return None;
    }
    let (organization, secret) = rest.split_at_checked(rest.len().checked_sub(SECRET_LENGTH)?)?;
    let organization = URL_SAFE_NO_PAD.decode(organization.strip_suffix('_')?).ok()?;
    let organization = String::from_utf8(organization).ok().filter(|name| is_name(name))?;
    let secret = URL_SAFE_NO_PAD.decode(secret).ok().filter(|bytes| bytes.len() == SECRET_BYTES)?;
    Some(PresentedKey { purpose, id: id.to_owned(), organization, hash: hash_secret(&secret) })
}

/// Whether a text can be the id of a key.
#[must_use]
pub fn is_key_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The text of a new key, which is shown once, and the hash that is kept.
#[must_use]
pub fn new_key(purpose: Purpose, id: &str, organization: &str, secret: &[u8; SECRET_BYTES]) -> (String, String) {
    let organization = URL_SAFE_NO_PAD.encode(organization);
    let text = format!("{PREFIX}{}_{id}_{organization}_{}", purpose.name(), URL_SAFE_NO_PAD.encode(secret));
    (text, hash_secret(secret))
}

fn hash_secret(secret: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"countersign/api-key/v1\0");
    hash.update(secret);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// The hash that `COUNTERSIGN_ADMIN_KEY` is compared by.
#[must_use]
pub fn hash_admin_key(text: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"countersign/admin-key/v1\0");
    hash.update(text);
    hash.finalize().into()
}

/// What is kept of a key, beside its id and the hash of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// For people.
    pub name: String,
    /// What it may be used for.
    pub purpose: Purpose,
    /// Whom it acts for.
    pub account: String,
    /// The account that made it.
    pub created_by: String,
    /// When, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// When it ends, in milliseconds since the Unix epoch; `None` is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";

    #[test]
    fn key_format_unchanged() {
        let (text, hash) = new_key(Purpose::Approve, ID, "acme?~", &[0xfb; SECRET_BYTES]);
        assert_eq!(text, format!("cs_approve_{ID}_YWNtZT9-_{}-_s", "-_v7".repeat(10)));
        let key = parse_key(&text).unwrap();
        assert_eq!((key.purpose, key.id.as_str(), key.organization.as_str()), (Purpose::Approve, ID, "acme?~"));
        assert_eq!(key.hash, hash);
        let record = KeyRecord {
            name: "CI".to_owned(),
            purpose: Purpose::Mcp,
            account: "ann".to_owned(),
            created_by: "boss".to_owned(),
            created_at: 1,
            expires_at: None,
        };
        let json = r#"{"name":"CI","purpose":"mcp","account":"ann","createdBy":"boss","createdAt":1}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), json);
        assert_eq!(serde_json::from_str::<KeyRecord>(json).unwrap(), record);
    }

    #[test]
    fn every_organization_can_be_routed_to() {
        for organization in ["a", "a_b", "Äpfel & Söhne", "org_01H", &"ü".repeat(super::super::NAME_LIMIT)] {
            let (text, _) = new_key(Purpose::Mcp, ID, organization, &[7; SECRET_BYTES]);
            assert_eq!(parse_key(&text).unwrap().organization, organization);
        }
    }

    #[test]
    fn what_is_no_key_is_not_looked_up() {
        let (good, _) = new_key(Purpose::Mcp, ID, "acme", &[1; SECRET_BYTES]);
        assert!(parse_key(&good).is_some());
        for text in [
            String::new(),
            "cs_".to_owned(),
            "cs_mcp".to_owned(),
            good.replace("cs_", "sk_"),
            good.replace("mcp", "browser"),
            good.replace("mcp", "owner"),
            good.replace(ID, "0123456789ABCDEF"),
            good.replace(ID, "0123"),
            good.replace("YWNtZQ", ""),
            good.replace("YWNtZQ", "YWNtZR"),
            good.replace("YWNtZQ", "IA"),
            format!("{good}A"),
            good.chars().take(good.len() - 1).collect(),
            format!("{}é", good.chars().take(good.len() - 2).collect::<String>()),
            format!("{good} "),
        ] {
            assert_eq!(parse_key(&text), None, "{text}");
        }
    }
}
