//! The administration API under `/api`: who may use it, and which part of the gateway answers.

use std::rc::Rc;
use std::time::Duration;

use worker::{Env, Request, Response, ResponseBuilder};

use super::approval_api::from_own_page;
use super::audit_export::audit_lines;
use super::authentication::{self, has_browser_cookie, person, program};
use super::clock::sleep;
use super::entry::{Edge, api_error};
use super::http::{BodyError, DRAINED_BYTES, drain_body, header, json_response, query_fields, read_body};
use super::import::Importing;
use super::import_room::place_for;
use super::organization as organization_object;
use super::platform::{log_failure, platform_failure};
use super::telemetry::log;
use super::webhooks;
use crate::auth::Principal;
use crate::config::Settings;
use crate::internal::{AdminAnswer, AdminQuestion, VERSION, Via};
use crate::organization;
use crate::organization::fault::Fault;
use crate::organization::keys::{is_key_route, parse_new_key};
use crate::organization::route::{AdminCall, Operation, is_route, is_tool, parse_call};
use crate::protocol::errors::WireError;
use crate::protocol::headers::is_json;

/// How far two clocks may be apart, in milliseconds.
const CLOCKS_MS: u64 = 250;
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
    let principal = match administrator(&request, edge, matches!(method.as_str(), "GET" | "HEAD")).await {
        Ok(principal) => principal,
        Err(error) => {
            let response = api_error(&error)?;
            if error.status == 401 {
                response.headers().set("www-authenticate", "Bearer")?;
            }
            return Ok(response);
        }
    };
    let format = edge.url.parameter("format").filter(|_| path == "audit");
    match format.as_deref() {
        None | Some("json") => {}
        Some("jsonl") if method == "GET" => {
            return match audit_lines(edge.env, &principal.organization).await {
                Ok(response) => Ok(response),
                Err(error) => {
                    log_failure("organization/audit-export", &platform_failure(&error));
                    api_error(&WireError::storage_unavailable())
                }
            };
        }
        Some(_) => return refuse(&Fault::field("format", "has to be json or jsonl")),
    }
    let has_body = matches!(method.as_str(), "PUT" | "POST" | "PATCH") && !path.ends_with("/refresh");
    if has_body && !is_json(header(request.headers(), "content-type").as_deref()) {
        return refuse(&Fault::new(415, "Content-Type must be application/json"));
    }
    let brings_document = method == "PUT" && path.starts_with("sources/");
    let limit = if brings_document { SOURCE_LIMIT } else { BODY_LIMIT };
    // Before the body is there: it is what takes the memory. What says that it is too large is not kept.
    let size = declared_length(&request).unwrap_or(SOURCE_LIMIT);
    let _place = if brings_document && size <= SOURCE_LIMIT {
        match place_for(size).await {
            Ok(place) => Some(place),
            Err(fault) => {
                drain_body(request.inner()).await;
                return refuse(&fault);
            }
        }
    } else {
        None
    };
    let body = match read_text(&mut request, limit).await {
        Ok(body) => body,
        Err(fault) => return refuse(&fault),
    };
    let query = query_fields(&edge.url);
    let call = AdminCall { method, path: path.to_owned(), query, body };
    if let Err(fault) = check_key_maker(edge, &principal, &call) {
        return refuse(&fault);
    }
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
    if asks.is_tool() && !is_tool(&call.path) {
        return Ok(AdminAnswer::fault(&Fault::new(
            403,
            "Keys, webhooks and stops are not looked at or changed by tools.",
        )));
    }
    let name = asks.principal.organization.as_str();
    let reads = operation.reads();
    let stops = matches!(operation, Operation::PutStop(..));
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not named is the organization object's")]
    let answer = match operation {
        Operation::PutSource(slug) => Importing { asks, slug: &slug }.put(call.body).await?,
        Operation::RefreshSource(slug) => Importing { asks, slug: &slug }.refresh().await?,
        Operation::PutWebhook(slug) => webhooks::put(asks, &slug, &call.body).await?,
        _ => {
            let (by, organization) = (asks.principal.account.clone(), name.to_owned());
            let question = AdminQuestion { version: VERSION, by, organization, via: asks.via.clone(), call };
            organization_object::administer(asks.env, name, &question).await?
        }
    };
    if !reads {
        // Sessions in this isolate need not wait for their five seconds.
        organization_object::catalog_changed(name);
        authentication::forget_all();
        log("admin_change", serde_json::json!({ "organization": name, "status": answer.status }));
    }
    if stops && answer.status < 300 {
        // What was looked up before counts for a moment yet; whoever gets the answer can rely on it that the moment is over.
        sleep(Duration::from_millis(organization_object::FRESH_MS + CLOCKS_MS)).await;
    }
    Ok(answer)
}

