//! What a person granted to a client, from its code to its last refresh token. A code is good once, a refresh token until the
//! next one was used; whatever is used again afterwards was stolen or copied, and ends the grant (OAuth 2.1 draft, section 4.3.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::AuthorizationRequest;

/// How long a code may be exchanged.
pub const CODE_LIFETIME_MS: u64 = 60_000;
/// How long a client that lost the answer to a refresh may ask again with the token that it has.
const LOST_ANSWER_MS: u64 = 30_000;

/// A grant, as it is stored. Codes and tokens are kept as hashes only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id, unique in its organization.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// Whether the person administered when it was granted.
    pub admin: bool,
    /// What the client has to repeat.
    pub request: AuthorizationRequest,
    /// The name of the client that the person read.
    pub client_name: String,
    /// When it was granted, in milliseconds since 1970.
    pub created_at: u64,
    /// From when on it is worth nothing.
    pub expires_at: u64,
    /// The hash of the code; it stays when the code was used.
    pub code: String,
    /// The hash of the newest refresh token; none before the code was used.
    pub refresh: Option<String>,
    /// The hash of the one before.
    pub previous: Option<String>,
    /// When the newest one was made.
    pub rotated_at: u64,
}

/// What comes of a request for tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// Tokens are given out; the grant is to be stored so.
    Given(Box<Grant>),
    /// Nothing is given; with `ends` the grant is to be removed.
    Refused {
        /// Why.
        reason: Refused,
        /// Whether the grant is over.
        ends: bool,
    },
}

/// Why no token is given. All are `invalid_grant` to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such grant, or another code or token than it has.
    #[error("The code or token is not valid, was used already, or was revoked. Ask the person again.")]
    Unknown,
    /// Its time is over.
    #[error("The code or token has expired. Ask the person again.")]
    Expired,
    /// It was given to another client.
    #[error("The code or token belongs to another client.")]
    OtherClient,
    /// The redirect URI is not that of the request.
    #[error("redirect_uri is not the one of the authorization request.")]
    OtherRedirect,
    /// The verifier does not fit the challenge.
    #[error("code_verifier does not fit the code_challenge.")]
    WrongVerifier,
    /// Another resource than was granted.
    #[error("resource is not the one that was granted.")]
    OtherResource,
}

/// The hash under which a code or token is stored: they are random, so a fast one is enough.
fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

impl Grant {
    /// What is stored when a person agrees: `code` may be exchanged for [`CODE_LIFETIME_MS`].
    #[must_use]
    pub fn new(
        id: String,
        (account, admin): (String, bool),
        request: AuthorizationRequest,
        client_name: String,
        code: &str,
        now: u64,
    ) -> Self {
        Self {
            id,
            account,
            admin,
            request,
            client_name,
            created_at: now,
            expires_at: now.saturating_add(CODE_LIFETIME_MS),
            code: hash(code),
            refresh: None,
            previous: None,
            rotated_at: now,
        }
    }

    /// A code is exchanged (RFC 6749, section 4.1.3; RFC 7636, section 4.6). `next` becomes the first refresh token.
    #[must_use]
    pub fn exchange_code(&self, asked: &CodeAsked<'_>, next: &str, now: u64, lifetime_ms: u64) -> Exchange {
        let refused = |reason, ends| Exchange::Refused { reason, ends };
        if hash(asked.code) != self.code {
            return refused(Refused::Unknown, false);
        }
        // A second use: somebody has the code who should not (section 4.1.2).
        if self.refresh.is_some() {
            return refused(Refused::Unknown, true);
        }
        if now >= self.expires_at {
            return refused(Refused::Expired, true);
        }
        if asked.client_id != self.request.client_id {
            return refused(Refused::OtherClient, true);
        }
        let fits = match asked.redirect_uri {
            Some(uri) => uri == self.request.redirect_uri,
            // OAuth 2.1 does not ask for it any more; RFC 6749 does where the request had one, and PKCE binds both.
            None => true,
        };
        if !fits {
            return refused(Refused::OtherRedirect, true);
        }
        if hash(asked.verifier) != self.request.code_challenge {
            return refused(Refused::WrongVerifier, true);
        }
        if asked.resource.is_some_and(|resource| resource != self.request.resource) {
            return refused(Refused::OtherResource, false);
        }
        self.with_refresh(next, None, now, lifetime_ms)
    }

    /// A refresh token is exchanged for the next one.
    #[must_use]
    pub fn refresh(&self, asked: &RefreshAsked<'_>, next: &str, now: u64, lifetime_ms: u64) -> Exchange {
        let refused = |reason, ends| Exchange::Refused { reason, ends };
        if now >= self.expires_at {
            return refused(Refused::Expired, true);
        }
        if asked.client_id != self.request.client_id {
            return refused(Refused::OtherClient, false);
        }
        if asked.resource.is_some_and(|resource| resource != self.request.resource) {
            return refused(Refused::OtherResource, false);
        }
        let shown = hash(asked.token);
        if self.refresh.as_deref() == Some(shown.as_str()) {
            return self.with_refresh(next, self.refresh.clone(), now, lifetime_ms);
        }
        if self.previous.as_deref() == Some(shown.as_str()) && now < self.rotated_at.saturating_add(LOST_ANSWER_MS) {
            // The client lost the answer and asks again: what it did not get is worth nothing from now on, so that of two
            // who hold the token one is found out at the next use. The time does not begin anew.
            let Exchange::Given(grant) = self.with_refresh(next, self.previous.clone(), now, lifetime_ms) else {
                return refused(Refused::Unknown, true);
            };
            return Exchange::Given(Box::new(Self { rotated_at: self.rotated_at, ..*grant }));
        }
        refused(Refused::Unknown, true)
    }

