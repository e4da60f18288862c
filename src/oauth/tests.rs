use super::*;
use crate::auth::signed::{Signer, SigningKeys};

const ISSUER: &str = "https://gate.example";
const RESOURCE: &str = "https://gate.example/mcp";
const TOOLKIT: &str = "https://gate.example/mcp/toolkits/ops";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const MONTH: u64 = 30 * 86_400_000;

fn keys(current: &str, old: Option<&str>) -> SigningKeys {
    SigningKeys { current: current.to_owned(), old: old.map(ToOwned::to_owned) }
}

fn signer() -> Signer {
    Signer::new(&keys("a secret of the tests", None), "cs_client_")
}

fn registered(metadata: &Value) -> Result<Value, OAuthError> {
    register(&signer(), metadata.to_string().as_bytes(), 1_700_000_000_000, "n")
}

fn client(uris: &[&str]) -> Client {
    let answer = registered(&json!({ "redirect_uris": uris, "token_endpoint_auth_method": "none" })).unwrap();
    registered_client(&signer(), answer["client_id"].as_str().unwrap()).unwrap()
}

// ---- signed texts -------------------------------------------------------------------------------

#[test]
fn only_what_this_gateway_signed_is_read() {
    let signer = signer();
    let text = signer.sign(&json!({ "a": 1 })).unwrap();
    assert_eq!(signer.read::<Value>(&text), Some(json!({ "a": 1 })));
    assert_eq!(Signer::new(&keys("another secret", None), "cs_client_").read::<Value>(&text), None);
    // The same secret, another kind.
    let other = Signer::new(&keys("a secret of the tests", None), "cs_code_");
    assert_eq!(other.read::<Value>(&text.replace("cs_client_", "cs_code_")), None);
    // Under the old key it is still read, and not signed.
    let rotated = Signer::new(&keys("a new one", Some("a secret of the tests")), "cs_client_");
    assert_eq!(rotated.read::<Value>(&text), Some(json!({ "a": 1 })));
    assert_ne!(rotated.sign(&json!({ "a": 1 })).unwrap(), text);
    for index in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(signer.read::<Value>(&changed), None, "{changed}");
    }
    for hostile in ["", "cs_client_", "cs_client_.", "cs_client_e30", "cs_client_e30.", &"x".repeat(100_000)] {
        assert_eq!(signer.read::<Value>(hostile), None);
    }
}

// ---- clients ------------------------------------------------------------------------------------

#[test]
fn a_registered_client_is_its_id() {
    let answer = registered(&json!({
        "client_name": "  Claude  ",
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "logo_uri": "javascript:alert(1)",
    }))
    .unwrap();
    assert_eq!(answer["client_name"], "Claude");
    assert_eq!(answer.get("client_secret"), None);
    assert_eq!(answer.get("logo_uri"), None, "what is not kept is not repeated");
    let known = registered_client(&signer(), answer["client_id"].as_str().unwrap()).unwrap();
    assert_eq!(known.name.as_deref(), Some("Claude"));
    assert_eq!(known.redirect_uris, ["https://claude.ai/api/mcp/auth_callback"]);
    assert_eq!(known.host, None, "anybody can register that name");
    assert_eq!(registered_client(&signer(), "cs_client_e30.AAAA"), None);
}

#[test]
fn a_client_with_a_secret_has_to_show_it() {
    for (method, way) in [
        (json!(null), ClientAuthentication::ClientSecretBasic),
        (json!("client_secret_post"), ClientAuthentication::ClientSecretPost),
        (json!("private_key_jwt"), ClientAuthentication::None),
    ] {
        let mut metadata = json!({ "redirect_uris": ["https://a.example/cb"] });
        if !method.is_null() {
            metadata["token_endpoint_auth_method"] = method;
        }
        let answer = registered(&metadata).unwrap();
        assert_eq!(answer["token_endpoint_auth_method"], json!(way));
        let known = registered_client(&signer(), answer["client_id"].as_str().unwrap()).unwrap();
        let shown = |secret: &str| Some((ClientAuthentication::ClientSecretPost, secret.to_owned()));
        if way == ClientAuthentication::None {
            assert!(known.authenticate(&signer(), None).is_ok());
            assert!(known.authenticate(&signer(), shown("").as_ref()).is_ok());
            assert_eq!(known.authenticate(&signer(), shown("x").as_ref()).unwrap_err().code, "invalid_client");
        } else {
            let secret = answer["client_secret"].as_str().unwrap();
            assert!(known.authenticate(&signer(), shown(secret).as_ref()).is_ok());
            for wrong in [None, shown(""), shown("x"), shown(&format!("{secret}A"))] {
                assert_eq!(known.authenticate(&signer(), wrong.as_ref()).unwrap_err().status, 401, "{wrong:?}");
            }
        }
    }
}

