use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cursor::{decode, encode, parse_page};
use super::report::{CHANGES_LIMIT, ENTRIES_LIMIT, Report};
use super::route::{AdminCall, Operation, is_route, parse_call};
use super::slug::{check_source, is_source, is_toolkit};
use super::source::{AuthChange, Definition, Document, parse_confirm, parse_source};
use super::text::{parse_origin, parse_url};
use super::toolkit::{Toolkit, parse_policies};
use super::{DOCUMENT, SLUG};
use crate::catalog::openapi::{ImportLimits, ImportOptions, ReportAction, ReportEntry, import_openapi};
use crate::catalog::tool::Binding;

fn call(method: &str, path: &str) -> AdminCall {
    AdminCall { method: method.to_owned(), path: path.to_owned(), query: Vec::new(), body: String::new() }
}

#[test]
fn a_request_is_read_as_the_operation_that_it_is() {
    let read = |method, path| parse_call(&call(method, path)).unwrap();
    assert_eq!(read("GET", "sources/a-b"), Operation::ReadSource("a-b".to_owned()));
    assert_eq!(read("HEAD", "sources/a"), Operation::ReadSource("a".to_owned()));
    assert_eq!(read("GET", "tools/demo.a%2Fb"), Operation::ReadTool("demo.a/b".to_owned()));
    assert_eq!(read("POST", "sources/a/refresh"), Operation::RefreshSource("a".to_owned()));
    assert_eq!(read("GET", "policies/"), Operation::ReadPolicies);
    assert_eq!(read("DELETE", "keys/0123456789abcdef"), Operation::DeleteKey("0123456789abcdef".to_owned()));
    for (method, path, status, allow) in [
        ("POST", "sources", 405, Some("GET")),
        ("PATCH", "sources/a", 405, Some("GET, PUT, DELETE")),
        ("GET", "sources/a/refresh", 405, Some("POST")),
        ("DELETE", "tools/a.b", 405, Some("GET")),
        ("GET", "sources/a/b", 404, None),
        ("PUT", "keys", 405, Some("GET, POST")),
        ("GET", "keys/0123456789abcdef", 405, Some("DELETE")),
        ("DELETE", "keys/0123", 404, None),
        ("GET", "secrets", 404, None),
        ("GET", "sources/%ff", 400, None),
        ("GET", "sources/%2", 400, None),
        ("PUT", "sources/demo", 409, None),
        ("GET", "sources/UPPER", 404, None),
    ] {
        let fault = parse_call(&call(method, path)).unwrap_err();
        assert_eq!((fault.status, fault.allow), (status, allow), "{method} {path}");
    }
}

#[test]
fn slugs_are_short_and_mean_nothing_else() {
    for (slug, expected) in [
        ("github", true),
        ("a", true),
        ("a1-b_c", true),
        ("", false),
        ("1a", false),
        ("_a", false),
        ("A", false),
        ("a.b", false),
        ("a__b", false),
        ("ü", false),
        (&"a".repeat(41), false),
    ] {
        assert_eq!(is_source(slug), expected, "{slug}");
    }
    for slug in ["search", "describe", "sources", "demo", SLUG, "then", "constructor"] {
        assert_eq!(check_source(slug).unwrap_err().field.as_deref(), Some("slug"), "{slug}");
    }
    for (slug, expected) in [("support", true), ("1", true), ("default", false), ("a_b", false), ("", false)] {
        assert_eq!(is_toolkit(slug), expected, "{slug}");
    }
}

