//! The one way out: every HTTP request of the gateway to somebody else's server is sent from here.
//!
//! In it are the address rules, redirects by hand, credentials (only to confirmed origins), limits of time and size, and
//! the redaction of whatever comes back. Nothing of the agent's own request goes along but the trace.

mod platform;
mod token;

use std::cell::Cell;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use worker::{ByteStream, Env};

use self::platform::{AbortOnDrop, Arrived, FetchFailure, fetch, platform_request};
use super::clock::sleep;
use super::organization;
use crate::catalog::openapi::request::HttpRequest;
use crate::config::Settings;
use crate::credential::{Auth, Redactor, SourceCredential};
use crate::outbound::{Redirect, SendError, decide_redirect, refuse_address};
use crate::protocol::text::bounded;

/// Characters of what the platform says of a failed request.
const ERROR_TEXT: usize = 300;

/// A request and what goes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'o> {
    /// The request, without the credential.
    pub(crate) request: &'o HttpRequest,
    /// Put in at each hop, and taken out of everything that comes back.
    pub(crate) credential: Option<&'o SourceCredential>,
    /// Headers of the trace. The request's own headers win.
    pub(crate) trace: &'o [(String, String)],
    /// Whether redirects to the same origin are followed. Where not, a redirect is the answer.
    pub(crate) follow_redirects: bool,
}

impl<'o> Outgoing<'o> {
    /// A request without a credential that follows redirects.
    pub(crate) fn new(request: &'o HttpRequest) -> Self {
        Self { request, credential: None, trace: &[], follow_redirects: true }
    }
}

/// What holds for one exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Until the answer is complete, or with [`open`] until it begins.
    pub(crate) time_ms: u64,
    /// Bytes of the body, after decompression.
    pub(crate) bytes: usize,
    /// Whether local addresses may be called.
    pub(crate) allow_local: bool,
}

impl Limits {
    /// Those of a tool call.
    pub(crate) fn of_call(settings: &Settings) -> Self {
        Self {
            time_ms: settings.tool_timeout_ms,
            bytes: settings.tool_response_bytes,
            allow_local: settings.allow_local_network,
        }
    }
}

/// A whole answer, redacted.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// For texts that are made of the answer: what was encoded in another way than in the body may show only there.
    pub(crate) redactor: Redactor,
}

/// An answer whose body is still to be read. Dropped, it ends the connection.
pub(crate) struct OpenAnswer {
    pub(crate) status: u16,
    /// Names in lower case; redacted.
    pub(crate) headers: Vec<(String, String)>,
    /// The body is not redacted: whoever reads it does that, message by message.
    pub(crate) redactor: Redactor,
    body: Option<ByteStream>,
    connection: AbortOnDrop,
}

impl OpenAnswer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next piece of the body, as it came and not redacted; `None` at the end.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, SendError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        match body.next().await {
            None => Ok(None),
            Some(Ok(chunk)) => Ok(Some(chunk)),
            Some(Err(error)) => Err(broken(&error, &self.redactor)),
        }
    }

    /// The rest of the body. Counts what arrives, whatever `Content-Length` says.
    pub(crate) async fn whole(mut self, limit: usize) -> Result<Answer, SendError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(SendError::TooLarge { status: self.status, limit });
            }
            body.extend_from_slice(&chunk);
        }
        drop(self.connection);
        let body = self.redactor.body(body);
        Ok(Answer { status: self.status, headers: self.headers, body, redactor: self.redactor })
    }
}

/// Sends a request and reads the whole answer. Dropped, it ends the connection.
pub(crate) async fn send(outgoing: Outgoing<'_>, limits: Limits) -> Result<Answer, SendError> {
    let sent = Cell::new(false);
    let exchange = async { exchange(outgoing, limits, &sent).await?.whole(limits.bytes).await };
    in_time(exchange, limits.time_ms, &sent).await
}

/// Sends a request and gives the answer as soon as it begins. How long the body may take is the caller's affair.
pub(crate) async fn open(outgoing: Outgoing<'_>, limits: Limits) -> Result<OpenAnswer, SendError> {
    let sent = Cell::new(false);
    in_time(exchange(outgoing, limits, &sent), limits.time_ms, &sent).await
}

