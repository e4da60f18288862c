//! Single transitions, as stories: what one input leads to.

mod decisions;
mod questions;
mod stops;
mod timers;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::approval::{Approvers, Route, ShownCall, Standing, Verdict};

/// An execution and a clock.
struct Story {
    execution: Execution,
    now: Millis,
    nonce: u32,
    turns: u32,
}

impl Story {
    fn start() -> Self {
        Self::start_with(Limits::default())
    }

    fn start_with(limits: Limits) -> Self {
        let moment = Moment { now: 1_000, nonce: "p0".to_owned() };
        let (execution, effects) = Execution::start(&moment, "e".to_owned(), "0".repeat(32), 1, limits);
        assert!(matches!(effects.as_slice(), [Effect::Commit(_), Effect::StartSandbox(_)]), "{effects:?}");
        Self { execution, now: 1_000, nonce: 0, turns: 0 }
    }

    fn moment(&mut self) -> Moment {
        self.nonce += 1;
        Moment { now: self.now, nonce: format!("p{}", self.nonce) }
    }

    fn turn(&mut self, calls: &[(&str, &str)], finish: Option<&str>) -> Vec<Effect> {
        let first = u32::try_from(self.execution.calls().len()).unwrap();
        let calls = calls.iter().zip(first..).map(|((address, arguments), seq)| IssuedCall {
            seq,
            address: (*address).to_owned(),
            arguments: Ok((*arguments).into()),
            line: None,
            timer: None,
        });
        let calls = calls.collect();
        self.raw_turn(calls, finish)
    }

    fn raw_turn(&mut self, calls: Vec<IssuedCall>, finish: Option<&str>) -> Vec<Effect> {
        let finish = finish.map(|result| Finish { result: Ok(Some(result.to_owned())), warnings: Vec::new() });
        self.whole_turn(Turn { calls, finish, ..silent_turn() })
    }

    /// The next turn of the sandbox that runs, with all that it says.
    fn whole_turn(&mut self, turn: Turn) -> Vec<Effect> {
        let moment = self.moment();
        let number = self.turns;
        self.turns += 1;
        let attempt = self.execution.row().attempts;
        self.execution.turn(&moment, Turn { attempt, number, ..turn })
    }

    /// A turn that starts timers of these lengths and clears others.
    fn timers(&mut self, lengths: &[u64], cleared: &[u32]) -> Vec<Effect> {
        let first = u32::try_from(self.execution.calls().len()).unwrap();
        let calls = lengths.iter().zip(first..).map(|(length, seq)| timer(seq, *length)).collect();
        self.whole_turn(Turn { calls, cleared: cleared.to_vec(), ..silent_turn() })
    }

    fn wakes_at(&self) -> Option<Millis> {
        self.execution.next_alarm(self.now, false)
    }

    fn resolve(&mut self, seq: u32, ask: bool, digest: &str) -> Vec<Effect> {
        let moment = self.moment();
        self.execution.resolved(
            &moment,
            seq,
            Resolution::Ready { ask, idempotent: !ask, shown: shown(digest), granted: None },
        )
    }

    /// Looked up, and nobody is asked.
    fn resolve_as(&mut self, seq: u32, idempotent: bool, changes: bool) -> Vec<Effect> {
        let moment = self.moment();
        let shown = ShownCall { changes, ..shown("d") };
        self.execution.resolved(&moment, seq, Resolution::Ready { ask: false, idempotent, shown, granted: None })
    }

    fn settle(&mut self, seq: u32, data: &str) -> Vec<Effect> {
        let moment = self.moment();
        self.execution.settled(&moment, seq, ok_result(data))
    }

    fn wake(&mut self) -> Vec<Effect> {
        let moment = self.moment();
        self.execution.wake(&moment)
    }

    fn decide(&mut self, pause: &str, target: PauseTarget) -> Result<Vec<Effect>, DecisionError> {
        let moment = self.moment();
        let decider = Decider { account: "ann".to_owned(), route: Route::Page, standing: Standing::default() };
        self.execution.decide(&moment, pause, target, &decider)
    }

