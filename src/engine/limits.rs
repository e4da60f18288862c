//! The limits of one execution.

/// Limits and intervals, all of them adjustable so that tests can make them small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a call waits for a person, in milliseconds.
    pub approval_window_ms: u64,
    /// How long a question that a tool asks on its way waits for a person, in milliseconds: a connection is open meanwhile.
    pub question_ms: u64,
    /// Questions of one call.
    pub questions: usize,
    /// Wall time of a program without the time it waits for a person, in milliseconds.
    pub execution_timeout_ms: u64,
    /// How long a waiting program stays in memory, in milliseconds.
    pub suspend_after_ms: u64,
    /// How far ahead of itself a running execution keeps its recovery alarm, in milliseconds.
    pub recovery_ms: u64,
    /// Calls of one execution.
    pub calls: u32,
    /// Calls that may be on their way at once; the platform opens no more connections.
    pub in_flight: usize,
    /// Bytes of one call's arguments.
    pub arguments_bytes: usize,
    /// Bytes of one call's result.
    pub result_bytes: usize,
    /// Bytes of all arguments and results of an execution.
    pub journal_bytes: u64,
    /// Sandboxes started in a row without anything new in the journal.
    pub attempts_without_progress: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            approval_window_ms: 86_400_000,
            // Less than what the connection is kept for: the person is told first.
            question_ms: 540_000,
            questions: 20,
            execution_timeout_ms: 300_000,
            suspend_after_ms: 15_000,
            recovery_ms: 10_000,
            calls: 1_000,
            in_flight: 6,
            arguments_bytes: 1 << 20,
            result_bytes: 16 << 20,
            journal_bytes: 32 << 20,
            attempts_without_progress: 25,
        }
    }
}
