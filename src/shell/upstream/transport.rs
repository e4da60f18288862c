//! HTTP to a server: one request, and its response piece by piece. Addresses, credentials and redaction are
//! [`outbound`]'s.

use std::time::Duration;

use futures_util::future::{Either, select};
use worker::Env;

use crate::catalog::openapi::request::HttpRequest;
use crate::config::Settings;
use crate::credential::{Redactor, SourceCredential};
use crate::internal::SourceRow;
use crate::outbound::{MAX_REDIRECTS, Redirect, SendError, decide_redirect};
use crate::shell::clock::{now, sleep};
use crate::shell::outbound::{Limits, OpenAnswer, Outgoing as Sent, open};
use crate::shell::secrets;
use crate::upstream::client::Outgoing;

/// Where a server is, and who asks.
pub(super) struct Place<'p> {
    pub(super) env: &'p Env,
    pub(super) settings: &'p Settings,
    pub(super) organization: &'p str,
    pub(super) source: &'p SourceRow,
}

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
    answer: OpenAnswer,
}

/// What came next.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    End,
    Broken(String),
    Timeout,
}

impl Incoming {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.answer.header(name)
    }

    /// Takes secrets out of what the server said.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.answer.redactor
    }

    /// The next piece of the body, until that time, which is asked for again when it is reached: it may have moved.
    pub(super) async fn next(&mut self, until: impl Fn() -> u64) -> Piece {
        let mut next = std::pin::pin!(self.answer.next_chunk());
        loop {
            match select(next.as_mut(), sleep(Duration::from_millis(left(until())))).await {
                Either::Left((Ok(Some(piece)), _)) => return Piece::Bytes(piece),
                Either::Left((Ok(None), _)) => return Piece::End,
                Either::Left((Err(error), _)) => return Piece::Broken(error.to_string()),
                Either::Right(_) if left(until()) > 0 => {}
                Either::Right(_) => return Piece::Timeout,
            }
        }
    }
}

fn left(until: u64) -> u64 {
    until.saturating_sub(now())
}

/// Sends a request to the source's endpoint and waits for the head of the response, until that time.
pub(super) async fn send(place: &Place<'_>, outgoing: &Outgoing, until: u64) -> Result<Incoming, NoResponse> {
    let url = place.source.url.clone().ok_or_else(|| NoResponse::NotSent("the source has no URL".to_owned()))?;
    let credential = credential(place).await.map_err(no_response)?;
    let mut request = HttpRequest {
        method: outgoing.method.to_owned(),
        url,
        headers: outgoing.headers.clone(),
        body: outgoing.body.as_ref().map(|body| body.as_bytes().to_vec()),
    };
    for followed in 0.. {
        let limits = Limits { time_ms: left(until), ..Limits::of_call(place.settings) };
        let sent = Sent { credential: credential.as_ref(), follow_redirects: false, ..Sent::new(&request) };
        let answer = open(sent, limits).await.map_err(no_response)?;
        let redirect = decide_redirect(&request, answer.status, answer.header("location"), followed);
        match redirect {
            // A message that would become another one is not sent on.
            Redirect::Follow(next) if next.method == request.method && followed < MAX_REDIRECTS => request = next,
            Redirect::Follow(_) | Redirect::Answer => return Ok(Incoming { status: answer.status, answer }),
        }
    }
    Err(NoResponse::Timeout)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the guard asks the error itself")]
fn no_response(error: SendError) -> NoResponse {
    // It becomes a part of a sentence.
    let text = |error: SendError| error.to_string().trim_end_matches('.').to_owned();
    match error {
        SendError::Timeout { sent: true, .. } => NoResponse::Timeout,
        error if error.may_have_arrived() => NoResponse::Broken(text(error)),
        error => NoResponse::NotSent(text(error)),
    }
}

/// The source's credential, opened.
async fn credential(place: &Place<'_>) -> Result<Option<SourceCredential>, SendError> {
    let Some(sealed) = &place.source.credential else { return Ok(None) };
    let origins = &place.source.confirmed_origins;
    secrets::open_credential(place.env, place.organization, sealed, origins).await.map(Some)
}
