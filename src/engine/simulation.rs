//! Crash simulation: random programs, random people, random tools, and a crash at every effect.
//!
//! The world below is everything that the shell is in production: storage, sandbox, tools, clock,
//! people. It is adversarial where the real one may be: events come in any order and twice, a
//! request that was on its way when the object died may or may not have arrived, tools change
//! while a call waits, sandboxes get lost, programs run out of time. The five invariants of `engine.md` are checked after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::execution::{Execution, Moment};
use super::interface::{
    Boot, Decider, DecisionItem, Delivery, Edited, Effect, Finish, Granted, IssuedCall, PauseTarget, Resolution, Turn,
    Write,
};
use super::report::{Report, report_of_pause};
use super::row::{CallRow, CallStatus, ExecutionRow, ExecutionStatus, LogLine, Output, PauseRow};
use super::{CallError, Limits, ok_result};
use crate::approval::{Approvers, Route, ShownCall, Standing, Verdict, call_digest};

/// Small deterministic generator (xorshift64*): a failure is reproduced by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound.max(1)
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

// ---- programs -----------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum Step {
    /// Call a tool and await the result.
    Call(Tool),
    /// Start a task without waiting for it.
    Spawn(usize),
    /// Wait until a task has ended.
    Join(usize),
    /// Sleep and wait for it.
    Sleep(u64),
    /// Start a timer without waiting for it.
    Arm(u64),
    /// Clear the timer that the task started last, if it has not been heard of.
    Disarm,
    /// Skip the next step if the last awaited result was an error.
    SkipIfFailed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tool {
    Read,
    Write,
    Gated,
    GatedIdempotent,
    Blocked,
    Unknown,
}

impl Tool {
    const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Gated, Self::GatedIdempotent, Self::Blocked, Self::Unknown];

    fn address(self) -> String {
        format!("sim.{self:?}")
    }
    fn parse(address: &str) -> Self {
        Self::ALL.into_iter().find(|tool| tool.address() == address).unwrap()
    }
    fn idempotent(self) -> bool {
        matches!(self, Self::Read | Self::GatedIdempotent)
    }
    fn gated(self) -> bool {
        matches!(self, Self::Gated | Self::GatedIdempotent)
    }
}

#[derive(Debug, Clone)]
struct Program {
    tasks: Vec<Vec<Step>>,
    throws: bool,
}

