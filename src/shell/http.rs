//! Requests in, responses out: the parts that several handlers need.

use futures_util::StreamExt;
use serde_json::json;
use worker::{Env, Headers, Method, Request, RequestInit, Response, ResponseBuilder, Stub};

use super::random::random_hex;
use super::telemetry::log_error;
use crate::config::{Settings, SettingsError, parse_settings};
use crate::internal::{CONTEXT_HEADER, Context};
use crate::protocol::cors;
use crate::protocol::errors::WireError;
use crate::protocol::headers::{Accepts, is_json};
use crate::protocol::jsonrpc::{BODY_LIMIT, Body, Refusal, RequestId, parse_body};
use crate::session::failure::{CAUSES, PlatformFailure};

/// Reads the settings from the environment.
pub(crate) fn load_settings(env: &Env) -> Result<Settings, SettingsError> {
    parse_settings(|name| env.var(name).ok().map(|value| value.to_string()))
}

/// A header's value; absent and unreadable are the same.
pub(crate) fn header(headers: &Headers, name: &str) -> Option<String> {
    headers.get(name).ok().flatten()
}

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is larger than allowed.
    TooLarge,
    /// The connection broke.
    Broken,
}

/// What is read and thrown away of a body that is too large, so that the client gets to read the answer instead of a
/// broken connection. One that sends even more loses the connection.
const DRAINED_BYTES: usize = 32 << 20;

/// Reads a body of at most `limit` bytes. Counts what arrives, whatever `Content-Length` says.
pub(crate) async fn read_body(request: &mut Request, limit: usize) -> Result<Vec<u8>, BodyError> {
    if request.inner().body().is_none() {
        return Ok(Vec::new());
    }
    let mut stream = request.stream().map_err(|_| BodyError::Broken)?;
    let mut bytes = Vec::new();
    let mut arrived = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        arrived += chunk.len();
        if arrived > limit + DRAINED_BYTES {
            break;
        }
        if arrived > limit {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(&chunk);
        }
    }
    if arrived > limit { Err(BodyError::TooLarge) } else { Ok(bytes) }
}

/// A response builder with the headers that every answer on `/mcp` has.
pub(crate) fn mcp_response(status: u16) -> worker::Result<ResponseBuilder> {
    let mut builder = ResponseBuilder::new().with_status(status);
    for (name, value) in cors::response_headers() {
        builder = builder.with_header(name, value)?;
    }
    builder.with_header("cache-control", "no-store")
}

/// An error of the gateway's own on `/mcp`.
pub(crate) fn error_response(error: &WireError, id: Option<&RequestId>) -> worker::Result<Response> {
    let mut builder = mcp_response(error.status)?.with_header("content-type", "application/json")?;
    if let Some(seconds) = error.retry_after {
        builder = builder.with_header("retry-after", &seconds.to_string())?;
    }
    if error.status == 405 {
        builder = builder.with_header("allow", cors::METHODS)?;
    }
    Ok(builder.fixed(error.body(id).into_bytes()))
}

/// JSON that no cache may keep.
pub(crate) fn json_response(status: u16, body: &serde_json::Value) -> worker::Result<Response> {
    Ok(ResponseBuilder::new()
        .with_status(status)
        .with_header("content-type", "application/json")?
        .with_header("cache-control", "no-store")?
        .with_header("x-content-type-options", "nosniff")?
        .fixed(body.to_string().into_bytes()))
}

/// Puts the reason of an internal error into the log, and gives the id that the client may quote.
pub(crate) fn correlation(reason: &str) -> String {
    let correlation = random_hex::<8>().unwrap_or_else(|_| "none".to_owned());
    log_error("mcp_internal_error", json!({ "correlationId": correlation, "reason": reason }));
    correlation
}

/// An unforeseen failure on `/mcp`.
pub(crate) fn internal_error(reason: &str, id: Option<&RequestId>) -> worker::Result<Response> {
    error_response(&WireError::internal(&correlation(reason)), id)
}

/// A POST on `/mcp` that could be read.
pub(crate) struct Post {
    pub(crate) message: Body,
    pub(crate) bytes: Vec<u8>,
    pub(crate) accepts: Accepts,
}

/// Reads a POST: content negotiation, size, JSON, JSON-RPC.
pub(crate) async fn read_post(request: &mut Request) -> Result<Post, Refusal> {
    let accepts = Accepts::parse(header(request.headers(), "accept").as_deref());
    if !accepts.json && !accepts.events {
        return Err((WireError::not_acceptable("application/json or text/event-stream"), None));
    }
    if !is_json(header(request.headers(), "content-type").as_deref()) {
        return Err((WireError::unsupported_media_type(), None));
    }
    let bytes = read_body(request, BODY_LIMIT).await.map_err(|error| match error {
        BodyError::TooLarge => (WireError::body_too_large(BODY_LIMIT), None),
        BodyError::Broken => (WireError::parse_error("the body broke off"), None),
    })?;
    let message = parse_body(&bytes)?;
    Ok(Post { message, bytes, accepts })
}

/// A request of the gateway's own to a session object.
pub(crate) fn own_request(url: &str, context: &Context, body: &str) -> worker::Result<Request> {
    let headers = Headers::new();
    headers.set("content-type", "application/json")?;
    headers.set(CONTEXT_HEADER, &context.encode())?;
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_headers(headers).with_body(Some(body.into()));
    Request::new_with_init(url, &init)
}

/// A session object that was never used.
pub(crate) fn new_session(env: &Env, settings: &Settings) -> worker::Result<Stub> {
    let namespace = env.durable_object("SESSION")?;
    match &settings.jurisdiction {
        Some(jurisdiction) => namespace.unique_id_with_jurisdiction(jurisdiction)?.get_stub(),
        None => namespace.unique_id()?.get_stub(),
    }
}

/// What the platform says of a failed call to an object.
pub(crate) fn platform_failure(error: &worker::Error) -> PlatformFailure {
    let mut failure = PlatformFailure::default();
    let mut next = Some(error);
    while let Some(error) = next.take()
        && failure.messages.len() < CAUSES
    {
        let worker::Error::UnknownJsError { original, message, cause, .. } = error else {
            failure.messages.push(error.to_string());
            break;
        };
        failure.messages.push(message.clone());
        let is_set = |name: &str| js_sys::Reflect::get(original, &name.into()).is_ok_and(|value| value.is_truthy());
        failure.retryable |= is_set("retryable");
        failure.overloaded |= is_set("overloaded");
        next = cause.as_deref();
    }
    failure
}
