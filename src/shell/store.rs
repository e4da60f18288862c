//! The session object's storage: session meta, activity, and the journal, in the object's SQL storage.
//!
//! | table | key | holds |
//! |---|---|---|
//! | `meta` | `schema-version`, `session-meta`, `last-activity-ms`, `told-waiting`, `told-programs` | one value each |
//! | `execution` | id | when it was started and when it ended |
//! | `pause` | id | the execution it belongs to |
//! | `journal` | execution, kind, number, part | rows of the journal as JSON, in parts below the row limit; of no execution: `event`, what the organization is still to be told |
//!
//! | `stream` | id | the request that is answered on it, and what that waits for |
//! | `event` | stream, number | what was sent before the response; without text where it was too large to keep |
//! | `response` | stream, part | the response, for a client that lost it |
//! | `question` | id | what a client was asked on a stream, and its answer |
//!
//! Reads create nothing: an object that was never opened has no table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::{SqlStorage, SqlStorageValue, State};

use crate::approval::Verdict;
use crate::engine::{CallRow, ExecutionRow, Outcome, Output, PauseRow, ProgramRow, Write};
use crate::session::events::SessionEvent;
use crate::session::stream::{Awaits, StreamRow};
use crate::session::{SCHEMA_VERSION, SessionMeta};

/// Bytes of one part of a journal row; the platform's limit for a row is 2 MB.
const PART_BYTES: usize = 1 << 20;

/// All tables, in one text: opening a session is many statements as it is. Tables of small rows are their own index, which halves
/// the rows that are written; a session that an older release opened has an index beside each, and nothing else differs.
const TABLES: &str = "\
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS execution (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, ended_at INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pause (id TEXT PRIMARY KEY, execution TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (execution TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, \
    part INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (execution, kind, number, part));
