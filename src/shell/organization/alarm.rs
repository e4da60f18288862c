//! The one alarm of an organization object: telling sessions of changes, sending to webhooks, and forgetting old entries of the
//! audit log. One function sets it.

use futures_util::future::join;
use serde_json::json;

use super::object::OrganizationDurableObject;
use crate::shell::clock::now;
use crate::shell::runner::set_alarm;
use crate::shell::telemetry::log_error;

/// When sessions are to be told that the catalog changed; there while they are.
pub(super) const TELL_AT: &str = "tell-at-ms";
/// When the alarm rings again after something failed, in milliseconds.
const RETRY_MS: u64 = 60_000;

impl OrganizationDurableObject {
    /// Sets the alarm to the earliest thing that it is needed for. The only caller of `set_alarm` for this object but for what
    /// follows a failure.
    pub(super) fn rearm(&self) -> worker::Result<()> {
        let tell = self.meta(TELL_AT)?.and_then(|text| text.parse::<u64>().ok());
        let wanted = [tell, self.next_delivery()?, self.next_sweep()?].into_iter().flatten().min();
        if let Some(at) = wanted {
            set_alarm(&self.state.storage(), at);
        }
        Ok(())
    }

    /// The alarm rang. Never an error: the platform drops an alarm after six.
    pub(super) async fn ring(&self) {
        let (told, sent) = join(self.tell_if_due(), self.send_due()).await;
        let swept = self.sweep_audit();
        for (what, result) in [("tell", told), ("send", sent), ("sweep", swept)] {
            if let Err(error) = result {
                log_error("mcp_organization_alarm_failed", json!({ "what": what, "reason": error.to_string() }));
                set_alarm(&self.state.storage(), now().saturating_add(RETRY_MS));
                return;
            }
        }
        if let Err(error) = self.rearm() {
            log_error("mcp_organization_alarm_failed", json!({ "what": "rearm", "reason": error.to_string() }));
            set_alarm(&self.state.storage(), now().saturating_add(RETRY_MS));
        }
    }

    async fn tell_if_due(&self) -> worker::Result<()> {
        self.prepare()?;
        let due = self.meta(TELL_AT)?.and_then(|text| text.parse::<u64>().ok()).is_some_and(|at| at <= now());
        if !due {
            return Ok(());
        }
        // Before anybody is told: a change meanwhile is told once more.
        self.sql().exec("DELETE FROM meta WHERE key = ?", vec![TELL_AT.into()])?;
        self.tell_subscribers().await
    }
}
