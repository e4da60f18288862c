//! `/sign-in`, `/sign-in/callback` and `/sign-out`, for browsers.

use serde_json::json;
use worker::{Method, Request, Response};

use super::fetching::ask;
use super::issuer;
use super::key_sets::{Failure, KeySource};
use super::owner;
use super::{admit, check_failures, count_failure, person, verified_claims};
use crate::auth::browser::{BrowserSession, SESSION_COOKIE, SIGN_IN_COOKIE, SIGN_IN_MS, SignIn, cookie, set_cookie};
use crate::auth::identity::{Belongs, identity_of_claims};
use crate::auth::jwt::Expected;
use crate::auth::settings::{OidcClient, OidcSettings, Provider};
use crate::auth::sign_in::{
    Client, METADATA_BYTES, authorization_url, check_id_token, read_answer, read_token_answer, token_request,
};
use crate::auth::{Cause, DEV_COOKIE, Outcome, Purpose};
use crate::catalog::openapi::request::HttpRequest;
use crate::console::pages as html;
use crate::protocol::errors::WireError;
use crate::shell::approval_api::from_own_page;
use crate::shell::clock::now;
use crate::shell::entry::{Edge, api_error};
use crate::shell::http::{header, query_fields};
use crate::shell::pages::{dev_sign_in, error_page, message, page, redirect};
use crate::shell::random::random_bytes;
use crate::shell::telemetry::{log, log_error};

/// Where the issuer sends the person back to.
const CALLBACK: &str = "/sign-in/callback";

/// `/sign-in`: the way in of the first provider that has one for people.
pub(in crate::shell) async fn sign_in(request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    for provider in &edge.settings.auth.providers {
        match provider {
            Provider::Dev(_) => return dev_sign_in(request, edge).await,
            Provider::Oidc(oidc) => {
                if let Some(client) = &oidc.client {
                    return start(&request, edge, oidc, client).await;
                }
            }
            Provider::Access(_) => return signed_in_by_access(&request, edge).await,
            Provider::OAuth(oauth) => {
                if let Some(owner) = &oauth.owner {
                    return owner::sign_in(request, edge, owner).await;
                }
            }
            Provider::Keys(_) => {}
        }
    }
    let text = "This gateway has no sign-in for browsers. Decide with an API key that has the purpose approve, or set up an identity provider (see AUTH_MODE in the README).";
    message(404, "No sign-in here", text)
}

/// Where the person wanted to go: a path of the gateway.
pub(in crate::shell) fn return_to(edge: &Edge<'_>) -> String {
    html::local_path(&edge.url.parameter("return_to").unwrap_or_default()).to_owned()
}

async fn signed_in_by_access(request: &Request, edge: &Edge<'_>) -> worker::Result<Response> {
    if request.method() != Method::Get {
        return api_error(&WireError::method_not_allowed());
    }
    match person(edge, request.headers()).await {
        Ok(_) => redirect(&return_to(edge)),
        Err(refusal) if refusal.error().status == 401 => {
            let text = "Cloudflare Access did not say who you are. Its application has to cover this page, and ACCESS_AUDIENCE has to be its audience tag.";
            message(401, "Sign in first", text)
        }
        Err(refusal) => error_page(&refusal.error()),
    }
}

fn client_of<'c>(client: &'c OidcClient, redirect_uri: &'c str) -> Client<'c> {
    let [id] = &client.id;
    Client { id, scopes: &client.scopes, redirect_uri }
}

fn random_text() -> worker::Result<String> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random_bytes::<32>()?))
}

