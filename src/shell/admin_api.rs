//! The administration API under `/api`: who may use it, and which part of the gateway answers.

use std::rc::Rc;

use worker::{Env, Request, Response, ResponseBuilder};

use super::approval_api::{cookie, from_own_page};
use super::entry::{Edge, api_error};
use super::http::{BodyError, DRAINED_BYTES, header, json_response, read_body};
use super::import::Importing;
use super::organization as organization_object;
use super::platform::{log_failure, platform_failure};
use super::telemetry::log;
use crate::auth::{Outcome, Principal, Purpose};
use crate::config::Settings;
use crate::internal::{AdminAnswer, AdminQuestion, VERSION, Via};
use crate::organization;
use crate::organization::fault::Fault;
use crate::organization::route::{AdminCall, Operation, is_route, parse_call};
use crate::protocol::errors::WireError;
use crate::protocol::headers::is_json;

/// Bytes of a body, but for a source, which brings its document.
const BODY_LIMIT: usize = 1 << 20;
/// Bytes of a body with a document. An isolate has 128 MB for everything, and a text inside of JSON is there twice for a
/// moment; `tests/catalog.test.mjs` imports a document of this size.
pub(super) const SOURCE_LIMIT: usize = 24 << 20;

/// `/api/openapi.json`
pub(super) fn document(request: &Request) -> worker::Result<Response> {
    if !matches!(request.method(), worker::Method::Get | worker::Method::Head) {
        return refuse(&Fault::method("GET"));
    }
    Ok(ResponseBuilder::new()
        .with_header("content-type", "application/json")?
        .with_header("x-content-type-options", "nosniff")?
        .fixed(organization::DOCUMENT.as_bytes().to_vec()))
}

/// Any other route under `/api` that belongs to administration; `path` is what follows `/api/`.
pub(super) async fn administer(mut request: Request, edge: &Edge<'_>, path: &str) -> worker::Result<Response> {
    if !is_route(path) {
        return api_error(&WireError::no_such_route());
    }
    let method = request.method().to_string();
    let principal = match administrator(&request, edge, matches!(method.as_str(), "GET" | "HEAD")) {
        Ok(principal) => principal,
        Err(error) => {
            let response = api_error(&error)?;
            if error.status == 401 {
                response.headers().set("www-authenticate", "Bearer")?;
            }
            return Ok(response);
        }
    };
    let has_body = matches!(method.as_str(), "PUT" | "POST" | "PATCH") && !path.ends_with("/refresh");
    if has_body && !is_json(header(request.headers(), "content-type").as_deref()) {
        return refuse(&Fault::new(415, "Content-Type must be application/json"));
    }
    let limit = if method == "PUT" && path.starts_with("sources/") { SOURCE_LIMIT } else { BODY_LIMIT };
    let body = match read_text(&mut request, limit).await {
        Ok(body) => body,
        Err(fault) => return refuse(&fault),
    };
    let query = edge.url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let call = AdminCall { method, path: path.to_owned(), query, body };
    let asks = Asks { env: edge.env, settings: &edge.settings, principal: &principal, via: Via::Api };
    let answer = match perform(&asks, call).await {
        Ok(answer) => answer,
        Err(error) => {
            log_failure("organization/admin", &platform_failure(&error));
            return api_error(&WireError::storage_unavailable());
        }
    };
    let response = json_response(answer.status, &answer.body)?;
    if let Some(allow) = &answer.allow {
        response.headers().set("allow", allow)?;
    }
    Ok(response)
}

/// Who asks, and what for.
pub(super) struct Asks<'a> {
    pub(super) env: &'a Env,
    pub(super) settings: &'a Rc<Settings>,
    pub(super) principal: &'a Principal,
    /// How it is asked.
    pub(super) via: Via,
}

impl Asks<'_> {
    /// Whether it comes from a tool: the arguments were seen by a model.
    pub(super) fn is_tool(&self) -> bool {
        matches!(self.via, Via::Tool { .. })
    }
}

