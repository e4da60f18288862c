//! What is sent, and what is made of what comes back.

use serde_json::{Map, Value, json};

use super::*;
use crate::upstream::{Changed, LogLevel, Question};

const LIMITS: Limits = Limits { bytes: 10_000, messages: 20 };

fn session() -> Requests {
    let era = Era::Session { version: "2025-06-18".to_owned(), id: Some("s1".to_owned()) };
    Requests { era, capabilities: json!({}) }
}

fn body(outgoing: &Outgoing) -> Value {
    serde_json::from_str(outgoing.body.as_deref().unwrap()).unwrap()
}

fn header<'a>(outgoing: &'a Outgoing, name: &str) -> Option<&'a str> {
    outgoing.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[test]
fn events_are_read_whatever_the_pieces() {
    let text = "\u{feff}: comment\r\nid: 7\nretry: 20\ndata: a\ndata:b\r\rdata: c\n\nevent: other\ndata: no\n\nid\ndata:\n\nid: 9\n\ndata: cut";
    for size in 1..text.len() {
        let mut reader = EventReader::new(100);
        let mut messages = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            messages.extend(reader.push(piece).unwrap());
        }
        assert_eq!(messages, ["a\nb", "c"], "{size}");
        assert_eq!((reader.last_id(), reader.retry_ms()), (Some("9"), Some(20)), "{size}");
    }
    assert!(EventReader::new(10).push(b"data: 0123456789").is_err());
    assert!(EventReader::new(10).push(b"data: 012\ndata: 3456789\n").is_err());
}

#[test]
fn requests_of_a_session_name_it_and_its_version() {
    let parts =
        CallParts { progress: true, headers: vec![("mcp-param-a".to_owned(), "1".to_owned())], ..CallParts::default() };
    let request = session().request(3, "tools/call", Map::from_iter([("name".to_owned(), json!("é"))]), &parts);
    assert_eq!(
        body(&request),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "é", "_meta": { "progressToken": 3 } } })
    );
    assert_eq!(header(&request, "mcp-session-id"), Some("s1"));
    assert_eq!(header(&request, "mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(header(&request, "mcp-method"), None);
    assert_eq!(header(&request, "mcp-param-a"), None);
    assert_eq!(header(&session().read_events(Some("e1")), "last-event-id"), Some("e1"));
    assert_eq!(session().end().map(|end| end.method), Some("DELETE"));
    let initialize = Requests::initialize(1, &json!({ "roots": {} }));
    assert_eq!(header(&initialize, "mcp-protocol-version"), None);
    assert_eq!(body(&initialize)["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(body(&session().answer("\"q\"", &Err((-1, "no".to_owned()))))["id"], "q");
}

#[test]
fn stateless_requests_say_everything_every_time() {
    let requests = Requests { era: Era::Stateless, capabilities: json!({ "roots": {} }) };
    let parts = CallParts {
        headers: vec![("mcp-param-Region".to_owned(), " us ".to_owned())],
        log_level: Some(LogLevel::Debug),
        input: Some((Some(Map::from_iter([("k".to_owned(), json!({}))])), Some(json!("state")))),
        ..CallParts::default()
    };
    let request = requests.request(4, "tools/call", Map::from_iter([("name".to_owned(), json!("世"))]), &parts);
    assert_eq!(header(&request, "mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(header(&request, "mcp-method"), Some("tools/call"));
    assert_eq!(header(&request, "mcp-name"), Some("=?base64?5LiW?="));
    assert_eq!(header(&request, "mcp-param-Region"), Some("=?base64?IHVzIA==?="));
    let params = &body(&request)["params"];
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/clientCapabilities"], json!({ "roots": {} }));
    assert_eq!(params["_meta"]["io.modelcontextprotocol/logLevel"], "debug");
    assert_eq!((&params["requestState"], &params["inputResponses"]), (&json!("state"), &json!({ "k": {} })));
    assert_eq!(requests.end(), None);
}

#[test]
fn header_values_are_encoded_as_the_specification_shows() {
    for (value, encoded) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", "=?base64??="),
    ] {
        assert_eq!(header_value(value), encoded);
    }
}

fn fault(code: i32, data: Value) -> Result<Value, RpcFault> {
    Err(RpcFault { code, message: String::new(), data: Some(data) })
}

#[test]
fn the_era_follows_from_the_first_answer() {
    let kind = |status: u16, outcome: Option<Result<Value, RpcFault>>| match read_discovery(status, outcome.as_ref()) {
        Probed::Stateless(_) => "stateless",
        Probed::Older => "older",
        Probed::Unusable(_) => "unusable",
    };
    let supported = |versions: Value| json!({ "supported": versions });
    for (status, outcome, expected) in [
        (200, Some(Ok(json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} }))), "stateless"),
        (200, Some(Ok(json!({ "supportedVersions": ["2025-11-25"] }))), "older"),
        (200, Some(Ok(json!({}))), "older"),
        (400, Some(fault(-32_022, supported(json!(["2026-07-28"])))), "stateless"),
        (400, Some(fault(-32_022, supported(json!(["2025-06-18"])))), "older"),
        (400, Some(fault(-32_022, supported(json!(["1999-01-01"])))), "unusable"),
        (400, Some(fault(-32_021, json!({}))), "stateless"),
        (400, Some(fault(-32_000, json!({}))), "older"),
        (200, Some(fault(-32_601, json!({}))), "older"),
        (404, None, "older"),
        (406, None, "older"),
        (401, None, "unusable"),
        (403, None, "unusable"),
        (503, None, "unusable"),
    ] {
        assert_eq!(kind(status, outcome.clone()), expected, "{status} {outcome:?}");
    }
}

