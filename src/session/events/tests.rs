use std::rc::Rc;

use super::*;
use crate::approval::{Approvers, ShownCall, Standing};
use crate::engine::{Execution, Limits, Moment, ReportedCall};

const PLACE: Place<'_> = Place { session: "00", account: "ann", origin: "https://gw.example" };

fn row() -> ExecutionRow {
    let moment = Moment { now: 1_000, nonce: "n".to_owned() };
    let (execution, _) = Execution::start(&moment, "e".to_owned(), "0".repeat(32), 1, Limits::default());
    execution.row().clone()
}

fn call(seq: u32) -> CallRow {
    let shown = ShownCall {
        digest: format!("digest{seq}"),
        arguments: r#"{"id":"secret-argument"}"#.to_owned(),
        title: "Delete".to_owned(),
        description: String::new(),
        method: "DELETE".to_owned(),
        url: "https://api.example/x".to_owned(),
        credential: None,
        reason: "rule 1 of the organization (a.**)".to_owned(),
        binding: "{}".to_owned(),
        approvers: Approvers::Owner,
        changes: true,
        held: false,
    };
    CallRow {
        seq,
        address: "a.b".to_owned(),
        arguments: "{}".into(),
        edited: None,
        line: None,
        status: CallStatus::Waiting,
        issued_at: 1_000,
        due: None,
        idempotent: false,
        shown: Some(shown),
        shown_before: None,
        deadline: Some(9_000),
        decision: None,
        sends: 0,
        result: None,
        order: None,
        settled_at: None,
        questions: Vec::new(),
    }
}

fn decision(seq: u32, verdict: Verdict, by: Option<&str>, at: u64) -> Decision {
    let route = if by.is_some() { Route::Page } else { Route::Expiry };
    Decision {
        verdict,
        reason: None,
        digest: format!("digest{seq}"),
        by: by.map(ToOwned::to_owned),
        route,
        at,
        standing: Standing::default(),
        edited: false,
        grant: None,
        gives: None,
    }
}

fn pause(calls: &[u32]) -> PauseRow {
    let reported = calls
        .iter()
        .map(|call| ReportedCall { call: *call, digest: format!("digest{call}"), by: Approvers::Owner })
        .collect();
    PauseRow { id: "p".to_owned(), number: 0, created_at: 2_000, expires_at: 9_000, reported, led_to: None }
}

fn settled(call: &CallRow, result: &str) -> CallRow {
    CallRow {
        status: CallStatus::Settled,
        sends: 1,
        result: Some(Rc::from(result)),
        settled_at: Some(5_000),
        ..call.clone()
    }
}

/// What each of some commits tells, as actions and what webhooks are told.
fn told(steps: &[(Vec<CallRow>, Vec<PauseRow>, ExecutionRow)]) -> Vec<Vec<(Vec<String>, Option<String>)>> {
    let mut told = BTreeSet::new();
    let mut result = Vec::new();
    for (calls, pauses, row) in steps {
        let writes: Vec<Write> = calls
            .iter()
            .cloned()
            .map(Write::Call)
            .chain(pauses.iter().cloned().map(Write::Pause))
            .chain([Write::Execution(row.clone())])
            .collect();
        let journal = Journal { row, calls, pauses };
        let events = journal.news(&writes, PLACE, &mut told);
        // What is stored says what was told: a life that begins with it tells nothing again.
        assert_eq!(journal.news(&writes, PLACE, &mut journal.told()), []);
        let action = |entry: &Value| entry["action"].as_str().unwrap().to_owned();
        let shown = events.iter().map(|event| {
            (event.entries.iter().map(action).collect(), event.notice.as_ref().map(|notice| notice.event.clone()))
        });
        result.push(shown.collect());
    }
    result
}

fn one(actions: &[&str], notice: Option<&str>) -> (Vec<String>, Option<String>) {
    (actions.iter().map(|action| (*action).to_owned()).collect(), notice.map(ToOwned::to_owned))
}

