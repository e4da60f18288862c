//! Media types: which family one belongs to, and which of several is used.

/// What a media type says about how a value becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaFamily {
    /// `application/json`, `…+json`
    Json,
    /// One JSON value a line.
    JsonLines,
    /// `application/x-www-form-urlencoded`
    Form,
    /// `multipart/*`
    Multipart,
    /// `text/*`, XML, YAML and the like.
    Text,
    /// A range such as `*/*`.
    Any,
    /// All else.
    Binary,
}

/// The type and subtype in lower case, without parameters.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) fn family_of(media_type: &str) -> MediaFamily {
    let essence = essence(media_type);
    match essence.as_str() {
        "application/json" | "text/json" | "application/x-json" => MediaFamily::Json,
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/json-lines"
        | "application/jsonlines" => MediaFamily::JsonLines,
        "application/x-www-form-urlencoded" => MediaFamily::Form,
        "*/*" | "application/*" | "*" | "" => MediaFamily::Any,
        "application/xml"
        | "application/yaml"
        | "application/x-yaml"
        | "application/javascript"
        | "application/ecmascript"
        | "application/graphql"
        | "application/sql"
        | "application/toml"
        | "application/x-sh"
        | "application/x-pem-file"
        | "application/jwt" => MediaFamily::Text,
        other if other.ends_with("+json") => MediaFamily::Json,
        other if other.starts_with("multipart/") => MediaFamily::Multipart,
        other if other.starts_with("text/") || other.ends_with("+xml") || other.ends_with("+yaml") => MediaFamily::Text,
        _ => MediaFamily::Binary,
    }
}

/// The media type to use of several: JSON, then forms, then what is left, in the order given.
pub(super) fn best_media_type<'m>(media_types: impl Iterator<Item = &'m str>) -> Option<&'m str> {
    media_types.min_by_key(|media_type| match (family_of(media_type), essence(media_type).as_str()) {
        (MediaFamily::Json, "application/json") => 0,
        // A list of operations rather than the resource: its schema is often the resource's by mistake.
        (MediaFamily::Json, "application/json-patch+json") => 4,
        (MediaFamily::Json, "application/merge-patch+json") => 1,
        (MediaFamily::Json, _) => 2,
        (MediaFamily::Any, _) => 3,
        (MediaFamily::Form, _) => 5,
        (MediaFamily::Multipart, _) => 6,
        (MediaFamily::JsonLines, _) => 7,
        (MediaFamily::Text, _) => 8,
        (MediaFamily::Binary, _) => 9,
    })
}
