//! Requests in, responses out: the parts that several handlers need.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::StreamExt;
use serde_json::json;
use wasm_bindgen::prelude::*;
use worker::{Env, Headers, Method, Request, RequestInit, Response, ResponseBuilder, Stub};

use super::authentication::ACCESS_HEADER;
use super::random::random_hex;
use super::telemetry::log_error;
use crate::config::{Settings, SettingsError, parse_settings};
use crate::internal::{Asked, CONTEXT_HEADER, Context};
use crate::protocol::cors;
use crate::protocol::errors::WireError;
use crate::protocol::headers::{Accepts, is_json};
use crate::protocol::jsonrpc::{BODY_LIMIT, Body, Refusal, RequestId, parse_body};

#[wasm_bindgen(module = "/src/shell/http.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    fn describe(request: &web_sys::Request) -> Result<String, JsValue>;

    #[wasm_bindgen(catch, js_name = alsoRead)]
    fn also_read(name: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(catch)]
    fn forward(
        namespace: &JsValue,
        id: &str,
        request: &web_sys::Request,
        context: &str,
        upgrade: bool,
        hold: bool,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_name = drain, catch)]
    fn read_and_forget(request: &web_sys::Request, limit: usize) -> Result<js_sys::Promise, JsValue>;

    type FailedCall;

    #[wasm_bindgen(method, getter)]
    fn error(this: &FailedCall) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn body(this: &FailedCall) -> JsValue;
}

#[wasm_bindgen]
extern "C" {
    /// A stub as it is: what comes back through it is handed on without being taken apart.
    type RawStub;

    #[wasm_bindgen(method, catch)]
    fn fetch(this: &RawStub, request: &web_sys::Request) -> Result<js_sys::Promise, JsValue>;
}

/// A request, read in one go: its method, its URL, and those of its headers that the gateway looks at (see `http.js`).
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    text: String,
}

impl Incoming {
    pub(crate) fn read(request: &web_sys::Request) -> worker::Result<Self> {
        Ok(Self::parse(describe(request)?))
    }

    /// Reads what `describe` of `http.js` says of a request.
    pub(crate) fn parse(text: String) -> Self {
        Self { text }
    }

    pub(crate) fn method(&self) -> &str {
        self.text.split('\n').next().unwrap_or_default()
    }

