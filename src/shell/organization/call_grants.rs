//! Grants that take the place of asking a person. One is written before the decision that it goes with, and counts once the
//! session says that the decision was written: neither exists without the other.

use serde_json::json;

use super::audit::By;
use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, page_of, place_after, place_of, text};
use crate::internal::{AdminAnswer, FoundGrant, GrantsQuestion, Via};
use crate::organization::fault::Fault;
use crate::organization::grant::{CallGrant, GRANTS_LIMIT, UNCONFIRMED_MS, WantedCall, can_be_granted};
use crate::shell::clock::now;

/// The table of grants and its indexes, from layout 5 on.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS call_grant (id TEXT PRIMARY KEY, account TEXT NOT NULL, address TEXT NOT NULL, given_by TEXT NOT NULL, given_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, confirmed INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS call_grant_tool ON call_grant (account, address)",
    "CREATE INDEX IF NOT EXISTS call_grant_given ON call_grant (given_at, id)",
];

impl OrganizationDurableObject {
    /// Part of layout 5.
    pub(super) fn make_call_grant_tables(&self) -> worker::Result<()> {
        for statement in TABLES {
            self.sql().exec(statement, None)?;
        }
        Ok(())
    }

    /// Writes a grant that does not count yet; or why it is not given.
    pub(super) fn put_call_grant(&self, grant: &CallGrant) -> worker::Result<Result<(), String>> {
        if !can_be_granted(&grant.address) {
            return Ok(Err("what changes the gateway itself is asked about every time.".to_owned()));
        }
        let at = now();
        self.sql().exec(
            "DELETE FROM call_grant WHERE expires_at <= ? OR (confirmed = 0 AND given_at <= ?)",
            vec![cast(at), cast(at.saturating_sub(UNCONFIRMED_MS))],
        )?;
        let query = "SELECT COUNT(*) FROM call_grant WHERE account = ?";
        if self.count(query, vec![grant.account.as_str().into()])? >= GRANTS_LIMIT {
            return Ok(Err(format!(
                "there are {GRANTS_LIMIT} grants for {} already; revoke one first.",
                grant.account
            )));
        }
        self.sql().exec(
            "INSERT INTO call_grant (id, account, address, given_by, given_at, expires_at, confirmed, json) VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
            vec![
                grant.id.as_str().into(),
                grant.account.as_str().into(),
                grant.address.as_str().into(),
                grant.by.as_str().into(),
                cast(grant.given_at),
                cast(grant.expires_at),
                serde_json::to_string(grant)?.into(),
            ],
        )?;
        Ok(Ok(()))
    }

    /// The decisions that these grants go with were written. Saying it twice does no harm, nor does it for one that was revoked.
    pub(super) fn confirm_call_grants(&self, ids: &[String]) -> worker::Result<()> {
        for id in ids {
            let texts =
                self.texts("SELECT json FROM call_grant WHERE id = ? AND confirmed = 0", vec![id.as_str().into()])?;
            let Some(text) = texts.first() else { continue };
            let grant: CallGrant = crate::json::from_str(text)?;
            self.in_transaction(|| {
                self.sql().exec("UPDATE call_grant SET confirmed = 1 WHERE id = ?", vec![id.as_str().into()])?;
                self.note(By { account: &grant.by, via: &Via::Api }, "grant.give", Some(id), grant.shown())
            })?;
        }
        Ok(())
    }

    /// The grant that lets a call through, if there is one. Its use is written down where it is used, before the call is sent.
    pub(super) fn use_call_grant(&self, call: &WantedCall) -> worker::Result<Option<FoundGrant>> {
        let at = now();
        let texts = self.texts(
            "SELECT json FROM call_grant WHERE account = ? AND address = ? AND confirmed = 1 AND expires_at > ? ORDER BY given_at DESC",
            vec![call.account.as_str().into(), call.address.as_str().into(), cast(at)],
        )?;
        for text in &texts {
            let grant: CallGrant = crate::json::from_str(text)?;
            if !grant.covers(call, at) {
                continue;
            }
            let found = FoundGrant { id: grant.id.clone(), by: grant.by.clone(), standing: grant.standing };
            let used_by = format!("{} {}", call.execution, call.call);
            // Looked up again after a crash: that is the same use.
            if call.uses.is_none() || grant.last_use.as_ref().is_some_and(|(_, last)| *last == used_by) {
                return Ok(Some(found));
            }
            let used = CallGrant { uses: grant.uses + 1, last_use: Some((at, used_by)), ..grant };
            self.in_transaction(|| {
                let json = serde_json::to_string(&used)?;
                let id = used.id.as_str();
                self.sql().exec("UPDATE call_grant SET json = ? WHERE id = ?", vec![json.into(), id.into()])?;
                let via = Via::Tool { execution: call.execution.clone() };
                let detail = json!({
                    "address": call.address,
                    "call": call.call,
                    "digest": call.digest,
                    "mcpSessionId": call.session,
                    "givenBy": used.by,
                });
                self.note(By { account: &call.account, via: &via }, "grant.use", Some(id), detail)
            })?;
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Lists grants, the newest first, or revokes one. A member sees and revokes what is of its sessions, and what it gave; an
    /// administrator all.
    pub(super) fn answer_grants(&self, question: &GrantsQuestion) -> worker::Result<AdminAnswer> {
        Self::check_version(question.version)?;
        let (at, account) = (now(), question.account.as_str());
        let all = i64::from(question.admin);
        if let Some(id) = &question.revoke {
            let query = "SELECT json FROM call_grant WHERE id = ? AND confirmed = 1 AND expires_at > ? AND (? = 1 OR account = ? OR given_by = ?)";
            let bindings = vec![id.as_str().into(), cast(at), all.into(), account.into(), account.into()];
            let texts = self.texts(query, bindings)?;
            let Some(text) = texts.first() else {
                return Ok(AdminAnswer::fault(&Fault::missing("grant with that id")));
            };
            let grant: CallGrant = crate::json::from_str(text)?;
            self.in_transaction(|| {
                self.sql().exec("DELETE FROM call_grant WHERE id = ?", vec![id.as_str().into()])?;
                let detail = json!({ "address": grant.address, "account": grant.account, "givenBy": grant.by, "uses": grant.uses });
                self.note(By { account, via: &Via::Api }, "grant.revoke", Some(id), detail)
            })?;
            return Ok(AdminAnswer::done());
        }
        let (given_at, id) = match place_after(&question.page, (u64::MAX >> 12, "")) {
            Ok(place) => place,
            Err(fault) => return Ok(AdminAnswer::fault(&fault)),
        };
        let rows = self.rows(
            "SELECT json, given_at, id FROM call_grant WHERE confirmed = 1 AND expires_at > ? AND (? = 1 OR account = ? OR given_by = ?) AND (given_at, id) < (?, ?) ORDER BY given_at DESC, id DESC LIMIT ?",
            vec![
                cast(at),
                all.into(),
                account.into(),
                account.into(),
                cast(given_at),
                id.into(),
                cast(question.page.limit + 1),
            ],
        )?;
        page_of(&rows, &question.page, "grants", |row| {
            let grant: CallGrant = crate::json::from_str(text(row, 0).unwrap_or_default())?;
            Ok((grant.shown(), place_of(integer(row, 1), text(row, 2).unwrap_or_default())))
        })
    }
}
