//! Tells the organization what waits for a person in this session, for the inbox, which programs came to a pause or ended, for the
//! history of all sessions, and what was decided and came of it, for the audit log and webhooks.
//!
//! The journal is the truth, and what the organization has of it is a copy that is replaced as a whole. The session notes what
//! was taken last, so a copy that was missed, or a crash between the journal and here, is made up for by the next step, by the
//! alarm, or by the next life of the object; and what expired counts for nothing there. Pauses and decisions cost a request each; what
//! nobody waits for (ends, outcomes) is told a second after the last of it, five after the first at most, all of it in one.
//!
//! Events are written with the rows that they are about and stay until the organization has taken them; it takes each once.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use wasm_bindgen_futures::spawn_local;

use super::clock::{now, sleep};
use super::organization;
use super::runner::{Live, Runner};
use super::store::{KindOfCalls, StoreError, told_until};
use super::telemetry::log;
use crate::engine::{CallRow, CallStatus, ExecutionStatus, QuestionRow, Write};
use crate::internal::{ProgramLine, VERSION, WaitingItem, WaitingOfSession, WaitingTool};
use crate::json::sha256_hex;
use crate::protocol::text::bounded;
use crate::session::SessionMeta;
use crate::session::events::{FINISHED, Journal, Place, SessionEvent};
use crate::session::id::ExecutionId;
use crate::session::tools::approval_url;

/// When the organization is told again after it could not be, in milliseconds.
const RETRY_MS: u64 = 30_000;
/// What is told soon is told when there was no more of it for this long, in milliseconds,
const SOON_MS: u64 = 1_000;
/// or since this long.
const SOON_MOST_MS: u64 = 5_000;
/// Tools that one item names.
const TOOLS: usize = 20;
/// Events that are told at a time.
const EVENTS: i64 = 20;
/// Characters of what a client calls itself.
const CLIENT_CHARS: usize = 200;
/// Bytes of a journal up to which its calls are read for the history.
const LISTED_BYTES: u64 = 1 << 20;

/// Where the telling stands.
#[derive(Default)]
pub(super) struct Inbox {
    telling: Cell<bool>,
    /// Something changed while it was told.
    again: Cell<bool>,
    retry_at: Cell<Option<u64>>,
    /// There is what the organization may not have; the alarm makes sure at this time.
    untold: Cell<Option<u64>>,
    /// It is told soon: since when, and the last time that there was more of it.
    soon: Cell<Option<(u64, u64)>>,
}

impl Inbox {
    /// When the alarm has to see to it.
    pub(super) fn retry_at(&self) -> Option<u64> {
        self.retry_at.get().or(self.untold.get())
    }

    /// Whether the organization may not have all that happened here, so that the object must not be wiped.
    pub(super) fn has_untold(&self) -> bool {
        self.untold.get().is_some()
    }
}

/// When the organization is to be told of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// What waits is other than before, or somebody decided.
    Now,
    /// The rest: it goes together with what else happens meanwhile.
    Soon,
}

/// When these writes, and the events that go with them, are to be told; `None` for not at all.
fn telling(writes: &[Write], events: &[SessionEvent]) -> Option<Telling> {
    let mut notices = events.iter().filter_map(|event| event.notice.as_ref());
    let decided = notices.any(|notice| notice.event != FINISHED);
    let waits = |write: &Write| match write {
        Write::Pause(pause) => pause.led_to.is_none(),
        Write::Call(call) => {
            // One that is asked again may wait for somebody else than before, or may not have waited any more.
            let asked_again = call.shown_before.is_some() || call.shown.as_ref().is_some_and(|shown| shown.held);
            let given_up = |question: &QuestionRow| question.withdrawn && question.decision.is_none();
            call.status == CallStatus::Waiting && asked_again || call.questions.last().is_some_and(given_up)
        }
        // One that was stopped may have waited.
        Write::Execution(row) => row.ended_at.is_some() && row.status != ExecutionStatus::Completed,
        Write::Output(_) => false,
    };
    if decided || writes.iter().any(waits) {
        return Some(Telling::Now);
    }
    (!events.is_empty() || has_ended(writes)).then_some(Telling::Soon)
}

fn has_ended(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write, Write::Execution(row) if row.ended_at.is_some()))
}

fn client_of(meta: &SessionMeta) -> String {
    bounded(&format!("{} {}", meta.client.name, meta.client.version), CLIENT_CHARS)
}