    pub(crate) fn url(&self) -> &str {
        self.text.split('\n').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.text.split('\n').skip(2).find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// What a session object has to know of it.
    pub(crate) fn asked(&self) -> Asked {
        let header = |name: &str| self.header(name).map(ToOwned::to_owned);
        let length = self.header("content-length").and_then(|length| length.parse::<usize>().ok());
        Asked {
            accept: header("accept"),
            content_type: header("content-type"),
            protocol_version: header("mcp-protocol-version"),
            last_event_id: header("last-event-id").filter(|id| !id.is_empty()),
            held: self.method() == "POST" && length.is_some_and(|length| length <= SMALL_BODY),
        }
    }
}

/// What became of a request that was handed to a session object.
pub(crate) enum Forwarded {
    /// The object's answer, as the platform has it.
    Response(web_sys::Response),
    /// The call failed. With the request's body, where it was held.
    Failed(worker::Error, Option<Vec<u8>>),
    /// The body broke off.
    Broken,
    /// The id is none of this gateway's.
    NoSuchId,
}

/// Hands a request to the session object with that id.
pub(crate) async fn forward_to_session(
    env: &Env,
    id: &str,
    request: &web_sys::Request,
    context: &Context,
    upgrade: bool,
) -> worker::Result<Forwarded> {
    let namespace = js_sys::Reflect::get(env.as_ref(), &"SESSION".into())?;
    let sent = forward(&namespace, id, request, &context.encode(), upgrade, context.asked.held)?;
    let Ok(promise) = sent.dyn_into::<js_sys::Promise>() else {
        return Ok(Forwarded::NoSuchId);
    };
    let answer = wasm_bindgen_futures::JsFuture::from(promise).await?;
    Ok(forwarded(answer))
}

/// What a settled call came to.
pub(crate) fn forwarded(answer: JsValue) -> Forwarded {
    let failed: FailedCall = match answer.dyn_into::<web_sys::Response>() {
        Ok(response) => return Forwarded::Response(response),
        Err(other) => other.unchecked_into(),
    };
    if failed.error().is_undefined() {
        return Forwarded::Broken;
    }
    let body = failed.body().dyn_into::<js_sys::ArrayBuffer>().ok();
    let body = body.map(|body| js_sys::Uint8Array::new(&body).to_vec());
    Forwarded::Failed(failed.error().into(), body)
}

thread_local! {
    /// A version of the Worker has the same variables for as long as its isolate lives.
    static SETTINGS: RefCell<Option<Rc<Settings>>> = const { RefCell::new(None) };
    /// The headers of every answer on `/mcp`.
    static MCP_HEADERS: RefCell<Option<web_sys::Headers>> = const { RefCell::new(None) };
}

/// Reads the settings from the environment.
pub(crate) fn load_settings(env: &Env) -> Result<Rc<Settings>, SettingsError> {
    if let Some(known) = SETTINGS.with_borrow(Clone::clone) {
        return Ok(known);
    }
    let settings = Rc::new(parse_settings(|name| env.var(name).ok().map(|value| value.to_string()))?);
    SETTINGS.set(Some(Rc::clone(&settings)));
    // Each header that is read costs every request a little.
    if settings.auth.access().is_some() && also_read(ACCESS_HEADER).is_err() {
        log_error("mcp_settings_invalid", json!({ "reason": "the header of Cloudflare Access cannot be read" }));
    }
    Ok(settings)
}

/// Asks an object, and gives its answer as the platform has it.
pub(crate) async fn ask_object(stub: Stub, request: &Request) -> worker::Result<web_sys::Response> {
    let promise = stub.into_rpc::<RawStub>().fetch(request.inner())?;
    let response = wasm_bindgen_futures::JsFuture::from(promise).await?;
    response.dyn_into().map_err(|_| worker::Error::RustError("the object gave no response".to_owned()))
}

/// The body of an answer of one of the gateway's own objects, in one piece: a stream would cross between JavaScript and wasm several
/// times for each part.
pub(crate) async fn body_of(response: &web_sys::Response) -> worker::Result<Vec<u8>> {
    let buffer = wasm_bindgen_futures::JsFuture::from(response.array_buffer()?).await?;
    Ok(js_sys::Uint8Array::new(&buffer).to_vec())
}

/// The headers that every answer on `/mcp` has.
pub(crate) fn mcp_headers() -> [(&'static str, &'static str); 3] {
    let [allow, expose] = cors::response_headers();
    [allow, expose, ("cache-control", "no-store")]
}

/// A response builder with the headers that every answer on `/mcp` has.
pub(crate) fn mcp_response(status: u16) -> worker::Result<ResponseBuilder> {
    let known = MCP_HEADERS.with_borrow(Clone::clone);
    let base = if let Some(known) = known {
        known
    } else {
        let base = web_sys::Headers::new()?;
        for (name, value) in mcp_headers() {
            base.set(name, value)?;
        }
        MCP_HEADERS.set(Some(base.clone()));
        base
    };
    let headers = Headers(web_sys::Headers::new_with_headers(&base)?);
    Ok(ResponseBuilder::new().with_status(status).with_headers(headers))
}

/// An answer on `/mcp` whose body is there already.
pub(crate) fn mcp_answer(status: u16, kind: &str, body: String) -> worker::Result<Response> {
    Ok(mcp_response(status)?.with_header("content-type", kind)?.fixed(body.into_bytes()))
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
pub(crate) const DRAINED_BYTES: usize = 32 << 20;

/// Bytes of a body that is read at once where its length is declared: the platform holds a body to that. The Worker holds it,
/// outside of wasm, so that it can say which request failed.
const SMALL_BODY: usize = 64 << 10;

/// Reads the body of a request that is refused whatever it holds, up to [`DRAINED_BYTES`]: the platform closes a connection on which
/// more than some 64 KiB are still on their way, and the client would never read why.
pub(crate) async fn drain(request: &web_sys::Request, incoming: &Incoming) {
    let length = incoming.header("content-length").and_then(|length| length.parse::<usize>().ok());
    if length.is_none_or(|length| length > SMALL_BODY) {
        drain_body(request).await;
    }
}

/// Reads a body and throws it away, as far as it is not larger than [`DRAINED_BYTES`].
pub(crate) async fn drain_body(request: &web_sys::Request) {
    if request.body().is_none() {
        return;
    }
    if let Ok(done) = read_and_forget(request, DRAINED_BYTES) {
        // It never fails.
        let _ = wasm_bindgen_futures::JsFuture::from(done).await;
    }
}

/// Reads a body of at most `limit` bytes. Counts what arrives, whatever `Content-Length` says.
pub(crate) async fn read_body(request: &mut Request, limit: usize) -> Result<Vec<u8>, BodyError> {
    if request.inner().body().is_none() {
        return Ok(Vec::new());
    }
    let mut stream = request.stream().map_err(|_| BodyError::Broken)?;
    let declared = header(request.headers(), "content-length").and_then(|length| length.parse::<usize>().ok());
    // Of what says that it is too large nothing is kept.
    let keeps = declared.is_none_or(|length| length <= limit);
    let mut bytes = Vec::new();
    let mut arrived = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        arrived += chunk.len();
        if arrived > limit + DRAINED_BYTES {
            break;
        }
        if arrived > limit || !keeps {
            bytes = Vec::new();
        } else {
            // Whoever sent a quarter gets the whole at once: a vector that grows as it goes is up to three times as large for
            // a moment, and wasm gives no memory back.
            if let Some(rest) = declared.filter(|declared| arrived.saturating_mul(4) > *declared) {
                bytes.reserve_exact(rest.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&chunk);
        }
    }
    if arrived > limit || !keeps { Err(BodyError::TooLarge) } else { Ok(bytes) }
}

/// Whether a request says that it is a form.
pub(crate) fn is_form(request: &Request) -> bool {
    let kind = header(request.headers(), "content-type").unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// The fields of a form, in its order.
pub(crate) fn form_fields(body: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(body).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// The parameters of a URL, in its order.
pub(crate) fn query_fields(url: &url::Url) -> Vec<(String, String)> {
    form_fields(url.query().unwrap_or_default().as_bytes())
}

/// An error of the gateway's own on `/mcp`.
pub(crate) fn error_response(error: &WireError, id: Option<&RequestId>) -> worker::Result<Response> {
    let response = mcp_answer(error.status, "application/json", error.body(id))?;
    if let Some(seconds) = error.retry_after {
        response.headers().set("retry-after", &seconds.to_string())?;
    }
    if error.status == 405 {
        response.headers().set("allow", cors::METHODS)?;
    }
    Ok(response)
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
pub(crate) async fn read_post(request: &mut Request, asked: &Asked) -> Result<Post, Refusal> {
    let accepts = match check_post(asked) {
        Ok(accepts) => accepts,
        Err(refusal) => {
            if !asked.held {
                drain_body(request.inner()).await;
            }
            return Err(refusal);
        }
    };
    let bytes = if asked.held {
        request.bytes().await.map_err(|_| BodyError::Broken)
    } else {
        read_body(request, BODY_LIMIT).await
    };
    let bytes = bytes.map_err(|error| match error {
        BodyError::TooLarge => (WireError::body_too_large(BODY_LIMIT), None),
        BodyError::Broken => (WireError::parse_error("the body broke off"), None),
    })?;
    parse_post(bytes, accepts)
}

/// What a POST admits as an answer, where its headers are in order.
pub(crate) fn check_post(asked: &Asked) -> Result<Accepts, Refusal> {
    let accepts = Accepts::parse(asked.accept.as_deref());
    if !accepts.json && !accepts.events {
        return Err((WireError::not_acceptable("application/json or text/event-stream"), None));
    }
    if !is_json(asked.content_type.as_deref()) {
        return Err((WireError::unsupported_media_type(), None));
    }
    Ok(accepts)
}

/// Reads the body of a POST.
pub(crate) fn parse_post(bytes: Vec<u8>, accepts: Accepts) -> Result<Post, Refusal> {
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
