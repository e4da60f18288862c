//! The tools `execute` and `resume`.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use worker::{Request, Response};

use super::answers::tool_error;
use super::approvals::open_forms;
use super::exchange::Exchange;
use super::native::items_of;
use super::outcome::{Failure, RpcError};
use super::questions::{ExchangeLink, UpstreamLink};
use super::{Session, caller_of};
use crate::approval::{Route, Standing, Verdict};
use crate::engine::program::compile_program;
use crate::engine::{
    CallStatus, Decider, DecisionItem, Execution, ExecutionStatus, PauseTarget, ProgramRow, Report, report_of_pause,
};
use crate::internal::{Context, Operation, RelayedDecision, ResumeRequest};
use crate::json::canonical_json;
use crate::protocol::errors::WireError;
use crate::protocol::outgoing::progress;
use crate::protocol::text::bounded;
use crate::session::failure::{Disposition, classify};
use crate::session::id::ExecutionId;
use crate::session::stream::Awaits;
use crate::session::tools::{PENDING_LINES, RELAYED_CHARACTERS, ReportContext, execution_not_found, report_result};
use crate::session::{ElicitationMode, Modes, SessionMeta};
use crate::shell::clock::{now, sleep};
use crate::shell::http::{internal_error, own_request};
use crate::shell::invoke::Caller;
use crate::shell::organization::read_own_body;
use crate::shell::platform::{log_failure, platform_failure};
use crate::shell::runner::Live;
use crate::upstream::{Link, LogLevel};

/// Told to a model that tries to decide where a person has to.
const PERSON_DECIDES: &str =
    "The model does not decide here. A person decides on the approvalUrl; call resume without action.";
/// Told to a model that accepts what it could not show whole.
const TOO_LONG_TO_RELAY: &str = "What waits is too long to be shown in a conversation, so it cannot be accepted here. Show \
     the user the url: the page shows all of it. Declining works as before.";
/// Told when the object that holds the execution is just moving or restarting.
const HOLDER_RESTARTS: &str =
    "The gateway is restarting. Nothing is lost: call resume again with the same executionId in a moment.";

/// What became of an answer that a model relays.
enum Relayed {
    /// It was written, or came too late.
    Taken,
    /// The model cannot have shown what it accepts.
    TooLong,
    /// Policy leaves it to somebody else, and to whom.
    NotYours(String),
    /// It is not what a tool asks for, and why.
    BadAnswer(String),
}

impl Session {
    pub(super) async fn execute(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        arguments: &Map<String, Value>,
    ) -> Result<String, RpcError> {
        let Some(code) = arguments.get("code").and_then(Value::as_str) else {
            return Ok(tool_error("bad_arguments", "execute needs { code: string }, the program's text."));
        };
        let program = match compile_program(code) {
            Ok(program) => program,
            Err(error) => return Ok(tool_error("program_refused", &error.to_string())),
        };
        let program = ProgramRow {
            source: code.to_owned(),
            compiled: program.javascript,
            lines: program.lines,
            direct: None,
            trace: exchange.trace(),
        };
        self.start(exchange, program).await
    }

    /// Starts an execution and gives its first report as a result.
    pub(super) async fn start(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        program: ProgramRow,
    ) -> Result<String, RpcError> {
        let runner = self.runner()?;
        let caller = caller_of(&exchange.meta);
        runner.load_open(&caller)?;
        if !runner.has_room() {
            return Ok(tool_error(
                "too_many_programs",
                "Too many programs of this session are open, or hold too much. Call resume on those that wait, decide on \
                 what waits for a person, or let what runs end; then run this again.",
            ));
        }
        let _driver = runner.drive();
        let live = runner.start(caller, program)?;
        exchange.wait_for(Awaits::Execution(live.id.clone()));
        self.report_on_exchange(exchange, &live).await
    }

    /// The first report of an execution, or what answers in the client led to after it.
    pub(super) async fn report_on_exchange(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        live: &Rc<Live>,
    ) -> Result<String, RpcError> {
        let report = self.first_report(live, exchange).await?;
        let asked = self.ask_natively(exchange, live, report.clone()).await?;
        let (report, asked) = asked.unwrap_or((report, false));
        self.worded(&report, live, exchange.meta.modes.elicitation, &exchange.meta, asked)
    }

