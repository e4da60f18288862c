//! Carries out what the engine says: writes, sandboxes, calls, reports, the alarm.
//!
//! Each execution that is not over has one [`Live`] in memory. Every input goes through
//! [`Runner::step`], which takes the engine, gives it the input, and carries the effects out at once
//! and without an await in between, so that the rows of a step are one transaction.

mod link;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::json;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use worker::{Env, State};

use self::link::{CallLink, Questions};
use super::clock::{now, sleep};
use super::inbox::{Inbox, Telling};
use super::invoke::{CallToResolve, Caller, Prepared, invoke, log_call, resolve};
use super::notify::Notify;
use super::organization;
use super::random::{random_bytes, random_hex};
use super::sandbox::{PRELUDE_VERSION, Sandbox, has_loader, has_prelude, load_failure, parse_turn};
use super::store::{SessionStore, StoreError};
use super::telemetry::{log, log_error};
use super::upstream::{Reach, Upstreams};
use crate::approval::Route;
use crate::config::Settings;
use crate::engine::{
    Boot, CallError, Decider, DecisionError, Delivery, Effect, Execution, ExecutionStatus, Moment, Output, ProgramRow,
    Reply, Resolution, Turn, Write, ok_result,
};
use crate::session::alarm::{AlarmState, next_alarm};
use crate::session::events::Journal;
use crate::session::id::{NONCE_BYTES, pause_id};
use crate::session::results::{READ_RESULT, parse_read, part_of_result};
use crate::upstream::Link;

/// Executions of one session that may be open at once.
pub(crate) const OPEN_EXECUTIONS: usize = 64;
/// Executions that ended and can still be asked for, in one session.
const ENDED_EXECUTIONS: u32 = 200;
/// Sandboxes in one object; programs beyond that wait for their turn.
const SANDBOXES: usize = 8;
/// Bytes of the journals of all open executions of one session.
const OPEN_BYTES: u64 = 64 << 20;
/// An alarm that should have rung this long ago is taken for lost, in milliseconds.
const LOST_AFTER_MS: u64 = 10_000;

/// An execution in memory.
pub(crate) struct Live {
    pub(crate) id: String,
    pub(crate) engine: RefCell<Execution>,
    pub(crate) program: ProgramRow,
    pub(super) caller: Caller,
    sandbox: RefCell<Option<Machine>>,
    prepared: RefCell<HashMap<u32, Prepared>>,
    /// When something in memory wakes it, because a timer is due then.
    dozes_until: Cell<Option<u64>>,
    /// Lines of its console that were offered to the client already.
    pub(crate) told_logs: Cell<usize>,
    /// Who hears of it and can be asked; the newest counts.
    links: RefCell<Vec<Rc<dyn Link>>>,
    /// Questions of its tools that a person is asked on a page.
    questions: Questions,
    /// Ends its calls: nobody wants to hear of it any more.
    ended: Notify,
    /// Its rows could not be written: what is in memory is not what is stored.
    pub(crate) lost: Cell<bool>,
    /// Names of the events that its journal has told.
    pub(super) told: RefCell<BTreeSet<String>>,
}

impl Live {
    fn new(id: String, engine: Execution, program: ProgramRow, caller: Caller) -> Self {
        Self {
            id,
            engine: RefCell::new(engine),
            caller: Caller { trace: program.trace.clone(), ..caller },
            program,
            sandbox: RefCell::new(None),
            prepared: RefCell::default(),
            dozes_until: Cell::new(None),
            told_logs: Cell::new(0),
            links: RefCell::default(),
            questions: Questions::default(),
            ended: Notify::default(),
            lost: Cell::new(false),
            told: RefCell::default(),
        }
    }

    /// While what is given exists, calls of this execution can talk to that client.
    pub(crate) fn listen(self: &Rc<Self>, link: Rc<dyn Link>) -> Listening {
        self.links.borrow_mut().push(Rc::clone(&link));
        Listening { live: Rc::clone(self), link }
    }
}

/// See [`Live::listen`].
pub(crate) struct Listening {
    live: Rc<Live>,
    link: Rc<dyn Link>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.live.links.borrow_mut().retain(|link| !Rc::ptr_eq(link, &self.link));
    }
}

/// What runs an execution's program now.
enum Machine {
    /// A Dynamic Worker.
    Sandbox(Sandbox),
    /// None yet: it waits until another one ends.
    Queued(Boot),
    /// Nothing but its one call.
    Direct { attempt: u32, turns: u32 },
}

