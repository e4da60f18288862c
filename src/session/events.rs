//! What a session's journal has to tell the organization: entries of the audit log, and what webhooks say.
//!
//! Each event has a name that no other event has (execution, number, kind), so that one which is told twice counts once. What a
//! journal has told already is seen in the journal itself: an event is written in the transaction that writes the rows which it
//! is about.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::id::ExecutionId;
use super::tools::approval_url;
use crate::approval::{Decision, Route, Verdict};
use crate::engine::{CallRow, CallStatus, ExecutionRow, ExecutionStatus, PauseRow, QuestionRow, Write};
use crate::protocol::time::iso_time;

/// The event of a program that ended.
pub const FINISHED: &str = "finished";
/// Entries of one event; more become another event.
const ENTRIES: usize = 100;
/// Calls that one notice names.
const NAMED: usize = 20;
/// Bytes of a call's arguments in a notice.
const ARGUMENTS: usize = 16 << 10;

/// One thing that happened. Stored by the session until the organization has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// Its name.
    pub id: String,
    /// Entries of the audit log: `{by, via, action, target, executionId, detail}`. At least one.
    pub entries: Vec<Value>,
    /// What webhooks are told; `None` where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

/// What webhooks are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// `waiting`, `decided`, `expired` or `finished`.
    pub event: String,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The message's data, with the arguments of its calls.
    pub data: Value,
}

/// Whose journal it is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// The session.
    pub session: &'p str,
    /// The session's account.
    pub account: &'p str,
    /// The gateway's own origin, for links.
    pub origin: &'p str,
}

/// An execution as far as it is stored, to look at.
#[derive(Debug, Clone, Copy)]
pub struct Journal<'j> {
    /// Its own row.
    pub row: &'j ExecutionRow,
    /// Its calls.
    pub calls: &'j [CallRow],
    /// Its pauses.
    pub pauses: &'j [PauseRow],
}