/// Carries out a request of somebody whose role was checked.
pub(super) async fn perform(asks: &Asks<'_>, call: AdminCall) -> worker::Result<AdminAnswer> {
    let operation = match parse_call(&call) {
        Ok(operation) => operation,
        Err(fault) => return Ok(AdminAnswer::fault(&fault)),
    };
    let name = asks.principal.organization.as_str();
    let reads = operation.reads();
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not an import is the organization object's")]
    let answer = match operation {
        Operation::PutSource(slug) => Importing { asks, slug: &slug }.put(&call.body).await?,
        Operation::RefreshSource(slug) => Importing { asks, slug: &slug }.refresh().await?,
        _ => {
            let question =
                AdminQuestion { version: VERSION, by: asks.principal.account.clone(), via: asks.via.clone(), call };
            organization_object::administer(asks.env, name, &question).await?
        }
    };
    if !reads {
        // Sessions in this isolate need not wait for their five seconds.
        organization_object::catalog_changed(name);
        log("admin_change", serde_json::json!({ "organization": name, "status": answer.status }));
    }
    Ok(answer)
}

/// Who may administer: an account with the role, by its bearer or, for the gateway's own pages, in a browser.
fn administrator(request: &Request, edge: &Edge<'_>, reads: bool) -> Result<Principal, WireError> {
    let role = "The administration API needs an account with the role admin.";
    // A foreign page must not reach it through anybody's browser or machine.
    if header(request.headers(), "origin").is_some() && !from_own_page(request, edge) {
        return Err(WireError::origin_not_allowed());
    }
    let principal = match header(request.headers(), "authorization") {
        Some(authorization) => match edge.settings.dev.authenticate(Some(&authorization)) {
            Outcome::Authenticated(principal) => principal,
            Outcome::Unauthorized { .. } => return Err(WireError::unauthorized()),
            Outcome::Forbidden(message) => return Err(WireError::forbidden(message)),
        },
        None if cookie(request).is_some() || from_own_page(request, edge) => {
            if edge.settings.dev.require_token && cookie(request).is_none() {
                return Err(WireError::unauthorized());
            }
            if !reads && !from_own_page(request, edge) {
                return Err(WireError::forbidden("A change from a browser has to come from the gateway's own page."));
            }
            edge.settings.dev.person(cookie(request).as_deref())
        }
        None => match edge.settings.dev.authenticate(None) {
            Outcome::Authenticated(principal) => principal,
            Outcome::Unauthorized { .. } => return Err(WireError::unauthorized()),
            Outcome::Forbidden(message) => return Err(WireError::forbidden(message)),
        },
    };
    if !principal.admin || principal.purpose == Purpose::Approve {
        return Err(WireError::forbidden(role));
    }
    Ok(principal)
}

async fn read_text(request: &mut Request, limit: usize) -> Result<String, Fault> {
    let too_large = |size: Option<usize>| {
        let size = size.map(|size| format!(" of {size} bytes")).unwrap_or_default();
        Fault::new(413, format!("The body{size} is larger than {limit} bytes, the limit here"))
    };
    // What says that it is far too large need not be sent. Anything else is read to its end, so that the client gets the answer.
    let declared = header(request.headers(), "content-length").and_then(|length| length.parse::<usize>().ok());
    if let Some(size) = declared.filter(|size| *size > limit + DRAINED_BYTES) {
        return Err(too_large(Some(size)));
    }
    let bytes = read_body(request, limit).await.map_err(|error| match error {
        BodyError::TooLarge => too_large(declared),
        BodyError::Broken => Fault::new(400, "The body broke off"),
    })?;
    String::from_utf8(bytes).map_err(|_| Fault::new(400, "The body is not UTF-8"))
}

fn refuse(fault: &Fault) -> worker::Result<Response> {
    let response = json_response(fault.status, &fault.body())?;
    if let Some(allow) = fault.allow {
        response.headers().set("allow", allow)?;
    }
    Ok(response)
}
