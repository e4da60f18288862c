use super::*;
use crate::approval::{Approvers, Verdict};
use crate::console::approval::{
    ApprovalView, ChangeView, DecisionView, ItemState, ItemView, OtherCall, OutcomeView, PauseState, QuestionView,
};
use crate::engine::ExecutionStatus;

const PERSON: &str = "ann@acme";
const HOSTILE: &str = "</textarea></p></main>\"'><script>alert(1)</script><img src=x onerror=alert(1)>\u{202E}\u{200B}";

fn item(call: u32) -> ItemView {
    ItemView {
        call,
        digest: format!("digest-of-{call}"),
        address: "demo.deleteItem".to_owned(),
        title: "Delete an item".to_owned(),
        description: "Deletes an item for good.".to_owned(),
        method: "DELETE".to_owned(),
        url: "https://demo.example/items/i1".to_owned(),
        credential: Some("demo-key".to_owned()),
        reason: "DELETE may change something".to_owned(),
        arguments: r#"{"id":"i1","amount":10.50}"#.to_owned(),
        line: Some(2),
        state: ItemState::Waiting,
        decision: None,
        asked_again: false,
        changes: Vec::new(),
        approvers: Approvers::Owner,
        may_decide: true,
        grantable: true,
        original: None,
        result: None,
        question: None,
    }
}

/// A call whose tool asks something.
fn asking(call: u32, asked: serde_json::Value) -> ItemView {
    ItemView { question: Some(QuestionView { asked, withdrawn: false, content: None }), ..item(call) }
}

fn form() -> serde_json::Value {
    serde_json::json!({
        "message": "Which colour?",
        "requestedSchema": { "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "title": "Your name", "default": "Ada" },
            "about": { "type": "string", "maxLength": 1_000, "description": "In your words" },
            "mail": { "type": "string", "format": "email" },
            "age": { "type": "integer", "minimum": 18, "default": 30 },
            "agree": { "type": "boolean", "default": true },
            "colour": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "g" },
            "tags": { "type": "array", "maxItems": 1, "items": { "anyOf": [{ "const": "a", "title": "The A" }, { "const": "b" }] } },
        } },
    })
}

fn decided(call: u32, verdict: Verdict, state: ItemState, by: Option<&str>) -> ItemView {
    let decision = DecisionView {
        verdict,
        status: verdict.past_tense().to_owned(),
        reason: Some("because".to_owned()),
        by: by.map(str::to_owned),
        at: "2026-03-04T10:00:00Z".to_owned(),
        edited: false,
        grant: None,
        gives: None,
    };
    ItemView { state, decision: Some(decision), ..item(call) }
}

fn view(items: Vec<ItemView>) -> ApprovalView {
    ApprovalView {
        execution_id: "exec_abc".to_owned(),
        session_id: "5e55".to_owned(),
        state: PauseState::Waiting,
        execution_status: ExecutionStatus::Waiting,
        digest: "digest-of-all".to_owned(),
        account: "ann".to_owned(),
        organization: "acme".to_owned(),
        owner: true,
        client: "claude-code 2.1".to_owned(),
        client_left: false,
        started_at: "2026-03-04T09:00:00Z".to_owned(),
        expires_at: "2026-03-05T09:00:00Z".to_owned(),
        expires_at_ms: 1_772_701_200_000,
        items,
        program: "const id = 'i1';\nreturn await tools.demo.deleteItem({ id });".to_owned(),
        others: vec![],
        outcome: None,
        stopped: None,
        next_execution_id: None,
    }
}

fn with_state(state: PauseState, status: ExecutionStatus, item: ItemView) -> ApprovalView {
    ApprovalView { state, execution_status: status, ..view(vec![item]) }
}

fn page(view: &ApprovalView) -> String {
    approval_page(view, PERSON, None)
}

#[track_caller]
fn assert_has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part} in\n{html}");
    }
}

#[track_caller]
fn assert_lacks(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(!html.contains(part), "{part} in\n{html}");
    }
}

