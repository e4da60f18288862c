//! One server, as one session object uses it. Everything here may be lost at any time: what the server knows of us is made
//! anew when it is needed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;
use worker::Env;

use super::asking::{Deadline, Trouble, redacted};
use super::transport::{Incoming, NoResponse, Piece, Place, send};
use crate::config::Settings;
use crate::internal::{ServerSeen, SourceRow, VERSION};
use crate::session::question::Askable;
use crate::shell::clock::{now, sleep};
use crate::shell::import::reread;
use crate::shell::notify::Notify;
use crate::shell::organization;
use crate::shell::telemetry::log;
use crate::upstream::client::{
    Answered, CallParts, Connected, Era, Exchange, Heard, Limits, Outgoing, Probed, Requests, RpcFault, read_discovery,
    read_initialized,
};
use crate::upstream::{LogLevel, Offers};

/// How long a server may take to be connected to, in milliseconds.
const CONNECT_MS: u64 = 10_000;
/// How long one that could not be reached is not tried again, in milliseconds.
const DEAD_MS: u64 = 5_000;
/// Between two readings of its tools because it says that they changed, in milliseconds.
const REREAD_MS: u64 = 2_000;
/// Between two notes to the organization that nothing is new, in milliseconds.
const TOLD_EVERY_MS: u64 = 60_000;
/// Requests to one server at a time. The platform opens six connections at once, and one that hangs must not have them all.
const AT_ONCE: u32 = 4;
/// Messages before an answer.
const MESSAGES: usize = 10_000;

/// One server.
pub(crate) struct Upstream {
    env: Env,
    pub(super) settings: Rc<Settings>,
    organization: String,
    pub(crate) source: SourceRow,
    askable: Askable,
    state: RefCell<State>,
    changed: Notify,
    next_id: Cell<u64>,
    running: Cell<u32>,
    /// The level that the server was told.
    told_level: Cell<Option<LogLevel>>,
    reread_at: Cell<u64>,
    /// Whether the organization was told that it can be used, and when.
    told_found: Cell<Option<(bool, u64)>>,
    /// Whether it is told to the organization that the tools changed: not while they are read.
    pub(super) tells_changes: bool,
}

enum State {
    Unknown,
    Connecting,
    Connected(Rc<Connected>),
    Dead { until: u64, why: String },
}

/// A place among the requests that run.
pub(super) struct Slot<'a>(&'a Upstream);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get().saturating_sub(1));
        self.0.changed.wake_all();
    }
}

/// Whoever connects may be cancelled: somebody else has to be able to go on.
struct Connecting<'a>(&'a Upstream);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if matches!(*state, State::Connecting) {
            *state = State::Unknown;
        }
        drop(state);
        self.0.changed.wake_all();
    }
}

impl Upstream {
    pub(super) fn new(
        env: &Env,
        settings: &Rc<Settings>,
        organization: &str,
        source: &SourceRow,
        askable: Askable,
    ) -> Self {
        Self {
            env: env.clone(),
            settings: Rc::clone(settings),
            organization: organization.to_owned(),
            source: source.clone(),
            askable,
            state: RefCell::new(State::Unknown),
            changed: Notify::default(),
            next_id: Cell::new(1),
            running: Cell::new(0),
            told_level: Cell::new(None),
            reread_at: Cell::new(0),
            told_found: Cell::new(None),
            tells_changes: true,
        }
    }

    /// Whether it is the same server, reached the same way, for the same client.
    pub(super) fn is_for(&self, source: &SourceRow, askable: Askable) -> bool {
        self.source.url == source.url && self.source.credential == source.credential && self.askable == askable
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place { env: &self.env, settings: &self.settings, organization: &self.organization, source: &self.source }
    }

