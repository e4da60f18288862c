//! Trace context that is passed on (W3C Trace Context, level 1; W3C Baggage).
//!
//! The gateway adds no span of its own: what came in goes out, as far as it has the form that its specification gives it.

use serde::{Deserialize, Serialize};

/// Bytes of `tracestate` (W3C Trace Context, section 3.3.1.5).
const STATE_LIMIT: usize = 512;
/// Bytes of `baggage` (W3C Baggage, section 3.3.2).
const BAGGAGE_LIMIT: usize = 8_192;

/// The headers of one trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// `traceparent`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// `tracestate`; only together with the former.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// `baggage`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

impl Trace {
    /// Reads the headers; what has not the right form is left out.
    #[must_use]
    pub fn read(header: impl Fn(&str) -> Option<String>) -> Self {
        let traceparent = header("traceparent").filter(|value| is_traceparent(value));
        let plain =
            |value: &String, limit: usize| value.len() <= limit && value.bytes().all(|b| (32..127).contains(&b));
        Self {
            tracestate: header("tracestate").filter(|value| traceparent.is_some() && plain(value, STATE_LIMIT)),
            baggage: header("baggage").filter(|value| plain(value, BAGGAGE_LIMIT)),
            traceparent,
        }
    }

    /// The headers that are there.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("traceparent", &self.traceparent), ("tracestate", &self.tracestate), ("baggage", &self.baggage)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Whether nothing is traced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// `version-trace-parent-flags`, in lower case, with none of the forbidden values.
fn is_traceparent(value: &str) -> bool {
    let parts: Vec<&str> = value.splitn(5, '-').collect();
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zeros = |text: &str| text.bytes().all(|b| b == b'0');
    match parts.as_slice() {
        [version, trace, parent, flags, rest @ ..] => {
            hex(version, 2)
                && *version != "ff"
                && (rest.is_empty() || *version != "00")
                && hex(trace, 32)
                && !zeros(trace)
                && hex(parent, 16)
                && !zeros(parent)
                && hex(flags, 2)
                && value.len() <= STATE_LIMIT
                && value.bytes().all(|b| (33..127).contains(&b))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_context_is_passed_on() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Trace::read(|name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        let all = read(&[("traceparent", parent), ("tracestate", "a=1"), ("baggage", "k=v")]);
        assert_eq!(
            all.headers().collect::<Vec<_>>(),
            [("traceparent", parent), ("tracestate", "a=1"), ("baggage", "k=v")]
        );
        assert_eq!(read(&[("tracestate", "a=1")]), Trace::default(), "state without a parent");
        for wrong in [
            "",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert!(read(&[("traceparent", wrong)]).is_empty(), "{wrong}");
        }
        assert!(
            !read(&[("traceparent", &format!("01{}-x", &parent[2..]))]).is_empty(),
            "a later version may have more"
        );
        assert!(read(&[("baggage", &"x".repeat(9_000))]).is_empty());
    }
}