impl Program {
    fn random(random: &mut Random) -> Self {
        let count = 1 + random.below(4);
        let tasks = (0..count)
            .map(|task| {
                let mut steps: Vec<Step> = (0..random.below(4) + usize::from(task == 0))
                    .map(|_| {
                        if random.below(8) == 0 {
                            return Step::SkipIfFailed;
                        }
                        if random.chance(25) {
                            return match random.below(4) {
                                0 => Step::Disarm,
                                1 => Step::Arm(random.next() % 300),
                                _ => Step::Sleep([0, 5, 40, 250, 9_000][random.below(5)]),
                            };
                        }
                        let known = if random.chance(85) { 4 } else { 6 };
                        Step::Call(Tool::ALL[random.below(known)])
                    })
                    .collect();
                // Tasks start later ones only, so every program ends.
                for other in task + 1..count {
                    if random.chance(70) {
                        let at = random.below(steps.len() + 1);
                        steps.insert(at, Step::Spawn(other));
                        if random.chance(60) {
                            let at = at + 1 + random.below(steps.len() - at);
                            steps.insert(at, Step::Join(other));
                        }
                    }
                }
                steps
            })
            .collect();
        Self { tasks, throws: random.chance(10) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    NotStarted,
    Ready,
    OnCall(u32),
    OnTask(usize),
    Ended,
}

/// The sandbox: runs a program exactly as promises would.
#[derive(Debug)]
struct SimulatedSandbox {
    attempt: u32,
    program: Program,
    position: Vec<usize>,
    state: Vec<TaskState>,
    failed: Vec<bool>,
    turns: u32,
    issued: u32,
    batch: Vec<IssuedCall>,
    armed: Vec<Option<u32>>,
    /// Timers that were cleared: what is heard of them later is ignored.
    gone: BTreeSet<u32>,
    cleared: Vec<u32>,
    said: usize,
    seen: Vec<(u32, Rc<str>)>,
}

impl SimulatedSandbox {
    fn start(program: &Program, boot: &Boot) -> Self {
        let count = program.tasks.len();
        let mut sandbox = Self {
            attempt: boot.attempt,
            program: program.clone(),
            position: vec![0; count],
            state: vec![TaskState::NotStarted; count],
            failed: vec![false; count],
            turns: 0,
            issued: 0,
            batch: Vec::new(),
            armed: vec![None; count],
            gone: BTreeSet::new(),
            cleared: Vec::new(),
            said: 0,
            seen: Vec::new(),
        };
        sandbox.state[0] = TaskState::Ready;
        sandbox.run();
        sandbox.deliver(&boot.settled);
        sandbox
    }

    fn deliver(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            if delivery.seq >= self.issued {
                break; // as the prelude does: the host notices that calls are missing
            }
            if self.gone.contains(&delivery.seq) {
                continue;
            }
            for armed in &mut self.armed {
                armed.take_if(|seq| *seq == delivery.seq);
            }
            self.seen.push((delivery.seq, Rc::clone(&delivery.result)));
            for task in 0..self.state.len() {
                if self.state[task] == TaskState::OnCall(delivery.seq) {
                    self.failed[task] = delivery.result.contains("\"ok\":false");
                    self.state[task] = TaskState::Ready;
                }
            }
            self.run();
        }
    }

    fn run(&mut self) {
        loop {
            for task in 0..self.state.len() {
                if let TaskState::OnTask(other) = self.state[task]
                    && self.state[other] == TaskState::Ended
                {
                    self.state[task] = TaskState::Ready;
                }
            }
            let Some(task) = self.state.iter().position(|state| *state == TaskState::Ready) else {
                return;
            };
            let Some(step) = self.program.tasks[task].get(self.position[task]).cloned() else {
                self.state[task] = TaskState::Ended;
                if task == 0 {
                    // Nobody waits for them any more.
                    for task in 0..self.armed.len() {
                        self.disarm(task);
                    }
                }
                continue;
            };
            self.position[task] += 1;
            match step {
                Step::Call(tool) => {
                    let arguments = format!("{{\"task\":{task},\"step\":{}}}", self.position[task]);
                    let seq = self.issue(tool.address(), arguments, None);
                    self.state[task] = TaskState::OnCall(seq);
                }
                Step::Sleep(length) => {
                    let seq = self.issue("sleep".to_owned(), length.to_string(), Some(length));
                    self.state[task] = TaskState::OnCall(seq);
                }
                Step::Arm(length) => {
                    if self.state[0] != TaskState::Ended {
                        self.armed[task] = Some(self.issue("sleep".to_owned(), length.to_string(), Some(length)));
                    }
                }
                Step::Disarm => self.disarm(task),
                Step::Spawn(other) => {
                    if self.state[other] == TaskState::NotStarted {
                        self.state[other] = TaskState::Ready;
                    }
                }
                Step::Join(other) => {
                    if self.state[other] != TaskState::NotStarted {
                        self.state[task] = TaskState::OnTask(other);
                    }
                }
                Step::SkipIfFailed => {
                    if self.failed[task] {
                        self.position[task] += 1;
                    }
                }
            }
        }
    }

    fn issue(&mut self, address: String, arguments: String, timer: Option<u64>) -> u32 {
        let seq = self.issued;
        self.issued += 1;
        self.batch.push(IssuedCall { seq, address, arguments: Ok(arguments.into()), line: Some(seq + 1), timer });
        seq
    }

    fn disarm(&mut self, task: usize) {
        if let Some(seq) = self.armed[task].take() {
            self.gone.insert(seq);
            self.cleared.push(seq);
        }
    }

    fn turn(&mut self) -> Turn {
        let finish = (self.state[0] == TaskState::Ended).then(|| Finish {
            result: if self.program.throws {
                Err(super::ProgramError { code: "exception".to_owned(), message: "thrown".to_owned(), line: Some(1) })
            } else {
                let seen: Vec<String> = self.seen.iter().map(|(seq, result)| format!("{seq}={result}")).collect();
                Ok(Some(serde_json::to_string(&seen).unwrap()))
            },
            warnings: Vec::new(),
        });
        let number = self.turns;
        self.turns += 1;
        let output = Output { logs: log_lines(&self.seen[self.said..]), ..Output::default() };
        self.said = self.seen.len();
        Turn {
            attempt: self.attempt,
            number,
            calls: std::mem::take(&mut self.batch),
            cleared: std::mem::take(&mut self.cleared),
            output,
            output_is_whole: false,
            finish,
        }
    }
}

/// A program logs everything that it sees.
fn log_lines(seen: &[(u32, Rc<str>)]) -> Vec<LogLine> {
    seen.iter().map(|(seq, result)| LogLine { level: "log".to_owned(), text: format!("{seq} {result}") }).collect()
}

// ---- the world ----------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum Event {
    Turn(Turn),
    Resolved(u32, Resolution),
    /// A request on its way: the tool acts when the event is taken.
    Arrives(u32),
    Settled(u32, Rc<str>),
    /// The tool asks a person; when it has its answer it gives this result.
    Asks(u32, Rc<str>),
    /// The tool does not wait for the answer any more.
    GivesUp(u32),
    /// The sandbox of that number ends by itself.
    Lost(u32),
    Wake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashAt {
    Before(usize),
    After(usize),
}

/// What the simulation found; printed with the seed.
#[derive(Debug)]
struct Violation(String);

struct World {
    random: Random,
    now: u64,
    nonce: u64,
    program: Program,
    limits: Limits,
    // storage
    stored_row: Option<ExecutionRow>,
    stored_calls: BTreeMap<u32, CallRow>,
    stored_pauses: BTreeMap<u32, PauseRow>,
    stored_output: Output,
    // memory of the object
    execution: Option<Execution>,
    sandbox: Option<SimulatedSandbox>,
    events: Vec<Event>,
    /// Tools that wait for a person's answer, with the result that they give then.
    asking: BTreeMap<u32, Rc<str>>,
    // outside
    arrived: BTreeMap<u32, u32>,
    accepted: BTreeSet<(u32, String)>,
    /// The arguments that each accepted digest is of.
    accepted_arguments: BTreeMap<(u32, String), Rc<str>>,
    binding_version: BTreeMap<u32, u32>,
    /// Who may decide on each call, by the rule of the moment.
    approvers: BTreeMap<u32, Approvers>,
    // records for the invariants
    transcript: Vec<(u32, Rc<str>)>,
    reports: BTreeMap<String, Report>,
    effects_done: usize,
    crash_at: Vec<CrashAt>,
    crashes: usize,
    double: bool,
    /// Sandboxes that may still be lost.
    losses: usize,
    short_of_time: bool,
    settled_after_end: bool,
    answered: usize,
    /// Calls as they were when they were last sent.
    sent: BTreeMap<u32, CallRow>,
    /// Reads that left before they were written.
    unwritten: usize,
}

impl World {
    fn new(seed: u64, crash_at: Vec<CrashAt>, double: bool) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let program = Program::random(&mut random);
        let short_of_time = random.chance(12);
        let limits = Limits {
            approval_window_ms: 10_000,
            execution_timeout_ms: if short_of_time { 60 } else { 1_000_000_000 },
            question_ms: 2_000,
            suspend_after_ms: 100,
            recovery_ms: 50,
            in_flight: 1 + random.below(3),
            attempts_without_progress: 1_000,
            ..Limits::default()
        };
        Self {
            random,
            now: 1_000,
            nonce: 0,
            program,
            limits,
            stored_row: None,
            stored_calls: BTreeMap::new(),
            stored_pauses: BTreeMap::new(),
            stored_output: Output::default(),
            execution: None,
            sandbox: None,
            events: Vec::new(),
            asking: BTreeMap::new(),
            arrived: BTreeMap::new(),
            accepted: BTreeSet::new(),
            accepted_arguments: BTreeMap::new(),
            binding_version: BTreeMap::new(),
            approvers: BTreeMap::new(),
            transcript: Vec::new(),
            reports: BTreeMap::new(),
            effects_done: 0,
            crash_at,
            crashes: 0,
            double,
            losses: 4,
            short_of_time,
            settled_after_end: false,
            answered: 0,
            sent: BTreeMap::new(),
            unwritten: 0,
        }
    }

