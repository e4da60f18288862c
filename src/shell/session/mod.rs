//! The session object: one MCP session and its executions. Loads, calls the core, applies what it says.

mod answers;
mod approvals;
mod corrections;
mod direct;
mod exchange;
mod granting;
mod history;
mod mcp;
mod native;
mod outcome;
mod programs;
mod questions;
mod reader;
mod standalone;
mod streams;

use std::cell::{Cell, OnceCell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, FutureExt, select};
use futures_util::task::noop_waker_ref;
use serde_json::json;
use wasm_bindgen::JsValue;
use worker::{
    DurableObject, Env, Method, Request, Response, ResponseBuilder, State, WebSocket, WebSocketIncomingMessage,
    durable_object, wasm_bindgen,
};

use self::answers::{JSON, Reply};
use self::direct::{Directory, Servers};
use self::outcome::Failure;
pub(super) use self::reader::{KEEP_ALIVE_EVERY, RETRY_MS, log_closed};
use self::streams::Streams;
use super::clock::{now, sleep};
use super::http::{check_post, error_response, header, internal_error, load_settings, mcp_headers, parse_post};
use super::invoke::Caller;
use super::notify::Notify;
use super::organization;
use super::runner::{Runner, set_alarm};
use super::store::{SessionStore, StoreError};
use super::telemetry::{log, log_error};
use crate::auth::Principal;
use crate::config::Settings;
use crate::internal::{CONTEXT_HEADER, Context, Operation};
use crate::protocol::errors::WireError;
use crate::session::alarm::{Fate, decide_fate};
use crate::session::question::Askable;
use crate::session::{SessionMeta, Termination};

/// How long one alarm keeps driving executions; the platform allows 15 minutes.
const ALARM_DRIVES: Duration = Duration::from_mins(10);
/// When the alarm rings again after it failed, in milliseconds.
const ALARM_RETRY_MS: u64 = 60_000;
/// How often a driving alarm looks at deadlines.
const ALARM_LOOKS: Duration = Duration::from_secs(5);

#[durable_object]
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
            // The state cannot be trusted to say when: look again in a while, and never at full speed.
            let at = now().saturating_add(ALARM_RETRY_MS);
            match &self.session.runner {
                Ok(runner) => runner.arm_at(at),
                Err(_) => {
                    set_alarm(&self.session.storage, at);
                }
            }
        }
        Response::empty()
    }

    /// The Worker that reads the stream says nothing.
    async fn websocket_message(&self, _: WebSocket, _: WebSocketIncomingMessage) -> worker::Result<()> {
        Ok(())
    }

    async fn websocket_close(&self, socket: WebSocket, _: usize, _: String, _: bool) -> worker::Result<()> {
        // Answers the close; one that is closed on both sides already refuses it.
        let _ = socket.close(Some(1_000), Some("closed"));
        Ok(())
    }

    async fn websocket_error(&self, _: WebSocket, _: worker::Error) -> worker::Result<()> {
        Ok(())
    }
}

#[wasm_bindgen::prelude::wasm_bindgen]
#[allow(dead_code, reason = "`light.js` calls it, which a native build does not know")]
impl SessionDurableObject {
    /// A small POST with its body, the way of nearly every request (see `light.js`): most are answered here and now, without a
    /// promise. Gives the text of a JSON answer, or the promise of a response; nothing where [`DurableObject::fetch`] has to do it.
    #[allow(unreachable_pub, reason = "the platform calls it")]
    pub fn quick(&self, context: &str, body: String) -> Result<JsValue, JsValue> {
        let Some(context) = Context::decode(Some(context)) else {
            return Ok(JsValue::UNDEFINED);
        };
        let post = check_post(&context.asked).and_then(|accepts| parse_post(body.into_bytes(), accepts));
        if post.as_ref().is_ok_and(|post| post.message.is_initialize()) {
            return Ok(JsValue::UNDEFINED);
        }
        let session = Rc::clone(&self.session);
        let mut reply =
            Box::pin(async move { reply_to(session.ladder(Method::Post, Rc::new(context), Some(post)).await) });
        // Whatever would wake this task is asked again when the promise below polls it.
        let first = reply.as_mut().poll(&mut std::task::Context::from_waker(noop_waker_ref()));
        match first {
            Poll::Ready(Ok(Reply::Json(text))) => Ok(text.into()),
            Poll::Ready(reply) => Ok(web_sys::Response::from(reply?.into_response()?).into()),
            Poll::Pending => Ok(wasm_bindgen_futures::future_to_promise(AssertUnwindSafe(async move {
                Ok(web_sys::Response::from(reply.await?.into_response()?).into())
            }))
            .into()),
        }
    }

