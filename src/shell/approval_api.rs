//! The approval API, for programs that hold an `approve` credential and for the page's own script.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use worker::{Headers, Method, Request, Response, ResponseBuilder, Stub};

use super::authentication::{ACCESS_HEADER, has_browser_cookie, person, program};
use super::entry::{Edge, api_error, context_of};
use super::http::{header, json_response, read_body};
use super::mcp_edge::{ask_session, session_stub};
use crate::approval::Verdict;
use crate::auth::{Principal, Purpose};
use crate::console::approval::{ApprovalView, ItemState, PauseState};
use crate::internal::{
    DecisionOnAll, DecisionOnCall, DecisionRequest, Operation, SentArguments, SentGrant, StopRequest,
};
use crate::organization::grant::HOURS_MOST;
use crate::protocol::errors::WireError;
use crate::protocol::text::bounded;
use crate::session::id::ExecutionId;

/// Bytes of a decision.
pub(super) const DECISION_LIMIT: usize = 256 << 10;
/// Characters of a reason.
pub(super) const REASON_LIMIT: usize = 2_000;

/// `GET /api/mcp-sessions/<sid>/executions/<eid>`
pub(super) async fn read(
    request: &Request,
    edge: &Edge<'_>,
    session: &str,
    execution: &str,
) -> worker::Result<Response> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return method_not_allowed("GET");
    }
    let principal = match who_reads(request, edge).await {
        Ok(principal) => principal,
        Err(error) => return refuse(&error),
    };
    match load(edge, principal, session, execution).await? {
        Ok(view) => {
            json_response(200, &json!({ "status": "ok", "text": summary(&view), "structured": structured(&view) }))
        }
        Err(error) => refuse(&error),
    }
}

/// `GET /api/mcp-sessions/<sid>/executions[?after=…]`: newest first; `next` of one page is `after` of the following one.
pub(super) async fn history(request: &Request, edge: &Edge<'_>, session: &str) -> worker::Result<Response> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return method_not_allowed("GET");
    }
    let principal = match who_reads(request, edge).await {
        Ok(principal) => principal,
        Err(error) => return refuse(&error),
    };
    match load_history::<Value>(edge, principal, session).await? {
        Ok(page) => json_response(200, &json!({ "status": "ok", "structured": page })),
        Err(error) => refuse(&error),
    }
}

/// `POST /api/mcp-sessions/<sid>/executions/<eid>/resume`
pub(super) async fn decide(
    mut request: Request,
    edge: &Edge<'_>,
    session: &str,
    execution: &str,
) -> worker::Result<Response> {
    if request.method() != Method::Post {
        return method_not_allowed("POST");
    }
    let principal = match who_decides(&request, edge).await {
        Ok(principal) => principal,
        Err(error) => return refuse(&error),
    };
    let Ok(body) = read_body(&mut request, DECISION_LIMIT).await else {
        return refuse(&WireError::body_too_large(DECISION_LIMIT));
    };
    let asked = match parse_decision(&body) {
        Ok(asked) => asked,
        Err(message) => return refuse(&WireError::bad_request(message)),
    };
    let verdicts: Vec<Verdict> = match &asked.all {
        Some(all) => vec![all.verdict],
        None => asked.items.iter().map(|item| item.verdict).collect(),
    };
    if is_own_id(execution) {
        let reason = match &asked.all {
            Some(all) if all.verdict == Verdict::Cancel => all.reason.clone(),
            _ => {
                let message = "The id of an execution names no question: only cancel is possible. Decide with the \
                     executionId of a pause.";
                return refuse(&WireError::bad_request(message));
            }
        };
        return match send_stop(edge, principal, session, execution, reason).await? {
            Stopped::Done => json_response(
                200,
                &json!({
                    "status": "ok",
                    "executionStatus": "completed",
                    "text": "Decided (canceled).",
                    "structured": { "status": "canceled", "executionId": execution },
                    "isError": false,
                }),
            ),
            Stopped::Refused { status, problem } => refuse_with(status, &problem),
            Stopped::Failed(error) => refuse(&error),
        };
    }
    match send_decision(edge, principal, session, execution, &asked).await? {
        Sent::Decided(view) => {
            let status = match verdicts.as_slice() {
                [first, rest @ ..] if rest.iter().all(|verdict| verdict == first) => first.past_tense(),
                _ => "mixed",
            };
            let waiting = view.waiting_count();
            let execution_status = if waiting > 0 { "paused" } else { "completed" };
            let text = if waiting > 0 {
                format!("Decided ({status}). {waiting} more wait.")
            } else {
                format!("Decided ({status}).")
            };
            json_response(
                200,
                &json!({
                    "status": "ok",
                    "executionStatus": execution_status,
                    "text": text,
                    "structured": { "status": status, "executionId": execution },
                    "isError": false,
                }),
            )
        }
        Sent::Refused { status, problem, .. } => refuse_with(status, &problem),
        Sent::Failed(error) => refuse(&error),
    }
}

