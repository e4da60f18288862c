//! The demo API, answered from the organization's own inventory.

use serde_json::json;
use worker::{Request, Response, ResponseBuilder};

use super::object::OrganizationDurableObject;
use super::rows::{integer, text};
use crate::demo;
use crate::shell::http::{header, json_response, query_fields, read_body};

/// Bytes of a request to the demo API.
const DEMO_BODY_LIMIT: usize = 64 << 10;

impl OrganizationDurableObject {
    /// The demo API. A request that changes something and repeats an idempotency key gets the first
    /// answer again, and is not carried out again.
    pub(super) async fn demo(&self, mut request: Request, path: &str) -> worker::Result<Response> {
        if path == "/openapi.json" {
            return Ok(ResponseBuilder::new()
                .with_header("content-type", "application/json")?
                .fixed(demo::DOCUMENT.as_bytes().to_vec()));
        }
        let method = request.method().to_string();
        let key = header(request.headers(), "idempotency-key").filter(|_| method != "GET");
        let query = query_fields(&request.url()?);
        let Ok(body) = read_body(&mut request, DEMO_BODY_LIMIT).await else {
            return json_response(413, &json!({ "message": "The body is too large" }));
        };
        // No await from here on: reading, changing and remembering are one transaction.
        self.prepare()?;
        if let Some(key) = &key {
            let known = self.rows("SELECT status, body FROM demo_answer WHERE key = ?", vec![key.as_str().into()])?;
            if let Some(row) = known.first() {
                let status = integer(row, 0).and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
                return demo_response(status, text(row, 1));
            }
        }
        let stored = self.rows("SELECT value FROM meta WHERE key = 'demo-inventory'", vec![])?;
        let mut inventory = match stored.first().and_then(|row| text(row, 0)) {
            Some(json) => crate::json::from_str(json)?,
            None => demo::Inventory::default(),
        };
        let before = inventory.clone();
        let answer = demo::handle(&mut inventory, &method, path, &query, &body);
        let text = answer.body.as_ref().map(ToString::to_string);
        let sql = self.sql();
        if inventory != before {
            sql.exec(
                "INSERT OR REPLACE INTO meta (key, value) VALUES ('demo-inventory', ?)",
                vec![serde_json::to_string(&inventory)?.into()],
            )?;
        }
        if let Some(key) = key {
            sql.exec(
                "INSERT INTO demo_answer (key, status, body) VALUES (?, ?, ?)",
                vec![key.into(), i64::from(answer.status).into(), text.clone().into()],
            )?;
        }
        demo_response(answer.status, text.as_deref())
    }
}

fn demo_response(status: u16, body: Option<&str>) -> worker::Result<Response> {
    let builder = ResponseBuilder::new().with_status(status);
    match body {
        Some(body) => Ok(builder.with_header("content-type", "application/json")?.fixed(body.as_bytes().to_vec())),
        None => Ok(builder.empty()),
    }
}
