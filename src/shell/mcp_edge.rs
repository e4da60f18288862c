//! `/mcp` at the edge: everything that is decided before a session object is asked, in the order that clients rely on.

use worker::{Env, Headers, Request, Response, ResponseBuilder, Stub};

use super::authentication::{self, Presented, Refusal};
use super::entry::{Edge, context_of};
use super::events::event_stream;
use super::http::{
    Forwarded, Incoming, drain, error_response, forward_to_session, mcp_response, own_request, read_post,
};
use super::platform::{failure_response, first_call, log_failure, platform_failure};
use crate::auth::{Denial, Principal, Purpose};
use crate::internal::{Context, Operation};
use crate::oauth::SCOPE;
use crate::protocol::cors::{self, origin_is_allowed};
use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::{RequestId, parse_body};
use crate::protocol::trace::Trace;
use crate::session::id::is_session_id;

/// The path of the metadata that belongs to a resource, after `/.well-known/oauth-protected-resource`.
pub(super) fn resource_path(resource: &str) -> String {
    if resource == DEFAULT_RESOURCE { "/mcp".to_owned() } else { format!("/mcp/toolkits/{resource}") }
}

/// The URL of a resource, which names it to clients and in tokens.
pub(super) fn resource_url(origin: &str, resource: &str) -> String {
    format!("{origin}{}", resource_path(resource))
}

/// The resource that is not a toolkit.
pub(super) const DEFAULT_RESOURCE: &str = "default";

/// Whether a text can be the slug of a toolkit.
pub(super) fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text != DEFAULT_RESOURCE
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

pub(super) async fn mcp(
    request: web_sys::Request,
    incoming: &Incoming,
    edge: &Edge<'_>,
    resource: &str,
) -> worker::Result<web_sys::Response> {
    match next_step(&request, incoming, edge, resource).await? {
        Next::Answer(response) => {
            drain(&request, incoming).await;
            Ok(response.into())
        }
        Next::Open(context, otherwise) => open(request, edge, context, otherwise).await,
        Next::Forward(context, id) => forward(request, incoming, edge, context, id).await,
    }
}

async fn next_step<'a>(
    request: &web_sys::Request,
    incoming: &'a Incoming,
    edge: &Edge<'_>,
    resource: &str,
) -> worker::Result<Next<'a>> {
    if let Some(response) = refuse_early(incoming, edge)? {
        return Ok(Next::Answer(response));
    }
    // 4. Who asks.
    let presented = Presented::of(incoming, &edge.origin, resource);
    let principal = match authentication::known(&edge.settings, presented) {
        Some(principal) => principal,
        None => match authentication::authenticate(edge, presented, &Headers(request.headers())).await {
            Ok(principal) => principal,
            Err(refusal) => return refuse(&refusal, incoming, edge, resource).await.map(Next::Answer),
        },
    };
    decide(incoming, edge, resource, principal)
}

/// What is done with a request.
pub(super) enum Next<'a> {
    /// It is answered at the edge.
    Answer(Response),
    /// It has no session: `initialize` opens one, anything else is answered with this error.
    Open(Context, WireError),
    /// It goes to the session with that id.
    Forward(Context, &'a str),
}

/// What is answered before anybody is asked who it is.
pub(super) fn refuse_early(incoming: &Incoming, edge: &Edge<'_>) -> worker::Result<Option<Response>> {
    let refuse = |error: &WireError| error_response(error, None).map(Some);
    let method = incoming.method();
    // 1. Preflight, before authentication.
    if method == "OPTIONS" {
        let mut builder = ResponseBuilder::new().with_status(204);
        for (name, value) in cors::preflight_headers(incoming.header("access-control-request-headers")) {
            builder = builder.with_header(name, &value)?;
        }
        return Ok(Some(builder.empty()));
    }
    // 2. Methods.
    if !matches!(method, "GET" | "POST" | "DELETE") {
        return refuse(&WireError::method_not_allowed());
    }
    // 3. Pages that may call: DNS rebinding and foreign pages end here.
    if let Some(page) = incoming.header("origin")
        && !origin_is_allowed(page, &edge.origin, &edge.settings.allowed_origins)
    {
        return refuse(&WireError::origin_not_allowed());
    }
    Ok(None)
}

/// What is done for a principal.
pub(super) fn decide<'a>(
    incoming: &'a Incoming,
    edge: &Edge<'_>,
    resource: &str,
    principal: Principal,
) -> worker::Result<Next<'a>> {
    let refuse = |error: &WireError| error_response(error, None).map(Next::Answer);
    let method = incoming.method();
    match principal.purpose {
        Purpose::Mcp => {}
        Purpose::Admin => {
            let message = "This credential administers the gateway; it cannot be used to call tools.";
            return refuse(&WireError::forbidden(message));
        }
        Purpose::Approve | Purpose::Browser => {
            let message = "This credential decides on approvals; it cannot be used to call tools.";
            return refuse(&WireError::forbidden(message));
        }
    }
    // 5. Which session.
    let trace = Trace::read(|name| incoming.header(name).map(ToOwned::to_owned));
    let asked = incoming.asked();
    let context = Context { asked, trace, ..context_of(edge, principal, resource, Operation::Mcp) };
    Ok(match incoming.header("mcp-session-id") {
        None if method == "DELETE" => Next::Answer(mcp_response(200)?.empty()),
        None if method == "GET" => return refuse(&WireError::session_id_required_for_sse()),
        None => Next::Open(context, WireError::session_id_required()),
        Some(id) if is_session_id(id) => Next::Forward(context, id),
        // A client may keep the id of another gateway and initialise with it.
        Some(_) if method == "POST" => Next::Open(context, WireError::session_not_found()),
        Some(_) => return refuse(&WireError::session_not_found()),
    })
}

