//! What an administrator may write as `auth`.

use serde_json::{Map, Value};

use super::auth::{Auth, ClientAuthentication, ClientCredentials, Secret};

/// Characters of a secret, and of any other text.
const TEXT_LIMIT: usize = 8_192;
/// Characters of a header's or parameter's name.
const NAME_LIMIT: usize = 200;
/// The words that `kind` may be.
const KINDS: &str = "bearer, basic, header, query or oauth2_client_credentials";

/// Headers that belong to the connection, to the gateway or to the body, and those that platforms set. A credential is in
/// none of them, and one that named them could change what a request means (RFC 9110, sections 7.6.1 and 7.8).
const RESERVED_HEADERS: [&str; 22] = [
    "accept",
    "baggage",
    "connection",
    "date",
    "expect",
    "forwarded",
    "host",
    "idempotency-key",
    "keep-alive",
    "last-event-id",
    "origin",
    "range",
    "referer",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// The beginnings of others: of the body, of proxies, of the platform, of the protocol.
const RESERVED_PREFIXES: [&str; 7] = ["accept-", "content-", "proxy-", "sec-", "cf-", "mcp-", "if-"];

/// What is wrong, and with which field. It never quotes a value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct AuthError {
    /// Such as `auth.token`.
    pub field: String,
    /// Ends the sentence that begins with the field.
    pub problem: String,
}

/// Reads `{kind, …}`. `type` may stand for `kind`.
pub fn parse_auth(value: &Value) -> Result<Auth, AuthError> {
    let Value::Object(members) = value else {
        return Err(wrong("", format!("must be an object with `kind`: {KINDS}")));
    };
    let tag = if members.contains_key("kind") { "kind" } else { "type" };
    let kind = members.get(tag).and_then(Value::as_str).unwrap_or_default();
    let fields = Fields { members, tag };
    match kind {
        "bearer" => {
            fields.only(&["token"])?;
            let token = fields.text("token")?;
            if token.to_ascii_lowercase().starts_with("bearer ") {
                return Err(wrong("token", "must be the token alone, without the word Bearer"));
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong("token", "must be ASCII characters without spaces or line breaks"));
            }
            Ok(Auth::Bearer { token: Secret::new(token) })
        }
        "basic" => {
            fields.only(&["username", "password"])?;
            let username = fields.text("username")?;
            let password = fields.text_or_empty("password")?;
            if username.contains(':') || has_control(username) {
                return Err(wrong("username", "must not have a colon or a control character (RFC 7617)"));
            }
            if has_control(password) {
                return Err(wrong("password", "must not have a control character (RFC 7617)"));
            }
            Ok(Auth::Basic { username: username.to_owned(), password: Secret::new(password) })
        }
        "header" => parse_header(&fields),
        "query" => {
            fields.only(&["name", "value"])?;
            let name = fields.name()?;
            if has_control(name) {
                return Err(wrong("name", "must not have a control character"));
            }
            let value = fields.text("value")?;
            if has_control(value) {
                return Err(wrong("value", "must not have a control character"));
            }
            Ok(Auth::Query { name: name.to_owned(), value: Secret::new(value) })
        }
        "oauth2_client_credentials" => parse_client(&fields),
        "" => Err(wrong("kind", format!("is required: {KINDS}"))),
        _ => Err(wrong(tag, format!("is not known: use {KINDS}"))),
    }
}

fn parse_header(fields: &Fields<'_>) -> Result<Auth, AuthError> {
    fields.only(&["name", "value"])?;
    let name = fields.name()?.to_ascii_lowercase();
    if !is_header_name(&name) {
        return Err(wrong("name", "is not a header's name"));
    }
    if !may_carry_credential(&name) {
        return Err(wrong("name", "is a header that the gateway or the connection sets; no credential can be in it"));
    }
    let value = fields.text("value")?;
    let is_line = value.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte));
    if !is_line || value.trim() != value {
        return Err(wrong("value", "must be one line of ASCII text without spaces around it"));
    }
    if name == "cookie" && !value.split("; ").all(is_cookie) {
        return Err(wrong("value", "must be `name=value`, or several of them separated by `; `"));
    }
    Ok(Auth::Header { name, value: Secret::new(value) })
}

