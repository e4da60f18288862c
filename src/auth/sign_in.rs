//! A person signs in at an OIDC issuer: what is asked there, and what comes back (authorization code flow with PKCE, `OpenID`
//! Connect Core 1.0, RFC 7636, RFC 9207).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::browser::SignIn;
use super::jwt::JwtError;
use super::same_bytes;

/// Bytes of an issuer's metadata, and of an answer of its token endpoint.
pub const METADATA_BYTES: usize = 256 << 10;

/// What an issuer says of itself (`OpenID` Connect Discovery 1.0, RFC 8414).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Where its keys are.
    pub jwks_uri: String,
    /// Where a person signs in.
    pub authorization_endpoint: Option<String>,
    /// Where a code becomes a token.
    pub token_endpoint: Option<String>,
    /// Whether the client's secret goes into the form, because the header is not taken.
    pub secret_in_form: bool,
}

/// The addresses where an issuer's metadata may be, in the order in which they are tried. With a path in the issuer `OpenID`
/// appends to it, and RFC 8414 (section 3.1) puts the well-known part in front of it.
#[must_use]
pub fn metadata_urls(issuer: &str) -> Vec<String> {
    let bare = issuer.strip_suffix('/').unwrap_or(issuer);
    let mut urls = vec![format!("{bare}/.well-known/openid-configuration")];
    if let Ok(url) = Url::parse(bare) {
        let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
        urls.push(format!("{origin}/.well-known/oauth-authorization-server{path}"));
    }
    urls
}

/// Reads an issuer's metadata; says what is wrong with it.
pub fn read_metadata(document: &[u8], issuer: &str) -> Result<Metadata, String> {
    let document: Value = crate::json::value_from_slice(document).map_err(|_| "it is not JSON".to_owned())?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    // Whoever could answer in the issuer's place could name keys of its own (RFC 8414, section 3.3).
    if text("issuer") != Some(issuer) {
        let found: String = text("issuer").unwrap_or("nothing").chars().take(200).collect();
        return Err(format!("its issuer is {found}, and OIDC_ISSUER is {issuer}"));
    }
    let url = |name: &'static str| match text(name) {
        None => Ok(None),
        Some(url) if is_safe(url, issuer) => Ok(Some(url.to_owned())),
        Some(_) => Err(format!("its {name} is no https URL")),
    };
    let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let has = |name: &str| methods.is_some_and(|list| list.iter().any(|method| method.as_str() == Some(name)));
    Ok(Metadata {
        jwks_uri: url("jwks_uri")?.ok_or("it has no jwks_uri")?,
        authorization_endpoint: url("authorization_endpoint")?,
        token_endpoint: url("token_endpoint")?,
        secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
    })
}

/// Whether a URL may be used: encrypted, or on the same machine as an issuer that is on this one.
fn is_safe(url: &str, issuer: &str) -> bool {
    let (Ok(url), Ok(issuer)) = (Url::parse(url), Url::parse(issuer)) else {
        return false;
    };
    url.scheme() == "https" || url.scheme() == "http" && issuer.scheme() == "http" && url.host() == issuer.host()
}

/// The gateway as a client of the issuer.
#[derive(Debug, Clone, Copy)]
pub struct Client<'c> {
    /// `OIDC_CLIENT_ID`
    pub id: &'c str,
    /// `OIDC_SCOPES`
    pub scopes: &'c str,
    /// Where the answer comes to.
    pub redirect_uri: &'c str,
}

/// The address that a person is sent to; `None` where the issuer's is no URL.
#[must_use]
pub fn authorization_url(endpoint: &str, client: Client<'_>, sign_in: &SignIn) -> Option<String> {
    let mut url = Url::parse(endpoint).ok()?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(sign_in.verifier.as_bytes()));
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client.id)
        .append_pair("redirect_uri", client.redirect_uri)
        .append_pair("scope", client.scopes)
        .append_pair("state", &sign_in.state)
        .append_pair("nonce", &sign_in.nonce)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256");
    Some(url.into())
}

/// Why an answer to a sign-in is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No sign-in is under way in this browser, or it took too long.
    #[error("This sign-in was not started in this browser, or it took too long.")]
    NotStarted,
    /// The answer belongs to another question.
    #[error("This answer belongs to another sign-in.")]
    OtherState,
    /// The answer comes from somebody else (RFC 9207).
    #[error("This answer comes from another identity provider.")]
    OtherIssuer,
    /// The issuer refused.
    #[error("The identity provider refused the sign-in ({code}).")]
    Refused {
        /// Its code.
        code: String,
    },
    /// The answer has no code.
    #[error("The identity provider's answer has no code.")]
    NoCode,
}

