//! URIs of resources, told apart by the source that they are of.

use serde_json::Value;

/// What the URIs of a source's resources begin with for clients. A scheme may not have underlines, and begins with a letter.
#[must_use]
pub fn uri_prefix(slug: &str) -> String {
    let slug = slug.replace('_', ".");
    let letter = if slug.starts_with(|first: char| first.is_ascii_alphabetic()) { "" } else { "x+" };
    format!("{letter}{slug}+")
}

/// The server's own URI; `None` where it is not one with that prefix. What follows has to begin a scheme: `x+` is the prefix of
/// the source `x`, and the beginning of that of `1st`.
#[must_use]
pub fn without_prefix<'u>(uri: &'u str, prefix: &str) -> Option<&'u str> {
    uri.strip_prefix(prefix).filter(|wire| wire.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Puts the prefix in front of the URI of a block of content: a link to a resource, or a resource in it.
pub fn prefix_block(block: &mut Value, prefix: &str) {
    let holder = match block.get("type").and_then(Value::as_str) {
        Some("resource_link") => Some(block),
        Some("resource") => block.get_mut("resource"),
        Some(_) | None => None,
    };
    if let Some(holder) = holder {
        prefix_member(holder, "uri", prefix);
    }
}

/// Puts the prefix in front of one member of an object, where that is a text.
pub fn prefix_member(object: &mut Value, member: &str, prefix: &str) {
    if let Some(Value::String(uri)) = object.get_mut(member) {
        uri.insert_str(0, prefix);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_uri_is_of_one_source_only() {
        for (slug, prefix) in [("docs", "docs+"), ("my_docs", "my.docs+"), ("1st", "x+1st+"), ("x", "x+")] {
            assert_eq!(uri_prefix(slug), prefix);
            assert_eq!(without_prefix(&format!("{prefix}file:///a"), prefix), Some("file:///a"));
        }
        assert_eq!(without_prefix("x+1st+file:///a", "x+"), None);
        assert_eq!(without_prefix("file:///a", "docs+"), None);
        assert_eq!(without_prefix("docs+", "docs+"), None);
    }

    #[test]
    fn only_resources_have_uris() {
        let mut blocks = [
            json!({ "type": "resource_link", "uri": "file:///a", "name": "a" }),
            json!({ "type": "resource", "resource": { "uri": "file:///b", "text": "file:///b" } }),
            json!({ "type": "text", "text": "file:///c", "uri": "file:///c" }),
            json!({ "type": "resource" }),
            json!(7),
        ];
        for block in &mut blocks {
            prefix_block(block, "docs+");
        }
        assert_eq!(blocks[0]["uri"], "docs+file:///a");
        assert_eq!(blocks[1]["resource"], json!({ "uri": "docs+file:///b", "text": "file:///b" }));
        assert_eq!(blocks[2]["uri"], "file:///c");
    }
}
