//! Carries out what the engine says: writes, sandboxes, calls, reports, the alarm.
//!
//! Each execution that is not over has one [`Live`] in memory. Every input goes through
//! [`Runner::step`], which takes the engine, gives it the input, and carries the effects out at once
//! and without an await in between, so that the rows of a step are one transaction.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::json;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use worker::{Env, State};

use super::clock::now;
use super::invoke::{CallToResolve, Caller, Prepared, invoke, log_call, resolve};
use super::notify::Notify;
use super::random::{random_bytes, random_hex};
use super::sandbox::{PRELUDE_VERSION, Sandbox, has_prelude, load_failure, loader, parse_turn};
use super::store::{SessionStore, StoreError};
use super::telemetry::{log, log_error};
use crate::approval::Route;
use crate::config::Settings;
use crate::engine::{Boot, Delivery, Effect, Execution, ExecutionStatus, Moment, ProgramRow, Reply, Turn, Write};
use crate::session::alarm::{AlarmState, next_alarm};
use crate::session::id::{NONCE_BYTES, pause_id};

/// Executions of one session that may be open at once.
pub(crate) const OPEN_EXECUTIONS: usize = 64;
/// Executions that ended and can still be asked for, in one session.
const ENDED_EXECUTIONS: u32 = 200;
/// Sandboxes in one object.
pub(crate) const SANDBOXES: usize = 8;

/// An execution in memory.
pub(crate) struct Live {
    pub(crate) id: String,
    pub(crate) engine: RefCell<Execution>,
    pub(crate) program: ProgramRow,
    caller: Caller,
    sandbox: RefCell<Option<Machine>>,
    prepared: RefCell<HashMap<u32, Prepared>>,
    /// Its rows could not be written: what is in memory is not what is stored.
    pub(crate) lost: Cell<bool>,
}

/// What runs an execution's program now.
enum Machine {
    /// A Dynamic Worker.
    Sandbox(Sandbox),
    /// Nothing but its one call.
    Direct { attempt: u32, turns: u32 },
}

impl Machine {
    fn attempt(&self) -> u32 {
        match self {
            Self::Sandbox(sandbox) => sandbox.attempt,
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
    live: RefCell<BTreeMap<String, Rc<Live>>>,
    loaded: Cell<bool>,
    armed: Cell<Option<u64>>,
    /// Requests and alarms that stay open until executions come to rest.
    drivers: Cell<usize>,
    pub(crate) changed: Notify,
    /// Kept here because the alarm depends on them.
    pub(crate) last_activity: Cell<Option<u64>>,
    pub(crate) terminated_at: Cell<Option<u64>>,
}

/// While it exists, something keeps the object awake and decisions are acted on at once.
pub(crate) struct Driver(Rc<Runner>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.drivers.set(self.0.drivers.get().saturating_sub(1));
    }
}

impl Runner {
    pub(crate) fn new(state: State, env: Env, settings: Rc<Settings>) -> Self {
        let store = SessionStore::new(&state);
        Self {
            state,
            env,
            settings,
            store,
            live: RefCell::default(),
            loaded: Cell::new(false),
            armed: Cell::new(None),
            drivers: Cell::new(0),
            changed: Notify::default(),
            last_activity: Cell::new(None),
            terminated_at: Cell::new(None),
        }
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
        loader(&self.env).is_some()
    }

    pub(crate) fn drive(self: &Rc<Self>) -> Driver {
        self.drivers.set(self.drivers.get() + 1);
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
        let caller = Caller { trace: program.trace.clone(), ..caller };
        let live = Rc::new(Live {
            id: id.clone(),
            engine: RefCell::new(engine),
            program,
            caller,
            sandbox: RefCell::new(None),
            prepared: RefCell::default(),
            lost: Cell::new(false),
        });
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
        Ok(())
    }

