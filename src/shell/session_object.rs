//! The session object: one MCP session and its executions.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt;
use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;
use worker::{Delay, DurableObject, Env, Method, Request, Response, State, durable_object, wasm_bindgen};

use super::clock::now;
use super::http::{
    correlation, error_response, header, internal_error, json_response, load_settings, mcp_response, new_session,
    own_request, read_post,
};
use super::invoke::Caller;
use super::organization::read_own_body;
use super::runner::{Live, OPEN_EXECUTIONS, Runner, SANDBOXES};
use super::store::StoreError;
use super::telemetry::{log, log_error};
use crate::approval::{Route, Verdict};
use crate::auth::Purpose;
use crate::config::Settings;
use crate::console::approval::ApprovalView;
use crate::engine::program::compile_program;
use crate::engine::{Decider, DecisionError, DecisionItem, PauseTarget, ProgramRow, Report, report_of_pause};
use crate::internal::{CONTEXT_HEADER, Context, DecisionRequest, Operation, RelayedDecision, ResumeRequest};
use crate::protocol::errors::{WireError, error_text, result_text};
use crate::protocol::headers::Accepts;
use crate::protocol::jsonrpc::{Body, Message, RequestId};
use crate::protocol::sse::{KEEP_ALIVE, message_event};
use crate::protocol::version::{SUPPORTED, has_batches, header_is_supported, negotiate};
use crate::session::alarm::{Fate, decide_fate};
use crate::session::id::ExecutionId;
use crate::session::tools::{
    INSTRUCTIONS, ReportContext, SKILLS, code_mode_tools, execution_not_found, report_result, text_result,
};
use crate::session::{ClientInfo, ElicitationMode, Modes, SessionMeta, Termination, Tombstone, parse_modes};

/// Between two comments on a stream that is silent.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How long one alarm keeps driving executions; the platform allows 15 minutes.
const ALARM_DRIVES: Duration = Duration::from_mins(10);
/// How often a driving alarm looks at deadlines.
const ALARM_LOOKS: Duration = Duration::from_secs(5);
/// Characters of what a client says of itself.
const CLIENT_TEXT: usize = 200;
/// Bytes of the capabilities that are stored.
const CAPABILITIES_LIMIT: usize = 16 << 10;

#[durable_object(alarm)]
struct SessionDurableObject {
    // A panic ends one request; the next one reads what it needs from storage or finds it consistent,
    // because no borrow is held across an await.
    session: AssertUnwindSafe<Rc<Session>>,
}

impl DurableObject for SessionDurableObject {
    fn new(state: State, env: Env) -> Self {
        Self { session: AssertUnwindSafe(Rc::new(Session::new(state, env))) }
    }

    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        Rc::clone(&self.session).fetch(request).await
    }

    async fn alarm(&self) -> worker::Result<Response> {
        // Never an error: the platform drops an alarm after six.
        if let Err(error) = Rc::clone(&self.session).alarm().await {
            log_error("mcp_alarm_failed", json!({ "reason": error.to_string() }));
            if let Ok(runner) = &self.session.runner {
                runner.rearm();
            }
        }
        Response::empty()
    }
}

struct Session {
    env: Env,
    runner: Result<Rc<Runner>, String>,
    meta: RefCell<Option<Rc<SessionMeta>>>,
    stored_activity: Cell<u64>,
}

/// The answer to one request, as it comes.
type Answer = Pin<Box<dyn Future<Output = Answered>>>;

/// A JSON-RPC response, and whether it tells of a failure of the gateway's own.
struct Answered {
    text: String,
    failed: bool,
}

impl Session {
    fn new(state: State, env: Env) -> Self {
        // How often objects wake is what idle sessions cost.
        log("mcp_session_object_started", json!({ "sessionId": state.id().to_string() }));
        let runner = match load_settings(&env) {
            Ok(settings) => Ok(Rc::new(Runner::new(state, env.clone(), settings))),
            Err(error) => Err(error.to_string()),
        };
        Self { env, runner, meta: RefCell::new(None), stored_activity: Cell::new(0) }
    }