    pub(super) async fn resume(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        arguments: &Map<String, Value>,
    ) -> Result<String, RpcError> {
        let (meta, context) = (&exchange.meta, &exchange.context);
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
        exchange.wait_for(Awaits::Pause { execution_id: text.to_owned(), mode });
        let request = ResumeRequest { mode, decision };
        if id.session == self.runner()?.object_id() {
            return self.resume_here(meta, context, &id.pause, &request, Some(exchange)).await;
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
        match self.resume_here(&meta, context, pause, &asked, None).await {
            Ok(text) => Ok(worker::ResponseBuilder::new()
                .with_header("content-type", "application/json")?
                .fixed(text.into_bytes())),
            Err(RpcError::Internal(reason)) => Ok(internal_error(&reason, None)?),
            Err(RpcError::Unavailable) => Err(WireError::storage_unavailable().into()),
            Err(RpcError::Answer { message, .. }) => Err(WireError::bad_request(message).into()),
        }
    }

    pub(super) async fn resume_here(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        pause: &str,
        request: &ResumeRequest,
        exchange: Option<&Rc<Exchange>>,
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
            match self.relay(&live, pause, decision, context)? {
                Relayed::Taken => {}
                Relayed::NotYours(problem) => return Ok(tool_error("not_yours", &problem)),
                Relayed::TooLong => return Ok(tool_error("too_long_to_relay", TOO_LONG_TO_RELAY)),
                Relayed::BadAnswer(problem) => return Ok(tool_error("bad_answer", &problem)),
            }
        }
        runner.step(&live, Execution::client_returned);
        runner.wake_all();
        let Some(open) = open_pause(&live, pause) else {
            return Ok(execution_not_found());
        };
        let asked = match (exchange, &open) {
            (Some(exchange), Report::Paused(paused)) if paused.id == pause => {
                self.ask_natively(exchange, &live, open.clone()).await?
            }
            _ => None,
        };
        let (report, still_waiting) = match asked {
            Some(settled) => settled,
            None => self.wait_for_pause(live.clone(), pause, &caller, exchange).await?,
        };
        self.worded(&report, &live, request.mode, meta, still_waiting)
    }

    /// What a pause led to, waited for as long as a request may; then the pause itself, and `true`.
    async fn wait_for_pause(
        &self,
        live: Rc<Live>,
        pause: &str,
        caller: &Caller,
        exchange: Option<&Rc<Exchange>>,
    ) -> Result<(Report, bool), RpcError> {
        let runner = self.runner()?;
        let wait = sleep(Duration::from_millis(runner.settings.resume_wait_ms));
        let until = now().saturating_add(runner.settings.resume_wait_ms);
        let outcome = self.outcome_of_pause(live, pause, caller, exchange, until);
        let (outcome, wait) = (std::pin::pin!(outcome), std::pin::pin!(wait));
        match select(outcome, wait).await {
            Either::Left((report, _)) => Ok((report?, false)),
            Either::Right(((), _)) => {
                let gone = || RpcError::internal("the execution is gone");
                let live = runner.by_pause(pause, caller)?.ok_or_else(gone)?;
                Ok((open_pause(&live, pause).ok_or_else(gone)?, true))
            }
        }
    }