/// What came of a decision.
pub(super) enum Sent {
    /// It was written.
    Decided(Box<ApprovalView>),
    /// It was not taken, and this is how things stand.
    Refused {
        /// HTTP status.
        status: u16,
        /// `code`, `message` and what the code needs.
        problem: Value,
        /// What the person is shown now.
        view: Box<ApprovalView>,
    },
    /// There is nothing to decide for this person.
    Failed(WireError),
}

/// The view of a pause for its owner.
pub(super) async fn load(
    edge: &Edge<'_>,
    principal: Principal,
    session: &str,
    execution: &str,
) -> worker::Result<Result<ApprovalView, WireError>> {
    let Some((stub, pause)) = locate(edge, session, execution) else {
        return Ok(Err(unknown()));
    };
    let told = tell(&stub, edge, principal, Operation::View { pause }, "").await?;
    if told.status != 200 {
        return Ok(Err(told.error()));
    }
    Ok(Ok(crate::json::from_str::<Position>(&told.text)?.view.ok_or_else(|| worker::Error::from("no view"))?))
}

/// Hands a decision to the session object.
pub(super) async fn send_decision(
    edge: &Edge<'_>,
    principal: Principal,
    session: &str,
    execution: &str,
    asked: &DecisionRequest,
) -> worker::Result<Sent> {
    let Some((stub, pause)) = locate(edge, session, execution) else {
        return Ok(Sent::Failed(unknown()));
    };
    let told = tell(&stub, edge, principal, Operation::Decide { pause }, &serde_json::to_string(asked)?).await?;
    let Position { view, problem } = crate::json::from_str(&told.text)?;
    Ok(match (view.map(Box::new), problem) {
        (None, _) => Sent::Failed(told.error()),
        (Some(view), None) => Sent::Decided(view),
        (Some(view), Some(problem)) => Sent::Refused { status: told.status, problem, view },
    })
}

/// What came of ending a program.
pub(super) enum Stopped {
    /// It ended.
    Done,
    /// It had ended already.
    Refused {
        /// HTTP status.
        status: u16,
        /// `code` and `message`.
        problem: Value,
    },
    /// There is no such program for this person.
    Failed(WireError),
}

/// Ends a program, by the id of the execution itself.
pub(super) async fn send_stop(
    edge: &Edge<'_>,
    principal: Principal,
    session: &str,
    execution: &str,
    reason: Option<String>,
) -> worker::Result<Stopped> {
    let Some(stub) = session_stub(edge.env, session).filter(|_| is_own_id(execution)) else {
        return Ok(Stopped::Failed(unknown()));
    };
    let operation = Operation::Stop { execution: execution.to_owned() };
    let told = tell(&stub, edge, principal, operation, &serde_json::to_string(&StopRequest { reason })?).await?;
    Ok(match crate::json::from_str::<Position>(&told.text)?.problem {
        None if told.status == 200 => Stopped::Done,
        None => Stopped::Failed(told.error()),
        Some(problem) => Stopped::Refused { status: told.status, problem },
    })
}