/// Who may administer: an account with the role, by its credential or, for the gateway's own pages, in a browser.
async fn administrator(request: &Request, edge: &Edge<'_>, reads: bool) -> Result<Principal, WireError> {
    let headers = request.headers();
    // A foreign page must not reach it through anybody's browser or machine.
    if header(headers, "origin").is_some() && !from_own_page(request, edge) {
        return Err(WireError::origin_not_allowed());
    }
    // Without a cookie it is development mode's own person, unless that asks programs for a token: an Origin is no token.
    let wants_token = edge.settings.auth.dev().is_some_and(|dev| dev.require_token);
    let is_browsers = header(headers, "authorization").is_none()
        && (has_browser_cookie(headers) || from_own_page(request, edge) && !wants_token);
    let principal = if is_browsers {
        let person = person(edge, headers).await.map_err(|refusal| refusal.error())?;
        if !reads && !from_own_page(request, edge) {
            return Err(WireError::forbidden("A change from a browser has to come from the gateway's own page."));
        }
        person
    } else {
        program(edge, headers).await.map_err(|refusal| refusal.error())?
    };
    if !principal.administers() {
        return Err(WireError::forbidden("The administration API needs an account with the role admin."));
    }
    Ok(principal)
}

/// Whether a principal may make the key that it asks for. Whatever is wrong with the request itself is said where it is read.
pub(super) fn check_key_maker(edge: &Edge<'_>, principal: &Principal, call: &AdminCall) -> Result<(), Fault> {
    if !is_key_route(&call.path) || call.method != "POST" {
        return Ok(());
    }
    if !edge.settings.auth.has_keys() {
        return Err(Fault::new(409, "This gateway takes no API keys: AUTH_MODE does not have \"keys\"."));
    }
    match parse_new_key(&call.body) {
        Ok(asked) if !principal.may_make_key_for(asked.purpose) => Err(Fault::new(
            403,
            "A key that decides or administers is made in a browser, or with a key that has the purpose admin: an agent can read the credential that it calls tools with.",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn read_text(request: &mut Request, limit: usize) -> Result<String, Fault> {
    let too_large = |size: Option<usize>| {
        let size = size.map(|size| format!(" of {size} bytes")).unwrap_or_default();
        Fault::new(413, format!("The body{size} is larger than {limit} bytes, the limit here"))
    };
    // What says that it is far too large need not be sent. Anything else is read to its end, so that the client gets the answer.
    let declared = declared_length(request);
    if let Some(size) = declared.filter(|size| *size > limit + DRAINED_BYTES) {
        return Err(too_large(Some(size)));
    }
    let bytes = read_body(request, limit).await.map_err(|error| match error {
        BodyError::TooLarge => too_large(declared),
        BodyError::Broken => Fault::new(400, "The body broke off"),
    })?;
    String::from_utf8(bytes).map_err(|_| Fault::new(400, "The body is not UTF-8"))
}

fn declared_length(request: &Request) -> Option<usize> {
    header(request.headers(), "content-length").and_then(|length| length.parse().ok())
}

fn refuse(fault: &Fault) -> worker::Result<Response> {
    let response = json_response(fault.status, &fault.body())?;
    if let Some(allow) = fault.allow {
        response.headers().set("allow", allow)?;
    }
    Ok(response)
}
