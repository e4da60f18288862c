//! Who may decide, edited arguments, and grants.

use super::*;
use crate::approval::{Decision, call_digest};

const OTHER: Standing = Standing { admin: false, other: true };

fn ready(ask: bool, digest: &str, approvers: Approvers, granted: Option<Granted>) -> Resolution {
    Resolution::Ready { ask, idempotent: false, shown: ShownCall { approvers, ..shown(digest) }, granted }
}

fn paused_for(approvers: Approvers) -> (Story, String) {
    let mut story = Story::start();
    story.turn(&[("a.delete", "{}")], None);
    let moment = story.moment();
    story.execution.resolved(&moment, 0, ready(true, "d0", approvers, None));
    let pause = story.open_pause();
    (story, pause)
}

fn decide_as(
    story: &mut Story,
    pause: &str,
    standing: Standing,
    item: DecisionItem,
) -> Result<Vec<Effect>, DecisionError> {
    let moment = story.moment();
    let decider = Decider { account: "ben".to_owned(), route: Route::Page, standing };
    story.execution.decide(&moment, pause, PauseTarget::Items(vec![item]), &decider)
}

fn edited(arguments: &str) -> Edited {
    Edited { arguments: arguments.into(), method: "PUT".to_owned(), url: "https://api.example/y".to_owned() }
}

#[test]
fn only_whom_policy_names_decides_and_the_owner_cancels() {
    let (mut story, pause) = paused_for(Approvers::Other);
    let before = story.execution.calls().to_vec();
    for verdict in [Verdict::Accept, Verdict::Decline] {
        let refused = decide_as(&mut story, &pause, Standing::default(), item(0, "d0", verdict));
        assert_eq!(refused, Err(DecisionError::NotYours { seq: 0, approvers: Approvers::Other }));
    }
    let refused = decide_as(&mut story, &pause, OTHER, item(0, "d0", Verdict::Cancel));
    assert_eq!(refused, Err(DecisionError::NotYours { seq: 0, approvers: Approvers::Owner }));
    assert_eq!(story.execution.calls(), before);
    decide_as(&mut story, &pause, OTHER, item(0, "d0", Verdict::Accept)).unwrap();
    let decision = story.execution.call(0).unwrap().decision.clone().unwrap();
    assert_eq!((decision.by.as_deref(), decision.standing), (Some("ben"), OTHER));
    story.wake();
    let moment = story.moment();
    assert_eq!(invokes(&story.execution.resolved(&moment, 0, ready(true, "d0", Approvers::Other, None))), [0]);

    let (mut story, pause) = paused_for(Approvers::Other);
    decide_as(&mut story, &pause, Standing::default(), item(0, "d0", Verdict::Cancel)).unwrap();
    assert_eq!(story.execution.row().status, ExecutionStatus::Cancelled);
}

#[test]
fn a_rule_that_got_stricter_asks_again_and_one_that_got_looser_does_not() {
    for (then, standing, now, sent) in [
        (Approvers::Owner, Standing::default(), Approvers::Other, false),
        (Approvers::Owner, Standing::default(), Approvers::Admin, false),
        (Approvers::Owner, Standing { admin: true, other: false }, Approvers::Admin, true),
        (Approvers::Other, OTHER, Approvers::Owner, true),
        (Approvers::Other, OTHER, Approvers::OtherAdmin, false),
    ] {
        let (mut story, pause) = paused_for(then);
        decide_as(&mut story, &pause, standing, item(0, "d0", Verdict::Accept)).unwrap();
        story.wake();
        let moment = story.moment();
        let effects = story.execution.resolved(&moment, 0, ready(true, "d0", now, None));
        assert_eq!(invokes(&effects).len(), usize::from(sent), "{then:?} {now:?}");
        if !sent {
            let call = story.execution.call(0).unwrap();
            assert_eq!((call.status, &call.decision), (CallStatus::Waiting, &None));
            assert_eq!(call.shown_before.as_ref().unwrap().approvers, then);
            // Others are asked: that is another pause, which the first one leads to.
            assert_ne!(story.open_pause(), pause);
            assert_eq!(story.execution.pauses()[1].reported[0].by, now);
            for pause in [pause.clone(), story.open_pause()] {
                let again = decide_as(&mut story, &pause, standing, item(0, "d0", Verdict::Accept));
                assert!(matches!(again, Err(DecisionError::NotYours { .. })), "{again:?}");
            }
        }
    }
}