    /// What it offers beside tools, as far as that is known.
    pub(super) fn offers(&self) -> Option<Offers> {
        match &*self.state.borrow() {
            State::Connected(connected) => Some(crate::upstream::client::offers_of(&connected.capabilities)),
            State::Unknown | State::Connecting | State::Dead { .. } => None,
        }
    }

    pub(super) fn take_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub(super) fn requests(&self, connected: &Connected) -> Requests {
        Requests { era: connected.era.clone(), capabilities: self.capabilities() }
    }

    /// What the server may ask of the client.
    fn capabilities(&self) -> Value {
        let mut capabilities = Map::new();
        let mut elicitation = Map::new();
        if self.askable.form {
            elicitation.insert("form".to_owned(), json!({}));
        }
        if self.askable.url {
            elicitation.insert("url".to_owned(), json!({}));
        }
        if !elicitation.is_empty() {
            capabilities.insert("elicitation".to_owned(), Value::Object(elicitation));
        }
        if self.askable.sampling {
            capabilities.insert("sampling".to_owned(), json!({}));
        }
        if self.askable.roots {
            capabilities.insert("roots".to_owned(), json!({}));
        }
        Value::Object(capabilities)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { bytes: self.settings.tool_response_bytes, messages: MESSAGES }
    }

