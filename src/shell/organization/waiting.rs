//! What waits for a person in the sessions of the organization. It is a copy: sessions say what they have, as a whole, whenever
//! that changes, and what expired is not shown whatever they say.

use serde_json::{Value, json};

use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, page_of, place_after, place_of, text};
use crate::approval::Approvers;
use crate::internal::{AdminAnswer, WaitingItem, WaitingOfSession};
use crate::organization::cursor::Page;
use crate::organization::route::Whose;
use crate::protocol::time::iso_time;
use crate::session::events::SessionEvent;
use crate::shell::clock::now;

impl OrganizationDurableObject {
    /// What a session says replaces what it said before.
    pub(super) fn put_waiting(&self, waiting: &WaitingOfSession) -> worker::Result<()> {
        Self::check_version(waiting.version)?;
        self.in_transaction(|| {
            let sql = self.sql();
            sql.exec(
                "DELETE FROM waiting WHERE session = ? OR expires_at <= ?",
                vec![waiting.session.as_str().into(), cast(now())],
            )?;
            for item in &waiting.items {
                sql.exec(
                    "INSERT OR REPLACE INTO waiting (execution, session, since, expires_at, json) VALUES (?, ?, ?, ?, ?)",
                    vec![
                        item.execution_id.as_str().into(),
                        waiting.session.as_str().into(),
                        cast(item.since),
                        cast(item.expires_at),
                        serde_json::to_string(item)?.into(),
                    ],
                )?;
            }
            self.put_programs(waiting)?;
            self.take_events(&waiting.events)
        })
    }

    /// Writes what happened in a session into the audit log, and has webhooks told; what was taken already counts once.
    fn take_events(&self, events: &[SessionEvent]) -> worker::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        for event in events {
            if self.has_noted(&event.id)? {
                continue;
            }
            let mut name = Some(event.id.as_str());
            for entry in &event.entries {
                self.append(entry.clone(), name.take())?;
            }
            if let Some(notice) = &event.notice {
                self.enqueue(notice)?;
            }
        }
        self.rearm()
    }

    /// A page, what has waited longest first, and how much there is in all.
    pub(super) fn list_waiting(&self, page: &Page, whose: Option<&Whose>) -> worker::Result<AdminAnswer> {
        let (since, execution) = match place_after(page, (0, "")) {
            Ok(place) => place,
            Err(fault) => return Ok(AdminAnswer::fault(&fault)),
        };
        let account = whose.map(|whose| whose.account.as_str());
        let others = cast(u64::from(whose.is_some_and(|whose| whose.others)));
        // Whose it is, and who may decide, stands in the item only; there are never many.
        let counts = r#"FROM waiting WHERE expires_at > ?1 AND (?2 IS NULL OR json_extract(json, '$.account') = ?2
            OR (?3 AND json_extract(json, '$.by') LIKE '%"other"%'))"#;
        let total =
            self.count(&format!("SELECT COUNT(*) {counts}"), vec![cast(now()), account.into(), others.clone()])?;
        let rows = self.rows(
            &format!("SELECT session, json, since, execution {counts} AND (since, execution) > (?4, ?5) ORDER BY since, execution LIMIT ?6"),
            vec![cast(now()), account.into(), others, cast(since), execution.into(), cast(page.limit + 1)],
        )?;
        let mut answer = page_of(&rows, page, "approvals", |row| {
            let item: WaitingItem = crate::json::from_str(text(row, 1).unwrap_or_default())?;
            let place = place_of(integer(row, 2), text(row, 3).unwrap_or_default());
            Ok((shown(text(row, 0).unwrap_or_default(), &item), place))
        })?;
        if let Some(body) = answer.body.as_object_mut() {
            body.insert("total".to_owned(), total.into());
        }
        Ok(answer)
    }
}

fn shown(session: &str, item: &WaitingItem) -> Value {
    json!({
        "executionId": item.execution_id,
        "mcpSessionId": session,
        "account": item.account,
        "client": item.client,
        "tools": item.tools,
        "calls": item.calls,
        "since": iso_time(item.since),
        "expiresAt": iso_time(item.expires_at),
        "approvalUrl": item.approval_url,
        // A release that did not know of others left all to the owner.
        "by": if item.by.is_empty() { [Approvers::Owner].as_slice() } else { &item.by },
    })
}