    fn accept_all(&mut self, pause: &str) -> Result<Vec<Effect>, DecisionError> {
        let row = self.execution.pause(pause).unwrap().clone();
        let digest = self.execution.digest_of_pause(&row, self.now);
        self.decide(
            pause,
            PauseTarget::All {
                digest,
                verdict: Verdict::Accept,
                reason: None,
                contents: BTreeMap::new(),
                edits: BTreeMap::new(),
                gives: BTreeMap::new(),
            },
        )
    }

    fn restart(&mut self) {
        let limits = Limits::default();
        self.execution = Execution::restore(
            self.execution.row().clone(),
            self.execution.calls().to_vec(),
            self.execution.pauses().to_vec(),
            self.execution.output().clone(),
            limits,
        );
        self.turns = 0;
    }

    fn error_code(&self) -> String {
        self.execution.row().outcome.as_ref().unwrap().error.as_ref().unwrap().code.clone()
    }

    fn open_pause(&self) -> String {
        self.execution.pauses().last().unwrap().id.clone()
    }

    /// A program whose only call waits.
    fn paused() -> Self {
        let mut story = Self::start();
        story.turn(&[("a.delete", "{}")], None);
        story.resolve(0, true, "d0");
        assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
        story
    }
}

fn silent_turn() -> Turn {
    Turn {
        attempt: 0,
        number: 0,
        calls: Vec::new(),
        cleared: Vec::new(),
        output: Output::default(),
        output_is_whole: false,
        finish: None,
    }
}

fn timer(seq: u32, length: u64) -> IssuedCall {
    IssuedCall {
        seq,
        address: "sleep".to_owned(),
        arguments: Ok(format!("{{\"ms\":{length}}}").into()),
        line: None,
        timer: Some(length),
    }
}

fn said(text: &str) -> Output {
    Output { logs: vec![LogLine { level: "log".to_owned(), text: text.to_owned() }], ..Output::default() }
}

fn shown(digest: &str) -> ShownCall {
    ShownCall {
        digest: digest.to_owned(),
        arguments: "{}".to_owned(),
        title: String::new(),
        description: String::new(),
        method: "DELETE".to_owned(),
        url: "https://api.example/x".to_owned(),
        credential: None,
        reason: String::new(),
        binding: "{}".to_owned(),
        approvers: Approvers::Owner,
        changes: false,
        held: false,
    }
}

fn invokes(effects: &[Effect]) -> Vec<u32> {
    effects.iter().filter_map(|effect| if let Effect::Invoke { seq } = effect { Some(*seq) } else { None }).collect()
}

fn item(seq: u32, digest: &str, verdict: Verdict) -> DecisionItem {
    DecisionItem { seq, digest: digest.to_owned(), verdict, reason: None, content: None, edited: None, gives: None }
}

#[test]
fn sent_is_written_before_a_call_leaves_that_may_change_something() {
    for (idempotent, changes) in [(false, true), (true, true), (false, false)] {
        let mut story = Story::start();
        assert_eq!(story.turn(&[("a.write", "{}")], None), [Effect::Resolve { seq: 0 }]);
        let effects = story.resolve_as(0, idempotent, changes);
        let [Effect::Commit(writes), Effect::Invoke { seq: 0 }] = effects.as_slice() else {
            panic!("{effects:?}");
        };
        assert_eq!(statuses(writes), [(0, CallStatus::Sent)]);
    }
}

#[test]
fn what_only_reads_is_written_with_its_result() {
    let mut story = Story::start();
    assert_eq!(story.turn(&[("a.read", "{}")], None), [Effect::Resolve { seq: 0 }]);
    assert_eq!(story.resolve_as(0, true, false), [Effect::Invoke { seq: 0 }]);
    let effects = story.settle(0, "1");
    let [Effect::Commit(writes), Effect::Answer(_)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(0, CallStatus::Settled)]);
    assert!(matches!(writes.first(), Some(Write::Execution(row)) if row.next_order == 1));
}

