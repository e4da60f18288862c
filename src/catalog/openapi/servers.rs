//! Where a document's operations are sent to.

use serde_json::Value;
use url::Url;

use super::document::{Document, Version};

/// What relative server URLs are relative to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// The base that an administrator stated.
    pub(super) stated: Option<&'a str>,
    /// Where the document came from.
    pub(super) document: Option<&'a str>,
}

impl Origin<'_> {
    fn url(&self) -> Option<Url> {
        self.stated.or(self.document).and_then(|url| Url::parse(url).ok())
    }
}

/// The base of the document's root servers.
pub(super) fn root_base(document: &Document<'_>, origin: Origin<'_>) -> Option<String> {
    match document.version {
        Version::V2 => swagger_base(document, origin),
        Version::V3_0 | Version::V3_1 => {
            let servers =
                document.get("servers").filter(|servers| servers.as_array().is_some_and(|list| !list.is_empty()));
            match servers {
                Some(servers) => servers_base(&servers, origin),
                // Without `servers` there is one with the URL `/`.
                None => absolute("/", origin),
            }
        }
    }
}

/// The base of a `servers` list: its first entry that is http or https.
pub(super) fn servers_base(servers: &Value, origin: Origin<'_>) -> Option<String> {
    servers.as_array()?.iter().filter_map(server_url).find_map(|url| absolute(&url, origin))
}

/// The URL with each variable replaced by its default, or by its first value where there is no default.
fn server_url(server: &Value) -> Option<String> {
    let template = server.get("url")?.as_str()?;
    let mut url = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        let variable = server.get("variables")?.get(name)?;
        let value = variable.get("default").or_else(|| variable.get("enum")?.get(0))?;
        url.push_str(before);
        match value {
            Value::String(text) => url.push_str(text),
            Value::Number(number) => url.push_str(&number.to_string()),
            Value::Bool(flag) => url.push_str(if *flag { "true" } else { "false" }),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        }
        rest = after;
    }
    url.push_str(rest);
    Some(url.trim().to_owned())
}

fn swagger_base(document: &Document<'_>, origin: Origin<'_>) -> Option<String> {
    let text = |key| document.get(key).and_then(|value| value.as_str().map(str::to_owned));
    let path = text("basePath").unwrap_or_default();
    let path = format!("/{}", path.trim_start_matches('/'));
    let Some(host) = text("host").filter(|host| !host.is_empty()) else {
        return absolute(&path, origin);
    };
    let schemes = document.get("schemes");
    let schemes: Vec<&str> =
        schemes.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let of_document = origin.url().map(|url| url.scheme().to_owned());
    let scheme = if schemes.contains(&"https") {
        "https"
    } else if schemes.contains(&"http") {
        "http"
    } else {
        of_document.as_deref().filter(|scheme| *scheme == "http").unwrap_or("https")
    };
    absolute(&format!("{scheme}://{host}{path}"), origin)
}

/// An absolute http or https URL without query, fragment, user name or final slash.
pub(super) fn absolute(url: &str, origin: Origin<'_>) -> Option<String> {
    let parsed = match origin.url() {
        _ if has_host_without_scheme(url) => Url::parse(&format!("https://{}", url.trim_start_matches('/'))),
        Some(base) => base.join(url),
        None => Url::parse(url),
    };
    let mut parsed = parsed.ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    parsed.set_query(None);
    parsed.set_fragment(None);
    // A document does not get to choose credentials.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    Some(parsed.as_str().trim_end_matches('/').to_owned())
}

/// `api.example.com/v1` and `//api.example.com/v1`, which documents state though the first is a relative path by the
/// letter.
fn has_host_without_scheme(url: &str) -> bool {
    if let Some(rest) = url.strip_prefix("//") {
        return !rest.starts_with('/');
    }
    let host = url.split('/').next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    !url.contains("://")
        && name.contains('.')
        && name
            .split('.')
            .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        && name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic()))
}
