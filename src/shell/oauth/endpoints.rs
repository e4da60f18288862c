//! What programs ask the authorization server: metadata, registration, tokens, revocation. Browser pages may ask as well, so
//! every answer has CORS headers; no cookie counts here.

use worker::{Method, Request, Response, ResponseBuilder};

use super::super::authentication::still_admitted;
use super::super::clock::now;
use super::super::entry::Edge;
use super::super::http::{BodyError, form_fields, header, is_form, read_body};
use super::super::organization;
use super::super::random::random_hex;
use super::{BODY_LIMIT, OAuth};
use crate::auth::{Outcome, Principal, Purpose};
use crate::oauth::{
    self, AccessClaims, GrantAnswer, GrantStep, Handle, OAuthError, TokenRequest, authorization_server_metadata,
    is_metadata_url, registered_client,
};
use crate::protocol::errors::WireError;
use crate::shell::entry::api_error;

/// `GET /.well-known/oauth-authorization-server` (RFC 8414)
pub(in crate::shell) fn metadata(request: &Request, edge: &Edge<'_>) -> worker::Result<Response> {
    match request.method() {
        Method::Get | Method::Head => answer(200, &authorization_server_metadata(&edge.origin)),
        Method::Options => preflight("GET"),
        Method::Post
        | Method::Put
        | Method::Patch
        | Method::Delete
        | Method::Connect
        | Method::Trace
        | Method::Report => api_error(&WireError::method_not_allowed()),
    }
}

/// `POST /oauth/register` (RFC 7591)
pub(in crate::shell) async fn register(mut request: Request, oauth: &OAuth<'_>) -> worker::Result<Response> {
    if let Some(response) = not_a_post(&request)? {
        return Ok(response);
    }
    let registered = match read_body(&mut request, BODY_LIMIT).await {
        Ok(body) => oauth::register(&oauth.signers.client, &body, now(), &random_hex::<8>()?),
        Err(error) => Err(unreadable(&error, "invalid_client_metadata")),
    };
    match registered {
        Ok(client) => answer(201, &client),
        Err(error) => failed(&error),
    }
}

/// `POST /oauth/token` (RFC 6749, section 3.2)
pub(in crate::shell) async fn token(mut request: Request, oauth: &OAuth<'_>) -> worker::Result<Response> {
    if let Some(response) = not_a_post(&request)? {
        return Ok(response);
    }
    match read_asked(&mut request, oauth, oauth::read_token_request).await {
        Ok((client, asked)) => give_tokens(oauth, client, asked).await,
        Err(error) => failed(&error),
    }
}

/// `POST /oauth/revoke` (RFC 7009)
pub(in crate::shell) async fn revoke(mut request: Request, oauth: &OAuth<'_>) -> worker::Result<Response> {
    if let Some(response) = not_a_post(&request)? {
        return Ok(response);
    }
    match read_asked(&mut request, oauth, oauth::read_revocation).await {
        Ok((client_id, token)) => {
            // What is no token of ours is answered alike (section 2.2). An access token ends by itself within minutes.
            let signers = &oauth.signers;
            if let Some(handle) = signers.refresh.read::<Handle>(&token).or_else(|| signers.code.read::<Handle>(&token))
            {
                let step = GrantStep::Revoke { grant: handle.grant, token, client_id };
                organization::grant_step(oauth.edge.env, &handle.organization, &step).await?;
            }
            answer(200, &serde_json::json!({}))
        }
        Err(error) => failed(&error),
    }
}

async fn give_tokens(oauth: &OAuth<'_>, client_id: String, asked: TokenRequest) -> worker::Result<Response> {
    let signers = &oauth.signers;
    let handle = match &asked {
        TokenRequest::Code { code, .. } => signers.code.read::<Handle>(code),
        TokenRequest::Refresh { token, .. } => signers.refresh.read::<Handle>(token),
    };
    // A text that this gateway never signed starts no object.
    let Some(handle) = handle else {
        return failed(&OAuthError::invalid_grant(oauth::Refused::Unknown.to_string()));
    };
    let next = signers.refresh.sign(&Handle { nonce: random_hex::<16>()?, ..handle.clone() })?;
    let lifetime_ms = oauth.settings.refresh_token_ms;
    let grant = handle.grant.clone();
    // Whoever has just agreed was looked at for that.
    let is_new = matches!(asked, TokenRequest::Code { .. });
    let step = match asked {
        TokenRequest::Code { code, verifier, redirect_uri, resource } => GrantStep::Code {
            grant,
            code,
            client_id,
            redirect_uri,
            verifier,
            resource,
            next: next.clone(),
            lifetime_ms,
        },
        TokenRequest::Refresh { token, resource } => {
            GrantStep::Refresh { grant, token, client_id, resource, next: next.clone(), lifetime_ms }
        }
    };
    match organization::grant_step(oauth.edge.env, &handle.organization, &step).await? {
        GrantAnswer::Given { account, admin, resource } => {
            let Handle { organization, grant, .. } = handle;
            let admitted = if is_new {
                Outcome::Authenticated(Principal {
                    account,
                    organization: organization.clone(),
                    admin,
                    purpose: Purpose::Mcp,
                })
            } else {
                still_admitted(oauth.edge, account, organization.clone(), admin).await
            };
            let (account, admin) = match admitted {
                Outcome::Authenticated(principal) => (principal.account, principal.admin),
                // Access is definitely lost: the client need not come again.
                Outcome::Forbidden(denial) => {
                    organization::grant_step(oauth.edge.env, &organization, &GrantStep::End { grant }).await?;
                    return failed(&OAuthError::invalid_grant(denial.message));
                }
                Outcome::Unavailable(_) | Outcome::Unauthorized { .. } => return unavailable(),
            };
            let lifetime_ms = oauth.settings.access_token_ms;
            let expires_at = now().saturating_add(lifetime_ms);
            let claims = AccessClaims { account, organization, admin, resource, grant, expires_at };
            answer(200, &oauth::token_answer(&signers.access.sign(&claims)?, &next, lifetime_ms))
        }
        GrantAnswer::Refused { reason } => failed(&OAuthError::invalid_grant(reason)),
        GrantAnswer::Done => failed(&OAuthError::invalid_grant("The gateway did not understand itself.".to_owned())),
    }
}