#[test]
fn reads_on_their_way_are_written_with_what_has_to_be() {
    let mut story = Story::start();
    story.turn(&[("a.read", "{}"), ("a.write", "{}"), ("a.later", "{}")], None);
    story.resolve_as(0, true, false);
    let effects = story.resolve_as(1, false, true);
    let [Effect::Commit(writes), Effect::Invoke { seq: 1 }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(0, CallStatus::Sent), (1, CallStatus::Sent), (2, CallStatus::Issued)]);
    // Nothing was changed that is not written: what comes next writes its own rows only.
    let effects = story.settle(0, "1");
    let Some(Effect::Commit(writes)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(0, CallStatus::Settled)]);
}

#[test]
fn what_a_client_or_a_person_does_is_written_at_once_with_what_was_not() {
    let mut story = Story::start();
    story.turn(&[("a.read", "{}"), ("a.gated", "{}")], None);
    story.resolve_as(0, true, false);
    let moment = story.moment();
    let effects = story.execution.client_left(&moment);
    let [Effect::Commit(writes)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(0, CallStatus::Sent), (1, CallStatus::Issued)]);
    let effects = story.resolve(1, true, "d");
    let [Effect::Commit(writes)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(1, CallStatus::Waiting)]);
}

#[test]
fn a_timer_is_written_when_it_starts() {
    let mut story = Story::start();
    let timer =
        IssuedCall { seq: 0, address: "sleep".to_owned(), arguments: Ok("{}".into()), line: None, timer: Some(50) };
    let effects = story.raw_turn(vec![timer], None);
    let Some(Effect::Commit(writes)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(statuses(writes), [(0, CallStatus::Sleeping)]);
}

fn statuses(writes: &[Write]) -> Vec<(u32, CallStatus)> {
    let status = |write: &Write| if let Write::Call(call) = write { Some((call.seq, call.status)) } else { None };
    writes.iter().filter_map(status).collect()
}

#[test]
fn three_gated_calls_are_one_pause_with_three_items() {
    let mut story = Story::start();
    story.turn(&[("a.x", "{}"), ("a.y", "{}"), ("a.z", "{}")], None);
    story.resolve(0, true, "d0");
    story.resolve(2, true, "d2");
    assert!(story.execution.pauses().is_empty(), "reported before everything was known");
    story.resolve(1, true, "d1");
    let [pause] = story.execution.pauses() else { panic!("one pause") };
    assert_eq!(pause.items().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn items_are_decided_in_any_order_and_the_pause_ends_with_the_last() {
    let mut story = Story::start();
    story.turn(&[("a.x", "{}"), ("a.y", "{}")], None);
    story.resolve(0, true, "d0");
    story.resolve(1, true, "d1");
    let pause = story.open_pause();
    story.decide(&pause, PauseTarget::Items(vec![item(1, "d1", Verdict::Accept)])).unwrap();
    assert!(invokes(&story.wake()).is_empty());
    assert_eq!(invokes(&story.resolve(1, true, "d1")), [1]);
    story.settle(1, "1");
    story.turn(&[], None);
    assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
    assert_eq!(story.execution.pauses().len(), 1, "the pause stays open while an item waits");
    story.decide(&pause, PauseTarget::Items(vec![item(0, "d0", Verdict::Decline)])).unwrap();
    story.wake();
    story.turn(&[], Some("1"));
    assert_eq!(story.execution.row().status, ExecutionStatus::Completed);
    assert_eq!(story.execution.pause(&pause).unwrap().led_to, Some(LedTo::Outcome));
}

#[test]
fn the_first_decision_wins_and_a_second_is_told() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    let row = story.execution.pause(&pause).unwrap().clone();
    let digest = story.execution.digest_of_pause(&row, story.now);
    let second = story.decide(
        &pause,
        PauseTarget::All {
            digest,
            verdict: Verdict::Decline,
            reason: None,
            contents: BTreeMap::new(),
            edits: BTreeMap::new(),
            gives: BTreeMap::new(),
        },
    );
    let Err(DecisionError::AlreadyDecided { seq: 0, decision }) = second else { panic!("{second:?}") };
    assert_eq!(decision.verdict, Verdict::Accept);
}

#[test]
fn a_decision_on_something_else_than_was_shown_changes_nothing() {
    for target in [
        PauseTarget::All {
            digest: "stale".to_owned(),
            verdict: Verdict::Accept,
            reason: None,
            contents: BTreeMap::new(),
            edits: BTreeMap::new(),
            gives: BTreeMap::new(),
        },
        PauseTarget::Items(vec![item(0, "stale", Verdict::Accept)]),
        PauseTarget::Items(vec![item(7, "d0", Verdict::Accept)]),
        PauseTarget::Items(vec![]),
        PauseTarget::Items(vec![item(0, "d0", Verdict::Accept), item(0, "d0", Verdict::Decline)]),
    ] {
        let mut story = Story::paused();
        let before = story.execution.calls().to_vec();
        let pause = story.open_pause();
        assert!(story.decide(&pause, target.clone()).is_err(), "{target:?}");
        assert_eq!(story.execution.calls(), before);
    }
}

#[test]
fn a_decision_only_writes_and_asks_for_the_alarm() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    let effects = story.accept_all(&pause).unwrap();
    assert!(matches!(effects.as_slice(), [Effect::Commit(_)]), "{effects:?}");
    assert_eq!(story.wakes_at(), Some(story.now));
}

#[test]
fn a_tool_that_changed_since_it_was_approved_is_asked_about_again() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.wake();
    assert!(invokes(&story.resolve(0, true, "other")).is_empty());
    let call = story.execution.call(0).unwrap();
    assert_eq!(call.status, CallStatus::Waiting);
    assert_eq!(call.shown_before.as_ref().unwrap().digest, "d0");
    let again = story.open_pause();
    assert_ne!(again, pause, "what is asked again is reported again");
    story.accept_all(&again).unwrap();
    story.wake();
    assert_eq!(invokes(&story.resolve(0, true, "other")), [0]);
}

