//! The audit log: who changed what, and when. Never a secret.

use serde_json::{Value, json};

use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, text};
use crate::internal::{AdminAnswer, Via};
use crate::organization::cursor::{Page, encode};
use crate::organization::fault::Fault;
use crate::protocol::time::iso_time;
use crate::shell::clock::now;

/// Entries that are kept.
const KEPT: u64 = 10_000;
/// Bytes of an entry's detail.
const DETAIL_LIMIT: usize = 16 << 10;

/// Who makes a change, and how.
#[derive(Clone, Copy)]
pub(super) struct By<'b> {
    pub(super) account: &'b str,
    pub(super) via: &'b Via,
}

impl OrganizationDurableObject {
    /// Writes an entry.
    pub(super) fn note(&self, by: By<'_>, action: &str, target: Option<&str>, detail: Value) -> worker::Result<()> {
        let detail = if detail.to_string().len() > DETAIL_LIMIT { json!({ "omitted": true }) } else { detail };
        let (via, execution) = by.via.parts();
        let mut entry = json!({ "by": by.account, "via": via, "action": action, "target": target, "detail": detail });
        if let (Some(execution), Some(members)) = (execution, entry.as_object_mut()) {
            members.insert("executionId".to_owned(), execution.into());
        }
        let rows = self.rows(
            "INSERT INTO audit (at, json) VALUES (?, ?) RETURNING id",
            vec![cast(now()), entry.to_string().into()],
        )?;
        let id = rows.first().and_then(|row| integer(row, 0)).unwrap_or(0);
        self.sql().exec("DELETE FROM audit WHERE id <= ?", vec![cast(id.saturating_sub(KEPT))])?;
        Ok(())
    }

    pub(super) fn list_audit(&self, page: &Page) -> worker::Result<AdminAnswer> {
        let before = match page.after.as_deref().map(str::parse::<u64>) {
            None => u64::try_from(i64::MAX >> 12).unwrap_or(u64::MAX),
            Some(Ok(before)) => before,
            Some(Err(_)) => return Ok(AdminAnswer::fault(&Fault::field("cursor", "is broken"))),
        };
        let rows = self.rows(
            "SELECT id, at, json FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
            vec![cast(before), cast(page.limit + 1)],
        )?;
        let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut items = Vec::new();
        let mut last = 0;
        for row in rows.iter().take(most) {
            let mut entry: Value = serde_json::from_str(text(row, 2).unwrap_or("{}"))?;
            last = integer(row, 0).unwrap_or(0);
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("id".to_owned(), last.into());
                entry.insert("at".to_owned(), iso_time(integer(row, 1).unwrap_or(0)).into());
            }
            items.push(entry);
        }
        let next = (rows.len() > most).then(|| encode("audit", &last.to_string()));
        Ok(AdminAnswer::page(&items, next))
    }
}
