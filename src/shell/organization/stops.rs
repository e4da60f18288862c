//! Stops of the organization. What they hold back is found out where a call is looked up; see `ARCHITECTURE.md`.

use serde_json::{Value, json};

use super::audit::By;
use super::object::OrganizationDurableObject;
use crate::internal::AdminAnswer;
use crate::organization::fault::Fault;
use crate::organization::stop::{STOPS_LIMIT, Stop};
use crate::protocol::time::iso_time;
use crate::shell::clock::now;

/// Where they are kept.
const STOPS: &str = "stops";

impl OrganizationDurableObject {
    pub(super) fn stops(&self) -> worker::Result<Vec<Stop>> {
        Ok(self.meta(STOPS)?.map(|text| crate::json::from_str(&text)).transpose()?.unwrap_or_default())
    }

    pub(super) fn list_stops(&self) -> worker::Result<AdminAnswer> {
        Ok(AdminAnswer::page(&self.stops()?.iter().map(shown).collect::<Vec<_>>(), None))
    }

    pub(super) fn put_stop(&self, by: By<'_>, scope: &str, reason: Option<String>) -> worker::Result<AdminAnswer> {
        // A mistyped source would stop nothing, and nobody would notice.
        if let Some(slug) = scope.strip_prefix("source:")
            && self.source(slug)?.is_none()
        {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("source {slug}"))));
        }
        let mut stops = self.stops()?;
        let is_new = !stops.iter().any(|stop| stop.scope == scope);
        stops.retain(|stop| stop.scope != scope);
        if stops.len() >= STOPS_LIMIT {
            let problem = format!("There are {STOPS_LIMIT} stops already; remove one, or stop the organization.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        let stop = Stop { scope: scope.to_owned(), reason, by: by.account.to_owned(), at: now() };
        stops.push(stop.clone());
        stops.sort_by(|left, right| left.scope.cmp(&right.scope));
        self.in_transaction(|| {
            self.put_meta(STOPS, &serde_json::to_string(&stops)?)?;
            self.note(by, "stop.put", Some(scope), json!({ "reason": stop.reason }))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::new(if is_new { 201 } else { 200 }, shown(&stop)))
    }

    pub(super) fn delete_stop(&self, by: By<'_>, scope: &str) -> worker::Result<AdminAnswer> {
        let mut stops = self.stops()?;
        let count = stops.len();
        stops.retain(|stop| stop.scope != scope);
        if stops.len() == count {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("stop of {scope}"))));
        }
        self.in_transaction(|| {
            self.put_meta(STOPS, &serde_json::to_string(&stops)?)?;
            self.note(by, "stop.delete", Some(scope), json!({}))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::done())
    }
}

fn shown(stop: &Stop) -> Value {
    json!({ "scope": stop.scope, "reason": stop.reason, "by": stop.by, "since": iso_time(stop.at) })
}