impl Runner {
    /// Tells the organization what waits, if that is other than what it was told; not at once, and never in the way of anything.
    pub(crate) fn tell_waiting_later(self: &Rc<Self>) {
        self.inbox.soon.set(None);
        // What is told now need not be told by the alarm, which must not ring for it at full speed.
        self.inbox.retry_at.set(None);
        if self.inbox.untold.get().is_some_and(|at| at <= now()) {
            self.inbox.untold.set(Some(now().saturating_add(RETRY_MS)));
        }
        if self.inbox.telling.replace(true) {
            self.inbox.again.set(true);
            return;
        }
        let runner = Rc::clone(self);
        spawn_local(async move {
            loop {
                runner.inbox.again.set(false);
                runner.tell_waiting().await;
                if !runner.inbox.again.get() {
                    break;
                }
            }
            runner.inbox.telling.set(false);
        });
    }

    /// The same for what nobody waits for: what happens until then is told with it, and the client's answer goes first.
    pub(crate) fn tell_waiting_soon(self: &Rc<Self>) {
        let since = self.inbox.soon.get().map(|(since, _)| since);
        self.inbox.soon.set(Some((since.unwrap_or_else(now), now())));
        if since.is_some() {
            return;
        }
        let runner = Rc::clone(self);
        spawn_local(async move {
            while let Some((since, last)) = runner.inbox.soon.get() {
                let at = last.saturating_add(SOON_MS).min(since.saturating_add(SOON_MOST_MS));
                let left = at.saturating_sub(now());
                if left == 0 {
                    runner.tell_waiting_later();
                    return;
                }
                sleep(Duration::from_millis(left)).await;
            }
        });
    }

    /// The same, done when this is. A failure is left to the alarm.
    pub(crate) async fn tell_waiting(self: &Rc<Self>) {
        match self.try_tell_waiting().await {
            Ok(()) => self.inbox.retry_at.set(None),
            Err(error) => {
                log("mcp_waiting_not_told", json!({ "sessionId": self.object_id(), "reason": error.to_string() }));
                self.inbox.retry_at.set(Some(now().saturating_add(RETRY_MS)));
                self.rearm();
            }
        }
    }

    async fn try_tell_waiting(self: &Rc<Self>) -> worker::Result<()> {
        // While the object is wiped nothing may look at its tables: they would be taken for there.
        if self.last_activity.get().is_none() {
            return Ok(());
        }
        let stored = |error: super::store::StoreError| worker::Error::RustError(error.to_string());
        let Some(meta) = self.store.session_meta().map_err(stored)? else { return Ok(()) };
        self.load_open(&super::session::caller_of(&meta)).map_err(stored)?;
        self.confirm_grants(&meta.organization).await?;
        let items = self.waiting_items(&meta);
        let mark = if items.is_empty() { String::new() } else { sha256_hex(serde_json::to_string(&items)?.as_bytes()) };
        let told = self.store.told_programs().map_err(stored)?;
        let (ended, told_then) = self.ended_since(&told).map_err(stored)?;
        let numbered = self.store.events_to_tell(EVENTS).map_err(stored)?;
        if numbered.is_empty() && ended.is_empty() && self.store.told_waiting().map_err(stored)? == mark {
            self.all_is_told();
            return Ok(());
        }
        let last = numbered.last().map(|(number, _)| *number);
        let events = numbered.into_iter().map(|(_, event)| event).collect();
        let paused = self.open().into_iter().filter(|live| {
            let engine = live.engine.borrow();
            engine.pauses().iter().any(|pause| pause.led_to.is_none())
        });
        let ids: Vec<String> = paused.map(|live| live.id.clone()).chain(ended).collect();
        let programs = ids.iter().filter_map(|id| self.program_line(&meta, id).transpose());
        let programs = programs.collect::<Result<Vec<_>, _>>().map_err(stored)?;
        let waiting = WaitingOfSession { version: VERSION, session: self.object_id(), items, events, programs };
        organization::put_waiting(self.env(), &meta.organization, &waiting).await?;
        // The object may have been wiped meanwhile, and nothing is written into what is empty.
        if self.last_activity.get().is_some() {
            self.store.put_told_waiting(&mark).map_err(stored)?;
            if told != told_then {
                self.store.put_told_programs(&told_then).map_err(stored)?;
            }
            if let Some(last) = last {
                self.store.forget_told_events(last).map_err(stored)?;
            }
            if self.terminated_at.get().is_some() {
                self.store.forget_unpaused().map_err(stored)?;
            }
            if last.is_some() {
                // There may be more.
                self.inbox.again.set(true);
            } else if !self.inbox.again.get() && self.inbox.soon.get().is_none() {
                // Nothing came up while the organization was told.
                self.all_is_told();
            }
        }
        Ok(())
    }