/// Whether a text is the id of an execution itself, which the history names, and not the `executionId` of a pause.
fn is_own_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// One page of what the programs of a session did, for its owner.
pub(super) async fn load_history<T: DeserializeOwned>(
    edge: &Edge<'_>,
    principal: Principal,
    session: &str,
) -> worker::Result<Result<T, WireError>> {
    let after = edge.url.parameter("after").map(|after| bounded(&after, 100));
    let Some(stub) = session_stub(edge.env, session) else { return Ok(Err(unknown())) };
    let told = tell(&stub, edge, principal, Operation::History { after }, "").await?;
    Ok(match told.status {
        200 => Ok(crate::json::from_str(&told.text)?),
        400 => Err(WireError::bad_request("after has to be the next of another page.")),
        _ => Err(told.error()),
    })
}

/// A session object's answer.
struct Told {
    status: u16,
    retry_after: Option<String>,
    text: String,
}

/// How a pause or a program stands, in such an answer; both are missing where it is an error.
#[derive(Deserialize)]
struct Position {
    #[serde(default)]
    view: Option<ApprovalView>,
    /// What keeps the decision from being taken.
    #[serde(default)]
    problem: Option<Value>,
}

async fn tell(
    stub: &Stub,
    edge: &Edge<'_>,
    principal: Principal,
    operation: Operation,
    body: &str,
) -> worker::Result<Told> {
    let mut response = ask_session(stub, &context_of(edge, principal, "", operation), body).await?;
    let (status, retry_after) = (response.status_code(), header(response.headers(), "retry-after"));
    Ok(Told { status, retry_after, text: response.text().await? })
}

fn locate(edge: &Edge<'_>, session: &str, execution: &str) -> Option<(Stub, String)> {
    let id = ExecutionId::parse(execution)?;
    if id.session != session {
        return None;
    }
    Some((session_stub(edge.env, session)?, id.pause))
}

fn unknown() -> WireError {
    WireError {
        message: "There is no such approval. It may have ended and been forgotten.".to_owned(),
        ..WireError::session_not_found()
    }
}

