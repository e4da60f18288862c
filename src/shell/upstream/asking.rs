//! One request to a server, until its answer: progress, logs and questions on the way, streams that break, sessions that are
//! lost, cancellation.
//!
//! How long it may take: `TOOL_TIMEOUT_MS` without a word of the server's. Progress and every other message start the time
//! anew, up to ten times that in all. While the client is being asked the clock stands still.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{AbortHandle, Either, abortable, select};
use serde_json::{Map, Value, json};
use wasm_bindgen_futures::spawn_local;

use super::connection::{Upstream, no_response};
use super::transport::{NoResponse, Piece, send};
use crate::credential::Redactor;
use crate::shell::clock::{now, sleep};
use crate::shell::telemetry::log;
use crate::upstream::client::{
    Answered, CallParts, Connected, Era, Exchange, Fault, Heard, Outgoing, Requests, RpcFault, StreamEnd,
    UNSUPPORTED_VERSION,
};
use crate::upstream::{Changed, Link, Question, ServerError};

/// How often a stream is asked for again.
const RESUMES: u32 = 5;
/// How often a stateless server may ask for more.
const ROUNDS: u32 = 16;
/// While a question is being asked: how often the time is looked at, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// How long the client may take to answer a server's question, in milliseconds.
const QUESTION_MS: u64 = 600_000;
/// How much longer than `TOOL_TIMEOUT_MS` a server that keeps talking may take.
const LONGEST: u64 = 10;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trouble {
    /// The server never got it.
    NotSent(String),
    /// The server refused it unprocessed.
    Refused { status: u16 },
    /// The server lost our session; the request was not processed.
    SessionLost,
    /// The server does not speak the version that the request was in (any more); it was not processed.
    OtherVersion(RpcFault),
    /// It was sent, and what became of it is not known.
    Unknown(String),
    /// It was sent, and took too long.
    Timeout,
    /// It was carried out, but the answer is too large.
    TooLarge,
}

/// Until when a request may take.
pub(crate) struct Deadline {
    silence_ms: u64,
    until: Cell<u64>,
    last: Cell<u64>,
    /// Questions that are being asked, and since when one is.
    asking: Cell<u32>,
    asking_since: Cell<u64>,
}

impl Deadline {
    pub(super) fn new(silence_ms: u64) -> Self {
        let now = now();
        let last = now.saturating_add(silence_ms.saturating_mul(LONGEST));
        let (asking, asking_since) = (Cell::new(0), Cell::new(0));
        Self {
            silence_ms,
            until: Cell::new(now.saturating_add(silence_ms)),
            last: Cell::new(last),
            asking,
            asking_since,
        }
    }

    /// The time as it is now. While a question is being asked it is never over, and has to be looked at again soon.
    pub(super) fn until(&self) -> u64 {
        if self.asking.get() > 0 { now().saturating_add(LOOK_MS) } else { self.until.get().min(self.last.get()) }
    }

    fn heard(&self) {
        self.until.set(now().saturating_add(self.silence_ms));
    }

    fn question_begins(&self) {
        if self.asking.replace(self.asking.get() + 1) == 0 {
            self.asking_since.set(now());
        }
    }

    fn question_ends(&self) {
        self.asking.set(self.asking.get().saturating_sub(1));
        if self.asking.get() == 0 {
            self.stood_still(self.asking_since.get());
        }
    }

    /// That long the server could not go on.
    fn stood_still(&self, since: u64) {
        let stood = now().saturating_sub(since);
        self.until.set(self.until.get().saturating_add(stood));
        self.last.set(self.last.get().saturating_add(stood));
    }
}

/// Questions that are being asked while the rest of the answer is read. Dropped, nobody is asked any more.
#[derive(Default)]
struct Questions(RefCell<Vec<AbortHandle>>);

impl Drop for Questions {
    fn drop(&mut self) {
        for question in self.0.take() {
            question.abort();
        }
    }
}

/// Tells a server with sessions that an answer is not wanted any more. A stateless one sees the connection close.
struct CancelOnDrop {
    upstream: Rc<Upstream>,
    outgoing: Option<Outgoing>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(outgoing) = self.outgoing.take() {
            self.upstream.send_aside(outgoing);
        }
    }
}