    /// Writes the answer that the model relays, for what was reported to it and still waits. One that comes too late
    /// changes nothing; what the pause led to is answered anyway. Nothing is written where the model could not have shown all
    /// of what it accepts, or where an answer does not fit what a tool asks.
    fn relay(
        &self,
        live: &Rc<Live>,
        pause: &str,
        decision: &RelayedDecision,
        context: &Context,
    ) -> Result<Relayed, RpcError> {
        let mut items = items_of(live, pause, decision.verdict, decision.reason.as_deref());
        // What the model was not given to show, the user cannot have accepted.
        let long = |item: &DecisionItem| {
            let engine = live.engine.borrow();
            engine.call(item.seq).is_some_and(|call| {
                let asked = engine.asked(call).map_or(0, |question| question.asked.chars().count());
                call.arguments.chars().count().max(asked) > RELAYED_CHARACTERS
            })
        };
        if decision.verdict == Verdict::Accept {
            if items.len() > PENDING_LINES || items.iter().any(long) {
                return Ok(Relayed::TooLong);
            }
            let forms = open_forms(live, pause);
            for (seq, form) in &forms {
                let Some(item) = items.iter_mut().find(|item| item.seq == *seq) else { continue };
                let entered = match &decision.content {
                    Some(values) if forms.len() == 1 => form.content(values),
                    Some(_) => {
                        Err("several tools ask; only the page can answer each. Show the user the url.".to_owned())
                    }
                    None => Err("content has to be what the user entered, by the names of the fields.".to_owned()),
                };
                match entered {
                    Ok(values) => item.content = Some(canonical_json(&Value::Object(values)).into()),
                    Err(problem) => return Ok(Relayed::BadAnswer(format!("The answer was not sent: {problem}"))),
                }
            }
        }
        if items.is_empty() {
            return Ok(Relayed::Taken);
        }
        let others = {
            let engine = live.engine.borrow();
            let approvers = items.iter().filter_map(|item| Some(engine.approvers_of(engine.call(item.seq)?)));
            approvers.into_iter().find(|approvers| !approvers.is_owner())
        };
        if let Some(approvers) = others.filter(|_| decision.verdict != Verdict::Cancel) {
            return Ok(Relayed::NotYours(format!(
                "The user may not decide this. Only {} may, on the approvalUrl; call resume without action.",
                approvers.words()
            )));
        }
        // What the model holds is the owner's, whatever roles it has.
        let standing = Standing::default();
        let decider = Decider { account: context.principal.account.clone(), route: Route::Model, standing };
        // Somebody else may have been faster.
        let _ = self.decide(live, pause, PauseTarget::Items(items), &decider)?;
        Ok(Relayed::Taken)
    }