    fn moment(&mut self) -> Moment {
        self.nonce += 1;
        Moment { now: self.now, nonce: format!("pause-{}", self.nonce) }
    }

    fn run(&mut self) -> Result<(), Violation> {
        let moment = self.moment();
        let (execution, effects) = Execution::start(&moment, "e".to_owned(), "00".to_owned(), 1, self.limits);
        self.execution = Some(execution);
        self.perform(effects)?;
        if self.stored_row.is_none() {
            // Died before the first commit: the client got an error and nothing was promised.
            return Ok(());
        }
        for _ in 0..20_000 {
            self.check()?;
            let Some(execution) = &self.execution else {
                self.load()?;
                continue;
            };
            let over = execution.row().status.is_over() && !execution.row().settling;
            if over && self.events.is_empty() {
                return self.check_end();
            }
            if self.random.chance(4) {
                let moment = self.moment();
                let effects = self.execution.as_mut().map(|execution| execution.report_sleep(&moment));
                self.perform(effects.unwrap_or_default())?;
                continue;
            }
            if self.random.chance(2)
                && self.losses > 0
                && let Some(sandbox) = &self.sandbox
            {
                self.losses -= 1;
                self.events.push(Event::Lost(sandbox.attempt));
            }
            if self.random.chance(5) {
                self.events.push(Event::Wake);
            }
            if self.random.chance(12) {
                self.somebody_decides()?;
                continue;
            }
            if self.random.below(500) == 0 {
                let moment = self.moment();
                let decider = Decider { account: "p".to_owned(), route: Route::Page, standing: Standing::default() };
                let stopped = self.execution.as_mut().map(|execution| execution.stop(&moment, None, &decider));
                self.perform(stopped.and_then(Result::ok).unwrap_or_default())?;
                continue;
            }
            if self.random.chance(2)
                && let Some(seq) = self.asking.keys().next().copied()
            {
                self.events.push(Event::GivesUp(seq));
            }
            if self.random.chance(3) {
                let seq = u32::try_from(self.random.below(6)).unwrap();
                *self.binding_version.entry(seq).or_default() += 1;
            }
            if self.random.chance(6) {
                let seq = u32::try_from(self.random.below(6)).unwrap();
                let rule = [Approvers::Owner, Approvers::Admin, Approvers::Other, Approvers::OtherAdmin];
                self.approvers.insert(seq, rule[self.random.below(4)]);
            }
            if self.events.is_empty() {
                let alarm = self.execution.as_ref().and_then(|e| e.next_alarm(self.now, false));
                match alarm {
                    _ if over => return self.check_end(),
                    None => return Err(Violation("stuck: no event and no alarm".to_owned())),
                    Some(at) => {
                        self.now = self.now.max(at);
                        self.events.push(Event::Wake);
                    }
                }
                continue;
            }
            self.now += self.random.next() % 7;
            let index = self.random.below(self.events.len());
            let event = self.events.swap_remove(index);
            if self.double && self.random.chance(30) && !matches!(event, Event::Arrives(_)) {
                self.take(event.clone())?;
            }
            self.take(event)?;
        }
        Err(Violation("does not end".to_owned()))
    }

