//! The Worker's entry: CORS, method, `Origin`, authentication, routing. Picks the Durable Object,
//! adds the verified identity, and returns what the object answers, unchanged.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};
use serde_json::json;
use worker::{Env, Method, Request, Response, ResponseBuilder, event, wasm_bindgen};

use super::authentication::{self, Presented, program};
use super::clock::now;
use super::console;
use super::http::{Incoming, correlation, error_response, forwarded, header, json_response, load_settings};
use super::mcp_edge::{DEFAULT_RESOURCE, Next, answer_of, decide, is_slug, mcp, refuse_early, resource_url};
use super::oauth;
use super::organization;
use super::pages;
use super::telemetry::{log, log_error};
use crate::auth::Principal;
use crate::config::Settings;
use crate::internal::{Asked, Context, Operation};
use crate::oauth::SCOPE;
use crate::protocol::cors::{is_loopback, origin_is_allowed};
use crate::protocol::errors::WireError;
use crate::protocol::text::bounded;
use crate::protocol::trace::Trace;
use crate::session::id::is_session_id;

#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// The way of nearly every request, a POST to a session: what `light.js` hands to the object, whose answer then goes to the
/// client without coming back into wasm. Gives the session's id and the context, one to a line; nothing where [`fetch`] has to
/// do it.
#[wasm_bindgen::prelude::wasm_bindgen]
#[allow(unreachable_pub, reason = "the entry calls it")]
#[must_use]
pub fn quick(description: String, env: &Env) -> Option<String> {
    let incoming = Incoming::parse(description);
    let url = parse_url(incoming.url()).ok().filter(|url| url.path() == "/mcp")?;
    let edge = edge(&incoming, url, env, None).ok()?;
    if !matches!(refuse_early(&incoming, &edge), Ok(None)) {
        return None;
    }
    // Whoever was not seen a moment ago goes the slow way, where signatures and keys are looked at.
    let principal = authentication::known(&edge.settings, Presented::of(&incoming, &edge.origin, DEFAULT_RESOURCE))?;
    match decide(&incoming, &edge, DEFAULT_RESOURCE, principal) {
        Ok(Next::Forward(context, id)) if context.asked.held => Some(handed_on(id, &context)),
        Ok(Next::Answer(_) | Next::Open(..) | Next::Forward(..)) | Err(_) => None,
    }
}

fn handed_on(id: &str, context: &Context) -> String {
    let mut text = String::with_capacity(512);
    text.push_str(id);
    text.push('\n');
    context.encode_into(&mut text);
    text
}

/// What becomes of a [`quick`] request that did not get through.
#[wasm_bindgen::prelude::wasm_bindgen]
#[allow(unreachable_pub, reason = "the entry calls it")]
pub fn settle(
    request: &web_sys::Request,
    answer: wasm_bindgen::JsValue,
) -> Result<web_sys::Response, wasm_bindgen::JsValue> {
    let started = now();
    let incoming = Incoming::read(request)?;
    let id = incoming.header("mcp-session-id").unwrap_or_default();
    let response = answer_of(&incoming, id, forwarded(answer))?;
    log_request(&incoming, response.status(), started);
    Ok(response)
}

#[event(fetch)]
async fn fetch(request: web_sys::Request, env: Env, context: worker::Context) -> worker::Result<web_sys::Response> {
    let started = now();
    // They say which headers are read. What is wrong with them is said below, in the answer.
    let _ = load_settings(&env);
    let incoming = Incoming::read(&request)?;
    let url = parse_url(incoming.url())?;
    let is_mcp = is_mcp(&url);
    let internal = |reason: &str| refusal(is_mcp, &WireError::internal(&correlation(reason)));
    let routed = route(request, &incoming, Rc::clone(&url), &env, &context);
    let response = match AssertUnwindSafe(routed).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => internal(&error.to_string())?,
        Err(_) => internal("panic")?,
    };
    if is_mcp {
        log_request(&incoming, response.status(), started);
    }
    Ok(response)
}

fn log_request(incoming: &Incoming, status: u16, started: u64) {
    let session = incoming.header("mcp-session-id").filter(|id| is_session_id(id));
    log(
        "mcp_request",
        json!({
            "method": bounded(incoming.method(), 20),
            "status": status,
            "durationMs": now().saturating_sub(started),
            "sessionId": session,
        }),
    );
}

thread_local! {
    /// The last URL: an isolate mostly sees the same one.
    static LAST_URL: RefCell<Option<(String, Rc<Address>)>> = const { RefCell::new(None) };
}

/// A URL, and what is asked of it at every request.
pub(super) struct Address {
    url: url::Url,
    origin: String,
    is_loopback: bool,
}

impl Address {
    /// The first value that the query has under a name.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }
}

