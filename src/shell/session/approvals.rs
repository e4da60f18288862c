//! What a person is shown of a pause, and decisions on it.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};
use worker::{Request, Response};

use super::granting::grants_of;
use super::outcome::Failure;
use super::{Session, caller_of};
use crate::approval::{Approvers, Route, Standing, Verdict};
use crate::auth::Purpose;
use crate::console::approval::ApprovalView;
use crate::engine::{CallRow, Decider, DecisionError, DecisionItem, Edited, Execution, PauseTarget};
use crate::internal::{Context, DecisionRequest, StopRequest};
use crate::json::canonical_json;
use crate::protocol::errors::WireError;
use crate::protocol::time::iso_time;
use crate::session::SessionMeta;
use crate::session::form::Asked;
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
        let (verdicts, edited): (Vec<Verdict>, Vec<u32>) = match &target {
            PauseTarget::All { verdict, edits, .. } => (vec![*verdict], edits.keys().copied().collect()),
            PauseTarget::Items(items) => (
                items.iter().map(|item| item.verdict).collect(),
                items.iter().filter(|item| item.edited.is_some()).map(|item| item.seq).collect(),
            ),
        };
        let result = runner.try_step(live, |engine, moment| engine.decide(moment, pause, target, decider))?;
        if result.is_ok() {
            log(
                "mcp_approval",
                json!({
                    "executionId": live.id,
                    "decision": verdicts,
                    "by": decider.account,
                    "route": decider.route,
                    "edited": edited,
                }),
            );
            runner.act_on_decisions();
        }
        Ok(result)
    }

    /// The view of a pause, for its owner and for whoever may decide on something of it.
    pub(super) fn view(&self, context: &Context, pause: &str) -> Result<Response, Failure> {
        let seen = self.seen_pause(context, pause)?;
        view_response(200, &seen, pause, None)
    }

    fn seen_pause(&self, context: &Context, pause: &str) -> Result<Seen, Failure> {
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        let principal = &context.principal;
        if principal.organization != meta.organization {
            return Err(WireError::not_the_owner().into());
        }
        let standing = Standing { admin: principal.admin, other: !meta.is_owned_by(principal) };
        let live = self.runner()?.by_pause(pause, &caller_of(&meta))?;
        // Strangers are not told what is there and what is not.
        let shown = live.as_ref().is_some_and(|live| may_see(&live.engine.borrow(), pause, standing));
        if standing.other && !shown {
            return Err(WireError::not_the_owner().into());
        }
        match live {
            Some(live) => Ok(Seen { meta, live, standing, session: self.runner()?.object_id() }),
            None => Err(WireError::session_not_found().into()),
        }
    }

    pub(super) async fn decide_request(
        &self,
        mut request: Request,
        context: &Context,
        pause: &str,
    ) -> Result<Response, Failure> {
        let asked: DecisionRequest = read_own_body(&mut request).await?;
        let seen = self.seen_pause(context, pause)?;
        let decider = decider_of(context, seen.standing)?;
        let problem = self.decide_seen(&seen, pause, asked, &decider).await?.err();
        view_response(status_of(problem.as_ref()), &seen, pause, problem.as_ref())
    }

    async fn decide_seen(
        &self,
        seen: &Seen,
        pause: &str,
        asked: DecisionRequest,
        decider: &Decider,
    ) -> Result<Result<(), DecisionError>, Failure> {
        let live = &seen.live;
        if let Some(all) = asked.all.as_ref().filter(|all| all.verdict == Verdict::Cancel && all.digest.is_empty()) {
            // Without a digest nothing was shown: the program ends, whatever it does. That is for its owner.
            if decider.standing.other {
                return Ok(Err(DecisionError::NotYours { seq: 0, approvers: Approvers::Owner }));
            }
            return Ok(self.stop(live, all.reason.clone(), decider)?);
        }
        let edits = match self.edits_of(seen, pause, &asked).await? {
            Ok(edits) => edits,
            Err(problem) => return Ok(Err(problem)),
        };
        let allowed = match grants_of(seen, pause, &asked, &edits, decider) {
            Ok(allowed) => allowed,
            Err(problem) => return Ok(Err(problem)),
        };
        let gives = allowed.iter().map(|grant| (grant.call, grant.id.clone())).collect();
        let target = match target_of(live, pause, asked, edits, gives) {
            Ok(target) => target,
            Err(problem) => return Ok(Err(problem)),
        };
        if !allowed.is_empty()
            && let Err(problem) = self.put_grants(seen, pause, &target, decider, &allowed).await?
        {
            return Ok(Err(problem));
        }
        // One that is refused now leaves grants that never count.
        let result = self.decide(live, pause, target, decider)?;
        if result.is_ok() && !allowed.is_empty() {
            self.runner()?.give(allowed.into_iter().map(|grant| grant.id));
            self.runner()?.tell_waiting_later();
        }
        Ok(result)
    }

    /// Ends a program by the execution's own id: it may never have waited for anybody.
    pub(super) async fn stop_request(
        &self,
        mut request: Request,
        context: &Context,
        execution: &str,
    ) -> Result<Response, Failure> {
        let StopRequest { reason } = read_own_body(&mut request).await?;
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        if !meta.is_owned_by(&context.principal) {
            return Err(WireError::not_the_owner().into());
        }
        let decider = decider_of(context, Standing { admin: context.principal.admin, other: false })?;
        let Some(live) = self.runner()?.by_id(execution, &caller_of(&meta))? else {
            return Err(WireError::session_not_found().into());
        };
        let problem = self.stop(&live, reason, &decider)?.err();
        let body = json!({ "problem": problem.as_ref().map(problem_value) });
        Ok(json_response(status_of(problem.as_ref()), &body)?)
    }

    fn stop(
        &self,
        live: &Rc<Live>,
        reason: Option<String>,
        decider: &Decider,
    ) -> worker::Result<Result<(), DecisionError>> {
        let result = self.runner()?.stop(live, reason, decider)?;
        if result.is_ok() {
            log(
                "mcp_execution_stopped",
                json!({ "executionId": live.id, "by": decider.account, "route": decider.route }),
            );
        }
        Ok(result)
    }
}