#[test]
fn redirect_uris_that_are_refused() {
    for (uri, allowed) in [
        ("https://a.example/cb", true),
        ("https://a.example/cb?x=1", true),
        ("http://127.0.0.1/cb", true),
        ("http://[::1]:9/cb", true),
        ("http://localhost:3000/cb", true),
        ("cursor://anysphere.cursor-retrieval/oauth/callback", true),
        ("com.example.app:/cb", true),
        ("http://a.example/cb", false),
        ("http://localhost.example/cb", false),
        ("http://127.0.0.1.example/cb", false),
        ("https://user@a.example/cb", false),
        ("https://a.example/cb#x", false),
        ("javascript:alert(1)", false),
        ("JavaScript:alert(1)", false),
        ("data:text/html,x", false),
        ("file:///etc/passwd", false),
        ("/cb", false),
        ("", false),
        ("https://a.example/\u{202e}", false),
        ("https://a.example/ x", false),
    ] {
        let answer = registered(&json!({ "redirect_uris": [uri] }));
        assert_eq!(answer.is_ok(), allowed, "{uri}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!(error.code, "invalid_redirect_uri");
        }
    }
    for metadata in
        [json!({}), json!({ "redirect_uris": [] }), json!({ "redirect_uris": "https://a.example" }), json!([1])]
    {
        assert!(registered(&metadata).is_err(), "{metadata}");
    }
    let many: Vec<String> = (0..11).map(|n| format!("https://a.example/{n}")).collect();
    assert!(registered(&json!({ "redirect_uris": many })).is_err());
    let long: Vec<String> = (0..10).map(|n| format!("https://a.example/{n}{}", "x".repeat(400))).collect();
    assert_eq!(registered(&json!({ "redirect_uris": long })).unwrap_err().code, "invalid_client_metadata");
    let device = json!({ "redirect_uris": ["https://a.example"], "grant_types": ["client_credentials"] });
    assert_eq!(registered(&device).unwrap_err().code, "invalid_client_metadata");
}

#[test]
fn answers_go_to_registered_addresses_only() {
    let client = client(&["https://a.example/cb", "http://127.0.0.1:1/cb", "http://localhost/cb"]);
    for (uri, allowed) in [
        ("https://a.example/cb", true),
        ("https://a.example/cb/", false),
        ("https://a.example/cb?x", false),
        ("https://a.example:444/cb", false),
        ("https://a.example/../cb", false),
        ("http://127.0.0.1:53123/cb", true),
        ("http://127.0.0.1:53123/other", false),
        ("http://127.0.0.2:53123/cb", false),
        ("https://127.0.0.1:53123/cb", false),
        ("http://localhost:9/cb", true),
        ("http://localhost:9/cb#x", false),
        ("http://a@localhost:9/cb", false),
    ] {
        assert_eq!(client.may_redirect_to(uri), allowed, "{uri}");
    }
}

#[test]
fn a_document_speaks_for_its_own_url_only() {
    let id = "https://app.example/client.json";
    let document = |value: Value| read_client_metadata(id, value.to_string().as_bytes());
    let good = json!({ "client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/cb"] });
    let client = document(good.clone()).unwrap();
    assert_eq!((client.name.as_deref(), client.host.as_deref()), (Some("App"), Some("app.example")));
    for (member, value) in [
        ("client_id", json!("https://app.example/other.json")),
        ("client_id", json!(null)),
        ("client_secret", json!("x")),
        ("token_endpoint_auth_method", json!("private_key_jwt")),
        ("redirect_uris", json!([])),
        ("redirect_uris", json!(["http://app.example/cb"])),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        assert!(document(bad.clone()).is_err(), "{bad}");
    }
    assert!(read_client_metadata(id, b"<html>").is_err());
    for (url, is_one) in [
        ("https://app.example/client.json", true),
        ("https://app.example/client.json?v=1", true),
        ("https://app.example", false),
        ("https://app.example/", false),
        ("http://app.example/client.json", false),
        ("https://u@app.example/client.json", false),
        ("https://app.example/a/../client.json", false),
        ("https://app.example/client.json#x", false),
        ("https://APP.example/client.json", false),
    ] {
        assert_eq!(is_metadata_url(url), is_one, "{url}");
    }
}