impl Journal<'_> {
    /// The names of everything that the journal tells.
    #[must_use]
    pub fn told(&self) -> BTreeSet<String> {
        let mut told = BTreeSet::new();
        for pause in self.pauses {
            told.extend(pause_name(pause));
        }
        for call in self.calls {
            told.extend(names_of_call(call).into_iter().map(|(name, _)| name));
        }
        told.extend(self.end_name());
        told
    }

    /// What these writes tell that was not told yet; `told` then has it. The journal is as it is after them.
    #[must_use]
    pub fn news(&self, writes: &[Write], place: Place<'_>, told: &mut BTreeSet<String>) -> Vec<SessionEvent> {
        let mut events = Vec::new();
        let mut single = Vec::new();
        let (mut decided, mut expired) = (Vec::new(), Vec::new());
        for write in writes {
            match write {
                Write::Call(call) => {
                    for (name, news) in names_of_call(call) {
                        if !told.insert(name.clone()) {
                            continue;
                        }
                        let entry = self.entry(call, &news, place);
                        match &news {
                            // Nobody decided now: webhooks are not told.
                            News::Decided(decision, _) if decision.route == Route::Grant => {
                                single.push((name, entry));
                            }
                            News::Decided(decision, _) if decision.by.is_some() => {
                                decided.push((name, entry, call, news));
                            }
                            News::Decided(..) => expired.push((name, entry, call, news)),
                            News::Allowed | News::Refused(_) | News::Held | News::Settled(_) => {
                                single.push((name, entry));
                            }
                        }
                    }
                }
                Write::Pause(pause) => {
                    if let Some(name) = pause_name(pause).filter(|name| told.insert(name.clone())) {
                        events.push(self.waiting(&name, pause, place));
                    }
                }
                Write::Execution(_) | Write::Output(_) => {}
            }
        }
        for (event, list) in [("decided", decided), ("expired", expired)] {
            for part in list.chunks(ENTRIES) {
                events.extend(self.decisions(event, part, place));
            }
        }
        for part in single.chunks(ENTRIES) {
            let Some((name, _)) = part.first() else { continue };
            let entries = part.iter().map(|(_, entry)| entry.clone()).collect();
            events.push(SessionEvent { id: self.id(name), entries, notice: None });
        }
        if let Some(name) = self.end_name().filter(|name| told.insert(name.clone())) {
            events.push(self.finished(&name, place));
        }
        events
    }

    fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.row.id)
    }

    /// The end is told of executions that a person was asked about, or that a person stopped.
    fn end_name(&self) -> Option<String> {
        let asked = self.pauses.iter().any(|pause| !pause.reported.is_empty());
        let over = self.row.status.is_over() && !self.row.settling;
        (over && (asked || self.row.stopped.is_some())).then(|| "end".to_owned())
    }

    #[inline(never)]
    fn entry(&self, call: &CallRow, news: &News<'_>, place: Place<'_>) -> Value {
        let mut detail = Map::new();
        let mut put = |name: &str, value: Value| detail.insert(name.to_owned(), value);
        put("session", place.session.into());
        put("account", place.account.into());
        put("call", call.seq.into());
        let shown = call.shown.as_ref();
        let digest = shown.map(|shown| shown.digest.as_str());
        let (by, via, action) = match news {
            News::Decided(decision, question) => {
                put("askedAt", iso_time(self.asked_at(call, *question, decision)).into());
                let (via, more) = parts_of(decision);
                more.into_iter().for_each(|(name, value)| {
                    put(&name, value);
                });
                let of = if question.is_some() { "question" } else { "call" };
                (decision.by.as_deref(), via, format!("{of}.{}", word(decision)))
            }
            News::Allowed => {
                put("digest", digest.into());
                put("reason", shown.map(|shown| shown.reason.as_str()).into());
                (None, "policy".to_owned(), "call.allowed".to_owned())
            }
            News::Refused(code) => {
                put("code", (*code).into());
                (None, "policy".to_owned(), "call.refused".to_owned())
            }
            News::Held => {
                put("digest", digest.into());
                put("reason", shown.map(|shown| shown.reason.as_str()).into());
                (None, "gateway".to_owned(), "call.held".to_owned())
            }
            News::Settled(outcome) => {
                put("digest", digest.into());
                put("outcome", (*outcome).into());
                put("sends", call.sends.into());
                put("settledAt", call.settled_at.map(iso_time).into());
                (None, "gateway".to_owned(), "call.outcome".to_owned())
            }
        };
        json!({
            "by": by,
            "via": via,
            "action": action,
            "target": call.address,
            "executionId": self.row.id,
            "detail": detail,
        })
    }

    /// When the person was asked what was decided.
    fn asked_at(&self, call: &CallRow, question: Option<&QuestionRow>, decision: &Decision) -> u64 {
        let reported = self.pauses.iter().find(|pause| pause.has_asked(call.seq, Some(&decision.digest)));
        question.map_or_else(|| reported.map_or(call.issued_at, |pause| pause.created_at), |question| question.asked_at)
    }

    #[inline(never)]
    fn waiting(&self, name: &str, pause: &PauseRow, place: Place<'_>) -> SessionEvent {
        let calls: Vec<&CallRow> = pause.items().filter_map(|seq| self.calls.get(seq as usize)).collect();
        let named = |call: &&CallRow| {
            let digest =
                pause.reported.iter().find(|reported| reported.call == call.seq).map(|reported| &reported.digest);
            json!({ "call": call.seq, "address": call.address, "digest": digest })
        };
        let mut data = data_of(Some(pause), &calls, place);
        data.insert("expiresAt".to_owned(), iso_time(pause.expires_at).into());
        let entry = json!({
            "by": null,
            "via": "gateway",
            "action": "approval.asked",
            "target": data.get("executionId"),
            "executionId": self.row.id,
            "detail": {
                "session": place.session,
                "account": place.account,
                "calls": calls.iter().take(NAMED).map(named).collect::<Vec<_>>(),
                "count": calls.len(),
                "askedAt": iso_time(pause.created_at),
                "expiresAt": iso_time(pause.expires_at),
            },
        });
        let notice = Notice { event: "waiting".to_owned(), at: pause.created_at, data: Value::Object(data) };
        SessionEvent { id: self.id(name), entries: vec![entry], notice: Some(notice) }
    }

    #[inline(never)]
    fn decisions(
        &self,
        event: &str,
        part: &[(String, Value, &CallRow, News<'_>)],
        place: Place<'_>,
    ) -> Option<SessionEvent> {
        let (name, _, first, News::Decided(decision, _)) = part.first()? else { return None };
        let pause = self.pauses.iter().rev().find(|pause| pause.has_asked(first.seq, Some(&decision.digest)));
        let calls: Vec<&CallRow> = part.iter().map(|(_, _, call, _)| *call).collect();
        let mut data = data_of(pause, &calls, place);
        data.insert("decision".to_owned(), word(decision).into());
        data.insert("by".to_owned(), decision.by.as_deref().into());
        data.insert("via".to_owned(), parts_of(decision).0.into());
        data.insert("decidedAt".to_owned(), iso_time(decision.at).into());
        if let Some(list) = data.get_mut("calls").and_then(Value::as_array_mut) {
            for (shown, (_, _, _, news)) in list.iter_mut().zip(part) {
                if let (Some(shown), News::Decided(decision, _)) = (shown.as_object_mut(), news) {
                    shown.insert("decision".to_owned(), word(decision).into());
                    shown.insert("digest".to_owned(), decision.digest.as_str().into());
                    shown.insert("reason".to_owned(), decision.reason.as_deref().into());
                }
            }
        }
        let notice = Notice { event: event.to_owned(), at: decision.at, data: Value::Object(data) };
        let entries = part.iter().map(|(_, entry, _, _)| entry.clone()).collect();
        Some(SessionEvent { id: self.id(name), entries, notice: Some(notice) })
    }

    #[inline(never)]
    fn finished(&self, name: &str, place: Place<'_>) -> SessionEvent {
        let row = self.row;
        let pause = self.pauses.iter().rev().find(|pause| !pause.reported.is_empty());
        let status = match row.status {
            ExecutionStatus::Completed => "completed",
            ExecutionStatus::Cancelled => "cancelled",
            ExecutionStatus::Expired => "expired",
            ExecutionStatus::Failed
            | ExecutionStatus::Running
            | ExecutionStatus::Waiting
            | ExecutionStatus::Sleeping => "failed",
        };
        let error = row.outcome.as_ref().and_then(|outcome| outcome.error.as_ref());
        let mut data = data_of(pause, &[], place);
        data.insert("outcome".to_owned(), status.into());
        data.insert("code".to_owned(), error.map(|error| error.code.as_str()).into());
        let mut detail = json!({
            "session": place.session,
            "account": place.account,
            "outcome": status,
            "code": error.map(|error| error.code.as_str()),
            "endedAt": row.ended_at.map(iso_time),
        });
        let mut via = "gateway".to_owned();
        if let (Some(stopped), Some(detail)) = (&row.stopped, detail.as_object_mut()) {
            let (route, more) = parts_of(stopped);
            via = route;
            detail.extend(more);
            detail.retain(|name, _| name != "digest");
        }
        let by = row.stopped.as_ref().and_then(|stopped| stopped.by.as_deref());
        let entry = json!({
            "by": by,
            "via": via,
            "action": if row.stopped.is_some() { "program.stopped" } else { "program.finished" },
            "target": data.get("executionId"),
            "executionId": row.id,
            "detail": detail,
        });
        let at = row.ended_at.unwrap_or(row.created_at);
        let notice = Notice { event: FINISHED.to_owned(), at, data: Value::Object(data) };
        SessionEvent { id: self.id(name), entries: vec![entry], notice: Some(notice) }
    }
}

/// What every notice says: where it is, and which calls.
fn data_of(pause: Option<&PauseRow>, calls: &[&CallRow], place: Place<'_>) -> Map<String, Value> {
    let id = pause.and_then(|pause| ExecutionId::encode(place.session, &pause.id));
    let mut data = Map::new();
    data.insert("executionId".to_owned(), id.as_deref().into());
    data.insert("mcpSessionId".to_owned(), place.session.into());
    data.insert("account".to_owned(), place.account.into());
    let url = id.map(|id| approval_url(place.origin, &id, place.session));
    data.insert("approvalUrl".to_owned(), url.into());
    if !calls.is_empty() {
        data.insert("count".to_owned(), calls.len().into());
        data.insert("calls".to_owned(), calls.iter().take(NAMED).map(|call| named(call)).collect());
    }
    data
}

/// What of a call the organization has to know.
enum News<'c> {
    /// Somebody decided, or nobody did in time; on what a tool asked, where there is one.
    Decided(&'c Decision, Option<&'c QuestionRow>),
    /// A rule let something that may change something pass, and it was sent.
    Allowed,
    /// It was not sent: the code says why.
    Refused(&'static str),
    /// It waits for a person, for the first time or again, because sending is stopped.
    Held,
    /// What became of a call that was decided on, or allowed.
    Settled(&'static str),
}

fn pause_name(pause: &PauseRow) -> Option<String> {
    (!pause.reported.is_empty()).then(|| format!("p{}", pause.number))
}

fn names_of_call(call: &CallRow) -> Vec<(String, News<'_>)> {
    let seq = call.seq;
    let mut names = Vec::new();
    if let Some(decision) = &call.decision {
        names.push((format!("d{seq}-{}", decision.at), News::Decided(decision, None)));
    }
    for (number, question) in (0..).zip(&call.questions) {
        if let Some(decision) = &question.decision {
            names.push((format!("q{seq}-{number}"), News::Decided(decision, Some(question))));
        }
    }
    let held = call.shown.as_ref().is_some_and(|shown| shown.held);
    if held && call.status == CallStatus::Waiting {
        names.push((format!("h{seq}-{}", call.deadline.unwrap_or(0)), News::Held));
    }
    let changes = call.shown.as_ref().is_some_and(|shown| shown.changes);
    let accepted = call.decision.as_ref().is_some_and(|decision| decision.verdict == Verdict::Accept);
    if call.sends > 0 && call.decision.is_none() && changes {
        names.push((format!("a{seq}"), News::Allowed));
    }
    if call.status == CallStatus::Settled {
        let outcome = call.result.as_deref().map_or("unknown", outcome_of);
        if call.sends > 0 && (accepted || changes) {
            names.push((format!("o{seq}"), News::Settled(outcome)));
        } else if let Some(code) = call.result.as_deref().filter(|_| call.sends == 0).and_then(refusal_of) {
            names.push((format!("r{seq}"), News::Refused(code)));
        }
    }
    names
}

fn outcome_of(result: &str) -> &'static str {
    if result.starts_with(r#"{"ok":true"#) {
        "ok"
    } else if result.starts_with(r#"{"ok":false,"error":{"code":"outcome_unknown""#) {
        "unknown"
    } else {
        "failed"
    }
}

fn refusal_of(result: &str) -> Option<&'static str> {
    let code = result.strip_prefix(r#"{"ok":false,"error":{"code":""#)?;
    ["tool_blocked", "stopped"].into_iter().find(|known| code.starts_with(&format!("{known}\"")))
}

fn word(decision: &Decision) -> &'static str {
    match decision.verdict {
        Verdict::Accept => "approved",
        Verdict::Decline if decision.by.is_none() => "expired",
        Verdict::Decline => "declined",
        Verdict::Cancel => "cancelled",
    }
}

