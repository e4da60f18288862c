//! The sign-in of an owner with a passphrase.

use serde_json::json;
use worker::{Method, Request, Response};

use super::sign_in::return_to;
use crate::auth::browser::{BrowserSession, SESSION_COOKIE, set_cookie};
use crate::auth::passphrase::FAILURE_WINDOW_MS;
use crate::auth::rate::address_name;
use crate::auth::settings::Owner;
use crate::console::pages as html;
use crate::protocol::errors::WireError;
use crate::shell::approval_api::from_own_page;
use crate::shell::clock::now;
use crate::shell::entry::{Edge, api_error};
use crate::shell::http::header;
use crate::shell::organization;
use crate::shell::pages::{error_page, field, message, plain_page, read_form, redirect};
use crate::shell::telemetry::log;

/// `GET` and `POST /sign-in`
pub(super) async fn sign_in(mut request: Request, edge: &Edge<'_>, owner: &Owner) -> worker::Result<Response> {
    match request.method() {
        Method::Get | Method::Head => return plain_page(200, html::owner_page(&return_to(edge), None)),
        Method::Post => {}
        Method::Put
        | Method::Patch
        | Method::Delete
        | Method::Options
        | Method::Connect
        | Method::Trace
        | Method::Report => {
            return api_error(&WireError::method_not_allowed());
        }
    }
    if !from_own_page(&request, edge) {
        return message(403, "Not from here", "This form has to be sent from the gateway's own page.");
    }
    let address = address_name(&header(request.headers(), "cf-connecting-ip").unwrap_or_default());
    let fields = match read_form(&mut request).await {
        Ok(fields) => fields,
        Err(error) => return error_page(&error),
    };
    let return_to = html::local_path(field(&fields, "return_to").unwrap_or_default()).to_owned();
    // A try counts as a failed one before the passphrase is looked at: a hundred at once are not a hundred tries.
    if !organization::may_sign_in(edge.env, &owner.organization, &address).await? {
        log("sign_in", json!({ "outcome": "limited" }));
        let seconds = FAILURE_WINDOW_MS / 1_000;
        let problem = "Too many failed tries. Wait a quarter of an hour, and try again.";
        let response = plain_page(429, html::owner_page(&return_to, Some(problem)))?;
        response.headers().set("retry-after", &seconds.to_string())?;
        return Ok(response);
    }
    if !owner.passphrase.is_of(field(&fields, "passphrase").unwrap_or_default()) {
        log("sign_in", json!({ "outcome": "refused", "status": 403 }));
        return plain_page(403, html::owner_page(&return_to, Some("That is not the passphrase.")));
    }
    organization::signed_in(edge.env, &owner.organization, &address).await?;
    let auth = &edge.settings.auth;
    let session = BrowserSession {
        via: owner.sign_in_name(),
        account: owner.account.clone(),
        organization: Some(owner.organization.clone()),
        admin: true,
        until: now().saturating_add(auth.sign_in_ms),
    };
    let Some(sealed) = auth.cookies.seal(SESSION_COOKIE, &session) else {
        return error_page(&WireError::authentication_unavailable());
    };
    log("sign_in", json!({ "outcome": "signed_in" }));
    let response = redirect(&return_to)?;
    response.headers().append("set-cookie", &set_cookie(SESSION_COOKIE, &sealed, auth.sign_in_ms / 1_000))?;
    Ok(response)
}