    /// Keeps what these writes tell, in their transaction; when it is to be told.
    pub(super) fn keep_events(&self, live: &Live, writes: &[Write]) -> Result<Option<Telling>, StoreError> {
        let session = self.object_id();
        let engine = live.engine.borrow();
        let journal = Journal { row: engine.row(), calls: engine.calls(), pauses: engine.pauses() };
        let place = Place { session: &session, account: &live.caller.account, origin: &live.caller.public_origin };
        let events = journal.news(writes, place, &mut live.told.borrow_mut());
        for event in &events {
            self.store.put_event_to_tell(event)?;
        }
        let telling = telling(writes, &events);
        if telling.is_some() && self.inbox.untold.get().is_none() {
            self.inbox.untold.set(Some(now().saturating_add(RETRY_MS)));
        }
        Ok(telling)
    }

    /// Finds out whether an earlier life of the object ended before it had told everything.
    pub(super) fn find_untold(&self) -> Result<(), StoreError> {
        if self.inbox.untold.get().is_none() && !self.store.events_to_tell(1)?.is_empty() {
            self.inbox.untold.set(Some(now().saturating_add(RETRY_MS)));
        }
        Ok(())
    }

    /// The organization has everything: the alarm need not ring for it.
    fn all_is_told(&self) {
        if let Some(at) = self.inbox.untold.take() {
            self.disarm(at);
        }
    }

    /// The programs that ended and were not told of, and the mark for when they were. Two may end in the same millisecond, one of
    /// them before and one after it was told, so the mark names those of the last.
    fn ended_since(&self, told: &str) -> Result<(Vec<String>, String), StoreError> {
        let known: Vec<&str> = told.split(' ').skip(1).collect();
        let ended = self.store.ended_since(told_until(told))?;
        let Some(last) = ended.last().map(|(at, _)| *at) else {
            return Ok((Vec::new(), told.to_owned()));
        };
        let mut mark = last.to_string();
        for (_, id) in ended.iter().filter(|(at, _)| *at == last) {
            mark.push(' ');
            mark.push_str(id);
        }
        let new = ended.into_iter().map(|(_, id)| id).filter(|id| !known.contains(&id.as_str()));
        Ok((new.collect(), mark))
    }

    fn program_line(&self, meta: &SessionMeta, id: &str) -> Result<Option<ProgramLine>, StoreError> {
        let Some(row) = self.store.execution_alone(id)? else {
            return Ok(None);
        };
        let kinds = if row.journal_bytes <= LISTED_BYTES { self.store.kinds_of_calls(id) } else { Ok(Vec::new()) };
        // A row may be too large for the database to read; the rest must be told all the same.
        let kinds = kinds.unwrap_or_else(|error| {
            log("mcp_calls_not_counted", json!({ "executionId": id, "reason": error.to_string() }));
            Vec::new()
        });
        let mut tools: Vec<String> = Vec::new();
        for kind in &kinds {
            if tools.len() < TOOLS && !tools.contains(&kind.address) {
                tools.push(kind.address.clone());
            }
        }
        let decided = |accepted: bool| {
            let of = |kind: &&KindOfCalls| kind.accepted == Some(accepted);
            u32::try_from(kinds.iter().filter(of).map(|kind| kind.count).sum::<u64>()).unwrap_or(u32::MAX)
        };
        Ok(Some(ProgramLine {
            execution: id.to_owned(),
            account: meta.account.clone(),
            client: client_of(meta),
            status: row.status.name().to_owned(),
            started_at: row.created_at,
            ended_at: row.ended_at,
            calls: self.store.count_calls(id)?,
            approved: decided(true),
            declined: decided(false),
            tools,
        }))
    }