/// The code of an answer that fits to what was asked.
pub fn read_answer(
    query: &[(String, String)],
    asked: Option<&SignIn>,
    issuer: &str,
    now: u64,
) -> Result<String, SignInError> {
    let find = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let asked = asked.filter(|asked| now < asked.until).ok_or(SignInError::NotStarted)?;
    if !same_bytes(find("state").unwrap_or_default().as_bytes(), asked.state.as_bytes()) {
        return Err(SignInError::OtherState);
    }
    if find("iss").is_some_and(|from| from != issuer) {
        return Err(SignInError::OtherIssuer);
    }
    if let Some(error) = find("error") {
        let code = error.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
        return Err(SignInError::Refused { code });
    }
    find("code").filter(|code| !code.is_empty()).map(ToOwned::to_owned).ok_or(SignInError::NoCode)
}

/// Headers and body of the request that turns a code into a token (RFC 6749, section 4.1.3).
#[must_use]
pub fn token_request(
    client: Client<'_>,
    secret: &str,
    secret_in_form: bool,
    code: &str,
    verifier: &str,
) -> (Vec<(String, String)>, String) {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", client.redirect_uri)
        .append_pair("code_verifier", verifier);
    let mut headers = vec![
        ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
        ("accept".to_owned(), "application/json".to_owned()),
    ];
    if secret_in_form {
        form.append_pair("client_id", client.id).append_pair("client_secret", secret);
    } else {
        // RFC 6749, section 2.3.1: both are form-encoded first.
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encoded(client.id), encoded(secret));
        headers.push(("authorization".to_owned(), format!("Basic {}", STANDARD.encode(pair))));
    }
    (headers, form.finish())
}

/// The ID token in an answer of the token endpoint.
#[must_use]
pub fn read_token_answer(status: u16, body: &[u8]) -> Option<String> {
    let body: Value = crate::json::value_from_slice(body).ok().filter(|_| status == 200)?;
    body.get("id_token").and_then(Value::as_str).map(ToOwned::to_owned)
}