    fn runner(&self) -> worker::Result<&Rc<Runner>> {
        self.runner.as_ref().map_err(|error| worker::Error::RustError(error.clone()))
    }

    fn settings(&self) -> worker::Result<&Settings> {
        Ok(&self.runner()?.settings)
    }

    /// The session, from memory or storage; `None` when there never was one.
    fn meta(&self) -> Result<Option<Rc<SessionMeta>>, StoreError> {
        if let Some(meta) = &*self.meta.borrow() {
            return Ok(Some(Rc::clone(meta)));
        }
        let Ok(runner) = &self.runner else {
            return Ok(None);
        };
        let Some(meta) = runner.store.session_meta()?.map(Rc::new) else {
            return Ok(None);
        };
        let activity = runner.store.last_activity()?;
        self.remember(runner, &meta, activity);
        Ok(Some(meta))
    }

    fn remember(&self, runner: &Runner, meta: &Rc<SessionMeta>, activity: u64) {
        self.stored_activity.set(activity);
        runner.last_activity.set(Some(activity));
        runner.terminated_at.set(meta.terminated.as_ref().map(|tombstone| tombstone.at));
        *self.meta.borrow_mut() = Some(Rc::clone(meta));
    }

    /// Notes that the owner used the session; written rarely.
    fn touch(&self) -> Result<(), StoreError> {
        let Ok(runner) = &self.runner else {
            return Ok(());
        };
        let interval = (runner.settings.alarm.idle_timeout / 10).min(60_000);
        let now = now();
        runner.last_activity.set(Some(now));
        if now.saturating_sub(self.stored_activity.get()) >= interval {
            runner.store.put_last_activity(now)?;
            self.stored_activity.set(now);
            runner.rearm();
        }
        Ok(())
    }

    // ---- requests -----------------------------------------------------------------------------

    async fn fetch(self: Rc<Self>, request: Request) -> worker::Result<Response> {
        let context = header(request.headers(), CONTEXT_HEADER);
        let Some(context) = Context::decode(context.as_deref()) else {
            // A Worker and an object of different versions, for the length of a deploy.
            return error_response(&WireError::restarting(), None);
        };
        let result = match context.operation.clone() {
            Operation::Open => self.open(request, &context).await,
            Operation::Mcp => Rc::clone(&self).mcp(request, context).await,
            Operation::View { pause } => self.view(&context, &pause),
            Operation::Decide { pause } => self.decide_request(request, &context, &pause).await,
            Operation::Resume { pause } => self.resume_request(request, &context, &pause).await,
        };
        match result {
            Ok(response) => Ok(response),
            Err(Failure::Wire(error, id)) => error_response(&error, id.as_ref()),
            Err(Failure::Store(StoreError::Newer { found })) => {
                log_error("mcp_newer_schema", json!({ "found": found }));
                error_response(&WireError::restarting(), None)
            }
            Err(Failure::Store(error)) => internal_error(&error.to_string(), None),
            Err(Failure::Platform(error)) => internal_error(&error.to_string(), None),
        }
    }

    async fn mcp(self: Rc<Self>, mut request: Request, context: Context) -> Result<Response, Failure> {
        let method = request.method();
        let body = if method == Method::Post { Some(read_post(&mut request).await) } else { None };
        if let Some(Ok(body)) = &body
            && body.message.is_initialize()
        {
            return self.reopen(&request, &context, &body.bytes).await;
        }
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        if !meta.is_owned_by(&context.principal) {
            return Err(WireError::not_the_owner().into());
        }
        if meta.terminated.is_some() {
            return Err(WireError::session_timed_out().into());
        }
        if meta.resource != context.resource {
            return Err(WireError::not_the_owner().into());
        }
        if method == Method::Delete {
            return self.terminate(&meta, Termination::Deleted);
        }
        let Some(body) = body else {
            // No server stream yet; clients take this as "there is none".
            return Err(WireError::method_not_allowed().into());
        };
        let version = header(request.headers(), "mcp-protocol-version");
        if !header_is_supported(version.as_deref()) {
            let message =
                format!("Bad Request: Unsupported protocol version (supported versions: {})", SUPPORTED.join(", "));
            return Err(WireError::bad_request(message).into());
        }
        let body = body.map_err(|(error, id)| Failure::Wire(error, id))?;
        self.touch()?;
        self.serve(&meta, &context, body.message, body.accepts).await
    }

