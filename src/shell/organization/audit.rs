//! The audit log: who changed or decided what, by which way, and when. Never a secret. Entries are added and, after their time,
//! forgotten from the oldest on; nothing else ever happens to them.
//!
//! An entry is one line of JSON without spaces, whose last member is the hash of the line before, `"prev"`. Its own hash is the
//! SHA-256 of exactly that line. What is exported is the line with its hash added as the last member:
//!
//! ```text
//! {"id":7,"at":"…","by":"ann","via":"page","action":"call.approved",…,"prev":"<hash of entry 6>","hash":"<hash of this entry>"}
//! ```
//!
//! Whoever takes `,"hash":"…"` off a line and hashes the rest gets the hash; `scripts/audit.mjs` does that. Numbers have no gaps.
//! The first entry follows 64 zeros, or the checkpoint: number and hash of the last entry that was forgotten.

use serde_json::{Map, Value, json};
use worker::SqlStorageValue;

use super::object::OrganizationDurableObject;
use super::rows::{Row, cast, integer, page_of, text};
use crate::internal::{AdminAnswer, AuditPart, Via};
use crate::json::sha256_hex;
use crate::organization::cursor::Page;
use crate::organization::fault::Fault;
use crate::protocol::time::iso_time;
use crate::shell::clock::now;
use crate::shell::http::load_settings;
use crate::shell::telemetry::log;

/// Bytes of an entry's detail.
const DETAIL_LIMIT: usize = 16 << 10;
/// Bytes of a part of an export.
const PART_BYTES: usize = 1 << 20;
/// Entries of a part of an export, and entries that are chained or forgotten at a time.
const AT_ONCE: u64 = 1_000;
/// The last entry: its number and hash.
const HEAD: &str = "audit-head";
/// The last entry that was forgotten.
const CHECKPOINT: &str = "audit-checkpoint";

/// Who makes a change, and how.
#[derive(Clone, Copy)]
pub(super) struct By<'b> {
    pub(super) account: &'b str,
    pub(super) via: &'b Via,
}

/// An entry's number and hash.
type Mark = (u64, String);

impl OrganizationDurableObject {
    /// Writes an entry about a change. Part of the transaction that makes the change.
    pub(super) fn note(&self, by: By<'_>, action: &str, target: Option<&str>, detail: Value) -> worker::Result<()> {
        let (via, execution) = by.via.parts();
        let mut entry = json!({ "by": by.account, "via": via, "action": action, "target": target });
        if let Some(members) = entry.as_object_mut() {
            members.insert("detail".to_owned(), detail);
            members.extend(execution.map(|execution| ("executionId".to_owned(), execution.into())));
        }
        self.append(entry, None)?;
        self.rearm()
    }

    /// Whether there is an entry of a session's event.
    pub(super) fn has_noted(&self, event: &str) -> worker::Result<bool> {
        Ok(!self.rows("SELECT 1 FROM audit WHERE event = ?", vec![event.into()])?.is_empty())
    }

    /// Writes an entry of what happened in a session. Whoever calls it sets the alarm.
    pub(super) fn append(&self, mut entry: Value, event: Option<&str>) -> worker::Result<()> {
        if let Some(detail) = entry.get_mut("detail").filter(|detail| detail.to_string().len() > DETAIL_LIMIT) {
            *detail = json!({ "omitted": true });
        }
        let (last, prev) = self.mark(HEAD)?;
        let (id, at) = (last + 1, now());
        let line = line_of(id, at, entry, &prev);
        let hash = sha256_hex(line.as_bytes());
        // Whoever keeps the logs elsewhere can tell whether the whole chain was written anew.
        log("audit", json!({ "id": id, "hash": hash }));
        let bindings: Vec<SqlStorageValue> =
            vec![cast(id), cast(at), line.into(), hash.as_str().into(), event.map(ToOwned::to_owned).into()];
        self.sql().exec("INSERT INTO audit (id, at, json, hash, event) VALUES (?, ?, ?, ?, ?)", bindings)?;
        self.put_mark(HEAD, &(id, hash))
    }

    pub(super) fn list_audit(&self, page: &Page) -> worker::Result<AdminAnswer> {
        let before = match page.after.as_deref().map(str::parse::<u64>) {
            None => u64::try_from(i64::MAX >> 12).unwrap_or(u64::MAX),
            Some(Ok(before)) => before,
            Some(Err(_)) => return Ok(AdminAnswer::fault(&Fault::field("cursor", "is broken"))),
        };
        let rows = self.rows(
            "SELECT id, json, hash FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
            vec![cast(before), cast(page.limit + 1)],
        )?;
        page_of(&rows, page, "audit", |row| {
            Ok((serde_json::from_str(&exported(row))?, integer(row, 0).unwrap_or(0).to_string()))
        })
    }

