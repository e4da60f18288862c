//! Timers: calls of the program that no tool answers, only the time.
//!
//! A timer that is cleared settles without a result and has no place in the order of results: a replay, which clears it
//! at the same point, never misses it. One that the program clears after it was due, but before it heard of it, is
//! delivered and ignored, in the first run as in a replay.

use super::Execution;
use crate::engine::row::{CallRow, CallStatus, Millis};

impl Execution {
    /// When the first timer is due that is not over.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Millis> {
        self.sleeping().filter_map(|call| call.due).min()
    }

    fn sleeping(&self) -> impl Iterator<Item = &CallRow> {
        self.calls.iter().filter(|call| call.status == CallStatus::Sleeping)
    }

    /// Settles what is due, in the order of the times and of the numbers.
    pub(super) fn fire_timers(&mut self, now: Millis) {
        let mut due: Vec<(Millis, u32)> =
            self.sleeping().filter_map(|call| Some((call.due.filter(|due| *due <= now)?, call.seq))).collect();
        due.sort_unstable();
        for (_, seq) in &due {
            self.settle(now, *seq, "null".into());
        }
        if !due.is_empty() {
            self.set_running(now);
        }
    }

    /// The program cleared timers. Numbers that are none of a running timer change nothing.
    pub(super) fn clear_timers(&mut self, now: Millis, cleared: &[u32]) {
        for seq in cleared {
            if self.call(*seq).is_some_and(|call| call.status == CallStatus::Sleeping) {
                self.clear_timer(now, *seq);
            }
        }
    }

    /// The execution ends: no timer fires any more.
    pub(super) fn forget_timers(&mut self, now: Millis) {
        let running: Vec<u32> = self.sleeping().map(|call| call.seq).collect();
        for seq in running {
            self.clear_timer(now, seq);
        }
    }

    fn clear_timer(&mut self, now: Millis, seq: u32) {
        self.change_call(seq, |call| {
            call.status = CallStatus::Settled;
            call.settled_at = Some(now);
        });
    }
}
