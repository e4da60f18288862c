//! Requests to issuers and directories. Their addresses come from whoever runs the gateway.

use crate::catalog::openapi::request::HttpRequest;
use crate::outbound::refuse_address;
use crate::shell::outbound::{Limits, Outgoing, send};

/// Sends a request and reads the whole answer; says what went wrong, without anything of the request. A redirect is an answer:
/// keys come from where they are said to be.
pub(super) async fn ask(
    request: HttpRequest,
    bytes: usize,
    time_ms: u64,
    near: &str,
) -> Result<(u16, Vec<u8>), String> {
    // What an issuer names may be local only where the issuer is.
    let allow_local = refuse_address(near, false).is_some();
    let outgoing = Outgoing { follow_redirects: false, ..Outgoing::new(&request) };
    let answer = send(outgoing, Limits { time_ms, bytes, allow_local }).await.map_err(|error| error.to_string())?;
    Ok((answer.status, answer.body))
}

/// A GET for JSON.
pub(in crate::shell) fn get(url: &str) -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![("accept".to_owned(), "application/json".to_owned())],
        body: None,
    }
}
