//! Approvals asked through MCP elicitation (`elicitation_mode=native`).

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::outcome::RpcError;
use super::{Session, caller_of};
use crate::approval::{Route, Standing, Verdict};
use crate::engine::{Decider, DecisionItem, PauseReport, PauseTarget, Report};
use crate::protocol::outgoing::notification;
use crate::session::ElicitationMode;
use crate::session::id::ExecutionId;
use crate::session::question::{ApprovalQuestion, Askable, approval_question, form_decision};
use crate::session::tools::approval_url;
use crate::shell::clock::{now, sleep};
use crate::shell::runner::Live;

/// What became of a question.
enum Asked {
    /// The pause led to this.
    Outcome(Report),
    /// Nobody decided, and the time that a request may wait is over or the person does not want to.
    NotNow,
}

impl Session {
    /// Asks the client about a pause, and about the next one, until the program ends or the time is over. Gives the last
    /// report, and whether it is one that was asked about already; `None` where the client cannot be asked at all.
    pub(super) async fn ask_natively(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        live: &Rc<Live>,
        report: Report,
    ) -> Result<Option<(Report, bool)>, RpcError> {
        if exchange.meta.modes.elicitation != ElicitationMode::Native || !exchange.takes_events {
            return Ok(None);
        }
        self.ask_and_wait(exchange, live, report).boxed_local().await
    }

    async fn ask_and_wait(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        live: &Rc<Live>,
        mut report: Report,
    ) -> Result<Option<(Report, bool)>, RpcError> {
        let settings = self.settings()?;
        let mut asked = false;
        let until = now().saturating_add(settings.resume_wait_ms);
        let askable = Askable::parse(&exchange.meta.capabilities);
        loop {
            let Report::Paused(pause) = &report else { return Ok(asked.then_some((report, false))) };
            let url = self.url_of(&pause.id, &exchange.meta.public_origin)?;
            let Some(question) = approval_question(pause, &url, askable, settings.form_decisions) else {
                return Ok(asked.then_some((report, false)));
            };
            asked = true;
            match self.ask_once(exchange, live, pause, question, until).await? {
                Asked::Outcome(next) => report = next,
                Asked::NotNow => return Ok(Some((report, true))),
            }
        }
    }

    fn url_of(&self, pause: &str, origin: &str) -> Result<String, RpcError> {
        let holder = self.runner()?.object_id();
        let id = ExecutionId::encode(&holder, pause)
            .ok_or_else(|| RpcError::internal("an execution id could not be written"))?;
        Ok(approval_url(origin, &id, &holder))
    }

    async fn ask_once(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        live: &Rc<Live>,
        pause: &PauseReport,
        question: ApprovalQuestion,
        until: u64,
    ) -> Result<Asked, RpcError> {
        let key = format!("pause:{}", pause.id);
        let by_url = question.by_url;
        let caller = caller_of(&exchange.meta);
        let outcome = pin!(self.outcome_of_pause(Rc::clone(live), &pause.id, &caller, Some(exchange), until));
        let time = || sleep(Duration::from_millis(until.saturating_sub(now())));
        let answer = pin!(exchange.ask_client(&key, question.question));
        let outcome = match select(select(outcome, answer), time()).await {
            Either::Left((Either::Left((report, _)), _)) => {
                exchange.withdraw(&key, "It was decided on the page.");
                page_is_done(exchange, pause, by_url);
                return Ok(Asked::Outcome(report?));
            }
            Either::Right(_) => {
                exchange.withdraw(&key, "Nobody answered in time; the approval still waits on its page.");
                return Ok(Asked::NotNow);
            }
            Either::Left((Either::Right((answer, outcome)), _)) => {
                let goes_on = match answer {
                    // Accepting a page means only that it is opened.
                    Ok(answer) if by_url => answer.get("action").and_then(Value::as_str) == Some("accept"),
                    Ok(answer) => self.decide_by_form(exchange, live, pause, &answer)?,
                    Err(_) => false,
                };
                if !goes_on {
                    return Ok(Asked::NotNow);
                }
                outcome
            }
        };
        match select(outcome, time()).await {
            Either::Left((report, _)) => {
                page_is_done(exchange, pause, by_url);
                Ok(Asked::Outcome(report?))
            }
            Either::Right(_) => Ok(Asked::NotNow),
        }
    }

    /// Writes the decision of a form. `false` when the person decided nothing.
    fn decide_by_form(
        self: &Rc<Self>,
        exchange: &Exchange,
        live: &Rc<Live>,
        pause: &PauseReport,
        answer: &Value,
    ) -> Result<bool, RpcError> {
        let Some((verdict, reason)) = form_decision(answer) else { return Ok(false) };
        let items = items_of(live, &pause.id, verdict, reason.as_deref());
        if !items.is_empty() {
            let standing = Standing::default();
            let decider = Decider { account: exchange.context.principal.account.clone(), route: Route::Form, standing };
            // Somebody else may have been faster; what the pause led to is answered anyway.
            let _ = self.decide(live, &pause.id, PauseTarget::Items(items), &decider)?;
        }
        Ok(true)
    }
}

/// Tells the client that the page needs no attention any more.
fn page_is_done(exchange: &Exchange, pause: &PauseReport, by_url: bool) {
    if by_url {
        let params = json!({ "elicitationId": pause.id });
        exchange.send_now(&notification("notifications/elicitation/complete", Some(params)));
    }
}

/// One answer for all that was reported under a pause and still waits as it was reported.
pub(super) fn items_of(live: &Live, pause: &str, verdict: Verdict, reason: Option<&str>) -> Vec<DecisionItem> {
    let engine = live.engine.borrow();
    let Some(row) = engine.pause(pause) else { return Vec::new() };
    // What a person edited before it was asked again is shown on the page only.
    let waiting = engine
        .undecided(row, now())
        .filter(|call| call.edited.is_none() && row.has_asked(call.seq, engine.digest_asked(call)));
    waiting
        .map(|call| DecisionItem {
            seq: call.seq,
            digest: engine.digest_asked(call).unwrap_or_default().to_owned(),
            verdict,
            reason: reason.map(ToOwned::to_owned),
            content: None,
            edited: None,
            gives: None,
        })
        .collect()
}
