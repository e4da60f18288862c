//! The Worker's entry: CORS, method, `Origin`, authentication, routing. Picks the Durable Object,
//! adds the verified identity, and returns what the object answers, unchanged.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde_json::json;
use worker::{Env, Headers, Method, Request, Response, ResponseBuilder, Stub, event, wasm_bindgen};

use super::http::{
    correlation, error_response, header, json_response, load_settings, new_session, own_request, platform_failure,
    read_post,
};
use super::organization;
use super::pages;
use super::telemetry::{log, log_error};
use crate::auth::{Outcome, Principal, Purpose};
use crate::config::Settings;
use crate::internal::{CONTEXT_HEADER, Context, HEADER_PREFIX, Operation, VERSION};
use crate::protocol::cors::{self, is_loopback, origin_is_allowed};
use crate::protocol::errors::WireError;
use crate::session::failure::{Disposition, PlatformFailure, RELOCATED, classify, wire_error};
use crate::session::id::is_session_id;

/// Tries of the first call of a session when its object is just being moved.
const OPEN_TRIES: u32 = 4;

#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: worker::Context) -> worker::Result<Response> {
    let mcp = is_mcp(&request);
    let reason = match AssertUnwindSafe(route(request, &env)).catch_unwind().await {
        Ok(Ok(response)) => return Ok(response),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "panic".to_owned(),
    };
    let error = WireError::internal(&correlation(&reason));
    if mcp { error_response(&error, None) } else { api_error(&error) }
}

/// Whether an answer has to carry the headers of `/mcp`.
fn is_mcp(request: &Request) -> bool {
    request.path().starts_with("/mcp")
}

/// What every handler at the edge knows.
pub(super) struct Edge<'a> {
    pub(super) env: &'a Env,
    pub(super) settings: Settings,
    /// The request's URL.
    pub(super) url: url::Url,
    /// The gateway's own origin.
    pub(super) origin: String,
}

async fn route(request: Request, env: &Env) -> worker::Result<Response> {
    let settings = match load_settings(env) {
        Ok(settings) => settings,
        Err(error) => {
            log_error("mcp_settings_invalid", json!({ "reason": error.to_string() }));
            let error = WireError { message: error.to_string(), ..WireError::internal("") };
            return if is_mcp(&request) { error_response(&error, None) } else { api_error(&error) };
        }
    };
    let url = request.url()?;
    // Development mode believes every name: only this machine may use it, and nothing that came
    // through the platform's edge.
    if !is_loopback(&url) || request.headers().has("cf-ray")? {
        let error = WireError::forbidden(
            "This gateway runs in development mode (AUTH_MODE=dev), which answers on loopback addresses only.",
        );
        return if is_mcp(&request) { error_response(&error, None) } else { api_error(&error) };
    }
    let origin = settings.public_origin.clone().unwrap_or_else(|| url.origin().ascii_serialization());
    let edge = Edge { env, settings, url, origin };
    let path = edge.url.path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["mcp"] => mcp(request, &edge, "default").await,
        [".well-known", "oauth-protected-resource"] | [".well-known", "oauth-protected-resource", "mcp"] => {
            resource_metadata(&request, &edge)
        }
        ["health"] => json_response(200, &json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") })),
        ["demo", ..] => demo(request, &edge).await,
        [""] => pages::home(&request, &edge),
        ["sign-in"] => pages::sign_in(request, &edge).await,
        ["assets", ..] => pages::asset(&path),
        ["resume", execution] => pages::approval(request, &edge, execution).await,
        ["api", "mcp-sessions", session, "executions", execution] => {
            super::approval_api::read(&request, &edge, session, execution).await
        }
        ["api", "mcp-sessions", session, "executions", execution, "resume"] => {
            super::approval_api::decide(request, &edge, session, execution).await
        }
        ["mcp", "toolkits", _] => error_response(&WireError::no_such_route(), None),
        _ => api_error(&WireError::no_such_route()),
    }
}

/// An error outside `/mcp`.
pub(super) fn api_error(error: &WireError) -> worker::Result<Response> {
    let mut builder = ResponseBuilder::new()
        .with_status(error.status)
        .with_header("content-type", "application/json")?
        .with_header("cache-control", "no-store")?;
    if let Some(seconds) = error.retry_after {
        builder = builder.with_header("retry-after", &seconds.to_string())?;
    }
    Ok(builder.fixed(error.body(None).into_bytes()))
}

