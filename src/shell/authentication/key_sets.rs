//! Key sets of issuers, as this isolate knows them.
//!
//! A set is used as it is while it is fresh, and read again beside a request when it is old. A token with a key id that is not
//! in it has it read again at once, at most every ten seconds. While an issuer does not answer, what is known is used on. A
//! request never waits for another one's promise, which the platform would cancel: it looks again after a moment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::json;
use wasm_bindgen::JsValue;

use super::fetching::{ask, get};
use super::issuer;
use super::verify::{import, verify};
use crate::auth::jwt::{Algorithm, JwkSet, Jwt, JwtError, KEY_SET_BYTES};
use crate::shell::clock::{now, sleep};
use crate::shell::telemetry::log_error;

/// Between two readings for key ids that are not known, in milliseconds.
const UNKNOWN_EVERY_MS: u64 = 10_000;
/// How soon an issuer that did not answer is asked again, in milliseconds.
const RETRY_MS: u64 = 2_000;
/// How long keys are used that nobody could read again, in milliseconds: a day. Longer, a key that was withdrawn would live.
const STALE_MOST_MS: u64 = 86_400_000;
/// How often a request looks whether another one has read the keys, in milliseconds.
const LOOK_MS: u64 = 20;

/// Whose keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeySource {
    /// An issuer's metadata says where they are.
    Issuer(String),
    /// They are there.
    Url(String),
}

/// How long things may take, from the settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// `IDENTITY_TIMEOUT_MS`
    pub(super) time_ms: u64,
    /// `KEY_SET_FRESH_MS`
    pub(super) fresh_ms: u64,
}

/// Why a token could not be verified.
#[derive(Debug)]
pub(super) enum Failure {
    /// It is not valid.
    Invalid(JwtError),
    /// It cannot be told: the issuer's keys could not be read.
    Unavailable,
}

struct KeySet {
    set: JwkSet,
    read_at: u64,
    /// Keys in the platform's form.
    imported: RefCell<BTreeMap<(usize, Algorithm), JsValue>>,
}

/// What is known of one source. There are as many as the settings name, two at most.
#[derive(Default)]
struct Known {
    set: Option<Rc<KeySet>>,
    /// When the reading began that is going on.
    reading: Option<u64>,
    /// When a reading last failed, if none succeeded since.
    failed_at: Option<u64>,
    /// When the set was last read because of an unknown key id.
    asked_for_unknown: Option<u64>,
    /// When the set was last read because it was old.
    asked_for_old: Option<u64>,
}

thread_local! {
    static KNOWN: RefCell<BTreeMap<KeySource, Known>> = const { RefCell::new(BTreeMap::new()) };
}

fn with<T>(source: &KeySource, work: impl FnOnce(&mut Known) -> T) -> T {
    KNOWN.with_borrow_mut(|all| work(all.entry(source.clone()).or_default()))
}

/// Verifies a token's signature with the keys of a source.
pub(super) async fn verify_token(
    source: &KeySource,
    token: &Jwt<'_>,
    patience: Patience,
    context: Option<&worker::Context>,
) -> Result<(), Failure> {
    let set = find(source, token, patience, context).await?;
    for (number, key) in set.set.candidates(token) {
        let known = set.imported.borrow().get(&(number, token.algorithm)).cloned();
        let key = match known {
            Some(key) => key,
            None => match import(key, token.algorithm).await {
                Ok(key) => {
                    set.imported.borrow_mut().insert((number, token.algorithm), key.clone());
                    key
                }
                Err(_) => continue,
            },
        };
        if verify(&key, token.algorithm, &token.signature, token.signed).await {
            return Ok(());
        }
    }
    Err(Failure::Invalid(JwtError::Signature))
}

/// What is done for a token, from what is known at the moment.
enum Step {
    Use(Rc<KeySet>),
    /// The set is good, but has to be read again beside the request.
    UseAndRead(Rc<KeySet>),
    Read,
    Look,
    Fail(Failure),
}

