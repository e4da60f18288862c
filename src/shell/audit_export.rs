//! `GET /api/audit?format=jsonl`: the whole audit log, oldest first, as lines of JSON. A part at a time is in memory.

use futures_util::stream::try_unfold;
use worker::{Env, Response, ResponseBuilder};

use super::organization::export_audit;

/// The answer. The first part is there before it begins, so that a failure is a status; a later one breaks it off, and the line
/// that says where the log ends is missing then.
pub(super) async fn audit_lines(env: &Env, organization: &str) -> worker::Result<Response> {
    let first = export_audit(env, organization, None).await?;
    let (env, organization) = (env.clone(), organization.to_owned());
    let parts = try_unfold(Some(first), move |part| {
        let (env, organization) = (env.clone(), organization.clone());
        async move {
            let Some(part) = part else { return Ok(None) };
            let next = match part.after {
                Some(after) => Some(export_audit(&env, &organization, Some(after)).await?),
                None => None,
            };
            Ok::<_, worker::Error>(Some((part.text.into_bytes(), next)))
        }
    });
    ResponseBuilder::new()
        .with_header("content-type", "application/jsonl; charset=utf-8")?
        .with_header("content-disposition", "attachment; filename=\"audit.jsonl\"")?
        .with_header("cache-control", "no-store")?
        .with_header("x-content-type-options", "nosniff")?
        .from_stream(parts)
}