fn parse_client(fields: &Fields<'_>) -> Result<Auth, AuthError> {
    fields.only(&["tokenUrl", "clientId", "clientSecret", "scope", "audience", "clientAuthentication"])?;
    let token_url = fields.text("tokenUrl")?;
    let url = url::Url::parse(token_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(mut url) = url.filter(|url| url.username().is_empty() && url.password().is_none()) else {
        return Err(wrong("tokenUrl", "must be an absolute https or http URL without a user name"));
    };
    url.set_fragment(None);
    let is_plain = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    for name in ["clientId", "clientSecret"] {
        if !is_plain(fields.text(name)?) {
            return Err(wrong(name, "must be one line of ASCII text (RFC 6749, appendix A)"));
        }
    }
    let optional = |name: &str| match fields.members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => match fields.text(name)? {
            text if is_plain(text) => Ok(Some(text.to_owned())),
            _ => Err(wrong(name, "must be one line of ASCII text")),
        },
    };
    let authentication = match optional("clientAuthentication")?.as_deref() {
        None => None,
        Some("basic") => Some(ClientAuthentication::Basic),
        Some("body") => Some(ClientAuthentication::Body),
        Some(_) => return Err(wrong("clientAuthentication", "must be basic or body")),
    };
    Ok(Auth::Oauth2ClientCredentials(ClientCredentials {
        token_url: url.into(),
        client_id: fields.text("clientId")?.to_owned(),
        client_secret: Secret::new(fields.text("clientSecret")?),
        scope: optional("scope")?,
        audience: optional("audience")?,
        authentication,
    }))
}

struct Fields<'v> {
    members: &'v Map<String, Value>,
    tag: &'static str,
}

impl<'v> Fields<'v> {
    /// A misspelt field would otherwise leave a source without what it needs.
    fn only(&self, known: &[&str]) -> Result<(), AuthError> {
        match self.members.keys().find(|key| *key != self.tag && !known.contains(&key.as_str())) {
            Some(key) => Err(wrong(
                &key.chars().take(NAME_LIMIT).collect::<String>(),
                format!("is not known here; known are {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    fn text_or_empty(&self, name: &str) -> Result<&'v str, AuthError> {
        let text = match self.members.get(name) {
            Some(Value::String(text)) => text.as_str(),
            None | Some(Value::Null) => return Err(wrong(name, "is required")),
            Some(_) => return Err(wrong(name, "must be a string")),
        };
        if text.len() > TEXT_LIMIT {
            return Err(wrong(name, format!("is longer than {TEXT_LIMIT} bytes")));
        }
        Ok(text)
    }

    fn text(&self, name: &str) -> Result<&'v str, AuthError> {
        match self.text_or_empty(name)? {
            "" => Err(wrong(name, "must not be empty")),
            text => Ok(text),
        }
    }

    fn name(&self) -> Result<&'v str, AuthError> {
        match self.text("name")? {
            name if name.len() > NAME_LIMIT => Err(wrong("name", format!("is longer than {NAME_LIMIT} bytes"))),
            name => Ok(name),
        }
    }
}

fn wrong(field: &str, problem: impl Into<String>) -> AuthError {
    let field = if field.is_empty() { "auth".to_owned() } else { format!("auth.{field}") };
    AuthError { field, problem: problem.into() }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// A token (RFC 9110, section 5.6.2).
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn may_carry_credential(name: &str) -> bool {
    !RESERVED_HEADERS.contains(&name) && !RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// One cookie (RFC 6265, section 4.1.1, without its quotes).
fn is_cookie(text: &str) -> bool {
    let is_value = |byte: u8| byte.is_ascii_graphic() && !b";,".contains(&byte);
    text.split_once('=').is_some_and(|(name, value)| is_header_name(name) && value.bytes().all(is_value))
}
