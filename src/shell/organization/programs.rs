//! The programs of all sessions, as the sessions tell of them when they come to a pause or end: a list to find a session by. What a
//! program did is in its session, as long as that remembers it.

use serde_json::{Value, json};

use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, page_of, place_after, place_of, text};
use crate::internal::{AdminAnswer, ProgramLine, WaitingOfSession};
use crate::organization::cursor::Page;
use crate::organization::fault::Fault;
use crate::organization::route::ProgramFilter;
use crate::protocol::time::iso_time;

/// Programs that are kept; the oldest go first.
const KEPT: u64 = 10_000;

impl OrganizationDurableObject {
    /// Notes programs; part of the transaction in which a session says what waits.
    pub(super) fn put_programs(&self, waiting: &WaitingOfSession) -> worker::Result<()> {
        let sql = self.sql();
        for line in &waiting.programs {
            sql.exec(
                "INSERT INTO program (execution, session, account, status, started_at, json) VALUES (?, ?, ?, ?, ?, ?) \
                 ON CONFLICT (execution) DO UPDATE SET status = excluded.status, json = excluded.json",
                vec![
                    line.execution.as_str().into(),
                    waiting.session.as_str().into(),
                    line.account.as_str().into(),
                    line.status.as_str().into(),
                    cast(line.started_at),
                    serde_json::to_string(line)?.into(),
                ],
            )?;
        }
        if !waiting.programs.is_empty() {
            let oldest = "DELETE FROM program WHERE number <= (SELECT MAX(number) FROM program) - ?";
            sql.exec(oldest, vec![cast(KEPT)])?;
        }
        Ok(())
    }

    /// A page, what was started last first.
    pub(super) fn list_programs(&self, page: &Page, filter: &ProgramFilter) -> worker::Result<AdminAnswer> {
        let before = place_after(page, (1 << 52, "0"))
            .and_then(|(at, number)| Ok((at, number.parse::<u64>().map_err(|_| Fault::field("cursor", "is broken"))?)));
        let (at, number) = match before {
            Ok(place) => place,
            Err(fault) => return Ok(AdminAnswer::fault(&fault)),
        };
        // `json_each` has a hidden column `json` of its own.
        let rows = self.rows(
            "SELECT session, json, started_at, number FROM program \
             WHERE (?1 IS NULL OR account = ?1) AND (?2 IS NULL OR status = ?2) \
             AND (?3 IS NULL OR started_at >= ?3) AND (?4 IS NULL OR started_at < ?4) \
             AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(program.json, '$.tools') WHERE instr(value, ?5) > 0)) \
             AND (started_at, number) < (?6, ?7) ORDER BY started_at DESC, number DESC LIMIT ?8",
            vec![
                filter.account.as_deref().into(),
                filter.status.as_deref().into(),
                filter.since.map(cast).into(),
                filter.until.map(cast).into(),
                filter.tool.as_deref().into(),
                cast(at),
                cast(number),
                cast(page.limit + 1),
            ],
        )?;
        page_of(&rows, page, "programs", |row| {
            let line: ProgramLine = crate::json::from_str(text(row, 1).unwrap_or_default())?;
            let place = place_of(integer(row, 2), &integer(row, 3).unwrap_or(0).to_string());
            Ok((shown(text(row, 0).unwrap_or_default(), &line), place))
        })
    }
}

fn shown(session: &str, line: &ProgramLine) -> Value {
    json!({
        "id": line.execution,
        "mcpSessionId": session,
        "account": line.account,
        "client": line.client,
        "status": line.status,
        "startedAt": iso_time(line.started_at),
        "endedAt": line.ended_at.map(iso_time),
        "calls": line.calls,
        "tools": line.tools,
        "approved": line.approved,
        "declined": line.declined,
    })
}