#[test]
fn one_waiting_call_shows_everything_that_is_decided_on() {
    let html = page(&view(vec![item(3)]));
    assert_has(
        &html,
        &[
            "<title>Approve this call? · Countersign</title>",
            "“claude-code 2.1” of ann@acme wants to make <b>1 call</b> that may change something.",
            "“Delete an item”",
            "<b class=\"method\">DELETE</b> <span class=\"code\">https://demo.example/items/i1</span>",
            "demo.deleteItem",
            "demo-key",
            "DELETE may change something",
            "10.50",
            "5 March 2026, 09:00 UTC",
            "<span class=\"ln waits\" id=\"line-2\">",
            "waits here",
            "Signed in as <b>ann@acme</b>",
        ],
    );
}

#[test]
fn the_form_posts_to_its_own_page_with_the_digest_of_all() {
    let html = page(&view(vec![item(3)]));
    assert_has(
        &html,
        &[
            "method=\"post\" action=\"/resume/exec_abc?mcp_session_id=5e55\"",
            "<input type=\"hidden\" name=\"digest\" value=\"digest-of-all\">",
            "<textarea id=\"reason\" name=\"reason\"",
            "name=\"action\" value=\"accept\">Approve</button>",
            "name=\"action\" value=\"decline\">Decline</button>",
            "name=\"action\" value=\"cancel\">Cancel the program</button>",
        ],
    );
    assert_lacks(&html, &["choice-", "value=\"items\"", "http-equiv"]);
}

#[test]
fn enter_in_a_field_decides_nothing() {
    let html = page(&view(vec![item(3), item(4)]));
    let first = html.find("<button").and_then(|at| html.get(at..at + 60)).unwrap();
    assert!(first.starts_with("<button type=\"submit\" formmethod=\"dialog\" hidden"), "{first}");
}

#[test]
fn several_calls_can_be_decided_together_or_one_by_one() {
    let html = page(&view(vec![item(3), item(4), decided(5, Verdict::Accept, ItemState::Done, Some("ben"))]));
    assert_has(
        &html,
        &[
            "2 of 3 calls still to decide",
            "Approve all 2",
            "Decline all 2",
            "<input type=\"radio\" name=\"choice-3\" value=\"accept\">",
            "<input type=\"radio\" name=\"choice-4\" value=\"decline\">",
            "<input type=\"radio\" name=\"choice-4\" value=\"later\" checked>",
            "<input type=\"hidden\" name=\"digest-3\" value=\"digest-of-3\">",
            "name=\"reason-4\"",
            "name=\"action\" value=\"items\">Apply the choices</button>",
            "Approved by <b>ben</b>",
            ">1, 2 wait here</em>",
        ],
    );
    assert_lacks(&html, &["choice-5", "digest-5"]);
}

#[test]
fn calls_too_large_for_one_page_are_never_approved_unseen() {
    let large = |call| ItemView { arguments: format!("\"{}\"", "x".repeat(1_200_000)), ..item(call) };
    let html = page(&view(vec![large(3), large(4), large(5)]));
    assert_has(
        &html,
        &[
            "too large to be shown on one page",
            "name=\"choice-3\"",
            "1,200,002 characters: too large",
            "value=\"decline\"",
        ],
    );
    assert_lacks(&html, &["value=\"accept\">Approve all", "choice-4", "choice-5"]);
    let one = ItemView { arguments: format!("\"{}\"", "x".repeat(3_000_000)), ..item(3) };
    assert_has(&page(&view(vec![one])), &["value=\"accept\">Approve</button>"]);
}

#[test]
fn a_call_that_is_asked_again_says_so() {
    let html = page(&view(vec![ItemView { asked_again: true, ..item(3) }]));
    assert_has(&html, &["This is asked again: something has changed"]);
}

fn home(origin: &str, person: &str) -> String {
    home_page(&Connection {
        origin,
        person,
        admin: true,
        loader_missing: true,
        direct: false,
        credential: Credential::SignIn,
        keys: true,
        development: false,
    })
}

