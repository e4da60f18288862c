//! Who asks: tries the providers of `AUTH_MODE` in their order, and remembers for a moment what came of it.
//!
//! Most requests are answered from that memory ([`known`]), without an await. What is remembered never outlives the token, nor
//! the time within which a revoked key or a lost membership has to count.

mod directory;
mod fetching;
mod issuer;
mod key_sets;
mod owner;
mod person;
mod sign_in;
mod verify;

use std::cell::RefCell;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use worker::Headers;

pub(super) use self::fetching::get as json_request;
use self::key_sets::{Failure, KeySource, Patience, verify_token};
pub(super) use self::person::{has_browser_cookie, person};
pub(super) use self::sign_in::{call_back, return_to, sign_in, sign_out};
use super::clock::now;
use super::entry::Edge;
use super::http::{Incoming, header};
use super::mcp_edge::resource_url;
use super::oauth::signers;
use super::organization;
use super::platform::{log_failure, platform_failure};
use super::telemetry::log;
use crate::approval::Standing;
use crate::auth::api_key::{PREFIX, hash_admin_key, parse_key};
use crate::auth::identity::{Belongs, Identity, identity_of_access, identity_of_claims};
use crate::auth::jwt::{Expected, check_claims, looks_like_jwt, parse_jwt};
use crate::auth::membership::{Member, decide_membership, with_directory};
use crate::auth::memory::Memory;
use crate::auth::rate::{Counts, address_name};
use crate::auth::settings::{AccessSettings, AuthSettings, KeySettings, OAuthSettings, OidcSettings, Provider};
use crate::auth::{Cause, Denial, Outcome, Principal, Purpose, bearer_token, same_bytes};
use crate::config::Settings;
use crate::oauth::{Access, read_access};
use crate::protocol::errors::WireError;

/// The header in which Cloudflare Access says who somebody is.
pub(super) const ACCESS_HEADER: &str = "cf-access-jwt-assertion";
/// How long a verified token is used without another look, in milliseconds.
const TOKEN_MS: u64 = 30_000;
/// The same for an API key: a revoked one ends within five seconds.
const KEY_MS: u64 = 5_000;
/// How the access tokens of this gateway begin.
const ACCESS_TOKEN: &str = "cs_access_";
/// Credentials that are remembered, some 100 bytes each.
const REMEMBERED: usize = 5_000;
/// The account of `COUNTERSIGN_ADMIN_KEY`.
const OPERATOR: &str = "operator";
/// What is wrong with a bearer that no provider takes for its own.
const OF_NO_KIND: &str = "The token is of no kind that this gateway takes";

/// Where a credential is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'r> {
    /// On `/mcp`, or on a toolkit's endpoint.
    Mcp {
        /// The gateway's own origin.
        origin: &'r str,
        /// `default`, or the toolkit's slug.
        resource: &'r str,
    },
    /// Anywhere else.
    Api,
}

/// The credentials of a program's request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presented<'r> {
    authorization: Option<&'r str>,
    assertion: Option<&'r str>,
    place: Place<'r>,
}

impl<'r> Presented<'r> {
    pub(super) fn of(incoming: &'r Incoming, origin: &'r str, resource: &'r str) -> Self {
        Self {
            authorization: incoming.header("authorization"),
            assertion: incoming.header(ACCESS_HEADER),
            place: Place::Mcp { origin, resource },
        }
    }

    fn bearer(&self) -> Option<&'r str> {
        self.authorization.and_then(bearer_token)
    }
}

/// Why a request is not served.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// No credential, or none that is valid.
    Unauthorized { problem: Option<&'static str> },
    /// Verified, without access.
    Forbidden(Denial),
    /// It cannot be told just now.
    Unavailable(Cause),
    /// Too many failed before.
    TooMany { seconds: u32 },
}

