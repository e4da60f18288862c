//! The page on which a person lets a program call tools.

use askama::Template;

use super::markup::{Html, inline};
use super::{Frame, page_headers, render};

/// What the page shows. All of it but `pending` is what the client says, and shown as such.
#[derive(Debug, Clone, Copy)]
pub struct Consent<'a> {
    /// The name that the client gives itself.
    pub client: &'a str,
    /// The host whose document says so, where there is one.
    pub vouched_by: Option<&'a str>,
    /// Where the answer goes.
    pub redirect_uri: &'a str,
    /// The endpoint that it wants to use.
    pub resource: &'a str,
    /// The request, signed.
    pub pending: &'a str,
}

#[derive(Template)]
#[template(path = "consent.html")]
struct ConsentTemplate<'a> {
    frame: Frame,
    account: Html,
    client: Html,
    vouched_by: Option<Html>,
    redirect_uri: Html,
    resource: Html,
    pending: &'a str,
}

/// Asks `account` whether a client may call tools as that account.
#[must_use]
pub fn consent_page(consent: &Consent<'_>, account: &str) -> String {
    render(&ConsentTemplate {
        frame: Frame::new(Some(account)),
        account: inline(account),
        client: inline(consent.client),
        vouched_by: consent.vouched_by.map(inline),
        redirect_uri: inline(consent.redirect_uri),
        resource: inline(consent.resource),
        pending: consent.pending,
    })
}

/// The headers of that page. Its form ends in a redirect to `destination`, an origin or a scheme, which browsers hold against
/// `form-action`. It may have been opened by the client's page, which waits for it as its opener.
#[must_use]
pub fn consent_headers(destination: &str) -> Vec<(&'static str, String)> {
    let plain = destination.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:/[]".contains(&byte));
    page_headers()
        .into_iter()
        .filter(|(name, _)| *name != "cross-origin-opener-policy")
        .map(|(name, value)| match name {
            "content-security-policy" if plain && !destination.is_empty() => {
                (name, value.replace("form-action 'self'", &format!("form-action 'self' {destination}")))
            }
            _ => (name, value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSENT: Consent<'_> = Consent {
        client: "<b>Claude</b>\u{202e}",
        vouched_by: None,
        redirect_uri: "https://a.example/cb?\"><script>",
        resource: "https://gate.example/mcp",
        pending: "cs_pending_x.y",
    };

    #[test]
    fn what_a_client_says_is_no_markup_and_hides_nothing() {
        let page = consent_page(&CONSENT, "ann@acme");
        assert!(!page.contains("<b>Claude") && !page.contains("<script>"), "{page}");
        assert!(!page.contains('\u{202e}'));
        assert!(page.contains("nobody checked it"));
        let vouched = Consent { vouched_by: Some("claude.ai"), ..CONSENT };
        assert!(consent_page(&vouched, "ann@acme").contains("as claude.ai says"));
    }

    #[test]
    fn the_forms_redirect_is_allowed_and_nothing_else() {
        let policy = |destination: &str| {
            let headers = consent_headers(destination);
            assert!(headers.iter().all(|(name, _)| *name != "cross-origin-opener-policy"));
            headers.into_iter().find(|(name, _)| *name == "content-security-policy").unwrap().1
        };
        assert!(policy("https://a.example").contains("form-action 'self' https://a.example;"));
        assert!(policy("cursor:").contains("form-action 'self' cursor:;"));
        assert!(policy("http://[::1]:3000").contains("form-action 'self' http://[::1]:3000;"));
        assert!(policy("https://a.example; script-src *").contains("form-action 'self';"));
        assert!(policy("").contains("form-action 'self';"));
    }
}