impl Machine {
    fn attempt(&self) -> u32 {
        match self {
            Self::Sandbox(sandbox) => sandbox.attempt,
            Self::Queued(boot) => boot.attempt,
            Self::Direct { attempt, .. } => *attempt,
        }
    }

    fn end(self) {
        if let Self::Sandbox(mut sandbox) = self {
            sandbox.end();
        }
    }
}

/// All executions of one session object.
pub(crate) struct Runner {
    state: State,
    env: Env,
    pub(crate) settings: Rc<Settings>,
    pub(crate) store: SessionStore,
    pub(crate) upstreams: Upstreams,
    live: RefCell<BTreeMap<String, Rc<Live>>>,
    loaded: Cell<bool>,
    armed: Cell<Option<u64>>,
    /// Requests and alarms that stay open until executions come to rest.
    drivers: Cell<usize>,
    pub(crate) changed: Notify,
    /// Kept here because the alarm depends on them.
    pub(crate) last_activity: Cell<Option<u64>>,
    pub(crate) terminated_at: Cell<Option<u64>>,
    /// Whether the session's owner has the role `admin`.
    pub(crate) is_admin: Cell<bool>,
    /// What the organization knows of what waits here.
    pub(super) inbox: Inbox,
    /// Grants whose decisions were written, and that the organization does not count yet.
    giving: RefCell<BTreeSet<String>>,
}

/// While it exists, something keeps the object awake and decisions are acted on at once.
pub(crate) struct Driver(Rc<Runner>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.drivers.set(self.0.drivers.get().saturating_sub(1));
        if self.0.drivers.get() == 0 {
            // Nothing keeps the object in memory any more: what slept there is left to the alarm.
            for live in self.0.open() {
                live.dozes_until.set(None);
            }
            self.0.rearm();
        }
    }
}

impl Runner {
    pub(crate) fn new(state: State, env: Env, settings: Rc<Settings>) -> Self {
        let store = SessionStore::new(&state);
        let upstreams = Upstreams::new(env.clone(), Rc::clone(&settings));
        Self {
            state,
            env,
            settings,
            store,
            upstreams,
            live: RefCell::default(),
            loaded: Cell::new(false),
            armed: Cell::new(None),
            drivers: Cell::new(0),
            changed: Notify::default(),
            last_activity: Cell::new(None),
            terminated_at: Cell::new(None),
            is_admin: Cell::new(false),
            inbox: Inbox::default(),
            giving: RefCell::default(),
        }
    }

    /// The bindings, for what is not about executions.
    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// The object's state, for what is not about executions.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The id of this object.
    pub(crate) fn object_id(&self) -> String {
        self.state.id().to_string()
    }

    /// Whether the account can run programs.
    pub(crate) fn has_loader(&self) -> bool {
        has_loader(&self.env)
    }

    pub(crate) fn drive(self: &Rc<Self>) -> Driver {
        self.drivers.set(self.drivers.get() + 1);
        for live in self.open() {
            self.doze(&live);
        }
        Driver(Rc::clone(self))
    }

    fn moment() -> worker::Result<Moment> {
        Ok(Moment { now: now(), nonce: pause_id(&random_bytes::<NONCE_BYTES>()?) })
    }

    // ---- executions in memory -----------------------------------------------------------------

    /// Starts an execution.
    pub(crate) fn start(self: &Rc<Self>, caller: Caller, program: ProgramRow) -> Result<Rc<Live>, StoreError> {
        let moment = Self::moment()?;
        let id = random_hex::<16>()?;
        let seed = random_hex::<16>()?;
        let (engine, effects) = Execution::start(&moment, id.clone(), seed, PRELUDE_VERSION, self.settings.limits);
        self.store.forget_oldest(ENDED_EXECUTIONS)?;
        self.store.put_program(&id, &program)?;
        let live = Rc::new(Live::new(id.clone(), engine, program, caller));
        self.live.borrow_mut().insert(id, Rc::clone(&live));
        self.carry_out(&live, effects);
        self.rearm();
        Ok(live)
    }

    /// Loads every execution that is not over.
    pub(crate) fn load_open(self: &Rc<Self>, caller: &Caller) -> Result<(), StoreError> {
        if self.loaded.get() {
            return Ok(());
        }
        for id in self.store.open_executions()? {
            if !self.live.borrow().contains_key(&id) {
                let live = self.load(&id, caller)?;
                self.live.borrow_mut().insert(id, live);
            }
        }
        self.loaded.set(true);
        self.find_untold()?;
        // An earlier life of the object may have ended before it told.
        self.tell_waiting_later();
        Ok(())
    }

