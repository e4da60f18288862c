//! `/mcp` inside the object: ownership, the request ladder, the methods, opening and ending a session.

use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;
use worker::{Method, Request, Response};

use super::answers::{Answer, Answered, Reply, answer_now, tool_error};
use super::exchange::{Exchange, guarded};
use super::outcome::{Failure, RpcError};
use super::{Session, caller_of};
use crate::engine::{CallStatus, Execution, ExecutionStatus};
use crate::internal::{Context, Operation};
use crate::protocol::errors::WireError;
use crate::protocol::headers::Accepts;
use crate::protocol::jsonrpc::{Body, Message, Refusal};
use crate::protocol::text::bounded;
use crate::protocol::version::{SUPPORTED, has_batches, header_is_supported, negotiate};
use crate::session::question::Askable;
use crate::session::tools::{DIRECT_INSTRUCTIONS, INSTRUCTIONS, SKILLS, code_mode_tools, text_result};
use crate::session::{ClientInfo, Modes, SessionMeta, Termination, Tombstone, ToolMode, app, parse_modes};
use crate::shell::clock::now;
use crate::shell::http::{Post, mcp_response, own_request, query_fields, read_post};
use crate::shell::organization;
use crate::shell::platform::first_call;
use crate::shell::telemetry::log;
use crate::upstream::LogLevel;

/// The resource that is not a toolkit.
const DEFAULT_RESOURCE: &str = "default";
/// Characters of what a client says of itself.
const CLIENT_TEXT: usize = 200;
/// Why `execute` is missing, where it is.
const NO_LOADER: &str = "Programs cannot run here and execute is not offered: this gateway was deployed without a Worker \
     Loader binding. Connect with ?tool_mode=direct to call tools one by one; the page / of the gateway tells its owner what to do.\n\n";
/// Bytes of the capabilities that are stored.
const CAPABILITIES_LIMIT: usize = 16 << 10;

impl Session {
    pub(super) async fn mcp(self: Rc<Self>, mut request: Request, context: Context) -> Result<Reply, Failure> {
        let method = request.method();
        let body = if method == Method::Post { Some(read_post(&mut request, &context.asked).await) } else { None };
        if let Some(Ok(body)) = &body
            && body.message.is_initialize()
        {
            return Ok(self.reopen(request.url()?.as_str(), &context, &body.bytes).boxed_local().await?.into());
        }
        self.ladder(method, Rc::new(context), body).await
    }

    /// Who asks, for which session, in which version.
    pub(super) async fn ladder(
        self: Rc<Self>,
        method: Method,
        context: Rc<Context>,
        body: Option<Result<Post, Refusal>>,
    ) -> Result<Reply, Failure> {
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        if meta.terminated.is_some() {
            return Err(WireError::session_timed_out().into());
        }
        if !meta.is_owned_by(&context.principal) {
            return Err(WireError::not_the_owner().into());
        }
        if meta.resource != context.resource {
            return Err(WireError::not_the_owner().into());
        }
        if method == Method::Delete {
            return Ok(self.terminate(&meta, Termination::Deleted)?.into());
        }
        if !header_is_supported(context.asked.protocol_version.as_deref()) {
            let message =
                format!("Bad Request: Unsupported protocol version (supported versions: {})", SUPPORTED.join(", "));
            return Err(WireError::bad_request(message).into());
        }
        let Some(body) = body else {
            return Ok(self.get(meta, context).boxed_local().await?.into());
        };
        let body = body.map_err(|(error, id)| Failure::Wire(error, id))?;
        let meta = self.with_role(meta, &context)?;
        self.touch(&meta)?;
        self.serve(&meta, &context, body.message, body.accepts).await
    }

    /// A token with another role counts at once, also for what goes on without a request.
    fn with_role(&self, meta: Rc<SessionMeta>, context: &Context) -> Result<Rc<SessionMeta>, Failure> {
        if meta.admin == context.principal.admin {
            return Ok(meta);
        }
        let changed = Rc::new(SessionMeta { admin: context.principal.admin, ..SessionMeta::clone(&meta) });
        self.store()?.put_session_meta(&changed)?;
        self.remember(self.runner()?, &changed, self.stored_activity.get());
        Ok(changed)
    }

    async fn get(self: Rc<Self>, meta: Rc<SessionMeta>, context: Rc<Context>) -> Result<Response, Failure> {
        if !Accepts::parse(context.asked.accept.as_deref()).events {
            return Err(WireError::not_acceptable("text/event-stream").into());
        }
        self.touch(&meta)?;
        match context.asked.last_event_id.as_deref() {
            None => self.open_standalone(&meta).await,
            Some(last) => self.read_again(&meta, &context, last),
        }
    }