#[test]
fn cancelling_ends_the_program_and_sends_nothing() {
    let mut story = Story::start();
    story.turn(&[("a.x", "{}"), ("a.y", "{}")], None);
    story.resolve(0, true, "d0");
    story.resolve(1, true, "d1");
    let pause = story.open_pause();
    story
        .decide(&pause, PauseTarget::Items(vec![item(0, "d0", Verdict::Accept), item(1, "d1", Verdict::Cancel)]))
        .unwrap();
    assert_eq!(story.execution.row().status, ExecutionStatus::Cancelled);
    assert!(invokes(&story.wake()).is_empty());
}

#[test]
fn the_window_ends_with_a_declined_call_and_the_program_goes_on() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.now += Limits::default().approval_window_ms;
    assert_eq!(story.accept_all(&pause), Err(DecisionError::NothingWaits));
    let effects = story.wake();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Answer(_))), "{effects:?}");
    let call = story.execution.call(0).unwrap();
    assert!(call.result.as_ref().unwrap().contains(r#""reason":"approval_timeout""#));
    assert_eq!(call.decision.as_ref().unwrap().by, None);
}

#[test]
fn a_waiting_program_is_dropped_from_memory_and_replayed_after_the_decision() {
    let mut story = Story::paused();
    story.now += Limits::default().suspend_after_ms;
    assert!(story.wake().iter().any(|effect| matches!(effect, Effect::DropSandbox { .. })));
    assert!(!story.execution.has_sandbox());
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    let effects = story.wake();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StartSandbox(_))), "{effects:?}");
}

#[test]
fn waiting_costs_no_alarm_before_the_window_ends() {
    let mut story = Story::paused();
    let end = story.now + Limits::default().approval_window_ms;
    story.restart();
    assert_eq!(story.wakes_at(), Some(end));
}