    /// Whether that token, which the grant's id came from, is one of its own: then its client may end it (RFC 7009).
    #[must_use]
    pub fn has_token(&self, token: &str) -> bool {
        let shown = hash(token);
        [Some(&self.code), self.refresh.as_ref(), self.previous.as_ref()].into_iter().flatten().any(|own| *own == shown)
    }

    fn with_refresh(&self, next: &str, previous: Option<String>, now: u64, lifetime_ms: u64) -> Exchange {
        Exchange::Given(Box::new(Self {
            refresh: Some(hash(next)),
            previous,
            rotated_at: now,
            expires_at: now.saturating_add(lifetime_ms),
            ..self.clone()
        }))
    }
}

/// What a client shows with a code.
#[derive(Debug, Clone, Copy)]
pub struct CodeAsked<'a> {
    /// The code.
    pub code: &'a str,
    /// Who asks.
    pub client_id: &'a str,
    /// The redirect URI, where it is repeated.
    pub redirect_uri: Option<&'a str>,
    /// The PKCE verifier.
    pub verifier: &'a str,
    /// The resource, where it is repeated.
    pub resource: Option<&'a str>,
}

/// What a client shows with a refresh token.
#[derive(Debug, Clone, Copy)]
pub struct RefreshAsked<'a> {
    /// The token.
    pub token: &'a str,
    /// Who asks.
    pub client_id: &'a str,
    /// The resource, where it is repeated.
    pub resource: Option<&'a str>,
}

/// What the organization's object is asked about a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantStep {
    /// A person agreed.
    Open {
        /// What is stored.
        grant: Box<Grant>,
    },
    /// A code is exchanged.
    Code {
        /// The grant that the code leads to.
        grant: String,
        /// The code.
        code: String,
        /// Who asks.
        client_id: String,
        /// The redirect URI, where it is repeated.
        redirect_uri: Option<String>,
        /// The PKCE verifier.
        verifier: String,
        /// The resource, where it is repeated.
        resource: Option<String>,
        /// The refresh token that is to be given out.
        next: String,
        /// How long that is good for.
        lifetime_ms: u64,
    },
    /// A refresh token is exchanged.
    Refresh {
        /// The grant that the token leads to.
        grant: String,
        /// The token.
        token: String,
        /// Who asks.
        client_id: String,
        /// The resource, where it is repeated.
        resource: Option<String>,
        /// The refresh token that is to be given out.
        next: String,
        /// How long that is good for.
        lifetime_ms: u64,
    },
    /// The client ends the grant (RFC 7009).
    Revoke {
        /// The grant that the token leads to.
        grant: String,
        /// The token.
        token: String,
        /// Who asks.
        client_id: String,
    },
    /// The account lost its access: the grant is over.
    End {
        /// The grant.
        grant: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantAnswer {
    /// Done, or nothing was there to be done.
    Done,
    /// Tokens may be given out.
    Given {
        /// Whose grant it is.
        account: String,
        /// Whether the person administered when it was granted.
        admin: bool,
        /// What it is good for.
        resource: String,
    },
    /// Not.
    Refused {
        /// Why, for the client.
        reason: String,
    },
}

/// What is to be done with the stored grant after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is stored so.
    Put(Box<Grant>),
    /// It is removed.
    Remove(String),
}

/// Carries out a step on the grant that is stored under its id, where there is one. The change is to be written before the answer
/// is given.
#[must_use]
pub fn take_step(step: GrantStep, stored: Option<&Grant>, now: u64) -> (GrantAnswer, Option<Change>) {
    let unknown = || (GrantAnswer::Refused { reason: Refused::Unknown.to_string() }, None);
    match step {
        GrantStep::Open { grant } => (GrantAnswer::Done, Some(Change::Put(grant))),
        GrantStep::End { grant } => (GrantAnswer::Done, Some(Change::Remove(grant))),
        GrantStep::Revoke { grant, token, client_id } => {
            let own = stored.is_some_and(|stored| stored.request.client_id == client_id && stored.has_token(&token));
            (GrantAnswer::Done, own.then_some(Change::Remove(grant)))
        }
        GrantStep::Code { code, client_id, redirect_uri, verifier, resource, next, lifetime_ms, .. } => {
            let Some(stored) = stored else { return unknown() };
            let asked = CodeAsked {
                code: &code,
                client_id: &client_id,
                redirect_uri: redirect_uri.as_deref(),
                verifier: &verifier,
                resource: resource.as_deref(),
            };
            came_of(stored, stored.exchange_code(&asked, &next, now, lifetime_ms))
        }
        GrantStep::Refresh { token, client_id, resource, next, lifetime_ms, .. } => {
            let Some(stored) = stored else { return unknown() };
            let asked = RefreshAsked { token: &token, client_id: &client_id, resource: resource.as_deref() };
            came_of(stored, stored.refresh(&asked, &next, now, lifetime_ms))
        }
    }
}

fn came_of(stored: &Grant, exchange: Exchange) -> (GrantAnswer, Option<Change>) {
    match exchange {
        Exchange::Given(grant) => {
            let answer = GrantAnswer::Given {
                account: grant.account.clone(),
                admin: grant.admin,
                resource: grant.request.resource.clone(),
            };
            (answer, Some(Change::Put(grant)))
        }
        Exchange::Refused { reason, ends } => {
            (GrantAnswer::Refused { reason: reason.to_string() }, ends.then(|| Change::Remove(stored.id.clone())))
        }
    }
}

impl GrantStep {
    /// The id of the grant that it is about.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Open { grant } => &grant.id,
            Self::Code { grant, .. }
            | Self::Refresh { grant, .. }
            | Self::Revoke { grant, .. }
            | Self::End { grant } => grant,
        }
    }
}
