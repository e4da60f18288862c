//! The sign-in of an owner with a passphrase.

use serde_json::json;
use worker::{Request, Response};

use super::sign_in::{return_to, signed_in};
use crate::auth::browser::BrowserSession;
use crate::auth::passphrase::FAILURE_WINDOW_MS;
use crate::auth::rate::address_name;
use crate::auth::settings::Owner;
use crate::console::pages as html;
use crate::protocol::errors::WireError;
use crate::shell::clock::now;
use crate::shell::entry::Edge;
use crate::shell::http::header;
use crate::shell::organization;
use crate::shell::pages::{THIS_FORM, Visit, error_page, field, plain_page, visit};
use crate::shell::telemetry::log;

/// `GET` and `POST /sign-in`
pub(super) async fn sign_in(mut request: Request, edge: &Edge<'_>, owner: &Owner) -> worker::Result<Response> {
    let fields = match visit(&mut request, edge, THIS_FORM).await? {
        Visit::Looks => return plain_page(200, html::owner_page(&return_to(edge), None)),
        Visit::Sends(fields) => fields,
        Visit::Refused(response) => return Ok(response),
    };
    let address = address_name(&header(request.headers(), "cf-connecting-ip").unwrap_or_default());
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
    let session = BrowserSession {
        via: owner.sign_in_name(),
        account: owner.account.clone(),
        organization: Some(owner.organization.clone()),
        admin: true,
        until: now().saturating_add(edge.settings.auth.sign_in_ms),
    };
    match signed_in(edge, &session, &return_to)? {
        Some(response) => Ok(response),
        None => error_page(&WireError::authentication_unavailable()),
    }
}