async fn start(
    request: &Request,
    edge: &Edge<'_>,
    oidc: &OidcSettings,
    client: &OidcClient,
) -> worker::Result<Response> {
    if request.method() != Method::Get {
        return api_error(&WireError::method_not_allowed());
    }
    let metadata = match issuer::metadata(&oidc.issuer, edge.settings.auth.timeout_ms).await {
        Ok(metadata) => metadata,
        Err(reason) => return unavailable(&reason),
    };
    let Some(endpoint) = &metadata.authorization_endpoint else {
        return unavailable("the issuer's metadata has no authorization_endpoint");
    };
    let sign_in = SignIn {
        state: random_text()?,
        nonce: random_text()?,
        verifier: random_text()?,
        return_to: return_to(edge),
        until: now().saturating_add(SIGN_IN_MS),
    };
    let redirect_uri = format!("{}{CALLBACK}", edge.origin);
    let location = authorization_url(endpoint, client_of(client, &redirect_uri), &sign_in);
    let sealed = edge.settings.auth.cookies.seal(SIGN_IN_COOKIE, &sign_in);
    let (Some(location), Some(sealed)) = (location, sealed) else {
        return unavailable("the sign-in could not be started");
    };
    let response = redirect(&location)?;
    response.headers().append("set-cookie", &set_cookie(SIGN_IN_COOKIE, &sealed, SIGN_IN_MS / 1_000))?;
    Ok(response)
}

/// `/sign-in/callback`: the issuer's answer.
pub(in crate::shell) async fn call_back(request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    let client = edge.settings.auth.oidc().and_then(|oidc| oidc.client.as_ref().map(|client| (oidc, client)));
    let Some((oidc, client)) = client else {
        return api_error(&WireError::no_such_route());
    };
    if request.method() != Method::Get {
        return api_error(&WireError::method_not_allowed());
    }
    let address = header(request.headers(), "cf-connecting-ip");
    if let Err(refusal) = check_failures(&edge.settings, address.as_deref()) {
        return error_page(&refusal.error());
    }
    let response = match finish(&request, edge, oidc, client).await? {
        Ok(session) => {
            let Some(response) = signed_in(edge, &session.0, &session.1)? else {
                return unavailable("the account's name is too long for a cookie");
            };
            response
        }
        Err(Refused::Page { status, title, text }) => {
            if status == 400 {
                count_failure(&edge.settings, address.as_deref());
            }
            log("sign_in", json!({ "outcome": "refused", "status": status }));
            message(status, title, &text)?
        }
        Err(Refused::Unavailable(reason)) => return unavailable(&reason),
    };
    // An answer counts once.
    response.headers().append("set-cookie", &set_cookie(SIGN_IN_COOKIE, "", 0))?;
    Ok(response)
}

/// Sends a browser on that has signed in, with the cookie that says so; `None` where that would be too long for one.
pub(super) fn signed_in(
    edge: &Edge<'_>,
    session: &BrowserSession,
    return_to: &str,
) -> worker::Result<Option<Response>> {
    let auth = &edge.settings.auth;
    let Some(sealed) = auth.cookies.seal(SESSION_COOKIE, session) else {
        return Ok(None);
    };
    log("sign_in", json!({ "outcome": "signed_in" }));
    let response = redirect(html::local_path(return_to))?;
    response.headers().append("set-cookie", &set_cookie(SESSION_COOKIE, &sealed, auth.sign_in_ms / 1_000))?;
    Ok(Some(response))
}

