//! The console's routes: who may see a page, what is asked for it, and the forms for keys. What is shown comes from the
//! administration API's own operations, so a page never says anything else than the API does.

use serde_json::json;
use worker::{Method, Request, Response};

use super::admin_api::{Asks, check_key_maker, perform};
use super::entry::{Edge, api_error};
use super::http::header;
use super::pages::{
    Fields, THIS_FORM, Visit, error_page, field, from_page, message, name_of, not_signed_in, page as html_page, person,
    redirect, visit,
};
use super::platform::{log_failure, platform_failure};
use super::sandbox::has_loader;
use crate::auth::Principal;
use crate::console::pages as html;
use crate::internal::{AdminAnswer, Via};
use crate::json::sha256_hex;
use crate::organization::route::AdminCall;
use crate::protocol::errors::WireError;
use crate::protocol::text::bounded;
use crate::session::ToolMode;

/// Characters of a parameter that a page takes.
const PARAMETER: usize = 3_000;
/// Items of a page of keys, sources and toolkits.
const ITEMS: usize = 50;

/// `GET /`
pub(super) async fn home(request: &Request, edge: &Edge<'_>) -> worker::Result<Response> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return api_error(&WireError::method_not_allowed());
    }
    let person = match person(request, edge).await {
        Ok(person) => person,
        Err(error) => return not_signed_in(request, edge, &error),
    };
    let auth = &edge.settings.auth;
    let has_sign_in = auth.oauth().is_some() || auth.oidc().is_some() || auth.access().is_some();
    let connection = html::Connection {
        origin: &edge.origin,
        person: &name_of(&person),
        admin: person.administers(),
        loader_missing: !has_loader(edge.env),
        direct: edge.settings.default_tool_mode == ToolMode::Direct,
        credential: match auth.dev() {
            Some(dev) if !dev.require_token => html::Credential::Nothing,
            Some(_) | None if has_sign_in => html::Credential::SignIn,
            Some(_) | None => html::Credential::Bearer,
        },
        keys: auth.has_keys(),
        development: auth.dev().is_some(),
    };
    html_page(200, html::home_page(&connection))
}

/// The other places of the console.
pub(super) async fn page(mut request: Request, edge: &Edge<'_>, segments: &[&str]) -> worker::Result<Response> {
    let person = match person(&request, edge).await {
        Ok(person) => person,
        Err(error) => return not_signed_in(&request, edge, &error),
    };
    let looks = matches!(request.method(), Method::Get | Method::Head);
    let place = Place { edge, person: &person, name: name_of(&person) };
    match segments {
        ["keys"] if person.administers() => match visit(&mut request, edge, THIS_FORM).await? {
            Visit::Looks => place.keys(html::KeyForm::default(), 200).await,
            Visit::Sends(fields) => place.change_keys(&fields).await,
            Visit::Refused(response) => Ok(response),
        },
        ["approvals" | "history" | "sources" | "tools" | "toolkits"] | ["sources" | "tools", _] if !looks => {
            api_error(&WireError::method_not_allowed())
        }
        ["approvals"] => place.inbox(&request).await,
        ["sources" | "tools" | "toolkits" | "keys"] | ["sources" | "tools", _] if !person.administers() => message(
            403,
            "For administrators",
            "This part of the console is for administrators of the organization. Ask one of them for the role.",
        ),
        ["history"] => place.history().await,
        ["sources"] => place.list("sources", html::sources_page).await,
        ["sources", slug] => place.one(&format!("sources/{slug}"), html::source_page).await,
        ["tools"] => place.tools().await,
        ["tools", address] => place.one(&format!("tools/{address}"), html::tool_page).await,
        ["toolkits"] => place.toolkits().await,
        _ => message(404, "Not here", "There is no such page."),
    }
}

/// What a page has to know.
struct Place<'a> {
    edge: &'a Edge<'a>,
    person: &'a Principal,
    name: String,
}

/// An answer of the administration API that a page can be made of, or the page that says why not.
type Asked = Result<AdminAnswer, Response>;