#[test]
fn a_call_on_its_way_when_the_object_died_has_an_unknown_outcome() {
    let mut story = Story::start();
    story.turn(&[("a.create", "{}")], None);
    let moment = story.moment();
    story.execution.resolved(
        &moment,
        0,
        Resolution::Ready { ask: false, idempotent: false, shown: shown("d"), granted: None },
    );
    story.restart();
    let effects = story.wake();
    assert!(invokes(&effects).is_empty());
    assert!(story.execution.call(0).unwrap().result.as_ref().unwrap().contains("outcome_unknown"));
}

#[test]
fn an_idempotent_call_on_its_way_when_the_object_died_is_sent_again() {
    let mut story = Story::start();
    story.turn(&[("a.read", "{}")], None);
    story.resolve(0, false, "d");
    story.restart();
    story.wake();
    assert_eq!(invokes(&story.resolve(0, false, "d")), [0]);
    assert_eq!(story.execution.call(0).unwrap().sends, 2);
}

#[test]
fn a_program_that_does_other_things_when_it_is_run_again_fails() {
    for (calls, what) in [
        (vec![("a.other", "{}")], "another address"),
        (vec![("a.delete", "{\"x\":1}")], "other arguments"),
        (vec![], "fewer calls"),
    ] {
        let mut story = Story::paused();
        let pause = story.open_pause();
        story.accept_all(&pause).unwrap();
        story.restart();
        story.wake();
        let calls = calls.iter().map(|(address, arguments)| IssuedCall {
            seq: 0,
            address: (*address).to_owned(),
            arguments: Ok((*arguments).into()),
            line: None,
            timer: None,
        });
        let calls = calls.collect();
        story.raw_turn(calls, None);
        assert_eq!(story.error_code(), "nondeterministic_replay", "{what}");
    }
}

#[test]
fn a_sandbox_that_forges_numbers_is_stopped() {
    let mut story = Story::start();
    let call = |seq| IssuedCall { seq, address: "a.x".to_owned(), arguments: Ok("{}".into()), line: None, timer: None };
    story.raw_turn(vec![call(0), call(0)], None);
    assert_eq!(story.error_code(), "sandbox_protocol");
}

#[test]
fn a_call_that_is_not_awaited_still_counts() {
    let mut story = Story::start();
    story.turn(&[("a.delete", "{}")], Some("1"));
    story.resolve(0, true, "d0");
    assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
}

#[test]
fn a_promise_that_nothing_settles_ends_the_program() {
    let mut story = Story::start();
    story.turn(&[], None);
    assert_eq!(story.error_code(), "never_settles");
}

#[test]
fn limits_have_errors_of_their_own() {
    let mut story = Story::start_with(Limits { calls: 2, ..Limits::default() });
    story.turn(&[("a.x", "{}"), ("a.y", "{}"), ("a.z", "{}")], None);
    assert_eq!(story.error_code(), "too_many_calls");

    let mut story = Story::start_with(Limits { journal_bytes: 20, ..Limits::default() });
    story.turn(&[("a.x", "{\"a\":12345}")], None);
    assert_eq!(story.error_code(), "journal_full");

    let mut story = Story::start_with(Limits { arguments_bytes: 4, ..Limits::default() });
    story.turn(&[("a.x", "{\"a\":1}")], None);
    assert!(story.execution.call(0).unwrap().result.as_ref().unwrap().contains("arguments_too_large"));

    let mut story = Story::start_with(Limits { result_bytes: 30, ..Limits::default() });
    story.turn(&[("a.x", "{}")], None);
    story.resolve(0, false, "d");
    story.settle(0, "\"0123456789012345678901234567890\"");
    assert!(story.execution.call(0).unwrap().result.as_ref().unwrap().contains("result_too_large"));

    let mut story = Story::start_with(Limits { execution_timeout_ms: 100, ..Limits::default() });
    story.turn(&[("a.x", "{}")], None);
    story.now += 100;
    story.wake();
    assert_eq!(story.error_code(), "timeout");
}