impl Refusal {
    pub(super) fn error(&self) -> WireError {
        match self {
            Self::Unauthorized { .. } => WireError::unauthorized(),
            Self::Forbidden(denial) => WireError::forbidden(denial.message.clone()),
            Self::Unavailable(Cause::Infrastructure) => WireError::authentication_unavailable(),
            Self::Unavailable(Cause::Storage) => WireError::storage_unavailable(),
            Self::TooMany { seconds } => WireError::too_many("failed attempts to authenticate", *seconds),
        }
    }
}

/// Who a program is that was seen a moment ago; `None` where that needs a second look, or is not so.
pub(super) fn known(settings: &Settings, presented: Presented<'_>) -> Option<Principal> {
    let bearer = presented.bearer();
    for provider in &settings.auth.providers {
        match provider {
            Provider::Dev(dev) if presented.authorization.is_none() == bearer.is_none() && dev.claims(bearer) => {
                return match dev.authenticate(presented.authorization) {
                    Outcome::Authenticated(principal) if settings.auth.directory.is_none() => Some(principal),
                    Outcome::Authenticated(_)
                    | Outcome::Unauthorized { .. }
                    | Outcome::Forbidden(_)
                    | Outcome::Unavailable(_) => None,
                };
            }
            Provider::Access(_) => {
                if let Some(assertion) = presented.assertion {
                    return recall(assertion_kind(presented.place), assertion);
                }
            }
            Provider::Oidc(_) => {
                if let Some(token) = bearer.filter(|token| looks_like_jwt(token)) {
                    return recall(Kind::Bearer, token);
                }
            }
            Provider::Keys(keys) => {
                if let Some(token) = bearer.filter(|token| is_key(keys, token)) {
                    return recall(Kind::Key, token);
                }
            }
            Provider::OAuth(_) => {
                if let Some(token) = bearer.filter(|token| token.starts_with(ACCESS_TOKEN)) {
                    return match presented.place {
                        Place::Mcp { resource, .. } => recall(Kind::AccessToken { resource }, token),
                        Place::Api => None,
                    };
                }
            }
            Provider::Dev(_) => {}
        }
    }
    None
}

/// Who a program is, by its bearer or by what Cloudflare Access says.
pub(super) async fn authenticate(
    edge: &Edge<'_>,
    presented: Presented<'_>,
    headers: &Headers,
) -> Result<Principal, Refusal> {
    let address = header(headers, "cf-connecting-ip");
    check_failures(&edge.settings, address.as_deref())?;
    match try_providers(edge, presented).await {
        Outcome::Authenticated(principal) => Ok(principal),
        Outcome::Unauthorized { problem } => {
            if problem.is_some() {
                count_failure(&edge.settings, address.as_deref());
            }
            Err(Refusal::Unauthorized { problem })
        }
        Outcome::Forbidden(denial) => Err(Refusal::Forbidden(denial)),
        Outcome::Unavailable(cause) => Err(Refusal::Unavailable(cause)),
    }
}

/// The same for requests that are not MCP's.
pub(super) async fn program(edge: &Edge<'_>, headers: &Headers) -> Result<Principal, Refusal> {
    let authorization = header(headers, "authorization");
    let assertion = header(headers, ACCESS_HEADER);
    let presented =
        Presented { authorization: authorization.as_deref(), assertion: assertion.as_deref(), place: Place::Api };
    match known(&edge.settings, presented) {
        Some(principal) => Ok(principal),
        None => authenticate(edge, presented, headers).await,
    }
}

