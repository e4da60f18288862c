//! How a session object and the edge talk to the organization object.

mod administration;
mod alarm;
mod audit;
mod built_in;
mod cache;
mod call_grants;
mod catalog;
mod demo_api;
mod grants;
mod keys;
mod layout;
mod object;
mod programs;
mod rows;
mod servers;
mod staging;
mod stops;
mod subscribers;
mod transaction;
mod waiting;
mod webhooks;

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::{Env, Method, Request, RequestInit, Response};

pub(super) use self::cache::FRESH_MS;
use self::cache::Remembered;
pub(super) use self::staging::staged_tool;
use super::clock::{now, sleep};
use super::http::{ask_object, body_of};
use super::platform::{log_failure, platform_failure};
use super::random::jitter;
use crate::auth::api_key::{KeyRecord, PresentedKey};
use crate::internal::{
    AdminAnswer, AdminQuestion, AuditPart, CatalogQuestion, DirectAnswer, DirectQuestion, FoundGrant, GrantsQuestion,
    ImportEnd, ImportStart, KeyQuestion, LookupAnswer, LookupQuestion, Question, ServerSeen, ServersAnswer,
    StagedTools, ToolLookup, VERSION, WaitingOfSession, WebhookPut,
};
use crate::oauth::{GrantAnswer, GrantStep};
use crate::organization::grant::{CallGrant, WantedCall};
use crate::session::failure::{Disposition, classify};

/// Bytes of an answer of the organization object.
const ANSWER_LIMIT: usize = 32 << 20;
/// Tries of a call that only reads.
const TRIES: u32 = 3;

/// Looks a tool up, for a session of a resource.
pub(crate) async fn lookup(
    env: &Env,
    organization: &str,
    resource: &str,
    address: &str,
) -> worker::Result<Rc<ToolLookup>> {
    let (known, stale) = match cache::recall(organization, resource, address) {
        Some(Remembered::Fresh(lookup)) => return Ok(lookup),
        Some(Remembered::Stale(catalog, lookup)) => (Some(catalog), Some(lookup)),
        None => (None, None),
    };
    let asked_at = now();
    let question = about(resource, LookupQuestion { address: address.to_owned(), known });
    match (ask(env, organization, "lookup", &question).await?, known, stale) {
        (LookupAnswer::Found { catalog, lookup }, _, _) => {
            let lookup = Rc::from(lookup);
            cache::remember(organization, resource, address, catalog, asked_at, &lookup);
            Ok(lookup)
        }
        (LookupAnswer::Unchanged, Some(catalog), Some(lookup)) => {
            cache::confirm(organization, catalog, asked_at);
            Ok(lookup)
        }
        (LookupAnswer::Unchanged, _, _) => {
            Err(worker::Error::RustError("nothing was known that could be unchanged".to_owned()))
        }
    }
}

/// Forgets what is known of an organization's catalog: it changed.
pub(crate) fn catalog_changed(organization: &str) {
    cache::forget(organization);
}

/// Whether there is a toolkit.
pub(crate) async fn has_toolkit(env: &Env, organization: &str, slug: &str) -> worker::Result<bool> {
    ask(env, organization, "toolkit", &slug).await
}

/// The API key that was presented, while it counts.
pub(crate) async fn find_key(env: &Env, key: &PresentedKey) -> worker::Result<Option<KeyRecord>> {
    let question = KeyQuestion { version: VERSION, id: key.id.clone(), hash: key.hash.clone() };
    ask(env, &key.organization, "key", &question).await
}

/// A request to the administration API, as far as the organization's storage answers it.
pub(crate) async fn administer(env: &Env, organization: &str, question: &AdminQuestion) -> worker::Result<AdminAnswer> {
    if matches!(question.call.method.as_str(), "GET" | "HEAD") {
        return ask(env, organization, "admin", question).await;
    }
    // Not tried again: it may have been carried out.
    change(env, organization, "admin", question).await
}