    /// Waits for a place, until that time.
    pub(super) async fn slot(&self, until: u64) -> Result<Slot<'_>, Trouble> {
        while self.running.get() >= AT_ONCE {
            let changed = self.changed.changed();
            let left = Duration::from_millis(until.saturating_sub(now()));
            if let Either::Right(_) = select(changed, sleep(left)).await {
                return Err(Trouble::NotSent("too many requests to it are on their way".to_owned()));
            }
        }
        self.running.set(self.running.get() + 1);
        Ok(Slot(self))
    }

    /// The connection, made where there is none.
    pub(super) async fn connect(&self) -> Result<Rc<Connected>, Trouble> {
        loop {
            let changed = self.changed.changed();
            match &*self.state.borrow() {
                State::Connected(connected) => return Ok(Rc::clone(connected)),
                State::Dead { until, why } if *until > now() => return Err(Trouble::NotSent(why.clone())),
                State::Connecting => {}
                State::Unknown | State::Dead { .. } => break,
            }
            // Ends with an error only when the object itself ends.
            let _ = changed.await;
        }
        *self.state.borrow_mut() = State::Connecting;
        let guard = Connecting(self);
        let began = now();
        let until = began + CONNECT_MS.min(self.settings.tool_timeout_ms);
        let result = self.handshake(until).await;
        let state = match &result {
            Ok(connected) => State::Connected(Rc::clone(connected)),
            Err(why) => State::Dead { until: now() + DEAD_MS, why: why.clone() },
        };
        log(
            "mcp_upstream_connected",
            json!({
                "source": self.source.slug,
                "outcome": if result.is_ok() { "ok" } else { "error" },
                "era": result.as_ref().ok().map(|connected| connected.era.word()),
                "durationMs": now().saturating_sub(began),
            }),
        );
        self.tell_found(result.as_ref().map(|connected| connected.era.word().to_owned()).map_err(Clone::clone));
        self.told_level.set(None);
        *self.state.borrow_mut() = state;
        drop(guard);
        result.map_err(Trouble::NotSent)
    }

    /// The server does not know the connection any more.
    pub(super) fn forget(&self, connected: &Rc<Connected>) {
        let mut state = self.state.borrow_mut();
        if matches!(&*state, State::Connected(known) if Rc::ptr_eq(known, connected)) {
            *state = State::Unknown;
        }
    }

    /// Nothing was heard of it: the next ones do not wait as long.
    pub(super) fn is_dead(&self, why: &str) {
        self.tell_found(Err(why.to_owned()));
        *self.state.borrow_mut() = State::Dead { until: now() + DEAD_MS, why: why.to_owned() };
    }

    /// Tells the organization how the server was found, for administrators. One that stays as it is, is told of once a minute.
    fn tell_found(&self, outcome: Result<String, String>) {
        let last = self.told_found.get();
        let is_news = last.is_none_or(|(ok, at)| ok != outcome.is_ok() || now().saturating_sub(at) >= TOLD_EVERY_MS);
        if !self.tells_changes || !is_news {
            return;
        }
        self.told_found.set(Some((outcome.is_ok(), now())));
        let (env, organization, source) = (self.env.clone(), self.organization.clone(), self.source.slug.clone());
        spawn_local(async move {
            let seen = ServerSeen { version: VERSION, source, outcome };
            if let Err(error) = organization::note_server(&env, &organization, &seen).await {
                log("mcp_upstream_state_not_told", json!({ "source": seen.source, "reason": error.to_string() }));
            }
        });
    }

    /// Tells a server with sessions from which level on log messages are wanted, where that changed.
    pub(super) async fn tell_level(&self, connected: &Connected, requests: &Requests, level: Option<LogLevel>) {
        let Some(level) = level.filter(|level| self.told_level.get() != Some(*level)) else { return };
        let logs = crate::upstream::client::declared(&connected.capabilities, "logging", None);
        if !logs || connected.era == Era::Stateless {
            return;
        }
        self.told_level.set(Some(level));
        let params = Map::from_iter([("level".to_owned(), json!(level))]);
        let id = self.take_id();
        let outgoing = requests.request(id, "logging/setLevel", params, &CallParts::default());
        // It is about log lines: the request itself tells whether the server is there.
        let _ = self.round_trip(id, true, &outgoing, now() + CONNECT_MS).await;
    }

    async fn handshake(&self, until: u64) -> Result<Rc<Connected>, String> {
        let id = self.take_id();
        let probe = Requests { era: Era::Stateless, capabilities: self.capabilities() };
        let probe = probe.request(id, "server/discover", Map::new(), &CallParts::default());
        let (status, _, outcome) = self.round_trip(id, false, &probe, until).await?;
        match read_discovery(status, outcome.ok().as_ref()) {
            Probed::Stateless(connected) => return Ok(Rc::new(connected)),
            Probed::Unusable(why) => return Err(why),
            Probed::Older => {}
        }
        let id = self.take_id();
        let initialize = Requests::initialize(id, &self.capabilities());
        let (status, session, outcome) = self.round_trip(id, false, &initialize, until).await?;
        let connected = match outcome {
            Ok(Ok(result)) => read_initialized(&result, session.as_deref())?,
            Ok(Err(fault)) => return Err(format!("it refused initialize: {}", fault.message)),
            Err(_) if status == 401 || status == 403 => {
                return Err(format!("it answered {status}: the credential is missing or not accepted"));
            }
            Err(why) => return Err(why),
        };
        let initialized = self.requests(&connected).notification("notifications/initialized", None);
        match send(&self.place(), &initialized, until).await {
            Ok(response) if response.status < 300 => Ok(Rc::new(connected)),
            Ok(response) => Err(format!("it answered {} to notifications/initialized", response.status)),
            Err(error) => Err(no_response(error)),
        }
    }

    /// A request of the handshake: status, session id, and the outcome or why there is none.
    async fn round_trip(
        &self,
        id: u64,
        has_session: bool,
        outgoing: &Outgoing,
        until: u64,
    ) -> Result<(u16, Option<String>, Result<Result<Value, RpcFault>, String>), String> {
        let mut response = send(&self.place(), outgoing, until).await.map_err(no_response)?;
        let (status, session) = (response.status, response.header("mcp-session-id").map(ToOwned::to_owned));
        let mut exchange = Exchange::new(Some(id), false, self.limits());
        let outcome = answer_in(&mut response, &mut exchange, has_session, until).await;
        Ok((status, session, outcome))
    }

    /// Sends something that nobody waits for.
    pub(super) fn send_aside(self: &Rc<Self>, outgoing: Outgoing) {
        let upstream = Rc::clone(self);
        spawn_local(async move {
            let sent = send(&upstream.place(), &outgoing, now() + CONNECT_MS).await;
            if let Err(error) = sent {
                log("mcp_upstream_not_told", json!({ "source": upstream.source.slug, "reason": no_response(error) }));
            }
        });
    }

    /// Ends the session there, if one is open.
    pub(super) fn end(self: &Rc<Self>) {
        let upstream = Rc::clone(self);
        spawn_local(async move { upstream.end_now().await });
    }

    /// The same, done when this is.
    pub(super) async fn end_now(&self) {
        let state = std::mem::replace(&mut *self.state.borrow_mut(), State::Unknown);
        let State::Connected(connected) = state else { return };
        let Some(outgoing) = self.requests(&connected).end() else { return };
        if let Err(error) = send(&self.place(), &outgoing, now() + CONNECT_MS).await {
            log("mcp_upstream_not_told", json!({ "source": self.source.slug, "reason": no_response(error) }));
        }
    }

    /// The server's tools changed: the organization reads them again.
    pub(super) fn reread_tools(self: &Rc<Self>) {
        if !self.tells_changes || self.reread_at.get() > now() {
            // It is read just now, or will be soon: then what changed since counts too.
            return;
        }
        // One that says so all the time is not heard more often.
        let (at, upstream) = (self.reread_at.get().saturating_add(REREAD_MS).max(now()), Rc::clone(self));
        self.reread_at.set(at);
        spawn_local(async move {
            sleep(Duration::from_millis(at.saturating_sub(now()))).await;
            let (organization, slug) = (&upstream.organization, &upstream.source.slug);
            match reread(&upstream.env, &upstream.settings, organization, slug).await {
                Ok(200..=299) => {}
                Ok(status) => log("mcp_upstream_not_reread", json!({ "source": slug, "status": status })),
                Err(error) => log("mcp_upstream_not_reread", json!({ "source": slug, "reason": error.to_string() })),
            }
        });
    }

    pub(super) fn deadline(&self) -> Deadline {
        Deadline::new(self.settings.tool_timeout_ms)
    }
}