/// Sends a request to the gateway's own demo API, as if it were somebody else's.
pub(crate) async fn send_to_own_api(
    env: &Env,
    organization: &str,
    outgoing: Outgoing<'_>,
    limits: Limits,
) -> Result<Answer, SendError> {
    let sent = Cell::new(false);
    let exchange = async {
        let redactor = Redactor::default();
        let request = platform_request(outgoing.request, outgoing.trace)
            .map_err(|error| FetchFailure::Unsendable(error).error(&redactor))?;
        sent.set(true);
        let response = organization::demo(env, organization, request.into()).await;
        let response = response.map_err(|error| FetchFailure::Broken(error).error(&redactor))?;
        let arrived = Arrived::of(&response, AbortOnDrop::default());
        open_answer(arrived, redactor).whole(limits.bytes).await
    };
    in_time(exchange, limits.time_ms, &sent).await
}

async fn in_time<T>(
    exchange: impl Future<Output = Result<T, SendError>>,
    limit_ms: u64,
    sent: &Cell<bool>,
) -> Result<T, SendError> {
    let exchange = std::pin::pin!(exchange);
    match select(exchange, sleep(Duration::from_millis(limit_ms))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(SendError::Timeout { limit_ms, sent: sent.get() }),
    }
}

/// The request, its redirects, and for OAuth the token before it.
async fn exchange(outgoing: Outgoing<'_>, limits: Limits, sent: &Cell<bool>) -> Result<OpenAnswer, SendError> {
    let mut request = outgoing.request.clone();
    // Before a token is fetched for nothing.
    check_hop(&request.url, outgoing.credential, limits)?;
    let mut access = match outgoing.credential {
        Some(credential) => Some(token::usable_auth(credential, limits).await?),
        None => None,
    };
    let mut followed = 0;
    loop {
        check_hop(&request.url, outgoing.credential, limits)?;
        let mut complete = request.clone();
        if let Some(access) = &access {
            access.auth.apply(&mut complete);
        }
        let redactor = redactor_of(outgoing.credential, access.as_ref().map(|access| &access.auth));
        sent.set(true);
        let arrived = fetch(&complete, outgoing.trace).await.map_err(|failure| failure.error(&redactor))?;
        // A 401 says that nothing was done (RFC 9110, section 15.5.2), so the call may be sent once more, whatever it does;
        // but only where the token was kept from an earlier call and may have been taken back since.
        if arrived.status == 401
            && let (Some(credential), Some(used)) = (outgoing.credential, &access)
            && used.kept
        {
            token::forget(credential);
            access = Some(token::usable_auth(credential, limits).await?);
            continue;
        }
        if outgoing.follow_redirects
            && let Redirect::Follow(next) =
                decide_redirect(&request, arrived.status, arrived.header("location"), followed)
        {
            followed += 1;
            request = next;
            continue;
        }
        return Ok(open_answer(arrived, redactor));
    }
}

fn open_answer(arrived: Arrived, redactor: Redactor) -> OpenAnswer {
    let Arrived { status, headers, body, connection } = arrived;
    let headers = headers.into_iter().map(|(name, value)| (name, redactor.text(&value).into_owned())).collect();
    OpenAnswer { status, headers, redactor, body, connection }
}

fn check_hop(url: &str, credential: Option<&SourceCredential>, limits: Limits) -> Result<(), SendError> {
    if let Some(refusal) = refuse_address(url, limits.allow_local) {
        return Err(refusal.into());
    }
    match credential.map(|credential| credential.check_origin(url)) {
        Some(Err(origin)) => Err(SendError::OriginNotConfirmed { origin }),
        None | Some(Ok(())) => Ok(()),
    }
}

fn redactor_of(credential: Option<&SourceCredential>, used: Option<&Auth>) -> Redactor {
    let mut secrets = credential.map(|credential| credential.auth.secrets()).unwrap_or_default();
    secrets.extend(used.map(Auth::secrets).unwrap_or_default());
    Redactor::new(secrets.iter().map(String::as_str))
}

fn broken(error: &worker::Error, redactor: &Redactor) -> SendError {
    SendError::Broken { reason: bounded(&redactor.text(&error.to_string()), ERROR_TEXT) }
}
