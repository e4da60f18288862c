//! HTTP to a server: one request, and its response piece by piece.

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use wasm_bindgen::JsValue;
use worker::{AbortController, ByteStream, Fetch, Headers, Method, Request, RequestInit, RequestRedirect};

use crate::catalog::openapi::request::HttpRequest;
use crate::config::Settings;
use crate::internal::SourceRow;
use crate::outbound::{Redirect, decide_redirect, refuse_address};
use crate::protocol::text::bounded;
use crate::shell::clock::{now, sleep};
use crate::upstream::client::Outgoing;

/// Characters of what the platform says of a failed request.
const ERROR_CHARS: usize = 200;

/// Why no response came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoResponse {
    /// The request was not sent.
    NotSent(String),
    /// It may have been.
    Broken(String),
    /// The time is over.
    Timeout,
}

/// A response whose body is read in pieces. Dropped before its end, the connection is closed.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) session_id: Option<String>,
    body: Option<ByteStream>,
    _abort: AbortOnDrop,
}

/// What came next.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    End,
    Broken(String),
    Timeout,
}

struct AbortOnDrop(AbortController);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        // Moved out, because the platform's method consumes it; after the end it does nothing.
        std::mem::take(&mut self.0).abort();
    }
}

impl Incoming {
    /// The next piece of the body, until that time.
    pub(super) async fn next(&mut self, until: u64) -> Piece {
        let Some(body) = self.body.as_mut() else { return Piece::End };
        match select(body.next(), sleep(left(until))).await {
            Either::Left((Some(Ok(piece)), _)) => Piece::Bytes(piece),
            Either::Left((Some(Err(error)), _)) => Piece::Broken(bounded(&error.to_string(), ERROR_CHARS)),
            Either::Left((None, _)) => Piece::End,
            Either::Right(_) => Piece::Timeout,
        }
    }
}

fn left(until: u64) -> std::time::Duration {
    std::time::Duration::from_millis(until.saturating_sub(now()))
}

/// Sends a request to the source's endpoint and waits for the head of the response, until that time.
pub(super) async fn send(
    settings: &Settings,
    source: &SourceRow,
    outgoing: &Outgoing,
    until: u64,
) -> Result<Incoming, NoResponse> {
    let url = source.url.clone().ok_or_else(|| NoResponse::NotSent("the source has no URL".to_owned()))?;
    let mut request = HttpRequest {
        method: outgoing.method.to_owned(),
        url,
        headers: outgoing.headers.clone(),
        body: outgoing.body.as_ref().map(|body| body.as_bytes().to_vec()),
    };
    let mut followed = 0;
    loop {
        if let Some(refusal) = refuse_address(&request.url, settings.allow_local_network) {
            return Err(NoResponse::NotSent(refusal.to_string()));
        }
        let abort = AbortOnDrop(AbortController::default());
        let signal = abort.0.signal();
        let prepared = platform_request(&request).map_err(|error| NoResponse::NotSent(error.to_string()))?;
        let fetch = Fetch::Request(prepared);
        let sending = std::pin::pin!(fetch.send_with_signal(&signal));
        let mut response = match select(sending, sleep(left(until))).await {
            Either::Left((Ok(response), _)) => response,
            Either::Left((Err(error), _)) => return Err(NoResponse::Broken(bounded(&error.to_string(), ERROR_CHARS))),
            Either::Right(_) => return Err(NoResponse::Timeout),
        };
        let header = |name: &str| response.headers().get(name).ok().flatten();
        let status = response.status_code();
        if let Redirect::Follow(next) = decide_redirect(&request, status, header("location").as_deref(), followed)
            // A message that would become another one is not sent on.
            && next.method == request.method
        {
            followed += 1;
            request = next;
            continue;
        }
        let (content_type, session_id) = (header("content-type"), header("mcp-session-id"));
        let body = match response.body() {
            worker::ResponseBody::Empty => None,
            _ => response.stream().ok(),
        };
        return Ok(Incoming { status, content_type, session_id, body, _abort: abort });
    }
}

fn platform_request(request: &HttpRequest) -> worker::Result<Request> {
    let headers = Headers::new();
    for (name, value) in &request.headers {
        headers.set(name, value)?;
    }
    let mut init = RequestInit::new();
    init.with_method(Method::from(request.method.clone())).with_headers(headers).with_redirect(RequestRedirect::Manual);
    if let Some(body) = &request.body {
        init.with_body(Some(JsValue::from(js_sys::Uint8Array::from(body.as_slice()))));
    }
    Request::new_with_init(&request.url, &init)
}
