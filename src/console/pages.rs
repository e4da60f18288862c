//! The pages: views in, HTML out.
//!
//! Every page works without JavaScript; with it, it follows what happens. Text from programs, tools,
//! clients and documents is never taken as markup: it goes through [`text::visible`] and is labelled
//! as theirs. No page carries a secret, and opening one never decides anything.

mod approval;
mod assets;
mod consent;
mod edit;
mod grants;
mod history;
mod json;
mod markup;
mod program;
mod question;
pub mod text;

use askama::Template;

pub use approval::{Notice, approval_page, bad_answer_page, conflict_page, refused_page};
pub use assets::{Asset, asset, page_headers};
pub use consent::{Consent, consent_headers, consent_page};
pub use grants::grants_page;
pub use history::history_page;
use markup::{Html, inline};

/// What all pages have in common.
struct Frame {
    css: &'static str,
    js: &'static str,
    icon: &'static str,
    person: Option<Html>,
}

impl Frame {
    fn new(person: Option<&str>) -> Self {
        let [css, js, icon] = assets::paths();
        Self { css, js, icon, person: person.map(inline) }
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

/// One way to connect.
struct Way {
    client: &'static str,
    hint: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomeTemplate {
    frame: Frame,
    endpoint: String,
    loader_missing: bool,
    ways: Vec<Way>,
}

/// How to connect. `origin` is the gateway's own; `loader_missing`: there is no Worker Loader binding.
#[must_use]
pub fn home_page(origin: &str, person: &str, loader_missing: bool) -> String {
    let endpoint = format!("{}/mcp", origin.trim_end_matches('/'));
    let ways = vec![
        Way {
            client: "Claude Code",
            hint: "Run this once; add --scope user to have it in every project.",
            text: format!("claude mcp add --transport http countersign {endpoint}"),
        },
        Way {
            client: "VS Code",
            hint: "Put this into .vscode/mcp.json.",
            text: format!(
                "{{\n  \"servers\": {{\n    \"countersign\": {{\n      \"type\": \"http\",\n      \"url\": \"{endpoint}\"\n    }}\n  }}\n}}"
            ),
        },
        Way {
            client: "Cursor",
            hint: "Put this into .cursor/mcp.json of a project, or into ~/.cursor/mcp.json for all.",
            text: format!(
                "{{\n  \"mcpServers\": {{\n    \"countersign\": {{\n      \"url\": \"{endpoint}\"\n    }}\n  }}\n}}"
            ),
        },
        Way {
            client: "MCP Inspector",
            hint: "Lists the tools on the command line; leave out --cli and what follows the address for the Inspector's page.",
            text: format!("npx @modelcontextprotocol/inspector --cli {endpoint} --transport http --method tools/list"),
        },
        Way {
            client: "TypeScript SDK",
            hint: "From a program, with the package @modelcontextprotocol/sdk.",
            text: format!(
                "import {{ Client }} from \"@modelcontextprotocol/sdk/client/index.js\";\n\
                 import {{ StreamableHTTPClientTransport }} from \"@modelcontextprotocol/sdk/client/streamableHttp.js\";\n\n\
                 const client = new Client({{ name: \"my-program\", version: \"1.0.0\" }});\n\
                 await client.connect(new StreamableHTTPClientTransport(new URL(\"{endpoint}\")));\n\
                 console.log(await client.listTools());"
            ),
        },
    ];
    render(&HomeTemplate { frame: Frame::new(Some(person)), endpoint, loader_missing, ways })
}

#[cfg(test)]
mod tests;