    fn take(&mut self, event: Event) -> Result<(), Violation> {
        let moment = self.moment();
        let Some(execution) = &mut self.execution else {
            return Ok(());
        };
        let effects = match event {
            Event::Turn(turn) => execution.turn(&moment, turn),
            Event::Resolved(seq, resolution) => execution.resolved(&moment, seq, resolution),
            Event::Settled(seq, result) => execution.settled(&moment, seq, result),
            Event::Wake => execution.wake(&moment),
            Event::Lost(attempt) => {
                if self.sandbox.as_ref().is_some_and(|sandbox| sandbox.attempt == attempt) {
                    self.sandbox = None;
                    self.events.retain(|event| !matches!(event, Event::Turn(turn) if turn.attempt == attempt));
                }
                execution.sandbox_lost(&moment, attempt, "it ended", None)
            }
            Event::Arrives(seq) => {
                let result = self.tool_acts(seq)?;
                self.answers_or_asks(seq, result);
                return Ok(());
            }
            Event::Asks(seq, result) => {
                let form = self.random.chance(50);
                let effects = execution.ask_person(&moment, seq, "{\"message\":\"?\"}".into(), form);
                if execution.call(seq).is_some_and(|call| execution.asks(call)) {
                    self.asking.insert(seq, result);
                } else {
                    // It is told that nobody can be asked, and goes on.
                    self.events.push(Event::Settled(seq, result));
                }
                effects
            }
            Event::GivesUp(seq) => {
                let Some(result) = self.asking.remove(&seq) else { return Ok(()) };
                self.events.push(Event::Settled(seq, result));
                execution.question_withdrawn(&moment, seq)
            }
        };
        self.perform(effects)
    }

    fn answers_or_asks(&mut self, seq: u32, result: Rc<str>) {
        let asks = self.random.chance(15);
        self.events.push(if asks { Event::Asks(seq, result) } else { Event::Settled(seq, result) });
    }

    /// The request reaches the tool: invariants 1 and 2.
    fn tool_acts(&mut self, seq: u32) -> Result<Rc<str>, Violation> {
        let call = self.sent.get(&seq).cloned().unwrap();
        let tool = Tool::parse(&call.address);
        let count = self.arrived.entry(seq).or_default();
        *count += 1;
        if *count > 1 && !tool.idempotent() {
            return Err(Violation(format!("call {seq} ({tool:?}) reached the tool {count} times")));
        }
        if tool.gated() {
            let (Some(shown), Some(decision)) = (&call.shown, &call.decision) else {
                return Err(Violation(format!("call {seq} was sent without a decision")));
            };
            let key = (seq, shown.digest.clone());
            if !self.accepted.contains(&key) || decision.digest != shown.digest {
                return Err(Violation(format!("call {seq} was sent without an accepting decision")));
            }
            if self.accepted_arguments.get(&key).is_some_and(|accepted| **accepted != *shown.arguments) {
                return Err(Violation(format!("call {seq} was sent with other arguments than were accepted")));
            }
            if shown.arguments != **call.effective_arguments() {
                return Err(Violation(format!("what is shown of call {seq} is not what is sent")));
            }
            // Whoever decided satisfied some rule at least; the strictest one admits the fewest.
            if decision.route == Route::Grant && !shown.approvers.admit(decision.standing) {
                return Err(Violation(format!("call {seq} was let through by a grant of somebody who may not")));
            }
        }
        if matches!(tool, Tool::Blocked | Tool::Unknown) {
            return Err(Violation(format!("a refused call {seq} was sent")));
        }
        let n = self.random.below(1_000);
        Ok(if self.random.chance(15) {
            super::error_result(&CallError::new("upstream", format!("failed {n}")))
        } else {
            ok_result(&n.to_string())
        })
    }

