//! Looks a call up and sends it: what the engine asks for with `Resolve` and `Invoke`.

mod http;

use std::rc::Rc;

use futures_util::FutureExt;
use serde_json::{Value, json};
use worker::Env;

use self::http::PreparedHttp;
use super::admin_api::{Asks, perform};
use super::authentication::still_stands;
use super::clock::now;
use super::http::query_fields;
use super::organization;
use super::telemetry::log;
use super::upstream::{McpCall, Reach};
use crate::approval::{Approvers, ShownCall, call_digest};
use crate::auth::settings::AuthSettings;
use crate::auth::{Principal, Purpose};
use crate::catalog::graphql;
use crate::catalog::openapi::answer::{HttpAnswer, read_answer};
use crate::catalog::openapi::request::{HttpRequest, build_request};
use crate::catalog::schema::check_arguments;
use crate::catalog::tool::{Binding, ToolOutcome};
use crate::config::Settings;
use crate::engine::{CallError, Granted, Resolution, error_result, ok_result};
use crate::internal::{CatalogQuestion, FoundGrant, SourceKind, SourceRow, ToolLookup, Via};
use crate::json::{canonical_json, sha256_hex};
use crate::organization::grant::{WantedCall, can_be_granted};
use crate::organization::route::AdminCall;
use crate::organization::stop::{Stop, stop_of};
use crate::policy::{Action, judge_nature, may_be_sent_again};

/// Bytes of a definition that the digest covers and the page may show.
const DESCRIPTION_LIMIT: usize = 1_000;

/// A call that was looked up and may be sent.
#[derive(Debug, Clone)]
pub(crate) enum Prepared {
    /// A question to the catalog.
    Catalog(CatalogQuestion),
    /// A request to the gateway's own administration API.
    Own {
        /// The request.
        call: AdminCall,
        /// The execution that it is of.
        execution: String,
    },
    /// An HTTP request.
    Http(PreparedHttp),
    /// A call to an MCP server.
    Mcp(Box<McpCall>),
}

/// A call as the runner knows it.
#[derive(Debug, Clone)]
pub(crate) struct CallToResolve {
    pub(crate) execution: String,
    pub(crate) seq: u32,
    pub(crate) address: String,
    pub(crate) arguments: Rc<str>,
    /// The session, where a grant may take the place of asking somebody.
    pub(crate) session: Option<String>,
}

/// Whose call it is.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) organization: String,
    /// The account that the session belongs to.
    pub(crate) account: String,
    /// Whether it has the role `admin`, when the call is sent.
    pub(crate) is_admin: bool,
    /// The resource that the session was opened on: `default`, or a toolkit's slug.
    pub(crate) resource: String,
    pub(crate) public_origin: String,
    /// Headers of the trace that the call belongs to.
    pub(crate) trace: Vec<(String, String)>,
}

/// Reads tool and policy, checks the arguments, and says what may be done.
pub(crate) async fn resolve(
    env: &Env,
    auth: &AuthSettings,
    caller: &Caller,
    call: &CallToResolve,
) -> (Resolution, Option<Prepared>) {
    match try_resolve(env, auth, caller, call).await {
        Ok((resolution, prepared)) => (resolution, Some(prepared)),
        Err(error) => (Resolution::Refused(*error), None),
    }
}

async fn try_resolve(
    env: &Env,
    auth: &AuthSettings,
    caller: &Caller,
    call: &CallToResolve,
) -> Result<(Resolution, Prepared), Box<CallError>> {
    let arguments: Value = serde_json::from_str(&call.arguments)
        .map_err(|_| Box::new(CallError::new("invalid_tool_arguments", "The arguments are not JSON.")))?;
    if matches!(call.address.as_str(), "search" | "describe" | "sources.list") {
        return Ok(resolve_question(call, arguments));
    }
    resolve_tool(env, auth, caller, call, arguments).boxed_local().await
}

async fn resolve_tool(
    env: &Env,
    auth: &AuthSettings,
    caller: &Caller,
    call: &CallToResolve,
    arguments: Value,
) -> Result<(Resolution, Prepared), Box<CallError>> {
    let lookup =
        organization::lookup(env, &caller.organization, &caller.resource, &call.address).await.map_err(|_| {
            Box::new(CallError {
                retryable: true,
                ..CallError::new(
                    "catalog_unavailable",
                    "The catalog could not be read just now; the call was not sent. Try it again.",
                )
            })
        })?;
    let (resolution, prepared) = resolve_found(caller, call, &lookup, arguments)?;
    Ok((with_grant(env, auth, caller, call, resolution).await, prepared))
}