fn view_response(
    status: u16,
    Seen { meta, live, standing, session }: &Seen,
    pause: &str,
    problem: Option<&DecisionError>,
) -> Result<Response, Failure> {
    let engine = live.engine.borrow();
    let Some(row) = engine.pause(pause) else {
        return Err(WireError::session_not_found().into());
    };
    let encode = |pause: &str| ExecutionId::encode(session, pause).unwrap_or_default();
    let view = ApprovalView::of(&engine, row, &live.program, (session, meta), *standing, encode, now());
    let problem = problem.map(problem_value);
    Ok(json_response(status, &json!({ "view": view, "problem": problem }))?)
}

/// A pause, and who looks at it.
pub(super) struct Seen {
    pub(super) meta: Rc<SessionMeta>,
    pub(super) live: Rc<Live>,
    pub(super) standing: Standing,
    /// The session's id.
    pub(super) session: String,
}

/// Whether somebody may see a pause because of what can be, or could have been, decided there.
fn may_see(engine: &Execution, pause: &str, standing: Standing) -> bool {
    let Some(row) = engine.pause(pause) else { return false };
    let mut shown = row.items().filter_map(|seq| engine.call(seq)?.shown.as_ref());
    shown.any(|shown| shown.approvers.admit(standing))
}

/// Who decides, by which way.
fn decider_of(context: &Context, standing: Standing) -> Result<Decider, WireError> {
    let route = match context.principal.purpose {
        Purpose::Browser => Route::Page,
        Purpose::Approve => Route::Api,
        // The edge refuses it; this is the second lock on the same door.
        Purpose::Mcp | Purpose::Admin => {
            return Err(WireError::forbidden("This credential calls tools; it does not decide."));
        }
    };
    Ok(Decider { account: context.principal.account.clone(), route, standing })
}

/// What is decided, with the contents of answers checked against what the tools ask.
fn target_of(
    live: &Live,
    pause: &str,
    asked: DecisionRequest,
    mut edits: BTreeMap<u32, Edited>,
    mut gives: BTreeMap<u32, String>,
) -> Result<PauseTarget, DecisionError> {
    let contents = contents_of(live, pause, &asked)?;
    Ok(match asked.all {
        Some(all) => {
            PauseTarget::All { digest: all.digest, verdict: all.verdict, reason: all.reason, contents, edits, gives }
        }
        None => PauseTarget::Items(
            asked
                .items
                .into_iter()
                .map(|item| DecisionItem {
                    seq: item.call,
                    digest: item.digest,
                    verdict: item.verdict,
                    reason: item.reason,
                    content: contents.get(&item.call).cloned(),
                    edited: edits.remove(&item.call),
                    gives: gives.remove(&item.call),
                })
                .collect(),
        ),
    })
}