    fn load(&self, id: &str, caller: &Caller) -> Result<Rc<Live>, StoreError> {
        let corrupt =
            |row: &str| StoreError::Corrupt { row: format!("{row} of {id}"), problem: "it is missing".to_owned() };
        let row = self.store.execution(id)?.ok_or_else(|| corrupt("execution"))?;
        let program = self.store.program(id)?.ok_or_else(|| corrupt("program"))?;
        let engine = Execution::restore(row, self.store.calls(id)?, self.store.pauses(id)?, self.settings.limits);
        let caller = Caller { trace: program.trace.clone(), ..caller.clone() };
        Ok(Rc::new(Live {
            id: id.to_owned(),
            engine: RefCell::new(engine),
            program,
            caller,
            sandbox: RefCell::new(None),
            prepared: RefCell::default(),
            lost: Cell::new(false),
        }))
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

    /// Sandboxes in memory.
    pub(crate) fn sandboxes(&self) -> usize {
        let runs = |live: &&Rc<Live>| matches!(*live.sandbox.borrow(), Some(Machine::Sandbox(_)));
        self.live.borrow().values().filter(runs).count()
    }

    /// Drops the programs that wait from memory, so that another one has room.
    pub(crate) fn suspend_waiting(self: &Rc<Self>) {
        for live in self.open() {
            self.step(&live, |engine, _| engine.suspend());
        }
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
        let prelude = live.engine.borrow().row().prelude;
        if live.program.direct.is_some() || has_prelude(prelude) {
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
        self.live.borrow().values().any(|live| live.engine.borrow().is_busy())
    }

    // ---- steps --------------------------------------------------------------------------------

    /// Gives the engine an input and carries out what it says.
    pub(crate) fn step(self: &Rc<Self>, live: &Rc<Live>, input: impl FnOnce(&mut Execution, &Moment) -> Vec<Effect>) {
        if live.lost.get() {
            return;
        }
        match Self::moment() {
            Ok(moment) => {
                let effects = input(&mut live.engine.borrow_mut(), &moment);
                self.carry_out(live, effects);
            }
            Err(error) => self.lose(live, &error.to_string()),
        }
        self.rearm();
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
                    if let Err(error) = self.store.commit(&live.id, &writes) {
                        self.lose(live, &error.to_string());
                        return;
                    }
                    log_expired(&live.id, &writes);
                }
                Effect::StartSandbox(boot) => self.start_sandbox(live, &boot),
                Effect::Answer(Reply { attempt, deliveries }) => {
                    match live.sandbox.borrow_mut().as_mut().filter(|machine| machine.attempt() == attempt) {
                        Some(Machine::Sandbox(sandbox)) => sandbox.answer(&deliveries),
                        Some(Machine::Direct { turns, .. }) => {
                            self.direct_turn_later(live, attempt, *turns, &deliveries);
                            *turns += 1;
                        }
                        None => {}
                    }
                }
                Effect::DropSandbox { attempt } => Self::drop_sandbox(live, attempt),
                Effect::Resolve { seq } => self.spawn_resolve(live, seq),
                Effect::Invoke { seq } => self.spawn_invoke(live, seq),
                Effect::Report => self.reported(live),
            }
        }
        self.changed.wake_all();
    }

    /// What is in memory is not what is stored: forget it, storage counts.
    fn lose(&self, live: &Rc<Live>, reason: &str) {
        log_error("mcp_execution_lost", json!({ "executionId": live.id, "reason": reason }));
        live.lost.set(true);
        if let Some(machine) = live.sandbox.borrow_mut().take() {
            machine.end();
        }
        self.live.borrow_mut().remove(&live.id);
        self.loaded.set(false);
        self.changed.wake_all();
    }

    fn reported(&self, live: &Rc<Live>) {
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
        if row.status.is_over() {
            self.live.borrow_mut().remove(&live.id);
        }
    }