CREATE TABLE IF NOT EXISTS stream (id INTEGER PRIMARY KEY AUTOINCREMENT, opened_at INTEGER NOT NULL, \
    ended_at INTEGER, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS response (stream INTEGER NOT NULL, part INTEGER NOT NULL, text TEXT NOT NULL, \
    PRIMARY KEY (stream, part));
-- From layout 2 on.
CREATE TABLE IF NOT EXISTS event (stream INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT, \
    PRIMARY KEY (stream, number));
CREATE TABLE IF NOT EXISTS question (id TEXT PRIMARY KEY, stream INTEGER NOT NULL, key TEXT NOT NULL, answer TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS question_of_stream ON question (stream, key);";

/// Tables whose rows belong to a stream.
const OF_STREAM: [&str; 3] = ["response", "event", "question"];

/// Why storage could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The platform failed.
    #[error("storage failed: {0}")]
    Platform(#[from] worker::Error),
    /// A row is not what this release wrote.
    #[error("row {row} is corrupt: {problem}")]
    Corrupt {
        /// Which.
        row: String,
        /// What is wrong.
        problem: String,
    },
    /// A newer release wrote here; touching it could lose data.
    #[error("the stored layout {found} is newer than this release ({SCHEMA_VERSION})")]
    Newer {
        /// The layout found.
        found: u32,
    },
}

/// The storage of one session object.
#[derive(Debug)]
pub(crate) struct SessionStore {
    sql: SqlStorage,
    has_tables: Cell<bool>,
    /// The layout is an older one: it is brought up to date before the first write.
    is_old: Cell<bool>,
    /// What [`Self::oldest_end`] found, until that may be different: it is asked for at every step.
    oldest_end: Cell<Option<Oldest>>,
    /// The same of [`Self::oldest_stream_end`].
    oldest_stream_end: Cell<Option<Oldest>>,
    /// Open executions whose row in `execution` was written: it changes only when they end.
    listed: RefCell<BTreeSet<String>>,
}

/// The earliest end in a table; `None` where nothing in it has ended.
#[derive(Debug, Clone, Copy)]
struct Oldest(Option<u64>);

/// Calls of one execution with the same tool, and the same decision.
pub(crate) struct KindOfCalls {
    /// Of the tool.
    pub(crate) address: String,
    /// Whether somebody accepted; `None` where nobody decided.
    pub(crate) accepted: Option<bool>,
    pub(crate) count: u64,
}

/// A question to the client, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredQuestion {
    pub(crate) id: String,
    pub(crate) stream: u32,
    /// JSON text of `{"Ok": result}` or `{"Err": error}`; `None` while there is none.
    pub(crate) answer: Option<String>,
}

impl SessionStore {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            sql: state.storage().sql(),
            has_tables: Cell::new(false),
            is_old: Cell::new(false),
            oldest_end: Cell::new(None),
            oldest_stream_end: Cell::new(None),
            listed: RefCell::default(),
        }
    }

    /// Whether anything was ever written here. Refuses a layout from the future.
    pub(crate) fn exists(&self) -> Result<bool, StoreError> {
        if self.has_tables.get() {
            return Ok(true);
        }
        let found = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'meta'", vec![])?;
        if found.is_empty() {
            return Ok(false);
        }
        let version = self.meta("schema-version")?.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        if version > SCHEMA_VERSION {
            return Err(StoreError::Newer { found: version });
        }
        self.is_old.set(version < SCHEMA_VERSION);
        self.has_tables.set(true);
        Ok(true)
    }

    /// Brings an older layout up to date. Called before the first write, never on a read.
    ///
    /// 1 → 2: tables for events and questions; what was there stays as it is.
    /// 2 → 3: no new table. Rows may have timers, `sleeping`, `settling` and `output`, which an older release cannot read.
    /// 3 → 4: no new table. Calls may have other arguments than the program's, and decisions of grants and of people who are not
    /// the session's owner; an older release would send the program's arguments in place of those.
    pub(crate) fn migrate(&self) -> Result<(), StoreError> {
        if self.exists()? && self.is_old.get() {
            self.sql.exec(TABLES, None)?;
            self.put_meta("schema-version", &SCHEMA_VERSION.to_string())?;
            self.is_old.set(false);
        }
        Ok(())
    }

    /// Writes a new session; the first write of an object.
    pub(crate) fn open(&self, meta: &SessionMeta) -> Result<(), StoreError> {
        self.sql.exec(TABLES, None)?;
        self.sql.exec(
            "INSERT OR REPLACE INTO meta (key, value) \
             VALUES ('schema-version', ?), ('session-meta', ?), ('last-activity-ms', ?)",
            vec![
                SCHEMA_VERSION.to_string().into(),
                to_text("session-meta", meta)?.into(),
                meta.created_at.to_string().into(),
            ],
        )?;
        self.has_tables.set(true);
        Ok(())
    }

    /// The object was wiped: there are no tables any more.
    pub(crate) fn forget_tables(&self) {
        self.has_tables.set(false);
        self.is_old.set(false);
        self.oldest_end.set(None);
        self.oldest_stream_end.set(None);
        self.listed.borrow_mut().clear();
    }

    pub(crate) fn session_meta(&self) -> Result<Option<SessionMeta>, StoreError> {
        if !self.exists()? {
            return Ok(None);
        }
        self.meta("session-meta")?.map(|text| parse("session-meta", &text)).transpose()
    }

    pub(crate) fn put_session_meta(&self, meta: &SessionMeta) -> Result<(), StoreError> {
        self.put_meta("session-meta", &to_text("session-meta", meta)?)
    }

    pub(crate) fn last_activity(&self) -> Result<u64, StoreError> {
        Ok(self.meta("last-activity-ms")?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    pub(crate) fn put_last_activity(&self, at: u64) -> Result<(), StoreError> {
        self.put_meta("last-activity-ms", &at.to_string())
    }

    /// Names what the organization was told that waits here; empty for nothing.
    pub(crate) fn told_waiting(&self) -> Result<String, StoreError> {
        Ok(self.meta("told-waiting")?.unwrap_or_default())
    }

    pub(crate) fn put_told_waiting(&self, mark: &str) -> Result<(), StoreError> {
        self.put_meta("told-waiting", mark)
    }

    /// Up to where the organization was told of programs that ended: the time of the last, and the ids of those that ended then.
    pub(crate) fn told_programs(&self) -> Result<String, StoreError> {
        Ok(self.meta("told-programs")?.unwrap_or_default())
    }

    pub(crate) fn put_told_programs(&self, mark: &str) -> Result<(), StoreError> {
        self.put_meta("told-programs", mark)
    }

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        let rows = self.rows("SELECT value FROM meta WHERE key = ?", vec![key.into()])?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(text_of))
    }

    fn put_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        self.sql.exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", vec![key.into(), value.into()])?;
        Ok(())
    }

    // ---- journal ----------------------------------------------------------------------------

    /// Writes rows of one execution. Between two awaits all of it is one transaction.
    #[inline(never)]
    pub(crate) fn commit(&self, execution: &str, writes: &[Write]) -> Result<(), StoreError> {
        self.migrate()?;
        for write in writes {
            match write {
                Write::Execution(row) => self.put_execution(row)?,
                Write::Output(row) => self.put_row(execution, "output", 0, row)?,
                Write::Call(row) => self.put_row(execution, "call", row.seq, row)?,
                Write::Pause(row) => {
                    self.sql.exec(
                        "INSERT OR IGNORE INTO pause (id, execution) VALUES (?, ?)",
                        vec![row.id.as_str().into(), execution.into()],
                    )?;
                    self.put_row(execution, "pause", row.number, row)?;
                }
            }
        }
        Ok(())
    }

    fn put_execution(&self, row: &ExecutionRow) -> Result<(), StoreError> {
        // One that has ended stays among the open ones until nothing of it is on its way.
        let ended = row.ended_at.filter(|_| !row.settling).map(cast);
        let is_listed = self.listed.borrow().contains(&row.id);
        if ended.is_some() || !is_listed {
            self.sql.exec(
                "INSERT INTO execution (id, created_at, ended_at) VALUES (?, ?, ?) \
                 ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at",
                vec![row.id.as_str().into(), cast(row.created_at).into(), ended.into()],
            )?;
        }
        if ended.is_some() {
            self.oldest_end.set(None);
            self.listed.borrow_mut().remove(&row.id);
        } else if !is_listed {
            self.listed.borrow_mut().insert(row.id.clone());
        }
        // The outcome may be large and never changes: it has a row of its own.
        if let Some(outcome) = &row.outcome {
            self.put_row(&row.id, "outcome", 0, outcome.as_ref())?;
            // The outcome has it.
            self.sql
                .exec("DELETE FROM journal WHERE execution = ? AND kind = 'output'", vec![row.id.as_str().into()])?;
        }
        self.put_row(&row.id, "execution", 0, &ExecutionRow { outcome: None, ..row.clone() })
    }

    pub(crate) fn put_program(&self, execution: &str, program: &ProgramRow) -> Result<(), StoreError> {
        self.put_row(execution, "program", 0, program)
    }

    pub(crate) fn program(&self, execution: &str) -> Result<Option<ProgramRow>, StoreError> {
        Ok(self.rows_of::<ProgramRow>(execution, "program")?.into_iter().next())
    }

    pub(crate) fn execution(&self, execution: &str) -> Result<Option<ExecutionRow>, StoreError> {
        let Some(row) = self.rows_of::<ExecutionRow>(execution, "execution")?.into_iter().next() else {
            return Ok(None);
        };
        let outcome = self.outcome(execution)?;
        Ok(Some(ExecutionRow { outcome: outcome.map(Into::into), ..row }))
    }

    /// The same without how it ended, which may be large.
    pub(crate) fn execution_alone(&self, execution: &str) -> Result<Option<ExecutionRow>, StoreError> {
        Ok(self.rows_of::<ExecutionRow>(execution, "execution")?.into_iter().next())
    }

    /// How an execution ended.
    pub(crate) fn outcome(&self, execution: &str) -> Result<Option<Outcome>, StoreError> {
        Ok(self.rows_of::<Outcome>(execution, "outcome")?.into_iter().next())
    }

    pub(crate) fn calls(&self, execution: &str) -> Result<Vec<CallRow>, StoreError> {
        self.rows_of(execution, "call")
    }

    pub(crate) fn pauses(&self, execution: &str) -> Result<Vec<PauseRow>, StoreError> {
        self.rows_of(execution, "pause")
    }

    /// What a program had said when its sandbox was dropped.
    pub(crate) fn output(&self, execution: &str) -> Result<Output, StoreError> {
        Ok(self.rows_of::<Output>(execution, "output")?.into_iter().next().unwrap_or_default())
    }

    /// Executions that have not ended.
    pub(crate) fn open_executions(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.rows("SELECT id FROM execution WHERE ended_at IS NULL ORDER BY created_at, id", vec![])?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().and_then(text_of)).collect())
    }

    /// Executions that ended at a time or later, with when, in that order.
    pub(crate) fn ended_since(&self, from: u64) -> Result<Vec<(u64, String)>, StoreError> {
        let query = "SELECT ended_at, id FROM execution WHERE ended_at >= ? ORDER BY ended_at, id";
        Ok(self.rows(query, vec![cast(from).into()])?.into_iter().filter_map(time_and_id).collect())
    }

    /// Executions that were started before one of them, newest first; from the newest on without.
    pub(crate) fn executions_before(
        &self,
        before: Option<(u64, &str)>,
        limit: usize,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        // Beyond every time that the platform's numbers can say exactly.
        let (at, id) = before.unwrap_or((1 << 52, ""));
        let rows = self.rows(
            "SELECT created_at, id FROM execution WHERE created_at < ? OR (created_at = ? AND id < ?) \
             ORDER BY created_at DESC, id DESC LIMIT ?",
            vec![cast(at).into(), cast(at).into(), id.into(), i64::try_from(limit).unwrap_or(i64::MAX).into()],
        )?;
        Ok(rows.into_iter().filter_map(time_and_id).collect())
    }

    /// How many calls an execution made.
    pub(crate) fn count_calls(&self, execution: &str) -> Result<u64, StoreError> {
        let query = "SELECT COUNT(*) FROM journal WHERE execution = ? AND kind = 'call' AND part = 0";
        let rows = self.rows(query, vec![execution.into()])?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(integer_of).unwrap_or(0))
    }

    /// The calls of an execution, without timers, by tool and decision: in the order of the first of each.
    pub(crate) fn kinds_of_calls(&self, execution: &str) -> Result<Vec<KindOfCalls>, StoreError> {
        // The database reads the rows: there may be a thousand of them, and most of each is arguments and results.
        let query = "WITH call AS (SELECT number, group_concat(json, '' ORDER BY part) AS json FROM journal \
             WHERE execution = ? AND kind = 'call' GROUP BY number) \
             SELECT json_extract(json, '$.address'), json_extract(json, '$.decision.verdict'), COUNT(*) FROM call \
             WHERE json_extract(json, '$.due') IS NULL GROUP BY 1, 2 ORDER BY MIN(number)";
        let kinds = self.rows(query, vec![execution.into()])?.into_iter().filter_map(|row| {
            let mut columns = row.into_iter();
            let (address, verdict) = (columns.next().and_then(text_of)?, columns.next().and_then(text_of));
            let accepted = verdict.map(|verdict| Verdict::parse(&verdict) == Some(Verdict::Accept));
            Some(KindOfCalls { address, accepted, count: columns.next().and_then(integer_of)? })
        });
        Ok(kinds.collect())
    }

    pub(crate) fn execution_of_pause(&self, pause: &str) -> Result<Option<String>, StoreError> {
        let rows = self.rows("SELECT execution FROM pause WHERE id = ?", vec![pause.into()])?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(text_of))
    }

    /// When the execution that ended first did so.
    pub(crate) fn oldest_end(&self) -> Result<Option<u64>, StoreError> {
        self.known(&self.oldest_end, "SELECT MIN(ended_at) FROM execution WHERE ended_at IS NOT NULL")
    }

    /// Forgets executions that ended at or before a time.
    pub(crate) fn forget_ended(&self, until: u64) -> Result<(), StoreError> {
        self.oldest_end.set(None);
        for table in ["journal", "pause"] {
            self.sql.exec(
                &format!("DELETE FROM {table} WHERE execution IN (SELECT id FROM execution WHERE ended_at <= ?)"),
                vec![cast(until).into()],
            )?;
        }
        self.sql.exec("DELETE FROM execution WHERE ended_at <= ?", vec![cast(until).into()])?;
        Ok(())
    }

    // ---- events -----------------------------------------------------------------------------

    /// Keeps an event until the organization has it. Part of the transaction that writes what it is about.
    pub(crate) fn put_event_to_tell(&self, event: &SessionEvent) -> Result<(), StoreError> {
        self.sql.exec(
            "INSERT INTO journal (execution, kind, number, part, json) \
             SELECT '', 'event', COALESCE(MAX(number), -1) + 1, 0, ? FROM journal WHERE execution = '' AND kind = 'event'",
            vec![to_text("event", event)?.into()],
        )?;
        Ok(())
    }

    /// The first events that the organization does not have, with their numbers.
    pub(crate) fn events_to_tell(&self, most: i64) -> Result<Vec<(u64, SessionEvent)>, StoreError> {
        let rows = self.rows(
            "SELECT number, json FROM journal WHERE execution = '' AND kind = 'event' ORDER BY number LIMIT ?",
            vec![most.into()],
        )?;
        let event = |row: Vec<SqlStorageValue>| {
            let mut columns = row.into_iter();
            let number = columns.next().and_then(integer_of).unwrap_or(0);
            let text = columns.next().and_then(text_of).unwrap_or_default();
            Ok((number, parse(&format!("event {number}"), &text)?))
        };
        rows.into_iter().map(event).collect()
    }

    /// Forgets events up to a number: the organization has them.
    pub(crate) fn forget_told_events(&self, number: u64) -> Result<(), StoreError> {
        let query = "DELETE FROM journal WHERE execution = '' AND kind = 'event' AND number <= ?";
        self.sql.exec(query, vec![cast(number).into()])?;
        Ok(())
    }

    // ---- streams ----------------------------------------------------------------------------

    /// Writes a new stream and gives its id, which was never used before in this session.
    pub(crate) fn open_stream(&self, row: &StreamRow) -> Result<u32, StoreError> {
        let rows = self.rows(
            "INSERT INTO stream (opened_at, json) VALUES (?, ?) RETURNING id",
            vec![cast(row.opened_at).into(), to_text("stream", row)?.into()],
        )?;
        let id = rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(integer_of);
        id.and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| StoreError::Corrupt { row: "stream".to_owned(), problem: "it got no id".to_owned() })
    }

    pub(crate) fn stream(&self, stream: u32) -> Result<Option<StreamRow>, StoreError> {
        let rows = self.rows("SELECT json FROM stream WHERE id = ?", vec![i64::from(stream).into()])?;
        let json = rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(text_of);
        json.map(|json| parse(&format!("stream {stream}"), &json)).transpose()
    }

    pub(crate) fn link_stream(&self, stream: u32, awaits: Awaits) -> Result<(), StoreError> {
        let Some(row) = self.stream(stream)? else {
            return Ok(());
        };
        self.put_stream(stream, &StreamRow { awaits: Some(awaits), ..row })
    }

    /// Keeps the response, and notes that the stream ended. Nobody is asked anything on it any more.
    pub(crate) fn finish_stream(
        &self,
        stream: u32,
        number: u32,
        text: Option<&str>,
        at: u64,
    ) -> Result<(), StoreError> {
        let Some(row) = self.stream(stream)? else {
            return Ok(());
        };
        for (part, text) in (0_i64..).zip(text.into_iter().flat_map(parts)) {
            self.sql.exec(
                "INSERT OR REPLACE INTO response (stream, part, text) VALUES (?, ?, ?)",
                vec![i64::from(stream).into(), part.into(), text.into()],
            )?;
        }
        self.sql.exec("DELETE FROM question WHERE stream = ?", vec![i64::from(stream).into()])?;
        self.put_stream(stream, &StreamRow { ended_at: Some(at), response: number, awaits: None, ..row })
    }

    /// Keeps an event that comes before the response; `None` keeps only its place.
    pub(crate) fn put_event(&self, stream: u32, number: u32, text: Option<&str>) -> Result<(), StoreError> {
        self.sql.exec(
            "INSERT OR REPLACE INTO event (stream, number, text) VALUES (?, ?, ?)",
            vec![i64::from(stream).into(), i64::from(number).into(), text.into()],
        )?;
        Ok(())
    }

    pub(crate) fn forget_event(&self, stream: u32, number: u32) -> Result<(), StoreError> {
        let key = vec![i64::from(stream).into(), i64::from(number).into()];
        self.sql.exec("DELETE FROM event WHERE stream = ? AND number = ?", key)?;
        Ok(())
    }

    /// The events of a stream after a number; without text where only the place was kept.
    pub(crate) fn events_after(&self, stream: u32, number: u32) -> Result<Vec<(u32, Option<String>)>, StoreError> {
        let rows = self.rows(
            "SELECT number, text FROM event WHERE stream = ? AND number > ? ORDER BY number",
            vec![i64::from(stream).into(), i64::from(number).into()],
        )?;
        let event = |row: Vec<SqlStorageValue>| {
            let mut columns = row.into_iter();
            let number = columns.next().and_then(integer_of).and_then(|number| u32::try_from(number).ok())?;
            Some((number, columns.next().and_then(text_of)))
        };
        Ok(rows.into_iter().filter_map(event).collect())
    }

    /// The number of the last event of a stream that was not answered yet; 0 is the empty first one.
    pub(crate) fn last_event(&self, stream: u32) -> Result<u32, StoreError> {
        let rows = self.rows("SELECT MAX(number) FROM event WHERE stream = ?", vec![i64::from(stream).into()])?;
        let number = rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(integer_of);
        Ok(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
    }

    // ---- questions --------------------------------------------------------------------------

    /// The question of a stream with that key.
    pub(crate) fn question(&self, stream: u32, key: &str) -> Result<Option<StoredQuestion>, StoreError> {
        let query = "SELECT id, stream, answer FROM question WHERE stream = ? AND key = ?";
        Ok(self.rows(query, vec![i64::from(stream).into(), key.into()])?.into_iter().find_map(question_of))
    }

    /// The question with that id; ids are unguessable.
    pub(crate) fn question_by_id(&self, id: &str) -> Result<Option<StoredQuestion>, StoreError> {
        if self.is_old.get() {
            return Ok(None);
        }
        let rows = self.rows("SELECT id, stream, answer FROM question WHERE id = ?", vec![id.into()])?;
        Ok(rows.into_iter().find_map(question_of))
    }

    pub(crate) fn put_question(&self, id: &str, stream: u32, key: &str) -> Result<(), StoreError> {
        let values = vec![id.into(), i64::from(stream).into(), key.into()];
        self.sql.exec("INSERT INTO question (id, stream, key) VALUES (?, ?, ?)", values)?;
        Ok(())
    }

    /// Writes the answer to a question; the first one counts.
    pub(crate) fn put_answer(&self, id: &str, answer: &str) -> Result<(), StoreError> {
        self.sql
            .exec("UPDATE question SET answer = ? WHERE id = ? AND answer IS NULL", vec![answer.into(), id.into()])?;
        Ok(())
    }

    fn put_stream(&self, stream: u32, row: &StreamRow) -> Result<(), StoreError> {
        self.oldest_stream_end.set(None);
        self.sql.exec(
            "UPDATE stream SET ended_at = ?, json = ? WHERE id = ?",
            vec![row.ended_at.map(cast).into(), to_text("stream", row)?.into(), i64::from(stream).into()],
        )?;
        Ok(())
    }

    pub(crate) fn stream_response(&self, stream: u32) -> Result<Option<String>, StoreError> {
        let rows =
            self.rows("SELECT text FROM response WHERE stream = ? ORDER BY part", vec![i64::from(stream).into()])?;
        let texts: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next().and_then(text_of)).collect();
        Ok((!texts.is_empty()).then(|| texts.concat()))
    }

    pub(crate) fn forget_stream(&self, stream: u32) -> Result<(), StoreError> {
        self.oldest_stream_end.set(None);
        for table in OF_STREAM {
            self.sql.exec(&format!("DELETE FROM {table} WHERE stream = ?"), vec![i64::from(stream).into()])?;
        }
        self.sql.exec("DELETE FROM stream WHERE id = ?", vec![i64::from(stream).into()])?;
        Ok(())
    }

    /// When the stream that ended first did so.
    pub(crate) fn oldest_stream_end(&self) -> Result<Option<u64>, StoreError> {
        self.known(&self.oldest_stream_end, "SELECT MIN(ended_at) FROM stream WHERE ended_at IS NOT NULL")
    }

    /// Forgets streams that ended, or that were opened and never ended, at or before a time.
    pub(crate) fn forget_streams(&self, ended_until: u64, opened_until: u64) -> Result<(), StoreError> {
        self.oldest_stream_end.set(None);
        let times = || vec![cast(ended_until).into(), cast(opened_until).into()];
        let old = "ended_at <= ? OR (ended_at IS NULL AND opened_at <= ?)";
        for table in OF_STREAM {
            self.sql
                .exec(&format!("DELETE FROM {table} WHERE stream IN (SELECT id FROM stream WHERE {old})"), times())?;
        }
        self.sql.exec(&format!("DELETE FROM stream WHERE {old}"), times())?;
        Ok(())
    }

    /// Forgets one execution as if it had never been.
    pub(crate) fn forget_execution(&self, execution: &str) -> Result<(), StoreError> {
        self.listed.borrow_mut().remove(execution);
        self.oldest_end.set(None);
        for statement in [
            "DELETE FROM journal WHERE execution = ?",
            "DELETE FROM pause WHERE execution = ?",
            "DELETE FROM execution WHERE id = ?",
        ] {
            self.sql.exec(statement, vec![execution.into()])?;
        }
        Ok(())
    }

    /// Forgets every stream.
    pub(crate) fn forget_all_streams(&self) -> Result<(), StoreError> {
        self.oldest_stream_end.set(None);
        for table in OF_STREAM {
            self.sql.exec(&format!("DELETE FROM {table}"), None)?;
        }
        self.sql.exec("DELETE FROM stream", None)?;
        Ok(())
    }

    /// Forgets executions that ended and of which nobody was asked anything, as far as the organization was told of them.
    pub(crate) fn forget_unpaused(&self) -> Result<(), StoreError> {
        self.oldest_end.set(None);
        let told = self.told_programs()?;
        let until = told_until(&told);
        let ended = "SELECT id FROM execution WHERE (ended_at < ?1 OR (ended_at = ?1 AND instr(?2, id) > 0)) \
             AND id NOT IN (SELECT execution FROM pause)";
        let values = || vec![cast(until).into(), told.as_str().into()];
        self.sql.exec(&format!("DELETE FROM journal WHERE execution IN ({ended})"), values())?;
        self.sql.exec(&format!("DELETE FROM execution WHERE id IN ({ended})"), values())?;
        Ok(())
    }

    /// Forgets the executions that ended first, until `kept` that ended are left.
    pub(crate) fn forget_oldest(&self, kept: u32) -> Result<(), StoreError> {
        let rows = self.rows(
            "SELECT id FROM execution WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, id LIMIT -1 OFFSET ?",
            vec![i64::from(kept).into()],
        )?;
        for id in rows.into_iter().filter_map(|row| row.into_iter().next().and_then(text_of)) {
            self.forget_execution(&id)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn put_row<T: Serialize>(&self, execution: &str, kind: &str, number: u32, row: &T) -> Result<(), StoreError> {
        let text = to_text(kind, row)?;
        let mut written = 0_i64;
        for part in parts(&text) {
            self.sql.exec(
                "INSERT OR REPLACE INTO journal (execution, kind, number, part, json) VALUES (?, ?, ?, ?, ?)",
                vec![execution.into(), kind.into(), i64::from(number).into(), written.into(), part.into()],
            )?;
            written += 1;
        }
        if written > 1 || matches!(kind, "call" | "output") {
            self.sql.exec(
                "DELETE FROM journal WHERE execution = ? AND kind = ? AND number = ? AND part >= ?",
                vec![execution.into(), kind.into(), i64::from(number).into(), written.into()],
            )?;
        }
        Ok(())
    }

    fn rows_of<T: DeserializeOwned>(&self, execution: &str, kind: &str) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(
            "SELECT number, json FROM journal WHERE execution = ? AND kind = ? ORDER BY number, part",
            vec![execution.into(), kind.into()],
        )?;
        let mut texts: Vec<(u64, String)> = Vec::new();
        for row in rows {
            let mut columns = row.into_iter();
            let (Some(number), Some(part)) = (columns.next().and_then(integer_of), columns.next().and_then(text_of))
            else {
                return Err(StoreError::Corrupt { row: kind.to_owned(), problem: "a column is missing".to_owned() });
            };
            match texts.last_mut() {
                Some((last, text)) if *last == number => text.push_str(&part),
                _ => texts.push((number, part)),
            }
        }
        texts.iter().map(|(number, text)| parse(&format!("{kind} {number} of {execution}"), text)).collect()
    }

    fn known(&self, known: &Cell<Option<Oldest>>, query: &str) -> Result<Option<u64>, StoreError> {
        if let Some(Oldest(end)) = known.get() {
            return Ok(end);
        }
        let rows = self.rows(query, vec![])?;
        let end = rows.into_iter().next().and_then(|row| row.into_iter().next()).and_then(integer_of);
        known.set(Some(Oldest(end)));
        Ok(end)
    }

    fn rows(&self, query: &str, bindings: Vec<SqlStorageValue>) -> Result<Vec<Vec<SqlStorageValue>>, StoreError> {
        let cursor = self.sql.exec(query, bindings)?;
        Ok(cursor.raw().collect::<worker::Result<Vec<_>>>()?)
    }
}