/// Canonical JSON of what the person entered, by the calls that ask it.
fn contents_of(live: &Live, pause: &str, asked: &DecisionRequest) -> Result<BTreeMap<u32, Rc<str>>, DecisionError> {
    let forms = open_forms(live, pause);
    let alone = forms.len() == 1;
    let mut contents = BTreeMap::new();
    for (seq, form) in forms {
        let item = asked.items.iter().find(|item| item.call == seq);
        let (verdict, content) = match (&asked.all, item) {
            (Some(all), _) => (all.verdict, all.content.as_ref().filter(|_| alone)),
            (None, Some(item)) => (item.verdict, item.content.as_ref()),
            (None, None) => continue,
        };
        if verdict != Verdict::Accept {
            continue;
        }
        let content = match (content, &asked.form) {
            (Some(content), _) => form.content(content),
            (None, Some(sent)) => form.content_of_form(|place| {
                let field = sent.iter().filter(|field| field.call == seq && field.place == place);
                field.map(|field| field.text.as_str()).collect()
            }),
            // Then there is none, which the engine refuses.
            (None, None) => continue,
        };
        let content = content.map_err(|problem| DecisionError::BadAnswer { seq, problem })?;
        contents.insert(seq, canonical_json(&Value::Object(content)).into());
    }
    Ok(contents)
}

/// The forms that can be answered under a pause, by their calls.
pub(super) fn open_forms(live: &Live, pause: &str) -> Vec<(u32, Asked)> {
    let engine = live.engine.borrow();
    let Some(row) = engine.pause(pause) else { return Vec::new() };
    let form = |call: &CallRow| {
        let asked = Asked::parse(&engine.asked(call)?.asked).ok()?;
        asked.is_form().then_some((call.seq, asked))
    };
    engine.undecided(row, now()).filter_map(form).collect()
}

fn status_of(problem: Option<&DecisionError>) -> u16 {
    match problem {
        None => 200,
        Some(DecisionError::UnknownPause) => 404,
        Some(DecisionError::NotYours { .. }) => 403,
        Some(
            DecisionError::BadList
            | DecisionError::UnknownCall { .. }
            | DecisionError::BadAnswer { .. }
            | DecisionError::BadArguments { .. }
            | DecisionError::NoGrant { .. },
        ) => 400,
        Some(
            DecisionError::AlreadyDecided { .. } | DecisionError::NothingWaits | DecisionError::DigestChanged { .. },
        ) => 409,
    }
}

fn problem_value(problem: &DecisionError) -> Value {
    let message = problem.to_string();
    match problem {
        DecisionError::AlreadyDecided { seq, decision } => json!({
            "code": "already_decided",
            "message": message,
            "call": seq,
            "status": decision.verdict.past_tense(),
            "by": decision.by,
            "reason": decision.reason,
            "at": iso_time(decision.at),
        }),
        DecisionError::NothingWaits => json!({ "code": "nothing_waits", "message": message }),
        DecisionError::DigestChanged { seq } => json!({ "code": "digest_changed", "message": message, "call": seq }),
        DecisionError::UnknownCall { seq } => json!({ "code": "unknown_call", "message": message, "call": seq }),
        DecisionError::UnknownPause => json!({ "code": "not_found", "message": message }),
        DecisionError::BadAnswer { seq, .. } => json!({ "code": "bad_answer", "message": message, "call": seq }),
        DecisionError::NotYours { seq, approvers } => {
            json!({ "code": "not_yours", "message": message, "call": seq, "approvers": approvers })
        }
        DecisionError::BadArguments { seq, details, .. } => {
            json!({ "code": "bad_arguments", "message": message, "call": seq, "details": details })
        }
        DecisionError::NoGrant { seq, .. } => json!({ "code": "no_grant", "message": message, "call": seq }),
        DecisionError::BadList => json!({ "code": "bad_list", "message": message }),
    }
}