    async fn serve(
        self: Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        body: Body,
        accepts: Accepts,
    ) -> Result<Reply, Failure> {
        match body {
            Body::Single(Message::Request { id, method, params }) => {
                let exchange = Rc::new(Exchange::new(&self, meta, context, id, &params, accepts.events));
                let at_once = opens_a_stream(meta.modes.tools, &method, &params);
                let answer = Rc::clone(&self).answer(Rc::clone(&exchange), method, params);
                match exchange.respond(answer, at_once).await? {
                    Ok(response) => Ok(response.into()),
                    Err(answered) => Ok(answer_now(accepts, answered)?),
                }
            }
            Body::Single(message) => {
                self.take_silently(meta, context, message)?;
                Ok(mcp_response(202)?.empty().into())
            }
            Body::Batch(_) if !has_batches(&meta.protocol_version) => {
                Err(WireError::invalid_request("batches exist in protocol version 2025-03-26 only").into())
            }
            Body::Batch(messages) => self.serve_batch(meta, context, messages, accepts).boxed_local().await,
        }
    }

    /// A notification or a response.
    #[inline(never)]
    fn take_silently(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        message: Message,
    ) -> Result<(), Failure> {
        match message {
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                self.cancel_request(&params)
            }
            Message::Response { id, outcome } => self.take_answer(meta, context, id.as_ref(), &outcome),
            Message::Notification { .. } | Message::Request { .. } => Ok(()),
        }
    }

    async fn serve_batch(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Rc<Context>,
        messages: Vec<Result<Message, Refusal>>,
        accepts: Accepts,
    ) -> Result<Reply, Failure> {
        if messages.iter().flatten().any(Message::is_initialize) {
            return Err(WireError::invalid_request("initialize must not be part of a batch").into());
        }
        let mut slow = false;
        let mut answers: Vec<Answer> = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request { id, method, params }) => {
                    slow |= method == "tools/call";
                    // What would come before an answer could not be told apart on a stream of several.
                    let exchange = Rc::new(Exchange::new(self, meta, context, id.clone(), &params, false));
                    answers.push(guarded(id, Rc::clone(self).answer(exchange, method, params)));
                }
                Ok(message) => self.take_silently(meta, context, message)?,
                Err((error, id)) => {
                    let text = error.body(id.as_ref());
                    answers.push(Box::pin(async move { Answered::ok(text) }));
                }
            }
        }
        if answers.is_empty() {
            return Ok(mcp_response(202)?.empty().into());
        }
        if slow && accepts.events {
            return Ok(Self::stream_batch(answers)?.into());
        }
        let (sender, receiver) = oneshot::channel();
        // In a task of its own: a client that goes away does not end it.
        spawn_local(async move {
            let answered = futures_util::future::join_all(answers).await;
            // Whoever waited may be gone.
            let _ = sender.send(answered);
        });
        let answered = receiver.await.map_err(|_| worker::Error::RustError("an answer was lost".to_owned()))?;
        let texts: Vec<String> = answered.into_iter().map(|one| one.text).collect();
        let text = format!("[{}]", texts.join(","));
        Ok(answer_now(accepts, Answered::ok(text))?)
    }

    /// The answer to one request. What only some methods need is in boxes, here and below: a future that is not boxed becomes a part
    /// of this one's code, which the runtime compiles as a whole, and again whenever it has thrown compiled code away.
    pub(super) fn answer(self: Rc<Self>, exchange: Rc<Exchange>, method: String, params: Map<String, Value>) -> Answer {
        Box::pin(async move {
            let direct = exchange.meta.modes.tools == ToolMode::Direct;
            let apps = || app::shows_apps(&exchange.meta.capabilities);
            let result = match method.as_str() {
                "ping" => Ok("{}".to_owned()),
                "logging/setLevel" => self.set_log_level(&params),
                "tools/list" if direct => {
                    self.list_direct_tools(&exchange, &params).boxed_local().await.map(|text| text.to_string())
                }
                "tools/list" => self.list_tools(&exchange.meta, &params),
                "tools/call" => self.call_tool(&exchange, params).await,
                "resources/list" | "resources/templates/list" | "resources/read" if !direct && apps() => {
                    own_resources(&method, &params)
                }
                "resources/read" if app::is_own(uri_of(&params)) && apps() => own_resources(&method, &params),
                _ if direct => self.pass_on(&exchange, &method, params).boxed_local().await,
                _ => Err(RpcError::method_not_found(&method)),
            };
            Answered::of(result, &exchange.id)
        })
    }

    /// `logging/setLevel`: counts for the session, whatever restarts in between.
    #[inline(never)]
    fn set_log_level(&self, params: &Map<String, Value>) -> Result<String, RpcError> {
        let level = params.get("level").and_then(Value::as_str).and_then(LogLevel::parse);
        let level = level.ok_or_else(|| {
            let known = "debug, info, notice, warning, error, critical, alert, emergency";
            RpcError::new(-32_602, format!("logging/setLevel needs a level, one of {known}"))
        })?;
        let meta = self.meta()?.ok_or_else(|| RpcError::internal("the session is gone"))?;
        if meta.log_level != Some(level) {
            let changed = Rc::new(SessionMeta { log_level: Some(level), ..SessionMeta::clone(&meta) });
            self.store()?.put_session_meta(&changed)?;
            self.runner()?.upstreams.serve(Askable::parse(&changed.capabilities), changed.log_level);
            *self.meta.borrow_mut() = Some(changed);
        }
        Ok("{}".to_owned())
    }

    #[inline(never)]
    fn list_tools(&self, meta: &SessionMeta, params: &Map<String, Value>) -> Result<String, RpcError> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(RpcError::invalid_cursor());
        }
        Ok(self
            .code_mode_list
            .get_or_init(|| {
                let mut tools = code_mode_tools();
                if self.runner().is_ok_and(|runner| !runner.has_loader())
                    && let Value::Array(list) = &mut tools
                {
                    list.retain(|tool| tool["name"] != "execute");
                }
                if app::shows_apps(&meta.capabilities) {
                    tools.as_array_mut().into_iter().flatten().for_each(app::link_tool);
                }
                json!({ "tools": tools }).to_string()
            })
            .clone())
    }

    async fn call_tool(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        mut params: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let Some(Value::String(name)) = params.remove("name") else {
            return Err(RpcError::new(-32_602, "tools/call needs a name"));
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Ok(tool_error("bad_arguments", "The arguments of a tool have to be an object.")),
        };
        let direct = exchange.meta.modes.tools == ToolMode::Direct;
        match name.as_str() {
            "resume" => self.resume(exchange, &arguments).boxed_local().await,
            _ if direct => self.call_direct(exchange, &name, arguments).boxed_local().await,
            "execute" if self.runner().is_ok_and(|runner| runner.has_loader()) => {
                self.execute(exchange, &arguments).boxed_local().await
            }
            "skills" => Ok(skills(&arguments, self.runner().is_ok_and(|runner| runner.has_loader()))),
            _ => Err(RpcError::unknown_tool(&name)),
        }
    }

    pub(super) async fn open(&self, mut request: Request, context: &Context) -> Result<Response, Failure> {
        let body = read_post(&mut request, &context.asked).await.map_err(|(error, id)| Failure::Wire(error, id))?;
        let Body::Single(Message::Request { id, mut params, .. }) = body.message else {
            return Err(WireError::session_id_required().into());
        };
        if self.meta()?.is_some() {
            // An object is opened once; the edge makes a new one for every initialize.
            return Err(WireError::session_not_found().into());
        }
        let organization = context.principal.organization.as_str();
        if context.resource != DEFAULT_RESOURCE
            && !organization::has_toolkit(&self.env, organization, &context.resource).await?
        {
            return Err(Failure::Wire(WireError::no_such_toolkit(&context.resource), Some(id)));
        }
        let runner = self.runner()?;
        let settings = self.settings()?;
        let query = query_fields(&request.url()?);
        let defaults = Modes { elicitation: settings.default_elicitation_mode, tools: settings.default_tool_mode };
        let modes = parse_modes(&query, defaults, settings.model_decisions)
            .map_err(|error| Failure::Wire(WireError::bad_request(error.to_string()), Some(id.clone())))?;
        let asked = params.get("protocolVersion").and_then(Value::as_str).map(ToOwned::to_owned);
        let Some(asked) = asked else {
            let error = RpcError::new(-32_602, "initialize needs params.protocolVersion");
            return Ok(answer_now(body.accepts, Answered::of(Err(error), &id))?.into_response()?);
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
            log_level: None,
            admin: context.principal.admin,
            terminated: None,
        });
        runner.store.open(&meta)?;
        runner.load_open(&caller_of(&meta))?;
        self.remember(runner, &meta, meta.created_at);
        runner.rearm();
        let session_id = runner.object_id();
        log(
            "mcp_session_created",
            json!({ "sessionId": session_id, "organization": meta.organization, "protocolVersion": version }),
        );
        let result = json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(&meta).await,
            "serverInfo": { "name": "countersign", "title": "Countersign", "version": env!("CARGO_PKG_VERSION") },
            "instructions": if meta.modes.tools == ToolMode::Code { INSTRUCTIONS } else { DIRECT_INSTRUCTIONS },
        });
        let answered = Answered::of(Ok(result.to_string()), &id);
        let response = answer_now(body.accepts, answered)?.into_response()?;
        response.headers().set("mcp-session-id", &session_id)?;
        Ok(response)
    }

    /// What a session offers (specification, revision 2025-11-25, "Capability Negotiation").
    async fn capabilities(&self, meta: &SessionMeta) -> Value {
        let mut capabilities = vec![("tools", json!({ "listChanged": true })), ("logging", json!({}))];
        if meta.modes.tools == ToolMode::Direct {
            let offers = self.offers(meta).await;
            if offers.resources {
                capabilities.push(("resources", json!({ "subscribe": offers.subscriptions, "listChanged": true })));
            }
            if offers.prompts {
                capabilities.push(("prompts", json!({ "listChanged": true })));
            }
            if offers.completions {
                capabilities.push(("completions", json!({})));
            }
        }
        if app::shows_apps(&meta.capabilities) {
            capabilities.push(("extensions", app::extensions()));
            if !capabilities.iter().any(|(name, _)| *name == "resources") {
                capabilities.push(("resources", json!({})));
            }
        }
        capabilities.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
    }

    /// `initialize` that carries the id of another session: clients keep stale ones. Opens a new one.
    pub(super) async fn reopen(&self, url: &str, context: &Context, body: &[u8]) -> Result<Response, Failure> {
        let context = Context { operation: Operation::Open, ..context.clone() };
        let text = String::from_utf8_lossy(body);
        let settings = self.settings()?;
        Ok(first_call(&self.env, settings, || own_request(url, &context, &text)).await?.into())
    }

    /// Ends the session. What still waits for a person stays until it is decided or expires: a
    /// client that tidies up after itself does not take the decision away.
    #[inline(never)]
    pub(super) fn terminate(&self, meta: &SessionMeta, reason: Termination) -> Result<Response, Failure> {
        let runner = self.runner()?;
        runner.store.migrate()?;
        let at = now();
        let ended = Rc::new(SessionMeta { terminated: Some(Tombstone { at, reason }), ..meta.clone() });
        runner.store.put_session_meta(&ended)?;
        // What a person decided on can be looked at for a while; the rest is of no use any more.
        runner.store.forget_unpaused()?;
        runner.store.forget_all_streams()?;
        for exchange in self.streams.all() {
            exchange.end_with(&WireError::session_timed_out());
        }
        self.close_standalone("the session has ended");
        runner.upstreams.end();
        self.remember(runner, &ended, self.stored_activity.get());
        runner.load_open(&caller_of(meta))?;
        // What only sleeps waits for nobody: it ends with the session.
        for live in runner.open() {
            let sleeps = live.engine.borrow().row().status == ExecutionStatus::Sleeping;
            let asks = live
                .engine
                .borrow()
                .calls()
                .iter()
                .any(|call| matches!(call.status, CallStatus::Waiting | CallStatus::Approved));
            if sleeps && !asks {
                runner.step(&live, Execution::cancel);
            }
        }
        // What was not told yet was not forgotten.
        runner.tell_waiting_later();
        runner.rearm();
        log(
            "mcp_session_terminated",
            json!({ "sessionId": runner.object_id(), "reason": reason, "openExecutions": runner.open().len() }),
        );
        Ok(mcp_response(200)?.empty())
    }
}

