//! The tools `execute` and `resume`.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use worker::{Delay, Request, Response};

use super::answers::tool_error;
use super::outcome::{Failure, RpcError};
use super::{Session, caller_of};
use crate::approval::{Route, Verdict};
use crate::engine::program::compile_program;
use crate::engine::{Decider, DecisionItem, PauseTarget, ProgramRow, Report, report_of_pause};
use crate::internal::{Context, Operation, RelayedDecision, ResumeRequest};
use crate::protocol::errors::WireError;
use crate::protocol::text::bounded;
use crate::session::failure::{Disposition, classify};
use crate::session::id::ExecutionId;
use crate::session::stream::Awaits;
use crate::session::tools::{PENDING_LINES, RELAYED_CHARACTERS, ReportContext, execution_not_found, report_result};
use crate::session::{ElicitationMode, Modes, SessionMeta};
use crate::shell::clock::now;
use crate::shell::http::{internal_error, own_request, platform_failure};
use crate::shell::invoke::Caller;
use crate::shell::organization::read_own_body;
use crate::shell::runner::{Live, OPEN_EXECUTIONS, SANDBOXES};

/// Told to a model that tries to decide where a person has to.
const PERSON_DECIDES: &str =
    "The model does not decide here. A person decides on the approvalUrl; call resume without action.";
/// Told to a model that accepts what it could not show whole.
const TOO_LONG_TO_RELAY: &str = "What waits is too long to be shown in a conversation, so it cannot be accepted here. Show \
     the user the url: the page shows all of it. Declining works as before.";
/// Told when the object that holds the execution is just moving or restarting.
const HOLDER_RESTARTS: &str =
    "The gateway is restarting. Nothing is lost: call resume again with the same executionId in a moment.";

impl Session {
    pub(super) async fn execute(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        arguments: &Map<String, Value>,
        stream: Option<u32>,
    ) -> Result<String, RpcError> {
        let Some(code) = arguments.get("code").and_then(Value::as_str) else {
            return Ok(tool_error("bad_arguments", "execute needs { code: string }, the program's text."));
        };
        let program = match compile_program(code) {
            Ok(program) => program,
            Err(error) => return Ok(tool_error("program_refused", &error.to_string())),
        };
        let runner = self.runner()?;
        let caller = caller_of(meta);
        runner.load_open(&caller)?;
        if runner.sandboxes() >= SANDBOXES {
            runner.suspend_waiting();
        }
        if runner.sandboxes() >= SANDBOXES || runner.open().len() >= OPEN_EXECUTIONS {
            return Ok(tool_error(
                "too_many_programs",
                "This session runs too many programs at once. Wait until one has ended, or decide on those that wait.",
            ));
        }
        let _driver = runner.drive();
        let program = ProgramRow { source: code.to_owned(), compiled: program.javascript, lines: program.lines };
        let live = runner.start(caller, program)?;
        self.link_stream(stream, Awaits::Execution(live.id.clone()));
        let report = self.first_report(&live).await?;
        self.worded(&report, meta.modes.elicitation, meta, false)
    }

    pub(super) async fn resume(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        arguments: &Map<String, Value>,
        stream: Option<u32>,
    ) -> Result<String, RpcError> {
        let Some(text) = arguments.get("executionId").and_then(Value::as_str) else {
            return Ok(tool_error(
                "bad_arguments",
                "resume needs { executionId: string }, from the result of execute.",
            ));
        };
        let decision = match relayed_decision(meta.modes, arguments) {
            Ok(decision) => decision,
            Err(message) => return Ok(tool_error("bad_arguments", message)),
        };
        let Some(id) = ExecutionId::parse(text) else {
            return Ok(execution_not_found());
        };
        let mode = meta.modes.elicitation;
        self.link_stream(stream, Awaits::Pause { execution_id: text.to_owned(), mode });
        let request = ResumeRequest { mode, decision };
        if id.session == self.runner()?.object_id() {
            return self.resume_here(meta, context, &id.pause, &request).await;
        }
        self.resume_elsewhere(context, &id, &request).await
    }

