//! Room for documents that are being imported: an isolate has 128 MB for everything that goes on in it, and one large document
//! takes most of that.

use std::cell::RefCell;
use std::time::Duration;

use super::admin_api::SOURCE_LIMIT;
use super::clock::{now, sleep};
use crate::organization::fault::Fault;

/// Documents smaller than this, in bytes, need no room.
const SMALL: usize = 1 << 20;
/// How long one waits for others to end, in milliseconds.
const WAIT_MS: u64 = 20_000;
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// After so many milliseconds a place is free whatever became of its import: the platform ends requests without a word.
const KEPT_MS: u64 = 120_000;

thread_local! {
    static TAKEN: RefCell<Taken> = const { RefCell::new(Taken { places: Vec::new(), last: 0 }) };
}

struct Taken {
    /// Number, bytes, and when it was taken.
    places: Vec<(u64, usize, u64)>,
    last: u64,
}

/// Room that is free again when this is dropped.
pub(super) struct Place {
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.with_borrow_mut(|taken| taken.places.retain(|(number, _, _)| *number != self.number));
    }
}

/// Waits until a document of so many bytes can be imported beside those that are. Nobody waits for another's promise, which the
/// platform forbids between requests: one looks again.
pub(super) async fn place_for(bytes: usize) -> Result<Place, Fault> {
    let began = now();
    loop {
        if let Some(place) = take(bytes) {
            return Ok(place);
        }
        if now().saturating_sub(began) > WAIT_MS {
            let problem = format!(
                "Another large document is being imported, and there is no room for one of {bytes} bytes beside it. Try again in a minute."
            );
            return Err(Fault::new(429, problem));
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn take(bytes: usize) -> Option<Place> {
    TAKEN.with_borrow_mut(|taken| {
        let oldest = now().saturating_sub(KEPT_MS);
        taken.places.retain(|(_, _, since)| *since > oldest);
        let others: usize = taken.places.iter().map(|(_, bytes, _)| bytes).sum();
        let fits = bytes < SMALL || others == 0 || others.saturating_add(bytes) <= SOURCE_LIMIT;
        fits.then(|| {
            taken.last += 1;
            if bytes >= SMALL {
                taken.places.push((taken.last, bytes, now()));
            }
            Place { number: taken.last }
        })
    })
}
