//! Content negotiation of `/mcp`.

/// What a client admits as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// `application/json`
    pub json: bool,
    /// `text/event-stream`
    pub events: bool,
}

impl Accepts {
    /// Reads an `Accept` header (RFC 9110, section 12.5.1); absent or empty admits anything.
    #[must_use]
    pub fn parse(header: Option<&str>) -> Self {
        let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
            return Self { json: true, events: true };
        };
        let mut accepts = Self { json: false, events: false };
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let refused = parts.any(|parameter| {
                let parameter = parameter.to_ascii_lowercase();
                parameter.strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0))
            });
            if refused {
                continue;
            }
            match kind.as_str() {
                "*/*" => accepts = Self { json: true, events: true },
                "application/*" | "application/json" => accepts.json = true,
                "text/*" | "text/event-stream" => accepts.events = true,
                _ => {}
            }
        }
        accepts
    }
}

/// Whether a `Content-Type` header is the media type `application/json`, in any case and with any
/// parameters.
#[must_use]
pub fn is_json(header: Option<&str>) -> bool {
    let kind = header.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_headers() {
        for (header, json, events) in [
            (None, true, true),
            (Some(""), true, true),
            (Some("*/*"), true, true),
            (Some("application/json"), true, false),
            (Some("text/event-stream"), false, true),
            (Some("application/json, text/event-stream"), true, true),
            (Some("APPLICATION/JSON;q=0.9 , Text/Event-Stream; q=0.1"), true, true),
            (Some("application/json;q=0, text/event-stream"), false, true),
            (Some("text/html"), false, false),
            (Some("application/jsonp"), false, false),
        ] {
            assert_eq!(Accepts::parse(header), Accepts { json, events }, "{header:?}");
        }
    }

    #[test]
    fn content_types() {
        for (header, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("application/json;x=\"a,b\""), true),
            (Some("text/plain; x=application/json"), false),
            (Some("application/jsonx"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(is_json(header), expected, "{header:?}");
        }
    }
}
