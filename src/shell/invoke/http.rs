//! A call that is one HTTP request: what goes with the request, and what is made of the answer.

use serde_json::Value;
use worker::Env;

use super::{CallToResolve, Caller};
use crate::catalog::graphql;
use crate::catalog::openapi::answer::{HttpAnswer, read_answer};
use crate::catalog::openapi::request::{HttpRequest, origin_of};
use crate::catalog::tool::{Tool, ToolOutcome, raw_json};
use crate::config::Settings;
use crate::credential::Redactor;
use crate::engine::CallError;
use crate::internal::{SealedCredential, SourceRow};
use crate::outbound::SendError;
use crate::policy::{Vouched, may_be_sent_again};
use crate::shell::outbound::{Answer, Limits, Outgoing, send, send_to_own_api};
use crate::shell::secrets;

/// A request that may be sent, and what goes with it. The credential is still encrypted: a call may wait for days.
#[derive(Debug, Clone)]
pub(crate) struct PreparedHttp {
    /// Without the credential.
    pub(super) request: HttpRequest,
    /// It goes to the gateway's own demo API.
    built_in: bool,
    credential: Option<SealedCredential>,
    confirmed_origins: Vec<String>,
    /// Whether a program that calls it once more does no harm. A key that makes the gateway's own repetition harmless does not
    /// help there: the next call has another one.
    may_be_called_again: bool,
    /// The field that is read in an answer of GraphQL.
    graphql_field: Option<String>,
}

impl PreparedHttp {
    /// The answer is one of GraphQL, to a document that asks for this field.
    pub(super) fn answered_with(self, field: &str) -> Self {
        Self { graphql_field: Some(field.to_owned()), ..self }
    }
}

/// Takes a written request, and refuses one that could not be sent, before anyone is asked.
pub(super) fn prepare(
    caller: &Caller,
    call: &CallToResolve,
    tool: &Tool,
    source: &SourceRow,
    mut request: HttpRequest,
) -> Result<PreparedHttp, Box<CallError>> {
    let origin = origin_of(&request.url).unwrap_or_default();
    if source.credential.is_some() && !source.built_in && !source.confirmed_origins.contains(&origin) {
        let message = format!(
            "{} sends to {origin}, and no administrator has confirmed that the credential of the source {} may go there. \
             Nothing was sent. An administrator confirms origins in the source's settings.",
            tool.address, source.slug
        );
        return Err(Box::new(CallError::new("origin_not_confirmed", message)));
    }
    if source.honours_idempotency_key {
        // An argument does not get to choose the key: it would make two calls one, or one call two.
        request.headers.retain(|(name, _)| name != "idempotency-key");
        request.headers.push(("idempotency-key".to_owned(), format!("{}:{}", call.execution, call.seq)));
    }
    // The trace is the only part of the agent's own request that goes along.
    request.headers.retain(|(name, _)| !caller.trace.iter().any(|(traced, _)| traced == name));
    Ok(PreparedHttp {
        request,
        built_in: source.built_in,
        credential: source.credential.clone(),
        confirmed_origins: source.confirmed_origins.clone(),
        may_be_called_again: may_be_sent_again(tool, Vouched { honours_idempotency_key: false, ..source.vouched() }),
        graphql_field: None,
    })
}

/// Sends a call. Never fails: whatever happens is a value for the program.
pub(super) async fn invoke(env: &Env, settings: &Settings, caller: &Caller, prepared: &PreparedHttp) -> ToolOutcome {
    match try_invoke(env, settings, caller, prepared).await {
        Ok(answer) => outcome_of(&answer, prepared),
        Err(error) => error.outcome(prepared.may_be_called_again),
    }
}

async fn try_invoke(
    env: &Env,
    settings: &Settings,
    caller: &Caller,
    prepared: &PreparedHttp,
) -> Result<Answer, SendError> {
    let credential = match &prepared.credential {
        Some(sealed) => {
            Some(secrets::open_credential(env, &caller.organization, sealed, &prepared.confirmed_origins).await?)
        }
        None => None,
    };
    let outgoing = Outgoing {
        credential: credential.as_ref().filter(|_| !prepared.built_in),
        trace: &caller.trace,
        ..Outgoing::new(&prepared.request)
    };
    let limits = Limits::of_call(settings);
    if prepared.built_in {
        send_to_own_api(env, &caller.organization, outgoing, limits).await
    } else {
        send(outgoing, limits).await
    }
}

fn outcome_of(answer: &Answer, prepared: &PreparedHttp) -> ToolOutcome {
    let body: &[u8] = if prepared.request.method == "HEAD" { &[] } else { &answer.body };
    let read = HttpAnswer { status: answer.status, headers: &answer.headers, body };
    let outcome = match &prepared.graphql_field {
        Some(field) => graphql::read_answer(field, &read),
        None => read_answer(&read),
    };
    redacted(outcome, &answer.redactor)
}

/// Once more, in the form that is kept: a text in another character set was not readable before.
fn redacted(outcome: ToolOutcome, redactor: &Redactor) -> ToolOutcome {
    let json = |raw: Box<serde_json::value::RawValue>| match redactor.text(raw.get()) {
        std::borrow::Cow::Borrowed(_) => raw,
        std::borrow::Cow::Owned(text) => serde_json::value::RawValue::from_string(text)
            .unwrap_or_else(|_| raw_json(&Value::from(crate::credential::REDACTED))),
    };
    match outcome {
        ToolOutcome::Success { data, status } => ToolOutcome::Success { data: json(data), status },
        ToolOutcome::Failure(mut error) => {
            error.message = redactor.text(&error.message).into_owned();
            error.details = error.details.map(json);
            ToolOutcome::Failure(error)
        }
    }
}
