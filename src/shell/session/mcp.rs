//! `/mcp` inside the object: ownership, the request ladder, the methods, opening and ending a session.

use std::rc::Rc;

use futures_channel::oneshot;
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;
use worker::{Method, Request, Response};

use super::answers::{Answer, Answered, answer_now, tool_error};
use super::outcome::{Failure, RpcError};
use super::{Session, caller_of};
use crate::internal::{Context, Operation};
use crate::protocol::errors::{WireError, error_text, result_text};
use crate::protocol::headers::Accepts;
use crate::protocol::jsonrpc::{Body, Message, RequestId};
use crate::protocol::text::bounded;
use crate::protocol::version::{SUPPORTED, has_batches, header_is_supported, negotiate};
use crate::session::tools::{INSTRUCTIONS, SKILLS, code_mode_tools, text_result};
use crate::session::{ClientInfo, SessionMeta, Termination, Tombstone, parse_modes};
use crate::shell::clock::now;
use crate::shell::http::{correlation, header, mcp_response, new_session, own_request, read_post};
use crate::shell::telemetry::log;

/// Characters of what a client says of itself.
const CLIENT_TEXT: usize = 200;
/// Bytes of the capabilities that are stored.
const CAPABILITIES_LIMIT: usize = 16 << 10;

impl Session {
    pub(super) async fn mcp(self: Rc<Self>, mut request: Request, context: Context) -> Result<Response, Failure> {
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
            return self.terminate(&meta, Termination::Deleted);
        }
        let version = header(request.headers(), "mcp-protocol-version");
        if !header_is_supported(version.as_deref()) {
            let message =
                format!("Bad Request: Unsupported protocol version (supported versions: {})", SUPPORTED.join(", "));
            return Err(WireError::bad_request(message).into());
        }
        let Some(body) = body else {
            return self.get(meta, &request, context);
        };
        let body = body.map_err(|(error, id)| Failure::Wire(error, id))?;
        self.touch(&meta)?;
        self.serve(&meta, &context, body.message, body.accepts).await
    }

    fn get(self: Rc<Self>, meta: Rc<SessionMeta>, request: &Request, context: Context) -> Result<Response, Failure> {
        if !Accepts::parse(header(request.headers(), "accept").as_deref()).events {
            return Err(WireError::not_acceptable("text/event-stream").into());
        }
        match header(request.headers(), "last-event-id") {
            Some(last) => {
                self.touch(&meta)?;
                self.read_again(meta, context, &last)
            }
            // No server stream yet; clients take this as "there is none".
            None => Err(WireError::method_not_allowed().into()),
        }
    }

    async fn serve(
        self: Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        body: Body,
        accepts: Accepts,
    ) -> Result<Response, Failure> {
        let (messages, batch) = match body {
            Body::Single(Message::Request { id, method, params })
                if accepts.events && method == "tools/call" && may_wait(&params) =>
            {
                return self.stream_answer(Rc::clone(meta), context.clone(), id, params);
            }
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
                    answers.push(Rc::clone(&self).answer(Rc::clone(meta), context.clone(), id, method, params, None));
                }
                Ok(Message::Notification { method, params }) => {
                    if method == "notifications/cancelled" {
                        self.cancel_request(&params)?;
                    }
                }
                // No question of ours is open.
                Ok(Message::Response { .. }) => {}
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
            return Ok(Self::stream_batch(answers)?);
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
    pub(super) fn answer(
        self: Rc<Self>,
        meta: Rc<SessionMeta>,
        context: Context,
        id: RequestId,
        method: String,
        params: Map<String, Value>,
        stream: Option<u32>,
    ) -> Answer {
        Box::pin(async move {
            let result = match method.as_str() {
                "ping" => Ok("{}".to_owned()),
                "tools/list" => self.list_tools(&params),
                "tools/call" => self.call_tool(&meta, &context, params, stream).await,
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

    pub(super) fn list_tools(&self, params: &Map<String, Value>) -> Result<String, RpcError> {
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

    pub(super) async fn call_tool(
        self: &Rc<Self>,
        meta: &Rc<SessionMeta>,
        context: &Context,
        mut params: Map<String, Value>,
        stream: Option<u32>,
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
            "execute" if self.runner().is_ok_and(|runner| runner.has_loader()) => {
                self.execute(meta, &arguments, stream).await
            }
            "resume" => self.resume(meta, context, &arguments, stream).await,
            "skills" => Ok(skills(&arguments)),
            _ => Err(RpcError { code: -32_602, message: format!("Unknown tool: {}", bounded(&name, 100)) }),
        }
    }

    pub(super) async fn open(&self, mut request: Request, context: &Context) -> Result<Response, Failure> {
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
    pub(super) async fn reopen(&self, request: &Request, context: &Context, body: &[u8]) -> Result<Response, Failure> {
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
    pub(super) fn terminate(&self, meta: &SessionMeta, reason: Termination) -> Result<Response, Failure> {
        let runner = self.runner()?;
        let at = now();
        let ended = Rc::new(SessionMeta { terminated: Some(Tombstone { at, reason }), ..meta.clone() });
        runner.store.put_session_meta(&ended)?;
        // What a person decided on can be looked at for a while; the rest is of no use any more.
        runner.store.forget_unpaused()?;
        runner.store.forget_all_streams()?;
        self.remember(runner, &ended, self.stored_activity.get());
        runner.load_open(&caller_of(meta))?;
        runner.rearm();
        log(
            "mcp_session_terminated",
            json!({ "sessionId": runner.object_id(), "reason": reason, "openExecutions": runner.open().len() }),
        );
        Ok(mcp_response(200)?.empty())
    }
}

/// Whether a `tools/call` may take longer than a moment.
fn may_wait(params: &Map<String, Value>) -> bool {
    matches!(params.get("name").and_then(Value::as_str), Some("execute" | "resume"))
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