    fn load(&self, id: &str, caller: &Caller) -> Result<Rc<Live>, StoreError> {
        let corrupt =
            |row: &str| StoreError::Corrupt { row: format!("{row} of {id}"), problem: "it is missing".to_owned() };
        let row = self.store.execution(id)?.ok_or_else(|| corrupt("execution"))?;
        let program = self.store.program(id)?.ok_or_else(|| corrupt("program"))?;
        let (calls, pauses, output) = (self.store.calls(id)?, self.store.pauses(id)?, self.store.output(id)?);
        let told_logs = output.logs.len();
        let told = Journal { row: &row, calls: &calls, pauses: &pauses }.told();
        let engine = Execution::restore(row, calls, pauses, output, self.settings.limits);
        // An earlier life of the object may have ended before it said so.
        let given = engine.calls().iter().filter_map(|call| call.decision.as_ref()?.gives.clone());
        self.giving.borrow_mut().extend(given);
        let live = Live::new(id.to_owned(), engine, program, caller.clone());
        live.told_logs.set(told_logs);
        *live.told.borrow_mut() = told;
        Ok(Rc::new(live))
    }

    /// An execution, from memory or, when it is over, from storage.
    pub(crate) fn by_id(self: &Rc<Self>, id: &str, caller: &Caller) -> Result<Option<Rc<Live>>, StoreError> {
        self.load_open(caller)?;
        let live = self.live.borrow().get(id).cloned();
        match live {
            Some(live) => Ok(Some(live)),
            None if self.store.execution(id)?.is_some() => self.load(id, caller).map(Some),
            None => Ok(None),
        }
    }

    /// Forgets an execution that nobody wants to hear of any more.
    pub(crate) fn forget(&self, live: &Rc<Live>) -> Result<(), StoreError> {
        live.lost.set(true);
        live.ended.wake_all();
        self.live.borrow_mut().remove(&live.id);
        self.store.forget_execution(&live.id)
    }

    /// The execution that a pause belongs to, from memory or, when it is over, from storage.
    pub(crate) fn by_pause(self: &Rc<Self>, pause: &str, caller: &Caller) -> Result<Option<Rc<Live>>, StoreError> {
        self.load_open(caller)?;
        let Some(id) = self.store.execution_of_pause(pause)? else {
            return Ok(None);
        };
        self.by_id(&id, caller)
    }

    /// Everything that is not over.
    pub(crate) fn open(&self) -> Vec<Rc<Live>> {
        self.live.borrow().values().cloned().collect()
    }

    /// Bytes of the journals of everything that is not over.
    fn open_bytes(&self) -> u64 {
        self.live.borrow().values().map(|live| live.engine.borrow().row().journal_bytes).sum()
    }

