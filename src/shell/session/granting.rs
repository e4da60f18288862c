//! Grants that a person gives with a decision.

use std::collections::BTreeMap;

use serde_json::json;

use super::Session;
use super::approvals::Seen;
use super::outcome::Failure;
use crate::approval::Verdict;
use crate::engine::{CallStatus, Decider, DecisionError, Edited, PauseTarget};
use crate::internal::DecisionRequest;
use crate::json::sha256_hex;
use crate::organization::grant::{CallGrant, HOURS_MOST, can_be_granted};
use crate::protocol::errors::WireError;
use crate::protocol::text::shortened;
use crate::shell::clock::now;
use crate::shell::invoke::definition_of;
use crate::shell::organization;
use crate::shell::random::random_hex;
use crate::shell::telemetry::log;

/// Characters of a grant's arguments that are listed.
const EXCERPT: usize = 1_000;

impl Session {
    /// Writes the grants that go with a decision, before it. They count once it is written; see
    /// `Runner::confirm_grants`.
    pub(super) async fn put_grants(
        &self,
        seen: &Seen,
        pause: &str,
        target: &PauseTarget,
        decider: &Decider,
        grants: &[CallGrant],
    ) -> Result<Result<(), DecisionError>, Failure> {
        let refused = seen.live.engine.borrow().would_decide(now(), pause, target.clone(), decider);
        if refused.is_err() {
            return Ok(refused);
        }
        for grant in grants {
            match organization::put_call_grant(&self.env, &seen.meta.organization, grant).await {
                Ok(Ok(())) => {}
                Ok(Err(problem)) => return Ok(Err(DecisionError::NoGrant { seq: grant.call, problem })),
                Err(error) => {
                    log("mcp_grant_not_written", json!({ "reason": error.to_string() }));
                    return Err(WireError::storage_unavailable().into());
                }
            }
        }
        Ok(Ok(()))
    }
}

/// The grants that are asked for with a decision.
pub(super) fn grants_of(
    seen: &Seen,
    pause: &str,
    asked: &DecisionRequest,
    edits: &BTreeMap<u32, Edited>,
    decider: &Decider,
) -> Result<Vec<CallGrant>, DecisionError> {
    let engine = seen.live.engine.borrow();
    let Some(row) = engine.pause(pause).filter(|_| !asked.grants.is_empty()) else { return Ok(Vec::new()) };
    let at = now();
    let mut grants = Vec::new();
    for call in engine.undecided(row, at) {
        let wanted = asked.grants.iter().find(|grant| grant.call.is_none_or(|seq| seq == call.seq));
        let (Some(wanted), Some(Verdict::Accept), Some(shown)) = (wanted, asked.verdict_on(call.seq), &call.shown)
        else {
            continue;
        };
        let refuse = |problem: &str| Err(DecisionError::NoGrant { seq: call.seq, problem: problem.to_owned() });
        if call.status != CallStatus::Waiting {
            return refuse("the tool asks something; answers are given one by one.");
        }
        if !can_be_granted(&call.address) {
            return refuse("what changes the gateway itself is asked about every time.");
        }
        let hours = wanted.hours.unwrap_or(HOURS_MOST);
        if !(1..=HOURS_MOST).contains(&hours) {
            return refuse("a grant lasts from 1 to 168 hours.");
        }
        let arguments = edits.get(&call.seq).map_or(shown.arguments.as_str(), |edited| &edited.arguments);
        let exact = wanted.hours.is_some();
        let id = random_hex::<16>().map_err(|_| DecisionError::NoGrant {
            seq: call.seq,
            problem: "no id could be drawn; try again.".to_owned(),
        })?;
        grants.push(CallGrant {
            id,
            account: seen.meta.account.clone(),
            address: call.address.clone(),
            definition: definition_of(shown),
            session: (!exact).then(|| seen.session.clone()),
            arguments: exact.then(|| sha256_hex(arguments.as_bytes())),
            excerpt: exact.then(|| shortened(arguments, EXCERPT)),
            by: decider.account.clone(),
            standing: decider.standing,
            execution: seen.live.id.clone(),
            call: call.seq,
            given_at: at,
            expires_at: at.saturating_add(hours * 3_600_000),
            uses: 0,
            last_use: None,
        });
    }
    Ok(grants)
}
