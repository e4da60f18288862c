//! The execution engine: decides what to journal, send, pause, replay and deliver.
//!
//! A state machine without I/O. An input goes in together with the time; effects come out, in the
//! order in which they must be carried out. It reads no clock, draws no randomness, and never
//! believes the sandbox. The shell carries effects out; see [`Effect`] for what it owes.

mod call_result;
mod execution;
mod interface;
mod limits;
pub mod program;
mod report;
mod row;

pub use call_result::{CallError, error_result, ok_result};
pub use execution::{Execution, Moment};
pub use interface::{
    Boot, Decider, DecisionError, DecisionItem, Delivery, Edited, Effect, Finish, Granted, IssuedCall, PauseTarget,
    Reply, Resolution, Turn, Write,
};
pub use limits::Limits;
pub use report::{PauseReport, PendingCall, Report, report_of_pause};
pub use row::{
    CallRow, CallStatus, DirectCall, ExecutionRow, ExecutionStatus, LedTo, LogLine, Millis, Outcome, Output, PauseRow,
    ProgramError, ProgramRow, QuestionRow, ReportedCall,
};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
