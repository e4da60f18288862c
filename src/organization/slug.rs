//! Slugs of sources and toolkits.

use super::fault::Fault;

/// Names that a source cannot have: programs, clients or the gateway read them as something else.
const TAKEN: [&str; 22] = [
    "__proto__",
    "catch",
    "constructor",
    "countersign",
    "default",
    "demo",
    "describe",
    "emit",
    "execute",
    "finally",
    "hasownproperty",
    "prototype",
    "results",
    "resume",
    "search",
    "skills",
    "sources",
    "then",
    "tojson",
    "tools",
    "tostring",
    "valueof",
];

/// Checks the slug of a source that is written: it begins the address of each of its tools.
pub fn check_source(slug: &str) -> Result<(), Fault> {
    if matches!(slug, "demo" | "countersign") {
        return Err(Fault::field("slug", format!("{slug} is a source of the gateway itself, which cannot be changed"))
            .with_status(409));
    }
    if !is_source(slug) {
        let problem = "has to begin with a small letter and to have at most 40 small letters, digits, _ and -";
        return Err(Fault::field("slug", problem));
    }
    if TAKEN.contains(&slug) {
        return Err(Fault::field("slug", format!("{slug} means something else in programs; choose another")));
    }
    Ok(())
}

/// Whether a text can be a source's slug.
#[must_use]
pub fn is_source(slug: &str) -> bool {
    slug.len() <= 40
        && slug.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && slug.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
        && !slug.contains("__")
}

/// Whether a text can be a toolkit's slug: it is a part of the path of its endpoint.
#[must_use]
pub fn is_toolkit(slug: &str) -> bool {
    !slug.is_empty()
        && slug.len() <= 64
        && slug != "default"
        && slug.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
