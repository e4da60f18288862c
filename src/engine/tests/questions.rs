//! Tools that ask a person on their way; programs that a person stops; time that is not the program's.

use super::*;
use crate::approval::Decision;

const ASKED: &str = r#"{"message":"Which colour?"}"#;

/// A program whose only call asks a person while it is carried out.
fn asking() -> Story {
    let mut story = Story::start();
    story.turn(&[("up.ask", "{}")], None);
    story.resolve(0, false, "d0");
    ask(&mut story);
    story
}

fn ask(story: &mut Story) -> Vec<Effect> {
    let moment = story.moment();
    story.execution.ask_person(&moment, 0, ASKED.into(), true)
}

fn answer(story: &mut Story, verdict: Verdict, content: Option<&str>) -> Result<Vec<Effect>, DecisionError> {
    let pause = story.open_pause();
    let digest = story.execution.digest_asked(story.execution.call(0).unwrap()).unwrap().to_owned();
    let item = DecisionItem {
        seq: 0,
        digest,
        verdict,
        reason: None,
        content: content.map(Into::into),
        edited: None,
        gives: None,
    };
    story.decide(&pause, PauseTarget::Items(vec![item]))
}

fn told(effects: &[Effect]) -> Vec<(Verdict, Option<String>)> {
    let tell = |effect: &Effect| {
        let Effect::Tell { verdict, content, .. } = effect else { return None };
        Some((*verdict, content.as_deref().map(str::to_owned)))
    };
    effects.iter().filter_map(tell).collect()
}

