//! An administrator stopped sending: what becomes of calls that are looked up meanwhile.

use super::*;

fn stopped(story: &mut Story, seq: u32, ask: bool) -> Vec<Effect> {
    let moment = story.moment();
    let error = CallError::new("stopped", "stopped");
    let digest = format!("d{seq}");
    story.execution.resolved(&moment, seq, Resolution::Stopped { ask, shown: shown(&digest), error })
}

fn result(story: &Story, seq: u32) -> String {
    story.execution.call(seq).unwrap().result.as_deref().unwrap_or_default().to_owned()
}

#[test]
fn a_call_that_nobody_is_asked_about_fails_and_one_that_asks_waits() {
    let mut story = Story::start();
    story.turn(&[("a.read", "{}"), ("a.write", "{}")], None);
    assert!(invokes(&stopped(&mut story, 0, false)).is_empty());
    assert!(result(&story, 0).contains(r#""code":"stopped""#));
    assert!(invokes(&stopped(&mut story, 1, true)).is_empty());
    assert_eq!(story.execution.call(1).unwrap().status, CallStatus::Waiting);
}

#[test]
fn an_approved_call_waits_again_under_the_same_pause_and_needs_another_approval() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.wake();
    assert!(invokes(&stopped(&mut story, 0, true)).is_empty());
    let call = story.execution.call(0).unwrap();
    assert_eq!((call.status, &call.decision, &call.shown_before, call.sends), (CallStatus::Waiting, &None, &None, 0));
    assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
    assert_eq!(story.open_pause(), pause);
    // Neither time nor a restart sends what was approved before.
    story.restart();
    assert!(invokes(&story.wake()).is_empty());
    assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
    story.accept_all(&pause).unwrap();
    let wakes = story.wake();
    assert!(wakes.contains(&Effect::Resolve { seq: 0 }), "{wakes:?}");
    assert_eq!(invokes(&story.resolve(0, true, "d0")), [0]);
}

#[test]
fn a_call_that_was_sent_before_a_crash_stays_unknown() {
    let mut story = Story::start();
    story.turn(&[("a.read", "{}")], None);
    assert_eq!(invokes(&story.resolve(0, false, "d0")), [0]);
    story.restart();
    story.wake();
    assert!(invokes(&stopped(&mut story, 0, false)).is_empty());
    assert!(result(&story, 0).contains("outcome_unknown"));
}
