//! Credentials as they are written, described, applied and stored.

use serde_json::{Value, json};

use super::*;
use crate::catalog::openapi::request::HttpRequest;

fn request(url: &str, headers: &[(&str, &str)]) -> HttpRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    HttpRequest { method: "GET".to_owned(), url: url.to_owned(), headers, body: None }
}

fn every_kind() -> Vec<Value> {
    vec![
        json!({ "kind": "bearer", "token": "hidden-1" }),
        json!({ "kind": "basic", "username": "me", "password": "hidden-2" }),
        json!({ "kind": "header", "name": "X-Api-Key", "value": "hidden-3" }),
        json!({ "kind": "query", "name": "api key", "value": "hidden-4" }),
        json!({
            "kind": "oauth2_client_credentials", "tokenUrl": "https://id.example/token", "clientId": "me",
            "clientSecret": "hidden-5", "scope": "a b", "audience": "x", "clientAuthentication": "body",
        }),
    ]
}

#[test]
fn a_credential_is_stored_whole_and_shown_without_its_secret() {
    for value in every_kind() {
        let auth = parse_auth(&value).unwrap();
        let stored: Value = serde_json::from_str(&auth.sealed_form()).unwrap();
        assert_eq!(parse_auth(&stored).unwrap(), auth);
        for shown in [auth.describe(), auth.shown().to_string(), format!("{auth:?}")] {
            assert!(!shown.contains("hidden"), "{shown}");
        }
        assert!(auth.secrets().iter().any(|secret| secret.contains("hidden")), "{auth:?}");
        assert_eq!(auth.shown()["kind"], value["kind"]);
    }
    let with_type = parse_auth(&json!({ "type": "bearer", "token": "x" })).unwrap();
    assert_eq!(with_type, Auth::Bearer { token: Secret::new("x") });
}