    fn waiting_items(&self, meta: &SessionMeta) -> Vec<WaitingItem> {
        let (now, session) = (now(), self.object_id());
        let mut items = Vec::new();
        for live in self.open() {
            let engine = live.engine.borrow();
            for pause in engine.pauses().iter().filter(|pause| pause.led_to.is_none()) {
                let undecided: Vec<&CallRow> = engine.undecided(pause, now).collect();
                let Some(execution_id) = ExecutionId::encode(&session, &pause.id).filter(|_| !undecided.is_empty())
                else {
                    continue;
                };
                let tools = undecided.iter().take(TOOLS).map(|call| WaitingTool {
                    address: call.address.clone(),
                    title: call.shown.as_ref().map(|shown| shown.title.clone()).unwrap_or_default(),
                });
                let mut by = Vec::new();
                for approvers in undecided.iter().map(|call| engine.approvers_of(call)) {
                    if !by.contains(&approvers) {
                        by.push(approvers);
                    }
                }
                items.push(WaitingItem {
                    by,
                    approval_url: approval_url(&meta.public_origin, &execution_id, &session),
                    execution_id,
                    account: meta.account.clone(),
                    client: client_of(meta),
                    tools: tools.collect(),
                    calls: u32::try_from(undecided.len()).unwrap_or(u32::MAX),
                    since: pause.created_at,
                    // The first of them decides what the pause still is; the last, how long it is worth showing.
                    expires_at: undecided.iter().filter_map(|call| call.deadline).max().unwrap_or(pause.expires_at),
                });
            }
        }
        items.sort_by(|left, right| (left.since, &left.execution_id).cmp(&(right.since, &right.execution_id)));
        items
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::session::events::Notice;

    fn call(more: &Value) -> Write {
        let mut row =
            json!({ "seq": 0, "address": "demo.updateItem", "arguments": "{}", "status": "settled", "issuedAt": 1 });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Write::Call(crate::json::from_value(row).unwrap())
    }

    fn pause(led_to: &Value) -> Write {
        let row = json!({ "id": "p", "number": 0, "createdAt": 1, "expiresAt": 9, "reported": [], "ledTo": led_to });
        Write::Pause(crate::json::from_value(row).unwrap())
    }

    fn ended(status: &str) -> Write {
        let row = json!({ "id": "e", "status": status, "createdAt": 1, "endedAt": 2, "seed": "", "prelude": 2, "attempts": 1, "attemptsWithoutProgress": 0, "ranMs": 1, "nextOrder": 1, "journalBytes": 1 });
        Write::Execution(crate::json::from_value(row).unwrap())
    }

    fn event(notice: Option<&str>) -> SessionEvent {
        let notice = notice.map(|event| Notice { event: event.to_owned(), at: 1, data: Value::Null });
        SessionEvent { id: "e-0".to_owned(), entries: Vec::new(), notice }
    }

    #[test]
    fn what_somebody_waits_for_is_told_at_once_and_the_rest_soon() {
        use Telling::{Now, Soon};
        let settled = call(&json!({ "result": "{\"ok\":true}" }));
        let asked_again = json!({ "digest": "", "arguments": "", "title": "", "description": "", "method": "", "url": "", "reason": "", "binding": "" });
        let held = {
            let mut shown = asked_again.clone();
            shown.as_object_mut().unwrap().insert("held".to_owned(), true.into());
            call(&json!({ "status": "waiting", "shown": shown }))
        };
        let asked_again = call(&json!({ "status": "waiting", "shownBefore": asked_again }));
        let question =
            json!({ "asked": "{}", "form": false, "digest": "", "askedAt": 1, "deadline": 2, "withdrawn": true });
        let given_up = call(&json!({ "status": "sent", "questions": [question] }));
        for (what, writes, events, expected) in [
            ("nothing", vec![], vec![], None),
            ("a read was answered", vec![settled.clone()], vec![], None),
            ("an outcome", vec![settled.clone()], vec![event(None)], Some(Soon)),
            ("an end", vec![ended("completed")], vec![], Some(Soon)),
            ("an end after a pause", vec![ended("completed"), settled], vec![event(Some(FINISHED))], Some(Soon)),
            ("an end while something may wait", vec![ended("failed")], vec![], Some(Now)),
            ("a pause", vec![pause(&Value::Null)], vec![event(Some("waiting"))], Some(Now)),
            ("a pause that nobody was told of", vec![pause(&Value::Null)], vec![], Some(Now)),
            ("a pause that led on", vec![pause(&json!("outcome"))], vec![], None),
            ("a decision", vec![call(&json!({ "status": "approved" }))], vec![event(Some("decided"))], Some(Now)),
            ("an expiry", vec![call(&json!({}))], vec![event(None), event(Some("expired"))], Some(Now)),
            ("a tool that changed while it waited", vec![asked_again], vec![], Some(Now)),
            ("an approved call that a stop held", vec![held], vec![event(None)], Some(Now)),
            ("a question that its tool gave up", vec![given_up], vec![], Some(Now)),
        ] {
            assert!(telling(&writes, &events) == expected, "{what}");
        }
    }
}
