//! Timers, sleeping, and what remains to be done after the end.

use super::*;

fn drops_sandbox(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::DropSandbox { .. }))
}

fn starts_sandbox(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::StartSandbox(_)))
}

/// The numbers of the calls whose results a reply carries.
fn answered(effects: &[Effect]) -> Vec<u32> {
    let reply = effects.iter().find_map(|effect| if let Effect::Answer(reply) = effect { Some(reply) } else { None });
    reply.map(|reply| reply.deliveries.iter().map(|delivery| delivery.seq).collect()).unwrap_or_default()
}

#[test]
fn a_sleeping_program_asks_for_the_alarm_exactly_when_its_first_timer_is_due() {
    let mut story = Story::start();
    story.timers(&[5_000, 3_000, 9_000], &[]);
    assert_eq!(story.execution.row().status, ExecutionStatus::Sleeping);
    assert_eq!(story.wakes_at(), Some(story.now + 3_000));
    assert!(story.execution.pauses().is_empty(), "nobody is asked");
}

#[test]
fn timers_that_are_due_settle_in_the_order_of_their_times() {
    let mut story = Story::start();
    story.timers(&[50, 20, 20, 900], &[]);
    story.now += 100;
    assert_eq!(answered(&story.wake()), [1, 2, 0]);
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
    story.turn(&[], None);
    assert_eq!(story.execution.row().status, ExecutionStatus::Sleeping);
}

#[test]
fn sleeping_is_not_running_time_and_costs_no_memory() {
    let mut story = Story::start();
    story.timers(&[10_000_000], &[]);
    story.now += Limits::default().suspend_after_ms;
    assert!(drops_sandbox(&story.wake()));
    assert_eq!(story.wakes_at(), Some(10_001_000));
    story.now = 10_001_000;
    assert!(starts_sandbox(&story.wake()));
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
}

#[test]
fn a_short_sleep_costs_no_replay() {
    let mut story = Story::start();
    for seq in 0..3 {
        story.timers(&[100], &[]);
        story.now += 100;
        assert_eq!(answered(&story.wake()), [seq]);
    }
    assert_eq!(story.execution.row().attempts, 1);
}

#[test]
fn a_timer_that_was_cleared_vanishes() {
    let mut story = Story::start();
    story.timers(&[50, 60], &[]);
    story.now += 50;
    assert_eq!(answered(&story.wake()), [0]);
    story.timers(&[], &[1]);
    assert_eq!(story.error_code(), "never_settles", "nothing is left that could go on");
    let cleared = story.execution.call(1).unwrap();
    assert_eq!((cleared.status, cleared.order, cleared.result.clone()), (CallStatus::Settled, None, None));
}

#[test]
fn only_running_timers_can_be_cleared() {
    let mut story = Story::start();
    story.turn(&[("a.delete", "{}")], None);
    story.resolve(0, true, "d0");
    story.restart();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.wake();
    let call =
        IssuedCall { seq: 0, address: "a.delete".to_owned(), arguments: Ok("{}".into()), line: None, timer: None };
    story.whole_turn(Turn { calls: vec![call], cleared: vec![0, 7], ..silent_turn() });
    assert_ne!(story.execution.call(0).unwrap().status, CallStatus::Settled);
}

#[test]
fn a_timer_beside_a_call_that_waits_for_a_person_does_not_hold_up_the_question() {
    let mut story = Story::start();
    let call =
        IssuedCall { seq: 0, address: "a.delete".to_owned(), arguments: Ok("{}".into()), line: None, timer: None };
    story.raw_turn(vec![call, timer(1, 500)], None);
    story.resolve(0, true, "d0");
    assert_eq!(story.execution.row().status, ExecutionStatus::Waiting);
    assert_eq!(story.wakes_at(), Some(1_500));
    let pause = story.open_pause();
    story.now = 1_500;
    assert_eq!(answered(&story.wake()), [1]);
    story.turn(&[], None);
    assert_eq!((story.execution.row().status, story.open_pause()), (ExecutionStatus::Waiting, pause));
}

#[test]
fn a_long_sleep_gets_an_id_that_leads_to_the_outcome() {
    let mut story = Story::start();
    story.timers(&[86_400_000], &[]);
    let moment = story.moment();
    assert!(matches!(story.execution.report_sleep(&moment).as_slice(), [Effect::Commit(_), Effect::Report]));
    let moment = story.moment();
    assert!(story.execution.report_sleep(&moment).is_empty(), "it has one already");
    let id = story.open_pause();
    let report = Report::Sleeping { id: id.clone(), wakes_at: 86_401_000 };
    assert_eq!(story.execution.first_report(), Some(report.clone()));
    let row = story.execution.pause(&id).unwrap().clone();
    assert_eq!(story.execution.present_report(&row, story.now), report);
    story.now = 86_401_000;
    story.wake();
    story.turn(&[], Some("7"));
    assert_eq!(story.execution.first_report(), Some(report), "what was reported never changes");
    let row = story.execution.pause(&id).unwrap();
    assert!(matches!(report_of_pause(&story.execution, row), Some(Report::Ended { .. })));
}