#[test]
fn what_is_wrong_is_named_and_never_quoted() {
    let long = "hidden".repeat(2_000);
    for (value, field) in [
        (json!("hidden"), "auth"),
        (json!([]), "auth"),
        (json!({}), "auth.kind"),
        (json!({ "kind": "hidden" }), "auth.kind"),
        (json!({ "type": "hidden" }), "auth.type"),
        (json!({ "kind": "bearer" }), "auth.token"),
        (json!({ "kind": "bearer", "token": "" }), "auth.token"),
        (json!({ "kind": "bearer", "token": 5 }), "auth.token"),
        (json!({ "kind": "bearer", "token": long }), "auth.token"),
        (json!({ "kind": "bearer", "token": "hidden\r\nx: y" }), "auth.token"),
        (json!({ "kind": "bearer", "token": "Bearer hidden" }), "auth.token"),
        (json!({ "kind": "bearer", "token": "a", "tokens": "hidden" }), "auth.tokens"),
        (json!({ "kind": "basic", "password": "hidden" }), "auth.username"),
        (json!({ "kind": "basic", "username": "a:hidden", "password": "" }), "auth.username"),
        (json!({ "kind": "basic", "username": "a" }), "auth.password"),
        (json!({ "kind": "basic", "username": "a", "password": "hidden\n" }), "auth.password"),
        (json!({ "kind": "header", "name": "X-A" }), "auth.value"),
        (json!({ "kind": "header", "name": "X-A", "value": "hidden\r\nX-B: 1" }), "auth.value"),
        (json!({ "kind": "header", "name": "X-A", "value": " hidden" }), "auth.value"),
        (json!({ "kind": "header", "name": "X A", "value": "hidden" }), "auth.name"),
        (json!({ "kind": "header", "name": "X-A:", "value": "hidden" }), "auth.name"),
        (json!({ "kind": "header", "name": "Cookie", "value": "hidden" }), "auth.value"),
        (json!({ "kind": "header", "name": "Cookie", "value": "a=b;hidden=c" }), "auth.value"),
        (json!({ "kind": "query", "name": "", "value": "hidden" }), "auth.name"),
        (json!({ "kind": "query", "name": "a", "value": "hidden\u{7}" }), "auth.value"),
        (json!({ "kind": "oauth2_client_credentials", "tokenUrl": "/token" }), "auth.tokenUrl"),
        (json!({ "kind": "oauth2_client_credentials", "tokenUrl": "https://a:b@id.example/" }), "auth.tokenUrl"),
        (
            json!({ "kind": "oauth2_client_credentials", "tokenUrl": "https://id.example/", "clientId": "a" }),
            "auth.clientSecret",
        ),
        (
            json!({ "kind": "oauth2_client_credentials", "tokenUrl": "https://id.example/", "clientId": "a", "clientSecret": "hidden", "clientAuthentication": "none" }),
            "auth.clientAuthentication",
        ),
    ] {
        let error = parse_auth(&value).unwrap_err();
        assert_eq!(error.field, field, "{value}: {error}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
    for name in [
        "Host",
        "content-length",
        "Content-Type",
        "Connection",
        "Transfer-Encoding",
        "Proxy-Authorization",
        "CF-Connecting-IP",
        "Mcp-Session-Id",
        "traceparent",
        "Idempotency-Key",
        "Upgrade",
        "Set-Cookie",
        "User-Agent",
    ] {
        let error = parse_auth(&json!({ "kind": "header", "name": name, "value": "x" })).unwrap_err();
        assert_eq!(error.field, "auth.name", "{name}");
    }
}

#[test]
fn a_credential_takes_the_place_of_what_the_arguments_put_there() {
    let applied = |value: Value, mut request: HttpRequest| {
        parse_auth(&value).unwrap().apply(&mut request);
        (request.url, request.headers)
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let url = "https://a.example/x?b=1";
    for kind in [
        json!({ "kind": "bearer", "token": "t" }),
        json!({ "kind": "header", "name": "AUTHORIZATION", "value": "Bearer t" }),
    ] {
        let (_, headers) =
            applied(kind, request(url, &[("Authorization", "Basic x"), ("accept", "*/*"), ("authorization", "y")]));
        assert_eq!(headers, [pair("accept", "*/*"), pair("authorization", "Bearer t")]);
    }
    let (_, headers) = applied(json!({ "kind": "basic", "username": "me", "password": "pä:ss" }), request(url, &[]));
    assert_eq!(headers, [pair("authorization", "Basic bWU6cMOkOnNz")]);
    let (_, headers) = applied(
        json!({ "kind": "header", "name": "Cookie", "value": "sid=1; u=2" }),
        request(url, &[("cookie", "sid=9; other=3;u=8")]),
    );
    assert_eq!(headers, [pair("cookie", "other=3; sid=1; u=2")]);
    let key = json!({ "kind": "query", "name": "api key", "value": "a&b=c d/+" });
    for (before, after) in [
        ("https://a.example/x", "https://a.example/x?api%20key=a%26b%3Dc%20d%2F%2B"),
        ("https://a.example/x?b=%41", "https://a.example/x?b=%41&api%20key=a%26b%3Dc%20d%2F%2B"),
        (
            "https://a.example/x?api%20key=1&b=2&api+key=3&%61pi%20key&b",
            "https://a.example/x?b=2&b&api%20key=a%26b%3Dc%20d%2F%2B",
        ),
        ("https://a.example/x?api+key=", "https://a.example/x?api%20key=a%26b%3Dc%20d%2F%2B"),
    ] {
        let (first, _) = applied(key.clone(), request(before, &[]));
        assert_eq!(first, after);
        // At each hop of a redirect it is put in anew.
        assert_eq!(applied(key.clone(), request(&first, &[])).0, after);
    }
}

#[test]
fn a_credential_goes_to_confirmed_origins_only() {
    let credential = SourceCredential {
        organization: "o".to_owned(),
        id: "c".to_owned(),
        version: 1,
        auth: Auth::Bearer { token: Secret::new("t") },
        confirmed_origins: vec!["https://api.example".to_owned(), "http://b.example:8080".to_owned()],
    };
    for url in ["https://api.example/x", "https://API.example:443/", "http://b.example:8080/y?z"] {
        assert_eq!(credential.check_origin(url), Ok(()), "{url}");
    }
    for url in [
        "http://api.example/",
        "https://api.example:8443/",
        "https://api.example.evil/",
        "https://b.example/",
        "not a url",
        "https://evil.example/https://api.example/",
    ] {
        assert!(credential.check_origin(url).is_err(), "{url}");
    }
}