/// The time of a mark that [`SessionStore::told_programs`] gives; 0 where nothing was told yet.
pub(crate) fn told_until(mark: &str) -> u64 {
    mark.split(' ').next().and_then(|at| at.parse().ok()).unwrap_or(0)
}

/// A text in parts below the platform's limit for a row; at least one.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let (part, after) = rest?.split_at(floor_boundary(rest?, PART_BYTES));
        rest = (!after.is_empty()).then_some(after);
        Some(part)
    })
}

/// The largest index up to `limit` that does not split a character.
fn floor_boundary(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    (0..=limit).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}

fn parse<T: DeserializeOwned>(row: &str, text: &str) -> Result<T, StoreError> {
    crate::json::from_str(text).map_err(|error| StoreError::Corrupt { row: row.to_owned(), problem: error.to_string() })
}

fn to_text<T: Serialize>(row: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Corrupt { row: row.to_owned(), problem: error.to_string() })
}

fn question_of(row: Vec<SqlStorageValue>) -> Option<StoredQuestion> {
    let mut columns = row.into_iter();
    let id = columns.next().and_then(text_of)?;
    let stream = columns.next().and_then(integer_of).and_then(|number| u32::try_from(number).ok())?;
    Some(StoredQuestion { id, stream, answer: columns.next().and_then(text_of) })
}

fn text_of(value: SqlStorageValue) -> Option<String> {
    if let SqlStorageValue::String(text) = value { Some(text) } else { None }
}

fn time_and_id(row: Vec<SqlStorageValue>) -> Option<(u64, String)> {
    let mut columns = row.into_iter();
    Some((columns.next().and_then(integer_of)?, columns.next().and_then(text_of)?))
}

#[allow(clippy::needless_pass_by_value, reason = "used as text_of is, on rows that are taken apart")]
fn integer_of(value: SqlStorageValue) -> Option<u64> {
    if let SqlStorageValue::Integer(number) = value { u64::try_from(number).ok() } else { None }
}

/// Times stay far below the range in which the platform's numbers are exact.
fn cast(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
