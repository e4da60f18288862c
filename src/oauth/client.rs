//! Clients: registered ones, whose id is what they registered, signed (RFC 7591), and those whose id is the URL of a document
//! (draft-ietf-oauth-client-id-metadata-document). Nothing that a client says about itself is believed but where answers go.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::{Host, Url};

use super::{OAuthError, SCOPE};
use crate::auth::signed::Signer;

/// Bytes of a client's document, and of a registration.
pub const CLIENT_METADATA_LIMIT: usize = 16 * 1024;
const REDIRECT_URIS: usize = 10;
const URI_LENGTH: usize = 512;
const NAME_LENGTH: usize = 100;
/// Bytes of what a client id holds: it travels in URLs.
const REGISTERED_LIMIT: usize = 2_048;

/// A client, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// The name that it gives itself.
    pub name: Option<String>,
    /// Where answers may go.
    pub redirect_uris: Vec<String>,
    /// Whether it has to show a secret.
    pub authentication: ClientAuthentication,
    /// The host that vouches for its document; a registered client has none, anybody can register any name.
    pub host: Option<String>,
}

/// How a client shows who it is at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// Not at all: PKCE alone binds the code to it.
    None,
    /// A secret in the body.
    ClientSecretPost,
    /// A secret in `Authorization: Basic`.
    ClientSecretBasic,
}

impl Client {
    /// Whether answers may go to that URI. Compared as text (RFC 6749, section 3.1.2.3), except for the port of a loopback
    /// address, which a program cannot know beforehand (RFC 8252, section 7.3).
    #[must_use]
    pub fn may_redirect_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|known| known == uri || same_but_for_port(known, uri))
    }

    /// The only redirect URI, for a request that names none.
    #[must_use]
    pub fn only_redirect_uri(&self) -> Option<&str> {
        match self.redirect_uris.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// What a client id of a registered client holds. The keys are short because ids travel in URLs.
#[derive(Debug, Serialize, Deserialize)]
struct Registered {
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "r")]
    redirect_uris: Vec<String>,
    #[serde(rename = "a")]
    authentication: ClientAuthentication,
    /// Seconds since 1970.
    #[serde(rename = "t")]
    issued_at: u64,
    /// So that two registrations are two clients.
    #[serde(rename = "x")]
    nonce: String,
}

/// Registers a client: gives the answer to it (RFC 7591, section 3.2.1). `now` is in milliseconds, `nonce` is random.
pub fn register(signer: &Signer, body: &[u8], now: u64, nonce: &str) -> Result<Value, OAuthError> {
    let invalid = |description: String| OAuthError::new("invalid_client_metadata", description);
    let metadata: Map<String, Value> =
        crate::json::from_slice(body).map_err(|_| invalid("The body is not a JSON object.".to_owned()))?;
    let redirect_uris = redirect_uris_of(&metadata)?;
    let authentication = match metadata.get("token_endpoint_auth_method").and_then(Value::as_str) {
        // The default of the specification is a secret; a public client says so.
        None | Some("client_secret_basic") => ClientAuthentication::ClientSecretBasic,
        Some("client_secret_post") => ClientAuthentication::ClientSecretPost,
        // What is not supported is replaced, as section 3.2.1 allows.
        Some(_) => ClientAuthentication::None,
    };
    if let Some(kinds) = metadata.get("grant_types").and_then(Value::as_array)
        && !kinds.iter().any(|kind| kind == "authorization_code")
    {
        return Err(invalid("grant_types has no authorization_code, which is the only way to begin here.".to_owned()));
    }
    if let Some(kinds) = metadata.get("response_types").and_then(Value::as_array)
        && !kinds.iter().any(|kind| kind == "code")
    {
        return Err(invalid("response_types has no code, which is the only one here.".to_owned()));
    }
    let issued_at = now / 1_000;
    let registered =
        Registered { name: name_of(&metadata), redirect_uris, authentication, issued_at, nonce: nonce.to_owned() };
    let failed = |_| invalid("The metadata cannot be kept.".to_owned());
    if serde_json::to_vec(&registered).map_err(failed)?.len() > REGISTERED_LIMIT {
        return Err(invalid(format!("Names and redirect URIs are longer than {REGISTERED_LIMIT} bytes in all.")));
    }
    let id = signer.sign(&registered).map_err(failed)?;
    let mut answer = json!({
        "client_id": id,
        "client_id_issued_at": issued_at,
        "redirect_uris": registered.redirect_uris,
        "token_endpoint_auth_method": authentication,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": SCOPE,
    });
    if let Some(members) = answer.as_object_mut() {
        if let Some(name) = registered.name {
            members.insert("client_name".to_owned(), name.into());
        }
        if authentication != ClientAuthentication::None {
            members.insert("client_secret".to_owned(), signer.secret_of(&id).into());
            members.insert("client_secret_expires_at".to_owned(), 0.into());
        }
    }
    Ok(answer)
}

