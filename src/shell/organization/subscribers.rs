//! Sessions with an open stream, which are told when the catalog changes.

use serde_json::json;
use worker::Env;

use super::object::OrganizationDurableObject;
use super::rows::text;
use crate::auth::{Principal, Purpose};
use crate::internal::{Asked, Context, Operation, VERSION};
use crate::protocol::trace::Trace;
use crate::shell::clock::now;
use crate::shell::http::own_request;
use crate::shell::telemetry::log;

/// Sessions that are told at the same time.
const TOLD_AT_ONCE: usize = 6;

impl OrganizationDurableObject {
    pub(super) fn subscribe(&self, organization: &str, session: &str) -> worker::Result<()> {
        if self.meta("organization")?.as_deref() != Some(organization) {
            self.put_meta("organization", organization)?;
        }
        self.sql().exec("INSERT OR IGNORE INTO subscriber (session) VALUES (?)", vec![session.into()])?;
        Ok(())
    }

    pub(super) async fn tell_subscribers(&self) -> worker::Result<()> {
        self.prepare()?;
        self.put_meta("told-at-ms", &now().to_string())?;
        let organization = self.meta("organization")?.unwrap_or_default();
        let rows = self.rows("SELECT session FROM subscriber ORDER BY session", vec![])?;
        let sessions: Vec<&str> = rows.iter().filter_map(|row| text(row, 0)).collect();
        // A few at a time: the platform opens no more connections at once.
        for group in sessions.chunks(TOLD_AT_ONCE) {
            let told = group.iter().map(|session| tell_session(&self.env, &organization, session));
            for (session, reads) in group.iter().zip(futures_util::future::join_all(told).await) {
                match reads {
                    Ok(true) => {}
                    Ok(false) => {
                        self.sql().exec("DELETE FROM subscriber WHERE session = ?", vec![(*session).into()])?;
                    }
                    Err(error) => {
                        log(
                            "mcp_catalog_change_not_told",
                            json!({ "sessionId": session, "reason": error.to_string() }),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// Tells one session; `false` when nobody reads there any more.
async fn tell_session(env: &Env, organization: &str, session: &str) -> worker::Result<bool> {
    let context = Context {
        version: VERSION,
        // Nobody's request: the session checks the organization.
        principal: Principal {
            account: String::new(),
            organization: organization.to_owned(),
            admin: false,
            purpose: Purpose::Mcp,
        },
        resource: String::new(),
        public_origin: String::new(),
        asked: Asked::default(),
        trace: Trace::default(),
        operation: Operation::CatalogChanged,
    };
    let object = env.durable_object("SESSION")?.id_from_string(session)?.get_stub()?;
    let response = object.fetch_with_request(own_request("https://session.internal/changed", &context, "")?).await?;
    match response.status_code() {
        200 => Ok(true),
        404 => Ok(false),
        status => Err(worker::Error::RustError(format!("the session answered {status}"))),
    }
}