enum Refused {
    Page { status: u16, title: &'static str, text: String },
    Unavailable(String),
}

/// The session of who signed in, and where to go on.
async fn finish(
    request: &Request,
    edge: &Edge<'_>,
    oidc: &OidcSettings,
    client: &OidcClient,
) -> worker::Result<Result<(BrowserSession, String), Refused>> {
    let failed = |text: String| Refused::Page { status: 400, title: "The sign-in did not work", text };
    let auth = &edge.settings.auth;
    let cookies = header(request.headers(), "cookie").unwrap_or_default();
    let asked = cookie(&cookies, SIGN_IN_COOKIE).and_then(|text| auth.cookies.open::<SignIn>(SIGN_IN_COOKIE, text));
    let query = query_fields(&edge.url);
    let code = match read_answer(&query, asked.as_ref(), &oidc.issuer, now()) {
        Ok(code) => code,
        Err(error) => return Ok(Err(failed(format!("{error} Start again.")))),
    };
    let Some(asked) = asked else {
        return Ok(Err(failed("Start again.".to_owned())));
    };
    let metadata = match issuer::metadata(&oidc.issuer, auth.timeout_ms).await {
        Ok(metadata) => metadata,
        Err(reason) => return Ok(Err(Refused::Unavailable(reason))),
    };
    let Some(endpoint) = &metadata.token_endpoint else {
        return Ok(Err(Refused::Unavailable("the issuer's metadata has no token_endpoint".to_owned())));
    };
    let redirect_uri = format!("{}{CALLBACK}", edge.origin);
    let (headers, body) = token_request(
        client_of(client, &redirect_uri),
        &client.secret,
        metadata.secret_in_form,
        &code,
        &asked.verifier,
    );
    let exchange =
        HttpRequest { method: "POST".to_owned(), url: endpoint.clone(), headers, body: Some(body.into_bytes()) };
    let (status, body) = match ask(exchange, METADATA_BYTES, auth.timeout_ms, &oidc.issuer).await {
        Ok(answer) => answer,
        Err(reason) => return Ok(Err(Refused::Unavailable(reason))),
    };
    let Some(token) = read_token_answer(status, &body) else {
        if status >= 500 || status == 429 {
            return Ok(Err(Refused::Unavailable(format!("the token endpoint answered {status}"))));
        }
        // Mostly a client secret or a redirect URI that was set up differently there.
        log_error("sign_in_code_refused", json!({ "status": status }));
        return Ok(Err(failed("The identity provider did not accept the answer. Start again.".to_owned())));
    };
    let source = KeySource::Issuer(oidc.issuer.clone());
    let expected = Expected { issuer: &oidc.issuer, audiences: &client.id };
    let claims = match verified_claims(edge, &source, &token, expected).await {
        Ok((claims, _)) => claims,
        Err(Failure::Invalid(error)) => return Ok(Err(failed(format!("{error}.")))),
        Err(Failure::Unavailable) => {
            return Ok(Err(Refused::Unavailable("the issuer's keys could not be read".to_owned())));
        }
    };
    let [client_id] = &client.id;
    if let Err(error) = check_id_token(&claims, &asked, client_id) {
        return Ok(Err(failed(format!("{error}. Start again."))));
    }
    let identity = match identity_of_claims(&claims, &oidc.claims) {
        Ok(identity) => identity,
        Err(problem) => return Ok(Err(failed(format!("{problem}.")))),
    };
    let session = BrowserSession {
        via: oidc.issuer.clone(),
        account: identity.account.clone(),
        organization: match &identity.organization {
            Belongs::To(organization) => Some(organization.clone()),
            Belongs::Nowhere | Belongs::AsSet => None,
        },
        admin: identity.admin,
        until: now().saturating_add(auth.sign_in_ms),
    };
    Ok(match admit(edge, identity, Purpose::Browser).await {
        Ok(_) => Ok((session, asked.return_to)),
        Err(Outcome::Forbidden(denial)) => Err(Refused::Page { status: 403, title: "No access", text: denial.message }),
        Err(Outcome::Unavailable(Cause::Infrastructure | Cause::Storage)) => {
            Err(Refused::Unavailable("the membership could not be looked up".to_owned()))
        }
        Err(Outcome::Authenticated(_) | Outcome::Unauthorized { .. }) => Err(failed("Start again.".to_owned())),
    })
}

fn unavailable(reason: &str) -> worker::Result<Response> {
    log_error("sign_in_unavailable", json!({ "reason": reason }));
    let response = error_page(&WireError::authentication_unavailable())?;
    response.headers().set("retry-after", "2")?;
    Ok(response)
}

/// `GET` and `POST /sign-out`
pub(in crate::shell) fn sign_out(request: &Request, edge: &Edge<'_>) -> worker::Result<Response> {
    if request.method() == Method::Get {
        return page(200, html::sign_out_page());
    }
    if request.method() != Method::Post {
        return api_error(&WireError::method_not_allowed());
    }
    if !from_own_page(request, edge) {
        return message(403, "Not from here", "This form has to be sent from the gateway's own page.");
    }
    // Access has a sign-out of its own, on the same host.
    let location = if edge.settings.auth.access().is_some() { "/cdn-cgi/access/logout" } else { "/" };
    let response = redirect(location)?;
    response.headers().append("set-cookie", &set_cookie(SESSION_COOKIE, "", 0))?;
    response.headers().append("set-cookie", &format!("{DEV_COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"))?;
    Ok(response)
}