// ---- authorization requests ---------------------------------------------------------------------

fn query(changes: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
    let mut query = vec![
        ("response_type", "code"),
        ("redirect_uri", "https://a.example/cb?x=1"),
        ("state", "s &"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", TOOLKIT),
        ("scope", "mcp offline_access"),
    ];
    for (name, value) in changes {
        query.retain(|(key, _)| key != name);
        query.extend(value.map(|value| (*name, value)));
    }
    query.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn read(query: &[(String, String)]) -> Result<AuthorizationRequest, Fault> {
    let is_resource = |text: &str| text == RESOURCE || text == TOOLKIT;
    read_request(query, &client(&["https://a.example/cb?x=1"]), ISSUER, RESOURCE, is_resource)
}

#[test]
fn a_request_that_is_in_order() {
    let request = read(&query(&[])).unwrap();
    assert_eq!(request.resource, TOOLKIT);
    assert_eq!(request.destination(), "https://a.example");
    assert_eq!(
        request.code_redirect("c", ISSUER),
        "https://a.example/cb?x=1&code=c&state=s+%26&iss=https%3A%2F%2Fgate.example"
    );
    assert!(request.denied_redirect(ISSUER).contains("error=access_denied"));
    assert_eq!(read(&query(&[("resource", None)])).unwrap().resource, RESOURCE);
    let without = read(&query(&[("redirect_uri", None), ("state", None)])).unwrap();
    assert_eq!(without.code_redirect("c", ISSUER), "https://a.example/cb?x=1&code=c&iss=https%3A%2F%2Fgate.example");
}

#[test]
fn what_is_wrong_with_a_request_goes_where_it_is_safe() {
    let mut twice = query(&[]);
    twice.push(("redirect_uri".to_owned(), "https://a.example/cb?x=1".to_owned()));
    for query in [twice, query(&[("redirect_uri", Some("https://evil.example/"))])] {
        assert!(matches!(read(&query), Err(Fault::Page(_))), "{query:?}");
    }
    for (name, value, code) in [
        ("response_type", None, "invalid_request"),
        ("response_type", Some("token"), "unsupported_response_type"),
        ("code_challenge", None, "invalid_request"),
        ("code_challenge", Some("short"), "invalid_request"),
        ("code_challenge_method", Some("plain"), "invalid_request"),
        ("code_challenge_method", None, "invalid_request"),
        ("resource", Some("https://other.example/mcp"), "invalid_target"),
    ] {
        match read(&query(&[(name, value)])) {
            Err(Fault::Redirect(url)) => {
                assert!(url.starts_with("https://a.example/cb?x=1&error="), "{url}");
                assert!(url.contains(&format!("error={code}&")) && url.contains("state=s+%26"), "{url}");
                assert!(url.ends_with("iss=https%3A%2F%2Fgate.example"), "{url}");
            }
            other => panic!("{name} {value:?}: {other:?}"),
        }
    }
}

// ---- grants -------------------------------------------------------------------------------------

fn grant() -> Grant {
    let request = AuthorizationRequest {
        client_id: "client".to_owned(),
        redirect_uri: "https://a.example/cb".to_owned(),
        state: None,
        code_challenge: CHALLENGE.to_owned(),
        resource: RESOURCE.to_owned(),
    };
    Grant::new("g".to_owned(), ("ann".to_owned(), false), request, "App".to_owned(), "code", 1_000)
}

fn code_asked() -> CodeAsked<'static> {
    CodeAsked { code: "code", client_id: "client", redirect_uri: None, verifier: VERIFIER, resource: None }
}

fn refresh_asked(token: &str) -> RefreshAsked<'_> {
    RefreshAsked { token, client_id: "client", resource: None }
}

