//! `/mcp` at the edge: everything that is decided before a session object is asked, in the order that clients rely on.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde_json::json;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::{Env, Headers, Method, Request, Response, ResponseBuilder, Stub};

use super::clock::sleep;
use super::entry::{Edge, context_of};
use super::events::event_stream;
use super::http::{
    correlation, error_response, header, mcp_response, new_session, own_request, platform_failure, read_post,
};
use super::telemetry::log;
use crate::auth::{Outcome, Purpose};
use crate::internal::{CONTEXT_HEADER, Context, HEADER_PREFIX, Operation};
use crate::protocol::cors::{self, origin_is_allowed};
use crate::protocol::errors::WireError;
use crate::protocol::jsonrpc::parse_body;
use crate::protocol::trace::Trace;
use crate::session::failure::{CPU_LIMIT, Disposition, PlatformFailure, RELOCATED, classify, wire_error};
use crate::session::id::is_session_id;

/// Tries of the first call of a session when its object is just being moved.
const OPEN_TRIES: u32 = 4;
/// Bytes of a body that the Worker holds, as it came and outside of wasm, so that it can say which request failed.
const HELD_BODY: u64 = 64 << 10;
/// Requests that are remembered for having run out of CPU time.
const REMEMBERED: usize = 256;

/// The path of the metadata that belongs to a resource, after `/.well-known/oauth-protected-resource`.
pub(super) fn resource_path(resource: &str) -> String {
    if resource == DEFAULT_RESOURCE { "/mcp".to_owned() } else { format!("/mcp/toolkits/{resource}") }
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

pub(super) async fn mcp(request: Request, edge: &Edge<'_>, resource: &str) -> worker::Result<Response> {
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
        Outcome::Unauthorized { problem } => return unauthorized(edge, resource, problem),
        Outcome::Forbidden(message) => return error_response(&WireError::forbidden(message), None),
    };
    if principal.purpose != Purpose::Mcp {
        return error_response(
            &WireError::forbidden("This credential decides on approvals; it cannot be used to call tools."),
            None,
        );
    }
    // 5. Which session.
    let trace = Trace::read(|name| header(headers, name));
    let context = Context { trace, ..context_of(edge, principal, resource, Operation::Mcp) };
    match header(headers, "mcp-session-id") {
        None if method == Method::Delete => Ok(mcp_response(200)?.empty()),
        None if method == Method::Get => error_response(&WireError::session_id_required_for_sse(), None),
        None => open(request, edge, context, WireError::session_id_required()).await,
        Some(id) => match session_stub(edge.env, &id) {
            Some(stub) => forward(request, &stub, &id, &context).await,
            // A client may keep the id of another gateway and initialise with it.
            None if method == Method::Post => open(request, edge, context, WireError::session_not_found()).await,
            None => error_response(&WireError::session_not_found(), None),
        },
    }
}

fn unauthorized(edge: &Edge<'_>, resource: &str, problem: Option<&str>) -> worker::Result<Response> {
    let metadata = format!("{}/.well-known/oauth-protected-resource{}", edge.origin, resource_path(resource));
    let mut challenge = format!("Bearer resource_metadata=\"{metadata}\"");
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
    let id = post.message.request_id().cloned();
    if !post.message.is_initialize() {
        return error_response(&otherwise, id.as_ref());
    }
    if context.resource != DEFAULT_RESOURCE {
        return error_response(&WireError::no_such_toolkit(&context.resource), id.as_ref());
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
                    sleep(std::time::Duration::from_millis(wait)).await;
                    continue;
                }
                return platform_failure_response("initialize", &failure, || false);
            }
        }
    }
}

/// Hands a request to its session object.
async fn forward(request: Request, stub: &Stub, session: &str, context: &Context) -> worker::Result<Response> {
    let method = request.method();
    let body = held_body(&request).await?;
    let headers = internal_headers(&request, context)?;
    let standalone = method == Method::Get && header(request.headers(), "last-event-id").is_none_or(|id| id.is_empty());
    if standalone {
        headers.set("upgrade", "websocket")?;
    }
    let init = web_sys::RequestInit::new();
    init.set_headers(headers.0.as_ref());
    let forwarded = match &body {
        Some(body) => {
            init.set_method("POST");
            init.set_body(body);
            web_sys::Request::new_with_str_and_init(&request.inner().url(), &init)?
        }
        None => web_sys::Request::new_with_request_and_init(request.inner(), &init)?,
    };
    let response = match stub.fetch_with_request(forwarded.into()).await {
        Ok(response) => response,
        Err(error) => {
            return platform_failure_response(method.as_ref(), &platform_failure(&error), || {
                ran_out_before(session, body.as_ref())
            });
        }
    };
    if standalone && response.status_code() == 101 {
        let missing = || worker::Error::RustError("the session opened no socket".to_owned());
        return event_stream(response.websocket().ok_or_else(missing)?);
    }
    Ok(response)
}

/// A small body, as the platform's own buffer. A large one, or one of unknown length, is passed on unread.
async fn held_body(request: &Request) -> worker::Result<Option<JsValue>> {
    let length = header(request.headers(), "content-length").and_then(|length| length.parse::<u64>().ok());
    if request.method() != Method::Post || length.is_none_or(|length| length > HELD_BODY) {
        return Ok(None);
    }
    Ok(Some(JsFuture::from(request.inner().array_buffer()?).await?))
}

fn internal_headers(request: &Request, context: &Context) -> worker::Result<Headers> {
    let headers = Headers::new();
    for (name, value) in request.headers().entries() {
        // What claims to come from this gateway comes from outside here. Only the gateway itself asks for a socket.
        if !name.to_ascii_lowercase().starts_with(HEADER_PREFIX) && !name.eq_ignore_ascii_case("upgrade") {
            headers.append(&name, &value)?;
        }
    }
    headers.set(CONTEXT_HEADER, &context.encode())?;
    Ok(headers)
}

// ---- platform failures --------------------------------------------------------------------------

thread_local! {
    /// Requests that ran out of CPU time: session and id. Only this isolate knows them; another one lets the client try
    /// once more.
    static RAN_OUT: RefCell<VecDeque<(String, String)>> = const { RefCell::new(VecDeque::new()) };
}

/// Whether this request of the session ran out of CPU time before; remembers that it did.
fn ran_out_before(session: &str, body: Option<&JsValue>) -> bool {
    let bytes =
        body.and_then(|body| body.dyn_ref::<js_sys::ArrayBuffer>()).map(|body| js_sys::Uint8Array::new(body).to_vec());
    let id = bytes.and_then(|bytes| parse_body(&bytes).ok()).and_then(|body| body.request_id().cloned());
    let request = (session.to_owned(), id.map_or_else(String::new, |id| id.as_json().to_owned()));
    RAN_OUT.with_borrow_mut(|known| {
        if known.contains(&request) {
            return true;
        }
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back(request);
        false
    })
}

/// Answers a request whose object failed. `again` tells whether a request that ran out of CPU time did so before.
pub(super) fn platform_failure_response(
    operation: &str,
    failure: &PlatformFailure,
    again: impl FnOnce() -> bool,
) -> worker::Result<Response> {
    let (kind, mut disposition) = classify(failure);
    if kind == CPU_LIMIT && again() {
        // A retry repeats it.
        disposition = Disposition::Unknown;
    }
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
        Err(error) => platform_failure_response("approval", &platform_failure(&error), || false),
    }
}
