//! Access tokens of OAuth clients (RFC 6749, section 4.4): what is asked, and what an answer means.

use serde_json::Value;

use super::auth::{ClientAuthentication, ClientCredentials, Secret};
use super::form::form_encoded;
use crate::catalog::openapi::request::HttpRequest;

/// Bytes of a token endpoint's answer.
pub const TOKEN_ANSWER_LIMIT: usize = 64 << 10;
/// How long a token is used whose server does not say how long it lives.
const DEFAULT_LIFETIME_MS: u64 = 300_000;
/// How long before its end a token is not used any more: a call takes its time.
const MARGIN_MS: u64 = 30_000;
/// Bytes of an access token.
const TOKEN_LIMIT: usize = 16 << 10;
/// Characters of what a token endpoint says about an error.
const ERROR_CHARACTERS: usize = 200;

/// A token and how long it may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// Sent as a bearer.
    pub token: Secret,
    /// Milliseconds from now on; already shortened by a margin.
    pub usable_ms: u64,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The endpoint refused.
    #[error("the token endpoint answered {status}{said}")]
    Refused {
        /// Its status.
        status: u16,
        /// What it said, with a colon before, or nothing. It may quote a secret: it is redacted before it is shown.
        said: String,
    },
    /// The answer is not what the specification says.
    #[error("the token endpoint's answer {problem}")]
    Unreadable {
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// The request for a token.
#[must_use]
pub fn token_request(client: &ClientCredentials, authentication: ClientAuthentication) -> HttpRequest {
    let mut fields = vec![("grant_type", "client_credentials")];
    fields.extend(client.scope.as_deref().map(|scope| ("scope", scope)));
    fields.extend(client.audience.as_deref().map(|audience| ("audience", audience)));
    let mut headers = vec![
        ("accept".to_owned(), "application/json".to_owned()),
        ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
    ];
    match authentication {
        ClientAuthentication::Basic => {
            headers.push(("authorization".to_owned(), format!("Basic {}", client.basic_value())));
        }
        ClientAuthentication::Body => {
            fields.push(("client_id", &client.client_id));
            fields.push(("client_secret", client.client_secret.reveal()));
        }
    }
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", form_encoded(value))).collect();
    HttpRequest {
        method: "POST".to_owned(),
        url: client.token_url.clone(),
        headers,
        body: Some(fields.join("&").into_bytes()),
    }
}

/// Whether an answer says that the client could not be told who it is: then the other way is tried, where none was stated.
#[must_use]
pub fn refuses_authentication(status: u16) -> bool {
    matches!(status, 400 | 401)
}

/// Reads an answer (RFC 6749, section 5).
pub fn read_token(status: u16, body: &[u8]) -> Result<AccessToken, TokenError> {
    let answer: Option<Value> = crate::json::value_from_slice(body).ok();
    let text = |name: &str| answer.as_ref().and_then(|answer| answer.get(name)?.as_str());
    if !(200..300).contains(&status) {
        let said: Vec<&str> = [text("error"), text("error_description")].into_iter().flatten().collect();
        let said: String = said.join(", ").chars().filter(|c| !c.is_control()).take(ERROR_CHARACTERS).collect();
        let said = if said.is_empty() { said } else { format!(": {said}") };
        return Err(TokenError::Refused { status, said });
    }
    let unreadable = |problem| TokenError::Unreadable { problem };
    if answer.is_none() {
        return Err(unreadable("is not JSON"));
    }
    if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unreadable("has a token that is not a bearer"));
    }
    let token = text("access_token").ok_or_else(|| unreadable("has no access_token"))?;
    if token.is_empty() || token.len() > TOKEN_LIMIT || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unreadable("has an access_token that cannot be sent in a header"));
    }
    // Some servers write the number as a string.
    let seconds = answer.as_ref().and_then(|answer| {
        let lifetime = answer.get("expires_in")?;
        lifetime.as_u64().or_else(|| lifetime.as_str()?.trim().parse().ok())
    });
    let lifetime = seconds.map_or(DEFAULT_LIFETIME_MS, |seconds| seconds.saturating_mul(1_000).min(86_400_000));
    let usable_ms = lifetime.saturating_sub(MARGIN_MS.min(lifetime / 2));
    Ok(AccessToken { token: Secret::new(token), usable_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientCredentials {
        ClientCredentials {
            token_url: "https://id.example/token".to_owned(),
            client_id: "my client".to_owned(),
            client_secret: Secret::new("p:w+d/é".replace('é', "e")),
            scope: Some("read write".to_owned()),
            audience: Some("https://api.example/".to_owned()),
            authentication: None,
        }
    }

    #[test]
    fn a_token_is_asked_for_in_both_ways() {
        let asked = token_request(&client(), ClientAuthentication::Basic);
        let body = |request: &HttpRequest| String::from_utf8(request.body.clone().unwrap()).unwrap();
        assert_eq!(
            body(&asked),
            "grant_type=client_credentials&scope=read+write&audience=https%3A%2F%2Fapi.example%2F"
        );
        // base64 of `my+client:p%3Aw%2Bd%2Fe`
        assert!(
            asked.headers.contains(&("authorization".to_owned(), "Basic bXkrY2xpZW50OnAlM0F3JTJCZCUyRmU=".to_owned())),
            "{asked:?}"
        );
        let asked = token_request(&client(), ClientAuthentication::Body);
        assert!(body(&asked).ends_with("&client_id=my+client&client_secret=p%3Aw%2Bd%2Fe"), "{}", body(&asked));
        assert!(!asked.headers.iter().any(|(name, _)| name == "authorization"));
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        for (lifetime, usable_ms) in [
            ("3600", 3_570_000),
            ("\"3600\"", 3_570_000),
            ("10", 5_000),
            ("0", 0),
            ("null", 270_000),
            ("\"soon\"", 270_000),
            ("99999999999999", 86_370_000),
            ("-5", 270_000),
        ] {
            let body = format!(r#"{{"access_token":"t.k","token_type":"bearer","expires_in":{lifetime}}}"#);
            assert_eq!(
                read_token(200, body.as_bytes()),
                Ok(AccessToken { token: Secret::new("t.k"), usable_ms }),
                "{lifetime}"
            );
        }
    }

    #[test]
    fn answers_without_a_token_say_what_is_wrong() {
        for (status, body, message) in [
            (401, r#"{"error":"invalid_client"}"#, "the token endpoint answered 401: invalid_client"),
            (
                400,
                r#"{"error":"invalid_scope","error_description":"no\nsuch"}"#,
                "the token endpoint answered 400: invalid_scope, nosuch",
            ),
            (500, "<html>", "the token endpoint answered 500"),
            (302, "", "the token endpoint answered 302"),
            (200, "<html>", "the token endpoint's answer is not JSON"),
            (200, "{}", "the token endpoint's answer has no access_token"),
            (
                200,
                r#"{"access_token":""}"#,
                "the token endpoint's answer has an access_token that cannot be sent in a header",
            ),
            (
                200,
                r#"{"access_token":"a\r\nb"}"#,
                "the token endpoint's answer has an access_token that cannot be sent in a header",
            ),
            (
                200,
                r#"{"access_token":"a","token_type":"DPoP"}"#,
                "the token endpoint's answer has a token that is not a bearer",
            ),
        ] {
            assert_eq!(read_token(status, body.as_bytes()).unwrap_err().to_string(), message);
        }
    }
}