/// Looks for a grant where somebody would have to be asked. Where that cannot be told, somebody is asked.
async fn with_grant(
    env: &Env,
    auth: &AuthSettings,
    caller: &Caller,
    call: &CallToResolve,
    resolution: Resolution,
) -> Resolution {
    let Resolution::Ready { ask: true, idempotent, shown, granted: None } = resolution else { return resolution };
    look_for_grant(env, auth, caller, call, (idempotent, shown)).boxed_local().await
}

async fn look_for_grant(
    env: &Env,
    auth: &AuthSettings,
    caller: &Caller,
    call: &CallToResolve,
    (idempotent, shown): (bool, ShownCall),
) -> Resolution {
    let ready = |shown, granted| Resolution::Ready { ask: true, idempotent, shown, granted };
    let Some(session) = call.session.clone().filter(|_| can_be_granted(&call.address)) else {
        return ready(shown, None);
    };
    let wanted = WantedCall {
        account: caller.account.clone(),
        session,
        address: call.address.clone(),
        definition: definition_of(&shown),
        arguments: sha256_hex(shown.arguments.as_bytes()),
        approvers: shown.approvers,
        execution: call.execution.clone(),
        call: call.seq,
        digest: shown.digest.clone(),
        uses: None,
    };
    match find_grant(env, auth, &caller.organization, wanted).await {
        Ok(granted) => ready(shown, granted),
        Err(error) => {
            log("mcp_grants_unavailable", json!({ "executionId": call.execution, "reason": error.to_string() }));
            ready(shown, None)
        }
    }
}

/// Finds a grant, asks whether whoever gave it still has access and role, and notes its use.
async fn find_grant(
    env: &Env,
    auth: &AuthSettings,
    organization: &str,
    wanted: WantedCall,
) -> worker::Result<Option<Granted>> {
    let Some(found) = organization::use_call_grant(env, organization, &wanted).await? else { return Ok(None) };
    let Some(standing) = still_stands(auth, &found.by, organization, found.standing).await else {
        log("mcp_grant_without_giver", json!({ "executionId": wanted.execution, "grant": found.id }));
        return Ok(None);
    };
    if !wanted.approvers.admit(standing) {
        return Ok(None);
    }
    // It may have been revoked in between.
    let used = WantedCall { uses: Some(found.id), ..wanted };
    let used = organization::use_call_grant(env, organization, &used).await?;
    Ok(used.map(|FoundGrant { id, by, .. }| Granted { id, by, standing }))
}

/// What a grant is bound to of a tool: all that the digest of an approval covers of it.
pub(crate) fn definition_of(shown: &ShownCall) -> String {
    sha256_hex(shown.binding.as_bytes())
}

