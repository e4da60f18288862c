//! The directory: who belongs to an organization, as somebody else's server knows it.

use std::cell::RefCell;

use serde_json::json;
use url::Url;

use super::fetching::{ask, get};
use crate::auth::Cause;
use crate::auth::membership::{DIRECTORY_BYTES, DirectoryAnswer, Member, read_directory_answer};
use crate::auth::memory::Memory;
use crate::auth::settings::Directory;
use crate::shell::clock::now;
use crate::shell::telemetry::log_error;

/// How long an answer counts, in milliseconds.
const MEMBER_MS: u64 = 30_000;
/// How long a no counts: somebody who is added should not have to wait.
const NOT_A_MEMBER_MS: u64 = 5_000;
/// Answers that are remembered.
const REMEMBERED: usize = 2_000;

thread_local! {
    /// By organization and account.
    static ANSWERS: RefCell<Memory<(String, String), DirectoryAnswer, REMEMBERED>> = RefCell::default();
}

/// What the directory says of a member, and until when that counts. What cannot be told is not remembered, and ends nothing.
pub(super) async fn look_up(
    directory: &Directory,
    member: &Member,
    time_ms: u64,
) -> Result<(DirectoryAnswer, u64), Cause> {
    let key = (member.organization.clone(), member.account.clone());
    let asked_at = now();
    if let Some(known) = ANSWERS.with_borrow(|answers| answers.recall(&key, asked_at)) {
        return Ok(known);
    }
    let answer = match fetch(directory, member, time_ms).await {
        Ok((status, body)) => match read_directory_answer(status, &body) {
            DirectoryAnswer::Unknown => Err(format!("it answered {status} without a membership")),
            answer @ (DirectoryAnswer::Member { .. } | DirectoryAnswer::NotAMember) => Ok(answer),
        },
        Err(reason) => Err(reason),
    };
    let answer = answer.map_err(|reason| {
        log_error("mcp_directory_unavailable", json!({ "reason": reason }));
        Cause::Infrastructure
    })?;
    let span = if answer == DirectoryAnswer::NotAMember { NOT_A_MEMBER_MS } else { MEMBER_MS };
    let until = asked_at.saturating_add(span);
    ANSWERS.with_borrow_mut(|answers| answers.remember(key, answer, until, asked_at));
    Ok((answer, until))
}

async fn fetch(directory: &Directory, member: &Member, time_ms: u64) -> Result<(u16, Vec<u8>), String> {
    let mut url = Url::parse(&directory.url).map_err(|_| "DIRECTORY_URL is no URL".to_owned())?;
    url.query_pairs_mut().append_pair("account", &member.account).append_pair("organization", &member.organization);
    let mut request = get(url.as_str());
    if let Some(token) = &directory.token {
        request.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
    }
    ask(request, DIRECTORY_BYTES, time_ms, &directory.url).await
}
