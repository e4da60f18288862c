//! The pages' routes: reads forms, asks the session object, renders.

use serde_json::Value;
use worker::{Method, Request, Response, ResponseBuilder};

use super::approval_api::{
    DECISION_LIMIT, REASON_LIMIT, Sent, Stopped, from_own_page, load, load_history, problem_text, send_decision,
    send_stop,
};
use super::authentication;
use super::entry::{Edge, api_error};
use super::http::{form_fields, header, is_form, read_body};
use crate::approval::Verdict;
use crate::auth::{DEV_COOKIE, Principal, Purpose, parse_dev_account};
use crate::console::pages as html;
use crate::internal::{DecisionOnAll, DecisionOnCall, DecisionRequest, SentArguments, SentField, SentGrant};
use crate::protocol::errors::WireError;

pub(super) fn page(status: u16, body: String) -> worker::Result<Response> {
    from_page(status, body, &html::page_headers())
}

/// A page that may have been opened by a client's page, which waits for it as its opener: a sign-in.
pub(super) fn plain_page(status: u16, body: String) -> worker::Result<Response> {
    from_page(status, body, &html::consent_headers(""))
}

/// A page with headers of its own.
pub(super) fn from_page(status: u16, body: String, headers: &[(&'static str, String)]) -> worker::Result<Response> {
    let mut builder = ResponseBuilder::new().with_status(status);
    for (name, value) in headers {
        builder = builder.with_header(name, value)?;
    }
    Ok(builder.fixed(body.into_bytes()))
}

pub(super) fn message(status: u16, title: &str, text: &str) -> worker::Result<Response> {
    page(status, html::message_page(title, text, status))
}

pub(super) fn error_page(error: &WireError) -> worker::Result<Response> {
    let title = match error.status {
        400 => "That cannot be done",
        401 => "Sign in first",
        403 => "Not yours to decide",
        429 => "Too many attempts",
        404 => "Not here",
        _ => "Try again in a moment",
    };
    message(error.status, title, &error.message)
}

pub(super) fn redirect(to: &str) -> worker::Result<Response> {
    Ok(ResponseBuilder::new()
        .with_status(303)
        .with_header("location", to)?
        .with_header("cache-control", "no-store")?
        .with_header("referrer-policy", "no-referrer")?
        .empty())
}

/// The person in the browser. A bearer on a page is a program's, and a program does not decide here.
pub(super) async fn person(request: &Request, edge: &Edge<'_>) -> Result<Principal, WireError> {
    if header(request.headers(), "authorization").is_none() {
        return authentication::person(edge, request.headers()).await.map_err(|refusal| refusal.error());
    }
    match authentication::program(edge, request.headers()).await {
        Ok(principal) if principal.purpose == Purpose::Approve => Ok(principal),
        Ok(_) => Err(WireError::forbidden("This credential calls tools; it does not see or decide approvals.")),
        Err(refusal) => Err(refusal.error()),
    }
}

/// Nobody is signed in: the way there for somebody who wants to see a page, which comes back to it.
pub(super) fn not_signed_in(request: &Request, edge: &Edge<'_>, error: &WireError) -> worker::Result<Response> {
    if error.status != 401 || request.method() != Method::Get || header(request.headers(), "authorization").is_some() {
        return error_page(error);
    }
    let query = edge.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let here = format!("{}{query}", edge.url.path());
    let return_to: String = url::form_urlencoded::byte_serialize(here.as_bytes()).collect();
    redirect(&format!("/sign-in?return_to={return_to}"))
}

pub(super) fn name_of(person: &Principal) -> String {
    format!("{}@{}", person.account, person.organization)
}

/// `GET /assets/…`
pub(super) fn asset(path: &str) -> worker::Result<Response> {
    match html::asset(path) {
        Some(asset) => Ok(ResponseBuilder::new()
            .with_header("content-type", asset.content_type)?
            .with_header("cache-control", asset.cache_control)?
            .with_header("x-content-type-options", "nosniff")?
            .fixed(asset.body.as_bytes().to_vec())),
        None => api_error(&WireError::no_such_route()),
    }
}

/// `GET` and `POST /sign-in`, in development mode.
pub(super) async fn dev_sign_in(mut request: Request, edge: &Edge<'_>) -> worker::Result<Response> {
    let current = match authentication::person(edge, request.headers()).await {
        Ok(person) => name_of(&person),
        Err(_) => String::new(),
    };
    if request.method() == Method::Get {
        return page(200, html::sign_in_page(&current, &authentication::return_to(edge), None));
    }
    if request.method() != Method::Post {
        return api_error(&WireError::method_not_allowed());
    }
    let fields = match own_form(&mut request, edge, THIS_FORM).await? {
        Ok(fields) => fields,
        Err(response) => return Ok(response),
    };
    let return_to = html::local_path(field(&fields, "return_to").unwrap_or_default()).to_owned();
    let account = field(&fields, "account").unwrap_or_default().trim();
    if parse_dev_account(account).is_none() {
        let problem = "Write an account as name@organization: letters, digits, dots, dashes, underscores.";
        return page(400, html::sign_in_page(&current, &return_to, Some(problem)));
    }
    let response = redirect(&return_to)?;
    let secure = if edge.origin.starts_with("https:") { "; Secure" } else { "" };
    response
        .headers()
        .set("set-cookie", &format!("{DEV_COOKIE}={account}; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400{secure}"))?;
    Ok(response)
}

/// `GET` and `POST /resume/<executionId>?mcp_session_id=<id>`
pub(super) async fn approval(mut request: Request, edge: &Edge<'_>, execution: &str) -> worker::Result<Response> {
    let session = edge.url.parameter("mcp_session_id").unwrap_or_default();
    let person = match person(&request, edge).await {
        Ok(person) => person,
        Err(error) => return not_signed_in(&request, edge, &error),
    };
    let name = name_of(&person);
    match visit(&mut request, edge, "A decision has").await? {
        Visit::Looks => match load(edge, person, &session, execution).await? {
            Ok(view) => page(200, html::approval_page(&view, &name, None)),
            Err(error) => error_page(&error),
        },
        Visit::Sends(fields) => {
            let Some(asked) = decision_of(&fields) else {
                // Show again what there is to choose.
                let chose_items = field(&fields, "action") == Some("items");
                let notice = if chose_items { html::Notice::NothingChosen } else { html::Notice::BadForm };
                return match load(edge, person, &session, execution).await? {
                    Ok(view) => page(400, html::approval_page(&view, &name, Some(notice))),
                    Err(error) => error_page(&error),
                };
            };
            match send_decision(edge, person, &session, execution, &asked).await? {
                Sent::Decided(view) => {
                    redirect(&format!("/resume/{}?mcp_session_id={}", view.execution_id, view.session_id))
                }
                Sent::Refused { status: 400, problem, view } if was_written_wrong(&problem) => {
                    page(400, html::bad_answer_page(&view, &name, &problem_text(&problem), &fields))
                }
                Sent::Refused { status: 400, problem, .. } => {
                    message(400, "That cannot be done", &problem_text(&problem))
                }
                Sent::Refused { status: 403, problem, view } => {
                    page(403, html::refused_page(&view, &name, &problem_text(&problem)))
                }
                Sent::Refused { status, view, .. } => page(status, html::conflict_page(&view, &name)),
                Sent::Failed(error) => error_page(&error),
            }
        }
        Visit::Refused(response) => Ok(response),
    }
}

/// Whether a decision was refused because of what the person wrote into the form.
fn was_written_wrong(problem: &Value) -> bool {
    let code = problem.get("code").and_then(Value::as_str);
    matches!(code, Some("bad_answer" | "bad_arguments" | "no_grant"))
}

/// `GET` and `POST /sessions/<id>`: what the programs of a session did; the form stops one.
pub(super) async fn history(mut request: Request, edge: &Edge<'_>, session: &str) -> worker::Result<Response> {
    let person = match person(&request, edge).await {
        Ok(person) => person,
        Err(error) => return not_signed_in(&request, edge, &error),
    };
    let name = name_of(&person);
    match visit(&mut request, edge, THIS_FORM).await? {
        Visit::Looks => match load_history(edge, person, session).await? {
            Ok(view) => page(200, html::history_page(session, &view, &name)),
            Err(error) => error_page(&error),
        },
        Visit::Sends(fields) => {
            let (Some("stop"), Some(execution)) = (field(&fields, "action"), field(&fields, "execution")) else {
                return message(400, "That cannot be done", "The form was incomplete. Go back and try again.");
            };
            match send_stop(edge, person, session, execution, None).await? {
                // One that had ended already is shown as that.
                Stopped::Done | Stopped::Refused { .. } => redirect(&format!("/sessions/{session}")),
                Stopped::Failed(error) => error_page(&error),
            }
        }
        Visit::Refused(response) => Ok(response),
    }
}

pub(super) type Fields = Vec<(String, String)>;

/// What a browser does with a page that has a form.
pub(super) enum Visit {
    /// It looks at it.
    Looks,
    /// It sends the form.
    Sends(Fields),
    /// Neither, or not from here: this is the answer.
    Refused(Response),
}

/// What comes from elsewhere, as the beginning of a sentence.
pub(super) const THIS_FORM: &str = "This form has";

/// `what` is what has to come from the gateway's own page, such as [`THIS_FORM`].
pub(super) async fn visit(request: &mut Request, edge: &Edge<'_>, what: &str) -> worker::Result<Visit> {
    Ok(match request.method() {
        Method::Get | Method::Head => Visit::Looks,
        Method::Post => match own_form(request, edge, what).await? {
            Ok(fields) => Visit::Sends(fields),
            Err(response) => Visit::Refused(response),
        },
        Method::Put
        | Method::Patch
        | Method::Delete
        | Method::Options
        | Method::Connect
        | Method::Trace
        | Method::Report => Visit::Refused(api_error(&WireError::method_not_allowed())?),
    })
}

/// The fields of a form that one of the gateway's own pages sent; or the answer to any other.
async fn own_form(request: &mut Request, edge: &Edge<'_>, what: &str) -> worker::Result<Result<Fields, Response>> {
    if !from_own_page(request, edge) {
        let text = format!("{what} to be sent from the gateway's own page.");
        return message(403, "Not from here", &text).map(Err);
    }
    match read_form(request).await {
        Ok(fields) => Ok(Ok(fields)),
        Err(error) => error_page(&error).map(Err),
    }
}

async fn read_form(request: &mut Request) -> Result<Fields, WireError> {
    if !is_form(request) {
        return Err(WireError::bad_request("The form was not sent as a form."));
    }
    let bytes = read_body(request, DECISION_LIMIT).await.map_err(|_| WireError::body_too_large(DECISION_LIMIT))?;
    Ok(form_fields(&bytes))
}

pub(super) fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn reason_of(fields: &Fields, name: &str) -> Option<String> {
    let text: String = field(fields, name)?.trim().chars().take(REASON_LIMIT).collect();
    (!text.is_empty()).then_some(text)
}

/// What a form decides; `None` where nothing was chosen.
fn decision_of(fields: &Fields) -> Option<DecisionRequest> {
    // A form has one answer; two of them are nobody's.
    if fields.iter().filter(|(name, _)| name == "action").count() != 1 {
        return None;
    }
    let action = field(fields, "action").unwrap_or_default();
    if let Some(verdict) = Verdict::parse(action) {
        let digest = field(fields, "digest").unwrap_or_default().to_owned();
        let reason = reason_of(fields, "reason");
        let all = DecisionOnAll { digest, verdict, reason, content: None };
        let form = Some(sent_fields(fields));
        return Some(DecisionRequest {
            all: Some(all),
            items: Vec::new(),
            form,
            edits: sent_arguments(fields),
            grants: sent_grants(fields),
        });
    }
    if action != "items" {
        return None;
    }
    let mut items = Vec::new();
    for (name, value) in fields {
        let Some(call) = name.strip_prefix("choice-").and_then(|call| call.parse::<u32>().ok()) else {
            continue;
        };
        let Some(verdict) = Verdict::parse(value) else {
            continue;
        };
        items.push(DecisionOnCall {
            call,
            digest: field(fields, &format!("digest-{call}")).unwrap_or_default().to_owned(),
            verdict,
            reason: reason_of(fields, &format!("reason-{call}")).or_else(|| reason_of(fields, "reason")),
            content: None,
        });
    }
    let (form, edits, grants) = (Some(sent_fields(fields)), sent_arguments(fields), sent_grants(fields));
    (!items.is_empty()).then_some(DecisionRequest { all: None, items, form, edits, grants })
}

/// What the person made of arguments: `arguments-<call>`.
fn sent_arguments(fields: &Fields) -> Vec<SentArguments> {
    let sent = |(name, text): &(String, String)| {
        let call = name.strip_prefix("arguments-")?.parse().ok()?;
        Some(SentArguments { call: Some(call), text: text.clone() })
    };
    fields.iter().filter_map(sent).collect()
}

/// What the person allows beyond the calls: `grant-<call>` is `session`, or a number of hours.
fn sent_grants(fields: &Fields) -> Vec<SentGrant> {
    let sent = |(name, text): &(String, String)| {
        let call = name.strip_prefix("grant-")?.parse().ok()?;
        let hours = if text == "session" { None } else { Some(text.parse().ok()?) };
        Some(SentGrant { call: Some(call), hours })
    };
    fields.iter().filter_map(sent).collect()
}

/// The fields of what tools ask: `field-<call>-<place>`.
fn sent_fields(fields: &Fields) -> Vec<SentField> {
    let sent = |(name, text): &(String, String)| {
        let (call, place) = name.strip_prefix("field-")?.split_once('-')?;
        Some(SentField { call: call.parse().ok()?, place: place.parse().ok()?, text: text.clone() })
    };
    fields.iter().filter_map(sent).collect()
}