/// The same for a tool that was looked up already.
pub(crate) fn resolve_found(
    caller: &Caller,
    call: &CallToResolve,
    lookup: &ToolLookup,
    arguments: Value,
) -> Result<(Resolution, Prepared), Box<CallError>> {
    let (Some(tool), Some(source)) = (&lookup.tool, &lookup.source) else {
        return Err(Box::new(not_found(&call.address, &lookup.suggestions)));
    };
    let arguments = check_arguments(&tool.input_schema, arguments).map_err(|faults| {
        let list: Vec<String> =
            faults.iter().map(|fault| format!("{}: {}", place(&fault.path), fault.message)).collect();
        let details = faults.iter().map(|fault| json!({ "path": fault.path, "message": fault.message })).collect();
        Box::new(CallError {
            details: Some(Value::Array(details)),
            ..CallError::new(
                "invalid_tool_arguments",
                format!("The arguments of {} do not fit: {}", tool.address, list.join("; ")),
            )
        })
    })?;
    let base_url = base_url(source, &caller.public_origin);
    let judgement = lookup.judgement.clone().unwrap_or_else(|| judge_nature(tool, source.vouched()));
    let (prepared, method, url) = match &tool.binding {
        Binding::Http(http) => {
            let request =
                build_request(http, base_url.as_deref(), &arguments).map_err(|error| Box::new(unwritable(&error)))?;
            let prepared = http::prepare(caller, call, tool, source, request)?;
            let (method, url) = (prepared.request.method.clone(), prepared.request.url.clone());
            let prepared =
                if is_own_api(source) { own_call(call, &prepared.request)? } else { Prepared::Http(prepared) };
            (prepared, method, url)
        }
        Binding::Graphql(graphql) => {
            let url = base_url.clone().unwrap_or_default();
            let request =
                graphql::build_request(graphql, &url, &arguments).map_err(|error| Box::new(unwritable(&error)))?;
            let prepared = http::prepare(caller, call, tool, source, request)?.answered_with(&graphql.field);
            (Prepared::Http(prepared), format!("{} {}", graphql.operation.word(), graphql.field), url)
        }
        Binding::Mcp(mcp) => {
            let call = McpCall {
                source: source.clone(),
                binding: mcp.clone(),
                arguments: arguments.clone(),
                alone: lookup.alone,
                gated: judgement.action == Action::Approve,
            };
            let url = source.url.clone().unwrap_or_default();
            (Prepared::Mcp(Box::new(call)), format!("tools/call {}", mcp.name), url)
        }
    };
    if judgement.action == Action::Block {
        let message = format!("Policy forbids this tool: {}", judgement.reason);
        return Err(Box::new(CallError::new("tool_blocked", message)));
    }
    let stop = stop_of(&lookup.stops, &source.slug, &caller.account);
    let why_held = stop.map(|stop| format!("sending was stopped when this was asked ({}); ", stop.message()));
    let arguments = canonical_json(&arguments);
    let credential = source.credential.as_ref();
    let mut binding = json!({ "source": source.slug, "tool": tool.binding.identity(base_url.as_deref()) });
    // Left out where there is none: what waits since an older release is not asked again for nothing.
    if let (Some(credential), Some(members)) = (credential, binding.as_object_mut()) {
        members.insert("credential".to_owned(), json!({ "id": credential.id, "version": credential.version }));
    }
    let binding = canonical_json(&binding);
    let shown = ShownCall {
        digest: call_digest(&call.execution, call.seq, &call.address, &arguments, &binding),
        arguments,
        title: tool.title.clone(),
        description: tool.description.chars().take(DESCRIPTION_LIMIT).collect(),
        method,
        url,
        credential: credential.map(|credential| format!("{} of the source {}", credential.kind, source.slug)),
        reason: format!("{}{}", why_held.unwrap_or_default(), judgement.reason),
        binding,
        approvers: judgement.by,
        changes: judge_nature(tool, source.vouched()).action != Action::Allow,
        held: stop.is_some(),
    };
    let ask = judgement.action == Action::Approve;
    let resolution = match stop {
        Some(stop) => Resolution::Stopped { ask, shown, error: stopped(stop) },
        None => Resolution::Ready { ask, idempotent: may_be_sent_again(tool, source.vouched()), shown, granted: None },
    };
    Ok((resolution, prepared))
}

fn stopped(stop: &Stop) -> CallError {
    let message = format!("{}. The call was not sent.", stop.message());
    CallError { reason: stop.reason.clone(), ..CallError::new("stopped", message) }
}

fn is_own_api(source: &SourceRow) -> bool {
    source.built_in && source.slug == crate::organization::SLUG
}

/// A request to the administration API as that one takes it.
fn own_call(call: &CallToResolve, request: &HttpRequest) -> Result<Prepared, Box<CallError>> {
    let unreadable = || Box::new(CallError::new("invalid_tool_arguments", "The request cannot be written."));
    let url = url::Url::parse(&request.url).map_err(|_| unreadable())?;
    let body = request.body.clone().unwrap_or_default();
    let own = AdminCall {
        method: request.method.clone(),
        path: url.path().trim_start_matches("/api/").to_owned(),
        query: query_fields(&url),
        body: String::from_utf8(body).map_err(|_| unreadable())?,
    };
    Ok(Prepared::Own { call: own, execution: call.execution.clone() })
}

/// Carries out a request to the administration API with the role that the session's owner has.
async fn send_to_own_api(
    env: &Env,
    settings: &Rc<Settings>,
    caller: &Caller,
    call: &AdminCall,
    execution: &str,
) -> ToolOutcome {
    if !caller.is_admin {
        let message = "This needs an account with the role admin, which the owner of this session does not have.";
        return ToolOutcome::failure("forbidden", message);
    }
    let principal = Principal {
        account: caller.account.clone(),
        organization: caller.organization.clone(),
        admin: true,
        purpose: Purpose::Mcp,
    };
    let via = Via::Tool { execution: execution.to_owned() };
    let asks = Asks { env, settings, principal: &principal, via };
    match perform(&asks, call.clone()).await {
        Ok(answer) => read_answer(&HttpAnswer {
            status: answer.status,
            headers: &[("content-type".to_owned(), "application/json".to_owned())],
            body: answer.body.to_string().as_bytes(),
        }),
        Err(error) => {
            log("mcp_own_api_failed", json!({ "reason": error.to_string() }));
            ToolOutcome::failure("upstream_unreachable", "The catalog could not be changed or read just now.")
        }
    }
}

