//! The one alarm of a session object: when it rings, and what is done when it does.

/// What the alarm depends on, read from storage and memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlarmState {
    /// Last use by the owner; `None` when there is no session.
    pub last_activity: Option<u64>,
    /// When the session ended; `None` while it lives.
    pub terminated_at: Option<u64>,
    /// The earliest time an execution asks for.
    pub execution: Option<u64>,
    /// Executions that wait for a person.
    pub waiting: usize,
    /// Executions that run.
    pub running: usize,
    /// When the oldest finished execution may be forgotten.
    pub retention: Option<u64>,
}

/// The settings that the alarm depends on, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmSettings {
    /// `SESSION_IDLE_TIMEOUT_MS`
    pub idle_timeout: u64,
    /// `TOMBSTONE_MS`
    pub tombstone: u64,
}

impl AlarmSettings {
    /// Milliseconds between two writes of the last use: a tenth of the idle timeout.
    #[must_use]
    pub fn activity_interval(self) -> u64 {
        self.idle_timeout / 10
    }

    /// The last use, as far as storage knows it: there may have been one later that was not written. A session must not be
    /// taken for idle too early, so the latest possible counts.
    #[must_use]
    pub fn latest_activity(self, stored: u64, now: u64) -> u64 {
        stored.saturating_add(self.activity_interval()).min(now).max(stored)
    }
}

/// What is done with the session when the alarm rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was used lately.
    Keep,
    /// It is idle, but something waits or runs that has to end first.
    Extend,
    /// It is idle: end it, and leave a tombstone.
    Expire,
    /// Nothing is left to remember: wipe the object.
    Wipe,
}

/// Decides what becomes of the session.
#[must_use]
pub fn decide_fate(state: &AlarmState, settings: AlarmSettings, now: u64) -> Fate {
    let busy = state.waiting > 0 || state.running > 0;
    let Some(last_activity) = state.last_activity else {
        return Fate::Wipe;
    };
    if let Some(at) = state.terminated_at {
        let over = now >= at.saturating_add(settings.tombstone);
        return match (busy || state.retention.is_some(), over) {
            (false, true) => Fate::Wipe,
            (true, _) => Fate::Extend,
            (false, false) => Fate::Keep,
        };
    }
    if now < last_activity.saturating_add(settings.idle_timeout) {
        Fate::Keep
    } else if busy {
        Fate::Extend
    } else {
        Fate::Expire
    }
}

/// When the alarm has to ring next; `None` when never. The only place where this is computed.
#[must_use]
pub fn next_alarm(state: &AlarmState, settings: AlarmSettings, now: u64) -> Option<u64> {
    let kept = state.waiting > 0 || state.running > 0 || (state.terminated_at.is_some() && state.retention.is_some());
    let own = match (state.last_activity, state.terminated_at) {
        (None, _) => return None,
        (Some(_), Some(at)) => Some(at.saturating_add(settings.tombstone)),
        (Some(last_activity), None) => Some(last_activity.saturating_add(settings.idle_timeout)),
    };
    // A session that is kept only because something in it has not ended is looked at when that ends.
    let own = own.filter(|at| *at > now || !kept);
    [own, state.execution, state.retention].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_was_not_written_still_counts() {
        let settings = AlarmSettings { idle_timeout: 1_000, tombstone: 10 };
        for (stored, now, latest) in
            [(500, 500, 500), (500, 550, 550), (500, 600, 600), (500, 2_000, 600), (500, 400, 500)]
        {
            assert_eq!(settings.latest_activity(stored, now), latest, "{stored} {now}");
        }
    }

    const SETTINGS: AlarmSettings = AlarmSettings { idle_timeout: 1_000, tombstone: 500 };

    fn state(last_activity: u64) -> AlarmState {
        AlarmState { last_activity: Some(last_activity), ..AlarmState::default() }
    }

    #[test]
    fn fates() {
        let waiting = |base: AlarmState| AlarmState { waiting: 1, ..base };
        let ended = |at, base: AlarmState| AlarmState { terminated_at: Some(at), ..base };
        for (what, state, now, expected) in [
            ("unknown", AlarmState::default(), 5, Fate::Wipe),
            ("used lately", state(100), 1_099, Fate::Keep),
            ("idle", state(100), 1_100, Fate::Expire),
            ("idle, something waits", waiting(state(100)), 5_000, Fate::Extend),
            ("ended", ended(100, state(100)), 599, Fate::Keep),
            ("ended long ago", ended(100, state(100)), 600, Fate::Wipe),
            ("ended long ago, something waits", waiting(ended(100, state(100))), 600, Fate::Extend),
        ] {
            assert_eq!(decide_fate(&state, SETTINGS, now), expected, "{what}");
        }
    }

    #[test]
    fn the_alarm_is_the_earliest_of_all() {
        assert_eq!(next_alarm(&AlarmState::default(), SETTINGS, 0), None);
        assert_eq!(next_alarm(&state(100), SETTINGS, 200), Some(1_100));
        let with = AlarmState { execution: Some(300), retention: Some(250), ..state(100) };
        assert_eq!(next_alarm(&with, SETTINGS, 200), Some(250));
    }

    #[test]
    fn what_is_kept_never_rings_again_at_once() {
        let times = [None, Some(50), Some(1_000), Some(1_500), Some(5_000), Some(6_000), Some(9_000)];
        let now = 5_000;
        for last_activity in [Some(50), Some(4_500)] {
            for terminated_at in times.into_iter().filter(|at| at.is_none_or(|at| at <= now)) {
                for execution in [None, Some(5_001), Some(9_000)] {
                    for retention in [None, Some(5_001), Some(9_000)] {
                        let waiting = usize::from(execution.is_some());
                        let state =
                            AlarmState { last_activity, terminated_at, execution, waiting, running: 0, retention };
                        let fate = decide_fate(&state, SETTINGS, now);
                        let next = next_alarm(&state, SETTINGS, now);
                        if matches!(fate, Fate::Keep | Fate::Extend) {
                            assert!(next.is_some_and(|at| at > now), "{state:?}: {fate:?}, {next:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_idle_session_in_which_something_waits_does_not_ring_at_once_for_ever() {
        let idle = AlarmState { waiting: 1, execution: Some(9_000), ..state(100) };
        assert_eq!(next_alarm(&idle, SETTINGS, 5_000), Some(9_000));
    }
}