// ---- /mcp ---------------------------------------------------------------------------------------

async fn mcp(request: Request, edge: &Edge<'_>, resource: &str) -> worker::Result<Response> {
    let method = request.method();
    let headers = request.headers();
    // 1. Preflight, before authentication.
    if method == Method::Options {
        let mut builder = ResponseBuilder::new().with_status(204);
        for (name, value) in cors::preflight_headers(header(headers, "access-control-request-headers").as_deref()) {
            builder = builder.with_header(name, &value)?;
        }
        return Ok(builder.empty());
    }
    // 2. Methods.
    if !matches!(method, Method::Get | Method::Post | Method::Delete) {
        return error_response(&WireError::method_not_allowed(), None);
    }
    // 3. Pages that may call: DNS rebinding and foreign pages end here.
    if let Some(page) = header(headers, "origin")
        && !origin_is_allowed(&page, &edge.origin, &edge.settings.allowed_origins)
    {
        return error_response(&WireError::origin_not_allowed(), None);
    }
    // 4. Who asks.
    let principal = match edge.settings.dev.authenticate(header(headers, "authorization").as_deref()) {
        Outcome::Authenticated(principal) => principal,
        Outcome::Unauthorized { problem } => return unauthorized(edge, problem),
        Outcome::Forbidden(message) => return error_response(&WireError::forbidden(message), None),
    };
    if principal.purpose != Purpose::Mcp {
        return error_response(
            &WireError::forbidden("This credential decides on approvals; it cannot be used to call tools."),
            None,
        );
    }
    // 5. Which session.
    let context = context_of(edge, principal, resource, Operation::Mcp);
    match header(headers, "mcp-session-id") {
        None if method == Method::Delete => Ok(super::http::mcp_response(200)?.empty()),
        None if method == Method::Get => error_response(&WireError::session_id_required_for_sse(), None),
        None => open(request, edge, context, WireError::session_id_required()).await,
        Some(id) => match session_stub(edge.env, &id) {
            Some(stub) => forward(request, &stub, &context).await,
            // A client may keep the id of another gateway and initialise with it.
            None if method == Method::Post => open(request, edge, context, WireError::session_not_found()).await,
            None => error_response(&WireError::session_not_found(), None),
        },
    }
}

fn unauthorized(edge: &Edge<'_>, problem: Option<&str>) -> worker::Result<Response> {
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", edge.origin);
    let mut challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    if let Some(problem) = problem {
        challenge = format!("{challenge}, error=\"invalid_token\", error_description=\"{problem}\"");
    }
    let response = error_response(&WireError::unauthorized(), None)?;
    response.headers().set("www-authenticate", &challenge)?;
    Ok(response)
}

pub(super) fn context_of(edge: &Edge<'_>, principal: Principal, resource: &str, operation: Operation) -> Context {
    Context {
        version: VERSION,
        principal,
        resource: resource.to_owned(),
        public_origin: edge.origin.clone(),
        operation,
    }
}

/// The object of a session id; `None` where the id is not one that this gateway made.
pub(super) fn session_stub(env: &Env, id: &str) -> Option<Stub> {
    if !is_session_id(id) {
        return None;
    }
    env.durable_object("SESSION").ok()?.id_from_string(id).ok()?.get_stub().ok()
}

/// A POST without a session: `initialize` opens one, anything else is `otherwise`.
async fn open(
    mut request: Request,
    edge: &Edge<'_>,
    context: Context,
    otherwise: WireError,
) -> worker::Result<Response> {
    let post = match read_post(&mut request).await {
        Ok(post) => post,
        Err((error, id)) => return error_response(&error, id.as_ref()),
    };
    if post.message.has_initialize_among_others() {
        let error = WireError::invalid_request("initialize must not be part of a batch");
        return error_response(&error, None);
    }
    if !post.message.is_initialize() {
        let id = post.message.request_id().cloned();
        return error_response(&otherwise, id.as_ref());
    }
    let context = Context { operation: Operation::Open, ..context };
    let body = String::from_utf8_lossy(&post.bytes).into_owned();
    let mut tries = 0;
    loop {
        tries += 1;
        let new = own_request(edge.url.as_str(), &context, &body)?;
        if let Some(accept) = header(request.headers(), "accept") {
            new.headers().set("accept", &accept)?;
        }
        match new_session(edge.env, &edge.settings)?.fetch_with_request(new).await {
            Ok(response) => return Ok(response),
            Err(error) => {
                let failure = platform_failure(&error);
                if classify(&failure).0 == RELOCATED && tries < OPEN_TRIES {
                    // Jittered, from 25 ms: the object of a new session has nothing to lose.
                    let jitter = super::random::random_bytes::<1>()?.first().copied().unwrap_or_default();
                    let wait = (25_u64 << tries) / 2 + u64::from(jitter) % 25;
                    worker::Delay::from(std::time::Duration::from_millis(wait)).await;
                    continue;
                }
                return platform_failure_response("initialize", &failure);
            }
        }
    }
}