    fn resolution(&mut self, seq: u32) -> Resolution {
        let call = self.execution.as_ref().unwrap().call(seq).unwrap().clone();
        let tool = Tool::parse(&call.address);
        match tool {
            Tool::Blocked => Resolution::Refused(CallError::new("tool_blocked", "blocked")),
            Tool::Unknown => Resolution::Refused(CallError::new("tool_not_found", "unknown")),
            Tool::Read | Tool::Write | Tool::Gated | Tool::GatedIdempotent => {
                let version = self.binding_version.get(&seq).copied().unwrap_or_default();
                let binding = format!("{{\"v\":{version}}}");
                let digest = call_digest("e", seq, &call.address, call.effective_arguments(), &binding);
                let approvers = self.approvers.get(&seq).copied().unwrap_or_default();
                let granted = self.random.chance(12).then(|| Granted {
                    id: "g".to_owned(),
                    by: "p".to_owned(),
                    standing: Standing { admin: self.random.chance(30), other: self.random.chance(30) },
                });
                if granted.as_ref().is_some_and(|granted| approvers.admit(granted.standing)) {
                    self.accepted.insert((seq, digest.clone()));
                }
                Resolution::Ready {
                    ask: tool.gated(),
                    idempotent: tool.idempotent(),
                    shown: ShownCall {
                        digest,
                        arguments: call.effective_arguments().to_string(),
                        title: String::new(),
                        description: String::new(),
                        method: "POST".to_owned(),
                        url: String::new(),
                        credential: None,
                        reason: String::new(),
                        binding,
                        approvers,
                        changes: tool != Tool::Read,
                        held: false,
                    },
                    granted,
                }
            }
        }
    }