/// The route, and whatever else a decision has, as it is stored.
fn parts_of(decision: &Decision) -> (String, Map<String, Value>) {
    let Ok(Value::Object(mut members)) = serde_json::to_value(decision) else {
        return (String::new(), Map::new());
    };
    let route = members.shift_remove("route").and_then(|route| route.as_str().map(ToOwned::to_owned));
    for name in ["by", "verdict", "at"] {
        members.shift_remove(name);
    }
    members.insert("decidedAt".to_owned(), iso_time(decision.at).into());
    (route.unwrap_or_default(), members)
}

fn named(call: &CallRow) -> Value {
    let shown = call.shown.as_ref();
    let arguments = shown.map_or(&*call.arguments, |shown| &shown.arguments);
    let mut named = json!({
        "call": call.seq,
        "address": call.address,
        "title": shown.map(|shown| shown.title.as_str()),
        "method": shown.map(|shown| shown.method.as_str()),
        "digest": shown.map(|shown| shown.digest.as_str()),
    });
    if let Some(named) = named.as_object_mut() {
        let whole = if arguments.len() <= ARGUMENTS { serde_json::from_str(arguments).ok() } else { None };
        named.insert("arguments".to_owned(), whole.unwrap_or_else(|| json!({ "omittedBytes": arguments.len() })));
    }
    named
}

#[cfg(test)]
mod tests;