async fn try_providers(edge: &Edge<'_>, presented: Presented<'_>) -> Outcome {
    let bearer = presented.bearer();
    let mut worst = Outcome::Unauthorized { problem: None };
    for provider in &edge.settings.auth.providers {
        let outcome = match provider {
            Provider::Dev(dev) if presented.authorization.is_none() == bearer.is_none() && dev.claims(bearer) => {
                match dev.authenticate(presented.authorization) {
                    Outcome::Authenticated(principal) => ask_directory(&edge.settings.auth, principal)
                        .await
                        .map_or_else(|outcome| outcome, |(principal, _)| Outcome::Authenticated(principal)),
                    other @ (Outcome::Unauthorized { .. } | Outcome::Forbidden(_) | Outcome::Unavailable(_)) => other,
                }
            }
            Provider::Access(access) => match presented.assertion {
                Some(assertion) => try_access(edge, access, assertion, presented.place).await,
                None => continue,
            },
            Provider::Oidc(oidc) => match bearer.filter(|token| looks_like_jwt(token)) {
                Some(token) => try_oidc(edge, oidc, token).await,
                None => continue,
            },
            Provider::Keys(keys) => match bearer.filter(|token| is_key(keys, token)) {
                Some(token) => try_key(edge, keys, token).await,
                None => continue,
            },
            Provider::OAuth(oauth) => match bearer.filter(|token| token.starts_with(ACCESS_TOKEN)) {
                Some(token) => try_access_token(edge, oauth, token, presented.place).await,
                None => continue,
            },
            Provider::Dev(_) => continue,
        };
        if matches!(outcome, Outcome::Authenticated(_)) {
            return outcome;
        }
        if weight(&outcome) > weight(&worst) {
            worst = outcome;
        }
    }
    match worst {
        // There was a credential, and nobody took it for its own.
        Outcome::Unauthorized { problem: None } if presented.authorization.is_some() => {
            match edge.settings.auth.dev() {
                Some(dev) if edge.settings.auth.providers.len() == 1 => dev.authenticate(presented.authorization),
                Some(_) | None => Outcome::Unauthorized { problem: Some(OF_NO_KIND) },
            }
        }
        outcome @ (Outcome::Authenticated(_)
        | Outcome::Unauthorized { .. }
        | Outcome::Forbidden(_)
        | Outcome::Unavailable(_)) => outcome,
    }
}

/// Of several refusals the one that says most.
fn weight(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Unauthorized { problem: None } => 0,
        Outcome::Unauthorized { problem: Some(_) } => 1,
        Outcome::Unavailable(_) => 2,
        Outcome::Forbidden(_) => 3,
        Outcome::Authenticated(_) => 4,
    }
}

// ---- providers ----------------------------------------------------------------------------------

fn patience(settings: &Settings) -> Patience {
    Patience { time_ms: settings.auth.timeout_ms, fresh_ms: settings.auth.key_set_fresh_ms }
}

fn outcome_of(failure: &Failure) -> Outcome {
    match failure {
        Failure::Invalid(error) => Outcome::Unauthorized { problem: Some(error.text()) },
        Failure::Unavailable => Outcome::Unavailable(Cause::Infrastructure),
    }
}

/// The claims of a token that is valid, and until when it is.
async fn verified_claims(
    edge: &Edge<'_>,
    source: &KeySource,
    token: &str,
    expected: Expected<'_>,
) -> Result<(Map<String, Value>, u64), Failure> {
    let token = parse_jwt(token).map_err(Failure::Invalid)?;
    // First, though nothing of it is proved yet: for a token that is of no use anyway no key is fetched.
    let until = check_claims(&token.claims, expected, now()).map_err(Failure::Invalid)?;
    verify_token(source, &token, patience(&edge.settings), edge.context).await?;
    Ok((token.claims, until))
}

async fn try_oidc(edge: &Edge<'_>, oidc: &OidcSettings, token: &str) -> Outcome {
    let source = KeySource::Issuer(oidc.issuer.clone());
    let expected = Expected { issuer: &oidc.issuer, audiences: &oidc.audiences };
    let (claims, until) = match verified_claims(edge, &source, token, expected).await {
        Ok(verified) => verified,
        Err(failure) => return outcome_of(&failure),
    };
    let identity = match identity_of_claims(&claims, &oidc.claims) {
        Ok(identity) => identity,
        Err(problem) => return Outcome::Unauthorized { problem: Some(problem) },
    };
    admitted(edge, identity, Kind::Bearer, token, until).await
}

