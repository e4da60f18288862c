//! What the programs of a session did, for its owner.

use worker::Response;

use super::Session;
use super::outcome::Failure;
use crate::console::history::{HistoryView, PAGE, execution_view};
use crate::internal::Context;
use crate::protocol::errors::WireError;
use crate::session::id::ExecutionId;
use crate::shell::http::json_response;

/// Bytes of a journal up to which its calls are listed.
const LISTED_BYTES: u64 = 1 << 20;

impl Session {
    /// One page, newest first. `after` is the `next` of the page before.
    pub(super) fn history(&self, context: &Context, after: Option<&str>) -> Result<Response, Failure> {
        let Some(meta) = self.meta()? else {
            return Err(WireError::session_not_found().into());
        };
        if !meta.is_owned_by(&context.principal) {
            return Err(WireError::not_the_owner().into());
        }
        let (store, holder) = (self.store()?, self.runner()?.object_id());
        let after = match after.map(|text| text.split_once('-').map(|(at, id)| (at.parse::<u64>(), id))) {
            None => None,
            Some(Some((Ok(at), id))) => Some((at, id)),
            Some(_) => return Err(WireError::bad_request("This is no page of a history").into()),
        };
        let mut ids = store.executions_before(after, PAGE + 1)?;
        let more = ids.len() > PAGE;
        ids.truncate(PAGE);
        let next = ids.last().filter(|_| more).map(|(at, id)| format!("{at}-{id}"));
        let open = self.runner()?.open();
        let mut executions = Vec::new();
        for (_, id) in &ids {
            let Some(row) = store.execution(id)? else { continue };
            // A read on its way may not be written yet.
            let live = open.iter().find(|live| live.id == *id).map(|live| live.engine.borrow());
            let listed = row.journal_bytes <= LISTED_BYTES;
            let calls = match &live {
                _ if !listed => None,
                Some(engine) => Some(engine.calls().to_vec()),
                None => Some(store.calls(id)?),
            };
            let count = match &live {
                Some(engine) => u64::try_from(engine.calls().len()).unwrap_or(u64::MAX),
                None => store.count_calls(id)?,
            };
            let pauses = store.pauses(id)?;
            let encode = |pause: &str| ExecutionId::encode(&holder, pause).unwrap_or_default();
            executions.push(execution_view(&row, count, calls.as_deref(), &pauses, encode));
        }
        Ok(json_response(200, &serde_json::to_value(HistoryView { executions, next }).map_err(worker::Error::from)?)?)
    }
}