async fn answer_in(
    response: &mut Incoming,
    exchange: &mut Exchange,
    has_session: bool,
    until: u64,
) -> Result<Result<Value, RpcFault>, String> {
    let unusable = |fault: crate::upstream::client::Fault| fault.to_string();
    let found = |heard: Vec<Heard>| {
        heard.into_iter().find_map(|heard| match heard {
            Heard::Answer(Answered::Result(result)) => Some(Ok(result)),
            Heard::Answer(Answered::Error(fault)) => Some(Err(fault)),
            Heard::Progress { .. }
            | Heard::Log { .. }
            | Heard::Ask { .. }
            | Heard::Reply { .. }
            | Heard::Changed(_) => None,
        })
    };
    exchange.begin(response.status, response.header("content-type")).map_err(unusable)?;
    loop {
        match response.next(|| until).await {
            Piece::Bytes(piece) => {
                let heard = exchange.push(&piece).map_err(unusable)?;
                if let Some(outcome) = found(redacted(heard, response.redactor())) {
                    return Ok(outcome);
                }
            }
            Piece::End => {
                let heard = exchange.end(response.status, has_session).map_err(unusable)?;
                return found(redacted(heard, response.redactor())).ok_or_else(|| "it gave no answer".to_owned());
            }
            Piece::Broken(why) => return Err(format!("the connection broke: {why}")),
            Piece::Timeout => return Err("it did not answer in time".to_owned()),
        }
    }
}

pub(super) fn no_response(error: NoResponse) -> String {
    match error {
        NoResponse::NotSent(why) => why,
        NoResponse::Broken(why) => format!("it could not be reached: {why}"),
        NoResponse::Timeout => "it did not answer in time".to_owned(),
    }
}