impl Upstream {
    /// Asks, and gives the answer, which may be a JSON-RPC error.
    pub(crate) async fn ask(
        self: &Rc<Self>,
        method: &str,
        params: &Map<String, Value>,
        parts: CallParts,
        link: &Rc<dyn Link>,
    ) -> Result<Result<Value, RpcFault>, Trouble> {
        let deadline = Rc::new(self.deadline());
        let _slot = self.slot(deadline.until()).await?;
        let mut parts = CallParts { trace: link.trace(), ..parts };
        let level = parts.log_level;
        let mut renewed = false;
        for _ in 0..ROUNDS {
            let connected = self.connect().await?;
            let requests = self.requests(&connected);
            self.tell_level(&connected, &requests, level).await;
            match self.ask_once(&connected, &requests, method, params, &parts, link, &deadline).await {
                Ok(answered) => match answered.input_required() {
                    Some((questions, state)) if connected.era == Era::Stateless => {
                        let asked = now();
                        let responses = self.answers(questions, link).await;
                        deadline.stood_still(asked);
                        parts.input = Some((Some(responses).filter(|found| !found.is_empty()), state));
                    }
                    _ => {
                        return Ok(match answered {
                            Answered::Result(result) => Ok(result),
                            Answered::Error(fault) => Err(fault),
                        });
                    }
                },
                // It was refused before anything was done, so it may be sent once more.
                Err(Trouble::SessionLost | Trouble::OtherVersion(_)) if !renewed => {
                    renewed = true;
                    self.forget(&connected);
                }
                Err(Trouble::SessionLost) => return Err(Trouble::Refused { status: 404 }),
                Err(Trouble::OtherVersion(fault)) => return Ok(Err(fault)),
                Err(trouble) => return Err(trouble),
            }
        }
        Err(Trouble::Unknown("it asked for more again and again".to_owned()))
    }

    #[expect(clippy::too_many_arguments, reason = "one request with all that it needs")]
    async fn ask_once(
        self: &Rc<Self>,
        connected: &Rc<Connected>,
        requests: &Requests,
        method: &str,
        params: &Map<String, Value>,
        parts: &CallParts,
        link: &Rc<dyn Link>,
        deadline: &Rc<Deadline>,
    ) -> Result<Answered, Trouble> {
        let sessions = connected.era != Era::Stateless;
        let id = self.take_id();
        let outgoing = requests.request(id, method, params.clone(), parts);
        let cancelled = json!({ "requestId": id, "reason": "nobody waits for the answer any more" });
        let cancelled = sessions.then(|| requests.notification("notifications/cancelled", Some(cancelled)));
        let mut guard = CancelOnDrop { upstream: Rc::clone(self), outgoing: cancelled };
        let result = self.read_answer(connected, requests, id, outgoing, link, deadline).await;
        if !matches!(result, Err(Trouble::Timeout)) {
            guard.outgoing = None;
        }
        result
    }

