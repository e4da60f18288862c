//! The token endpoint's requests and answers (RFC 6749, sections 4.1.3, 5.1 and 6; RFC 7009), and what the texts that it gives
//! out hold.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Client, ClientAuthentication, OAuthError, SCOPE};
use crate::auth::signed::Signer;

/// Characters of a PKCE verifier (RFC 7636, section 4.1).
const VERIFIER_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;

/// What an access token says. It is good by itself, which is why it is short-lived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessClaims {
    /// The account.
    #[serde(rename = "sub")]
    pub account: String,
    /// The organization.
    #[serde(rename = "org")]
    pub organization: String,
    /// Whether the person administers.
    #[serde(rename = "adm", default)]
    pub admin: bool,
    /// The endpoint that it is good for, as a URL.
    #[serde(rename = "aud")]
    pub resource: String,
    /// The grant that it came from.
    #[serde(rename = "gid")]
    pub grant: String,
    /// From when on it is worth nothing, in milliseconds since 1970.
    #[serde(rename = "exp")]
    pub expires_at: u64,
}

/// What an access token comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// It is not one of this gateway's.
    Foreign,
    /// Its time is over.
    Expired,
    /// It is good for the resource that it names.
    Good(Box<AccessClaims>),
}

/// Reads a bearer token.
#[must_use]
pub fn read_access(signer: &Signer, token: &str, now: u64) -> Access {
    match signer.read::<AccessClaims>(token) {
        None => Access::Foreign,
        Some(claims) if now >= claims.expires_at => Access::Expired,
        Some(claims) => Access::Good(Box::new(claims)),
    }
}

/// What a code or a refresh token is: a way to its grant, and something nobody can guess.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// The organization.
    #[serde(rename = "o")]
    pub organization: String,
    /// The grant.
    #[serde(rename = "g")]
    pub grant: String,
    /// Random.
    #[serde(rename = "n")]
    pub nonce: String,
}

/// What a client asks the token endpoint for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRequest {
    /// Tokens for a code.
    Code {
        /// The code.
        code: String,
        /// The PKCE verifier.
        verifier: String,
        /// The redirect URI, where it is repeated.
        redirect_uri: Option<String>,
        /// The resource, where it is repeated.
        resource: Option<String>,
    },
    /// Tokens for a refresh token.
    Refresh {
        /// The refresh token.
        token: String,
        /// The resource, where it is repeated.
        resource: Option<String>,
    },
}

type Form = [(String, String)];

fn one<'a>(form: &'a Form, name: &str) -> Result<Option<&'a str>, OAuthError> {
    let mut values = form.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let first = values.next();
    if values.next().is_some() {
        return Err(OAuthError::new("invalid_request", format!("{name} is there more than once.")));
    }
    Ok(first.filter(|value| !value.is_empty()))
}

fn required<'a>(form: &'a Form, name: &str) -> Result<&'a str, OAuthError> {
    one(form, name)?.ok_or_else(|| OAuthError::new("invalid_request", format!("{name} is missing.")))
}

/// Reads what a client asks for.
pub fn read_token_request(form: &Form) -> Result<TokenRequest, OAuthError> {
    let resource = one(form, "resource")?.map(ToOwned::to_owned);
    match required(form, "grant_type")? {
        "authorization_code" => {
            let verifier = required(form, "code_verifier")?;
            if !VERIFIER_LENGTH.contains(&verifier.len()) {
                return Err(OAuthError::new("invalid_request", "code_verifier has 43 to 128 characters."));
            }
            Ok(TokenRequest::Code {
                code: required(form, "code")?.to_owned(),
                verifier: verifier.to_owned(),
                redirect_uri: one(form, "redirect_uri")?.map(ToOwned::to_owned),
                resource,
            })
        }
        "refresh_token" => Ok(TokenRequest::Refresh { token: required(form, "refresh_token")?.to_owned(), resource }),
        _ => Err(OAuthError::new("unsupported_grant_type", "grant_type is authorization_code or refresh_token.")),
    }
}

/// The token that a client wants to be revoked.
pub fn read_revocation(form: &Form) -> Result<String, OAuthError> {
    required(form, "token").map(ToOwned::to_owned)
}

/// The client's id and the secret it shows, from `Authorization: Basic` or the body (RFC 6749, section 2.3.1).
pub fn read_credentials(
    form: &Form,
    authorization: Option<&str>,
) -> Result<(String, Option<(ClientAuthentication, String)>), OAuthError> {
    let invalid = || OAuthError::new("invalid_client", "The Authorization header is not of the form that Basic has.");
    let in_body = one(form, "client_id")?;
    let secret = one(form, "client_secret")?;
    let Some(header) = authorization else {
        let id = in_body.ok_or_else(|| OAuthError::new("invalid_client", "client_id is missing."))?;
        return Ok((id.to_owned(), secret.map(|secret| (ClientAuthentication::ClientSecretPost, secret.to_owned()))));
    };
    if secret.is_some() {
        return Err(OAuthError::new("invalid_request", "The client shows two credentials; one is enough."));
    }
    let (scheme, encoded) = header.trim().split_once(' ').ok_or_else(invalid)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(invalid());
    }
    let decoded =
        STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid)?;
    let (id, secret) = decoded.split_once(':').ok_or_else(invalid)?;
    let unescaped = |text: &str| {
        let pairs = format!("v={text}");
        url::form_urlencoded::parse(pairs.as_bytes()).next().map(|(_, value)| value.into_owned()).ok_or_else(invalid)
    };
    let (id, secret) = (unescaped(id)?, unescaped(secret)?);
    if in_body.is_some_and(|named| named != id) {
        return Err(OAuthError::new(
            "invalid_request",
            "client_id and the Authorization header name different clients.",
        ));
    }
    Ok((id, Some((ClientAuthentication::ClientSecretBasic, secret))))
}

impl Client {
    /// Whether the client showed what it has to. `signer` is the one of its id.
    pub fn authenticate(
        &self,
        signer: &Signer,
        shown: Option<&(ClientAuthentication, String)>,
    ) -> Result<(), OAuthError> {
        let refused = |description: &str| Err(OAuthError::new("invalid_client", description));
        match (self.authentication, shown) {
            (ClientAuthentication::None, None) => Ok(()),
            // Libraries send an empty secret for a client that has none.
            (ClientAuthentication::None, Some((_, secret))) if secret.is_empty() => Ok(()),
            (ClientAuthentication::None, Some(_)) => refused("This client has no secret."),
            // Both ways are equally good; which one a client registered matters to nobody.
            (ClientAuthentication::ClientSecretPost | ClientAuthentication::ClientSecretBasic, Some((_, secret)))
                if signer.is_secret_of(&self.id, secret) =>
            {
                Ok(())
            }
            (ClientAuthentication::ClientSecretPost | ClientAuthentication::ClientSecretBasic, Some(_)) => {
                refused("The client's secret is wrong.")
            }
            (ClientAuthentication::ClientSecretPost | ClientAuthentication::ClientSecretBasic, None) => {
                refused("This client has to show its secret.")
            }
        }
    }
}

/// The answer with tokens (RFC 6749, section 5.1).
#[must_use]
pub fn token_answer(access: &str, refresh: &str, lifetime_ms: u64) -> Value {
    json!({
        "access_token": access,
        "token_type": "Bearer",
        "expires_in": lifetime_ms / 1_000,
        "refresh_token": refresh,
        "scope": SCOPE,
    })
}