#[test]
fn initialize_is_believed_within_bounds() {
    let result = |version: &str| json!({ "protocolVersion": version, "capabilities": { "resources": { "subscribe": true }, "prompts": {} } });
    let connected = read_initialized(&result("2024-11-05"), Some("abc")).unwrap();
    assert_eq!(connected.era, Era::Session { version: "2024-11-05".to_owned(), id: Some("abc".to_owned()) });
    let offers = offers_of(&connected.capabilities);
    assert!(offers.resources && offers.subscriptions && offers.prompts && !offers.completions && !offers.tools);
    for (version, id) in [("2026-07-28", "a"), ("", "a"), ("2025-11-25", "a b"), ("2025-11-25", "é")] {
        assert!(read_initialized(&result(version), Some(id)).is_err(), "{version} {id}");
    }
    assert!(read_initialized(&json!(null), None).is_err());
}

/// Reads a whole stream of events.
fn heard(exchange: &mut Exchange, messages: &[Value]) -> Vec<Heard> {
    exchange.begin(200, Some("text/event-stream; charset=utf-8")).unwrap();
    let text: Vec<String> =
        messages.iter().enumerate().map(|(n, message)| format!("id: e{n}\ndata: {message}\n\n")).collect();
    exchange.push(text.concat().as_bytes()).unwrap()
}

#[test]
fn only_our_own_answer_counts_and_only_once() {
    let answer = |id: Value, n: u32| json!({ "jsonrpc": "2.0", "id": id, "result": { "n": n } });
    let mut exchange = Exchange::new(Some(5), true, LIMITS);
    let found =
        heard(&mut exchange, &[answer(json!(4), 1), answer(json!("x"), 2), answer(json!(5), 3), answer(json!(5), 4)]);
    assert_eq!(found, [Heard::Answer(Answered::Result(json!({ "n": 3 })))]);
}

#[test]
fn what_comes_before_the_answer_is_told_apart() {
    let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let ask = |method: &str| json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": { "message": "m", "_meta": {} } });
    let messages = [
        note("notifications/progress", json!({ "progressToken": 5, "progress": 1, "total": 2, "message": "m" })),
        note("notifications/progress", json!({ "progressToken": 6, "progress": 1 })),
        note("notifications/message", json!({ "level": "error", "data": { "x": 1 } })),
        note("notifications/message", json!({ "level": "loud", "data": 1 })),
        note("notifications/tools/list_changed", json!({})),
        note("notifications/resources/updated", json!({ "uri": "u:1" })),
        note("notifications/other", json!({})),
        ask("elicitation/create"),
        ask("ping"),
        ask("tools/call"),
    ];
    let found = heard(&mut Exchange::new(Some(5), true, LIMITS), &messages);
    let params = Map::from_iter([("message".to_owned(), json!("m"))]);
    let id = "\"q\"".to_owned();
    assert_eq!(
        found,
        [
            Heard::Progress { progress: 1.0, total: Some(2.0), message: Some("m".to_owned()) },
            Heard::Log { level: LogLevel::Error, logger: None, data: json!({ "x": 1 }) },
            Heard::Changed(Changed::Tools),
            Heard::Changed(Changed::Resource("u:1".to_owned())),
            Heard::Ask { id: id.clone(), question: Question::Elicitation(params) },
            Heard::Reply { id: id.clone(), outcome: Ok(json!({})) },
            Heard::Reply { id, outcome: Err((-32_601, "Method not found".to_owned())) },
        ]
    );
    // A stateless server may not ask this way.
    assert_eq!(heard(&mut Exchange::new(Some(5), false, LIMITS), &messages[7..]), []);
}