/// Answers a request whose sender is not known, or has no access.
async fn refuse(refusal: &Refusal, incoming: &Incoming, edge: &Edge<'_>, resource: &str) -> worker::Result<Response> {
    match refusal {
        Refusal::Unauthorized { problem } => return unauthorized(edge, resource, *problem),
        Refusal::Forbidden(denial) => {
            if let Some(id) = incoming.header("mcp-session-id") {
                end_session(edge, id, denial).await;
            }
        }
        // Nothing ends because of what cannot be told.
        Refusal::Unavailable(_) | Refusal::TooMany { .. } => {}
    }
    error_response(&refusal.error(), None)
}

/// Access is definitely lost: the session that was named ends, if it is that account's. The answer is the same either way.
async fn end_session(edge: &Edge<'_>, id: &str, denial: &Denial) {
    let Some(stub) = session_stub(edge.env, id) else {
        return;
    };
    let principal = Principal {
        account: denial.account.clone(),
        organization: denial.organization.clone().unwrap_or_default(),
        admin: false,
        purpose: Purpose::Mcp,
    };
    let context = context_of(edge, principal, "", Operation::AccessLost);
    let told = match own_request("https://session.internal/", &context, "") {
        Ok(request) => stub.fetch_with_request(request).await.map(|_| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        log_failure("session/access-lost", &platform_failure(&error));
    }
}

fn unauthorized(edge: &Edge<'_>, resource: &str, problem: Option<&str>) -> worker::Result<Response> {
    let metadata = format!("{}/.well-known/oauth-protected-resource{}", edge.origin, resource_path(resource));
    let mut challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    if edge.settings.auth.oauth().is_some() {
        challenge = format!("{challenge}, scope=\"{SCOPE}\"");
    }
    if let Some(problem) = problem {
        challenge = format!("{challenge}, error=\"invalid_token\", error_description=\"{problem}\"");
    }
    let response = error_response(&WireError::unauthorized(), None)?;
    response.headers().set("www-authenticate", &challenge)?;
    Ok(response)
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
    request: web_sys::Request,
    edge: &Edge<'_>,
    context: Context,
    otherwise: WireError,
) -> worker::Result<web_sys::Response> {
    let refuse = |error: &WireError, id: Option<&RequestId>| error_response(error, id).map(Into::into);
    let post = match read_post(&mut Request::from(request), &context.asked).await {
        Ok(post) => post,
        Err((error, id)) => return refuse(&error, id.as_ref()),
    };
    if post.message.has_initialize_among_others() {
        return refuse(&WireError::invalid_request("initialize must not be part of a batch"), None);
    }
    let id = post.message.request_id().cloned();
    if !post.message.is_initialize() {
        return refuse(&otherwise, id.as_ref());
    }
    if let Err(error) = authentication::count_session(&edge.settings, &context.principal) {
        return refuse(&error, id.as_ref());
    }
    let context = Context { operation: Operation::Open, ..context };
    let body = String::from_utf8_lossy(&post.bytes);
    first_call(edge.env, &edge.settings, || own_request(edge.url.as_str(), &context, &body)).await
}

/// Hands a request to its session object, and gives its answer unchanged.
async fn forward(
    request: web_sys::Request,
    incoming: &Incoming,
    edge: &Edge<'_>,
    context: Context,
    id: &str,
) -> worker::Result<web_sys::Response> {
    let standalone = incoming.method() == "GET" && context.asked.last_event_id.is_none();
    match forward_to_session(edge.env, id, &request, &context, standalone).await? {
        Forwarded::Response(response) if standalone && response.status() == 101 => {
            let missing = || worker::Error::RustError("the session opened no socket".to_owned());
            let socket = Response::from(response).websocket().ok_or_else(missing)?;
            event_stream(socket).map(Into::into)
        }
        Forwarded::NoSuchId if incoming.method() == "POST" => {
            open(request, edge, context, WireError::session_not_found()).await
        }
        call @ (Forwarded::Response(_) | Forwarded::Failed(..) | Forwarded::Broken | Forwarded::NoSuchId) => {
            answer_of(incoming, id, call)
        }
    }
}

/// The answer to a request, from what handing it to its session object came to.
pub(super) fn answer_of(incoming: &Incoming, id: &str, call: Forwarded) -> worker::Result<web_sys::Response> {
    let response = match call {
        Forwarded::Response(response) => return Ok(response),
        Forwarded::Failed(error, body) => {
            let request = body.and_then(|body| parse_body(&body).ok()).and_then(|body| body.request_id().cloned());
            let request = request.map(|request| (id.to_owned(), request.as_json().to_owned()));
            failure_response(incoming.method(), &platform_failure(&error), request)
        }
        Forwarded::Broken => error_response(&WireError::parse_error("the body broke off"), None),
        Forwarded::NoSuchId => error_response(&WireError::session_not_found(), None),
    };
    response.map(Into::into)
}

/// Calls a session object for a page or the approval API.
pub(super) async fn ask_session(stub: &Stub, context: &Context, body: &str) -> worker::Result<Response> {
    match stub.fetch_with_request(own_request("https://session.internal/", context, body)?).await {
        Ok(response) => Ok(response),
        Err(error) => failure_response("approval", &platform_failure(&error), None),
    }
}
