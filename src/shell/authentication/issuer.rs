//! What an issuer says of itself, as this isolate knows it.

use std::cell::RefCell;
use std::rc::Rc;

use super::fetching::{ask, get};
use crate::auth::sign_in::{METADATA_BYTES, Metadata, metadata_urls, read_metadata};
use crate::shell::clock::now;

/// How long metadata is used before it is read again, in milliseconds. It hardly ever changes.
const FRESH_MS: u64 = 3_600_000;

thread_local! {
    /// There is one issuer; its URL stands beside what it said, and when.
    static KNOWN: RefCell<Option<(String, u64, Rc<Metadata>)>> = const { RefCell::new(None) };
}

/// An issuer's metadata. What is old is used on, where the issuer does not answer.
pub(super) async fn metadata(issuer: &str, time_ms: u64) -> Result<Rc<Metadata>, String> {
    let known = KNOWN.with_borrow(Clone::clone).filter(|(of, _, _)| of == issuer);
    if let Some((_, read_at, metadata)) = &known
        && now().saturating_sub(*read_at) < FRESH_MS
    {
        return Ok(Rc::clone(metadata));
    }
    match read(issuer, time_ms).await {
        Ok(metadata) => {
            let metadata = Rc::new(metadata);
            KNOWN.set(Some((issuer.to_owned(), now(), Rc::clone(&metadata))));
            Ok(metadata)
        }
        Err(reason) => known.map(|(_, _, metadata)| metadata).ok_or(reason),
    }
}

/// Reads it anew the next time: it named a place where there is nothing any more.
pub(super) fn forget() {
    KNOWN.set(None);
}

async fn read(issuer: &str, time_ms: u64) -> Result<Metadata, String> {
    let mut reason = String::new();
    for url in metadata_urls(issuer) {
        let (status, body) = ask(get(&url), METADATA_BYTES, time_ms, issuer).await?;
        if status == 200 {
            return read_metadata(&body, issuer).map_err(|problem| format!("{url} is not used: {problem}"));
        }
        reason = format!("{url} answered {status}");
        // Only what is not there may be somewhere else.
        if status != 404 {
            break;
        }
    }
    Err(reason)
}