fn assertion_kind(place: Place<'_>) -> Kind<'_> {
    match place {
        Place::Mcp { .. } => Kind::AssertionOnMcp,
        Place::Api => Kind::Assertion,
    }
}

/// An identity that Cloudflare Access vouches for, whether it is a program's, and until when that counts.
async fn access_identity(
    edge: &Edge<'_>,
    access: &AccessSettings,
    token: &str,
    audiences: &[String],
) -> Result<(Identity, bool, u64), Outcome> {
    let source = KeySource::Url(format!("{}/cdn-cgi/access/certs", access.issuer));
    let expected = Expected { issuer: &access.issuer, audiences };
    let verified = verified_claims(edge, &source, token, expected).await;
    let (claims, until) = verified.map_err(|failure| outcome_of(&failure))?;
    let (identity, is_service) =
        identity_of_access(&claims).map_err(|problem| Outcome::Unauthorized { problem: Some(problem) })?;
    Ok((identity, is_service, until))
}

async fn try_access(edge: &Edge<'_>, access: &AccessSettings, token: &str, place: Place<'_>) -> Outcome {
    let audiences = match place {
        // A person's token for the pages must not be good here: an agent could read it, and use it as that person's cookie.
        Place::Mcp { .. } if access.mcp_audiences.is_empty() => {
            return Outcome::Unauthorized {
                problem: Some("ACCESS_MCP_AUDIENCE is not set, so Access admits nobody to /mcp"),
            };
        }
        Place::Mcp { .. } => &access.mcp_audiences,
        Place::Api => &access.audiences,
    };
    match access_identity(edge, access, token, audiences).await {
        Ok((identity, _, until)) => admitted(edge, identity, assertion_kind(place), token, until).await,
        Err(outcome) => outcome,
    }
}

/// An access token that this gateway gave out. It is good for one endpoint; elsewhere it is known, and may do nothing.
async fn try_access_token(edge: &Edge<'_>, oauth: &OAuthSettings, token: &str, place: Place<'_>) -> Outcome {
    let claims = match read_access(&signers(&oauth.keys).access, token, now()) {
        Access::Good(claims) => *claims,
        Access::Expired => return Outcome::Unauthorized { problem: Some("The access token has expired") },
        Access::Foreign => {
            return Outcome::Unauthorized { problem: Some("The access token is none of this gateway's") };
        }
    };
    let identity =
        Identity { account: claims.account, organization: Belongs::To(claims.organization), admin: claims.admin };
    match place {
        Place::Mcp { origin, resource } if claims.resource == resource_url(origin, resource) => {
            admitted(edge, identity, Kind::AccessToken { resource }, token, claims.expires_at).await
        }
        Place::Mcp { .. } => Outcome::Unauthorized { problem: Some("The access token is for another endpoint") },
        // Whoever the account is, this credential is an agent's, for `/mcp`.
        Place::Api => match admit(edge, identity, Purpose::Mcp).await {
            Ok((principal, _)) => Outcome::Authenticated(Principal { admin: false, ..principal }),
            Err(outcome) => outcome,
        },
    }
}

/// Whether the account of a grant still has access, and its role now. `Forbidden` ends the grant.
pub(super) async fn still_admitted(edge: &Edge<'_>, account: String, organization: String, admin: bool) -> Outcome {
    let identity = Identity { account, organization: Belongs::To(organization), admin };
    match admit(edge, identity, Purpose::Mcp).await {
        Ok((principal, _)) => Outcome::Authenticated(principal),
        Err(outcome) => outcome,
    }
}

/// Whether somebody who gave a grant still has access, and with which role; `None` where that is not so or cannot be told. A role
/// that a token claimed then is believed, because nobody can be asked about it without the token.
pub(super) async fn still_stands(
    auth: &AuthSettings,
    account: &str,
    organization: &str,
    standing: Standing,
) -> Option<Standing> {
    let identity = Identity {
        account: account.to_owned(),
        organization: Belongs::To(organization.to_owned()),
        admin: standing.admin,
    };
    let Member { account, organization, admin } = decide_membership(identity, &auth.membership).ok()?;
    let principal = Principal { account, organization, admin, purpose: Purpose::Browser };
    let (principal, _) = ask_directory(auth, principal).await.ok()?;
    Some(Standing { admin: principal.admin && standing.admin, ..standing })
}

/// Whether a bearer is one of this gateway's keys.
fn is_key(keys: &KeySettings, token: &str) -> bool {
    token.starts_with(PREFIX)
        || !looks_like_jwt(token)
            && keys.admin.as_ref().is_some_and(|(hash, _)| same_bytes(hash, &hash_admin_key(token)))
}

async fn try_key(edge: &Edge<'_>, keys: &KeySettings, token: &str) -> Outcome {
    let revoked = Outcome::Unauthorized { problem: Some("The API key is unknown, expired or revoked") };
    let Some(key) = parse_key(token) else {
        // The operator's own key has no account in any directory: it is how the first key is made.
        return match &keys.admin {
            Some((hash, organization)) if same_bytes(hash, &hash_admin_key(token)) => {
                Outcome::Authenticated(Principal {
                    account: OPERATOR.to_owned(),
                    organization: organization.clone(),
                    admin: true,
                    purpose: Purpose::Admin,
                })
            }
            Some(_) | None => revoked,
        };
    };
    let asked_at = now();
    let record = match organization::find_key(edge.env, &key).await {
        Ok(Some(record)) => record,
        Ok(None) => return revoked,
        Err(error) => {
            log_failure("organization/key", &platform_failure(&error));
            return Outcome::Unavailable(Cause::Storage);
        }
    };
    let listed = edge.settings.auth.membership.admins.has(&record.account);
    let principal = Principal {
        account: record.account,
        organization: key.organization,
        admin: record.purpose == Purpose::Admin || listed,
        purpose: record.purpose,
    };
    match ask_directory(&edge.settings.auth, principal).await {
        Ok((principal, until)) => {
            let end = record.expires_at.unwrap_or(u64::MAX).min(until).min(asked_at.saturating_add(KEY_MS));
            // Roles are those of the key, whatever its account may do elsewhere.
            // One that decides has the role of its account, for rules that want an administrator to decide; it administers nothing.
            let counts = matches!(record.purpose, Purpose::Admin | Purpose::Approve);
            let principal = Principal { admin: counts && principal.admin, ..principal };
            remember(Kind::Key, token, &principal, end);
            Outcome::Authenticated(principal)
        }
        Err(outcome) => outcome,
    }
}

// ---- membership ---------------------------------------------------------------------------------

/// The principal that an identity is here, remembered for the token.
async fn admitted(edge: &Edge<'_>, identity: Identity, kind: Kind<'_>, token: &str, until: u64) -> Outcome {
    let verified_at = now();
    match admit(edge, identity, Purpose::Mcp).await {
        Ok((principal, member_until)) => {
            let until = until.min(member_until).min(verified_at.saturating_add(TOKEN_MS));
            remember(kind, token, &principal, until);
            Outcome::Authenticated(principal)
        }
        Err(outcome) => outcome,
    }
}

/// Whether an identity has access: by its claims, by the variables, by the directory. With the time until which that counts.
async fn admit(edge: &Edge<'_>, identity: Identity, purpose: Purpose) -> Result<(Principal, u64), Outcome> {
    let member = decide_membership(identity, &edge.settings.auth.membership).map_err(Outcome::Forbidden)?;
    let principal =
        Principal { account: member.account, organization: member.organization, admin: member.admin, purpose };
    ask_directory(&edge.settings.auth, principal).await
}

/// What the directory says of a principal, where there is one.
async fn ask_directory(auth: &AuthSettings, principal: Principal) -> Result<(Principal, u64), Outcome> {
    let Some(directory) = &auth.directory else {
        return Ok((principal, u64::MAX));
    };
    let Principal { account, organization, admin, purpose } = principal;
    let member = Member { account, organization, admin };
    let looked_up = directory::look_up(directory, &member, auth.timeout_ms).await;
    let (answer, until) = looked_up.map_err(Outcome::Unavailable)?;
    match with_directory(member, answer) {
        Some(Ok(Member { account, organization, admin })) => {
            Ok((Principal { account, organization, admin, purpose }, until))
        }
        Some(Err(denial)) => Err(Outcome::Forbidden(denial)),
        None => Err(Outcome::Unavailable(Cause::Infrastructure)),
    }
}

/// The identity of somebody who signed in before.
fn identity_again(account: String, organization: Option<String>, admin: bool) -> Identity {
    Identity { account, organization: organization.map_or(Belongs::AsSet, Belongs::To), admin }
}

// ---- memory -------------------------------------------------------------------------------------

/// What a credential was presented as: the same text is another thing elsewhere.
#[derive(Debug, Clone, Copy)]
enum Kind<'r> {
    Bearer,
    AssertionOnMcp,
    Assertion,
    Key,
    AccessToken { resource: &'r str },
}

impl Kind<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Bearer => ":bearer",
            Self::AssertionOnMcp => ":assertion on mcp",
            Self::Assertion => ":assertion",
            Self::Key => ":key",
            Self::AccessToken { resource } => resource,
        }
    }
}

