//! What a person is shown of a pause, and decisions on it.

use std::rc::Rc;

use serde_json::json;
use worker::{Request, Response};

use super::outcome::Failure;
use super::{Session, caller_of};
use crate::approval::{Route, Verdict};
use crate::auth::Purpose;
use crate::console::approval::ApprovalView;
use crate::engine::{Decider, DecisionError, DecisionItem, PauseTarget};
use crate::internal::{Context, DecisionRequest};
use crate::protocol::errors::WireError;
use crate::session::SessionMeta;
use crate::session::id::ExecutionId;
use crate::shell::clock::now;
use crate::shell::http::json_response;
use crate::shell::organization::read_own_body;
use crate::shell::runner::Live;
use crate::shell::telemetry::log;
impl Session {
    /// Writes a decision, or says why not.
    pub(super) fn decide(
        &self,
        live: &Rc<Live>,
        pause: &str,
        target: PauseTarget,
        decider: &Decider,
    ) -> worker::Result<Result<(), DecisionError>> {
        let runner = self.runner()?;
        let verdicts: Vec<Verdict> = match &target {
            PauseTarget::All { verdict, .. } => vec![*verdict],
            PauseTarget::Items(items) => items.iter().map(|item| item.verdict).collect(),
        };
        let result = runner.try_step(live, |engine, moment| engine.decide(moment, pause, target, decider))?;
        if result.is_ok() {
            log(
                "mcp_approval",
                json!({ "executionId": live.id, "decision": verdicts, "by": decider.account, "route": decider.route }),
            );
            runner.act_on_decisions();
        }
        Ok(result)
    }

    /// The view of a pause, for its owner.
    pub(super) fn view(&self, context: &Context, pause: &str) -> Result<Response, Failure> {
        let (meta, live) = self.owned_pause(context, pause)?;
        self.view_response(200, &meta, &live, pause, None)
    }

    pub(super) fn owned_pause(&self, context: &Context, pause: &str) -> Result<(Rc<SessionMeta>, Rc<Live>), Failure> {
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        if !meta.is_owned_by(&context.principal) {
            return Err(WireError::not_the_owner().into());
        }
        let runner = self.runner()?;
        match runner.by_pause(pause, &caller_of(&meta))? {
            Some(live) => Ok((meta, live)),
            None => Err(WireError::session_not_found().into()),
        }
    }

    pub(super) fn view_response(
        &self,
        status: u16,
        meta: &SessionMeta,
        live: &Live,
        pause: &str,
        problem: Option<&DecisionError>,
    ) -> Result<Response, Failure> {
        let holder = self.runner()?.object_id();
        let engine = live.engine.borrow();
        let Some(row) = engine.pause(pause) else {
            return Err(WireError::session_not_found().into());
        };
        let encode = |pause: &str| ExecutionId::encode(&holder, pause).unwrap_or_default();
        let view = ApprovalView::of(&engine, row, &live.program, (&holder, meta), encode, now());
        let problem = problem.map(|problem| match problem {
            DecisionError::AlreadyDecided { seq, decision } => json!({
                "code": "already_decided",
                "message": problem.to_string(),
                "call": seq,
                "status": decision.verdict.past_tense(),
                "by": decision.by,
                "reason": decision.reason,
                "at": crate::protocol::time::iso_time(decision.at),
            }),
            DecisionError::NothingWaits => json!({ "code": "nothing_waits", "message": problem.to_string() }),
            DecisionError::DigestChanged { seq } => {
                json!({ "code": "digest_changed", "message": problem.to_string(), "call": seq })
            }
            DecisionError::UnknownCall { seq } => {
                json!({ "code": "unknown_call", "message": problem.to_string(), "call": seq })
            }
            DecisionError::UnknownPause => json!({ "code": "not_found", "message": problem.to_string() }),
            DecisionError::BadList => json!({ "code": "bad_list", "message": problem.to_string() }),
        });
        Ok(json_response(status, &json!({ "view": view, "problem": problem }))?)
    }

    pub(super) async fn decide_request(
        &self,
        mut request: Request,
        context: &Context,
        pause: &str,
    ) -> Result<Response, Failure> {
        let asked: DecisionRequest = read_own_body(&mut request).await?;
        let (meta, live) = self.owned_pause(context, pause)?;
        let route = match context.principal.purpose {
            Purpose::Browser => Route::Page,
            Purpose::Approve => Route::Api,
            // The edge refuses it; this is the second lock on the same door.
            Purpose::Mcp | Purpose::Admin => {
                return Err(WireError::forbidden("This credential calls tools; it does not decide.").into());
            }
        };
        let target = match asked.all {
            Some(all) => PauseTarget::All { digest: all.digest, verdict: all.verdict, reason: all.reason },
            None => PauseTarget::Items(
                asked
                    .items
                    .into_iter()
                    .map(|item| DecisionItem {
                        seq: item.call,
                        digest: item.digest,
                        verdict: item.verdict,
                        reason: item.reason,
                    })
                    .collect(),
            ),
        };
        let decider = Decider { account: context.principal.account.clone(), route };
        let problem = self.decide(&live, pause, target, &decider)?.err();
        let status = match &problem {
            None => 200,
            Some(DecisionError::UnknownPause) => 404,
            Some(DecisionError::BadList | DecisionError::UnknownCall { .. }) => 400,
            Some(
                DecisionError::AlreadyDecided { .. }
                | DecisionError::NothingWaits
                | DecisionError::DigestChanged { .. },
            ) => 409,
        };
        self.view_response(status, &meta, &live, pause, problem.as_ref())
    }
}