    fn start_sandbox(self: &Rc<Self>, live: &Rc<Live>, boot: &Boot) {
        let attempt = boot.attempt;
        if live.program.direct.is_some() {
            *live.sandbox.borrow_mut() = Some(Machine::Direct { attempt, turns: 1 });
            self.direct_turn_later(live, attempt, 0, &boot.settled);
            return;
        }
        let Some(loader) = loader(&self.env) else {
            self.sandbox_lost_later(live, attempt, "this account has no Worker Loader binding");
            return;
        };
        // A fresh isolate for every attempt: one that is used again may be polluted.
        let id = format!("{}-{attempt}-{}", live.id, random_hex::<8>().unwrap_or_default());
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
        match Sandbox::start(&loader, &id, &live.program, boot, on_turn, on_lost) {
            Ok(sandbox) => *live.sandbox.borrow_mut() = Some(Machine::Sandbox(sandbox)),
            Err(reason) => self.sandbox_lost_later(live, attempt, &reason),
        }
    }

    /// What a sandbox would say, if a program of one call had one. Not at once: this is in the middle of a step.
    fn direct_turn_later(self: &Rc<Self>, live: &Rc<Live>, attempt: u32, number: u32, results: &[Delivery]) {
        let Some(direct) = &live.program.direct else { return };
        let (calls, finish) = direct.turn(results, number > 0);
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            runner.step(&live, |engine, moment| engine.turn(moment, Turn { attempt, number, calls, finish }));
        });
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
        }
        let (message, source_line) = load_failure(reason, &live.program.lines);
        self.step(live, |engine, moment| engine.sandbox_lost(moment, attempt, message, source_line));
    }

    fn drop_sandbox(live: &Live, attempt: u32) {
        let machine = live.sandbox.borrow_mut().take_if(|machine| machine.attempt() == attempt);
        if let Some(machine) = machine {
            machine.end();
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
        match parse_turn(text, &live.program.lines) {
            Ok((calls, finish)) => {
                self.step(live, |engine, moment| engine.turn(moment, Turn { attempt, number, calls, finish }));
            }
            Err(reason) => {
                Self::drop_sandbox(live, attempt);
                self.sandbox_lost(live, attempt, &reason);
            }
        }
    }

    fn spawn_resolve(self: &Rc<Self>, live: &Rc<Live>, seq: u32) {
        let call = match live.engine.borrow().call(seq) {
            Some(call) => CallToResolve {
                execution: live.id.clone(),
                seq,
                address: call.address.clone(),
                arguments: Rc::clone(&call.arguments),
            },
            None => return,
        };
        let (runner, live) = (Rc::clone(self), Rc::clone(live));
        spawn_local(async move {
            let (resolution, prepared) = resolve(&runner.env, &live.caller, &call).await;
            if let Some(prepared) = prepared {
                live.prepared.borrow_mut().insert(seq, prepared);
            }
            runner.step(&live, |engine, moment| engine.resolved(moment, seq, resolution));
        });
    }

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
            let result = invoke(&runner.env, &runner.settings, &live.caller, &prepared).await;
            log_call(Some(&live.id), &address, &result, started);
            runner.step(&live, |engine, moment| engine.settled(moment, seq, result));
        });
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
            execution: live.values().filter_map(|live| live.engine.borrow().next_alarm(now)).min(),
            waiting: status(ExecutionStatus::Waiting),
            running: status(ExecutionStatus::Running),
            retention: [
                self.store.oldest_end()?.map(|at| at.saturating_add(self.retention_ms())),
                self.store.oldest_stream_end()?.map(|at| at.saturating_add(self.settings.stream_retention_ms)),
            ]
            .into_iter()
            .flatten()
            .min(),
        })
    }

    /// Sets the alarm if it has to ring earlier than it is set to. The only caller of `setAlarm`.
    pub(crate) fn rearm(&self) {
        let now = now();
        let wanted = match self.alarm_state(now) {
            Ok(state) => next_alarm(&state, self.settings.alarm, now),
            // Without a readable state, look again soon.
            Err(_) => Some(now.saturating_add(self.settings.limits.recovery_ms)),
        };
        let Some(at) = wanted else {
            return;
        };
        if self.armed.get().is_some_and(|armed| armed <= at) {
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
        self.armed.set(Some(at));
        set_alarm(&self.state.storage(), at);
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

/// Part of the same transaction as the rows written before it; a failure to store it resets the object.
pub(crate) fn set_alarm(storage: &worker::Storage, at: u64) {
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
}
