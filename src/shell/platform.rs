//! Failed calls to an object: what the platform says of them, and what the client is told.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use worker::{Env, Request, Response, Stub};

use super::clock::sleep;
use super::http::{ask_object, error_response, internal_error};
use super::random::jitter;
use super::telemetry::log;
use crate::config::Settings;
use crate::session::failure::{CPU_LIMIT, Disposition, MESSAGES, PlatformFailure, RELOCATED, classify, wire_error};

/// Tries of the first call of a session when its object is just being moved.
const OPEN_TRIES: u32 = 4;
/// Requests that are remembered for having run out of CPU time.
const REMEMBERED: usize = 256;

/// What the platform says of a failed call to an object.
pub(crate) fn platform_failure(error: &worker::Error) -> PlatformFailure {
    let mut failure = PlatformFailure::default();
    let mut next = Some(error);
    while let Some(error) = next.take()
        && failure.messages.len() < MESSAGES
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

/// Writes the log line of a failure.
pub(crate) fn log_failure(operation: &str, failure: &PlatformFailure) {
    let (kind, disposition) = classify(failure);
    log_disposition(operation, kind, disposition);
}

fn log_disposition(operation: &str, kind: &str, disposition: Disposition) {
    log(
        "mcp_durable_object_platform_failure",
        json!({ "operation": operation, "resetKind": kind, "disposition": disposition.name() }),
    );
}

/// Answers a request whose object failed. `request` names it, where its id was read: one that runs out of CPU time again
/// is not worth another try.
pub(crate) fn failure_response(
    operation: &str,
    failure: &PlatformFailure,
    request: Option<(String, String)>,
) -> worker::Result<Response> {
    let (kind, mut disposition) = classify(failure);
    if kind == CPU_LIMIT && request.is_some_and(ran_out_before) {
        disposition = Disposition::Unknown;
    }
    log_disposition(operation, kind, disposition);
    match wire_error(disposition) {
        Some(error) => error_response(&error, None),
        None => internal_error(&failure.messages.join(" / "), None),
    }
}

thread_local! {
    /// Requests that ran out of CPU time: session and request id. Only this isolate knows them; another one lets the client
    /// try once more.
    static RAN_OUT: RefCell<VecDeque<(String, String)>> = const { RefCell::new(VecDeque::new()) };
}

/// Whether this request ran out of CPU time before; remembers that it did.
fn ran_out_before(request: (String, String)) -> bool {
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

/// A session object that was never used.
fn new_session(env: &Env, settings: &Settings) -> worker::Result<Stub> {
    let namespace = env.durable_object("SESSION")?;
    match &settings.jurisdiction {
        Some(jurisdiction) => namespace.unique_id_with_jurisdiction(jurisdiction)?.get_stub(),
        None => namespace.unique_id()?.get_stub(),
    }
}

/// Sends the first request of a session to a new object, and to another one when that is just being moved: an object that
/// was never used has nothing to lose.
pub(crate) async fn first_call(
    env: &Env,
    settings: &Settings,
    request: impl Fn() -> worker::Result<Request>,
) -> worker::Result<web_sys::Response> {
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match ask_object(new_session(env, settings)?, &request()?).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let failure = platform_failure(&error);
        if classify(&failure).0 != RELOCATED || tries >= OPEN_TRIES {
            return failure_response("initialize", &failure, None).map(Into::into);
        }
        // Jittered, from 25 ms.
        sleep(Duration::from_millis((25_u64 << tries) / 2 + jitter(25)?)).await;
    }
}