fn given(exchange: Exchange) -> Grant {
    match exchange {
        Exchange::Given(grant) => *grant,
        Exchange::Refused { reason, .. } => panic!("{reason}"),
    }
}

#[test]
fn a_code_is_good_once_for_its_client_and_verifier() {
    let after = given(grant().exchange_code(&code_asked(), "r1", 2_000, MONTH));
    assert_eq!(after.expires_at, 2_000 + MONTH);
    let again = after.exchange_code(&code_asked(), "r2", 2_001, MONTH);
    assert_eq!(again, Exchange::Refused { reason: Refused::Unknown, ends: true }, "a second use ends the grant");
    let at = |asked: CodeAsked<'_>, now| match grant().exchange_code(&asked, "r1", now, MONTH) {
        Exchange::Refused { reason, .. } => Some(reason),
        Exchange::Given(_) => None,
    };
    let asked = code_asked();
    assert_eq!(at(asked, 60_999), None);
    assert_eq!(at(asked, 61_000), Some(Refused::Expired));
    assert_eq!(at(CodeAsked { code: "other", ..asked }, 2_000), Some(Refused::Unknown));
    assert_eq!(at(CodeAsked { client_id: "other", ..asked }, 2_000), Some(Refused::OtherClient));
    let elsewhere = CodeAsked { redirect_uri: Some("https://a.example/other"), ..asked };
    assert_eq!(at(elsewhere, 2_000), Some(Refused::OtherRedirect));
    assert_eq!(at(CodeAsked { verifier: CHALLENGE, ..asked }, 2_000), Some(Refused::WrongVerifier));
    assert_eq!(at(CodeAsked { resource: Some(TOOLKIT), ..asked }, 2_000), Some(Refused::OtherResource));
    assert_eq!(
        at(CodeAsked { redirect_uri: Some("https://a.example/cb"), resource: Some(RESOURCE), ..asked }, 2_000),
        None
    );
}

#[test]
fn a_refresh_token_that_is_used_again_ends_the_grant() {
    let first = given(grant().exchange_code(&code_asked(), "r1", 2_000, MONTH));
    let second = given(first.refresh(&refresh_asked("r1"), "r2", 3_000, MONTH));
    let third = given(second.refresh(&refresh_asked("r2"), "r3", 4_000, MONTH));
    let stolen = third.refresh(&refresh_asked("r1"), "x", 4_001, MONTH);
    assert_eq!(stolen, Exchange::Refused { reason: Refused::Unknown, ends: true });
    let late = third.refresh(&refresh_asked("r2"), "x", 34_000, MONTH);
    assert_eq!(late, Exchange::Refused { reason: Refused::Unknown, ends: true });
    let over = third.refresh(&refresh_asked("r3"), "x", 4_000 + MONTH, MONTH);
    assert_eq!(over, Exchange::Refused { reason: Refused::Expired, ends: true });
    let other = RefreshAsked { client_id: "other", ..refresh_asked("r3") };
    assert_eq!(
        third.refresh(&other, "x", 5_000, MONTH),
        Exchange::Refused { reason: Refused::OtherClient, ends: false }
    );
    assert!(third.has_token("r3") && third.has_token("r2") && !third.has_token("r1") && !third.has_token("x"));
}

#[test]
fn a_client_that_lost_the_answer_gets_another_one_and_the_lost_one_is_worth_nothing() {
    let first = given(grant().exchange_code(&code_asked(), "r1", 2_000, MONTH));
    let second = given(first.refresh(&refresh_asked("r1"), "r2", 3_000, MONTH));
    let again = given(second.refresh(&refresh_asked("r1"), "r3", 10_000, MONTH));
    // Whoever holds the answer that was replaced is found out.
    assert!(matches!(again.refresh(&refresh_asked("r2"), "x", 10_001, MONTH), Exchange::Refused { ends: true, .. }));
    let next = given(again.refresh(&refresh_asked("r3"), "r4", 11_000, MONTH));
    assert!(matches!(next.refresh(&refresh_asked("r1"), "x", 11_001, MONTH), Exchange::Refused { ends: true, .. }));
    // Asking again does not make the time for it longer.
    assert!(matches!(again.refresh(&refresh_asked("r1"), "x", 33_000, MONTH), Exchange::Refused { ends: true, .. }));
}

