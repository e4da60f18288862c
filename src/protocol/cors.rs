//! Cross-origin rules of `/mcp`.

/// Methods of `/mcp`.
pub const METHODS: &str = "GET, POST, DELETE, OPTIONS";
const ALLOWED_HEADERS: &str = "content-type, authorization, accept, mcp-session-id, mcp-protocol-version, mcp-method, \
     mcp-name, last-event-id, traceparent, tracestate, baggage";
const EXPOSED_HEADERS: &str = "mcp-session-id, www-authenticate, retry-after";
/// Names of requested `mcp-param-*` headers that are echoed at most, and their length.
const PARAMETER_HEADERS: usize = 64;

/// Headers of every answer on `/mcp`. The wildcard is safe: no cookie is ever accepted here.
#[must_use]
pub fn response_headers() -> [(&'static str, &'static str); 2] {
    [("access-control-allow-origin", "*"), ("access-control-expose-headers", EXPOSED_HEADERS)]
}

/// Headers of the answer to a preflight; `requested` is `Access-Control-Request-Headers`.
#[must_use]
pub fn preflight_headers(requested: Option<&str>) -> Vec<(&'static str, String)> {
    let mut allowed = ALLOWED_HEADERS.to_owned();
    let parameters = requested.unwrap_or_default().split(',').map(|name| name.trim().to_ascii_lowercase());
    for name in parameters.filter(|name| is_parameter_header(name)).take(PARAMETER_HEADERS) {
        allowed.push_str(", ");
        allowed.push_str(&name);
    }
    let mut headers: Vec<(&'static str, String)> =
        response_headers().into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    headers.push(("access-control-allow-methods", METHODS.to_owned()));
    headers.push(("access-control-allow-headers", allowed));
    headers.push(("access-control-max-age", "86400".to_owned()));
    headers
}

fn is_parameter_header(name: &str) -> bool {
    name.strip_prefix("mcp-param-").is_some_and(|rest| {
        !rest.is_empty()
            && rest.len() <= 64
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    })
}

/// Whether a request that carries `Origin` may be served.
///
/// Allowed are the gateway's own origin, loopback pages where the gateway itself is reached by
/// loopback, and the configured ones. `own` comes from configuration or the request's URL; the
/// platform routes by host name, and development mode serves loopback names only, so a rebound
/// name does not get here.
#[must_use]
pub fn origin_is_allowed(origin: &str, own: &str, allowed: &[String]) -> bool {
    if origin == own || allowed.iter().any(|one| one == origin) {
        return true;
    }
    let (Ok(page), Ok(gateway)) = (url::Url::parse(origin), url::Url::parse(own)) else {
        return false;
    };
    is_loopback(&page) && is_loopback(&gateway)
}

/// Whether a URL's host is this machine.
#[must_use]
pub fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let allowed = vec!["https://app.example".to_owned()];
        for (origin, own, expected) in [
            ("https://gw.example", "https://gw.example", true),
            ("https://app.example", "https://gw.example", true),
            ("https://evil.example", "https://gw.example", false),
            ("http://gw.example", "https://gw.example", false),
            ("null", "https://gw.example", false),
            ("http://localhost:5173", "https://gw.example", false),
            ("http://localhost:5173", "http://127.0.0.1:8787", true),
            ("http://[::1]:1", "http://127.0.0.1:8787", true),
            ("http://localhost.evil.example", "http://127.0.0.1:8787", false),
            ("http://127.0.0.1.evil.example", "http://127.0.0.1:8787", false),
        ] {
            assert_eq!(origin_is_allowed(origin, own, &allowed), expected, "{origin} at {own}");
        }
    }

    #[test]
    fn preflight_echoes_parameter_headers_only() {
        let headers = preflight_headers(Some("Content-Type, Mcp-Param-Region, x-evil, mcp-param-a b, mcp-param-"));
        let allowed = &headers.iter().find(|(name, _)| *name == "access-control-allow-headers").unwrap().1;
        assert!(allowed.ends_with("baggage, mcp-param-region"), "{allowed}");
    }
}