    fn somebody_decides(&mut self) -> Result<(), Violation> {
        let moment = self.moment();
        let Some(execution) = &self.execution else { return Ok(()) };
        let Some(pause) = execution.pauses().last().cloned() else { return Ok(()) };
        let calls: Vec<(u32, String)> = execution
            .undecided(&pause, self.now)
            .map(|call| (call.seq, execution.digest_asked(call).unwrap().to_owned()))
            .collect();
        let contents: BTreeMap<u32, Rc<str>> = calls.iter().map(|(seq, _)| (*seq, "{}".into())).collect();
        let whole = execution.digest_of_pause(&pause, self.now);
        let verdict = match self.random.below(20) {
            0..=13 => Verdict::Accept,
            14..=18 => Verdict::Decline,
            _ => Verdict::Cancel,
        };
        let reason = (verdict == Verdict::Decline).then(|| "no".to_owned());
        let stale = self.random.chance(10);
        let mut edits = BTreeMap::new();
        let mut calls = calls;
        let shown = calls.clone();
        for (seq, digest) in &mut calls {
            let call = execution.call(*seq).unwrap();
            let (Some(shown), CallStatus::Waiting, Verdict::Accept) = (&call.shown, call.status, verdict) else {
                continue;
            };
            if !self.random.chance(30) {
                self.accepted_arguments.insert((*seq, digest.clone()), shown.arguments.as_str().into());
                continue;
            }
            let arguments: Rc<str> = match self.random.below(4) {
                0 => Rc::clone(&call.arguments),
                n => format!("{{\"edited\":{n}}}").into(),
            };
            *digest = call_digest("e", *seq, &call.address, &arguments, &shown.binding);
            self.accepted_arguments.insert((*seq, digest.clone()), Rc::clone(&arguments));
            edits.insert(*seq, Edited { arguments, method: "POST".to_owned(), url: String::new() });
        }
        let (target, chosen) = if self.random.chance(50) {
            let digest = if stale { "stale".to_owned() } else { whole };
            (
                PauseTarget::All { digest, verdict, reason, contents, edits: edits.clone(), gives: BTreeMap::new() },
                calls,
            )
        } else {
            let place = self.random.below(calls.len());
            let Some(((_, digest), (seq, accepted))) = shown.get(place).cloned().zip(calls.get(place).cloned()) else {
                return Ok(());
            };
            let digest = if stale { "stale".to_owned() } else { digest };
            let (content, edited) = (contents.get(&seq).cloned(), edits.get(&seq).cloned());
            let item = DecisionItem { seq, digest, verdict, reason, content, edited, gives: None };
            (PauseTarget::Items(vec![item]), vec![(seq, accepted)])
        };
        let rule = |seq: u32| execution.approvers_of(execution.call(seq).unwrap());
        let likely = |wanted: bool| if wanted { 80 } else { 15 };
        let first = chosen.first().map(|(seq, _)| rule(*seq)).unwrap_or_default();
        let standing = Standing {
            admin: self.random.chance(likely(matches!(first, Approvers::Admin | Approvers::OtherAdmin))),
            other: self.random.chance(likely(matches!(first, Approvers::Other | Approvers::OtherAdmin))),
        };
        let allowed = chosen.iter().all(|(seq, _)| rule(*seq).admit(standing));
        let decider = Decider { account: "p".to_owned(), route: Route::Page, standing };
        let times = if self.double && self.random.chance(30) { 2 } else { 1 };
        for time in 0..times {
            let Some(execution) = &mut self.execution else { return Ok(()) };
            let before = (execution.calls().to_vec(), execution.row().clone());
            match execution.decide(&moment, &pause.id, target.clone(), &decider) {
                Ok(effects) => {
                    if stale || time > 0 {
                        return Err(Violation("a stale or second decision was taken".to_owned()));
                    }
                    if !allowed && (verdict != Verdict::Cancel || standing.other) {
                        return Err(Violation("somebody decided who may not".to_owned()));
                    }
                    if verdict == Verdict::Accept {
                        self.accepted.extend(chosen.clone());
                    }
                    self.perform(effects)?;
                    // The alarm is set to now with the decision.
                    self.events.push(Event::Wake);
                }
                Err(_) => {
                    if before != (execution.calls().to_vec(), execution.row().clone()) {
                        return Err(Violation("a refused decision changed something".to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<(), Violation> {
        for effect in effects {
            let index = self.effects_done;
            self.effects_done += 1;
            if self.crash_at.contains(&CrashAt::Before(index)) {
                self.crash()?;
                return Ok(());
            }
            match effect {
                Effect::Commit(writes) => {
                    for write in writes {
                        match write {
                            Write::Execution(row) => self.stored_row = Some(row),
                            Write::Output(row) => self.stored_output = row,
                            Write::Call(row) => {
                                self.stored_calls.insert(row.seq, row);
                            }
                            Write::Pause(row) => {
                                self.stored_pauses.insert(row.number, row);
                            }
                        }
                    }
                }
                Effect::StartSandbox(boot) => {
                    let mut sandbox = SimulatedSandbox::start(&self.program, &boot);
                    let turn = sandbox.turn();
                    self.remember(&sandbox)?;
                    self.sandbox = Some(sandbox);
                    self.events.push(Event::Turn(turn));
                }
                Effect::Answer(reply) => {
                    let Some(mut sandbox) = self.sandbox.take() else {
                        // It was lost, and the engine is about to hear of it.
                        continue;
                    };
                    sandbox.deliver(&reply.deliveries);
                    let turn = sandbox.turn();
                    self.remember(&sandbox)?;
                    self.sandbox = Some(sandbox);
                    self.events.push(Event::Turn(turn));
                }
                Effect::DropSandbox { attempt } => {
                    if self.sandbox.as_ref().is_some_and(|sandbox| sandbox.attempt == attempt) {
                        self.sandbox = None;
                    }
                }
                Effect::Resolve { seq } => {
                    let resolution = self.resolution(seq);
                    self.events.push(Event::Resolved(seq, resolution));
                }
                Effect::Invoke { seq } => {
                    let call = self.execution.as_ref().and_then(|execution| execution.call(seq)).cloned().unwrap();
                    let written = self.stored_calls.get(&seq).map(|call| call.status) == Some(CallStatus::Sent);
                    if !written && Tool::parse(&call.address) != Tool::Read {
                        return Err(Violation(format!("call {seq} left before it was written")));
                    }
                    self.unwritten += usize::from(!written);
                    self.sent.insert(seq, call);
                    self.events.push(Event::Arrives(seq));
                }
                Effect::Tell { seq, verdict, .. } => {
                    if let Some(result) = self.asking.remove(&seq) {
                        self.answered += usize::from(verdict == Verdict::Accept);
                        self.answers_or_asks(seq, result);
                    }
                }
                Effect::Report => {}
            }
            if self.crash_at.contains(&CrashAt::After(index)) {
                self.crash()?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// The object is lost. What was on its way may have arrived.
    fn crash(&mut self) -> Result<(), Violation> {
        self.crashes += 1;
        self.execution = None;
        self.sandbox = None;
        self.asking.clear();
        for event in std::mem::take(&mut self.events) {
            if let Event::Arrives(seq) = event
                && self.random.chance(50)
            {
                self.tool_acts(seq)?;
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), Violation> {
        let Some(row) = self.stored_row.clone() else {
            return Err(Violation("nothing stored".to_owned()));
        };
        let execution = Execution::restore(
            row,
            self.stored_calls.values().cloned().collect(),
            self.stored_pauses.values().cloned().collect(),
            self.stored_output.clone(),
            self.limits,
        );
        let alarm = execution.next_alarm(self.now, false);
        if let Some(at) = alarm {
            self.now = self.now.max(at);
            self.events.push(Event::Wake);
        } else if !execution.row().status.is_over() {
            return Err(Violation("an execution that is not over has no alarm".to_owned()));
        }
        self.execution = Some(execution);
        Ok(())
    }

    /// Invariant 3: what the program saw in one life is a prefix of what it saw in another.
    fn remember(&mut self, sandbox: &SimulatedSandbox) -> Result<(), Violation> {
        for (index, seen) in sandbox.seen.iter().enumerate() {
            match self.transcript.get(index) {
                Some(known) if known != seen => {
                    return Err(Violation(format!("replay saw {seen:?} where it had seen {known:?}")));
                }
                Some(_) => {}
                None => self.transcript.push(seen.clone()),
            }
        }
        Ok(())
    }

    /// Invariant 4: nothing is left open. And what the program said is there: all of it, or, where it did not come to an end
    /// of its own, the beginning.
    fn check_end(&self) -> Result<(), Violation> {
        if let Some(call) = self.stored_calls.values().find(|call| call.is_open()) {
            return Err(Violation(format!("call {} is still open after the end", call.seq)));
        }
        let says_so = |call: &CallRow| call.result.as_ref().is_some_and(|result| result.contains(r#","edited":{"#));
        if let Some(call) =
            self.stored_calls.values().find(|call| says_so(call) != (call.edited.is_some() && call.sends > 0))
        {
            return Err(Violation(format!("the result of call {} is wrong about its arguments", call.seq)));
        }
        let Some(outcome) = self.stored_row.as_ref().and_then(|row| row.outcome.clone()) else {
            return Err(Violation("an end without an outcome".to_owned()));
        };
        let all = log_lines(&self.transcript);
        let own_end = matches!(outcome.error.as_ref().map(|error| error.code.as_str()), None | Some("exception"));
        if !all.starts_with(&outcome.logs) || (own_end && all.len() != outcome.logs.len()) {
            return Err(Violation(format!("the program said {all:?}, kept is {:?}", outcome.logs)));
        }
        Ok(())
    }

    /// Invariant 5: what was reported once never changes.
    fn check(&mut self) -> Result<(), Violation> {
        let Some(execution) = &self.execution else { return Ok(()) };
        self.settled_after_end |= execution.row().settling;
        if let Some(outcome) = &execution.row().outcome {
            let code = outcome.error.as_ref().map(|error| error.code.as_str());
            let own_end = matches!(code, None | Some("exception"));
            if !own_end && code != Some("cancelled") && !(self.short_of_time && code == Some("timeout")) {
                return Err(Violation(format!("a sound program ended with {code:?}")));
            }
            let dropped = |call: &CallRow| call.result.as_ref().is_some_and(|result| result.contains("execution_over"));
            if own_end && execution.calls().iter().any(dropped) {
                return Err(Violation("complete, but a call was dropped".to_owned()));
            }
        }
        let mut reports: Vec<(String, Option<Report>)> = vec![("execute".to_owned(), execution.first_report())];
        for pause in execution.pauses() {
            reports.push((pause.id.clone(), report_of_pause(execution, pause)));
        }
        for (key, report) in reports {
            match (self.reports.get(&key), report) {
                (Some(known), Some(now)) if *known != now => {
                    return Err(Violation(format!("the report of {key} changed")));
                }
                (Some(_), None) => return Err(Violation(format!("the report of {key} vanished"))),
                (None, Some(now)) => {
                    self.reports.insert(key, now);
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        Ok(())
    }
}

fn run_world(seed: u64, crash_at: &[CrashAt], double: bool) -> World {
    let mut world = World::new(seed, crash_at.to_vec(), double);
    if let Err(Violation(what)) = world.run() {
        panic!(
            "seed {seed}, crash at {crash_at:?}, double delivery {double}: {what}\n{:#?}\n{:#?}",
            world.program, world.stored_calls
        );
    }
    world
}

fn crash_points() -> usize {
    std::env::var("SIMULATION_CRASH_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

fn first_seed() -> u64 {
    std::env::var("SIMULATION_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn crash_before_and_after_every_effect_keeps_the_invariants() {
    let wanted = crash_points();
    let (mut seed, mut points) = (first_seed(), 0);
    while points < wanted {
        let effects = run_world(seed, &[], false).effects_done;
        for index in 0..effects {
            for at in [CrashAt::Before(index), CrashAt::After(index)] {
                for double in [false, true] {
                    let world = run_world(seed, &[at], double);
                    points += world.crashes;
                }
            }
        }
        seed += 1;
    }
    println!("{points} crash points, seeds {}..{seed}", first_seed());
}

#[test]
fn crash_after_crash_keeps_the_invariants() {
    let mut points = 0;
    for seed in first_seed()..first_seed() + 400 {
        let every = 2 + usize::try_from(seed % 9).unwrap();
        let crash_at: Vec<CrashAt> = (0..40).map(|n| CrashAt::After(n * every)).collect();
        points += run_world(seed, &crash_at, true).crashes;
    }
    assert!(points > 1_000, "only {points} crash points");
}

#[test]
fn the_simulation_reaches_what_it_is_about() {
    let (mut gated, mut unknown, mut declined, mut completed, mut asked_again) = (0, 0, 0, 0, 0);
    let (mut slept, mut cleared, mut late, mut timed_out, mut settled_later) = (0, 0, 0, 0, 0);
    let (mut answered, mut unanswered) = (0, 0);
    let (mut edited, mut replayed, mut granted, mut by_others, mut unwritten) = (0, 0, 0, 0, 0);
    for seed in 1..600 {
        let world = run_world(seed, &[CrashAt::After(usize::try_from(seed % 20).unwrap())], true);
        let text = format!("{:?}", world.stored_calls);
        gated += usize::from(!world.accepted.is_empty());
        unknown += usize::from(text.contains("outcome_unknown"));
        declined += usize::from(text.contains("declined"));
        asked_again += usize::from(text.contains("shown_before: Some"));
        let timers = || world.stored_calls.values().filter(|call| call.due.is_some());
        slept += usize::from(timers().any(|call| call.order.is_some()));
        cleared += usize::from(timers().any(|call| call.order.is_none()));
        late += usize::from(world.stored_pauses.values().any(|pause| pause.reported.is_empty()));
        timed_out += usize::from(format!("{:?}", world.stored_row).contains("\"timeout\""));
        settled_later += usize::from(world.settled_after_end);
        answered += usize::from(world.answered > 0);
        unwritten += usize::from(world.unwritten > 0 && world.crashes > 0);
        let questions = || world.stored_calls.values().flat_map(|call| &call.questions);
        unanswered += usize::from(questions().any(|asked| asked.withdrawn || asked.decision.is_none()));
        let has = |wanted: fn(&CallRow) -> bool| usize::from(world.stored_calls.values().any(wanted));
        edited += has(|call| call.edited.is_some() && call.sends > 0);
        replayed += usize::from(
            world.stored_row.as_ref().is_some_and(|row| row.attempts > 1)
                && has(|call| call.edited.is_some() && call.sends > 0) > 0,
        );
        granted += has(|call| call.decision.as_ref().is_some_and(|one| one.grant.is_some()));
        by_others += has(|call| call.decision.as_ref().is_some_and(|one| one.standing.other && call.sends > 0));
        let status = world.stored_row.as_ref().map(|row| row.status);
        completed += usize::from(status == Some(ExecutionStatus::Completed));
    }
    for (what, count) in [
        ("accepted calls", gated),
        ("unknown outcomes", unknown),
        ("declined calls", declined),
        ("completed programs", completed),
        ("calls asked again", asked_again),
        ("timers that fired", slept),
        ("timers that were cleared", cleared),
        ("sleeps that were reported", late),
        ("programs out of time", timed_out),
        ("calls settled after the end", settled_later),
        ("questions of tools that were answered", answered),
        ("questions of tools that nobody answered", unanswered),
        ("calls with edited arguments", edited),
        ("programs with edited arguments that were replayed", replayed),
        ("calls that a grant let through", granted),
        ("calls that somebody else approved", by_others),
        ("programs that crashed and sent reads before they were written", unwritten),
    ] {
        assert!(count > 1, "{what}: {count}");
    }
}