#[test]
fn grant_format_unchanged() {
    let stored = given(grant().exchange_code(&code_asked(), "r1", 2_000, 1_000));
    let text = r#"{"id":"g","account":"ann","admin":false,"request":{"clientId":"client","redirectUri":"https://a.example/cb","redirectUriGiven":true,"state":null,"codeChallenge":"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM","resource":"https://gate.example/mcp"},"clientName":"App","createdAt":1000,"expiresAt":3000,"code":"VpSxG04i7jPhCR8wpkDvD7dDYU5mSqT0QvlWxPzT3tM","refresh":"9Z5sLfwKSh4PUYh1MWiLRBIIR1xTWPLdCcqZZGbxpp0","previous":null,"rotatedAt":2000}"#;
    let shape = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap();
        value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let now = serde_json::to_string(&stored).unwrap();
    assert_eq!(shape(&now), shape(text));
    assert_eq!(serde_json::from_str::<Grant>(text).unwrap().request, stored.request);
}

// ---- the token endpoint -------------------------------------------------------------------------

fn form(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

#[test]
fn token_requests() {
    let code = format!("grant_type=authorization_code&code=c&code_verifier={VERIFIER}&redirect_uri=https%3A%2F%2Fa");
    assert_eq!(
        read_token_request(&form(&code)).unwrap(),
        TokenRequest::Code {
            code: "c".to_owned(),
            verifier: VERIFIER.to_owned(),
            redirect_uri: Some("https://a".to_owned()),
            resource: None
        }
    );
    assert_eq!(
        read_token_request(&form("grant_type=refresh_token&refresh_token=r&resource=x")).unwrap(),
        TokenRequest::Refresh { token: "r".to_owned(), resource: Some("x".to_owned()) }
    );
    for (text, code) in [
        ("", "invalid_request"),
        ("grant_type=password&username=a", "unsupported_grant_type"),
        ("grant_type=refresh_token", "invalid_request"),
        ("grant_type=refresh_token&refresh_token=a&refresh_token=b", "invalid_request"),
        ("grant_type=authorization_code&code=c", "invalid_request"),
        ("grant_type=authorization_code&code=c&code_verifier=short", "invalid_request"),
    ] {
        assert_eq!(read_token_request(&form(text)).unwrap_err().code, code, "{text}");
    }
}

#[test]
fn credentials_of_a_client() {
    let basic =
        |text: &str| format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text));
    let read = |body: &str, header: Option<&str>| read_credentials(&form(body), header).map_err(|error| error.code);
    assert_eq!(read("client_id=a", None), Ok(("a".to_owned(), None)));
    let post = Some((ClientAuthentication::ClientSecretPost, "s".to_owned()));
    assert_eq!(read("client_id=a&client_secret=s", None), Ok(("a".to_owned(), post)));
    let in_header = Some((ClientAuthentication::ClientSecretBasic, "s p".to_owned()));
    assert_eq!(read("", Some(&basic("https%3A%2F%2Fa:s+p"))), Ok(("https://a".to_owned(), in_header)));
    assert_eq!(read("", None), Err("invalid_client"));
    assert_eq!(read("client_id=b", Some(&basic("a:s"))), Err("invalid_request"));
    assert_eq!(read("client_secret=s", Some(&basic("a:s"))), Err("invalid_request"));
    for header in ["Bearer x", "Basic", "Basic ???", &basic("nocolon")] {
        assert_eq!(read("client_id=a", Some(header)), Err("invalid_client"), "{header}");
    }
}

#[test]
fn an_access_token_is_good_until_its_end() {
    let signer = Signer::new(&keys("k", None), "cs_access_");
    let claims = AccessClaims {
        account: "ann".to_owned(),
        organization: "acme".to_owned(),
        admin: true,
        resource: RESOURCE.to_owned(),
        grant: "g".to_owned(),
        expires_at: 5_000,
    };
    let token = signer.sign(&claims).unwrap();
    assert_eq!(read_access(&signer, &token, 4_999), Access::Good(Box::new(claims)));
    assert_eq!(read_access(&signer, &token, 5_000), Access::Expired);
    assert_eq!(read_access(&signer, "cs_access_x.y", 0), Access::Foreign);
}
