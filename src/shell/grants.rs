//! Grants: `/api/grants`, and their page. Members see and revoke what is of their sessions and what they gave; administrators all.

use worker::{Method, Request, Response};

use super::approval_api::{from_own_page, is_programs, refuse};
use super::authentication::{person, program};
use super::entry::{Edge, api_error};
use super::http::{json_response, query_fields};
use super::organization;
use super::pages::{THIS_FORM, Visit, error_page, field, message, name_of, not_signed_in, page, redirect, visit};
use super::platform::{log_failure, platform_failure};
use crate::auth::{Principal, Purpose};
use crate::console::pages as html;
use crate::internal::{AdminAnswer, GrantsQuestion, VERSION};
use crate::organization::cursor::{Page, parse_page};
use crate::organization::fault::Fault;
use crate::organization::grant::is_grant_id;
use crate::protocol::errors::WireError;

/// `GET /api/grants` and `DELETE /api/grants/<id>`
pub(super) async fn api(request: &Request, edge: &Edge<'_>, id: Option<&str>) -> worker::Result<Response> {
    let (allowed, revokes) = match id {
        None => (matches!(request.method(), Method::Get | Method::Head), false),
        Some(_) => (request.method() == Method::Delete, true),
    };
    if !allowed {
        let response = api_error(&WireError::method_not_allowed())?;
        response.headers().set("allow", if revokes { "DELETE" } else { "GET" })?;
        return Ok(response);
    }
    let principal = match who(request, edge, revokes).await {
        Ok(principal) => principal,
        Err(error) => return refuse(&error),
    };
    match ask(edge, &principal, id).await? {
        Ok(answer) => json_response(answer.status, &answer.body),
        Err(error) => refuse(&error),
    }
}

/// `GET` and `POST /grants`: the list, and the form that revokes one.
pub(super) async fn grants_page(mut request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    let person = match super::pages::person(&request, edge).await {
        Ok(person) => person,
        Err(error) => return not_signed_in(&request, edge, &error),
    };
    match visit(&mut request, edge, THIS_FORM).await? {
        Visit::Looks => match ask(edge, &person, None).await? {
            Ok(answer) if answer.status == 200 => page(200, html::grants_page(&answer.body, &name_of(&person))),
            Ok(answer) => message(answer.status, "That cannot be done", "This is no page of the list."),
            Err(error) => error_page(&error),
        },
        Visit::Sends(fields) => {
            let (Some("revoke"), Some(id)) = (field(&fields, "action"), field(&fields, "grant")) else {
                return message(400, "That cannot be done", "The form was incomplete. Go back and try again.");
            };
            match ask(edge, &person, Some(id)).await? {
                // One that is gone already is not in the list any more.
                Ok(AdminAnswer { status: 200 | 404, .. }) => redirect("/grants"),
                Ok(answer) => message(answer.status, "That cannot be done", "The grant could not be revoked."),
                Err(error) => error_page(&error),
            }
        }
        Visit::Refused(response) => Ok(response),
    }
}

/// Asks the organization for a page, or to revoke one.
async fn ask(
    edge: &Edge<'_>,
    principal: &Principal,
    revoke: Option<&str>,
) -> worker::Result<Result<AdminAnswer, WireError>> {
    if revoke.is_some_and(|id| !is_grant_id(id)) {
        return Ok(Ok(AdminAnswer::fault(&Fault::missing("grant with that id"))));
    }
    let query = query_fields(&edge.url);
    let page = match revoke {
        None => match parse_page("grants", &query) {
            Ok(page) => page,
            Err(fault) => return Ok(Ok(AdminAnswer::fault(&fault))),
        },
        Some(_) => Page { after: None, limit: 1 },
    };
    let question = GrantsQuestion {
        version: VERSION,
        account: principal.account.clone(),
        admin: principal.admin,
        page,
        revoke: revoke.map(ToOwned::to_owned),
    };
    Ok(match organization::grants(edge.env, &principal.organization, &question).await {
        Ok(answer) => Ok(answer),
        Err(error) => {
            log_failure("organization/grants", &platform_failure(&error));
            Err(WireError::storage_unavailable())
        }
    })
}

/// A person in a browser, or a program whose credential decides or administers. An agent's own bearer is neither.
async fn who(request: &Request, edge: &Edge<'_>, changes: bool) -> Result<Principal, WireError> {
    let headers = request.headers();
    if is_programs(headers) {
        let principal = program(edge, headers).await.map_err(|refusal| refusal.error())?;
        if principal.purpose == Purpose::Mcp && !principal.admin {
            let message =
                "This credential calls tools. Use the page /grants, or a credential with the purpose approve.";
            return Err(WireError::forbidden(message));
        }
        return Ok(principal);
    }
    let person = person(edge, headers).await.map_err(|refusal| refusal.error())?;
    if changes && !from_own_page(request, edge) {
        return Err(WireError::forbidden("A change from a browser has to come from the gateway's own page."));
    }
    Ok(person)
}