    /// `resume` of an execution that another session object holds.
    pub(super) async fn resume_elsewhere(
        &self,
        context: &Context,
        id: &ExecutionId,
        request: &ResumeRequest,
    ) -> Result<String, RpcError> {
        let context = Context { operation: Operation::Resume { pause: id.pause.clone() }, ..context.clone() };
        let namespace = self.env.durable_object("SESSION")?;
        // The platform knows which ids it made for this namespace.
        let Ok(object) = namespace.id_from_string(&id.session) else {
            return Ok(execution_not_found());
        };
        let request = own_request("https://session.internal/resume", &context, &serde_json::to_string(request)?)?;
        let mut response = match object.get_stub()?.fetch_with_request(request).await {
            Ok(response) => response,
            Err(error) => return holder_failed(&error),
        };
        match response.status_code() {
            200 => Ok(response.text().await?),
            403 | 404 => Ok(execution_not_found()),
            503 => Ok(tool_error("restarting", HOLDER_RESTARTS)),
            status => Err(RpcError::internal(&format!("the session that holds the execution answered {status}"))),
        }
    }

    pub(super) async fn resume_request(
        self: &Rc<Self>,
        mut request: Request,
        context: &Context,
        pause: &str,
    ) -> Result<Response, Failure> {
        let asked: ResumeRequest = read_own_body(&mut request).await?;
        let Some(meta) = self.meta()?.filter(|meta| meta.is_owned_by(&context.principal)) else {
            return Err(WireError::session_not_found().into());
        };
        match self.resume_here(&meta, context, pause, &asked).await {
            Ok(text) => Ok(worker::ResponseBuilder::new()
                .with_header("content-type", "application/json")?
                .fixed(text.into_bytes())),
            Err(error) => Ok(internal_error(&error.message, None)?),
        }
    }

    pub(super) async fn resume_here(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        pause: &str,
        request: &ResumeRequest,
    ) -> Result<String, RpcError> {
        let runner = self.runner()?;
        let caller = caller_of(meta);
        let Some(live) = runner.by_pause(pause, &caller)? else {
            return Ok(execution_not_found());
        };
        let _driver = runner.drive();
        if let Some(decision) = &request.decision {
            // The mode of the session that holds the execution counts: another session of the same bearer must not be a
            // way around the person.
            if meta.modes.elicitation != ElicitationMode::Model || !runner.settings.model_decisions {
                return Ok(tool_error("bad_arguments", PERSON_DECIDES));
            }
            if !self.relay(&live, pause, decision, context)? {
                return Ok(tool_error("too_long_to_relay", TOO_LONG_TO_RELAY));
            }
        }
        runner.wake_all();
        let wait = Delay::from(Duration::from_millis(runner.settings.resume_wait_ms));
        let outcome = self.outcome_of_pause(live, pause, &caller);
        let (outcome, wait) = (std::pin::pin!(outcome), std::pin::pin!(wait));
        let (report, still_waiting) = match select(outcome, wait).await {
            Either::Left((report, _)) => (report?, false),
            Either::Right(((), _)) => {
                let Some(live) = runner.by_pause(pause, &caller)? else {
                    return Ok(execution_not_found());
                };
                let engine = live.engine.borrow();
                let Some(row) = engine.pause(pause) else {
                    return Ok(execution_not_found());
                };
                (Report::Paused(engine.open_report(row, now())), true)
            }
        };
        self.worded(&report, request.mode, meta, still_waiting)
    }

