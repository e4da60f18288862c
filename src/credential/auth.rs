//! The five ways in which a source may be authenticated.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::form::form_encoded;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for a request or for encryption.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[secret]")
    }
}

/// A credential of a source, as an administrator wrote it and [`super::parse_auth`] checked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer …` (RFC 6750).
    Bearer {
        /// The token, without the word `Bearer`.
        token: Secret,
    },
    /// `Authorization: Basic …` (RFC 7617, UTF-8).
    Basic {
        /// Not secret.
        username: String,
        /// May be empty.
        password: Secret,
    },
    /// A header of its own, such as `X-API-Key`; or `Cookie`, whose cookies are added to those of the call.
    Header {
        /// In lower case.
        name: String,
        /// One line.
        value: Secret,
    },
    /// A parameter of the query.
    Query {
        /// As it is before percent-encoding.
        name: String,
        /// As it is before percent-encoding.
        value: Secret,
    },
    /// A token that is fetched (RFC 6749, section 4.4), then sent as a bearer.
    Oauth2ClientCredentials(ClientCredentials),
}

/// What a token is asked for with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    /// Absolute URL of the token endpoint.
    pub token_url: String,
    /// Not secret.
    pub client_id: String,
    /// The client's password.
    pub client_secret: Secret,
    /// Separated by spaces.
    pub scope: Option<String>,
    /// What some servers want in addition.
    pub audience: Option<String>,
    /// How the client says who it is; `None`: by the header, and where that is refused by the body.
    pub authentication: Option<ClientAuthentication>,
}

/// Where a client's id and secret are (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// In the `Authorization` header.
    Basic,
    /// In the body.
    Body,
}

impl Auth {
    /// What it is, for people: no secret, and no part of one.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Bearer { .. } => "bearer token".to_owned(),
            Self::Basic { username, .. } => format!("basic authentication as {username}"),
            Self::Header { name, .. } => format!("header {name}"),
            Self::Query { name, .. } => format!("query parameter {name}"),
            Self::Oauth2ClientCredentials(client) => format!("OAuth 2 client {}", client.client_id),
        }
    }

    /// The word for its kind, as it is written in the administration API.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bearer { .. } => "bearer",
            Self::Basic { .. } => "basic",
            Self::Header { .. } => "header",
            Self::Query { .. } => "query",
            Self::Oauth2ClientCredentials(_) => "oauth2_client_credentials",
        }
    }

    /// Everything of it that may be shown: the kind and the fields that are not secret.
    #[must_use]
    pub fn shown(&self) -> Value {
        match self {
            Self::Bearer { .. } => json!({ "kind": self.kind() }),
            Self::Basic { username, .. } => json!({ "kind": self.kind(), "username": username }),
            Self::Header { name, .. } | Self::Query { name, .. } => json!({ "kind": self.kind(), "name": name }),
            Self::Oauth2ClientCredentials(client) => client.written(None),
        }
    }

    /// The whole of it as JSON, for encryption only; [`super::parse_auth`] reads it again.
    #[must_use]
    pub fn sealed_form(&self) -> String {
        let value = match self {
            Self::Bearer { token } => json!({ "kind": self.kind(), "token": token.reveal() }),
            Self::Basic { username, password } => {
                json!({ "kind": self.kind(), "username": username, "password": password.reveal() })
            }
            Self::Header { name, value } | Self::Query { name, value } => {
                json!({ "kind": self.kind(), "name": name, "value": value.reveal() })
            }
            Self::Oauth2ClientCredentials(client) => client.written(Some(&client.client_secret)),
        };
        value.to_string()
    }

    /// Every text that must not be seen by a program, a model or a log: the secrets, and what they become in a request.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Self::Bearer { token } => vec![token.reveal().to_owned()],
            Self::Basic { username, password } => {
                vec![password.reveal().to_owned(), basic_value(username, password.reveal())]
            }
            Self::Header { name, value } if name == "cookie" => {
                let values = value.reveal().split("; ").filter_map(|cookie| cookie.split_once('='));
                values.map(|(_, value)| value.to_owned()).collect()
            }
            // `Token abc`, `Bearer abc`: a server that echoes what it was given may leave the first word out.
            Self::Header { value, .. } => match value.reveal().split_once(' ') {
                Some((_, rest)) => vec![value.reveal().to_owned(), rest.trim_start().to_owned()],
                None => vec![value.reveal().to_owned()],
            },
            Self::Query { value, .. } => vec![value.reveal().to_owned()],
            Self::Oauth2ClientCredentials(client) => {
                vec![client.client_secret.reveal().to_owned(), client.basic_value()]
            }
        }
    }
}

impl ClientCredentials {
    /// What comes after `Basic ` where the token is asked for. Both parts are form-encoded first (RFC 6749, 2.3.1).
    #[must_use]
    pub fn basic_value(&self) -> String {
        basic_value(&form_encoded(&self.client_id), &form_encoded(self.client_secret.reveal()))
    }

    fn written(&self, secret: Option<&Secret>) -> Value {
        let mut value =
            json!({ "kind": "oauth2_client_credentials", "tokenUrl": self.token_url, "clientId": self.client_id });
        let authentication = self.authentication.map(|way| match way {
            ClientAuthentication::Basic => "basic",
            ClientAuthentication::Body => "body",
        });
        let more = [
            ("clientSecret", secret.map(Secret::reveal)),
            ("scope", self.scope.as_deref()),
            ("audience", self.audience.as_deref()),
            ("clientAuthentication", authentication),
        ];
        if let Some(members) = value.as_object_mut() {
            members.extend(more.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::from(text?)))));
        }
        value
    }
}

/// What comes after `Basic ` in an `Authorization` header.
pub(super) fn basic_value(username: &str, password: &str) -> String {
    STANDARD.encode(format!("{username}:{password}"))
}