    /// The part after an entry; the first one begins with the checkpoint, the last one ends with the head.
    pub(super) fn export_audit(&self, after: Option<u64>) -> worker::Result<AuditPart> {
        let mut part = AuditPart { text: String::new(), after: None };
        if after.is_none() {
            part.text = mark_line("checkpoint", &self.mark(CHECKPOINT)?);
        }
        let rows = self.sql().exec(
            "SELECT id, json, hash FROM audit WHERE id > ? ORDER BY id LIMIT ?",
            vec![cast(after.unwrap_or(0)), cast(AT_ONCE)],
        )?;
        let mut count = 0;
        for row in rows.raw() {
            let row = row?;
            part.text.push_str(&exported(&row));
            part.text.push('\n');
            count += 1;
            if count == AT_ONCE || part.text.len() >= PART_BYTES {
                part.after = integer(&row, 0);
                return Ok(part);
            }
        }
        part.text.push_str(&mark_line("head", &self.mark(HEAD)?));
        Ok(part)
    }

    /// When the oldest entry may be forgotten.
    pub(super) fn next_sweep(&self) -> worker::Result<Option<u64>> {
        let Ok(settings) = load_settings(&self.env) else { return Ok(None) };
        let oldest = self.rows("SELECT at FROM audit ORDER BY id LIMIT 1", vec![])?;
        let at = oldest.first().and_then(|row| integer(row, 0));
        // Not one by one: a day's entries go together.
        Ok(at.map(|at| at.saturating_add(settings.audit_retention_ms).saturating_add(SWEEP_EVERY_MS)))
    }

    /// Forgets what is older than entries are kept, from the oldest on. What is left still begins where that ended.
    pub(super) fn sweep_audit(&self) -> worker::Result<()> {
        let Some(due) = self.next_sweep()?.filter(|due| *due <= now()) else { return Ok(()) };
        let settings = load_settings(&self.env).map_err(|error| worker::Error::RustError(error.to_string()))?;
        let until = now().saturating_sub(settings.audit_retention_ms);
        let rows = self.rows("SELECT id, at, hash FROM audit ORDER BY id LIMIT ?", vec![cast(AT_ONCE)])?;
        let old = rows.iter().take_while(|row| integer(row, 1).is_some_and(|at| at <= until));
        let Some(last) = old.last() else { return Ok(()) };
        let mark = (integer(last, 0).unwrap_or(0), text(last, 2).unwrap_or_default().to_owned());
        log("audit_swept", json!({ "until": mark.0, "due": due }));
        self.in_transaction(|| {
            self.sql().exec("DELETE FROM audit WHERE id <= ?", vec![cast(mark.0)])?;
            self.put_mark(CHECKPOINT, &mark)
        })
    }

    /// Layout 4 → 5: entries that were written without a chain get one, in their order.
    pub(super) fn chain_old_entries(&self) -> worker::Result<()> {
        let first = self.count("SELECT COALESCE(MIN(id), 1) FROM audit", vec![])?;
        let mut last: Mark = (first - 1, zeros());
        self.put_mark(CHECKPOINT, &last)?;
        loop {
            let query = "SELECT id, at, json FROM audit WHERE id > ? ORDER BY id LIMIT 200";
            let rows = self.rows(query, vec![cast(last.0)])?;
            for row in &rows {
                let id = integer(row, 0).unwrap_or(0);
                let entry = serde_json::from_str(text(row, 2).unwrap_or("{}"))?;
                let line = line_of(id, integer(row, 1).unwrap_or(0), entry, &last.1);
                let hash = sha256_hex(line.as_bytes());
                let bindings = vec![line.into(), hash.as_str().into(), cast(id)];
                self.sql().exec("UPDATE audit SET json = ?, hash = ? WHERE id = ?", bindings)?;
                last = (id, hash);
            }
            if rows.is_empty() {
                return self.put_mark(HEAD, &last);
            }
        }
    }

    fn mark(&self, key: &str) -> worker::Result<Mark> {
        let Some(text) = self.meta(key)? else { return Ok((0, zeros())) };
        let broken = || worker::Error::RustError(format!("{key} is corrupt"));
        let (id, hash) = text.split_once(' ').ok_or_else(broken)?;
        Ok((id.parse().map_err(|_| broken())?, hash.to_owned()))
    }

    fn put_mark(&self, key: &str, (id, hash): &Mark) -> worker::Result<()> {
        self.put_meta(key, &format!("{id} {hash}"))
    }
}

/// Entries that come of age within this time are forgotten together, in milliseconds.
const SWEEP_EVERY_MS: u64 = 3_600_000;

fn zeros() -> String {
    "0".repeat(64)
}

/// The line that is hashed.
fn line_of(id: u64, at: u64, entry: Value, prev: &str) -> String {
    let mut line = Map::new();
    line.insert("id".to_owned(), id.into());
    line.insert("at".to_owned(), iso_time(at).into());
    if let Value::Object(entry) = entry {
        line.extend(entry);
    }
    line.insert("prev".to_owned(), prev.into());
    Value::Object(line).to_string()
}

/// A row (number, line, hash) as it is shown.
fn exported(row: &Row) -> String {
    let line = text(row, 1).unwrap_or_default();
    format!("{},\"hash\":\"{}\"}}", line.strip_suffix('}').unwrap_or(line), text(row, 2).unwrap_or_default())
}

fn mark_line(name: &str, (id, hash): &Mark) -> String {
    format!("{}\n", json!({ name: { "id": id, "hash": hash } }))
}