#[test]
fn a_question_of_a_tool_is_an_item_of_a_pause_and_its_answer_goes_to_the_tool() {
    let mut story = asking();
    let [pause] = story.execution.pauses() else { panic!("one pause") };
    assert_eq!(pause.items().collect::<Vec<_>>(), [0]);
    let Some(Report::Paused(report)) = story.execution.first_report() else { panic!("a pause") };
    assert_eq!(report.pending[0].question.as_deref(), Some(ASKED));
    let effects = answer(&mut story, Verdict::Accept, Some(r#"{"colour":"red"}"#)).unwrap();
    let [Effect::Commit(_), Effect::Tell { seq: 0, verdict: Verdict::Accept, content }] = effects.as_slice() else {
        panic!("written before it is told: {effects:?}");
    };
    assert_eq!(content.as_deref(), Some(r#"{"colour":"red"}"#));
    assert!(matches!(answer(&mut story, Verdict::Decline, None), Err(DecisionError::AlreadyDecided { .. })));
    story.settle(0, "1");
    story.turn(&[], Some("1"));
    assert_eq!(story.execution.row().status, ExecutionStatus::Completed);
    assert_eq!(story.execution.call(0).unwrap().sends, 1);
}

#[test]
fn a_form_is_not_accepted_without_content_and_can_be_declined() {
    let mut story = asking();
    assert!(matches!(answer(&mut story, Verdict::Accept, None), Err(DecisionError::BadAnswer { seq: 0, .. })));
    let effects = answer(&mut story, Verdict::Decline, Some("{}")).unwrap();
    assert_eq!(told(&effects), [(Verdict::Decline, None)]);
}

#[test]
fn a_question_that_nobody_answers_in_time_is_dismissed() {
    let mut story = asking();
    story.now += Limits::default().question_ms;
    assert_eq!(told(&story.wake()), [(Verdict::Cancel, None)]);
    let decision = story.execution.call(0).unwrap().questions[0].decision.clone().unwrap();
    assert_eq!((decision.by, decision.route), (None, Route::Expiry));
}

#[test]
fn each_question_of_a_call_is_reported_and_what_was_reported_stays() {
    let mut story = asking();
    let first = story.open_pause();
    let before = story.execution.first_report();
    answer(&mut story, Verdict::Accept, Some("{}")).unwrap();
    ask(&mut story);
    assert_ne!(story.open_pause(), first, "the same words asked again are another question");
    assert_eq!(story.execution.first_report(), before);
    assert_eq!(story.execution.call(0).unwrap().questions.len(), 2);
}

#[test]
fn a_question_needs_a_call_on_its_way_and_one_at_a_time() {
    let mut story = asking();
    assert!(ask(&mut story).is_empty(), "it asks already");
    let mut story = Story::paused();
    assert!(ask(&mut story).is_empty(), "it was not sent");
    let mut story = Story::start_with(Limits { questions: 0, ..Limits::default() });
    story.turn(&[("up.ask", "{}")], None);
    story.resolve(0, false, "d0");
    assert!(ask(&mut story).is_empty(), "it has asked enough");
}

#[test]
fn after_a_crash_nobody_waits_for_the_answer() {
    let mut story = asking();
    story.restart();
    assert!(!story.execution.has_question());
    assert!(matches!(
        answer(&mut story, Verdict::Accept, Some("{}")),
        Err(DecisionError::NothingWaits | DecisionError::DigestChanged { .. })
    ));
    assert_eq!(story.wakes_at(), Some(story.now));
    story.wake();
    assert_eq!(invokes(&story.resolve(0, false, "d0")), [0], "it may be sent again");
    assert!(story.execution.call(0).unwrap().questions[0].withdrawn);
}

#[test]
fn a_tool_that_gives_up_takes_its_question_back() {
    let mut story = asking();
    let moment = story.moment();
    story.execution.question_withdrawn(&moment, 0);
    assert_eq!(answer(&mut story, Verdict::Accept, Some("{}")), Err(DecisionError::NothingWaits));
    story.settle(0, "1");
    story.turn(&[], Some("1"));
    assert_eq!(story.execution.row().status, ExecutionStatus::Completed);
}

#[test]
fn time_in_which_a_person_is_asked_is_not_running_time() {
    let mut story = Story::start_with(Limits { execution_timeout_ms: 1_000, ..Limits::default() });
    story.turn(&[("up.ask", "{}")], None);
    story.resolve(0, false, "d0");
    ask(&mut story);
    story.now += 100_000;
    story.wake();
    answer(&mut story, Verdict::Accept, Some("{}")).unwrap();
    story.now += 999;
    story.wake();
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
    story.now += 1;
    story.wake();
    assert_eq!(story.error_code(), "timeout", "what the tool needs after the answer counts again");
}

#[test]
fn time_in_the_queue_is_not_running_time() {
    let mut story = Story::start_with(Limits { execution_timeout_ms: 1_000, ..Limits::default() });
    let attempt = story.execution.row().attempts;
    let moment = story.moment();
    story.execution.sandbox_queued(&moment, attempt);
    story.now += 100_000;
    story.wake();
    let moment = story.moment();
    story.execution.sandbox_begins(&moment, attempt);
    story.now += 999;
    story.wake();
    assert_eq!(story.execution.row().status, ExecutionStatus::Running);
    assert_eq!(story.execution.row().ran_ms, 0);
    story.now += 1;
    story.wake();
    assert_eq!(story.error_code(), "timeout");
}

fn stop(story: &mut Story) -> Result<Vec<Effect>, DecisionError> {
    let moment = story.moment();
    let decider = Decider { account: "ann".to_owned(), route: Route::Page, standing: Standing::default() };
    story.execution.stop(&moment, Some("enough".to_owned()), &decider)
}

#[test]
fn a_person_stops_a_program_that_sleeps_runs_or_waits() {
    let mut sleeping = Story::start();
    sleeping.timers(&[3_600_000], &[]);
    assert_eq!(sleeping.execution.row().status, ExecutionStatus::Sleeping);
    let mut running = Story::start();
    running.turn(&[("a.read", "{}")], None);
    let waiting = Story::paused();
    for mut story in [sleeping, running, waiting] {
        stop(&mut story).unwrap();
        assert_eq!(story.execution.row().status, ExecutionStatus::Cancelled);
        assert_eq!(story.error_code(), "cancelled");
        let stopped = story.execution.row().stopped.clone().unwrap();
        assert_eq!((stopped.by.as_deref(), stopped.reason.as_deref()), (Some("ann"), Some("enough")));
        assert!(story.execution.calls().iter().all(|call| !call.is_open()));
        assert_eq!(stop(&mut story), Err(DecisionError::NothingWaits));
    }
}

#[test]
fn a_call_on_its_way_settles_after_a_person_stopped_the_program() {
    let mut story = asking();
    let effects = stop(&mut story).unwrap();
    assert_eq!(told(&effects), [(Verdict::Cancel, None)], "the tool that asks is told that nobody answers");
    assert!(story.execution.row().settling);
    story.settle(0, "1");
    assert!(!story.execution.row().settling);
    assert_eq!(story.execution.call(0).unwrap().status, CallStatus::Settled);
}

#[test]
fn question_and_stop_format_unchanged() {
    let mut story = asking();
    answer(&mut story, Verdict::Accept, Some("{}")).unwrap();
    let question = story.execution.call(0).unwrap().questions[0].clone();
    let question = QuestionRow { digest: "d".to_owned(), ..question };
    let decision = Decision { digest: "d".to_owned(), ..question.decision.clone().unwrap() };
    let question = QuestionRow { decision: Some(decision.clone()), withdrawn: true, ..question };
    let text = concat!(
        r#"{"asked":"{\"message\":\"Which colour?\"}","form":true,"digest":"d","askedAt":1000,"deadline":541000,"#,
        r#""decision":{"verdict":"accept","digest":"d","by":"ann","route":"page","at":1000},"content":"{}","#,
        r#""withdrawn":true}"#
    );
    assert_eq!(serde_json::to_string(&question).unwrap(), text);
    assert_eq!(serde_json::from_str::<QuestionRow>(text).unwrap(), question);
    let row = ExecutionRow { stopped: Some(decision), ..Story::start().execution.row().clone() };
    let text = serde_json::to_string(&row).unwrap();
    let end = r#""stopped":{"verdict":"accept","digest":"d","by":"ann","route":"page","at":1000}}"#;
    assert!(text.ends_with(end), "{text}");
    assert_eq!(serde_json::from_str::<ExecutionRow>(&text).unwrap(), row);
}
