//! The files that pages load, and the headers that pages are sent with.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file that pages load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Value of `content-type`.
    pub content_type: &'static str,
    /// The file.
    pub body: &'static str,
    /// Value of `cache-control`.
    pub cache_control: &'static str,
}

/// Name, content type and body of every file.
const FILES: [(&str, &str, &str); 3] = [
    ("countersign.css", "text/css; charset=utf-8", include_str!("countersign.css")),
    ("countersign.js", "text/javascript; charset=utf-8", include_str!("countersign.js")),
    ("countersign.svg", "image/svg+xml", include_str!("icon.svg")),
];

/// The paths of the files, in the order of [`FILES`]. The hash is of the content, so that a browser may keep them.
static PATHS: LazyLock<[String; 3]> =
    LazyLock::new(|| FILES.map(|(name, _, body)| format!("/assets/{}/{name}", hash_of(body))));

fn hash_of(body: &str) -> String {
    Sha256::digest(body.as_bytes()).iter().take(8).fold(String::new(), |mut hash, byte| {
        // Writing to a string never fails.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

/// The paths of style sheet, script and icon.
pub(super) fn paths() -> [&'static str; 3] {
    PATHS.each_ref().map(String::as_str)
}

/// The file at a path such as `/assets/0123456789abcdef/countersign.css`.
///
/// An older page may ask for the hash of another release: it gets the present file, and must not keep it.
#[must_use]
pub fn asset(path: &str) -> Option<Asset> {
    let (hash, name) = path.strip_prefix("/assets/")?.split_once('/')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (_, content_type, body) = FILES.into_iter().find(|(file, _, _)| is_hash && *file == name)?;
    let current = PATHS.iter().any(|known| known == path);
    let cache_control = if current { "public, max-age=31536000, immutable" } else { "no-store" };
    Some(Asset { content_type, body, cache_control })
}

/// The headers of every page. Nothing from elsewhere is loaded, nothing inline runs, no other site may frame the page.
#[must_use]
pub fn page_headers() -> [(&'static str, String); 9] {
    [
        ("content-type", "text/html; charset=utf-8"),
        (
            "content-security-policy",
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-read=()"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_on_a_page_is_served_and_may_be_kept() {
        for (path, (_, content_type, body)) in paths().into_iter().zip(FILES) {
            let found = asset(path).unwrap();
            assert_eq!((found.content_type, found.body), (content_type, body));
            assert!(found.cache_control.ends_with("immutable"));
        }
    }

    #[test]
    fn another_release_gets_the_present_file_and_others_get_none() {
        assert_eq!(asset("/assets/0123456789abcdef/countersign.css").unwrap().cache_control, "no-store");
        for path in [
            "/assets/countersign.css",
            "/assets/../countersign.css",
            "/assets/0123456789abcdef/x.css",
            "/assets/",
            "/",
            "",
        ] {
            assert_eq!(asset(path), None, "{path}");
        }
    }

    #[test]
    fn pages_are_locked_down() {
        let headers = page_headers();
        let of =
            |name: &str| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str()).unwrap();
        let policy = of("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
        assert!(
            policy.contains("frame-ancestors 'none'")
                && policy.contains("base-uri 'none'")
                && policy.contains("form-action 'self'")
        );
        assert_eq!(of("cache-control"), "no-store");
        assert_eq!(of("referrer-policy"), "no-referrer");
    }
}