#[test]
fn a_stream_that_breaks_is_asked_for_again_only_where_that_is_possible() {
    let mut exchange = Exchange::new(Some(5), true, LIMITS);
    exchange.begin(200, Some("text/event-stream")).unwrap();
    assert_eq!(exchange.broke(), StreamEnd::Broken);
    exchange.begin(200, Some("text/event-stream")).unwrap();
    exchange.push(b"id: 1\nretry: 99999999\n\n").unwrap();
    assert_eq!(exchange.broke(), StreamEnd::Resume { last_event_id: "1".to_owned(), after_ms: 10_000 });
    exchange.begin(200, Some("text/event-stream")).unwrap();
    assert_eq!(exchange.broke(), StreamEnd::Resume { last_event_id: "1".to_owned(), after_ms: 10_000 });
    let mut stateless = Exchange::new(Some(5), false, LIMITS);
    stateless.begin(200, Some("text/event-stream")).unwrap();
    stateless.push(b"id: 1\n\n").unwrap();
    assert_eq!(stateless.broke(), StreamEnd::Broken);
}

#[test]
fn responses_that_are_no_stream_are_read_by_status_and_body() {
    let read = |status: u16, kind: Option<&str>, body: &str| {
        let mut exchange = Exchange::new(Some(5), true, LIMITS);
        exchange.begin(status, kind)?;
        exchange.push(body.as_bytes())?;
        exchange.end(status, true)
    };
    let json_type = Some("application/json");
    let error = |code: i32, message: &str| {
        json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": code, "message": message } }).to_string()
    };
    let nameless = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32_000, "message": "Bad Request: No valid session ID provided" } }).to_string();
    let answer = json!({ "jsonrpc": "2.0", "id": 5, "result": {} }).to_string();
    assert_eq!(read(200, json_type, &answer), Ok(vec![Heard::Answer(Answered::Result(json!({})))]));
    assert_eq!(read(404, json_type, &error(-32_001, "Session not found")), Err(Fault::SessionLost));
    assert_eq!(read(404, None, ""), Err(Fault::SessionLost));
    assert_eq!(read(401, json_type, &nameless), Err(Fault::Status { status: 401 }));
    assert_eq!(read(400, json_type, &nameless), Err(Fault::SessionLost));
    assert_eq!(read(400, Some("text/plain"), "Missing session ID"), Err(Fault::SessionLost));
    assert!(matches!(read(404, json_type, &error(-32_601, "Method not found")), Ok(heard) if heard.len() == 1));
    assert!(matches!(read(400, json_type, &error(-32_602, "bad")), Ok(heard) if heard.len() == 1));
    assert_eq!(read(500, Some("text/html"), "<html>"), Err(Fault::Status { status: 500 }));
    assert_eq!(read(302, None, ""), Err(Fault::Status { status: 302 }));
    assert!(matches!(read(200, Some("text/html"), "<html>"), Err(Fault::Garbage(_))));
    assert!(matches!(read(200, json_type, "{"), Err(Fault::Garbage(_))));
    assert!(matches!(read(200, json_type, &answer.replace('5', "6")), Err(Fault::Garbage(_))));
    assert_eq!(read(200, json_type, &"x".repeat(20_000)), Err(Fault::TooLarge));
}

#[test]
fn a_flood_of_messages_ends_the_exchange() {
    let mut exchange = Exchange::new(Some(5), true, LIMITS);
    exchange.begin(200, Some("text/event-stream")).unwrap();
    let note = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/other\"}\n\n";
    assert_eq!(exchange.push(note.repeat(21).as_bytes()), Err(Fault::TooLarge));
    let mut exchange = Exchange::new(Some(5), true, LIMITS);
    exchange.begin(200, Some("text/event-stream")).unwrap();
    assert!(matches!(exchange.push(b"data: {\n\n"), Err(Fault::Garbage(_))));
}

#[test]
fn pages_end_whatever_the_server_says() {
    let mut pages = Pages::default();
    let page = |cursor: &str| json!({ "tools": [1], "nextCursor": cursor });
    assert_eq!(pages.take(&mut page("a"), "tools").unwrap().as_deref(), Some("a"));
    assert_eq!(pages.take(&mut page("b"), "tools").unwrap().as_deref(), Some("b"));
    assert_eq!(pages.take(&mut page("a"), "tools").unwrap(), None, "a repeated cursor ends the loop");
    assert!(pages.take(&mut json!({}), "tools").is_err());
    assert_eq!(pages.into_entries().len(), 3);
    let mut pages = Pages::default();
    let mut count = 0;
    while pages.take(&mut page(&count.to_string()), "tools").unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 200);
    let mut large = json!({ "tools": vec![1; 20_000], "nextCursor": "x" });
    assert_eq!(Pages::default().take(&mut large, "tools").unwrap(), None);
}

#[test]
fn input_that_a_stateless_server_needs_is_read() {
    let result = json!({ "resultType": "input_required", "requestState": "s", "inputRequests": {
        "a": { "method": "roots/list" }, "b": { "method": "shell/run" } } });
    let (questions, state) = Answered::Result(result).input_required().unwrap();
    assert_eq!(questions, [("a".to_owned(), Some(Question::Roots)), ("b".to_owned(), None)]);
    assert_eq!(state, Some(json!("s")));
    assert_eq!(Answered::Result(json!({ "resultType": "complete" })).input_required(), None);
}