impl Place<'_> {
    fn parameter(&self, name: &str) -> Option<String> {
        let text = self.edge.url.parameter(name)?;
        (!text.is_empty()).then(|| bounded(&text, PARAMETER))
    }

    /// Asks what the administration API would be asked. Whether the person may ask it, the caller has checked.
    async fn ask(&self, method: &str, path: &str, query: &[(&str, String)], body: String) -> worker::Result<Asked> {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let call = AdminCall { method: method.to_owned(), path: path.to_owned(), query, body };
        let principal = self.person;
        if let Err(fault) = check_key_maker(self.edge, principal, &call) {
            return Ok(Ok(AdminAnswer::fault(&fault)));
        }
        let asks = Asks { env: self.edge.env, settings: &self.edge.settings, principal, via: Via::Api };
        match perform(&asks, call).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) => {
                log_failure("organization/console", &platform_failure(&error));
                error_page(&WireError::storage_unavailable()).map(Err)
            }
        }
    }

    /// The same for reading, where whatever is not found or cannot be read is a page of its own.
    async fn read(&self, path: &str, query: &[(&str, String)]) -> worker::Result<Asked> {
        match self.ask("GET", path, query, String::new()).await? {
            Ok(answer) if answer.status == 200 => Ok(Ok(answer)),
            Ok(answer) => {
                let title = if answer.status == 404 { "Not here" } else { "That cannot be shown" };
                message(answer.status, title, problem_of(&answer)).map(Err)
            }
            Err(response) => Ok(Err(response)),
        }
    }

    fn page_query(&self, limit: usize) -> Vec<(&'static str, String)> {
        let cursor = self.parameter("cursor").map(|cursor| ("cursor", cursor));
        cursor.into_iter().chain([("limit", limit.to_string())]).collect()
    }

    /// `/approvals`: an administrator sees what waits in the whole organization, everybody else their own, and what any member may
    /// decide for others.
    async fn inbox(&self, request: &Request) -> worker::Result<Response> {
        let admin = self.person.administers();
        let mine = self.parameter("mine").is_some();
        let mut query = self.page_query(html::INBOX_PAGE);
        if mine || !admin {
            query.push(("account", self.person.account.clone()));
            query.push(("others", (!mine).to_string()));
        }
        let answer = match self.read("approvals", &query).await? {
            Ok(answer) => answer,
            Err(response) => return Ok(response),
        };
        let cursor = self.parameter("cursor");
        let shown = format!("{}\n{admin}\n{mine}\n{cursor:?}\n{}", self.name, answer.body);
        let version = bounded(&sha256_hex(shown.as_bytes()), 32);
        let asked = html::InboxQuery { admin, mine, cursor: cursor.as_deref() };
        answer_if_changed(request, &version, || html::inbox_page(&answer.body, asked, &self.name, &version))
    }

    /// `/history`: an administrator sees the programs of the whole organization, everybody else their own.
    async fn history(&self) -> worker::Result<Response> {
        let admin = self.person.administers();
        let [account, status, tool, from, to] =
            ["account", "status", "tool", "from", "to"].map(|name| self.parameter(name).unwrap_or_default());
        let whose = if admin { account.clone() } else { self.person.account.clone() };
        let mut query = self.page_query(html::PROGRAMS_PAGE);
        // The last day counts to its end.
        let until = if to.len() == 10 { format!("{to}T23:59:59.999Z") } else { to.clone() };
        query.extend([
            ("account", whose),
            ("status", status.clone()),
            ("tool", tool.clone()),
            ("since", from.clone()),
            ("until", until),
        ]);
        let asked = html::ProgramsQuery {
            admin,
            own: &self.person.account,
            account: &account,
            status: &status,
            tool: &tool,
            from: &from,
            to: &to,
            later: self.parameter("cursor").is_some(),
        };
        match self.read("programs", &query).await? {
            Ok(answer) => html_page(200, html::programs_page(&answer.body, asked, &self.name)),
            Err(response) => Ok(response),
        }
    }

    async fn list(&self, path: &str, render: impl Fn(&serde_json::Value, &str) -> String) -> worker::Result<Response> {
        match self.read(path, &self.page_query(ITEMS)).await? {
            Ok(answer) => html_page(200, render(&answer.body, &self.name)),
            Err(response) => Ok(response),
        }
    }

    async fn one(&self, path: &str, render: impl Fn(&serde_json::Value, &str) -> String) -> worker::Result<Response> {
        match self.read(path, &[]).await? {
            Ok(answer) => html_page(200, render(&answer.body, &self.name)),
            Err(response) => Ok(response),
        }
    }

    async fn tools(&self) -> worker::Result<Response> {
        let (words, source) =
            (self.parameter("query").unwrap_or_default(), self.parameter("source").unwrap_or_default());
        let mut query = self.page_query(20);
        query.extend([("query", words.clone()), ("source", source.clone())]);
        let asked = html::ToolsQuery { query: &words, source: &source, later: self.parameter("cursor").is_some() };
        match self.read("tools", &query).await? {
            Ok(answer) => html_page(200, html::tools_page(&answer.body, asked, &self.name)),
            Err(response) => Ok(response),
        }
    }

    async fn toolkits(&self) -> worker::Result<Response> {
        let policies = match self.read("policies", &[]).await? {
            Ok(answer) => answer,
            Err(response) => return Ok(response),
        };
        let render = |toolkits: &serde_json::Value, name: &str| {
            html::toolkits_page(&policies.body, toolkits, &self.edge.origin, name)
        };
        self.list("toolkits", render).await
    }

    async fn keys(&self, form: html::KeyForm<'_>, status: u16) -> worker::Result<Response> {
        match self.read("keys", &self.page_query(ITEMS)).await? {
            Ok(answer) => {
                html_page(status, html::keys_page(&answer.body, form, self.edge.settings.auth.has_keys(), &self.name))
            }
            Err(response) => Ok(response),
        }
    }

    /// The forms of `/keys`. A key that was made is in the answer itself: it must not be in a URL.
    async fn change_keys(&self, fields: &Fields) -> worker::Result<Response> {
        let entered = |name: &str| field(fields, name).unwrap_or_default().trim();
        match entered("action") {
            "create" => {
                let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
                let until = entered("until");
                let asked = json!({
                    "name": entered("name"),
                    "purpose": entered("purpose"),
                    "account": optional(entered("account")),
                    "expiresAt": optional(until).map(|day| format!("{day}T23:59:59Z")),
                });
                let answer = match self.ask("POST", "keys", &[], asked.to_string()).await? {
                    Ok(answer) => answer,
                    Err(response) => return Ok(response),
                };
                if answer.status == 201 {
                    return html_page(201, html::key_page(&answer.body, &self.name));
                }
                let form = html::KeyForm {
                    name: entered("name"),
                    purpose: entered("purpose"),
                    account: entered("account"),
                    until,
                    problem: Some(problem_of(&answer)),
                };
                self.keys(form, answer.status).await
            }
            "revoke" => {
                let id = entered("id");
                if !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    return message(404, "Not here", "There is no such key.");
                }
                match self.ask("DELETE", &format!("keys/{id}"), &[], String::new()).await? {
                    Ok(answer) if answer.status == 200 => redirect("/keys"),
                    Ok(answer) => message(answer.status, "Not here", problem_of(&answer)),
                    Err(response) => Ok(response),
                }
            }
            _ => message(400, "That cannot be done", "The form was incomplete. Go back and try again."),
        }
    }
}

/// Why the administration API refused.
fn problem_of(answer: &AdminAnswer) -> &str {
    let message = answer.body.pointer("/error/message").and_then(serde_json::Value::as_str);
    message.unwrap_or("Something failed; try again.")
}

/// A page with an `ETag`, or 304 where the browser has it as it is (RFC 9110, section 13.1.2). No cache keeps it: the page's own
/// script asks again.
fn answer_if_changed(request: &Request, version: &str, render: impl FnOnce() -> String) -> worker::Result<Response> {
    let tag = format!("\"{version}\"");
    let known = header(request.headers(), "if-none-match").is_some_and(|known| known == tag);
    let response =
        if known { from_page(304, String::new(), &html::page_headers())? } else { html_page(200, render())? };
    response.headers().set("etag", &tag)?;
    Ok(response)
}
