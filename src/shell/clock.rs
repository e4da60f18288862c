//! The only place that reads the time.

/// Milliseconds since the Unix epoch. On this platform it moves only with I/O.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> u64 {
    worker::Date::now().as_millis()
}