#[test]
fn edited_arguments_are_what_is_sent_and_a_replay_makes_the_programs_own_call() {
    let (mut story, pause) = paused_for(Approvers::Owner);
    let digest = call_digest("e", 0, "a.delete", r#"{"x":1}"#, "{}");
    let edit = DecisionItem { edited: Some(edited(r#"{"x":1}"#)), ..item(0, "d0", Verdict::Accept) };
    decide_as(&mut story, &pause, Standing::default(), edit).unwrap();
    let call = story.execution.call(0).unwrap();
    assert_eq!((&*call.arguments, call.edited.as_deref()), ("{}", Some(r#"{"x":1}"#)));
    let shown_now = call.shown.clone().unwrap();
    assert_eq!((shown_now.digest.as_str(), shown_now.url.as_str()), (digest.as_str(), "https://api.example/y"));
    let decision = call.decision.clone().unwrap();
    assert!(decision.edited && decision.digest == digest);

    story.restart();
    let effects = story.wake();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resolve { seq: 0 })), "{effects:?}");
    assert_eq!(&**story.execution.call(0).unwrap().effective_arguments(), r#"{"x":1}"#);
    let moment = story.moment();
    let shown = ShownCall { digest, ..shown("") };
    let effects =
        story.execution.resolved(&moment, 0, Resolution::Ready { ask: true, idempotent: false, shown, granted: None });
    assert_eq!(invokes(&effects), [0]);
    story.settle(0, "7");
    let result = story.execution.call(0).unwrap().result.clone().unwrap();
    assert_eq!(&*result, r#"{"ok":true,"data":7,"edited":{"arguments":{"x":1}}}"#);
    // The program makes its own call again, with its own arguments.
    let issued = |arguments: &str| IssuedCall {
        seq: 0,
        address: "a.delete".to_owned(),
        arguments: Ok(arguments.into()),
        line: None,
        timer: None,
    };
    story.raw_turn(vec![issued("{}")], None);
    story.turn(&[], Some("1"));
    assert_eq!(story.execution.row().status, ExecutionStatus::Completed);
}

#[test]
fn a_replay_with_the_edited_arguments_is_another_program() {
    let (mut story, pause) = paused_for(Approvers::Owner);
    let edit = DecisionItem { edited: Some(edited(r#"{"x":1}"#)), ..item(0, "d0", Verdict::Accept) };
    decide_as(&mut story, &pause, Standing::default(), edit).unwrap();
    story.restart();
    story.wake();
    let call = IssuedCall {
        seq: 0,
        address: "a.delete".to_owned(),
        arguments: Ok(r#"{"x":1}"#.into()),
        line: None,
        timer: None,
    };
    story.raw_turn(vec![call], None);
    let outcome = story.execution.row().outcome.clone().unwrap();
    assert_eq!(outcome.error.as_ref().unwrap().code, "nondeterministic_replay");
}

#[test]
fn edits_are_bounded_and_go_with_accept_only() {
    let large = format!("\"{}\"", "x".repeat(Limits::default().arguments_bytes));
    for (verdict, arguments) in [(Verdict::Decline, "{}"), (Verdict::Accept, large.as_str())] {
        let (mut story, pause) = paused_for(Approvers::Owner);
        let before = story.execution.calls().to_vec();
        let edit = DecisionItem { edited: Some(edited(arguments)), ..item(0, "d0", verdict) };
        let refused = decide_as(&mut story, &pause, Standing::default(), edit);
        assert!(matches!(refused, Err(DecisionError::BadArguments { seq: 0, .. })), "{refused:?}");
        assert_eq!(story.execution.calls(), before);
    }
}

#[test]
fn a_grant_lets_a_call_through_if_who_gave_it_may_decide() {
    let granted = |standing| Some(Granted { id: "g1".to_owned(), by: "ben".to_owned(), standing });
    let issue = |approvers, granted| {
        let mut story = Story::start();
        story.turn(&[("a.delete", "{}")], None);
        let moment = story.moment();
        let effects = story.execution.resolved(&moment, 0, ready(true, "d0", approvers, granted));
        (story, invokes(&effects).len())
    };
    let (story, sent) = issue(Approvers::Owner, granted(Standing::default()));
    assert_eq!(sent, 1);
    let decision = story.execution.call(0).unwrap().decision.clone().unwrap();
    assert_eq!(
        (decision.route, decision.grant.as_deref(), decision.by.as_deref(), decision.digest.as_str()),
        (Route::Grant, Some("g1"), Some("ben"), "d0")
    );
    let (story, sent) = issue(Approvers::Admin, granted(Standing::default()));
    assert_eq!((sent, story.execution.call(0).unwrap().status), (0, CallStatus::Waiting));
    let (_, sent) = issue(Approvers::Other, granted(OTHER));
    assert_eq!(sent, 1);
}

#[test]
fn a_grant_that_is_gone_sends_nothing_again_after_a_crash() {
    for (again, sent) in [(true, 1), (false, 0)] {
        let grant = || Granted { id: "g1".to_owned(), by: "ben".to_owned(), standing: Standing::default() };
        let resolution = |granted| Resolution::Ready { ask: true, idempotent: true, shown: shown("d0"), granted };
        let mut story = Story::start();
        story.turn(&[("a.put", "{}")], None);
        let moment = story.moment();
        story.execution.resolved(&moment, 0, resolution(Some(grant())));
        story.restart();
        story.wake();
        let moment = story.moment();
        let effects = story.execution.resolved(&moment, 0, resolution(again.then(grant)));
        assert_eq!(invokes(&effects).len(), sent);
        let unknown = story.execution.call(0).unwrap().result.as_ref().is_some_and(|it| it.contains("outcome_unknown"));
        assert_eq!(unknown, !again);
    }
}

#[test]
fn decision_format_unchanged() {
    let decision = Decision {
        verdict: Verdict::Accept,
        reason: None,
        digest: "d".to_owned(),
        by: Some("ann".to_owned()),
        route: Route::Grant,
        at: 1,
        standing: Standing { admin: true, other: false },
        edited: true,
        grant: Some("g".to_owned()),
        gives: Some("h".to_owned()),
    };
    let text = concat!(
        r#"{"verdict":"accept","digest":"d","by":"ann","route":"grant","at":1,"standing":{"admin":true},"#,
        r#""edited":true,"grant":"g","gives":"h"}"#
    );
    assert_eq!(serde_json::to_string(&decision).unwrap(), text);
    assert_eq!(serde_json::from_str::<Decision>(text).unwrap(), decision);
    // As older releases wrote it: by the owner, whose role is not known.
    let old = r#"{"verdict":"accept","digest":"d","by":"ann","route":"page","at":1}"#;
    let decision: Decision = serde_json::from_str(old).unwrap();
    assert!(decision.standing.is_plain_owner());
    assert_eq!(serde_json::to_string(&decision).unwrap(), old);
    let shown = ShownCall { approvers: Approvers::OtherAdmin, ..shown("d") };
    let text = serde_json::to_string(&shown).unwrap();
    assert!(text.ends_with(r#""binding":"{}","approvers":"other_admin"}"#), "{text}");
}