impl Told {
    fn error(&self) -> WireError {
        match self.status {
            404 => unknown(),
            403 => WireError::forbidden("This approval belongs to another account."),
            status => {
                let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
                let message =
                    body.pointer("/error/message").and_then(Value::as_str).unwrap_or("Something failed; try again.");
                let code =
                    body.pointer("/error/code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
                let retry_after = self.retry_after.as_ref().and_then(|seconds| seconds.parse().ok());
                WireError { status, code: code.unwrap_or(-32_603), message: message.to_owned(), retry_after }
            }
        }
    }
}

/// Why a credential that is not for deciding does not decide.
const DOES_NOT_DECIDE: &str =
    "This credential calls tools; it does not decide. Use the approval page, or a credential with the purpose approve.";

/// Who may see: the person in a browser, or an `approve` credential. The agent's bearer may not.
async fn who_reads(request: &Request, edge: &Edge<'_>) -> Result<Principal, WireError> {
    let headers = request.headers();
    if is_programs(headers) {
        return approver(edge, headers).await;
    }
    person(edge, headers).await.map_err(|refusal| refusal.error())
}

/// Who may decide: an `approve` credential, or a person whose browser says that the request comes
/// from the gateway's own page. A request without either could be the agent's.
async fn who_decides(request: &Request, edge: &Edge<'_>) -> Result<Principal, WireError> {
    let headers = request.headers();
    if is_programs(headers) {
        return approver(edge, headers).await;
    }
    let person = person(edge, headers).await.map_err(|refusal| refusal.error())?;
    if from_own_page(request, edge) {
        return Ok(person);
    }
    Err(WireError::forbidden(
        "A decision needs a person on the approval page (same-origin POST) or a credential with the purpose approve.",
    ))
}

/// Whether a program sent a request. Cloudflare Access vouches for both, in the same header; only a browser has cookies.
pub(super) fn is_programs(headers: &Headers) -> bool {
    header(headers, "authorization").is_some()
        || header(headers, ACCESS_HEADER).is_some() && !has_browser_cookie(headers)
}

async fn approver(edge: &Edge<'_>, headers: &Headers) -> Result<Principal, WireError> {
    let principal = program(edge, headers).await.map_err(|refusal| refusal.error())?;
    match principal.purpose {
        Purpose::Approve => Ok(principal),
        Purpose::Mcp | Purpose::Admin | Purpose::Browser => Err(WireError::forbidden(DOES_NOT_DECIDE)),
    }
}

/// Whether the browser says that a request comes from one of the gateway's own pages: cross-site requests end here.
pub(super) fn from_own_page(request: &Request, edge: &Edge<'_>) -> bool {
    header(request.headers(), "origin").is_some_and(|origin| origin == edge.origin)
}

fn parse_decision(body: &[u8]) -> Result<DecisionRequest, String> {
    let Ok(Value::Object(object)) = crate::json::value_from_slice(body) else {
        return Err(
            "The body has to be a JSON object: {action, digest} or {decisions: [{call, digest, action}]}.".to_owned()
        );
    };
    match object.get("decisions") {
        None => {
            let (verdict, reason) = (verdict(&object)?, reason(&object)?);
            // Cancelling sends nothing, so nothing has to have been shown.
            let whatever = verdict == Verdict::Cancel && !object.contains_key("digest");
            let digest = if whatever { String::new() } else { text(&object, "digest")? };
            let all = DecisionOnAll { digest, verdict, reason, content: content(&object) };
            let edits = arguments(&object, None, verdict)?.into_iter().collect();
            let grants = grant(&object, None, verdict)?.into_iter().collect();
            Ok(DecisionRequest { all: Some(all), items: Vec::new(), form: None, edits, grants })
        }
        Some(Value::Array(list)) if !list.is_empty() => {
            let (mut edits, mut grants) = (Vec::new(), Vec::new());
            let items = list.iter().map(|item| {
                let Value::Object(item) = item else {
                    return Err("Each of decisions has to be an object: {call, digest, action}.".to_owned());
                };
                let call = item.get("call").and_then(Value::as_u64).and_then(|call| u32::try_from(call).ok());
                let (call, verdict) = (call.ok_or("call has to be the number of a call.")?, verdict(item)?);
                edits.extend(arguments(item, Some(call), verdict)?);
                grants.extend(grant(item, Some(call), verdict)?);
                Ok(DecisionOnCall {
                    call,
                    digest: text(item, "digest")?,
                    verdict,
                    reason: reason(item)?,
                    content: content(item),
                })
            });
            let items = items.collect::<Result<_, String>>()?;
            Ok(DecisionRequest { all: None, items, form: None, edits, grants })
        }
        Some(_) => Err("decisions has to be a list with at least one item.".to_owned()),
    }
}

fn text(object: &Map<String, Value>, key: &str) -> Result<String, String> {
    object
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(ToOwned::to_owned)
        .ok_or_else(|| format!("{key} is required: the {key} of what was shown."))
}

fn verdict(object: &Map<String, Value>) -> Result<Verdict, String> {
    object
        .get("action")
        .and_then(Value::as_str)
        .and_then(Verdict::parse)
        .ok_or_else(|| "action has to be accept, decline or cancel.".to_owned())
}

fn reason(object: &Map<String, Value>) -> Result<Option<String>, String> {
    match object.get("reason") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(reason)) => {
            Ok(Some(reason.chars().take(REASON_LIMIT).collect::<String>()).filter(|reason| !reason.is_empty()))
        }
        Some(_) => Err("reason has to be a text.".to_owned()),
    }
}

/// What takes the place of the arguments that were shown.
fn arguments(
    object: &Map<String, Value>,
    call: Option<u32>,
    verdict: Verdict,
) -> Result<Option<SentArguments>, String> {
    let arguments = object.get("arguments").filter(|arguments| !arguments.is_null());
    match arguments {
        Some(_) if verdict != Verdict::Accept => Err("arguments go with accept only.".to_owned()),
        arguments => Ok(arguments.map(|arguments| SentArguments { call, text: arguments.to_string() })),
    }
}