    /// Whether another execution may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.open_count() < OPEN_EXECUTIONS && self.open_bytes() < OPEN_BYTES
    }

    fn open_count(&self) -> usize {
        self.live.borrow().len()
    }

    fn sandboxes(&self) -> usize {
        let runs = |live: &&Rc<Live>| matches!(*live.sandbox.borrow(), Some(Machine::Sandbox(_)));
        self.live.borrow().values().filter(runs).count()
    }

    /// Gives the programs that queue their sandboxes, as far as there is room. Those that wait make room: theirs is a cache.
    /// Not at once: this is in the middle of a step.
    fn serve_queue_later(self: &Rc<Self>) {
        let runner = Rc::clone(self);
        spawn_local(async move {
            let queued = |live: &Rc<Live>| matches!(*live.sandbox.borrow(), Some(Machine::Queued(_)));
            let next =
                runner.open().into_iter().filter(queued).min_by_key(|live| live.engine.borrow().row().created_at);
            let Some(next) = next else { return };
            if runner.sandboxes() >= SANDBOXES {
                let rests = |live: &Rc<Live>| {
                    let status = live.engine.borrow().row().status;
                    matches!(status, ExecutionStatus::Waiting | ExecutionStatus::Sleeping)
                        && matches!(*live.sandbox.borrow(), Some(Machine::Sandbox(_)))
                };
                // Its end serves the queue again.
                if let Some(live) = runner.open().into_iter().find(rests) {
                    runner.step(&live, |engine, _| engine.suspend());
                }
                return;
            }
            let taken = next.sandbox.borrow_mut().take();
            let boot = match taken {
                Some(Machine::Queued(boot)) => boot,
                other => {
                    *next.sandbox.borrow_mut() = other;
                    return;
                }
            };
            runner.open_sandbox(&next, &boot);
            runner.step(&next, |engine, moment| engine.sandbox_begins(moment, boot.attempt));
            runner.serve_queue_later();
        });
    }

    /// Lets every execution look at the time and at decisions.
    pub(crate) fn wake_all(self: &Rc<Self>) {
        for live in self.open() {
            self.wake(&live);
        }
    }

    /// Lets the executions go on that nothing in this object is doing anything for.
    pub(crate) fn wake_idle(self: &Rc<Self>) {
        for live in self.open() {
            if live.engine.borrow().needs_wake() {
                self.wake(&live);
            }
        }
    }

    fn wake(self: &Rc<Self>, live: &Rc<Live>) {
        let (prelude, is_over) = {
            let engine = live.engine.borrow();
            (engine.row().prelude, engine.row().status.is_over())
        };
        if is_over || live.program.direct.is_some() || has_prelude(prelude) {
            self.step(live, Execution::wake);
        } else {
            self.step(live, |engine, moment| {
                engine.expire(
                    moment,
                    "The program was started by an older release that is no longer supported. Run it again.",
                )
            });
        }
    }

    /// Whether an execution is on its way by itself.
    pub(crate) fn is_busy(&self) -> bool {
        self.live.borrow().values().any(|live| live.dozes_until.get().is_some() || live.engine.borrow().is_busy())
    }

    // ---- steps --------------------------------------------------------------------------------

    /// Gives the engine an input and carries out what it says.
    pub(crate) fn step(self: &Rc<Self>, live: &Rc<Live>, input: impl FnOnce(&mut Execution, &Moment) -> Vec<Effect>) {
        if live.lost.get() {
            return;
        }
        match Self::moment() {
            Ok(moment) => {
                let room = OPEN_BYTES.saturating_sub(self.open_bytes());
                live.engine.borrow_mut().limit_journal(room);
                let effects = input(&mut live.engine.borrow_mut(), &moment);
                self.carry_out(live, effects);
                self.tidy(live);
                self.doze(live);
                self.make_room_by(live);
            }
            Err(error) => self.lose(live, &error.to_string()),
        }
        self.rearm();
    }

    /// A program that came to rest gives its sandbox up where others queue for one.
    fn make_room_by(self: &Rc<Self>, live: &Rc<Live>) {
        let rests = matches!(live.engine.borrow().row().status, ExecutionStatus::Waiting | ExecutionStatus::Sleeping);
        let queued = |live: &Rc<Live>| matches!(*live.sandbox.borrow(), Some(Machine::Queued(_)));
        if rests && self.live.borrow().values().any(queued) {
            self.serve_queue_later();
        }
    }

    /// The same for an input that may be refused.
    pub(crate) fn try_step<E>(
        self: &Rc<Self>,
        live: &Rc<Live>,
        input: impl FnOnce(&mut Execution, &Moment) -> Result<Vec<Effect>, E>,
    ) -> worker::Result<Result<(), E>> {
        let moment = Self::moment()?;
        let result = input(&mut live.engine.borrow_mut(), &moment);
        let result = result.map(|effects| self.carry_out(live, effects));
        self.tidy(live);
        self.rearm();
        if live.lost.get() {
            return Err(worker::Error::RustError("the decision could not be stored".to_owned()));
        }
        Ok(result)
    }

    fn carry_out(self: &Rc<Self>, live: &Rc<Live>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Commit(writes) => {
                    let stored = self.store.commit(&live.id, &writes).and_then(|()| self.keep_events(live, &writes));
                    let telling = match stored {
                        Ok(telling) => telling,
                        Err(error) => {
                            self.lose(live, &error.to_string());
                            return;
                        }
                    };
                    log_expired(&live.id, &writes);
                    match telling {
                        Some(Telling::Now) => self.tell_waiting_later(),
                        Some(Telling::Soon) => self.tell_waiting_soon(),
                        None => {}
                    }
                }
                Effect::StartSandbox(boot) => self.start_sandbox(live, boot),
                Effect::Answer(Reply { attempt, deliveries }) => {
                    match live.sandbox.borrow_mut().as_mut().filter(|machine| machine.attempt() == attempt) {
                        Some(Machine::Sandbox(sandbox)) => sandbox.answer(&deliveries),
                        Some(Machine::Direct { turns, .. }) => {
                            self.direct_turn_later(live, attempt, *turns, &deliveries);
                            *turns += 1;
                        }
                        Some(Machine::Queued(_)) | None => {}
                    }
                }
                Effect::DropSandbox { attempt } => self.drop_sandbox(live, attempt),
                Effect::Resolve { seq } => self.spawn_resolve(live, seq),
                Effect::Invoke { seq } => self.spawn_invoke(live, seq),
                Effect::Tell { seq, verdict, content } => live.questions.tell(seq, verdict, content.as_deref()),
                Effect::Report => Self::reported(live),
            }
        }
        self.changed.wake_all();
    }

    /// What is in memory is not what is stored: forget it, storage counts.
    #[inline(never)]
    fn lose(self: &Rc<Self>, live: &Rc<Live>, reason: &str) {
        log_error("mcp_execution_lost", json!({ "executionId": live.id, "reason": reason }));
        live.lost.set(true);
        if let Some(machine) = live.sandbox.borrow_mut().take() {
            machine.end();
            self.serve_queue_later();
        }
        self.live.borrow_mut().remove(&live.id);
        self.loaded.set(false);
        self.changed.wake_all();
    }

    fn reported(live: &Rc<Live>) {
        let engine = live.engine.borrow();
        let row = engine.row();
        log(
            "mcp_execution",
            json!({
                "executionId": live.id,
                "status": row.status,
                "calls": engine.calls().len(),
                "replays": row.attempts.saturating_sub(1),
            }),
        );
    }

    /// What has ended, with nothing of it on its way, is not kept in memory.
    fn tidy(&self, live: &Rc<Live>) {
        let over = {
            let engine = live.engine.borrow();
            engine.row().status.is_over() && !engine.row().settling
        };
        if over {
            self.live.borrow_mut().remove(&live.id);
        }
    }

    /// Wakes an execution when its next timer is due, where that is soon and something keeps the object in memory anyway;
    /// otherwise the alarm does.
    fn doze(self: &Rc<Self>, live: &Rc<Live>) {
        let due = {
            let engine = live.engine.borrow();
            engine.wakes_at().filter(|_| !engine.row().status.is_over())
        };
        let soon = now().saturating_add(self.settings.limits.suspend_after_ms);
        let Some(at) = due.filter(|at| *at <= soon && self.drivers.get() > 0) else {
            live.dozes_until.set(None);
            return;
        };
        if live.dozes_until.replace(Some(at)).is_some_and(|earlier| earlier == at) {
            return;
        }
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            sleep(Duration::from_millis(at.saturating_sub(now()))).await;
            if live.dozes_until.get() == Some(at) {
                live.dozes_until.set(None);
                runner.wake(&live);
            }
        });
    }

    #[inline(never)]
    fn start_sandbox(self: &Rc<Self>, live: &Rc<Live>, boot: Boot) {
        let attempt = boot.attempt;
        if live.program.direct.is_some() {
            *live.sandbox.borrow_mut() = Some(Machine::Direct { attempt, turns: 1 });
            self.direct_turn_later(live, attempt, 0, &boot.settled);
            return;
        }
        if self.sandboxes() < SANDBOXES && !self.others_queue(live) {
            self.open_sandbox(live, &boot);
            return;
        }
        self.queue_sandbox(live, boot);
    }

    #[inline(never)]
    fn queue_sandbox(self: &Rc<Self>, live: &Rc<Live>, boot: Boot) {
        let attempt = boot.attempt;
        *live.sandbox.borrow_mut() = Some(Machine::Queued(boot));
        let runner = Rc::clone(self);
        let live = Rc::clone(live);
        // Not at once: this is in the middle of a step.
        spawn_local(async move {
            let queues = matches!(&*live.sandbox.borrow(), Some(Machine::Queued(boot)) if boot.attempt == attempt);
            if queues {
                runner.step(&live, |engine, moment| engine.sandbox_queued(moment, attempt));
            }
        });
        self.serve_queue_later();
    }

    fn others_queue(&self, own: &Rc<Live>) -> bool {
        let queues = |live: &Rc<Live>| matches!(*live.sandbox.borrow(), Some(Machine::Queued(_)));
        self.live.borrow().values().any(|live| live.id != own.id && queues(live))
    }

    fn open_sandbox(self: &Rc<Self>, live: &Rc<Live>, boot: &Boot) {
        let attempt = boot.attempt;
        if !self.has_loader() {
            self.sandbox_lost_later(live, attempt, "this account has no Worker Loader binding");
            return;
        }
        let (runner, target) = (Rc::downgrade(self), Rc::downgrade(live));
        let on_turn = move |text: String, answer: js_sys::Function| {
            let (Some(runner), Some(live)) = (runner.upgrade(), target.upgrade()) else {
                return;
            };
            // Not inside the callback: it may end with the sandbox being dropped.
            spawn_local(async move { runner.take_turn(&live, attempt, &text, answer) });
        };
        let (runner, target) = (Rc::downgrade(self), Rc::downgrade(live));
        let on_lost = move |reason: String| {
            let (Some(runner), Some(live)) = (runner.upgrade(), target.upgrade()) else {
                return;
            };
            spawn_local(async move { runner.sandbox_lost(&live, attempt, &reason) });
        };
        let prelude = live.engine.borrow().row().prelude;
        match Sandbox::start((&live.program, prelude), boot, on_turn, on_lost) {
            Ok(sandbox) => *live.sandbox.borrow_mut() = Some(Machine::Sandbox(sandbox)),
            Err(reason) => self.sandbox_lost_later(live, attempt, &reason),
        }
    }

    /// What a sandbox would say, if a program of one call had one. Not at once: this is in the middle of a step.
    #[inline(never)]
    fn direct_turn_later(self: &Rc<Self>, live: &Rc<Live>, attempt: u32, number: u32, results: &[Delivery]) {
        let Some(direct) = &live.program.direct else { return };
        let (calls, finish) = direct.turn(results, number > 0);
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            let turn = Turn {
                attempt,
                number,
                calls,
                cleared: Vec::new(),
                output: Output::default(),
                output_is_whole: false,
                finish,
            };
            runner.step(&live, |engine, moment| engine.turn(moment, turn));
        });
    }

    /// Notes that the decisions of these grants were written.
    pub(crate) fn give(&self, ids: impl IntoIterator<Item = String>) {
        self.giving.borrow_mut().extend(ids);
    }

    /// Has the organization count the grants whose decisions were written. What fails is said again with the next call that is
    /// looked up, the next time that the organization is told what waits, or in the next life of the object.
    pub(crate) async fn confirm_grants(&self, organization: &str) -> worker::Result<()> {
        let ids: Vec<String> = self.giving.borrow().iter().cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        organization::confirm_call_grants(&self.env, organization, &ids).await?;
        self.giving.borrow_mut().retain(|id| !ids.contains(id));
        Ok(())
    }

    fn sandbox_lost_later(self: &Rc<Self>, live: &Rc<Live>, attempt: u32, reason: &str) {
        let (runner, live, reason) = (Rc::clone(self), Rc::clone(live), reason.to_owned());
        spawn_local(async move { runner.sandbox_lost(&live, attempt, &reason) });
    }

    fn sandbox_lost(self: &Rc<Self>, live: &Rc<Live>, attempt: u32, reason: &str) {
        // Not the reason: it may quote what the program worked on.
        log("mcp_sandbox_lost", json!({ "executionId": live.id, "attempt": attempt }));
        if live.sandbox.borrow().as_ref().is_some_and(|machine| machine.attempt() == attempt) {
            *live.sandbox.borrow_mut() = None;
            self.serve_queue_later();
        }
        let (message, source_line) = load_failure(reason, &live.program.lines);
        self.step(live, |engine, moment| engine.sandbox_lost(moment, attempt, message, source_line));
    }

    fn drop_sandbox(self: &Rc<Self>, live: &Live, attempt: u32) {
        let machine = live.sandbox.borrow_mut().take_if(|machine| machine.attempt() == attempt);
        if let Some(machine) = machine {
            machine.end();
            self.serve_queue_later();
        }
    }

    fn take_turn(self: &Rc<Self>, live: &Rc<Live>, attempt: u32, text: &str, answer: js_sys::Function) {
        let number = {
            let mut slot = live.sandbox.borrow_mut();
            let Some(Machine::Sandbox(sandbox)) = slot.as_mut().filter(|machine| machine.attempt() == attempt) else {
                // A dropped sandbox: let it end.
                let _ = answer.call1(&JsValue::UNDEFINED, &"".into());
                return;
            };
            sandbox.expect_answer(answer);
            let number = sandbox.turns;
            sandbox.turns += 1;
            number
        };
        let prelude = live.engine.borrow().row().prelude;
        match parse_turn(text, &live.program.lines, (attempt, number), prelude) {
            Ok(turn) => self.step(live, |engine, moment| engine.turn(moment, turn)),
            Err(reason) => {
                self.drop_sandbox(live, attempt);
                self.sandbox_lost(live, attempt, &reason);
            }
        }
    }

    #[inline(never)]
    fn spawn_resolve(self: &Rc<Self>, live: &Rc<Live>, seq: u32) {
        let call = match live.engine.borrow().call(seq) {
            Some(call) => CallToResolve {
                execution: live.id.clone(),
                seq,
                address: call.address.clone(),
                arguments: Rc::clone(call.effective_arguments()),
                // What a person decided on needs no grant, and takes none.
                session: call
                    .decision
                    .as_ref()
                    .is_none_or(|decision| decision.route == Route::Grant)
                    .then(|| self.object_id()),
            },
            None => return,
        };
        if call.address == READ_RESULT {
            let (runner, live) = (Rc::clone(self), Rc::clone(live));
            spawn_local(async move {
                let resolution = runner.read_result(&call.arguments);
                runner.step(&live, |engine, moment| engine.resolved(moment, seq, resolution));
            });
            return;
        }
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            // A grant of this session counts for the call that follows its decision.
            if let Err(error) = runner.confirm_grants(&live.caller.organization).await {
                log("mcp_grant_not_confirmed", json!({ "executionId": live.id, "reason": error.to_string() }));
            }
            let (resolution, prepared) = resolve(&runner.env, &runner.settings.auth, &live.caller, &call).await;
            if let Some(prepared) = prepared {
                live.prepared.borrow_mut().insert(seq, prepared);
            }
            runner.step(&live, |engine, moment| engine.resolved(moment, seq, resolution));
        });
    }

    /// `tools.results.read({ id, offset })`: a part of what an earlier program of this session returned. No tool is asked.
    fn read_result(&self, arguments: &str) -> Resolution {
        let asked = match parse_read(arguments) {
            Ok(asked) => asked,
            Err(message) => return Resolution::Refused(CallError::new("invalid_tool_arguments", message)),
        };
        let result = self.store.outcome(&asked.id).ok().flatten().and_then(|outcome| outcome.result);
        let Some(result) = result else {
            let message = "There is no such result in this session. It may have been forgotten; run its program again.";
            return Resolution::Refused(CallError::new("result_not_found", message));
        };
        Resolution::Answered(ok_result(&part_of_result(&result, asked.offset)))
    }

    #[inline(never)]
    fn spawn_invoke(self: &Rc<Self>, live: &Rc<Live>, seq: u32) {
        // The engine asks for a call only after it was resolved in this life.
        let Some(prepared) = live.prepared.borrow_mut().remove(&seq) else {
            self.lose(live, "a call was to be sent that had not been looked up");
            return;
        };
        let address = live.engine.borrow().call(seq).map(|call| call.address.clone()).unwrap_or_default();
        let started = now();
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            // The role counts that the owner has now.
            let caller = Caller { is_admin: runner.is_admin.get(), ..live.caller.clone() };
            let ended = live.ended.changed();
            let original = live.program.direct.is_some();
            let link = Rc::new(CallLink::new(&runner, &live, seq));
            let reach = Reach { upstreams: &runner.upstreams, link, original, person: true };
            let invoked = invoke(&runner.env, &runner.settings, &caller, &prepared, &reach);
            let Either::Left((result, _)) = select(std::pin::pin!(invoked), ended).await else {
                // Nobody hears the answer any more: what was dropped tells the server.
                return;
            };
            log_call(Some(&live.id), &address, &result, started);
            runner.step(&live, |engine, moment| engine.settled(moment, seq, result));
        });
    }

    /// Ends an execution because a person wants it.
    pub(crate) fn stop(
        self: &Rc<Self>,
        live: &Rc<Live>,
        reason: Option<String>,
        decider: &Decider,
    ) -> worker::Result<Result<(), DecisionError>> {
        self.try_step(live, |engine, moment| engine.stop(moment, reason, decider))
    }

    /// Lets decisions be acted on by whoever keeps the object awake; otherwise the alarm does it.
    pub(crate) fn act_on_decisions(self: &Rc<Self>) {
        if self.drivers.get() > 0 {
            let runner = Rc::clone(self);
            spawn_local(async move { runner.wake_idle() });
        }
    }

    // ---- the alarm ----------------------------------------------------------------------------

    /// How long an ended execution is kept, in milliseconds: of a session that ended, as long as its tombstone.
    pub(crate) fn retention_ms(&self) -> u64 {
        match self.terminated_at.get() {
            None => self.settings.execution_retention_ms,
            Some(_) => self.settings.alarm.tombstone,
        }
    }

    /// What the alarm depends on, now.
    pub(crate) fn alarm_state(&self, now: u64) -> Result<AlarmState, StoreError> {
        let live = self.live.borrow();
        let status =
            |wanted: ExecutionStatus| live.values().filter(|live| live.engine.borrow().row().status == wanted).count();
        Ok(AlarmState {
            last_activity: self.last_activity.get(),
            terminated_at: self.terminated_at.get(),
            execution: live.values().filter_map(|live| self.alarm_of(live, now)).chain(self.inbox.retry_at()).min(),
            waiting: status(ExecutionStatus::Waiting) + status(ExecutionStatus::Sleeping),
            running: status(ExecutionStatus::Running)
                + live.values().filter(|live| live.engine.borrow().row().settling).count()
                + usize::from(self.inbox.has_untold()),
            retention: [
                self.store.oldest_end()?.map(|at| at.saturating_add(self.retention_ms())),
                self.store.oldest_stream_end()?.map(|at| at.saturating_add(self.settings.stream_retention_ms)),
            ]
            .into_iter()
            .flatten()
            .min(),
        })
    }

    fn alarm_of(&self, live: &Live, now: u64) -> Option<u64> {
        let engine = live.engine.borrow();
        // A tool that asks holds a connection: the object must not be without a request or an alarm for a moment.
        if self.drivers.get() == 0 && engine.has_question() {
            return Some(now);
        }
        engine.next_alarm(now, live.dozes_until.get().is_some())
    }

    /// Sets the alarm if it has to ring earlier than it is set to. The only caller of `setAlarm`.
    pub(crate) fn rearm(&self) {
        if self.last_activity.get().is_none() {
            // There is no session, or not any more: its tables are gone, and nothing may wake it.
            return;
        }
        let now = now();
        let wanted = match self.alarm_state(now) {
            Ok(state) => next_alarm(&state, self.settings.alarm, now),
            // Without a readable state, look again soon.
            Err(_) => Some(now.saturating_add(self.settings.limits.recovery_ms)),
        };
        let Some(at) = wanted else {
            return;
        };
        // One that is late by that much was lost: whatever happened to it, the next step sets it again.
        let rings = |armed: u64| now < armed.saturating_add(LOST_AFTER_MS);
        if self.armed.get().is_some_and(|armed| armed <= at && rings(armed)) {
            return;
        }
        self.arm_at(at);
    }

    /// Whether what is in memory is all that is stored.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.get()
    }

    /// Sets the alarm whatever the state says: it could not be read.
    pub(crate) fn arm_at(&self, at: u64) {
        self.armed.set(Some(set_alarm(&self.state.storage(), at)));
    }

    /// What the alarm was set to that time for has happened: it is set anew.
    pub(super) fn disarm(&self, at: u64) {
        if self.armed.get() == Some(at) {
            self.armed.set(None);
            self.rearm();
        }
    }

    /// The alarm rang, so none is set.
    pub(crate) fn alarm_rang(&self) {
        self.armed.set(None);
    }

    /// Removes every byte.
    pub(crate) async fn wipe(&self) -> worker::Result<()> {
        self.live.borrow_mut().clear();
        self.loaded.set(false);
        self.last_activity.set(None);
        self.terminated_at.set(None);
        self.store.forget_tables();
        self.state.storage().delete_alarm().await?;
        self.state.storage().delete_all().await
    }
}