    async fn serve(
        self: Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        body: Body,
        accepts: Accepts,
    ) -> Result<Response, Failure> {
        let (messages, batch) = match body {
            Body::Single(message) => (vec![Ok(message)], false),
            Body::Batch(_) if !has_batches(&meta.protocol_version) => {
                return Err(WireError::invalid_request("batches exist in protocol version 2025-03-26 only").into());
            }
            Body::Batch(messages) => (messages, true),
        };
        let mut slow = false;
        let mut answers: Vec<Answer> = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request { method, .. }) if batch && method == "initialize" => {
                    return Err(WireError::invalid_request("initialize must not be part of a batch").into());
                }
                Ok(Message::Request { id, method, params }) => {
                    slow |= method == "tools/call" && may_wait(&params);
                    answers.push(Rc::clone(&self).answer(Rc::clone(meta), context.clone(), id, method, params));
                }
                // The only notifications that exist so far need nothing done; no question of ours is open.
                Ok(Message::Notification { .. } | Message::Response { .. }) => {}
                Err((error, id)) => {
                    let text = error.body(id.as_ref());
                    answers.push(Box::pin(async move { Answered { text, failed: false } }));
                }
            }
        }
        if answers.is_empty() {
            return Ok(mcp_response(202)?.empty());
        }
        if slow && accepts.events {
            return Ok(stream_answers(answers)?);
        }
        let (sender, receiver) = oneshot::channel();
        // In a task of its own: a client that goes away does not end it.
        spawn_local(async move {
            let answered = futures_util::future::join_all(answers).await;
            // Whoever waited may be gone.
            let _ = sender.send(answered);
        });
        let answered = receiver.await.map_err(|_| worker::Error::RustError("an answer was lost".to_owned()))?;
        let failed = !batch && answered.iter().any(|one| one.failed);
        let texts: Vec<String> = answered.into_iter().map(|one| one.text).collect();
        let text = if batch { format!("[{}]", texts.join(",")) } else { texts.concat() };
        Ok(answer_now(if failed { 500 } else { 200 }, accepts, &text)?)
    }

    /// The answer to one request.
    fn answer(
        self: Rc<Self>,
        meta: Rc<SessionMeta>,
        context: Context,
        id: RequestId,
        method: String,
        params: Map<String, Value>,
    ) -> Answer {
        Box::pin(async move {
            let result = match method.as_str() {
                "ping" => Ok("{}".to_owned()),
                "tools/list" => self.list_tools(&params),
                "tools/call" => self.call_tool(&meta, &context, params).await,
                _ => Err(RpcError { code: -32_601, message: format!("Method not found: {}", bounded(&method, 100)) }),
            };
            match result {
                Ok(result) => Answered { text: result_text(&result, &id), failed: false },
                Err(error) if error.code == -32_603 => {
                    let text = WireError::internal(&correlation(&error.message)).body(Some(&id));
                    Answered { text, failed: true }
                }
                Err(error) => Answered { text: error_text(error.code, &error.message, Some(&id)), failed: false },
            }
        })
    }

    fn list_tools(&self, params: &Map<String, Value>) -> Result<String, RpcError> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(RpcError { code: -32_602, message: "Invalid cursor".to_owned() });
        }
        let mut tools = code_mode_tools();
        if self.runner().is_ok_and(|runner| !runner.has_loader())
            && let Value::Array(list) = &mut tools
        {
            list.retain(|tool| tool["name"] != "execute");
        }
        Ok(json!({ "tools": tools }).to_string())
    }

    async fn call_tool(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        mut params: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let Some(Value::String(name)) = params.remove("name") else {
            return Err(RpcError { code: -32_602, message: "tools/call needs a name".to_owned() });
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Ok(tool_error("bad_arguments", "The arguments of a tool have to be an object.")),
        };
        match name.as_str() {
            "execute" if self.runner().is_ok_and(|runner| runner.has_loader()) => self.execute(meta, &arguments).await,
            "resume" => self.resume(meta, context, &arguments).await,
            "skills" => Ok(skills(&arguments)),
            _ => Err(RpcError { code: -32_602, message: format!("Unknown tool: {}", bounded(&name, 100)) }),
        }
    }

    // ---- execute and resume -------------------------------------------------------------------

    async fn execute(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        arguments: &Map<String, Value>,
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
        if runner.sandboxes() >= SANDBOXES || runner.open().len() >= OPEN_EXECUTIONS {
            return Ok(tool_error(
                "too_many_programs",
                "This session runs too many programs at once. Wait until one has ended, or decide on those that wait.",
            ));
        }
        let _driver = runner.drive();
        let program = ProgramRow { source: code.to_owned(), compiled: program.javascript, lines: program.lines };
        let live = runner.start(caller, program)?;
        let report = loop {
            let changed = runner.changed.changed();
            if let Some(report) = live.engine.borrow().first_report() {
                break report;
            }
            if live.lost.get() {
                return Err(RpcError::internal("the execution's journal could not be written"));
            }
            // Ends with an error only when the object itself ends.
            let _ = changed.await;
        };
        self.worded(&report, meta.modes.elicitation, meta, false)
    }

    async fn resume(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        arguments: &Map<String, Value>,
    ) -> Result<String, RpcError> {
        let Some(id) = arguments.get("executionId").and_then(Value::as_str) else {
            return Ok(tool_error(
                "bad_arguments",
                "resume needs { executionId: string }, from the result of execute.",
            ));
        };
        let decision = match relayed_decision(meta.modes, arguments) {
            Ok(decision) => decision,
            Err(message) => return Ok(tool_error("bad_arguments", message)),
        };
        let Some(id) = ExecutionId::parse(id) else {
            return Ok(execution_not_found());
        };
        let request = ResumeRequest { mode: meta.modes.elicitation, decision };
        if id.session == self.runner()?.object_id() {
            return self.resume_here(meta, context, &id.pause, &request).await;
        }
        self.resume_elsewhere(context, &id, &request).await
    }

    /// `resume` of an execution that another session object holds.
    async fn resume_elsewhere(
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
        let mut response = object.get_stub()?.fetch_with_request(request).await?;
        match response.status_code() {
            200 => Ok(response.text().await?),
            403 | 404 => Ok(execution_not_found()),
            status => Err(RpcError::internal(&format!("the session that holds the execution answered {status}"))),
        }
    }

    async fn resume_request(
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

    async fn resume_here(
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
            let target = {
                let engine = live.engine.borrow();
                let Some(row) = engine.pause(pause) else {
                    return Ok(execution_not_found());
                };
                PauseTarget::All {
                    digest: engine.digest_of_pause(row, now()),
                    verdict: decision.verdict,
                    reason: decision.reason.clone(),
                }
            };
            let decider = Decider { account: context.principal.account.clone(), route: Route::Model };
            // A decision that came too late changes nothing; what the pause led to is answered below.
            let _ = self.decide(&live, pause, target, &decider)?;
        }
        runner.wake_idle();
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
                (Report::Paused(engine.pause_report(row)), true)
            }
        };
        self.worded(&report, request.mode, meta, still_waiting)
    }

    /// Waits until it is known what a pause led to.
    async fn outcome_of_pause(&self, mut live: Rc<Live>, pause: &str, caller: &Caller) -> Result<Report, RpcError> {
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

    fn worded(
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

    // ---- decisions ----------------------------------------------------------------------------

    /// Writes a decision, or says why not.
    fn decide(
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
    fn view(&self, context: &Context, pause: &str) -> Result<Response, Failure> {
        let (meta, live) = self.owned_pause(context, pause)?;
        self.view_response(200, &meta, &live, pause, None)
    }

    fn owned_pause(&self, context: &Context, pause: &str) -> Result<(Rc<SessionMeta>, Rc<Live>), Failure> {
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

    fn view_response(
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

    async fn decide_request(&self, mut request: Request, context: &Context, pause: &str) -> Result<Response, Failure> {
        let asked: DecisionRequest = read_own_body(&mut request).await?;
        let (meta, live) = self.owned_pause(context, pause)?;
        let route = match context.principal.purpose {
            Purpose::Browser => Route::Page,
            Purpose::Approve => Route::Api,
            // The edge refuses it; this is the second lock on the same door.
            Purpose::Mcp => return Err(WireError::forbidden("This credential calls tools; it does not decide.").into()),
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

    // ---- life of the session ------------------------------------------------------------------

    async fn open(&self, mut request: Request, context: &Context) -> Result<Response, Failure> {
        let body = read_post(&mut request).await.map_err(|(error, id)| Failure::Wire(error, id))?;
        let Body::Single(Message::Request { id, mut params, .. }) = body.message else {
            return Err(WireError::session_id_required().into());
        };
        if self.meta()?.is_some() {
            // An object is opened once; the edge makes a new one for every initialize.
            return Err(WireError::session_not_found().into());
        }
        let runner = self.runner()?;
        let settings = self.settings()?;
        let query: Vec<(String, String)> =
            request.url()?.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let modes = parse_modes(&query, settings.default_elicitation_mode, settings.model_decisions)
            .map_err(|error| Failure::Wire(WireError::bad_request(error.to_string()), Some(id.clone())))?;
        let asked = params.get("protocolVersion").and_then(Value::as_str).map(ToOwned::to_owned);
        let Some(asked) = asked else {
            let text = error_text(-32_602, "initialize needs params.protocolVersion", Some(&id));
            return Ok(answer_now(200, body.accepts, &text)?);
        };
        let version = negotiate(&asked);
        let client = params.get("clientInfo").cloned().unwrap_or(Value::Null);
        let client_text = |key: &str| bounded(client.get(key).and_then(Value::as_str).unwrap_or_default(), CLIENT_TEXT);
        let capabilities = params.remove("capabilities").unwrap_or_else(|| json!({})).to_string();
        let meta = Rc::new(SessionMeta {
            organization: context.principal.organization.clone(),
            account: context.principal.account.clone(),
            resource: context.resource.clone(),
            modes,
            protocol_version: version.to_owned(),
            client: ClientInfo { name: client_text("name"), version: client_text("version") },
            capabilities: if capabilities.len() <= CAPABILITIES_LIMIT { capabilities } else { "{}".to_owned() },
            public_origin: context.public_origin.clone(),
            created_at: now(),
            terminated: None,
        });
        runner.store.open(&meta)?;
        self.remember(runner, &meta, meta.created_at);
        runner.rearm();
        let session_id = runner.object_id();
        log(
            "mcp_session_created",
            json!({ "sessionId": session_id, "organization": meta.organization, "protocolVersion": version }),
        );
        let result = json!({
            "protocolVersion": version,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "countersign", "title": "Countersign", "version": env!("CARGO_PKG_VERSION") },
            "instructions": INSTRUCTIONS,
        });
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.as_json());
        let response = answer_now(200, body.accepts, &text)?;
        response.headers().set("mcp-session-id", &session_id)?;
        Ok(response)
    }

    /// `initialize` that carries the id of another session: clients keep stale ones. Opens a new one.
    async fn reopen(&self, request: &Request, context: &Context, body: &[u8]) -> Result<Response, Failure> {
        let context = Context { operation: Operation::Open, ..context.clone() };
        let text = String::from_utf8_lossy(body);
        let new = own_request(request.url()?.as_str(), &context, &text)?;
        for name in ["accept", "mcp-protocol-version", "traceparent", "tracestate", "baggage"] {
            if let Some(value) = header(request.headers(), name) {
                new.headers().set(name, &value)?;
            }
        }
        Ok(new_session(&self.env, self.settings()?)?.fetch_with_request(new).await?)
    }

    /// Ends the session. What still waits for a person stays until it is decided or expires: a
    /// client that tidies up after itself does not take the decision away.
    fn terminate(&self, meta: &SessionMeta, reason: Termination) -> Result<Response, Failure> {
        let runner = self.runner()?;
        let at = now();
        let ended = Rc::new(SessionMeta { terminated: Some(Tombstone { at, reason }), ..meta.clone() });
        runner.store.put_session_meta(&ended)?;
        runner.store.forget_ended(at)?;
        self.remember(runner, &ended, self.stored_activity.get());
        runner.load_open(&caller_of(meta))?;
        runner.rearm();
        log(
            "mcp_session_terminated",
            json!({ "sessionId": runner.object_id(), "reason": reason, "openExecutions": runner.open().len() }),
        );
        Ok(mcp_response(200)?.empty())
    }

    async fn alarm(self: Rc<Self>) -> Result<(), Failure> {
        let runner = self.runner()?;
        runner.alarm_rang();
        let Some(meta) = self.meta()? else {
            log("mcp_session_unaddressable_alarm_cleanup", json!({ "sessionId": runner.object_id() }));
            runner.wipe().await?;
            return Ok(());
        };
        let driver = runner.drive();
        runner.load_open(&caller_of(&meta))?;
        runner.wake_all();
        let at = now();
        let retention = if meta.terminated.is_some() {
            runner.settings.alarm.tombstone
        } else {
            runner.settings.execution_retention_ms
        };
        runner.store.forget_ended(at.saturating_sub(retention))?;
        let state = runner.alarm_state(at)?;
        match decide_fate(&state, runner.settings.alarm, at) {
            Fate::Keep => {}
            Fate::Extend => log(
                "mcp_session_paused_lease_extension",
                json!({
                    "sessionId": runner.object_id(),
                    "pausedExecutionCount": state.waiting,
                    "idleMs": at.saturating_sub(state.last_activity.unwrap_or(at)),
                    "leaseMs": state.execution.map(|next| next.saturating_sub(at)),
                }),
            ),
            Fate::Expire => {
                self.terminate(&meta, Termination::Idle)?;
            }
            Fate::Wipe => {
                runner.wipe().await?;
                *self.meta.borrow_mut() = None;
                return Ok(());
            }
        }
        runner.rearm();
        let end = Delay::from(ALARM_DRIVES).fuse();
        let mut end = std::pin::pin!(end);
        while runner.is_busy() {
            let look = Delay::from(ALARM_LOOKS);
            let changed = runner.changed.changed();
            match select(select(changed, look), &mut end).await {
                Either::Left(_) => runner.wake_all(),
                Either::Right(_) => break,
            }
        }
        drop(driver);
        Ok(())
    }
}

// ---- what a request can come to ---------------------------------------------------------------

/// Why a request is not answered as asked.
enum Failure {
    Wire(WireError, Option<RequestId>),
    Store(StoreError),
    Platform(worker::Error),
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Wire(error, None)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<worker::Error> for Failure {
    fn from(error: worker::Error) -> Self {
        Self::Platform(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(error, _) => formatter.write_str(&error.message),
            Self::Store(error) => error.fmt(formatter),
            Self::Platform(error) => error.fmt(formatter),
        }
    }
}

/// A JSON-RPC error. With -32603 the message goes to the log only.
struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    fn internal(message: &str) -> Self {
        Self { code: -32_603, message: message.to_owned() }
    }
}

impl From<worker::Error> for RpcError {
    fn from(error: worker::Error) -> Self {
        Self::internal(&error.to_string())
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        Self::internal(&error.to_string())
    }
}

impl From<serde_json::Error> for RpcError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(&error.to_string())
    }
}

// ---- reading and writing messages ---------------------------------------------------------------

fn answer_now(status: u16, accepts: Accepts, text: &str) -> worker::Result<Response> {
    let (kind, body) =
        if accepts.json { ("application/json", text.to_owned()) } else { ("text/event-stream", message_event(text)) };
    Ok(mcp_response(status)?.with_header("content-type", kind)?.fixed(body.into_bytes()))
}

/// One event for each answer, as they come, and a comment every 15 seconds while the reader is there.
fn stream_answers(answers: Vec<Answer>) -> worker::Result<Response> {
    let (sender, receiver) = mpsc::unbounded::<worker::Result<Vec<u8>>>();
    let (ended, end) = oneshot::channel::<()>();
    let keep_alive = sender.clone();
    // In a task of its own: a client that goes away does not end it.
    spawn_local(async move {
        let mut answers: FuturesUnordered<Answer> = answers.into_iter().collect();
        while let Some(answered) = answers.next().await {
            // The reader may be gone.
            let _ = sender.unbounded_send(Ok(message_event(&answered.text).into_bytes()));
        }
        sender.close_channel();
        let _ = ended.send(());
    });
    spawn_local(async move {
        let mut end = end;
        loop {
            match select(end, Delay::from(KEEP_ALIVE_EVERY)).await {
                Either::Left(_) => return,
                Either::Right(((), rest)) => end = rest,
            }
            if keep_alive.unbounded_send(Ok(KEEP_ALIVE.as_bytes().to_vec())).is_err() {
                return;
            }
        }
    });
    mcp_response(200)?.with_header("content-type", "text/event-stream")?.from_stream(receiver)
}

// ---- small things -------------------------------------------------------------------------------

fn caller_of(meta: &SessionMeta) -> Caller {
    Caller { organization: meta.organization.clone(), public_origin: meta.public_origin.clone() }
}

/// Whether a `tools/call` may take longer than a moment.
fn may_wait(params: &Map<String, Value>) -> bool {
    matches!(params.get("name").and_then(Value::as_str), Some("execute" | "resume"))
}

fn bounded(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn tool_error(code: &str, message: &str) -> String {
    text_result(
        message,
        Some(&json!({ "status": "error", "error": { "code": code, "message": message }, "logs": [] })),
        true,
    )
}

/// The decision that a model relays; only where the session's mode allows it.
fn relayed_decision(modes: Modes, arguments: &Map<String, Value>) -> Result<Option<RelayedDecision>, &'static str> {
    let action = match arguments.get("action") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(action)) => Verdict::parse(action).ok_or("action is accept, decline or cancel.")?,
        Some(_) => return Err("action is accept, decline or cancel."),
    };
    if modes.elicitation != ElicitationMode::Model {
        return Err(
            "This session does not take decisions from the model. A person decides on the approvalUrl; call resume without action.",
        );
    }
    let reason = arguments.get("content").and_then(|content| content.get("reason")).and_then(Value::as_str);
    Ok(Some(RelayedDecision { verdict: action, reason: reason.map(|reason| bounded(reason, 2_000)) }))
}

fn skills(arguments: &Map<String, Value>) -> String {
    let list = || {
        let lines: Vec<String> = SKILLS.iter().map(|(name, about, _)| format!("- {name}: {about}")).collect();
        format!("Guides; call skills with a name:\n{}", lines.join("\n"))
    };
    match arguments.get("name").and_then(Value::as_str) {
        None => text_result(&list(), None, false),
        Some(name) => match SKILLS.iter().find(|(known, _, _)| *known == name) {
            Some((_, _, text)) => text_result(text, None, false),
            None => text_result(&format!("There is no guide with that name. {}", list()), None, true),
        },
    }
}
