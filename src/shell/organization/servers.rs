//! How MCP servers were found when they were last asked: by imports, and by sessions that connect to them.

use serde_json::Value;

use super::object::OrganizationDurableObject;
use super::rows::text;
use crate::internal::{ServerSeen, ServerState};
use crate::shell::clock::now;

impl OrganizationDurableObject {
    /// Notes what somebody found. Of a source that is not there nothing is kept.
    pub(super) fn note_server(&self, seen: &ServerSeen) -> worker::Result<()> {
        Self::check_version(seen.version)?;
        if self.source(&seen.source)?.is_none() {
            return Ok(());
        }
        let state = self.server_state(&seen.source)?.unwrap_or_default().after(seen, now());
        self.sql().exec(
            "INSERT OR REPLACE INTO server_state (source, json) VALUES (?, ?)",
            vec![seen.source.as_str().into(), serde_json::to_string(&state)?.into()],
        )?;
        Ok(())
    }

    /// As the administration API shows it; `null` where the server was never asked.
    pub(super) fn server_shown(&self, source: &str) -> worker::Result<Value> {
        Ok(self.server_state(source)?.map_or(Value::Null, |state| state.shown()))
    }

    fn server_state(&self, source: &str) -> worker::Result<Option<ServerState>> {
        let rows = self.rows("SELECT json FROM server_state WHERE source = ?", vec![source.into()])?;
        rows.first().and_then(|row| text(row, 0)).map(|json| Ok(crate::json::from_str(json)?)).transpose()
    }
}
