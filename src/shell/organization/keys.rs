//! API keys: made, listed, revoked and looked up. Of a secret only a hash is ever stored.

use serde_json::json;
use worker::SqlStorageValue;

use super::audit::By;
use super::object::OrganizationDurableObject;
use super::rows::{Row, cast, integer, page_of, text};
use crate::auth::api_key::{ID_BYTES, KeyRecord, LAST_USE_EVERY_MS, SECRET_BYTES, new_key};
use crate::auth::same_bytes;
use crate::internal::{AdminAnswer, KeyQuestion};
use crate::organization::cursor::Page;
use crate::organization::fault::Fault;
use crate::organization::keys::{KEYS_LIMIT, NewKey};
use crate::protocol::time::iso_time;
use crate::shell::clock::now;
use crate::shell::random::{random_bytes, random_hex};

impl OrganizationDurableObject {
    /// The key that was presented, while it counts. Writes nothing for an organization or a key that is not there: anybody can
    /// ask, under any name.
    pub(super) fn find_key(&self, question: &KeyQuestion) -> worker::Result<Option<KeyRecord>> {
        Self::check_version(question.version)?;
        if self.rows("SELECT name FROM sqlite_master WHERE name = 'api_key'", vec![])?.is_empty() {
            return Ok(None);
        }
        let query = "SELECT hash, json, last_used FROM api_key WHERE id = ?";
        let rows = self.rows(query, vec![question.id.as_str().into()])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        if !same_bytes(text(row, 0).unwrap_or_default().as_bytes(), question.hash.as_bytes()) {
            return Ok(None);
        }
        let record: KeyRecord = crate::json::from_str(text(row, 1).unwrap_or_default())?;
        let at = now();
        if record.expires_at.is_some_and(|end| end <= at) {
            return Ok(None);
        }
        if at.saturating_sub(integer(row, 2).unwrap_or(0)) >= LAST_USE_EVERY_MS {
            let bindings = vec![cast(at), question.id.as_str().into()];
            self.sql().exec("UPDATE api_key SET last_used = ? WHERE id = ?", bindings)?;
        }
        Ok(Some(record))
    }

    pub(super) fn create_key(&self, by: By<'_>, organization: &str, asked: &NewKey) -> worker::Result<AdminAnswer> {
        let at = now();
        if asked.expires_at.is_some_and(|end| end <= at) {
            return Ok(AdminAnswer::fault(&Fault::field("expiresAt", "is over already")));
        }
        if self.count("SELECT COUNT(*) FROM api_key", vec![])? >= KEYS_LIMIT {
            let problem = format!("There are {KEYS_LIMIT} keys already; revoke one first.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        let id = random_hex::<ID_BYTES>()?;
        let (key, hash) = new_key(asked.purpose, &id, organization, &random_bytes::<SECRET_BYTES>()?);
        let record = KeyRecord {
            name: asked.name.clone(),
            purpose: asked.purpose,
            account: asked.account.clone().unwrap_or_else(|| by.account.to_owned()),
            created_by: by.account.to_owned(),
            created_at: at,
            expires_at: asked.expires_at,
        };
        self.in_transaction(|| {
            let json = serde_json::to_string(&record)?;
            let bindings: Vec<SqlStorageValue> = vec![id.as_str().into(), hash.into(), json.into()];
            self.sql().exec("INSERT INTO api_key (id, hash, json, last_used) VALUES (?, ?, ?, 0)", bindings)?;
            let detail = json!({ "name": record.name, "purpose": record.purpose, "account": record.account });
            self.note(by, "key.create", Some(&id), detail)
        })?;
        let mut shown = shown(&id, &record, 0);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("key".to_owned(), key.into());
        }
        Ok(AdminAnswer::new(201, shown))
    }

    pub(super) fn list_keys(&self, page: &Page) -> worker::Result<AdminAnswer> {
        let after = page.after.as_deref().unwrap_or_default();
        let query = "SELECT id, json, last_used FROM api_key WHERE id > ? ORDER BY id LIMIT ?";
        let rows = self.rows(query, vec![after.into(), cast(page.limit + 1)])?;
        page_of(&rows, page, "keys", |row| Ok((shown_row(row)?, text(row, 0).unwrap_or_default().to_owned())))
    }

    pub(super) fn delete_key(&self, by: By<'_>, id: &str) -> worker::Result<AdminAnswer> {
        let texts = self.texts("SELECT json FROM api_key WHERE id = ?", vec![id.into()])?;
        let Some(record) = texts.first() else {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("key {id}"))));
        };
        let record: KeyRecord = crate::json::from_str(record)?;
        self.in_transaction(|| {
            self.sql().exec("DELETE FROM api_key WHERE id = ?", vec![id.into()])?;
            let detail = json!({ "name": record.name, "purpose": record.purpose, "account": record.account });
            self.note(by, "key.revoke", Some(id), detail)
        })?;
        Ok(AdminAnswer::done())
    }
}

fn shown_row(row: &Row) -> worker::Result<serde_json::Value> {
    let record: KeyRecord = crate::json::from_str(text(row, 1).unwrap_or_default())?;
    Ok(shown(text(row, 0).unwrap_or_default(), &record, integer(row, 2).unwrap_or(0)))
}

fn shown(id: &str, record: &KeyRecord, last_used: u64) -> serde_json::Value {
    json!({
        "id": id,
        "name": record.name,
        "purpose": record.purpose,
        "account": record.account,
        "createdBy": record.created_by,
        "createdAt": iso_time(record.created_at),
        "expiresAt": record.expires_at.map(iso_time),
        "lastUsedAt": Some(last_used).filter(|at| *at > 0).map(iso_time),
    })
}
