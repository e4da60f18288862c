//! Redirects, followed by hand (Fetch, "HTTP-redirect fetch").

use url::Url;

use crate::catalog::openapi::request::HttpRequest;

/// How many redirects one request follows.
pub const MAX_REDIRECTS: usize = 5;

/// What becomes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// It is the answer: no redirect, or one that is not followed.
    Answer,
    /// The next request. The credential is put in anew.
    Follow(HttpRequest),
}

/// Decides what an answer with that status and `Location` means. Only the same origin is followed: at another one, nobody
/// confirmed that the request, which may carry a credential and was shown to a person with this URL, may go there.
#[must_use]
pub fn decide_redirect(request: &HttpRequest, status: u16, location: Option<&str>, followed: usize) -> Redirect {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) || followed >= MAX_REDIRECTS {
        return Redirect::Answer;
    }
    let target = Url::parse(&request.url).ok().zip(location).and_then(|(base, location)| {
        let target = base.join(location).ok()?;
        (target.origin() == base.origin() && matches!(target.scheme(), "http" | "https")).then_some(target)
    });
    let Some(mut target) = target.filter(|url| url.username().is_empty() && url.password().is_none()) else {
        return Redirect::Answer;
    };
    target.set_fragment(None);
    let mut next = HttpRequest { url: target.into(), ..request.clone() };
    let becomes_get = match status {
        301 | 302 => request.method == "POST",
        303 => !matches!(request.method.as_str(), "GET" | "HEAD"),
        _ => false,
    };
    if becomes_get {
        "GET".clone_into(&mut next.method);
        next.body = None;
        next.headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    Redirect::Follow(next)
}

/// Whether a call's arguments may set a header of that name. The others say how the connection works, or who asks, and
/// are the gateway's or the platform's (RFC 9110, section 7.6.1).
#[must_use]
pub fn may_be_forwarded(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !matches!(
        name.as_str(),
        "connection"
            | "content-length"
            | "expect"
            | "host"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "via"
    ) && !name.starts_with("cf-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str) -> HttpRequest {
        HttpRequest {
            method: method.to_owned(),
            url: "https://api.example/v1/things?a=1".to_owned(),
            headers: vec![
                ("accept".to_owned(), "x/y".to_owned()),
                ("content-type".to_owned(), "text/plain".to_owned()),
            ],
            body: Some(b"body".to_vec()),
        }
    }

    #[test]
    fn methods_change_as_fetch_says() {
        // Status, method, method afterwards.
        for (status, before, after) in [
            (301, "GET", "GET"),
            (301, "HEAD", "HEAD"),
            (301, "POST", "GET"),
            (301, "PUT", "PUT"),
            (301, "DELETE", "DELETE"),
            (302, "GET", "GET"),
            (302, "POST", "GET"),
            (302, "PATCH", "PATCH"),
            (303, "GET", "GET"),
            (303, "HEAD", "HEAD"),
            (303, "POST", "GET"),
            (303, "PUT", "GET"),
            (303, "DELETE", "GET"),
            (307, "POST", "POST"),
            (307, "DELETE", "DELETE"),
            (308, "POST", "POST"),
            (308, "PUT", "PUT"),
        ] {
            let Redirect::Follow(next) = decide_redirect(&request(before), status, Some("/v2/x?b#f"), 0) else {
                panic!("{status} {before}");
            };
            assert_eq!(
                (next.method.as_str(), next.url.as_str()),
                (after, "https://api.example/v2/x?b"),
                "{status} {before}"
            );
            let keeps_body = before == after;
            assert_eq!(next.body.is_some(), keeps_body, "{status} {before}");
            assert_eq!(next.headers.iter().any(|(name, _)| name == "content-type"), keeps_body, "{status} {before}");
            assert!(next.headers.iter().any(|(name, _)| name == "accept"));
        }
    }

    #[test]
    fn only_the_same_origin_is_followed() {
        for location in
            ["/x", "x", "?q", "//api.example/x", "https://api.example/x", "https://API.example:443/x", "", "../.."]
        {
            assert!(
                matches!(decide_redirect(&request("GET"), 302, Some(location), 4), Redirect::Follow(_)),
                "{location}"
            );
        }
        for location in [
            "http://api.example/x",
            "https://api.example:8443/x",
            "https://other.example/",
            "//other.example/",
            "https://api.example.evil/",
            "https://user@api.example/",
            "https://user:pass@api.example/x",
            "\\\\other.example\\",
            "javascript:alert(1)",
            "data:,x",
            "file:///x",
            "https://127.0.0.1/",
            "https://",
            "https://api.example@evil.example/",
        ] {
            assert_eq!(decide_redirect(&request("GET"), 302, Some(location), 0), Redirect::Answer, "{location}");
        }
    }

    #[test]
    fn what_is_no_redirect_is_the_answer() {
        for status in [200, 204, 300, 304, 305, 306, 400, 500] {
            assert_eq!(decide_redirect(&request("GET"), status, Some("/x"), 0), Redirect::Answer, "{status}");
        }
        assert_eq!(decide_redirect(&request("GET"), 302, None, 0), Redirect::Answer);
        assert_eq!(decide_redirect(&request("GET"), 302, Some("/x"), MAX_REDIRECTS), Redirect::Answer);
    }

    #[test]
    fn headers_of_the_connection_are_not_arguments() {
        for name in ["Host", "connection", "Content-Length", "Transfer-Encoding", "TE", "Upgrade", "CF-Connecting-IP"] {
            assert!(!may_be_forwarded(name), "{name}");
        }
        for name in ["x-api-version", "accept", "content-type", "if-match", "range", "cookie", "prefer", "user-agent"] {
            assert!(may_be_forwarded(name), "{name}");
        }
    }
}