/// Whether a request is answered on a stream from the start: what it starts or waits for must be found again.
fn opens_a_stream(tools: ToolMode, method: &str, params: &Map<String, Value>) -> bool {
    let name = params.get("name").and_then(Value::as_str);
    method == "tools/call" && (name == Some("resume") || tools == ToolMode::Code && name == Some("execute"))
}

#[inline(never)]
fn skills(arguments: &Map<String, Value>, has_loader: bool) -> String {
    let list = || {
        let lines: Vec<String> = SKILLS.iter().map(|(name, about, _)| format!("- {name}: {about}")).collect();
        let missing = if has_loader { "" } else { NO_LOADER };
        format!("{missing}Guides; call skills with a name:\n{}", lines.join("\n"))
    };
    match arguments.get("name").and_then(Value::as_str) {
        None => text_result(&list(), None, false),
        Some(name) => match SKILLS.iter().find(|(known, _, _)| *known == name) {
            Some((_, _, text)) => text_result(text, None, false),
            None => text_result(&format!("There is no guide with that name. {}", list()), None, true),
        },
    }
}

/// What the gateway itself has to show in the client.
#[inline(never)]
fn own_resources(method: &str, params: &Map<String, Value>) -> Result<String, RpcError> {
    let result = match method {
        "resources/list" => json!({ "resources": [app::entry()] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        _ => app::read(uri_of(params)).ok_or_else(|| RpcError::new(-32_002, "There is no such resource."))?,
    };
    Ok(result.to_string())
}

fn uri_of(params: &Map<String, Value>) -> Option<&str> {
    params.get("uri").and_then(Value::as_str)
}