    /// The headers of a JSON answer, one to a line.
    #[wasm_bindgen(js_name = jsonHeaders)]
    #[allow(unreachable_pub, reason = "the platform calls it")]
    pub fn json_headers() -> String {
        let headers = mcp_headers().into_iter().chain([("content-type", JSON)]);
        headers.map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join("\n")
    }
}

struct Session {
    env: Env,
    runner: Result<Rc<Runner>, String>,
    meta: RefCell<Option<Rc<SessionMeta>>>,
    stored_activity: Cell<u64>,
    streams: Streams,
    /// Wakes who waits for an answer of the client.
    answered: Notify,
    servers: Servers,
    /// What is known of the catalog, in direct mode.
    directory: RefCell<Option<Directory>>,
    /// The tool list of code mode, as JSON text.
    code_mode_list: OnceCell<String>,
    storage: worker::Storage,
}

impl Session {
    fn new(state: State, env: Env) -> Self {
        // How often objects wake is what idle sessions cost.
        log("mcp_session_object_started", json!({ "sessionId": state.id().to_string() }));
        let storage = state.storage();
        let runner = match load_settings(&env) {
            Ok(settings) => Ok(Rc::new(Runner::new(state, env.clone(), settings))),
            Err(error) => Err(error.to_string()),
        };
        Self {
            env,
            runner,
            meta: RefCell::new(None),
            stored_activity: Cell::new(0),
            streams: Streams::default(),
            answered: Notify::default(),
            servers: Servers::default(),
            directory: RefCell::new(None),
            code_mode_list: OnceCell::new(),
            storage,
        }
    }

    fn runner(&self) -> worker::Result<&Rc<Runner>> {
        self.runner.as_ref().map_err(|error| worker::Error::RustError(error.clone()))
    }

    fn store(&self) -> Result<&SessionStore, StoreError> {
        Ok(&self.runner()?.store)
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
        runner.last_activity.set(Some(runner.settings.alarm.latest_activity(activity, now())));
        runner.is_admin.set(meta.admin);
        runner.terminated_at.set(meta.terminated.as_ref().map(|tombstone| tombstone.at));
        runner.upstreams.serve(Askable::parse(&meta.capabilities), meta.log_level);
        *self.meta.borrow_mut() = Some(Rc::clone(meta));
    }

    /// Notes that the owner used the session; written rarely.
    fn touch(&self, meta: &SessionMeta) -> Result<(), StoreError> {
        let Ok(runner) = &self.runner else {
            return Ok(());
        };
        // The first request that an older layout accepts brings it up to date.
        runner.store.migrate()?;
        let interval = runner.settings.alarm.activity_interval();
        let now = now();
        runner.last_activity.set(Some(now));
        if now.saturating_sub(self.stored_activity.get()) >= interval {
            runner.store.put_last_activity(now)?;
            self.stored_activity.set(now);
            // The alarm depends on every execution: one that is not loaded yet must not lose its own.
            runner.load_open(&caller_of(meta))?;
            runner.rearm();
        }
        Ok(())
    }

    async fn fetch(self: Rc<Self>, request: Request) -> worker::Result<Response> {
        let context = header(request.headers(), CONTEXT_HEADER);
        let Some(context) = Context::decode(context.as_deref()) else {
            // A Worker and an object of different versions, for the length of a deploy.
            return error_response(&WireError::restarting(), None);
        };
        let result = match context.operation.clone() {
            Operation::Open => self.open(request, &context).boxed_local().await,
            Operation::Mcp => {
                return reply_to(Rc::clone(&self).mcp(request, context).boxed_local().await)?.into_response();
            }
            Operation::CatalogChanged => self.catalog_changed_request(&context),
            Operation::AccessLost => self.access_lost(&context),
            Operation::View { pause } => self.view(&context, &pause),
            Operation::History { after } => self.history(&context, after.as_deref()),
            Operation::Decide { pause } => self.decide_request(request, &context, &pause).boxed_local().await,
            Operation::Stop { execution } => self.stop_request(request, &context, &execution).boxed_local().await,
            Operation::Resume { pause } => self.resume_request(request, &context, &pause).boxed_local().await,
        };
        reply_to(result.map(Into::into))?.into_response()
    }