/// The client with an id that [`register`] gave; `None` for any other.
#[must_use]
pub fn registered_client(signer: &Signer, id: &str) -> Option<Client> {
    let registered: Registered = signer.read(id)?;
    Some(Client {
        id: id.to_owned(),
        name: registered.name,
        redirect_uris: registered.redirect_uris,
        authentication: registered.authentication,
        host: None,
    })
}

/// Whether a client id is the URL of a document: `https`, a path, no fragment, user or dot segments (section 2 of the draft).
#[must_use]
pub fn is_metadata_url(id: &str) -> bool {
    id.len() <= URI_LENGTH
        && id.starts_with("https://")
        && !id.contains('#')
        && !id.split(['/', '?']).any(|segment| matches!(segment, "." | ".."))
        && Url::parse(id).is_ok_and(|url| {
            url.path().len() > 1 && url.username().is_empty() && url.password().is_none() && url.as_str() == id
        })
}

/// Reads the document that is at the URL of a client id.
pub fn read_client_metadata(id: &str, document: &[u8]) -> Result<Client, String> {
    let metadata: Map<String, Value> =
        crate::json::from_slice(document).map_err(|_| "The client's document is not a JSON object.".to_owned())?;
    if metadata.get("client_id").and_then(Value::as_str) != Some(id) {
        return Err("The client's document names another client_id than its own URL.".to_owned());
    }
    if metadata.contains_key("client_secret") {
        return Err("The client's document has a secret in it, and can therefore not be trusted.".to_owned());
    }
    match metadata.get("token_endpoint_auth_method").and_then(Value::as_str) {
        None | Some("none") => {}
        Some(other) => {
            let other = crate::protocol::text::bounded(other, 40);
            return Err(format!("The client wants to show who it is by {other}, which is not supported; use none."));
        }
    }
    let redirect_uris = redirect_uris_of(&metadata).map_err(|error| error.description)?;
    let host = Url::parse(id).ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
    Ok(Client {
        id: id.to_owned(),
        name: name_of(&metadata),
        redirect_uris,
        authentication: ClientAuthentication::None,
        host,
    })
}

fn name_of(metadata: &Map<String, Value>) -> Option<String> {
    let name = metadata.get("client_name")?.as_str()?.trim();
    (!name.is_empty()).then(|| crate::protocol::text::bounded(name, NAME_LENGTH))
}

fn redirect_uris_of(metadata: &Map<String, Value>) -> Result<Vec<String>, OAuthError> {
    let invalid = |description: String| OAuthError::new("invalid_redirect_uri", description);
    let uris = metadata.get("redirect_uris").and_then(Value::as_array).filter(|uris| !uris.is_empty());
    let uris = uris.ok_or_else(|| invalid("redirect_uris is missing or empty.".to_owned()))?;
    if uris.len() > REDIRECT_URIS {
        return Err(invalid(format!("redirect_uris has more than {REDIRECT_URIS} entries.")));
    }
    uris.iter()
        .map(|uri| {
            let uri = uri.as_str().unwrap_or_default();
            check_redirect_uri(uri).map_err(|problem| {
                invalid(format!("redirect_uris: {problem}: {}", crate::protocol::text::bounded(uri, 100)))
            })?;
            Ok(uri.to_owned())
        })
        .collect()
}

/// Where a code may be sent: encrypted, to this computer, or to a program by a scheme of its own (RFC 8252, section 7).
fn check_redirect_uri(uri: &str) -> Result<(), &'static str> {
    if uri.len() > URI_LENGTH || uri.bytes().any(|byte| !(0x21..=0x7e).contains(&byte)) {
        return Err("too long, or with characters that a URI has not");
    }
    let url = Url::parse(uri).map_err(|_| "not an absolute URI")?;
    if url.fragment().is_some() {
        return Err("has a fragment");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user or a password");
    }
    match url.scheme() {
        "http" if is_loopback(&url) => Ok(()),
        "http" => Err("http is allowed on this computer only, as 127.0.0.1, [::1] or localhost"),
        // What a browser runs or shows by itself is no program's.
        "javascript" | "data" | "blob" | "file" | "about" | "vbscript" | "view-source" | "ws" | "wss" | "ftp"
        | "filesystem" | "mailto" | "tel" | "intent" => Err("has a scheme that no program answers to"),
        // `https`, or a program's own.
        _ => Ok(()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn same_but_for_port(known: &str, uri: &str) -> bool {
    let (Ok(mut known), Ok(mut uri)) = (Url::parse(known), Url::parse(uri)) else {
        return false;
    };
    if known.scheme() != "http" || !is_loopback(&known) || !is_loopback(&uri) || uri.fragment().is_some() {
        return false;
    }
    known.set_port(None).is_ok() && uri.set_port(None).is_ok() && known == uri
}
