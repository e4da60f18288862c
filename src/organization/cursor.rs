//! Opaque cursors: where the next page of a list begins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// Items of a page, by default and at most.
pub const PAGE_DEFAULT: u64 = 50;
/// Items of a page at most.
pub const PAGE_MOST: u64 = 200;

/// A page of a list that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Where it begins: after this key; `None` is the beginning.
    pub after: Option<String>,
    /// How many items.
    pub limit: u64,
}

/// The cursor of a list, for what comes after a key. A cursor of one list is none of another.
#[must_use]
pub fn encode(list: &str, after: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{after}"))
}

/// Reads a cursor.
pub fn decode(list: &str, cursor: &str) -> Result<String, Fault> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|bytes| bytes.len() <= 2_048);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.as_deref()
        .and_then(|text| text.split_once('\n'))
        .filter(|(of, _)| *of == list)
        .map(|(_, after)| after.to_owned())
        .ok_or_else(|| Fault::field("cursor", "has to be the nextCursor of a page of this list"))
}

/// Reads the page that a query asks for.
pub fn parse_page(list: &str, query: &[(String, String)]) -> Result<Page, Fault> {
    let find = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let after = find("cursor").map(|cursor| decode(list, cursor)).transpose()?;
    Ok(Page { after, limit: parse_number("limit", find("limit"), PAGE_DEFAULT, 1, PAGE_MOST)? })
}

/// Reads a whole number in a query.
pub fn parse_number(name: &str, text: Option<&str>, default: u64, least: u64, most: u64) -> Result<u64, Fault> {
    match text {
        None | Some("") => Ok(default),
        Some(text) => text
            .parse()
            .ok()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| Fault::field(name, format!("has to be a whole number from {least} to {most}"))),
    }
}