/// Calls that nobody decided on in time. Their rows are written in this step and never again.
#[inline(never)]
fn log_expired(execution: &str, writes: &[Write]) {
    for write in writes {
        let Write::Call(call) = write else { continue };
        if let Some(decision) = call.decision.as_ref().filter(|decision| decision.route == Route::Expiry) {
            log(
                "mcp_pending_approval_lease_expire",
                json!({ "executionId": execution, "call": call.seq, "address": call.address, "at": decision.at }),
            );
        }
    }
}

/// Part of the same transaction as the rows written before it; a failure to store it resets the object. Gives the time that the
/// alarm is set to.
///
/// Never to a time that has come. While an alarm rings for T, setting it to T changes nothing in storage, so the platform's
/// scheduler is not told, takes the alarm for done and forgets it: it never rings again (seen in workerd 1.20261117, nine times
/// of ten where the handler begins in the millisecond T). `onTime` in `light.js` sees to it that T has come by our clock.
pub(crate) fn set_alarm(storage: &worker::Storage, at: u64) -> u64 {
    let at = at.max(now().saturating_add(1));
    #[allow(clippy::cast_precision_loss, reason = "times are exact in a double for 285 000 years")]
    let date = js_sys::Date::new(&JsValue::from_f64(at as f64));
    let failed = |error: JsValue| log_error("mcp_alarm_not_set", json!({ "reason": format!("{error:?}") }));
    match storage.as_raw().set_alarm(date, js_sys::Object::new()) {
        Ok(promise) => spawn_local(async move {
            if let Err(error) = wasm_bindgen_futures::JsFuture::from(promise).await {
                failed(error);
            }
        }),
        Err(error) => failed(error),
    }
    at
}
