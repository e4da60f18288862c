//! Arguments that a person puts in place of a program's.

use std::collections::BTreeMap;

use serde_json::Value;

use super::approvals::Seen;
use super::outcome::Failure;
use super::{Session, caller_of};
use crate::approval::Verdict;
use crate::engine::{CallError, CallStatus, DecisionError, Edited, Resolution};
use crate::internal::{DecisionRequest, SentArguments};
use crate::json::canonical_json;
use crate::protocol::errors::WireError;
use crate::session::SessionMeta;
use crate::shell::clock::now;
use crate::shell::invoke::{CallToResolve, resolve_found};
use crate::shell::organization;
use crate::shell::runner::Live;

impl Session {
    /// What the person put in place of arguments, held against the tools' schemas as a call is. What is the same as what was
    /// shown is no edit.
    pub(super) async fn edits_of(
        &self,
        seen: &Seen,
        pause: &str,
        asked: &DecisionRequest,
    ) -> Result<Result<BTreeMap<u32, Edited>, DecisionError>, Failure> {
        let mut edits = BTreeMap::new();
        for sent in &asked.edits {
            if sent.call.is_none() && waiting_calls(&seen.live, pause) > 1 {
                let problem = "Several calls wait; give each its arguments in decisions.".to_owned();
                return Ok(Err(DecisionError::BadArguments { seq: 0, problem, details: None }));
            }
            let Some((seq, address, shown)) = accepted_call(&seen.live, pause, asked, sent) else { continue };
            match self.edit_of(&seen.meta, &seen.live, seq, &address, &sent.text).await? {
                Ok(edited) if *edited.arguments == *shown => {}
                Ok(edited) => {
                    edits.insert(seq, edited);
                }
                Err(error) => {
                    let CallError { message: problem, details, .. } = *error;
                    return Ok(Err(DecisionError::BadArguments { seq, problem, details }));
                }
            }
        }
        Ok(Ok(edits))
    }

    async fn edit_of(
        &self,
        meta: &SessionMeta,
        live: &Live,
        seq: u32,
        address: &str,
        text: &str,
    ) -> Result<Result<Edited, Box<CallError>>, Failure> {
        let arguments: Value = match serde_json::from_str(text) {
            Ok(arguments) => arguments,
            Err(error) => {
                let message = format!("They are no JSON: {error}.");
                return Ok(Err(Box::new(CallError::new("invalid_tool_arguments", message))));
            }
        };
        let Ok(lookup) = organization::lookup(&self.env, &meta.organization, &meta.resource, address).await else {
            return Err(WireError::storage_unavailable().into());
        };
        let call = CallToResolve {
            execution: live.id.clone(),
            seq,
            address: address.to_owned(),
            arguments: canonical_json(&arguments).into(),
            session: None,
        };
        Ok(match resolve_found(&caller_of(meta), &call, &lookup, arguments) {
            // Where sending is stopped, it waits again once it is approved.
            Ok((Resolution::Ready { shown, .. } | Resolution::Stopped { shown, .. }, _)) => {
                Ok(Edited { arguments: shown.arguments.into(), method: shown.method, url: shown.url })
            }
            Ok((Resolution::Refused(error), _)) => Err(Box::new(error)),
            Ok((Resolution::Answered(_), _)) => {
                Err(Box::new(CallError::new("invalid_tool_arguments", "This call is not sent.")))
            }
            Err(error) => Err(error),
        })
    }
}

fn waiting_calls(live: &Live, pause: &str) -> usize {
    let engine = live.engine.borrow();
    engine.pause(pause).map_or(0, |row| engine.undecided(row, now()).count())
}

/// The call that edited arguments are for, if it is accepted with them: its number, its address, and the arguments that are shown.
fn accepted_call(
    live: &Live,
    pause: &str,
    asked: &DecisionRequest,
    sent: &SentArguments,
) -> Option<(u32, String, String)> {
    let engine = live.engine.borrow();
    let mut waiting = engine.undecided(engine.pause(pause)?, now()).filter(|call| call.status == CallStatus::Waiting);
    let call = match sent.call {
        Some(seq) => waiting.find(|call| call.seq == seq)?,
        None => waiting.next()?,
    };
    let shown = call.shown.as_ref()?;
    (asked.verdict_on(call.seq) == Some(Verdict::Accept))
        .then(|| (call.seq, call.address.clone(), shown.arguments.clone()))
}