/// Hands a request to its session object; the body is not read here.
async fn forward(request: Request, stub: &Stub, context: &Context) -> worker::Result<Response> {
    let method = request.method();
    let request = with_context(&request, context)?;
    match stub.fetch_with_request(request).await {
        Ok(response) => Ok(response),
        Err(error) => platform_failure_response(method.as_ref(), &platform_failure(&error)),
    }
}

fn with_context(request: &Request, context: &Context) -> worker::Result<Request> {
    let headers = Headers::new();
    for (name, value) in request.headers().entries() {
        // What claims to come from this gateway comes from outside here.
        if !name.to_ascii_lowercase().starts_with(HEADER_PREFIX) {
            headers.append(&name, &value)?;
        }
    }
    headers.set(CONTEXT_HEADER, &context.encode())?;
    let init = web_sys::RequestInit::new();
    init.set_headers(headers.0.as_ref());
    let new = web_sys::Request::new_with_request_and_init(request.inner(), &init)?;
    Ok(new.into())
}

// ---- platform failures --------------------------------------------------------------------------

pub(super) fn platform_failure_response(operation: &str, failure: &PlatformFailure) -> worker::Result<Response> {
    let (kind, disposition) = classify(failure);
    let name = match disposition {
        Disposition::Dead => "dead",
        Disposition::Transient => "transient",
        Disposition::Overloaded => "overloaded",
        Disposition::Unknown => "unknown",
    };
    log(
        "mcp_durable_object_platform_failure",
        json!({ "operation": operation, "resetKind": kind, "disposition": name }),
    );
    match wire_error(disposition) {
        Some(error) => error_response(&error, None),
        None => error_response(&WireError::internal(&correlation(&failure.messages.join(" / "))), None),
    }
}

/// Calls a session object for a page or the approval API.
pub(super) async fn ask_session(stub: &Stub, context: &Context, body: &str) -> worker::Result<Response> {
    match stub.fetch_with_request(own_request("https://session.internal/", context, body)?).await {
        Ok(response) => Ok(response),
        Err(error) => platform_failure_response("approval", &platform_failure(&error)),
    }
}

// ---- small routes -------------------------------------------------------------------------------

/// RFC 9728, section 2. `resource` is exactly the endpoint's URL.
fn resource_metadata(request: &Request, edge: &Edge<'_>) -> worker::Result<Response> {
    if !matches!(request.method(), Method::Get | Method::Head | Method::Options) {
        return api_error(&WireError::method_not_allowed());
    }
    let response = json_response(
        200,
        &json!({
            "resource": format!("{}/mcp", edge.origin),
            "resource_name": "Countersign",
            "bearer_methods_supported": ["header"],
        }),
    )?;
    response.headers().set("access-control-allow-origin", "*")?;
    Ok(response)
}

/// The demo API, for looking at it directly. Each organization has its own.
async fn demo(request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    match edge.settings.dev.authenticate(header(request.headers(), "authorization").as_deref()) {
        // A foreign page must not reach it through the browser of whoever tries this out.
        Outcome::Authenticated(_)
            if header(request.headers(), "origin")
                .is_some_and(|page| !origin_is_allowed(&page, &edge.origin, &edge.settings.allowed_origins)) =>
        {
            api_error(&WireError::origin_not_allowed())
        }
        Outcome::Authenticated(principal) => organization::demo(edge.env, &principal.organization, request).await,
        Outcome::Unauthorized { .. } => api_error(&WireError::unauthorized()),
        Outcome::Forbidden(message) => api_error(&WireError::forbidden(message)),
    }
}
