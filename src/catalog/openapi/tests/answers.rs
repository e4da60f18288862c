use serde_json::{Value, json};

use crate::catalog::openapi::answer::{HttpAnswer, read_answer};
use crate::catalog::tool::ToolOutcome;

fn read(status: u16, headers: &[(&str, &str)], body: &[u8]) -> ToolOutcome {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    read_answer(&HttpAnswer { status, headers: &headers, body })
}

fn wire(outcome: &ToolOutcome) -> String {
    serde_json::to_string(outcome).unwrap()
}

#[test]
fn a_payload_is_json_text_or_a_file() {
    let file = |mime: &str, data: &str| json!({ "mimeType": mime, "encoding": "base64", "data": data }).to_string();
    let rows: [(&str, &[u8], String); 14] = [
        ("application/json", br#"{"a":1}"#, r#"{"a":1}"#.into()),
        ("Application/Problem+JSON; charset=utf-8", b"[1]", "[1]".into()),
        ("", br#"{"a":1}"#, r#"{"a":1}"#.into()),
        ("", b"plain", "\"plain\"".into()),
        ("", &[0xff, 0xfe, 0xfd], file("application/octet-stream", "//79")),
        ("application/json", b"not json", "\"not json\"".into()),
        ("text/plain", b"1", "\"1\"".into()),
        ("text/html; charset=utf-8", "<p>ü</p>".as_bytes(), "\"<p>ü</p>\"".into()),
        ("application/xml", b"<a/>", "\"<a/>\"".into()),
        ("text/plain; charset=ISO-8859-1", &[0x67, 0x72, 0xfc, 0x6e], "\"grün\"".into()),
        ("text/plain", &[0x67, 0xfc], file("text/plain", "Z/w=")),
        ("text/plain; charset=utf-16", &[0xff, 0xfe, 0x61, 0], "\"a\"".into()),
        ("image/png", &[0x89, 0x50, 0, 1], file("image/png", "iVAAAQ==")),
        ("application/octet-stream", b"looks like text", file("application/octet-stream", "bG9va3MgbGlrZSB0ZXh0")),
    ];
    for (content_type, body, expected) in rows {
        let outcome = read(200, &[("Content-Type", content_type)], body);
        assert_eq!(
            wire(&outcome),
            format!(r#"{{"ok":true,"data":{expected},"http":{{"status":200}}}}"#),
            "{content_type}"
        );
    }
}

#[test]
fn an_empty_answer_is_success() {
    for status in [200, 201, 202, 204, 304] {
        let outcome = read(status, &[("content-type", "application/json")], b"");
        assert_eq!(wire(&outcome), format!(r#"{{"ok":true,"data":null,"http":{{"status":{status}}}}}"#));
    }
}

#[test]
fn numbers_and_strings_come_out_as_they_went_in() {
    let body = "\u{feff}{ \"b\" : 12345678901234567890123 , \"a\":1.10,\r\n\t\"e\":1E+5,\"s\":\"a \\u00fc \\\" \\n\", \"a\": [ ] }";
    let outcome = read(200, &[("content-type", "application/json")], body.as_bytes());
    let expected = r#"{"b":12345678901234567890123,"a":1.10,"e":1E+5,"s":"a \u00fc \" \n","a":[]}"#;
    assert_eq!(wire(&outcome), format!(r#"{{"ok":true,"data":{expected},"http":{{"status":200}}}}"#));
    let again: ToolOutcome = serde_json::from_str(&wire(&outcome)).unwrap();
    assert_eq!(again, outcome);
}

#[test]
fn json_that_nests_too_deep_comes_as_text() {
    let body = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let outcome = read(200, &[("content-type", "application/json")], body.as_bytes());
    assert!(wire(&outcome).starts_with(r#"{"ok":true,"data":"[[["#));
}

#[test]
fn a_file_keeps_its_name_without_folders() {
    for (disposition, name) in [
        ("attachment; filename=\"a b.pdf\"", Some("a b.pdf")),
        ("attachment; filename=plain.txt ; x=y", Some("plain.txt")),
        ("attachment; filename=\"../../etc/passwd\"", Some("passwd")),
        ("attachment; filename=x; filename*=UTF-8''gr%C3%BCn.txt", Some("grün.txt")),
        ("attachment; filename=\"q\\\"uote.txt\"", Some("q\"uote.txt")),
        ("attachment", None),
        ("attachment; filename=\"..\"", None),
    ] {
        let outcome = read(200, &[("content-type", "image/png"), ("content-disposition", disposition)], b"x");
        let value: Value = serde_json::from_str(&wire(&outcome)).unwrap();
        assert_eq!(value["data"].get("name").and_then(Value::as_str), name, "{disposition}");
    }
}

#[test]
fn statuses_from_400_are_failures_with_what_the_upstream_said() {
    let rows: [(u16, &str, &[u8], &str); 6] = [
        (
            404,
            "application/json",
            br#"{"message":"no such pet","id":12345678901234567890}"#,
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 404: no such pet","status":404,"details":{"message":"no such pet","id":12345678901234567890},"retryable":false}}"#,
        ),
        (
            422,
            "application/json",
            br#"{"errors":[{"detail":"name is blank"}]}"#,
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 422: name is blank","status":422,"details":{"errors":[{"detail":"name is blank"}]},"retryable":false}}"#,
        ),
        (
            400,
            "text/plain",
            b"bad",
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 400: bad","status":400,"details":"bad","retryable":false}}"#,
        ),
        (
            500,
            "text/plain",
            b"",
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 500 Internal Server Error","status":500,"retryable":true}}"#,
        ),
        (
            429,
            "application/json",
            b"{}",
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 429 Too Many Requests","status":429,"details":{},"retryable":true}}"#,
        ),
        (
            503,
            "text/html",
            b"<html>",
            r#"{"ok":false,"error":{"code":"http_error","message":"HTTP 503 Service Unavailable","status":503,"details":"<html>","retryable":true}}"#,
        ),
    ];
    for (status, content_type, body, expected) in rows {
        assert_eq!(wire(&read(status, &[("content-type", content_type)], body)), expected);
    }
    let limited = read(429, &[("Retry-After", "30")], b"");
    assert!(wire(&limited).contains("HTTP 429 Too Many Requests (Retry-After: 30)"));
}

#[test]
fn a_large_error_body_is_bounded() {
    for (content_type, body) in [
        ("application/json", format!(r#"{{"message":"{}","list":["{}"]}}"#, "m".repeat(2_000), "ü".repeat(20_000))),
        ("text/plain", "ü".repeat(20_000)),
    ] {
        let outcome = wire(&read(500, &[("content-type", content_type)], body.as_bytes()));
        assert!(outcome.len() < 10_000, "{}", outcome.len());
        assert!(outcome.contains(&format!("({} bytes in all)", body.len())));
    }
}

#[test]
fn a_redirect_that_nobody_followed_is_a_failure() {
    let outcome = wire(&read(302, &[("location", "https://elsewhere.example/")], b""));
    assert!(
        outcome.contains(r#""code":"redirect_refused""#) && outcome.contains("https://elsewhere.example/"),
        "{outcome}"
    );
}
