//! A credential put into a request.

use super::auth::{Auth, basic_value};
use super::form::form_encoded;
use crate::catalog::openapi::request::HttpRequest;

impl Auth {
    /// Puts the credential where it belongs. What the arguments of the call put there goes away: an argument neither
    /// replaces a credential nor stands beside it.
    ///
    /// An OAuth client changes nothing here; what is applied for it is the [`Auth::Bearer`] that was fetched.
    pub fn apply(&self, request: &mut HttpRequest) {
        match self {
            Self::Bearer { token } => set_header(request, "authorization", format!("Bearer {}", token.reveal())),
            Self::Basic { username, password } => {
                let value = format!("Basic {}", basic_value(username, password.reveal()));
                set_header(request, "authorization", value);
            }
            Self::Header { name, value } if name == "cookie" => add_cookies(request, value.reveal()),
            Self::Header { name, value } => set_header(request, name, value.reveal().to_owned()),
            Self::Query { name, value } => {
                let mut url = without_query_parameter(&request.url, name);
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(&percent_encoded(name));
                url.push('=');
                url.push_str(&percent_encoded(value.reveal()));
                request.url = url;
            }
            Self::Oauth2ClientCredentials(_) => {}
        }
    }
}

fn set_header(request: &mut HttpRequest, name: &str, value: String) {
    request.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    request.headers.push((name.to_owned(), value));
}

/// Adds cookies to those of the call, except for the ones of the same name.
fn add_cookies(request: &mut HttpRequest, added: &str) {
    let name_of = |cookie: &str| cookie.split('=').next().unwrap_or_default().trim().to_owned();
    let names: Vec<String> = added.split("; ").map(name_of).collect();
    let of_call: Vec<String> = request
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"))
        .flat_map(|(_, value)| value.split(';'))
        .map(|cookie| cookie.trim().to_owned())
        .filter(|cookie| !cookie.is_empty() && !names.contains(&name_of(cookie)))
        .collect();
    let mut cookies = of_call;
    cookies.push(added.to_owned());
    set_header(request, "cookie", cookies.join("; "));
}

/// The URL without that parameter of the query, whichever way its name is written; all else stays byte for byte.
#[must_use]
pub fn without_query_parameter(url: &str, name: &str) -> String {
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let Some((base, query)) = url.split_once('?') else {
        return fragment.map_or_else(|| url.to_owned(), |fragment| format!("{url}#{fragment}"));
    };
    let is_other = |pair: &&str| decoded_form(pair.split('=').next().unwrap_or_default()) != name;
    let kept: Vec<&str> = query.split('&').filter(is_other).collect();
    let mut written = base.to_owned();
    if !kept.is_empty() {
        written.push('?');
        written.push_str(&kept.join("&"));
    }
    if let Some(fragment) = fragment {
        written.push('#');
        written.push_str(fragment);
    }
    written
}

/// A part of a query as a server reads it: `+` is a space, `%XX` a byte.
#[must_use]
pub fn decoded_form(text: &str) -> String {
    let pair = format!("{}=", text.replace('=', "%3D"));
    url::form_urlencoded::parse(pair.as_bytes()).next().map_or_else(String::new, |(name, _)| name.into_owned())
}

/// As in a form, but `%20` for a space, which every server reads.
fn percent_encoded(text: &str) -> String {
    form_encoded(text).replace('+', "%20")
}
