//! A credential together with where it may go.

use super::auth::Auth;
use crate::catalog::openapi::request::origin_of;

/// A source's credential, opened for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceCredential {
    /// Whose it is.
    pub organization: String,
    /// Its id.
    pub id: String,
    /// Raised by every writing.
    pub version: u64,
    /// The credential itself.
    pub auth: Auth,
    /// Origins that an administrator confirmed, such as `https://api.example.com`.
    pub confirmed_origins: Vec<String>,
}

impl SourceCredential {
    /// Whether the credential may go to the origin of that URL; otherwise that origin.
    pub fn check_origin(&self, url: &str) -> Result<(), String> {
        match origin_of(url) {
            Some(origin) if self.confirmed_origins.contains(&origin) => Ok(()),
            Some(origin) => Err(origin),
            None => Err("an unknown origin".to_owned()),
        }
    }
}
