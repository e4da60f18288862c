//! URLs and origins as an administrator writes them.

use url::Url;

use super::fault::Fault;

/// Bytes of a URL.
pub const URL_LIMIT: usize = 4_096;

/// An absolute http or https URL, without user name, password and fragment.
pub fn parse_url(field: &str, text: &str) -> Result<String, Fault> {
    let wrong = |problem: &str| Err(Fault::field(field, problem));
    if text.len() > URL_LIMIT {
        return wrong(&format!("has more than {URL_LIMIT} bytes"));
    }
    let Ok(mut url) = Url::parse(text) else {
        return wrong("has to be an absolute URL, such as https://api.example.com/v1");
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return wrong("has to be an http or https URL");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("must not have a user name or password; set auth instead");
    }
    url.set_fragment(None);
    Ok(url.to_string())
}

/// An origin, in the form that browsers write it.
pub fn parse_origin(field: &str, text: &str) -> Result<String, Fault> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none())
        .filter(|url| url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    url.map(|url| url.origin().ascii_serialization())
        .ok_or_else(|| Fault::field(field, "has to be an origin, such as https://api.example.com"))
}
