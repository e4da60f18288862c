//! The pages: views in, HTML out.
//!
//! Every page works without JavaScript; with it, it follows what happens. Text from programs, tools,
//! clients and documents is never taken as markup: it goes through [`text::visible`] and is labelled
//! as theirs. No page carries a secret, and opening one never decides anything.

mod answer;
mod approval;
mod assets;
mod catalog;
mod connect;
mod consent;
mod edit;
mod grants;
mod history;
mod inbox;
mod json;
mod keys;
mod markup;
mod program;
mod programs;
mod question;
pub mod text;

use askama::Template;

pub use approval::{Notice, approval_page, bad_answer_page, conflict_page, refused_page};
pub use assets::{Asset, asset, page_headers};
pub use catalog::{ToolsQuery, source_page, sources_page, tool_page, toolkits_page, tools_page};
pub use connect::{Connection, Credential, home_page};
pub use consent::{Consent, consent_headers, consent_page};
pub use grants::grants_page;
pub use history::history_page;
pub use inbox::{InboxQuery, PAGE as INBOX_PAGE, inbox_page};
pub use keys::{KeyForm, key_page, keys_page};
use markup::{Html, inline};
pub use programs::{PAGE as PROGRAMS_PAGE, ProgramsQuery, programs_page};

/// What all pages have in common.
struct Frame {
    css: &'static str,
    js: &'static str,
    icon: &'static str,
    person: Option<Html>,
    /// The path of the place in the navigation that the page is; empty where it is none of them.
    here: &'static str,
}

/// The places of the console, with their paths.
const PLACES: [(&str, &str); 7] = [
    ("/approvals", "Approvals"),
    ("/history", "History"),
    ("/tools", "Tools"),
    ("/sources", "Sources"),
    ("/toolkits", "Rules"),
    ("/keys", "Keys"),
    ("/", "Connect"),
];

impl Frame {
    fn new(person: Option<&str>) -> Self {
        let [css, js, icon] = assets::paths();
        Self { css, js, icon, person: person.map(inline), here: "" }
    }

    /// The frame of a page that is a place of the navigation.
    fn at(here: &'static str, person: &str) -> Self {
        Self { here, ..Self::new(Some(person)) }
    }

    fn places(&self) -> &'static [(&'static str, &'static str)] {
        if self.person.is_some() { &PLACES } else { &[] }
    }
}

/// Renders a template. A failed rendering leaves a page that says so: it cannot leave half a form.
fn render(template: &impl Template) -> String {
    template.render().unwrap_or_else(|_| {
        "<!doctype html><html lang=\"en\"><title>Countersign</title><p>The page could not be written. Reload it.</p></html>"
            .to_owned()
    })
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessageTemplate<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
    status: u16,
}

/// A page for what cannot be shown: `text` says what to do. `status` is the answer's HTTP status.
#[must_use]
pub fn message_page(title: &str, text: &str, status: u16) -> String {
    render(&MessageTemplate { frame: Frame::new(None), title, text, status })
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInTemplate<'a> {
    frame: Frame,
    current: &'a str,
    return_to: &'a str,
    problem: Option<&'a str>,
}

/// Development mode's sign-in: a form that posts `account` and `return_to` to `/sign-in`.
#[must_use]
pub fn sign_in_page(current: &str, return_to: &str, problem: Option<&str>) -> String {
    render(&SignInTemplate { frame: Frame::new(None), current, return_to: local_path(return_to), problem })
}

#[derive(Template)]
#[template(path = "owner.html")]
struct OwnerTemplate<'a> {
    frame: Frame,
    return_to: &'a str,
    problem: Option<&'a str>,
}

/// The owner's sign-in: a form that posts `passphrase` and `return_to` to `/sign-in`.
#[must_use]
pub fn owner_page(return_to: &str, problem: Option<&str>) -> String {
    render(&OwnerTemplate { frame: Frame::new(None), return_to: local_path(return_to), problem })
}

#[derive(Template)]
#[template(path = "sign_out.html")]
struct SignOutTemplate {
    frame: Frame,
}

/// Asks whether to sign out: a link alone must not do it, because any page could have one.
#[must_use]
pub fn sign_out_page() -> String {
    render(&SignOutTemplate { frame: Frame::new(None) })
}

/// The path when it leads to a page of this gateway, else `/`: a link must not send a person who signed in elsewhere.
#[must_use]
pub fn local_path(path: &str) -> &str {
    let outside = path.starts_with("//") || path.contains('\\') || path.contains(char::is_control);
    if path.starts_with('/') && !outside { path } else { "/" }
}

#[cfg(test)]
mod tests;