/// What is allowed beyond the call: `{scope: "session"}`, or `{scope: "arguments", hours}`.
fn grant(object: &Map<String, Value>, call: Option<u32>, verdict: Verdict) -> Result<Option<SentGrant>, String> {
    let Some(grant) = object.get("grant").filter(|grant| !grant.is_null()) else { return Ok(None) };
    if verdict != Verdict::Accept {
        return Err("grant goes with accept only.".to_owned());
    }
    let hours = grant.get("hours");
    match (grant.get("scope").and_then(Value::as_str), hours.map(Value::as_u64)) {
        (Some("session"), None) => Ok(Some(SentGrant { call, hours: None })),
        (Some("arguments"), Some(Some(hours))) if (1..=HOURS_MOST).contains(&hours) => {
            Ok(Some(SentGrant { call, hours: Some(hours) }))
        }
        _ => Err(format!(
            "grant has to be {{scope: \"session\"}} or {{scope: \"arguments\", hours}}, with 1 to {HOURS_MOST} hours."
        )),
    }
}

/// What the person entered, where a tool asks that.
fn content(object: &Map<String, Value>) -> Option<Value> {
    object.get("content").filter(|content| !content.is_null()).cloned()
}

fn summary(view: &ApprovalView) -> String {
    match view.state {
        PauseState::Waiting => {
            let calls: Vec<&str> = view
                .items
                .iter()
                .filter(|item| item.state == ItemState::Waiting)
                .map(|item| item.address.as_str())
                .collect();
            format!("Waiting until {} for a decision on: {}", view.expires_at, calls.join(", "))
        }
        PauseState::Decided => "Decided; the program goes on.".to_owned(),
        PauseState::Expired => "Nobody decided in time.".to_owned(),
        PauseState::Over => "The program has ended.".to_owned(),
    }
}

fn structured(view: &ApprovalView) -> Value {
    let mut value = serde_json::to_value(view).unwrap_or(Value::Null);
    let pending: Vec<Value> = view
        .items
        .iter()
        .filter(|item| item.state == ItemState::Waiting)
        .map(|item| {
            json!({
                "call": item.call,
                "digest": item.digest,
                "address": item.address,
                "args": serde_json::from_str::<Value>(&item.arguments).unwrap_or(Value::Null),
                "approvers": item.approvers,
                "mayDecide": item.may_decide,
                "method": item.method,
                "url": item.url,
                "question": item.question.as_ref().map(|question| &question.asked),
            })
        })
        .collect();
    if let Value::Object(object) = &mut value {
        object.insert("pending".to_owned(), Value::Array(pending));
    }
    value
}

pub(super) fn method_not_allowed(allow: &str) -> worker::Result<Response> {
    let response = api_error(&WireError::method_not_allowed())?;
    response.headers().set("allow", allow)?;
    Ok(response)
}

pub(super) fn refuse(error: &WireError) -> worker::Result<Response> {
    let response = api_error(error)?;
    if error.status == 401 {
        response.headers().set("www-authenticate", "Bearer")?;
    }
    Ok(response)
}

/// A decision that was not taken, with the one that counts.
fn refuse_with(status: u16, problem: &Value) -> worker::Result<Response> {
    let message = problem_text(problem);
    let body = json!({
        "jsonrpc": "2.0",
        "error": { "code": -32_000, "message": message, "data": problem },
        "id": null,
    });
    Ok(ResponseBuilder::new()
        .with_status(status)
        .with_header("content-type", "application/json")?
        .with_header("cache-control", "no-store")?
        .fixed(body.to_string().into_bytes()))
}

/// A refused decision in one sentence.
pub(super) fn problem_text(problem: &Value) -> String {
    let field = |name: &str| problem.get(name).and_then(Value::as_str);
    let message = field("message").unwrap_or("The decision was not taken.");
    match (field("status"), field("by"), field("at")) {
        (Some(status), Some(by), Some(at)) => format!("{message} It was {status} by {by} at {at}."),
        (Some(status), None, Some(at)) => format!("{message} It was {status} at {at}, because nobody decided in time."),
        _ => message.to_owned(),
    }
}