#[test]
fn no_text_from_outside_becomes_markup() {
    let text = || HOSTILE.to_owned();
    let hostile = |call| ItemView {
        address: text(),
        title: text(),
        description: text(),
        method: text(),
        url: text(),
        credential: Some(text()),
        reason: text(),
        arguments: serde_json::to_string(&[HOSTILE]).unwrap(),
        digest: text(),
        result: Some(text()),
        question: Some(QuestionView {
            asked: serde_json::json!({
                "message": HOSTILE,
                "requestedSchema": { "type": "object", "properties": {
                    HOSTILE: { "type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE },
                    "one": { "type": "string", "enum": [HOSTILE], "enumNames": [HOSTILE], "default": HOSTILE },
                    "many": { "type": "array", "title": HOSTILE, "items": { "enum": [HOSTILE] } },
                    "flag": { "type": "boolean", "title": HOSTILE },
                } },
            }),
            withdrawn: true,
            content: Some(text()),
        }),
        decision: Some(DecisionView {
            verdict: Verdict::Decline,
            status: text(),
            reason: Some(text()),
            by: Some(text()),
            at: text(),
            edited: true,
            grant: Some(text()),
            gives: Some(text()),
        }),
        changes: vec![ChangeView { what: text(), before: text(), now: text() }],
        original: Some(text()),
        ..item(call)
    };
    let mut view = view(vec![hostile(1), hostile(2)]);
    view.execution_id = text();
    view.session_id = text();
    view.digest = text();
    view.account = text();
    view.organization = text();
    view.client = text();
    view.started_at = text();
    view.expires_at = text();
    view.program = text();
    view.next_execution_id = Some(text());
    view.outcome = Some(OutcomeView { result: Some(text()), error: Some(text()) });
    view.stopped = view.items[0].decision.clone();
    view.others = vec![OtherCall {
        call: 0,
        address: text(),
        arguments: text(),
        edited: Some(text()),
        line: Some(1),
        state: ItemState::Done,
        result: Some(text()),
    }];
    let pages = [
        page(&view),
        conflict_page(&view, HOSTILE),
        bad_answer_page(&view, HOSTILE, HOSTILE, &[("field-1-0".to_owned(), text())]),
        message_page(HOSTILE, HOSTILE, 404),
        sign_in_page(HOSTILE, &format!("/{HOSTILE}"), Some(HOSTILE)),
        home(HOSTILE, HOSTILE),
    ];
    let bare = "\"'>";
    for html in pages {
        assert_lacks(&html, &["<script>", "<img", "</textarea></p>", bare]);
        assert_eq!(html.matches("<main").count(), 1);
        assert_eq!(html.matches("</main").count(), 1);
    }
    let html = page(&view);
    assert_lacks(html.split("<main").next().unwrap(), &["\u{202E}"]);
    assert_has(&html, &["⟦U+202E⟧⟦U+200B⟧"]);
}

#[test]
fn hidden_characters_never_reach_the_page_bare() {
    let mut view = view(vec![ItemView {
        title: HOSTILE.to_owned(),
        arguments: "{\"a\":\"\u{2066}x\u{FEFF}\"}".to_owned(),
        ..item(3)
    }]);
    view.client = "cli\u{AD}ent".to_owned();
    view.program = "a\u{2028}b".to_owned();
    let html = page(&view);
    assert_lacks(&html, &["\u{202E}", "\u{200B}", "\u{2066}", "\u{FEFF}", "\u{AD}", "\u{2028}"]);
}

#[test]
fn pages_have_nothing_inline_and_nothing_from_elsewhere() {
    let waiting = view(vec![item(3), item(4)]);
    for html in [
        page(&waiting),
        message_page("a", "b", 400),
        sign_in_page("", "/", None),
        home("http://localhost:8787", PERSON),
    ] {
        assert_lacks(&html, &[" style=", " onclick", "<style", "javascript:", "src=\"http", "href=\"http"]);
        assert_eq!(html.matches("<script").count(), 1);
        assert_has(
            &html,
            &["<script src=\"/assets/", "<link rel=\"stylesheet\" href=\"/assets/", "<html lang=\"en\">"],
        );
    }
}

#[test]
fn what_goes_on_refreshes_without_a_script_and_nothing_else_does() {
    let refresh = "<noscript><meta http-equiv=\"refresh\" content=\"3\"></noscript>";
    let accepted = || decided(3, Verdict::Accept, ItemState::Sent, Some("ben"));
    let going = with_state(PauseState::Decided, ExecutionStatus::Running, accepted());
    assert_has(&page(&going), &[refresh, "data-live=\"true\"", "<h1>Approved</h1>", "The program goes on by itself."]);
    let over = with_state(PauseState::Over, ExecutionStatus::Completed, accepted());
    for html in [page(&over), page(&view(vec![item(3)]))] {
        assert_lacks(&html, &[refresh]);
    }
    assert_has(&page(&over), &["data-live=\"false\""]);
}

#[test]
fn a_pause_that_led_to_another_links_to_it() {
    let mut view = with_state(
        PauseState::Decided,
        ExecutionStatus::Waiting,
        decided(3, Verdict::Accept, ItemState::Done, Some("ben")),
    );
    view.next_execution_id = Some("exec_next".to_owned());
    assert_has(
        &page(&view),
        &["href=\"/resume/exec_next?mcp_session_id=5e55\"", "data-live=\"false\"", "waits for another decision"],
    );
}

#[test]
fn an_expired_pause_has_nothing_to_press() {
    for item in [item(3), decided(3, Verdict::Decline, ItemState::Expired, None)] {
        let html = page(&with_state(PauseState::Expired, ExecutionStatus::Running, item));
        assert_has(&html, &["Nobody decided in time", "Time is over, not sent", "1 call was not sent."]);
        assert_lacks(&html, &["id=\"decide\"", "value=\"accept\"", "value=\"decline\"", "data-until", "waits here"]);
    }
}

#[test]
fn every_ending_is_told() {
    let end = |status, item| page(&with_state(PauseState::Over, status, item));
    let accept = |state| decided(3, Verdict::Accept, state, Some("ben"));
    for (html, parts) in [
        (
            end(ExecutionStatus::Completed, accept(ItemState::Done)),
            ["The program has finished", "The call was carried out."],
        ),
        (
            end(ExecutionStatus::Failed, accept(ItemState::Failed)),
            ["The program failed", "The call ended with an error."],
        ),
        (
            end(ExecutionStatus::Completed, accept(ItemState::OutcomeUnknown)),
            ["Sent, outcome unknown", "It may or may not have been carried out"],
        ),
        (
            end(ExecutionStatus::Cancelled, decided(3, Verdict::Cancel, ItemState::NotSent, Some("ben"))),
            ["The program was cancelled", "The call was not sent. Nothing more is sent."],
        ),
        (
            end(ExecutionStatus::Completed, decided(3, Verdict::Decline, ItemState::Declined, Some("ben"))),
            ["Declined by <b>ben</b>", "Reason: “because”"],
        ),
        (end(ExecutionStatus::Expired, item(3)), ["The program cannot go on", "Not sent"]),
    ] {
        assert_has(&html, &parts);
        assert_lacks(&html, &["<form"]);
    }
}

#[test]
fn the_outcome_is_shown() {
    let mut view = with_state(
        PauseState::Over,
        ExecutionStatus::Completed,
        decided(3, Verdict::Accept, ItemState::Done, Some("ben")),
    );
    view.outcome = Some(OutcomeView { result: Some("{\"deleted\":1}".to_owned()), error: None });
    assert_has(&page(&view), &["What came of it", "What the program returned", "&#34;deleted&#34;"]);
    view.outcome = Some(OutcomeView { result: None, error: Some("TypeError: x".to_owned()) });
    assert_has(&page(&view), &["Why it failed", "TypeError: x"]);
    view.outcome = Some(OutcomeView { result: None, error: None });
    assert_has(&page(&view), &["The program returned nothing"]);
}

#[test]
fn a_question_of_a_tool_has_its_fields_and_what_was_proposed() {
    let html = page(&view(vec![asking(3, form())]));
    assert_has(
        &html,
        &[
            "<h1>A tool asks you</h1>",
            "The tool of <b>1 call</b> asks you something for “claude-code 2.1” of ann@acme.",
            "<div class=\"said\">Which colour?</div>",
            "<label for=\"field-3-0\">Your name",
            "<textarea id=\"field-3-1\" name=\"field-3-1\"",
            "In your words",
            "<input type=\"email\" inputmode=\"email\" id=\"field-3-2\"",
            "inputmode=\"numeric\" id=\"field-3-3\" name=\"field-3-3\" value=\"30\">",
            "a whole number, 18 or more",
            "<input type=\"checkbox\" id=\"field-3-4\" name=\"field-3-4\" value=\"on\" checked>",
            "<option value=\"g\" selected>Green</option>",
            "<input type=\"checkbox\" name=\"field-3-6\" value=\"a\"> The A</label>",
            "1 at most",
            "value=\"accept\">Send the answer</button>",
            "name=\"action\" value=\"decline\">Decline</button>",
        ],
    );
    assert_lacks(&html, &["choice-", "Approve"]);
    let both = page(&view(vec![item(2), asking(3, form())]));
    assert_has(
        &both,
        &["Decide on these 2 calls", "Approve and answer all 2", "name=\"choice-3\" value=\"accept\"> Answer</label>"],
    );
}

#[test]
fn an_answer_that_does_not_fit_is_shown_again_as_it_was_entered() {
    let sent = [("field-3-0", "Bob"), ("field-3-3", "many"), ("field-3-5", "r"), ("field-3-6", "b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let html = bad_answer_page(&view(vec![asking(3, form())]), PERSON, "age has to be a number.", &sent);
    assert_has(
        &html,
        &[
            "role=\"alert\"><p>Nothing was decided. age has to be a number.</p>",
            "value=\"Bob\"",
            "value=\"many\"",
            "<option value=\"r\" selected>",
            "name=\"field-3-4\" value=\"on\">",
            "name=\"field-3-6\" value=\"b\" checked>",
        ],
    );
}

#[test]
fn a_page_that_a_tool_wants_opened_is_a_link_with_its_host() {
    let asked =
        serde_json::json!({ "mode": "url", "message": "Sign in", "url": "https://example.com/sign-in?a=1&b=2" });
    assert_has(
        &page(&view(vec![asking(3, asked)])),
        &[
            "a page of <b>example.com</b>",
            "href=\"https://example.com/sign-in?a=1&#38;b=2\" target=\"_blank\" rel=\"noopener noreferrer\">",
            "The page is not Countersign’s.",
        ],
    );
    let hostile = serde_json::json!({ "mode": "url", "message": "x", "url": "javascript:alert(1)" });
    assert_lacks(&page(&view(vec![asking(3, hostile)])), &["href=\"javascript"]);
}

#[test]
fn a_question_that_is_over_has_no_fields_and_says_what_became_of_it() {
    let answered = ItemView {
        state: ItemState::Sent,
        question: Some(QuestionView { asked: form(), withdrawn: false, content: Some(r#"{"name":"Ada"}"#.to_owned()) }),
        ..decided(3, Verdict::Accept, ItemState::Sent, Some("ben"))
    };
    let html = page(&with_state(PauseState::Decided, ExecutionStatus::Running, answered));
    assert_has(&html, &["Answered by <b>ben</b>", "What was answered", "&#34;name&#34;"]);
    assert_lacks(&html, &["field-3-"]);
    let gone = ItemView {
        state: ItemState::Done,
        question: Some(QuestionView { asked: form(), withdrawn: true, content: None }),
        ..item(3)
    };
    let html = page(&with_state(PauseState::Decided, ExecutionStatus::Running, gone));
    assert_has(&html, &["The tool stopped waiting before anybody answered."]);
    assert_lacks(&html, &["field-3-"]);
}

#[test]
fn a_program_that_goes_on_can_be_stopped_and_one_that_has_ended_cannot() {
    let item = || decided(3, Verdict::Accept, ItemState::Done, Some("ben"));
    for status in [ExecutionStatus::Running, ExecutionStatus::Sleeping] {
        let html = page(&with_state(PauseState::Decided, status, item()));
        assert_has(&html, &["name=\"action\" value=\"cancel\">Stop this program</button>"]);
    }
    let over = with_state(PauseState::Over, ExecutionStatus::Cancelled, item());
    let over = ApprovalView { stopped: decided(3, Verdict::Cancel, ItemState::NotSent, Some("cem")).decision, ..over };
    assert_lacks(&page(&over), &["Stop this program"]);
    assert_has(&page(&over), &["Cancelled by <b>cem</b> on"]);
    assert_lacks(&page(&view(vec![self::item(3)])), &["Stop this program"]);
}

#[test]
fn a_marked_line_is_said_to_be_unchecked() {
    let unchecked = "A marked line only helps you to find the call";
    assert_has(&page(&view(vec![item(3)])), &[unchecked]);
    assert_lacks(&page(&view(vec![ItemView { line: None, ..item(3) }])), &[unchecked]);
}

#[test]
fn the_page_links_to_the_history_of_its_session() {
    assert_has(&page(&view(vec![item(3)])), &["<a href=\"/sessions/5e55\">All programs of this session</a>"]);
}

#[test]
fn a_conflict_names_who_decided() {
    let by_ben = || decided(3, Verdict::Decline, ItemState::Declined, Some("ben"));
    let html = conflict_page(&with_state(PauseState::Decided, ExecutionStatus::Running, by_ben()), PERSON);
    assert_has(
        &html,
        &[
            "role=\"alert\"",
            "Already declined by <b>ben</b> on ",
            "4 March 2026, 10:00 UTC",
            "Your answer was not used.",
        ],
    );
    let mixed = view(vec![by_ben(), decided(4, Verdict::Accept, ItemState::Sent, Some("cem")), item(5)]);
    assert_has(
        &conflict_page(&mixed, PERSON),
        &["by whom is written at each call", "Please look at what still waits."],
    );
    assert_has(&conflict_page(&view(vec![item(3)]), PERSON), &["has changed since you opened the page"]);
    let late = with_state(
        PauseState::Expired,
        ExecutionStatus::Running,
        decided(3, Verdict::Decline, ItemState::Expired, None),
    );
    assert_has(&conflict_page(&late, PERSON), &["came too late"]);
    let over = with_state(PauseState::Over, ExecutionStatus::Failed, item(3));
    assert_has(&conflict_page(&over, PERSON), &["the program had already ended"]);
}

#[test]
fn the_version_changes_with_what_is_shown() {
    let version = |view: &ApprovalView| {
        let html = page(view);
        html.split("data-version=\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned).unwrap()
    };
    let before = view(vec![item(3)]);
    assert_eq!(version(&before), "waiting waiting digest-of-all 1772701200000   3:waiting");
    for after in [
        with_state(
            PauseState::Waiting,
            ExecutionStatus::Waiting,
            decided(3, Verdict::Accept, ItemState::Approved, Some("ben")),
        ),
        ApprovalView { digest: "another".to_owned(), ..before.clone() },
        ApprovalView { state: PauseState::Expired, ..before.clone() },
        ApprovalView { execution_status: ExecutionStatus::Running, ..before.clone() },
        ApprovalView { next_execution_id: Some("x".to_owned()), ..before.clone() },
        ApprovalView { outcome: Some(OutcomeView { result: None, error: None }), ..before.clone() },
    ] {
        assert_ne!(version(&after), version(&before));
    }
}

#[test]
fn the_words_of_the_version_are_those_of_the_api() {
    let word = |value: serde_json::Value| value.as_str().unwrap().to_owned();
    for state in [PauseState::Waiting, PauseState::Decided, PauseState::Expired, PauseState::Over] {
        for status in [
            ExecutionStatus::Running,
            ExecutionStatus::Waiting,
            ExecutionStatus::Completed,
            ExecutionStatus::Failed,
            ExecutionStatus::Cancelled,
            ExecutionStatus::Expired,
        ] {
            let expected = format!(
                "data-version=\"{} {} ",
                word(serde_json::to_value(state).unwrap()),
                word(serde_json::to_value(status).unwrap())
            );
            assert_has(&page(&with_state(state, status, item(3))), &[&expected]);
        }
    }
    for state in [
        ItemState::Waiting,
        ItemState::Approved,
        ItemState::Sent,
        ItemState::Done,
        ItemState::Failed,
        ItemState::Declined,
        ItemState::Expired,
        ItemState::NotSent,
        ItemState::OutcomeUnknown,
    ] {
        let expected = format!(" 3:{}\"", word(serde_json::to_value(state).unwrap()));
        assert_has(&page(&view(vec![ItemView { state, ..item(3) }])), &[&expected]);
    }
}

#[test]
fn many_other_calls_are_cut_at_the_beginning_and_counted() {
    let other = |call| OtherCall {
        call,
        address: format!("demo.call{call}"),
        arguments: "{}".to_owned(),
        edited: None,
        line: None,
        state: ItemState::Done,
        result: None,
    };
    let html = page(&ApprovalView { others: (0..250).map(other).collect(), ..view(vec![item(300)]) });
    assert_has(&html, &["The first 150 are not shown here.", "start=\"151\"", "demo.call150<", "demo.call249<"]);
    assert_lacks(&html, &["demo.call149<"]);
}

#[test]
fn an_ordinary_page_is_light() {
    let [css, js, _] = assets::paths().map(|path| asset(path).unwrap().body.len());
    let html = page(&view(vec![item(3), item(4), item(5)])).len();
    assert!(css + js + html < 50_000, "{css} {js} {html}");
}

#[test]
fn signing_in_returns_only_to_pages_of_the_gateway() {
    for (path, expected) in [
        ("/resume/x?mcp_session_id=y", "/resume/x?mcp_session_id=y"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("", "/"),
    ] {
        assert_eq!(local_path(path), expected);
    }
    assert_has(
        &sign_in_page("ann@acme", "//evil.example", Some("Write it as name@organization.")),
        &[
            "name=\"return_to\" value=\"/\"",
            "name=\"account\" type=\"text\" value=\"ann@acme\"",
            "action=\"/sign-in\"",
            "believes every name",
            "Write it as name@organization.",
        ],
    );
}

#[test]
fn who_may_not_decide_sees_no_form_and_who_may() {
    let foreign = |call| ItemView { approvers: Approvers::OtherAdmin, may_decide: false, ..item(call) };
    let html = page(&view(vec![foreign(3)]));
    assert_lacks(&html, &["<form", "Cancel the program", "name=\"digest\"", "<textarea"]);
    assert_has(
        &html,
        &[
            "You may not decide this yourself.",
            "<dt>May be decided by</dt><dd>an administrator other than the account that the session belongs to</dd>",
            // Without a form a page may reload itself.
            "http-equiv=\"refresh\"",
        ],
    );
    let html = page(&ApprovalView { owner: false, ..view(vec![foreign(3)]) });
    assert_has(&html, &["You may look at this, but not decide it."]);
    assert_lacks(&html, &["/sessions/"]);
    // Some are, some are not: only those are decided, one by one.
    let html = page(&ApprovalView { owner: false, ..view(vec![foreign(3), item(4)]) });
    assert_has(&html, &["Some of these calls are for somebody else", "name=\"choice-4\"", "value=\"items\""]);
    assert_lacks(&html, &["name=\"choice-3\"", "value=\"accept\">Approve all", "value=\"cancel\""]);
    let html = refused_page(&view(vec![foreign(3)]), PERSON, "You may not decide this. Only <b> may.");
    assert_has(&html, &["Nothing was decided. You may not decide this. Only &lt;b&gt; may."]);
}

#[test]
fn arguments_can_be_corrected_and_what_was_typed_is_kept() {
    let html = page(&view(vec![item(3)]));
    assert_has(
        &html,
        &["Correct the arguments", "<textarea id=\"arguments-3\" name=\"arguments-3\"", "&#34;amount&#34;: 10.50"],
    );
    let sent = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let typed = [
        sent("arguments-3", "{\"id\":</textarea>"),
        sent("reason", "because"),
        sent("choice-4", "decline"),
        sent("reason-4", "not that"),
    ];
    let html = bad_answer_page(&view(vec![item(3), item(4)]), PERSON, "/id: has to be a text", &typed);
    assert_has(
        &html,
        &[
            "Nothing was decided. /id: has to be a text",
            "data-key=\"edit-3\" open>",
            "{&#34;id&#34;:&#60;/textarea&#62;",
            ">because</textarea>",
            "name=\"choice-4\" value=\"decline\" checked>",
            ">not that</textarea>",
        ],
    );
    assert_has(&html, &["data-key=\"edit-4\">"]);
    let large = ItemView { arguments: format!("{{\"a\":\"{}\"}}", "x".repeat(20_000)), ..item(3) };
    assert_lacks(&page(&view(vec![large])), &["Correct the arguments"]);
    // Short, but long once it is indented.
    let deep = format!("{}{}1{}", "[".repeat(100), "1,".repeat(2_000), "]".repeat(100));
    let deep = |call| ItemView { arguments: deep.clone(), ..item(call) };
    let html = page(&view(vec![deep(3), item(4)]));
    assert_has(&html, &["name=\"arguments-4\""]);
    assert_lacks(&html, &["name=\"arguments-3\""]);
    assert_lacks(&page(&view(vec![asking(3, form())])), &["Correct the arguments"]);
}

#[test]
fn edited_arguments_and_grants_are_told_afterwards() {
    let by = |edited: bool, grant: Option<&str>| {
        let mut item = decided(3, Verdict::Accept, ItemState::Done, Some("ben"));
        item.original = edited.then(|| "{\"id\":\"i9\"}".to_owned());
        if let Some(decision) = item.decision.as_mut() {
            decision.edited = edited;
            decision.grant = grant.map(str::to_owned);
        }
        page(&with_state(PauseState::Over, ExecutionStatus::Completed, item))
    };
    assert_has(
        &by(true, None),
        &[
            "Approved with other arguments by <b>ben</b> on",
            "edited by a person, complete",
            "What the program wrote",
            "i9",
        ],
    );
    assert_has(&by(false, Some("g1")), &["Approved by grant <span class=\"code\">g1</span>, given by <b>ben</b> on"]);
}

#[test]
fn what_changed_since_it_was_approved_is_shown() {
    let change = |what: &str, before: &str, now: &str| ChangeView {
        what: what.to_owned(),
        before: before.to_owned(),
        now: now.to_owned(),
    };
    let changes = vec![
        change("request", "DELETE https://a.example/1", "DELETE https://b.example/1"),
        change("definition", r#"{"tool":{"a":1,"definitionHash":"x"}}"#, r#"{"tool":{"a":1,"definitionHash":"y"}}"#),
    ];
    let html = page(&view(vec![ItemView { asked_again: true, changes, ..item(3) }]));
    assert_has(
        &html,
        &[
            "This is asked again",
            "<p class=\"from\">The request</p>",
            "<del>− DELETE https://a.example/1</del>",
            "<ins>+ DELETE https://b.example/1</ins>",
            "<p class=\"from\">The tool’s definition</p>",
            "<ins>+     &#34;definitionHash&#34;: &#34;y&#34;</ins>",
        ],
    );
    assert_lacks(&html, &["<del>−     &#34;a&#34;"]);
}

#[test]
fn more_than_one_call_can_be_allowed_where_that_is_possible() {
    let html = page(&view(vec![item(3)]));
    assert_has(
        &html,
        &[
            "Allow more than this call",
            "<input type=\"radio\" name=\"grant-3\" value=\"\" checked> This call only",
            "name=\"grant-3\" value=\"session\"",
            "name=\"grant-3\" value=\"168\"",
        ],
    );
    let typed = [("grant-3".to_owned(), "8".to_owned())];
    let html = bad_answer_page(&view(vec![item(3)]), PERSON, "no", &typed);
    assert_has(&html, &["name=\"grant-3\" value=\"8\" checked>", "name=\"grant-3\" value=\"\">"]);
    for other in [
        ItemView { grantable: false, ..item(3) },
        ItemView { may_decide: false, ..item(3) },
        decided(3, Verdict::Accept, ItemState::Done, Some("ben")),
    ] {
        assert_lacks(&page(&view(vec![other, item(4)])), &["grant-3"]);
    }
    let mut given = decided(3, Verdict::Accept, ItemState::Done, Some("ben"));
    if let Some(decision) = given.decision.as_mut() {
        decision.gives = Some("0a".to_owned());
    }
    let html = page(&with_state(PauseState::Over, ExecutionStatus::Completed, given));
    assert_has(&html, &["This gave the grant <span class=\"code\">0a</span> (<a href=\"/grants\">all grants</a>)."]);
}