#[test]
fn what_other_programs_of_the_session_hold_counts_for_the_journal() {
    let mut story = Story::start();
    story.execution.limit_journal(13);
    story.turn(&[("a.x", "{\"a\":1}")], None);
    assert_eq!(story.error_code(), "journal_full", "arguments are kept twice");

    let mut story = Story::start();
    story.turn(&[("a.x", "{}")], None);
    story.resolve(0, false, "d");
    story.execution.limit_journal(20);
    story.settle(0, "\"0123456789\"");
    assert!(story.execution.call(0).unwrap().result.as_ref().unwrap().contains("journal_full"));
    // Others ended: there is room again.
    story.execution.limit_journal(1_000);
    story.turn(&[("a.x", "{}")], None);
    story.resolve(1, false, "d");
    story.settle(1, "\"0123456789\"");
    assert_eq!(story.execution.call(1).unwrap().result.as_deref(), Some(r#"{"ok":true,"data":"0123456789"}"#));
}

#[test]
fn a_call_that_begins_to_wait_later_is_reported_with_what_waits_still() {
    let mut story = Story::start();
    story.turn(&[("a.x", "{}"), ("a.y", "{}")], None);
    story.resolve(0, true, "d0");
    story.resolve(1, true, "d1");
    let first = story.open_pause();
    story.decide(&first, PauseTarget::Items(vec![item(0, "d0", Verdict::Accept)])).unwrap();
    story.wake();
    story.resolve(0, true, "d0");
    story.settle(0, "1");
    story.turn(&[("a.z", "{}")], None);
    story.resolve(2, true, "d2");
    let second = story.open_pause();
    assert_ne!(second, first);
    assert_eq!(story.execution.pause(&second).unwrap().items().collect::<Vec<_>>(), [1, 2]);
    story.decide(&first, PauseTarget::Items(vec![item(1, "d1", Verdict::Accept)])).unwrap();
}

#[test]
fn time_in_which_the_object_was_down_is_not_running_time() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.now += Limits::default().execution_timeout_ms * 2;
    story.restart();
    story.wake();
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
    assert_eq!(invokes(&story.resolve(0, true, "d0")), [0]);
}

#[test]
fn a_lost_sandbox_is_started_again_after_a_while_and_not_for_ever() {
    let mut story = Story::start();
    for attempt in 1..=5 {
        let moment = story.moment();
        let effects = story.execution.sandbox_lost(&moment, attempt, "it ended", None);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::StartSandbox(_))));
        if let Some(at) = story.wakes_at() {
            assert!(at > story.now);
            story.now = at;
            assert!(story.wake().iter().any(|effect| matches!(effect, Effect::StartSandbox(_))));
        }
    }
    assert_eq!(story.error_code(), "sandbox_failed");
}

#[test]
fn a_program_that_cannot_be_loaded_is_not_started_again() {
    let mut story = Story::start();
    let moment = story.moment();
    let effects = story.execution.sandbox_lost(&moment, 1, "SyntaxError: it cannot be", Some(3));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::StartSandbox(_))));
    assert_eq!(story.error_code(), "program_refused");
    assert!(story.execution.row().status.is_over());
}

#[test]
fn waiting_for_a_person_is_not_running_time() {
    let mut story = Story::paused();
    story.now += Limits::default().execution_timeout_ms * 10;
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.wake();
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
}

#[test]
fn six_calls_are_on_their_way_and_the_rest_queues() {
    let mut story = Story::start();
    let calls: Vec<(&str, &str)> = (0..10).map(|_| ("a.read", "{}")).collect();
    let effects = story.turn(&calls, None);
    let lookups = effects.iter().filter(|effect| matches!(effect, Effect::Resolve { .. })).count();
    assert_eq!(lookups, 6);
    story.resolve(0, false, "d");
    let effects = story.settle(0, "1");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resolve { seq: 6 })), "{effects:?}");
}