    async fn read_answer(
        self: &Rc<Self>,
        connected: &Rc<Connected>,
        requests: &Requests,
        id: u64,
        outgoing: Outgoing,
        link: &Rc<dyn Link>,
        deadline: &Rc<Deadline>,
    ) -> Result<Answered, Trouble> {
        let has_session = matches!(&connected.era, Era::Session { id: Some(_), .. });
        let sessions = connected.era != Era::Stateless;
        let mut exchange = Exchange::new(Some(id), sessions, self.limits());
        let mut outgoing = outgoing;
        let questions = Questions::default();
        for attempt in 0..=RESUMES {
            let mut broke = "it ended before the answer".to_owned();
            match send(&self.place(), &outgoing, deadline.until()).await {
                Ok(mut response) => {
                    if attempt > 0 && response.status >= 300 {
                        return Err(Trouble::Unknown(format!("it answered {} for the rest", response.status)));
                    }
                    exchange.begin(response.status, response.header("content-type")).map_err(trouble)?;
                    loop {
                        let heard = match response.next(|| deadline.until()).await {
                            Piece::Bytes(piece) => exchange.push(&piece).map_err(trouble)?,
                            Piece::End => {
                                let heard = exchange.end(response.status, has_session).map_err(trouble)?;
                                let heard = redacted(heard, response.redactor());
                                if let Some(answer) = self.react_to(heard, requests, link, (deadline, &questions)) {
                                    return self.judged(connected, answer);
                                }
                                break;
                            }
                            Piece::Broken(why) => {
                                broke = why;
                                break;
                            }
                            Piece::Timeout => return Err(Trouble::Timeout),
                        };
                        let heard = redacted(heard, response.redactor());
                        if let Some(answer) = self.react_to(heard, requests, link, (deadline, &questions)) {
                            return self.judged(connected, answer);
                        }
                    }
                }
                Err(NoResponse::NotSent(why)) => return Err(Trouble::NotSent(why)),
                Err(NoResponse::Timeout) => {
                    self.is_dead("it did not answer in time");
                    return Err(Trouble::Timeout);
                }
                Err(NoResponse::Broken(why)) => {
                    if attempt == 0 {
                        self.is_dead(&no_response(NoResponse::Broken(why.clone())));
                    }
                    broke = why;
                }
            }
            match exchange.broke() {
                StreamEnd::Resume { last_event_id, after_ms } => {
                    sleep(Duration::from_millis(after_ms.min(deadline.until().saturating_sub(now())))).await;
                    outgoing = requests.read_events(Some(&last_event_id));
                }
                StreamEnd::Broken => return Err(Trouble::Unknown(broke)),
            }
        }
        Err(Trouble::Unknown("its stream broke again and again".to_owned()))
    }

    /// An answer that says that this is not how the server is spoken to (any more) is no answer to the request.
    fn judged(&self, connected: &Rc<Connected>, answered: Answered) -> Result<Answered, Trouble> {
        match &answered {
            Answered::Error(fault) if connected.era == Era::Stateless && fault.code == UNSUPPORTED_VERSION => {
                log("mcp_upstream_era_changed", json!({ "source": self.source.slug }));
                Err(Trouble::OtherVersion(fault.clone()))
            }
            Answered::Error(_) | Answered::Result(_) => Ok(answered),
        }
    }

    fn react_to(
        self: &Rc<Self>,
        heard: Vec<Heard>,
        requests: &Requests,
        link: &Rc<dyn Link>,
        (deadline, questions): (&Rc<Deadline>, &Questions),
    ) -> Option<Answered> {
        for heard in heard {
            deadline.heard();
            match heard {
                Heard::Answer(answered) => return Some(answered),
                Heard::Progress { progress, total, message } => link.progress(progress, total, message.as_deref()),
                Heard::Log { level, logger, data } => {
                    let logger =
                        logger.map_or_else(|| self.source.slug.clone(), |name| format!("{}.{name}", self.source.slug));
                    link.log(level, Some(&logger), data);
                }
                Heard::Changed(what) => self.tell_changed(what, link),
                Heard::Reply { id, outcome } => self.send_aside(requests.answer(&id, &outcome)),
                Heard::Ask { id, question } => {
                    let asking = self.ask_aside(id, question, requests, link, deadline);
                    questions.0.borrow_mut().push(asking);
                }
            }
        }
        None
    }

    /// Asks while the stream is read on: a server may give up waiting, and then answers without.
    fn ask_aside(
        self: &Rc<Self>,
        id: String,
        question: Question,
        requests: &Requests,
        link: &Rc<dyn Link>,
        deadline: &Rc<Deadline>,
    ) -> AbortHandle {
        let (upstream, requests) = (Rc::clone(self), requests.clone());
        let (link, deadline) = (Rc::clone(link), Rc::clone(deadline));
        deadline.question_begins();
        let (asking, handle) = abortable(async move {
            let outcome = ask_client(&link, question).await;
            deadline.question_ends();
            upstream.send_aside(requests.answer(&id, &outcome));
        });
        spawn_local(async move {
            // Aborted, it leaves nothing to be done.
            let _ = asking.await;
        });
        handle
    }

