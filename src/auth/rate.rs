//! Counts in a window of time, in bounded memory: failed authentications of an address, sessions of an account.
//!
//! An isolate counts for itself. The platform runs several, so the true limit is a multiple of what is set; it holds a flood
//! down, and is not what keeps a secret safe: those cannot be guessed.

use std::collections::HashMap;

/// The window, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Names that are counted at once.
const NAMES: usize = 10_000;

/// Counts of the current windows.
#[derive(Debug, Default)]
pub struct Counts {
    windows: HashMap<String, Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: u64,
    count: u32,
}

impl Counts {
    /// How many seconds to wait, where a name has reached `limit` in its minute.
    #[must_use]
    pub fn exceeded(&self, name: &str, limit: u32, now: u64) -> Option<u32> {
        let window = self.windows.get(name).filter(|window| window.count >= limit && !window.is_over(now))?;
        let left = window.began.saturating_add(WINDOW_MS).saturating_sub(now);
        Some(u32::try_from(left.div_ceil(1_000)).unwrap_or(60).max(1))
    }

    /// Counts one.
    pub fn count(&mut self, name: &str, now: u64) {
        if let Some(window) = self.windows.get_mut(name) {
            if window.is_over(now) {
                *window = Window { began: now, count: 0 };
            }
            window.count = window.count.saturating_add(1);
            return;
        }
        if self.windows.len() >= NAMES {
            self.windows.retain(|_, window| !window.is_over(now));
        }
        // So many different names are a flood from everywhere, which no count of single names holds down.
        if self.windows.len() >= NAMES {
            self.windows.clear();
        }
        self.windows.insert(name.to_owned(), Window { began: now, count: 1 });
    }
}

impl Window {
    fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.began) >= WINDOW_MS
    }
}

/// What an address is counted under: of IPv6 the network, because a machine has all of its addresses.
#[must_use]
pub fn address_name(address: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(std::net::IpAddr::V4(address)) => address.to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_reached_its_limit_waits_for_the_rest_of_its_minute() {
        let mut counts = Counts::default();
        for second in 0..3 {
            assert_eq!(counts.exceeded("a", 3, second * 1_000), None);
            counts.count("a", second * 1_000);
        }
        assert_eq!(counts.exceeded("a", 3, 2_500), Some(58));
        assert_eq!(counts.exceeded("b", 3, 2_500), None);
        assert_eq!(counts.exceeded("a", 3, 59_999), Some(1));
        assert_eq!(counts.exceeded("a", 3, 60_000), None);
        counts.count("a", 60_000);
        assert_eq!(counts.exceeded("a", 2, 60_001), None);
        assert_eq!(counts.exceeded("a", 1, 60_001), Some(60));
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut counts = Counts::default();
        for number in 0..3 * NAMES {
            counts.count(&number.to_string(), 5);
            assert!(counts.windows.len() <= NAMES);
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        assert_eq!(address_name("2001:db8:1:2:3:4:5:6"), address_name("2001:db8:1:2::1"));
        assert_ne!(address_name("2001:db8:1:2::1"), address_name("2001:db8:1:3::1"));
        assert_eq!(address_name("192.0.2.7"), "192.0.2.7");
        assert_eq!(address_name("nonsense"), "unknown");
    }
}
