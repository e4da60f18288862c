//! The person in a browser: who signed in, by whichever provider.

use worker::Headers;

use super::{Refusal, access_identity, admit, identity_again};
use crate::auth::browser::{BrowserSession, SESSION_COOKIE, cookie};
use crate::auth::settings::{AccessSettings, OidcSettings, Owner, Provider};
use crate::auth::{DEV_COOKIE, Outcome, Principal, Purpose};
use crate::shell::clock::now;
use crate::shell::entry::Edge;
use crate::shell::http::header;

/// The cookie in which Cloudflare Access keeps a person's token.
const ACCESS_COOKIE: &str = "CF_Authorization";

/// Whether a request carries a cookie of somebody who may have signed in.
pub(in crate::shell) fn has_browser_cookie(headers: &Headers) -> bool {
    let cookies = header(headers, "cookie").unwrap_or_default();
    [DEV_COOKIE, SESSION_COOKIE, ACCESS_COOKIE].into_iter().any(|name| cookie(&cookies, name).is_some())
}

/// The person whose browser sent a request. Whether the request is theirs and not a foreign page's, the caller checks.
pub(in crate::shell) async fn person(edge: &Edge<'_>, headers: &Headers) -> Result<Principal, Refusal> {
    let cookies = header(headers, "cookie").unwrap_or_default();
    let mut refusal = Refusal::Unauthorized { problem: None };
    for provider in &edge.settings.auth.providers {
        let outcome = match provider {
            Provider::Dev(dev) => match cookie(&cookies, DEV_COOKIE) {
                // Another way in is there for people; without one a browser is always somebody.
                None if dev.require_token && edge.settings.auth.has_sign_in() => continue,
                chosen => return Ok(dev.person(chosen)),
            },
            Provider::Access(access) => match cookie(&cookies, ACCESS_COOKIE) {
                Some(token) => person_of_access(edge, access, token).await,
                None => continue,
            },
            Provider::Oidc(oidc) => match cookie(&cookies, SESSION_COOKIE) {
                Some(text) => person_of_session(edge, oidc, text).await,
                None => continue,
            },
            Provider::OAuth(oauth) => match (&oauth.owner, cookie(&cookies, SESSION_COOKIE)) {
                (Some(owner), Some(text)) => person_of_owner(edge, owner, text),
                (Some(_) | None, _) => continue,
            },
            Provider::Keys(_) => continue,
        };
        refusal = match outcome {
            Outcome::Authenticated(principal) => return Ok(principal),
            Outcome::Unauthorized { problem } => Refusal::Unauthorized { problem },
            Outcome::Forbidden(denial) => Refusal::Forbidden(denial),
            Outcome::Unavailable(cause) => Refusal::Unavailable(cause),
        };
    }
    Err(refusal)
}

async fn person_of_access(edge: &Edge<'_>, access: &AccessSettings, token: &str) -> Outcome {
    match access_identity(edge, access, token, &access.audiences).await {
        Ok((_, true, _)) => Outcome::Unauthorized { problem: Some("A service token is not a person") },
        Ok((identity, false, _)) => match admit(edge, identity, Purpose::Browser).await {
            Ok((principal, _)) => Outcome::Authenticated(principal),
            Err(outcome) => outcome,
        },
        Err(outcome) => outcome,
    }
}

/// The owner, who signed in with the passphrase. Another passphrase, account or organization ends what the old one opened.
fn person_of_owner(edge: &Edge<'_>, owner: &Owner, text: &str) -> Outcome {
    match edge.settings.auth.cookies.open::<BrowserSession>(SESSION_COOKIE, text) {
        Some(session) if now() < session.until && session.via == owner.sign_in_name() => {
            Outcome::Authenticated(owner.person())
        }
        Some(_) | None => Outcome::Unauthorized { problem: Some("The sign-in is over") },
    }
}

/// Membership and roles are looked at anew: who lost access loses the pages with it.
async fn person_of_session(edge: &Edge<'_>, oidc: &OidcSettings, text: &str) -> Outcome {
    let over = Outcome::Unauthorized { problem: Some("The sign-in is over") };
    let Some(session) = edge.settings.auth.cookies.open::<BrowserSession>(SESSION_COOKIE, text) else {
        return over;
    };
    if session.until <= now() || session.via != oidc.issuer || oidc.client.is_none() {
        return over;
    }
    let identity = identity_again(session.account, session.organization, session.admin);
    match admit(edge, identity, Purpose::Browser).await {
        Ok((principal, _)) => Outcome::Authenticated(principal),
        Err(outcome) => outcome,
    }
}