    /// Writes the answer that the model relays, for what was reported to it and still waits. One that comes too late
    /// changes nothing; what the pause led to is answered anyway. Gives `false`, and writes nothing, where the model could
    /// not have shown all of what it accepts.
    fn relay(
        &self,
        live: &Rc<Live>,
        pause: &str,
        decision: &RelayedDecision,
        context: &Context,
    ) -> Result<bool, RpcError> {
        let items: Vec<DecisionItem> = {
            let engine = live.engine.borrow();
            let Some(row) = engine.pause(pause) else { return Ok(true) };
            let waiting: Vec<_> = engine.undecided(row, now()).filter(|call| row.has_asked(call)).collect();
            // What the model was not given to show, the user cannot have accepted.
            let hidden = waiting.len() > PENDING_LINES
                || waiting.iter().any(|call| call.arguments.chars().count() > RELAYED_CHARACTERS);
            if hidden && decision.verdict == Verdict::Accept {
                return Ok(false);
            }
            waiting
                .into_iter()
                .map(|call| DecisionItem {
                    seq: call.seq,
                    digest: call.shown.as_ref().map(|shown| shown.digest.clone()).unwrap_or_default(),
                    verdict: decision.verdict,
                    reason: decision.reason.clone(),
                })
                .collect()
        };
        if items.is_empty() {
            return Ok(true);
        }
        let decider = Decider { account: context.principal.account.clone(), route: Route::Model };
        // Somebody else may have been faster.
        let _ = self.decide(live, pause, PauseTarget::Items(items), &decider)?;
        Ok(true)
    }

    /// Waits for the first pause of an execution, or its end.
    pub(super) async fn first_report(&self, live: &Rc<Live>) -> Result<Report, RpcError> {
        let runner = self.runner()?;
        loop {
            let changed = runner.changed.changed();
            if let Some(report) = live.engine.borrow().first_report() {
                return Ok(report);
            }
            if live.lost.get() {
                return Err(RpcError::internal("the execution's journal could not be written"));
            }
            // Ends with an error only when the object itself ends.
            let _ = changed.await;
        }
    }

    /// Waits until it is known what a pause led to.
    pub(super) async fn outcome_of_pause(
        &self,
        mut live: Rc<Live>,
        pause: &str,
        caller: &Caller,
    ) -> Result<Report, RpcError> {
        let runner = self.runner()?;
        loop {
            let changed = runner.changed.changed();
            let report = {
                let engine = live.engine.borrow();
                engine.pause(pause).and_then(|row| report_of_pause(&engine, row))
            };
            if let Some(report) = report {
                return Ok(report);
            }
            if live.lost.get() {
                live = runner.by_pause(pause, caller)?.ok_or_else(|| RpcError::internal("the execution is gone"))?;
                runner.wake_idle();
                continue;
            }
            // Ends with an error only when the object itself ends.
            let _ = changed.await;
        }
    }

    pub(super) fn worded(
        &self,
        report: &Report,
        mode: ElicitationMode,
        holder: &SessionMeta,
        still_waiting: bool,
    ) -> Result<String, RpcError> {
        let holder_id = self.runner()?.object_id();
        let execution_id = match report {
            Report::Paused(pause) => ExecutionId::encode(&holder_id, &pause.id)
                .ok_or_else(|| RpcError::internal("an execution id could not be written"))?,
            Report::Ended { .. } => String::new(),
        };
        let context = ReportContext { mode, holder, holder_id: &holder_id, still_waiting };
        Ok(report_result(report, &execution_id, context))
    }
}

/// The decision that a model relays; only where the session's mode allows it.
fn relayed_decision(modes: Modes, arguments: &Map<String, Value>) -> Result<Option<RelayedDecision>, &'static str> {
    let action = match arguments.get("action") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(action)) => Verdict::parse(action).ok_or("action is accept, decline or cancel.")?,
        Some(_) => return Err("action is accept, decline or cancel."),
    };
    if modes.elicitation != ElicitationMode::Model {
        return Err(PERSON_DECIDES);
    }
    let reason = arguments.get("content").and_then(|content| content.get("reason")).and_then(Value::as_str);
    Ok(Some(RelayedDecision { verdict: action, reason: reason.map(|reason| bounded(reason, 2_000)) }))
}

/// The object that holds the execution could not be reached.
fn holder_failed(error: &worker::Error) -> Result<String, RpcError> {
    let failure = platform_failure(error);
    match classify(&failure).1 {
        Disposition::Dead => Ok(execution_not_found()),
        Disposition::Transient | Disposition::Overloaded => Ok(tool_error("restarting", HOLDER_RESTARTS)),
        Disposition::Unknown => Err(RpcError::internal(&failure.messages.join(" / "))),
    }
}