/// The id of the client that asks, which showed what it has to, and what it asks for.
async fn read_asked<T>(
    request: &mut Request,
    oauth: &OAuth<'_>,
    read: impl Fn(&[(String, String)]) -> Result<T, OAuthError>,
) -> Result<(String, T), OAuthError> {
    let form = read_form(request).await?;
    let client_id = authenticated(request, oauth, &form)?;
    Ok((client_id, read(&form)?))
}

/// The id of the client that asks, which showed what it has to.
fn authenticated(request: &Request, oauth: &OAuth<'_>, form: &[(String, String)]) -> Result<String, OAuthError> {
    let authorization = header(request.headers(), "authorization");
    let (id, shown) = oauth::read_credentials(form, authorization.as_deref())?;
    // One that is known by its document has no secret, and the grant tells whether it is its own.
    if is_metadata_url(&id) {
        return Ok(id);
    }
    let signer = &oauth.signers.client;
    let client = registered_client(signer, &id).ok_or_else(OAuthError::unknown_client)?;
    client.authenticate(signer, shown.as_ref())?;
    Ok(id)
}

async fn read_form(request: &mut Request) -> Result<Vec<(String, String)>, OAuthError> {
    if !is_form(request) {
        return Err(OAuthError::invalid_request("The body has to be application/x-www-form-urlencoded."));
    }
    let body = read_body(request, BODY_LIMIT).await.map_err(|error| unreadable(&error, "invalid_request"))?;
    Ok(form_fields(&body))
}

fn unreadable(error: &BodyError, code: &'static str) -> OAuthError {
    match error {
        BodyError::TooLarge => OAuthError::too_large(code, BODY_LIMIT),
        BodyError::Broken => OAuthError::invalid_request("The body broke off."),
    }
}

/// The answer to what is not a POST.
fn not_a_post(request: &Request) -> worker::Result<Option<Response>> {
    match request.method() {
        Method::Post => Ok(None),
        Method::Options => preflight("POST").map(Some),
        Method::Get
        | Method::Head
        | Method::Put
        | Method::Patch
        | Method::Delete
        | Method::Connect
        | Method::Trace
        | Method::Report => api_error(&WireError::method_not_allowed()).map(Some),
    }
}

fn preflight(method: &str) -> worker::Result<Response> {
    Ok(ResponseBuilder::new()
        .with_status(204)
        .with_header("access-control-allow-origin", "*")?
        .with_header("access-control-allow-methods", method)?
        .with_header("access-control-allow-headers", "content-type, authorization, mcp-protocol-version")?
        .with_header("access-control-max-age", "86400")?
        .empty())
}

fn answer(status: u16, body: &serde_json::Value) -> worker::Result<Response> {
    Ok(ResponseBuilder::new()
        .with_status(status)
        .with_header("content-type", "application/json")?
        .with_header("cache-control", "no-store")?
        .with_header("x-content-type-options", "nosniff")?
        .with_header("access-control-allow-origin", "*")?
        .fixed(body.to_string().into_bytes()))
}

/// It cannot be told just now whether the account has access. The client asks again with what it has, which counts for a while.
fn unavailable() -> worker::Result<Response> {
    let error = OAuthError {
        status: 503,
        code: "temporarily_unavailable",
        description: "Membership cannot be looked up just now - please retry.".to_owned(),
    };
    let response = failed(&error)?;
    response.headers().set("retry-after", "2")?;
    Ok(response)
}

fn failed(error: &OAuthError) -> worker::Result<Response> {
    let response = answer(error.status, &error.body())?;
    if error.status == 401 {
        // Whoever used Basic has to be told how (RFC 6749, section 5.2).
        response.headers().set("www-authenticate", "Basic realm=\"Countersign\"")?;
    }
    Ok(response)
}
