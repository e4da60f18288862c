//! Tokens of OAuth clients: fetched when needed, kept in memory until shortly before their end.
//!
//! Each isolate keeps its own, and calls that need one at the same time each fetch it: on this platform a request must not
//! wait for what another request does.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::platform::fetch;
use super::{Limits, redactor_of};
use crate::credential::{
    Auth, ClientAuthentication, ClientCredentials, Secret, SourceCredential, TOKEN_ANSWER_LIMIT, TokenError,
    read_token, refuses_authentication, token_request,
};
use crate::json::sha256_hex;
use crate::outbound::{SendError, refuse_address};
use crate::shell::clock::now;

/// Tokens that an isolate keeps.
const KEPT: usize = 500;

/// Organization, credential and version.
type Key = (String, String, u64);

struct KeptToken {
    token: Secret,
    until: u64,
}

thread_local! {
    static TOKENS: RefCell<BTreeMap<Key, KeptToken>> = const { RefCell::new(BTreeMap::new()) };
}

/// What is put into a request.
pub(super) struct UsableAuth {
    pub(super) auth: Auth,
    /// It is a token of an earlier call, so the server may have taken it back.
    pub(super) kept: bool,
}

/// The credential as it is sent: itself, or the token that it stands for.
pub(super) async fn usable_auth(credential: &SourceCredential, limits: Limits) -> Result<UsableAuth, SendError> {
    let Auth::Oauth2ClientCredentials(client) = &credential.auth else {
        return Ok(UsableAuth { auth: credential.auth.clone(), kept: false });
    };
    let known = TOKENS.with_borrow(|tokens| {
        tokens.get(&key(credential)).filter(|kept| kept.until > now()).map(|kept| kept.token.clone())
    });
    if let Some(token) = known {
        return Ok(UsableAuth { auth: Auth::Bearer { token }, kept: true });
    }
    let token = fetch_token(credential, client, limits).await?;
    Ok(UsableAuth { auth: Auth::Bearer { token }, kept: false })
}

/// The token was refused.
pub(super) fn forget(credential: &SourceCredential) {
    TOKENS.with_borrow_mut(|tokens| tokens.remove(&key(credential)));
}

fn key(credential: &SourceCredential) -> Key {
    // With the client itself: a version whose import failed is given again to the one that is written next.
    let client = sha256_hex(credential.auth.sealed_form().as_bytes());
    (credential.organization.clone(), format!("{}:{client}", credential.id), credential.version)
}

async fn fetch_token(
    credential: &SourceCredential,
    client: &ClientCredentials,
    limits: Limits,
) -> Result<Secret, SendError> {
    let unavailable = |reason: String, retryable| SendError::CredentialUnavailable { reason, retryable };
    if let Some(refusal) = refuse_address(&client.token_url, limits.allow_local) {
        return Err(unavailable(format!("the token URL is not called: {refusal}"), false));
    }
    // The administrator wrote this URL together with the secret, which confirms it for the secret; nothing else goes there.
    let (first, second) = match client.authentication {
        Some(stated) => (stated, None),
        None => (ClientAuthentication::Basic, Some(ClientAuthentication::Body)),
    };
    let mut answer = ask(credential, client, first).await?;
    if let Some(second) = second
        && refuses_authentication(answer.0)
    {
        answer = ask(credential, client, second).await?;
    }
    let (status, body) = answer;
    let token = read_token(status, &body).map_err(|error| {
        let retryable = matches!(error, TokenError::Refused { status: 408 | 429 | 500.., .. });
        unavailable(redactor_of(Some(credential), None).text(&error.to_string()).into_owned(), retryable)
    })?;
    TOKENS.with_borrow_mut(|tokens| {
        let now = now();
        tokens.retain(|_, kept| kept.until > now);
        if tokens.len() >= KEPT {
            tokens.pop_first();
        }
        tokens.insert(key(credential), KeptToken { token: token.token.clone(), until: now + token.usable_ms });
    });
    Ok(token.token)
}

/// Asks once. A redirect is not followed: the client's secret goes to the URL that was written, and nowhere else.
async fn ask(
    credential: &SourceCredential,
    client: &ClientCredentials,
    authentication: ClientAuthentication,
) -> Result<(u16, Vec<u8>), SendError> {
    let redactor = redactor_of(Some(credential), None);
    let unavailable = |error: &SendError| SendError::CredentialUnavailable {
        reason: format!("the token could not be fetched. {}", error.to_string().trim_end_matches('.')),
        retryable: true,
    };
    let request = token_request(client, authentication);
    let arrived = fetch(&request, &[]).await.map_err(|failure| unavailable(&failure.error(&redactor)))?;
    // Redacting here would take a token away that happens to hold the client's secret; what is shown of it is redacted.
    let answer = super::open_answer(arrived, crate::credential::Redactor::default());
    let answer = answer.whole(TOKEN_ANSWER_LIMIT).await.map_err(|error| unavailable(&error))?;
    Ok((answer.status, answer.body))
}