#[test]
fn a_repeated_resume_replays_what_the_pause_led_to() {
    let mut story = Story::paused();
    let first = story.open_pause();
    story.accept_all(&first).unwrap();
    story.wake();
    story.resolve(0, true, "d0");
    story.settle(0, "1");
    story.turn(&[("a.second", "{}")], None);
    story.resolve(1, true, "d1");
    let led_to = |story: &Story| report_of_pause(&story.execution, story.execution.pause(&first).unwrap()).unwrap();
    let before = led_to(&story);
    let second = story.open_pause();
    story.accept_all(&second).unwrap();
    story.wake();
    story.resolve(1, true, "d1");
    story.settle(1, "1");
    story.turn(&[], Some("\"end\""));
    assert_eq!(story.execution.row().status, ExecutionStatus::Completed);
    assert_eq!(led_to(&story), before);
    let Report::Paused(report) = before else { panic!("a pause") };
    assert_eq!(report.id, second);
}

#[test]
fn call_row_format_unchanged() {
    let row = CallRow {
        seq: 3,
        address: "a.b".to_owned(),
        arguments: Rc::from("{\"x\":1}"),
        edited: None,
        line: Some(7),
        status: CallStatus::Waiting,
        issued_at: 5,
        due: None,
        idempotent: false,
        shown: None,
        shown_before: None,
        deadline: Some(9),
        decision: None,
        sends: 0,
        result: None,
        order: None,
        settled_at: None,
        questions: Vec::new(),
    };
    let text = concat!(
        r#"{"seq":3,"address":"a.b","arguments":"{\"x\":1}","line":7,"status":"waiting","issuedAt":5,"#,
        r#""idempotent":false,"deadline":9,"sends":0}"#
    );
    assert_eq!(serde_json::to_string(&row).unwrap(), text);
    assert_eq!(serde_json::from_str::<CallRow>(text).unwrap(), row);
}

#[test]
fn execution_and_timer_rows_format_unchanged() {
    let story = Story::start();
    let row = ExecutionRow { settling: true, status: ExecutionStatus::Sleeping, ..story.execution.row().clone() };
    let text = concat!(
        r#"{"id":"e","status":"sleeping","createdAt":1000,"seed":"00000000000000000000000000000000","prelude":1,"#,
        r#""attempts":1,"attemptsWithoutProgress":1,"ranMs":0,"runningSince":1000,"nextOrder":0,"journalBytes":0,"#,
        r#""settling":true}"#
    );
    assert_eq!(serde_json::to_string(&row).unwrap(), text);
    assert_eq!(serde_json::from_str::<ExecutionRow>(text).unwrap(), row);
    let mut story = Story::start();
    story.timers(&[50], &[]);
    let text = concat!(
        r#"{"seq":0,"address":"sleep","arguments":"{\"ms\":50}","status":"sleeping","issuedAt":1000,"due":1050,"#,
        r#""idempotent":false,"sends":0}"#
    );
    assert_eq!(serde_json::to_string(&story.execution.calls()[0]).unwrap(), text);
    let output = Output { logs_cut: true, emitted: vec!["1".to_owned()], ..said("a") };
    let text = r#"{"emitted":["1"],"logs":[{"level":"log","text":"a"}],"logsCut":true}"#;
    assert_eq!(serde_json::to_string(&output).unwrap(), text);
    assert_eq!(serde_json::from_str::<Output>(text).unwrap(), output);
}

#[test]
fn pause_row_format_unchanged() {
    let row = PauseRow {
        id: "p".to_owned(),
        number: 1,
        created_at: 2,
        expires_at: 3,
        reported: vec![ReportedCall { call: 0, digest: "d".to_owned(), by: Approvers::Owner }],
        led_to: Some(LedTo::Pause(2)),
    };
    let text =
        r#"{"id":"p","number":1,"createdAt":2,"expiresAt":3,"reported":[{"call":0,"digest":"d"}],"ledTo":{"pause":2}}"#;
    assert_eq!(serde_json::to_string(&row).unwrap(), text);
    assert_eq!(serde_json::from_str::<PauseRow>(text).unwrap(), row);
}