#[test]
fn a_timer_is_at_most_as_long_as_the_approval_window() {
    let mut story = Story::start();
    story.timers(&[u64::MAX], &[]);
    assert_eq!(story.execution.wakes_at(), Some(1_000 + Limits::default().approval_window_ms));
}

#[test]
fn a_timer_in_the_place_of_a_call_is_another_program() {
    let mut story = Story::start();
    story.timers(&[500], &[]);
    story.restart();
    story.now += 500;
    story.wake();
    let mut call = timer(0, 500);
    call.timer = None;
    story.raw_turn(vec![call], None);
    assert_eq!(story.error_code(), "nondeterministic_replay");
}

#[test]
fn a_divergence_names_the_call_what_was_recorded_and_what_came() {
    let mut story = Story::paused();
    let pause = story.open_pause();
    story.accept_all(&pause).unwrap();
    story.restart();
    story.wake();
    story.turns = 0;
    let call = IssuedCall {
        seq: 0,
        address: "a.delete".to_owned(),
        arguments: Ok(r#"{"x":1}"#.into()),
        line: None,
        timer: None,
    };
    story.raw_turn(vec![call], None);
    let message = story.execution.row().outcome.as_ref().unwrap().error.as_ref().unwrap().message.clone();
    assert!(message.contains(r#"Call 1 of the program differs when it is run again. Recorded was a.delete({}); now it is a.delete({"x":1})."#), "{message}");
}

#[test]
fn what_was_said_so_far_outlives_every_end() {
    for end in ["never_settles", "timeout", "cancelled"] {
        let mut story = Story::start();
        let calls = match end {
            "never_settles" => Vec::new(),
            _ => vec![IssuedCall {
                seq: 0,
                address: "a.delete".to_owned(),
                arguments: Ok("{}".into()),
                line: None,
                timer: None,
            }],
        };
        story.whole_turn(Turn { calls, output: said("so far"), ..silent_turn() });
        match end {
            "timeout" => {
                story.now += Limits::default().execution_timeout_ms;
                story.wake();
            }
            "cancelled" => {
                story.resolve(0, true, "d0");
                story.now += Limits::default().suspend_after_ms;
                assert!(drops_sandbox(&story.wake()));
                let pause = story.open_pause();
                story.decide(&pause, PauseTarget::Items(vec![item(0, "d0", Verdict::Cancel)])).unwrap();
            }
            _ => {}
        }
        assert_eq!(story.error_code(), end);
        assert_eq!(story.execution.row().outcome.as_ref().unwrap().logs, said("so far").logs, "{end}");
    }
}

#[test]
fn a_call_on_its_way_when_the_program_has_ended_is_settled_even_if_the_object_is_lost() {
    let mut story = Story::start();
    story.turn(&[("a.create", "{}")], None);
    let moment = story.moment();
    story.execution.resolved(
        &moment,
        0,
        Resolution::Ready { ask: false, idempotent: true, shown: shown("d"), granted: None },
    );
    story.now += Limits::default().execution_timeout_ms;
    story.wake();
    assert_eq!(story.error_code(), "timeout");
    assert!(story.execution.row().settling && story.execution.is_busy());
    let (mut late, mut lost) = (Story::start(), Story::start());
    late.execution = Execution::restore(
        story.execution.row().clone(),
        story.execution.calls().to_vec(),
        Vec::new(),
        Output::default(),
        Limits::default(),
    );
    lost.now = story.now;
    std::mem::swap(&mut lost.execution, &mut late.execution);
    // The answer comes after all.
    story.settle(0, "1");
    assert!(!story.execution.row().settling);
    assert!(story.execution.call(0).unwrap().result.as_ref().unwrap().contains(r#""ok":true"#));
    assert_eq!(story.wakes_at(), None);
    // Or the object is lost before.
    assert_eq!(lost.wakes_at(), Some(lost.now));
    lost.wake();
    assert!(lost.execution.call(0).unwrap().result.as_ref().unwrap().contains("outcome_unknown"));
    assert!(!lost.execution.row().settling);
}