/// The catalog's own questions read only, so nobody is asked.
fn resolve_question(call: &CallToResolve, arguments: Value) -> (Resolution, Prepared) {
    let shown = ShownCall {
        digest: call_digest(&call.execution, call.seq, &call.address, &call.arguments, ""),
        arguments: call.arguments.to_string(),
        title: String::new(),
        description: String::new(),
        method: "QUERY".to_owned(),
        url: format!("catalog:{}", call.address),
        credential: None,
        reason: "it only reads the catalog".to_owned(),
        binding: String::new(),
        approvers: Approvers::Owner,
        changes: false,
        held: false,
    };
    let question = CatalogQuestion { address: call.address.clone(), arguments };
    (Resolution::Ready { ask: false, idempotent: true, shown, granted: None }, Prepared::Catalog(question))
}

fn unwritable(error: &impl std::fmt::Display) -> CallError {
    CallError::new("invalid_tool_arguments", format!("The request cannot be written: {error}"))
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the arguments" } else { path }
}

fn not_found(address: &str, suggestions: &[String]) -> CallError {
    let hint = if suggestions.is_empty() {
        "tools.search({ query }) finds tools.".to_owned()
    } else {
        format!("Did you mean {}?", suggestions.join(", "))
    };
    CallError {
        details: (!suggestions.is_empty()).then(|| json!({ "suggestions": suggestions })),
        ..CallError::new("tool_not_found", format!("There is no tool {address}. {hint}"))
    }
}

fn base_url(source: &SourceRow, public_origin: &str) -> Option<String> {
    match source.kind {
        SourceKind::Mcp | SourceKind::Graphql => source.url.clone(),
        _ if is_own_api(source) => Some(public_origin.to_owned()),
        _ if source.built_in => Some(format!("{public_origin}/{}", source.slug)),
        SourceKind::Openapi => source.base_url.clone(),
    }
}

/// Writes the log line of a call that was answered with `result`. A call without a journal has no execution.
pub(crate) fn log_call(execution: Option<&str>, address: &str, result: &str, started: u64) {
    let outcome = if result.starts_with(r#"{"ok":true"#) { "ok" } else { "error" };
    let mut fields = json!({ "address": address, "outcome": outcome, "durationMs": now().saturating_sub(started) });
    if let (Some(execution), Some(fields)) = (execution, fields.as_object_mut()) {
        fields.insert("executionId".to_owned(), Value::String(execution.to_owned()));
    }
    log("mcp_tool_call", fields);
}

/// Sends a call. Never fails: whatever happens is a value for the program. Each way has a box, so that the code of the others is not
/// compiled for it.
pub(crate) async fn invoke(
    env: &Env,
    settings: &Rc<Settings>,
    caller: &Caller,
    prepared: &Prepared,
    reach: &Reach<'_>,
) -> Rc<str> {
    match prepared {
        Prepared::Mcp(call) => reach.upstreams.call(&caller.organization, call, reach).boxed_local().await,
        Prepared::Catalog(question) => {
            match organization::question(env, &caller.organization, &caller.resource, question).await {
                Ok(Ok(data)) => ok_result(&data),
                Ok(Err(problem)) => error_result(&CallError::new("invalid_tool_arguments", problem)),
                Err(_) => error_result(&CallError {
                    retryable: true,
                    ..CallError::new("catalog_unavailable", "The catalog could not be read just now. Try it again.")
                }),
            }
        }
        Prepared::Own { call, execution } => {
            outcome_text(&send_to_own_api(env, settings, caller, call, execution).boxed_local().await)
        }
        Prepared::Http(prepared) => outcome_text(&http::invoke(env, settings, caller, prepared).boxed_local().await),
    }
}

fn outcome_text(outcome: &ToolOutcome) -> Rc<str> {
    serde_json::to_string(outcome)
        .map_or_else(|_| error_result(&CallError::new("internal", "The answer could not be written.")), Into::into)
}