/// A part of the whole audit log, oldest first, after an entry; see `AuditPart`.
pub(crate) async fn export_audit(env: &Env, organization: &str, after: Option<u64>) -> worker::Result<AuditPart> {
    ask(env, organization, "audit-export", &after).await
}

/// Writes a webhook. Not tried again: it may have been carried out.
pub(crate) async fn put_webhook(env: &Env, organization: &str, put: &WebhookPut) -> worker::Result<AdminAnswer> {
    change(env, organization, "webhook", put).await
}

/// What an import of a source has to know before it begins.
pub(crate) async fn start_import(env: &Env, organization: &str, slug: &str) -> worker::Result<ImportStart> {
    ask(env, organization, "import-start", &slug).await
}

/// Hands over some tools of an import.
pub(crate) async fn stage_tools(env: &Env, organization: &str, tools: &StagedTools) -> worker::Result<()> {
    ask(env, organization, "import-stage", tools).await
}

/// Ends an import. Not tried again: it may have been carried out.
pub(crate) async fn end_import(env: &Env, organization: &str, end: &ImportEnd) -> worker::Result<AdminAnswer> {
    change(env, organization, "import-end", end).await
}

/// A step of an OAuth grant. Not tried again: it may have been carried out.
pub(crate) async fn grant_step(env: &Env, organization: &str, step: &GrantStep) -> worker::Result<GrantAnswer> {
    change(env, organization, "grant", step).await
}

/// Writes a grant that does not count before it is confirmed; or says why it is not given. Once it may have been written.
pub(crate) async fn put_call_grant(
    env: &Env,
    organization: &str,
    grant: &CallGrant,
) -> worker::Result<Result<(), String>> {
    change(env, organization, "call-grant-put", grant).await
}

/// The decisions of these grants were written. Saying it twice does no harm.
pub(crate) async fn confirm_call_grants(env: &Env, organization: &str, ids: &[String]) -> worker::Result<()> {
    ask(env, organization, "call-grant-confirm", &ids).await
}

/// The grant that lets a call through. Its use is written down; the same call is the same use.
pub(crate) async fn use_call_grant(
    env: &Env,
    organization: &str,
    call: &WantedCall,
) -> worker::Result<Option<FoundGrant>> {
    ask(env, organization, "call-grant-use", call).await
}

/// Lists grants or revokes one. Not tried again where it may have been carried out.
pub(crate) async fn grants(env: &Env, organization: &str, question: &GrantsQuestion) -> worker::Result<AdminAnswer> {
    match question.revoke {
        None => ask(env, organization, "call-grants", question).await,
        Some(_) => change(env, organization, "call-grants", question).await,
    }
}

/// Counts a try to sign in from an address; whether it is allowed.
pub(crate) async fn may_sign_in(env: &Env, organization: &str, address: &str) -> worker::Result<bool> {
    change(env, organization, "sign-in-try", address).await
}

/// The last try from an address was none that failed.
pub(crate) async fn signed_in(env: &Env, organization: &str, address: &str) -> worker::Result<()> {
    change(env, organization, "signed-in", address).await
}

fn about<T>(resource: &str, about: T) -> Question<T> {
    Question { version: VERSION, resource: resource.to_owned(), about }
}

/// Answers `tools.search`, `tools.describe` and `tools.sources.list`: JSON text of the data.
pub(crate) async fn question(
    env: &Env,
    organization: &str,
    resource: &str,
    question: &CatalogQuestion,
) -> worker::Result<Result<String, String>> {
    ask(env, organization, "question", &about(resource, question)).await
}

/// A tool by the name that clients know it by, or a page of all of them.
pub(crate) async fn direct(
    env: &Env,
    organization: &str,
    resource: &str,
    question: &DirectQuestion,
) -> worker::Result<DirectAnswer> {
    ask(env, organization, "direct", &about(resource, question)).await
}