#[test]
fn each_thing_is_told_once_in_its_order() {
    let (first, second) = (call(0), call(1));
    let accepted = CallRow {
        status: CallStatus::Approved,
        decision: Some(decision(0, Verdict::Accept, Some("ann"), 3_000)),
        ..first.clone()
    };
    let declined = CallRow {
        decision: Some(decision(1, Verdict::Decline, Some("ann"), 3_000)),
        ..settled(&second, r#"{"ok":false}"#)
    };
    let declined = CallRow { sends: 0, ..declined };
    let sent = settled(&accepted, r#"{"ok":true,"data":1}"#);
    let over = ExecutionRow { status: ExecutionStatus::Completed, ended_at: Some(6_000), ..row() };
    let pauses = vec![pause(&[0, 1])];
    let steps = [
        (vec![first.clone(), second.clone()], vec![], row()),
        (vec![first, second], pauses.clone(), row()),
        (vec![accepted, declined.clone()], pauses.clone(), row()),
        (vec![sent.clone(), declined.clone()], pauses.clone(), row()),
        (vec![sent, declined], pauses, over),
    ];
    let expected = [
        vec![],
        vec![one(&["approval.asked"], Some("waiting"))],
        vec![one(&["call.approved", "call.declined"], Some("decided"))],
        vec![one(&["call.outcome"], None)],
        vec![one(&["program.finished"], Some("finished"))],
    ];
    assert_eq!(told(&steps), expected);
}

#[test]
fn rules_expiries_refusals_and_ends_without_a_person_are_told_apart() {
    let expired = CallRow { decision: Some(decision(0, Verdict::Decline, None, 9_000)), ..call(0) };
    let allowed = settled(&call(0), r#"{"ok":false,"error":{"code":"outcome_unknown"}}"#);
    let reads = CallRow { shown: call(0).shown.map(|shown| ShownCall { changes: false, ..shown }), ..allowed.clone() };
    let blocked =
        CallRow { sends: 0, ..settled(&call(0), r#"{"ok":false,"error":{"code":"tool_blocked","message":""}}"#) };
    // A text that a program was given is no refusal.
    let read = CallRow {
        sends: 0,
        ..settled(&call(0), r#"{"ok":true,"data":"{\"ok\":false,\"error\":{\"code\":\"tool_blocked\""}"#)
    };
    let over = ExecutionRow { status: ExecutionStatus::Failed, ended_at: Some(6_000), ..row() };
    let stopped = ExecutionRow {
        status: ExecutionStatus::Cancelled,
        stopped: Some(decision(0, Verdict::Cancel, Some("ann"), 4_000)),
        ..over.clone()
    };
    let settling = ExecutionRow { settling: true, ..stopped.clone() };
    for (calls, row, expected) in [
        (vec![expired], row(), vec![one(&["call.expired"], Some("expired"))]),
        (vec![allowed], row(), vec![one(&["call.allowed", "call.outcome"], None)]),
        (vec![reads], row(), vec![]),
        (vec![blocked], row(), vec![one(&["call.refused"], None)]),
        (vec![read], row(), vec![]),
        (vec![], over, vec![]),
        (vec![], stopped, vec![one(&["program.stopped"], Some("finished"))]),
        (vec![], settling, vec![]),
    ] {
        assert_eq!(told(&[(calls, vec![], row)]), [expected]);
    }
}

#[test]
fn many_decisions_are_several_events_and_none_is_too_large() {
    let calls: Vec<CallRow> = (0..250)
        .map(|seq| {
            let mut call = CallRow { decision: Some(decision(seq, Verdict::Accept, Some("ann"), 3_000)), ..call(seq) };
            call.shown =
                call.shown.map(|shown| ShownCall { arguments: format!("\"{}\"", "x".repeat(100_000)), ..shown });
            call
        })
        .collect();
    let writes: Vec<Write> = calls.iter().cloned().map(Write::Call).collect();
    let journal = Journal { row: &row(), calls: &calls, pauses: &[] };
    let events = journal.news(&writes, PLACE, &mut BTreeSet::new());
    assert_eq!(events.iter().map(|event| event.entries.len()).collect::<Vec<_>>(), [100, 100, 50]);
    for event in &events {
        assert!(serde_json::to_string(event).unwrap().len() < 1 << 20);
        let data = &event.notice.as_ref().unwrap().data;
        assert_eq!(data["calls"].as_array().unwrap().len(), NAMED);
        assert_eq!(data["calls"][0]["arguments"], json!({ "omittedBytes": 100_002 }));
    }
    let ids: BTreeSet<&String> = events.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn the_audit_log_has_no_arguments() {
    let call = CallRow { decision: Some(decision(0, Verdict::Accept, Some("ann"), 3_000)), ..call(0) };
    let writes = [Write::Call(call.clone()), Write::Pause(pause(&[0]))];
    let (calls, pauses) = ([call], [pause(&[0])]);
    let journal = Journal { row: &row(), calls: &calls, pauses: &pauses };
    for event in journal.news(&writes, PLACE, &mut BTreeSet::new()) {
        assert!(!serde_json::to_string(&event.entries).unwrap().contains("secret-argument"));
        assert!(event.notice.unwrap().data["calls"][0]["arguments"]["id"] == "secret-argument");
    }
}

#[test]
fn session_event_format_unchanged() {
    let event = SessionEvent {
        id: "e-p0".to_owned(),
        entries: vec![json!({ "by": null })],
        notice: Some(Notice { event: "waiting".to_owned(), at: 1, data: json!({}) }),
    };
    let text = r#"{"id":"e-p0","entries":[{"by":null}],"notice":{"event":"waiting","at":1,"data":{}}}"#;
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
    assert_eq!(serde_json::from_str::<SessionEvent>(text).unwrap(), event);
}

#[test]
fn what_a_grant_let_through_is_in_the_log_and_no_news_to_webhooks() {
    let (row, mut granted) = (row(), call(0));
    granted.decision = Some(Decision {
        route: Route::Grant,
        grant: Some("g1".to_owned()),
        edited: false,
        ..decision(0, Verdict::Accept, Some("ben"), 3_000)
    });
    let calls = [granted.clone()];
    let journal = Journal { row: &row, calls: &calls, pauses: &[] };
    let events = journal.news(&[Write::Call(granted)], PLACE, &mut BTreeSet::new());
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].notice, None);
    let entry = &events[0].entries[0];
    assert_eq!([&entry["by"], &entry["via"], &entry["action"]], ["ben", "grant", "call.approved"]);
    assert_eq!(entry["detail"]["grant"], "g1");
}