/// A set that has a key for the token.
async fn find(
    source: &KeySource,
    token: &Jwt<'_>,
    patience: Patience,
    context: Option<&worker::Context>,
) -> Result<Rc<KeySet>, Failure> {
    loop {
        match with(source, |known| next_step(known, token, patience)) {
            Step::Use(set) => return Ok(set),
            Step::Fail(failure) => return Err(failure),
            Step::Look => sleep(Duration::from_millis(LOOK_MS)).await,
            Step::Read => read(source.clone(), patience.time_ms).await,
            Step::UseAndRead(set) => {
                let source = source.clone();
                match context {
                    Some(context) => context.wait_until(read(source, patience.time_ms)),
                    None => read(source, patience.time_ms).await,
                }
                return Ok(set);
            }
        }
    }
}

fn next_step(known: &mut Known, token: &Jwt<'_>, patience: Patience) -> Step {
    let at = now();
    let within = |moment: Option<u64>, span: u64| moment.is_some_and(|moment| at.saturating_sub(moment) < span);
    // A reading whose request was cancelled never ends; it counts for as long as it may take.
    let is_read_now = within(known.reading, patience.time_ms * 2);
    let failed_lately = within(known.failed_at, RETRY_MS);
    let usable = known.set.clone().filter(|set| at.saturating_sub(set.read_at) < STALE_MOST_MS);
    let Some(set) = usable else {
        return match (is_read_now, failed_lately) {
            (true, _) => Step::Look,
            (false, true) => Step::Fail(Failure::Unavailable),
            (false, false) => begin(known, at),
        };
    };
    if set.set.candidates(token).is_empty() {
        if is_read_now {
            return Step::Look;
        }
        if within(known.asked_for_unknown, UNKNOWN_EVERY_MS) {
            // Only a set that could be read says that there is no such key.
            return Step::Fail(match known.failed_at {
                Some(_) => Failure::Unavailable,
                None => Failure::Invalid(JwtError::UnknownKey),
            });
        }
        known.asked_for_unknown = Some(at);
        return begin(known, at);
    }
    let is_old = at.saturating_sub(set.read_at) >= patience.fresh_ms;
    if is_old && !is_read_now && !within(known.asked_for_old, UNKNOWN_EVERY_MS) {
        known.asked_for_old = Some(at);
        known.reading = Some(at);
        return Step::UseAndRead(set);
    }
    Step::Use(set)
}

fn begin(known: &mut Known, at: u64) -> Step {
    known.reading = Some(at);
    Step::Read
}

/// Reads a set, and notes what came of it. Whoever waits looks at what is noted.
async fn read(source: KeySource, time_ms: u64) {
    let result = {
        let fetch = std::pin::pin!(fetch(&source, time_ms));
        match select(fetch, sleep(Duration::from_millis(time_ms))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(format!("the issuer did not answer within {time_ms} ms")),
        }
    };
    with(&source, |known| {
        known.reading = None;
        match result {
            Ok(set) => {
                known.failed_at = None;
                let read_at = now();
                known.set = Some(Rc::new(KeySet { set, read_at, imported: RefCell::default() }));
            }
            Err(reason) => {
                known.failed_at = Some(now());
                log_error("mcp_key_set_unavailable", json!({ "reason": reason, "hasKeys": known.set.is_some() }));
            }
        }
    });
}

async fn fetch(source: &KeySource, time_ms: u64) -> Result<JwkSet, String> {
    let (url, near) = match source {
        KeySource::Issuer(issuer) => (issuer::metadata(issuer, time_ms).await?.jwks_uri.clone(), issuer),
        KeySource::Url(url) => (url.clone(), url),
    };
    let (status, body) = ask(get(&url), KEY_SET_BYTES, time_ms, near).await?;
    if status != 200 {
        issuer::forget();
        return Err(format!("{url} answered {status}"));
    }
    JwkSet::parse(&body).ok_or_else(|| format!("{url} has no key that tokens can be verified with"))
}