thread_local! {
    /// By a hash of the credential: the text itself is not kept.
    static SEEN: RefCell<Memory<[u8; 32], Principal, REMEMBERED>> = RefCell::default();
    static FAILURES: RefCell<Counts> = RefCell::default();
    static SESSIONS: RefCell<Counts> = RefCell::default();
}

fn name_of(kind: Kind<'_>, token: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(kind.name());
    hash.update([0]);
    hash.update(token);
    hash.finalize().into()
}

fn recall(kind: Kind<'_>, token: &str) -> Option<Principal> {
    let name = name_of(kind, token);
    SEEN.with_borrow(|seen| seen.recall(&name, now())).map(|(principal, _)| principal)
}

fn remember(kind: Kind<'_>, token: &str, principal: &Principal, until: u64) {
    let name = name_of(kind, token);
    SEEN.with_borrow_mut(|seen| seen.remember(name, principal.clone(), until, now()));
}

/// Keys changed: this isolate need not wait for their five seconds.
pub(super) fn forget_all() {
    SEEN.with_borrow_mut(Memory::clear);
}

// ---- limits -------------------------------------------------------------------------------------

fn check_failures(settings: &Settings, address: Option<&str>) -> Result<(), Refusal> {
    let Some(limit) = settings.auth.failures_per_minute else {
        return Ok(());
    };
    let name = address_name(address.unwrap_or_default());
    match FAILURES.with_borrow(|failures| failures.exceeded(&name, limit, now())) {
        None => Ok(()),
        Some(seconds) => Err(Refusal::TooMany { seconds }),
    }
}

fn count_failure(settings: &Settings, address: Option<&str>) {
    if settings.auth.failures_per_minute.is_some() {
        let name = address_name(address.unwrap_or_default());
        FAILURES.with_borrow_mut(|failures| failures.count(&name, now()));
    }
}

/// Counts a session that an account opens; says why not, where it opened too many.
pub(super) fn count_session(settings: &Settings, principal: &Principal) -> Result<(), WireError> {
    let Some(limit) = settings.auth.sessions_per_minute else {
        return Ok(());
    };
    let name = format!("{}\0{}", principal.organization, principal.account);
    let at = now();
    if let Some(seconds) = SESSIONS.with_borrow(|sessions| sessions.exceeded(&name, limit, at)) {
        log("mcp_sessions_limited", json!({ "organization": principal.organization }));
        return Err(WireError::too_many("new sessions of this account", seconds));
    }
    SESSIONS.with_borrow_mut(|sessions| sessions.count(&name, at));
    Ok(())
}