impl std::ops::Deref for Address {
    type Target = url::Url;

    fn deref(&self) -> &url::Url {
        &self.url
    }
}

fn parse_url(text: &str) -> worker::Result<Rc<Address>> {
    let known =
        LAST_URL.with_borrow(|last| last.as_ref().filter(|(known, _)| known == text).map(|(_, url)| Rc::clone(url)));
    if let Some(known) = known {
        return Ok(known);
    }
    let url = url::Url::parse(text)?;
    let (origin, is_loopback) = (url.origin().ascii_serialization(), is_loopback(&url));
    let url = Rc::new(Address { url, origin, is_loopback });
    LAST_URL.set(Some((text.to_owned(), Rc::clone(&url))));
    Ok(url)
}

/// Whether an answer has to carry the headers of `/mcp`.
fn is_mcp(url: &url::Url) -> bool {
    url.path().starts_with("/mcp")
}

fn refusal(is_mcp: bool, error: &WireError) -> worker::Result<web_sys::Response> {
    let response = if is_mcp { error_response(error, None) } else { api_error(error) };
    response.map(Into::into)
}

/// What every handler at the edge knows.
pub(super) struct Edge<'a> {
    pub(super) env: &'a Env,
    /// For what goes on after the answer.
    pub(super) context: Option<&'a worker::Context>,
    pub(super) settings: Rc<Settings>,
    /// The request's URL.
    pub(super) url: Rc<Address>,
    /// The gateway's own origin.
    pub(super) origin: String,
}

/// What every handler needs, or why nothing is served.
fn edge<'a>(
    incoming: &Incoming,
    url: Rc<Address>,
    env: &'a Env,
    context: Option<&'a worker::Context>,
) -> Result<Edge<'a>, WireError> {
    let settings =
        load_settings(env).map_err(|error| WireError { message: error.to_string(), ..WireError::internal("") })?;
    // Development mode believes every name: only this machine may use it, and nothing that came
    // through the platform's edge.
    if settings.auth.dev().is_some() && (!url.is_loopback || incoming.header("cf-ray").is_some()) {
        let message =
            "This gateway runs in development mode (AUTH_MODE=dev), which answers on loopback addresses only.";
        return Err(WireError::forbidden(message));
    }
    let origin = settings.public_origin.clone().unwrap_or_else(|| url.origin.clone());
    Ok(Edge { env, context, settings, url, origin })
}

async fn route(
    request: web_sys::Request,
    incoming: &Incoming,
    url: Rc<Address>,
    env: &Env,
    context: &worker::Context,
) -> worker::Result<web_sys::Response> {
    let is_mcp = is_mcp(&url);
    let edge = match edge(incoming, url, env, Some(context)) {
        Ok(edge) => edge,
        Err(error) => {
            if error.status == 500 {
                log_error("mcp_settings_invalid", json!({ "reason": error.message }));
            }
            return refusal(is_mcp, &error);
        }
    };
    let path = edge.url.path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["mcp"] => return mcp(request, incoming, &edge, DEFAULT_RESOURCE).boxed_local().await,
        ["mcp", "toolkits", slug] if is_slug(slug) => return mcp(request, incoming, &edge, slug).boxed_local().await,
        _ => {}
    }
    let request = Request::from(request);
    // The bindings take every method that they do not know for GET.
    if request.method().as_ref() != incoming.method() {
        return refusal(is_mcp, &WireError::method_not_allowed());
    }
    page_or_api(request, &edge, &segments).await.map(Into::into)
}

