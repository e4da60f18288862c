//! What a client asks a person for: the authorization request (OAuth 2.1 draft, section 4.1.1; RFC 7636; RFC 8707), and where its
//! answer goes. As long as client and redirect URI are not certain, nothing is sent anywhere; the person reads what is wrong.

use serde::{Deserialize, Serialize};
use url::Url;

use super::Client;

/// How long a person may look at the question.
pub const PENDING_LIFETIME_MS: u64 = 15 * 60_000;
const STATE_LENGTH: usize = 2_048;
/// Characters of a S256 challenge (RFC 7636, section 4.2).
const CHALLENGE_LENGTH: usize = 43;

/// A request that is in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRequest {
    /// The client's id.
    pub client_id: String,
    /// Where the answer goes.
    pub redirect_uri: String,
    /// What the client wants to find in the answer.
    pub state: Option<String>,
    /// The S256 challenge.
    pub code_challenge: String,
    /// What it wants to use: the URL of one of the gateway's endpoints.
    pub resource: String,
}

/// A request that a person is looking at. Signed, it is part of the form, so that what is granted is what was shown, and to the
/// person it was shown to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// What was asked for.
    pub request: AuthorizationRequest,
    /// The name that the page showed.
    pub client_name: String,
    /// The account that was signed in.
    pub account: String,
    /// Its organization.
    pub organization: String,
    /// Until when it may be answered, in milliseconds since 1970.
    pub expires_at: u64,
}

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not certain where an answer belongs: the person is told.
    Page(String),
    /// The client is told, by a redirect to this URL.
    Redirect(String),
}

/// Reads a request. `client` is the one that `client_id` names, `is_resource` tells the gateway's own endpoints, `issuer` and
/// `default_resource` are the gateway's.
pub fn read_request(
    query: &[(String, String)],
    client: &Client,
    issuer: &str,
    default_resource: &str,
    is_resource: impl Fn(&str) -> bool,
) -> Result<AuthorizationRequest, Fault> {
    let one = |name: &str| {
        let mut values = query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        if values.next().is_some() { Err(name.to_owned()) } else { Ok(first.filter(|value| !value.is_empty())) }
    };
    let twice = |name: String| Fault::Page(format!("The request names {name} more than once."));
    let redirect_uri = match one("redirect_uri").map_err(twice)? {
        Some(uri) if client.may_redirect_to(uri) => uri,
        Some(_) => {
            let message = "The request wants its answer sent to an address that this client did not register.";
            return Err(Fault::Page(message.to_owned()));
        }
        None => client
            .only_redirect_uri()
            .ok_or_else(|| Fault::Page("The request does not say where its answer goes.".to_owned()))?,
    };
    let state = one("state").map_err(twice)?;
    if state.is_some_and(|state| state.len() > STATE_LENGTH) {
        return Err(Fault::Page(format!("The request's state is longer than {STATE_LENGTH} characters.")));
    }
    let fault =
        |code: &str, description: &str| Fault::Redirect(error_redirect(redirect_uri, state, issuer, code, description));
    let member =
        |name: &str| one(name).map_err(|name| fault("invalid_request", &format!("{name} is there more than once")));
    match member("response_type")? {
        Some("code") => {}
        Some(_) => return Err(fault("unsupported_response_type", "response_type has to be code")),
        None => return Err(fault("invalid_request", "response_type is missing")),
    }
    match member("code_challenge_method")? {
        Some("S256") => {}
        Some(_) | None => return Err(fault("invalid_request", "code_challenge_method has to be S256")),
    }
    let code_challenge = member("code_challenge")?
        .filter(|challenge| challenge.len() == CHALLENGE_LENGTH && challenge.bytes().all(is_base64url))
        .ok_or_else(|| fault("invalid_request", "code_challenge is missing, or not of the form of S256"))?;
    let resource = match member("resource")? {
        None => default_resource,
        Some(resource) if is_resource(resource) => resource,
        Some(_) => return Err(fault("invalid_target", "resource is none of this gateway's endpoints")),
    };
    Ok(AuthorizationRequest {
        client_id: client.id.clone(),
        redirect_uri: redirect_uri.to_owned(),
        state: state.map(ToOwned::to_owned),
        code_challenge: code_challenge.to_owned(),
        resource: resource.to_owned(),
    })
}

/// Where a browser is sent with an error (RFC 6749, section 4.1.2.1; RFC 9207).
#[must_use]
pub fn error_redirect(uri: &str, state: Option<&str>, issuer: &str, code: &str, description: &str) -> String {
    answer(uri, &[("error", code), ("error_description", description)], state, issuer)
}

impl AuthorizationRequest {
    /// Where the browser is sent with a code.
    #[must_use]
    pub fn code_redirect(&self, code: &str, issuer: &str) -> String {
        answer(&self.redirect_uri, &[("code", code)], self.state.as_deref(), issuer)
    }

    /// Where the browser is sent when the person says no.
    #[must_use]
    pub fn denied_redirect(&self, issuer: &str) -> String {
        let description = "The person declined";
        error_redirect(&self.redirect_uri, self.state.as_deref(), issuer, "access_denied", description)
    }

    /// What stands before a path in the redirect URI, for the person and for the page's policy: an origin, or a scheme.
    #[must_use]
    pub fn destination(&self) -> String {
        match Url::parse(&self.redirect_uri) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url.origin().ascii_serialization(),
            Ok(url) => format!("{}:", url.scheme()),
            Err(_) => String::new(),
        }
    }
}

fn answer(uri: &str, members: &[(&str, &str)], state: Option<&str>, issuer: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(members);
    if let Some(state) = state {
        query.append_pair("state", state);
    }
    query.append_pair("iss", issuer);
    // As text: a URL parser would change URIs of other schemes.
    let separator = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{separator}{}", query.finish())
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
