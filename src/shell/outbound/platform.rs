//! One request of the platform's `fetch`.

use wasm_bindgen::JsValue;
use worker::{AbortController, ByteStream, Fetch, Headers, Response, ResponseBody};

use super::{ERROR_TEXT, broken};
use crate::catalog::openapi::request::HttpRequest;
use crate::credential::Redactor;
use crate::outbound::{SendError, may_be_forwarded};
use crate::protocol::text::bounded;

/// Many servers refuse a request that does not say who sends it.
const USER_AGENT: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));

/// Ends a request whose answer nobody waits for: the time is over, the client cancelled it, or it was a redirect.
#[derive(Default)]
pub(super) struct AbortOnDrop(AbortController);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        // Moved out, because the platform's method consumes it; after the answer it does nothing.
        std::mem::take(&mut self.0).abort();
    }
}

/// An answer as the platform gives it.
pub(super) struct Arrived {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<ByteStream>,
    pub(super) connection: AbortOnDrop,
}

impl Arrived {
    pub(super) fn of(response: &Response, connection: AbortOnDrop) -> Self {
        let body = match response.body() {
            ResponseBody::Stream(stream) => Some(ByteStream::from(stream.clone())),
            ResponseBody::Empty | ResponseBody::Body(_) => None,
        };
        Self { status: response.status_code(), headers: response.headers().entries().collect(), body, connection }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer.
pub(super) enum FetchFailure {
    /// The platform does not take the request.
    Unsendable(worker::Error),
    /// It left, or may have.
    Broken(worker::Error),
}

impl FetchFailure {
    pub(super) fn error(&self, redactor: &Redactor) -> SendError {
        match self {
            Self::Unsendable(error) => {
                SendError::Unsendable { reason: bounded(&redactor.text(&error.to_string()), ERROR_TEXT) }
            }
            Self::Broken(error) => broken(error, redactor),
        }
    }
}

/// Sends one request and gives its answer, whatever it is; a redirect is an answer.
pub(super) async fn fetch(request: &HttpRequest, trace: &[(String, String)]) -> Result<Arrived, FetchFailure> {
    let request = platform_request(request, trace).map_err(FetchFailure::Unsendable)?;
    let connection = AbortOnDrop::default();
    let signal = connection.0.signal();
    let response = Fetch::Request(request.into()).send_with_signal(&signal).await;
    let response = response.map_err(FetchFailure::Broken)?;
    Ok(Arrived::of(&response, connection))
}

/// The bindings' own `Method` makes a GET of whatever it does not know, so the platform's request is built here.
pub(super) fn platform_request(request: &HttpRequest, trace: &[(String, String)]) -> worker::Result<web_sys::Request> {
    let headers = Headers::new();
    headers.set("user-agent", USER_AGENT)?;
    for (name, value) in trace.iter().chain(&request.headers) {
        if may_be_forwarded(name) {
            headers.set(name, value)?;
        }
    }
    let init = web_sys::RequestInit::new();
    init.set_method(&request.method);
    init.set_headers(&headers.0);
    init.set_redirect(web_sys::RequestRedirect::Manual);
    if let Some(body) = &request.body {
        init.set_body(&JsValue::from(js_sys::Uint8Array::from(body.as_slice())));
    }
    Ok(web_sys::Request::new_with_str_and_init(&request.url, &init)?)
}