#[test]
fn a_source_is_read_with_its_document_as_it_stands() {
    let body = r#"{"kind":"openapi","spec":{"openapi":"3.0.0","n":1.10},"baseUrl":"https://a.example/v1#x","auth":null,"trusted":true}"#;
    let request = parse_source(body).unwrap();
    assert_eq!(request.auth, AuthChange::Remove);
    assert_eq!((request.trusted, request.idempotent_writes), (true, false));
    assert_eq!(request.stated_url(), Some("https://a.example/v1"));
    let Definition::Openapi { document: Document::Text(text), .. } = request.definition else {
        panic!("{request:?}");
    };
    assert_eq!(text, r#"{"openapi":"3.0.0","n":1.10}"#);

    let request = parse_source(r#"{"kind":"openapi","spec":"openapi: 3.1.0\n","specUrl":null}"#).unwrap();
    assert_eq!(request.auth, AuthChange::Keep);
    assert!(
        matches!(request.definition, Definition::Openapi { document: Document::Text(text), .. } if text == r#""openapi: 3.1.0\n""#)
    );

    let request = parse_source(r#"{"kind":"mcp","url":"https://mcp.example/","auth":{"kind":"bearer"}}"#).unwrap();
    assert_eq!(request.auth, AuthChange::Write(json!({ "kind": "bearer" })));
    assert_eq!(request.stated_url(), Some("https://mcp.example/"));
}

#[test]
fn a_fault_names_its_field() {
    let of_source = |body: &str| parse_source(body).map(|_| ()).unwrap_err().field;
    for (body, field) in [
        (r"{}", "kind"),
        (r#"{"kind":7}"#, "kind"),
        (r#"{"kind":"openapi"}"#, "spec"),
        (r#"{"kind":"openapi","spec":[]}"#, "spec"),
        (r#"{"kind":"openapi","spec":"x","specUrl":"https://a.example"}"#, "specUrl"),
        (r#"{"kind":"openapi","specUrl":"ftp://a.example"}"#, "specUrl"),
        (r#"{"kind":"openapi","spec":"x","url":"https://a.example"}"#, "url"),
        (r#"{"kind":"mcp","url":"https://a.example","spec":"x"}"#, "spec"),
        (r#"{"kind":"mcp","url":"https://a.example","title":5}"#, "title"),
        (
            r#"{"kind":"mcp","url":"https://a.example","confirmedOrigins":["https://b.example/x"]}"#,
            "confirmedOrigins[0]",
        ),
    ] {
        assert_eq!(of_source(body).as_deref(), Some(field), "{body}");
    }
    for (body, field) in [
        (r#"[{"pattern":"a.b"}]"#, "policies[0].action"),
        (r#"{"policies":[{"pattern":"a.b","action":"allow"},7]}"#, "policies[1]"),
        (r#"[{"pattern":"a b","action":"allow"}]"#, "policies[0].pattern"),
        (r#"[{"pattern":"a.b","action":"allow","note":[]}]"#, "policies[0].note"),
        (r#"[{"pattern":"a.b","action":"approve","by":"me"}]"#, "policies[0].by"),
        (r#"[{"pattern":"a.b","action":"approve","by":"other_admin"}]"#, "policies[0].by"),
        (r#"[{"pattern":"a.b","action":"approve","by":["admin"]}]"#, "policies[0].by"),
        (r#"[{"pattern":"a.b","action":"allow","by":"admin"}]"#, "policies[0].by"),
    ] {
        assert_eq!(parse_policies(body).unwrap_err().field.as_deref(), Some(field), "{body}");
    }
    let fault = Toolkit::parse(r#"{"include":["a.**"],"policies":[{"pattern":"x."}]}"#, "t").unwrap_err();
    assert_eq!(fault.body()["error"]["data"]["field"], "policies[0].pattern");
    assert!(fault.body()["error"]["message"].as_str().unwrap().starts_with("policies[0].pattern "));
    assert_eq!(parse_confirm(r#"{"origins":[]}"#).unwrap_err().field.as_deref(), Some("origins"));
}

#[test]
fn urls_and_origins_are_written_one_way() {
    for (text, expected) in [
        ("https://API.example.com:443/v1?x=1#y", Some("https://api.example.com/v1?x=1")),
        ("http://a.example", Some("http://a.example/")),
        ("https://u@a.example/", None),
        ("https://:p@a.example/", None),
        ("//a.example", None),
        ("javascript:1", None),
        ("", None),
    ] {
        assert_eq!(parse_url("f", text).ok().as_deref(), expected, "{text}");
    }
    for (text, expected) in [
        ("https://A.example:443", Some("https://a.example")),
        ("https://a.example/", Some("https://a.example")),
        ("http://a.example:8080", Some("http://a.example:8080")),
        ("https://a.example/x", None),
        ("https://a.example?x", None),
        ("https://u@a.example", None),
        ("null", None),
    ] {
        assert_eq!(parse_origin("f", text).ok().as_deref(), expected, "{text}");
    }
}

#[test]
fn a_toolkit_of_one_source_is_told_by_its_patterns() {
    let source = |include: &[&str]| {
        let body = json!({ "include": include }).to_string();
        Toolkit::parse(&body, "t").unwrap().source().map(ToOwned::to_owned)
    };
    assert_eq!(source(&["demo.*", "demo.a.**"]).as_deref(), Some("demo"));
    assert_eq!(source(&["demo.*", "other.a"]), None);
    assert_eq!(source(&["**"]), None);
    assert_eq!(source(&["*.list"]), None);
}

#[test]
fn a_report_has_a_bound_and_counts_everything() {
    let entry = |number: usize| ReportEntry {
        operation: Some(format!("GET /{number}")),
        action: if number.is_multiple_of(2) { ReportAction::Skipped } else { ReportAction::Renamed },
        why: "because".to_owned(),
    };
    let mut report = Report::of_import((0..1_000).map(entry).collect());
    let addresses: Vec<String> = (0..80).map(|number| format!("a.{number}")).collect();
    report.add_changes("removed", 500, &addresses, "gone");
    assert_eq!(report.entries.len(), ENTRIES_LIMIT + CHANGES_LIMIT);
    assert_eq!(report.omitted, 800 + 450);
    assert_eq!(report.counts["skipped"], 500);
    assert_eq!(report.counts["removed"], 500);
}

#[test]
fn the_own_document_describes_every_route_and_imports_without_a_complaint() {
    let options = ImportOptions {
        source: SLUG,
        base_url: None,
        document_url: Some("http://gateway.invalid/openapi.json"),
        known_names: None,
        limits: ImportLimits::default(),
    };
    let import = import_openapi(DOCUMENT, &options).unwrap();
    let skipped: Vec<_> = import.report.iter().filter(|entry| entry.action == ReportAction::Skipped).collect();
    assert!(skipped.is_empty(), "{skipped:?}");
    let mut described = BTreeSet::new();
    for tool in &import.tools {
        let Binding::Http(http) = &tool.binding else { panic!("{tool:?}") };
        let path = http.path_template.trim_start_matches("/api/");
        if !is_route(path) {
            continue;
        }
        described.insert(format!("{} {path}", http.method));
        // What is described is there; a body that is missing is another matter.
        let path = path.replace("{slug}", "abc").replace("{address}", "abc.def").replace("{id}", "0123456789abcdef");
        let path = path.replace("{scope}", "organization");
        match parse_call(&call(&http.method, &path)) {
            Ok(operation) => assert_eq!(operation.reads(), http.method == "GET", "{path}"),
            Err(fault) => assert_eq!(fault.status, 400, "{path}: {fault}"),
        }
        assert!(!tool.description.is_empty() || !tool.title.is_empty(), "{}", tool.address);
    }
    // And what is there is described.
    for route in [
        "sources",
        "sources/{slug}",
        "sources/{slug}/refresh",
        "sources/{slug}/confirm",
        "policies",
        "toolkits",
        "toolkits/{slug}",
        "tools",
        "tools/{address}",
        "audit",
        "approvals",
        "programs",
        "keys",
        "keys/{id}",
        "webhooks",
        "webhooks/{slug}",
        "stops",
        "stops/{scope}",
    ] {
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            let path =
                route.replace("{slug}", "abc").replace("{address}", "abc.def").replace("{id}", "0123456789abcdef");
            let path = path.replace("{scope}", "organization");
            let exists = !matches!(parse_call(&call(method, &path)), Err(fault) if fault.status == 405);
            assert_eq!(described.contains(&format!("{method} {route}")), exists, "{method} {route}");
        }
    }
}

proptest! {
    #[test]
    fn a_cursor_is_read_back_by_its_own_list_only(after in ".{0,80}") {
        let cursor = encode("sources", &after);
        prop_assert_eq!(decode("sources", &cursor).unwrap(), after);
        prop_assert!(decode("tools", &cursor).is_err());
    }

    #[test]
    fn nothing_that_is_sent_breaks_the_reading(body in ".{0,200}", path in "[a-z%./]{0,40}", cursor in ".{0,40}") {
        let _ = parse_source(&body).map(|_| ());
        let _ = parse_policies(&body);
        let _ = Toolkit::parse(&body, "t");
        let query = vec![("cursor".to_owned(), cursor)];
        let _ = parse_page("sources", &query);
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let call = AdminCall { query: query.clone(), body: body.clone(), ..call(method, &path) };
            if let Err(fault) = parse_call(&call) {
                prop_assert!((400..500).contains(&fault.status));
                let text = fault.body().to_string();
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