    fn tell_changed(self: &Rc<Self>, what: Changed, link: &Rc<dyn Link>) {
        match what {
            // Sessions are told by the organization, and only if something really changed.
            Changed::Tools => self.reread_tools(),
            Changed::Resources | Changed::Prompts => link.changed(what),
            // Nobody is subscribed.
            Changed::Resource(_) => {}
        }
    }

    /// What a stateless server needs, by its own keys. A question that cannot be asked is left out: the server decides.
    async fn answers(&self, questions: Vec<(String, Option<Question>)>, link: &Rc<dyn Link>) -> Map<String, Value> {
        let mut answers = Map::new();
        for (key, question) in questions {
            let Some(question) = question else { continue };
            let is_elicitation = matches!(question, Question::Elicitation(_));
            match ask_client(link, question).await {
                Ok(answer) => {
                    answers.insert(key, answer);
                }
                Err(_) if is_elicitation => {
                    answers.insert(key, json!({ "action": "cancel" }));
                }
                Err(_) => {}
            }
        }
        answers
    }
}

/// Takes the source's credential out of everything that a server said: it may echo one.
pub(super) fn redacted(heard: Vec<Heard>, redactor: &Redactor) -> Vec<Heard> {
    if redactor.is_empty() {
        return heard;
    }
    let text = |text: String| redactor.text(&text).into_owned();
    let value = |value: Value| redacted_value(value, redactor);
    let one = |heard: Heard| match heard {
        Heard::Answer(Answered::Result(result)) => Heard::Answer(Answered::Result(value(result))),
        Heard::Answer(Answered::Error(fault)) => Heard::Answer(Answered::Error(RpcFault {
            code: fault.code,
            message: text(fault.message),
            data: fault.data.map(value),
        })),
        Heard::Progress { progress, total, message } => Heard::Progress { progress, total, message: message.map(text) },
        Heard::Log { level, logger, data } => Heard::Log { level, logger: logger.map(text), data: value(data) },
        Heard::Ask { id, question } => {
            let question = match question {
                Question::Elicitation(params) => Question::Elicitation(redacted_members(params, redactor)),
                Question::Sampling(params) => Question::Sampling(redacted_members(params, redactor)),
                Question::Roots => Question::Roots,
            };
            Heard::Ask { id, question }
        }
        other @ (Heard::Reply { .. } | Heard::Changed(_)) => other,
    };
    heard.into_iter().map(one).collect()
}

fn redacted_value(value: Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => match redactor.text(&text) {
            std::borrow::Cow::Borrowed(_) => Value::String(text),
            std::borrow::Cow::Owned(redacted) => Value::String(redacted),
        },
        Value::Array(items) => items.into_iter().map(|item| redacted_value(item, redactor)).collect(),
        Value::Object(members) => Value::Object(redacted_members(members, redactor)),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn redacted_members(members: Map<String, Value>, redactor: &Redactor) -> Map<String, Value> {
    let member = |(key, value): (String, Value)| (redactor.text(&key).into_owned(), redacted_value(value, redactor));
    members.into_iter().map(member).collect()
}

async fn ask_client(link: &Rc<dyn Link>, question: Question) -> Result<Value, (i32, String)> {
    let asking = std::pin::pin!(link.ask(question));
    match select(asking, sleep(Duration::from_millis(QUESTION_MS))).await {
        Either::Left((Ok(answer), _)) => Ok(answer),
        Either::Left((Err(ServerError::Rpc { code, message, .. }), _)) => Err((code, message)),
        Either::Left((Err(error @ (ServerError::Unknown(_) | ServerError::ClientCannotBeAsked(_))), _)) => {
            Err((-32_600, error.to_string()))
        }
        Either::Right(_) => Err((-32_000, "nobody answered in time".to_owned())),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where errors are turned into others")]
fn trouble(fault: Fault) -> Trouble {
    match fault {
        Fault::SessionLost => Trouble::SessionLost,
        // A redirect after a POST says that it was carried out, and 408 says nothing.
        Fault::Status { status } if (400..500).contains(&status) && status != 408 => Trouble::Refused { status },
        Fault::Status { .. } | Fault::Garbage(_) => Trouble::Unknown(fault.to_string()),
        Fault::TooLarge => Trouble::TooLarge,
    }
}