/// Everything but `/mcp`. Each route has a future of its own: one for all of them would be compiled as a whole for each.
fn page_or_api<'e>(
    request: Request,
    edge: &'e Edge<'_>,
    segments: &'e [&'e str],
) -> LocalBoxFuture<'e, worker::Result<Response>> {
    let answer = match segments {
        [".well-known", "oauth-protected-resource"] | [".well-known", "oauth-protected-resource", "mcp"] => {
            resource_metadata(&request, edge, DEFAULT_RESOURCE)
        }
        [".well-known", "oauth-protected-resource", "mcp", "toolkits", slug] if is_slug(slug) => {
            resource_metadata(&request, edge, slug)
        }
        [".well-known", "oauth-authorization-server"] | ["oauth", ..] => {
            return authorization_server(request, edge, segments).boxed_local();
        }
        ["health"] => json_response(200, &json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") })),
        ["demo", ..] if edge.settings.demo => return demo(request, edge).boxed_local(),
        [""] => return async move { console::home(&request, edge).await }.boxed_local(),
        ["sign-in"] => return authentication::sign_in(request, edge).boxed_local(),
        ["sign-in", "callback"] => return authentication::call_back(request, edge).boxed_local(),
        ["sign-out"] => authentication::sign_out(&request, edge),
        ["assets", ..] => pages::asset(edge.url.path()),
        ["approvals" | "history" | "sources" | "tools" | "toolkits" | "keys", ..] => {
            return console::page(request, edge, segments).boxed_local();
        }
        ["resume", execution] => return pages::approval(request, edge, execution).boxed_local(),
        ["grants"] => return super::grants::grants_page(request, edge).boxed_local(),
        ["api", "grants"] => return async move { super::grants::api(&request, edge, None).await }.boxed_local(),
        ["api", "grants", id] => {
            return async move { super::grants::api(&request, edge, Some(id)).await }.boxed_local();
        }
        ["sessions", session] => return pages::history(request, edge, session).boxed_local(),
        ["api", "mcp-sessions", session, "executions"] => {
            return async move { super::approval_api::history(&request, edge, session).await }.boxed_local();
        }
        ["api", "mcp-sessions", session, "executions", execution] => {
            return async move { super::approval_api::read(&request, edge, session, execution).await }.boxed_local();
        }
        ["api", "mcp-sessions", session, "executions", execution, "resume"] => {
            return super::approval_api::decide(request, edge, session, execution).boxed_local();
        }
        ["api", "openapi.json"] => super::admin_api::document(&request),
        ["api", first, ..] if !first.is_empty() => {
            let path = edge.url.path().trim_start_matches("/api/");
            return super::admin_api::administer(request, edge, path).boxed_local();
        }
        ["mcp", ..] => error_response(&WireError::no_such_route(), None),
        _ => api_error(&WireError::no_such_route()),
    };
    ready(answer).boxed_local()
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

pub(super) fn context_of(edge: &Edge<'_>, principal: Principal, resource: &str, operation: Operation) -> Context {
    Context {
        principal,
        resource: resource.to_owned(),
        public_origin: edge.origin.clone(),
        asked: Asked::default(),
        trace: Trace::default(),
        operation,
    }
}

/// The routes of the gateway as an authorization server, where it is one.
async fn authorization_server(request: Request, edge: &Edge<'_>, segments: &[&str]) -> worker::Result<Response> {
    let Some(settings) = edge.settings.auth.oauth() else {
        return api_error(&WireError::no_such_route());
    };
    let server = oauth::OAuth::new(edge, settings);
    match segments {
        [".well-known", _] => oauth::metadata(&request, edge),
        ["oauth", "register"] => oauth::register(request, &server).await,
        ["oauth", "token"] => oauth::token(request, &server).await,
        ["oauth", "revoke"] => oauth::revoke(request, &server).await,
        ["oauth", "authorize"] => match pages::person(&request, edge).await {
            Ok(person) => oauth::authorize(request, &server, person).await,
            Err(error) => pages::not_signed_in(&request, edge, &error),
        },
        _ => api_error(&WireError::no_such_route()),
    }
}

// ---- small routes -------------------------------------------------------------------------------

/// RFC 9728, section 2. `resource` is exactly the endpoint's URL.
#[inline(never)]
fn resource_metadata(request: &Request, edge: &Edge<'_>, resource: &str) -> worker::Result<Response> {
    if !matches!(request.method(), Method::Get | Method::Head | Method::Options) {
        return api_error(&WireError::method_not_allowed());
    }
    let mut metadata = json!({
        "resource": resource_url(&edge.origin, resource),
        "resource_name": "Countersign",
        "bearer_methods_supported": ["header"],
    });
    let auth = &edge.settings.auth;
    // The gateway first: every client can sign in there, whatever the issuer takes.
    let own = auth.oauth().map(|_| edge.origin.as_str());
    let servers: Vec<&str> = own.into_iter().chain(auth.oidc().map(|oidc| oidc.issuer.as_str())).collect();
    if let Some(members) = metadata.as_object_mut().filter(|_| !servers.is_empty()) {
        members.insert("authorization_servers".to_owned(), json!(servers));
        if own.is_some() {
            members.insert("scopes_supported".to_owned(), json!([SCOPE]));
        }
    }
    let response = json_response(200, &metadata)?;
    response.headers().set("access-control-allow-origin", "*")?;
    Ok(response)
}

/// The demo API, for looking at it directly. Each organization has its own.
async fn demo(request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    // A foreign page must not reach it through the browser of whoever tries this out.
    if header(request.headers(), "origin")
        .is_some_and(|page| !origin_is_allowed(&page, &edge.origin, &edge.settings.allowed_origins))
    {
        return api_error(&WireError::origin_not_allowed());
    }
    match program(edge, request.headers()).await {
        Ok(principal) => organization::demo(edge.env, &principal.organization, request).await,
        Err(refusal) => api_error(&refusal.error()),
    }
}