    /// Waits for the first pause of an execution, or its end.
    async fn first_report(&self, live: &Rc<Live>, exchange: &Rc<Exchange>) -> Result<Report, RpcError> {
        let runner = self.runner()?;
        let _listening = live.listen(Rc::new(UpstreamLink(Rc::clone(exchange))));
        let mut told = 0;
        // A client gives up at about a minute: a program that sleeps for longer is asked for again.
        let until = now().saturating_add(runner.settings.resume_wait_ms);
        loop {
            let changed = runner.changed.changed();
            exchange.tell(live, &mut told);
            if sleeps_beyond(live, until) {
                runner.step(live, Execution::report_sleep);
            }
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

    /// Waits until it is known what a pause led to, or that the program sleeps until after `until`.
    pub(super) async fn outcome_of_pause(
        &self,
        mut live: Rc<Live>,
        pause: &str,
        caller: &Caller,
        exchange: Option<&Rc<Exchange>>,
        until: u64,
    ) -> Result<Report, RpcError> {
        let runner = self.runner()?;
        let listen = |live: &Rc<Live>| exchange.map(|exchange| live.listen(Rc::new(UpstreamLink(Rc::clone(exchange)))));
        let mut _listening = listen(&live);
        let mut told = 0;
        loop {
            let changed = runner.changed.changed();
            if let Some(exchange) = exchange {
                exchange.tell(&live, &mut told);
            }
            let sleeps = sleeps_beyond(&live, until);
            let report = {
                let engine = live.engine.borrow();
                let row = engine.pause(pause);
                row.and_then(|row| {
                    report_of_pause(&engine, row).or_else(|| sleeps.then(|| engine.present_report(row, now())))
                })
            };
            if let Some(report) = report {
                return Ok(report);
            }
            if live.lost.get() {
                live = runner.by_pause(pause, caller)?.ok_or_else(|| RpcError::internal("the execution is gone"))?;
                _listening = listen(&live);
                runner.wake_idle();
                continue;
            }
            // Ends with an error only when the object itself ends.
            let _ = changed.await;
        }
    }

    fn worded(
        &self,
        report: &Report,
        live: &Live,
        mode: ElicitationMode,
        holder: &SessionMeta,
        still_waiting: bool,
    ) -> Result<String, RpcError> {
        let holder_id = self.runner()?.object_id();
        let pause = match report {
            Report::Paused(pause) => Some(&pause.id),
            Report::Sleeping { id, .. } | Report::Running { id } => Some(id),
            Report::Ended { .. } => None,
        };
        let execution_id = match pause {
            Some(pause) => ExecutionId::encode(&holder_id, pause)
                .ok_or_else(|| RpcError::internal("an execution id could not be written"))?,
            None => String::new(),
        };
        let direct = live.program.direct.is_some();
        let context = ReportContext { mode, holder, holder_id: &holder_id, still_waiting, direct, result_id: &live.id };
        Ok(report_result(report, &execution_id, context))
    }
}

/// What a pause led to; while it is open, what can still be decided of it. `None` when there is no such pause.
fn open_pause(live: &Live, pause: &str) -> Option<Report> {
    let engine = live.engine.borrow();
    let row = engine.pause(pause)?;
    Some(engine.present_report(row, now()))
}

/// Whether nothing happens before a time after `until`, unless somebody decides.
fn sleeps_beyond(live: &Live, until: u64) -> bool {
    let engine = live.engine.borrow();
    engine.row().status == ExecutionStatus::Sleeping && engine.wakes_at().is_some_and(|at| at > until)
}

impl Exchange {
    /// Headers of the trace that the request belongs to.
    pub(super) fn trace(&self) -> Vec<(String, String)> {
        let headers = self.context.trace.headers();
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Tells a client what it wants to know of a program that runs.
    fn tell(self: &Rc<Self>, live: &Live, told: &mut usize) {
        self.tell_logs(live);
        self.tell_progress(live, told);
    }

    /// Sends the lines of the program's console that are new, where the client set a level.
    fn tell_logs(self: &Rc<Self>, live: &Live) {
        let wanted = self.session.meta.borrow().as_ref().and_then(|meta| meta.log_level);
        let new: Vec<_> = {
            let engine = live.engine.borrow();
            let (output, from) = (engine.output(), live.told_logs.get());
            let lines = engine.row().outcome.as_ref().map_or(&output.logs, |outcome| &outcome.logs);
            live.told_logs.set(from.max(lines.len()));
            lines.get(from..).unwrap_or_default().to_vec()
        };
        if wanted.is_none() || !self.takes_events {
            return;
        }
        let link = ExchangeLink(Rc::clone(self));
        for line in new {
            let level = match line.level.as_str() {
                "debug" => LogLevel::Debug,
                "warn" => LogLevel::Warning,
                "error" => LogLevel::Error,
                _ => LogLevel::Info,
            };
            link.log(level, Some("program"), Value::String(line.text));
        }
    }

    /// Tells a client that wants to know how many calls of an execution are answered, when there are more than before.
    fn tell_progress(&self, live: &Live, told: &mut usize) {
        let Some(token) = &self.progress_token else { return };
        if live.program.direct.is_some() {
            // The one call's own progress counts, where it tells of any.
            return;
        }
        let (answered, made, waiting, over) = {
            let engine = live.engine.borrow();
            let count = |status| engine.calls().iter().filter(|call| call.status == status).count();
            (
                count(CallStatus::Settled),
                engine.calls().len(),
                count(CallStatus::Waiting),
                engine.row().status.is_over(),
            )
        };
        // Each value has to be larger than the one before.
        let value = answered + made + waiting.min(1) + usize::from(over);
        if value <= *told {
            return;
        }
        *told = value;
        let waits = if waiting > 0 { format!(", {waiting} waiting for a person") } else { String::new() };
        let message = if over {
            format!("finished after {made} calls")
        } else {
            format!("{answered} of {made} calls answered{waits}")
        };
        #[allow(clippy::cast_precision_loss, reason = "a program makes a thousand calls at most")]
        self.send(&progress(token, value as f64, None, Some(&message)));
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
    let content = arguments.get("content").filter(|content| !content.is_null());
    let reason = content.and_then(|content| content.get("reason")).and_then(Value::as_str);
    let reason = reason.map(|reason| bounded(reason, 2_000));
    Ok(Some(RelayedDecision { verdict: action, reason, content: content.cloned() }))
}

/// The object that holds the execution could not be reached.
fn holder_failed(error: &worker::Error) -> Result<String, RpcError> {
    let failure = platform_failure(error);
    log_failure("resume", &failure);
    match classify(&failure).1 {
        Disposition::Dead => Ok(execution_not_found()),
        Disposition::Transient | Disposition::Overloaded => Ok(tool_error("restarting", HOLDER_RESTARTS)),
        Disposition::Unknown => Err(RpcError::internal(&failure.messages.join(" / "))),
    }
}