    /// The organization's catalog changed. 404 where nobody reads any more, so that this object is not told again.
    fn catalog_changed_request(&self, context: &Context) -> Result<Response, Failure> {
        let reads = match self.meta()? {
            Some(meta) if meta.organization == context.principal.organization => {
                organization::catalog_changed(&meta.organization);
                *self.directory.borrow_mut() = None;
                self.catalog_changed()
            }
            _ => false,
        };
        Ok(ResponseBuilder::new().with_status(if reads { 200 } else { 404 }).empty())
    }

    /// The owner lost access: the session ends. Anybody else's notice changes nothing, and neither does one too many.
    fn access_lost(&self, context: &Context) -> Result<Response, Failure> {
        let done = || Ok(ResponseBuilder::new().with_status(200).empty());
        let Some(meta) = self.meta()? else {
            return done();
        };
        let Principal { account, organization, .. } = &context.principal;
        let is_owners = meta.account == *account && (organization.is_empty() || meta.organization == *organization);
        if is_owners && meta.terminated.is_none() {
            self.terminate(&meta, Termination::AccessLost)?;
        }
        done()
    }

    async fn alarm(self: Rc<Self>) -> Result<(), Failure> {
        let runner = self.runner()?;
        runner.alarm_rang();
        let Some(meta) = self.meta()? else {
            log("mcp_session_unaddressable_alarm_cleanup", json!({ "sessionId": runner.object_id() }));
            runner.wipe().await?;
            return Ok(());
        };
        runner.store.migrate()?;
        let at = now();
        // First, so that the steps below do not set an alarm for what is forgotten here.
        runner.store.forget_ended(at.saturating_sub(runner.retention_ms()))?;
        // A stream that was never answered is of a request that the object lost and nobody asked for again.
        let abandoned = runner.settings.limits.approval_window_ms;
        runner
            .store
            .forget_streams(at.saturating_sub(runner.settings.stream_retention_ms), at.saturating_sub(abandoned))?;
        let driver = runner.drive();
        runner.load_open(&caller_of(&meta))?;
        runner.wake_all();
        if !runner.is_loaded() {
            // A step could not be stored. What is in storage counts: nothing is decided on less than that.
            return Err(worker::Error::RustError("an execution was lost from memory".to_owned()).into());
        }
        runner.tell_waiting_later();
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
                // The last chance; what is missed now is shown until it would have expired.
                runner.tell_waiting().await;
                *self.meta.borrow_mut() = None;
                runner.wipe().await?;
                return Ok(());
            }
        }
        runner.rearm();
        let end = sleep(ALARM_DRIVES).fuse();
        let mut end = std::pin::pin!(end);
        while runner.is_busy() {
            let look = sleep(ALARM_LOOKS);
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

/// What the client gets.
fn reply_to(result: Result<Reply, Failure>) -> worker::Result<Reply> {
    let response = match result {
        Ok(reply) => return Ok(reply),
        Err(Failure::Wire(error, id)) => error_response(&error, id.as_ref()),
        Err(Failure::Store(StoreError::Newer { found })) => {
            log_error("mcp_newer_schema", json!({ "found": found }));
            error_response(&WireError::restarting(), None)
        }
        Err(Failure::Store(error)) => internal_error(&error.to_string(), None),
        Err(Failure::Platform(error)) => internal_error(&error.to_string(), None),
    };
    response.map(Into::into)
}

pub(super) fn caller_of(meta: &SessionMeta) -> Caller {
    Caller {
        organization: meta.organization.clone(),
        account: meta.account.clone(),
        is_admin: meta.admin,
        resource: meta.resource.clone(),
        public_origin: meta.public_origin.clone(),
        trace: Vec::new(),
    }
}