/// The MCP servers of a session's resource.
pub(crate) async fn servers(env: &Env, organization: &str, resource: &str) -> worker::Result<ServersAnswer> {
    ask(env, organization, "servers", &about(resource, ())).await
}

/// Notes that a session has an open stream, so that it is told when the catalog changes.
pub(crate) async fn subscribe(env: &Env, organization: &str, session: &str) -> worker::Result<()> {
    ask(env, organization, "subscribe", &(organization, session)).await
}

/// Says what waits for a person in a session, and what happened there. Telling it twice does no harm.
pub(crate) async fn put_waiting(env: &Env, organization: &str, waiting: &WaitingOfSession) -> worker::Result<()> {
    // Not `waiting`, which an older release would take without the events.
    ask(env, organization, "told", waiting).await
}

/// Says how an MCP server was found. Telling it twice does no harm.
pub(crate) async fn note_server(env: &Env, organization: &str, seen: &ServerSeen) -> worker::Result<()> {
    ask(env, organization, "server", seen).await
}

/// Passes a request on to the demo API. `request`'s path starts with `/demo`.
pub(crate) async fn demo(env: &Env, organization: &str, request: Request) -> worker::Result<Response> {
    stub(env, organization)?.fetch_with_request(request).await
}

fn stub(env: &Env, organization: &str) -> worker::Result<worker::Stub> {
    env.durable_object("ORGANIZATION")?.get_by_name(organization)
}

/// Asks a question that changes nothing, again where the object was just moving.
async fn ask<Q: Serialize, A: DeserializeOwned>(
    env: &Env,
    organization: &str,
    name: &str,
    question: &Q,
) -> worker::Result<A> {
    let text = serde_json::to_string(question)?;
    let mut tries = 0;
    loop {
        tries += 1;
        match ask_once(env, organization, name, &text).await {
            Ok(answer) => return Ok(crate::json::from_slice(&answer)?),
            Err(error) => {
                let failure = platform_failure(&error);
                log_failure(&format!("organization/{name}"), &failure);
                // One that has too much to do gets no more of it.
                if tries >= TRIES || classify(&failure).1 != Disposition::Transient {
                    return Err(error);
                }
            }
        }
        sleep(Duration::from_millis(u64::from(tries) * 10 + jitter(20)?)).await;
    }
}

/// Asks for a change, once: after a failure it may have been carried out.
async fn change<Q: Serialize + ?Sized, A: DeserializeOwned>(
    env: &Env,
    organization: &str,
    name: &str,
    question: &Q,
) -> worker::Result<A> {
    let answer = ask_once(env, organization, name, &serde_json::to_string(question)?).await?;
    Ok(crate::json::from_slice(&answer)?)
}

async fn ask_once(env: &Env, organization: &str, name: &str, body: &str) -> worker::Result<Vec<u8>> {
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_body(Some(body.into()));
    let request = Request::new_with_init(&format!("https://organization.internal/internal/{name}"), &init)?;
    let response = ask_object(stub(env, organization)?, &request).await?;
    let status = response.status();
    let bytes = body_of(&response).await?;
    if status != 200 {
        let message = format!("the organization object answered {status}");
        return Err(worker::Error::RustError(message));
    }
    if bytes.len() > ANSWER_LIMIT {
        return Err(worker::Error::RustError("the organization object's answer is too large".to_owned()));
    }
    Ok(bytes)
}

/// Reads a body of the gateway's own.
pub(crate) async fn read_own_body<T: DeserializeOwned>(request: &mut Request) -> worker::Result<T> {
    Ok(crate::json::from_slice(&own_bytes(request).await?)?)
}

async fn own_bytes(request: &mut Request) -> worker::Result<Vec<u8>> {
    let bytes = request.bytes().await?;
    if bytes.len() > ANSWER_LIMIT {
        return Err(worker::Error::RustError("an internal message is too large".to_owned()));
    }
    Ok(bytes)
}