/// What an ID token has to say beyond what every token has to (`OpenID` Connect Core 1.0, section 3.1.3.7).
pub fn check_id_token(
    claims: &serde_json::Map<String, Value>,
    asked: &SignIn,
    client_id: &str,
) -> Result<(), JwtError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if !same_bytes(text("nonce").unwrap_or_default().as_bytes(), asked.nonce.as_bytes()) {
        return Err(JwtError::Nonce);
    }
    match claims.get("azp") {
        None => Ok(()),
        Some(Value::String(party)) if party == client_id => Ok(()),
        Some(_) => Err(JwtError::Audience),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sign_in() -> SignIn {
        SignIn {
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            // RFC 7636, appendix B.
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
            return_to: "/".to_owned(),
            until: 100,
        }
    }

    const CLIENT: Client<'_> =
        Client { id: "a b", scopes: "openid email", redirect_uri: "https://gw.example/sign-in/callback" };

    #[test]
    fn metadata_is_looked_for_where_both_specifications_say() {
        assert_eq!(
            metadata_urls("https://id.example/"),
            [
                "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server"
            ]
        );
        assert_eq!(
            metadata_urls("https://id.example/realms/x"),
            [
                "https://id.example/realms/x/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server/realms/x"
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_or_without_encryption_is_refused() {
        let read = |document: Value, issuer: &str| read_metadata(document.to_string().as_bytes(), issuer);
        let good = json!({
            "issuer": "https://id.example",
            "jwks_uri": "https://keys.example/jwks",
            "authorization_endpoint": "https://id.example/authorize",
            "token_endpoint": "https://id.example/token",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        });
        let metadata = read(good.clone(), "https://id.example").unwrap();
        assert_eq!(metadata.jwks_uri, "https://keys.example/jwks");
        assert!(metadata.secret_in_form);
        assert!(read(good, "https://id.example/").unwrap_err().contains("OIDC_ISSUER"));
        for (document, issuer) in [
            (json!({ "issuer": "https://id.example" }), "https://id.example"),
            (json!({ "issuer": "https://id.example", "jwks_uri": "http://id.example/k" }), "https://id.example"),
            (json!({ "issuer": "https://id.example", "jwks_uri": "file:///k" }), "https://id.example"),
            (json!({ "issuer": "http://127.0.0.1:1", "jwks_uri": "http://10.0.0.1/k" }), "http://127.0.0.1:1"),
            (json!({ "jwks_uri": "https://id.example/k" }), "https://id.example"),
        ] {
            assert!(read(document.clone(), issuer).is_err(), "{document}");
        }
        assert!(
            read(json!({ "issuer": "http://127.0.0.1:1", "jwks_uri": "http://127.0.0.1:1/k" }), "http://127.0.0.1:1")
                .is_ok()
        );
        assert!(read_metadata(b"<html>", "https://id.example").is_err());
    }

    #[test]
    fn the_person_is_sent_with_a_challenge() {
        let url = authorization_url("https://id.example/authorize?tenant=x", CLIENT, &sign_in()).unwrap();
        for part in [
            "https://id.example/authorize?tenant=x&",
            "response_type=code",
            "client_id=a+b",
            "redirect_uri=https%3A%2F%2Fgw.example%2Fsign-in%2Fcallback",
            "state=s&",
            "nonce=n&",
            "code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method=S256",
        ] {
            assert!(url.contains(part), "{part} in {url}");
        }
        assert!(!url.contains("dBjftJeZ4CVP"));
    }

    #[test]
    fn only_an_answer_to_what_this_browser_asked_has_a_code() {
        let issuer = "https://id.example";
        let read = |query: &[(&str, &str)], asked: Option<&SignIn>, now| {
            let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            read_answer(&query, asked, issuer, now)
        };
        let asked = sign_in();
        assert_eq!(read(&[("state", "s"), ("code", "c")], Some(&asked), 99), Ok("c".to_owned()));
        assert_eq!(read(&[("state", "s"), ("code", "c"), ("iss", issuer)], Some(&asked), 99), Ok("c".to_owned()));
        for (query, asked, now, expected) in [
            (vec![("state", "s"), ("code", "c")], None, 99, SignInError::NotStarted),
            (vec![("state", "s"), ("code", "c")], Some(&asked), 100, SignInError::NotStarted),
            (vec![("state", "t"), ("code", "c")], Some(&asked), 99, SignInError::OtherState),
            (vec![("code", "c")], Some(&asked), 99, SignInError::OtherState),
            (
                vec![("state", "s"), ("code", "c"), ("iss", "https://evil.example")],
                Some(&asked),
                99,
                SignInError::OtherIssuer,
            ),
            (
                vec![("state", "s"), ("error", "access_denied<b>")],
                Some(&asked),
                99,
                SignInError::Refused { code: "access_deniedb".to_owned() },
            ),
            (vec![("state", "s"), ("code", "")], Some(&asked), 99, SignInError::NoCode),
        ] {
            assert_eq!(read(&query, asked, now), Err(expected), "{query:?}");
        }
    }

    #[test]
    fn the_secret_goes_where_the_issuer_takes_it() {
        let (headers, body) = token_request(CLIENT, "s:e c", false, "c&d", "v");
        assert!(headers.contains(&("authorization".to_owned(), format!("Basic {}", STANDARD.encode("a+b:s%3Ae+c")))));
        assert!(body.contains("code=c%26d") && body.contains("code_verifier=v") && !body.contains("client_secret"));
        let (headers, body) = token_request(CLIENT, "s:e c", true, "c", "v");
        assert!(headers.iter().all(|(name, _)| name != "authorization"));
        assert!(body.contains("client_secret=s%3Ae+c"));
    }

    #[test]
    fn an_id_token_belongs_to_one_sign_in_and_one_client() {
        let check = |claims: Value| check_id_token(claims.as_object().unwrap(), &sign_in(), "a");
        assert_eq!(check(json!({ "nonce": "n" })), Ok(()));
        assert_eq!(check(json!({ "nonce": "n", "azp": "a" })), Ok(()));
        assert_eq!(check(json!({ "nonce": "m" })), Err(JwtError::Nonce));
        assert_eq!(check(json!({})), Err(JwtError::Nonce));
        assert_eq!(check(json!({ "nonce": "n", "azp": "b" })), Err(JwtError::Audience));
        assert_eq!(read_token_answer(200, br#"{"id_token":"x"}"#), Some("x".to_owned()));
        assert_eq!(read_token_answer(400, br#"{"id_token":"x"}"#), None);
        assert_eq!(read_token_answer(200, b"{}"), None);
    }
}
