//! Webhooks of the organization: what they are told waits in a table, and the alarm sends it.
//!
//! A message is a row from the transaction on that writes what it is about, and goes away when its endpoint took it or after its
//! last try. After a crash between the two it is sent again, under the same `webhook-id`. An endpoint that fails is tried less
//! and less often, and keeps nobody else waiting: each has its own turn.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::audit::By;
use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, text};
use crate::catalog::openapi::request::HttpRequest;
use crate::internal::{AdminAnswer, WebhookPut};
use crate::organization::fault::Fault;
use crate::organization::webhook::{
    Endpoint, Format, OLDEST_MS, OVERLAP_MS, QUEUE_LIMIT, SealedText, TRIES, WEBHOOKS_LIMIT, WebhookRow, body_of,
    signature, wait_after,
};
use crate::outbound::SendError;
use crate::protocol::time::iso_time;
use crate::session::events::Notice;
use crate::shell::clock::now;
use crate::shell::http::load_settings;
use crate::shell::outbound::{self, Limits, Outgoing};
use crate::shell::random::{random_bytes, random_hex};
use crate::shell::secrets;
use crate::shell::telemetry::log;
use crate::shell::webhooks::place_of;

/// How long an endpoint may take to answer, in milliseconds.
const ANSWER_MS: u64 = 10_000;
/// How long one endpoint's turn may take in one alarm, in milliseconds.
const TURN_MS: u64 = 20_000;

/// A message on its way.
struct Delivery {
    id: u64,
    message: String,
    tries: u32,
    body: String,
}

impl OrganizationDurableObject {
    pub(super) fn put_webhook(&self, put: WebhookPut) -> worker::Result<AdminAnswer> {
        Self::check_version(put.version)?;
        let by = By { account: &put.by, via: &put.via };
        let known = self.webhook(&put.slug)?.map(|(row, _)| row);
        if known.is_none() && self.count("SELECT COUNT(*) FROM webhook", vec![])? >= WEBHOOKS_LIMIT {
            let problem = format!("There are {WEBHOOKS_LIMIT} webhooks already; remove one first.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        let (shown, url) = match (put.url, &known) {
            (Some(url), _) => url,
            (None, Some(known)) if known.format == put.format => (known.shown.clone(), known.url.clone()),
            (None, Some(_)) => {
                return Ok(AdminAnswer::fault(&Fault::field("url", "is required where the format changes")));
            }
            (None, None) => return Ok(AdminAnswer::fault(&Fault::field("url", "is required"))),
        };
        let at = now();
        let old = known.as_ref().and_then(|known| known.secret.clone());
        let keeps = old.is_some() && !put.rotate_secret && put.secret.is_some();
        let is_new = put.secret.is_some() && !keeps;
        let (secret, previous) = if keeps {
            (old, known.as_ref().and_then(|known| known.previous.clone()))
        } else {
            (put.secret, old.filter(|_| is_new).map(|old| (old, at.saturating_add(OVERLAP_MS))))
        };
        let row = WebhookRow {
            format: put.format,
            events: put.events,
            arguments: put.arguments,
            shown,
            url,
            secret,
            previous,
            updated_at: at,
        };
        self.in_transaction(|| {
            self.put_meta("organization", &put.organization)?;
            // Written anew it gets a new chance.
            self.sql().exec(
                "INSERT OR REPLACE INTO webhook (slug, json, state, retry_at) VALUES (?, ?, ?, 0)",
                vec![
                    put.slug.as_str().into(),
                    serde_json::to_string(&row)?.into(),
                    serde_json::to_string(&Endpoint::default())?.into(),
                ],
            )?;
            let detail = json!({
                "format": row.format,
                "url": row.shown,
                "events": row.events,
                "arguments": row.arguments,
                "secret": if is_new { "made" } else { "kept" },
            });
            self.note(by, "webhook.put", Some(&put.slug), detail)
        })?;
        let mut shown = self.webhook_shown(&put.slug, &row, &Endpoint::default())?;
        if let Some(shown) = shown.as_object_mut().filter(|_| is_new) {
            shown.insert("secret".to_owned(), true.into());
        }
        Ok(AdminAnswer::new(if known.is_none() { 201 } else { 200 }, shown))
    }

    pub(super) fn list_webhooks(&self) -> worker::Result<AdminAnswer> {
        let slugs = self.texts("SELECT slug FROM webhook ORDER BY slug", vec![])?;
        let mut items = Vec::new();
        for slug in &slugs {
            if let Some((row, endpoint)) = self.webhook(slug)? {
                items.push(self.webhook_shown(slug, &row, &endpoint)?);
            }
        }
        Ok(AdminAnswer::page(&items, None))
    }

    pub(super) fn read_webhook(&self, slug: &str) -> worker::Result<AdminAnswer> {
        match self.webhook(slug)? {
            Some((row, endpoint)) => Ok(AdminAnswer::new(200, self.webhook_shown(slug, &row, &endpoint)?)),
            None => Ok(AdminAnswer::fault(&Fault::missing(format!("webhook {slug}")))),
        }
    }

    pub(super) fn delete_webhook(&self, by: By<'_>, slug: &str) -> worker::Result<AdminAnswer> {
        if self.webhook(slug)?.is_none() {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("webhook {slug}"))));
        }
        self.in_transaction(|| {
            self.sql().exec("DELETE FROM webhook WHERE slug = ?", vec![slug.into()])?;
            self.forget_deliveries(slug)?;
            self.note(by, "webhook.delete", Some(slug), json!({}))
        })?;
        Ok(AdminAnswer::done())
    }

    /// Never the secret; of Slack's URL the origin only.
    fn webhook_shown(&self, slug: &str, row: &WebhookRow, endpoint: &Endpoint) -> worker::Result<Value> {
        let pending = self.count("SELECT COUNT(*) FROM delivery WHERE webhook = ?", vec![slug.into()])?;
        Ok(json!({
            "slug": slug,
            "url": row.shown,
            "format": row.format,
            "events": row.events,
            "arguments": row.arguments,
            "state": endpoint.state(),
            "failures": endpoint.failures,
            "lastError": endpoint.failed.as_ref().map(|(_, why)| why),
            "lastErrorAt": endpoint.failed.as_ref().map(|(at, _)| iso_time(*at)),
            "deliveredAt": endpoint.delivered_at.map(iso_time),
            "pending": pending,
            "dropped": endpoint.dropped,
            "updatedAt": iso_time(row.updated_at),
        }))
    }

    fn webhook(&self, slug: &str) -> worker::Result<Option<(WebhookRow, Endpoint)>> {
        let rows = self.rows("SELECT json, state FROM webhook WHERE slug = ?", vec![slug.into()])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (json, state) = (text(row, 0).unwrap_or_default(), text(row, 1).unwrap_or_default());
        Ok(Some((crate::json::from_str(json)?, crate::json::from_str(state)?)))
    }

    fn put_endpoint(&self, slug: &str, endpoint: &Endpoint, retry_at: u64) -> worker::Result<()> {
        let bindings = vec![serde_json::to_string(endpoint)?.into(), cast(retry_at), slug.into()];
        self.sql().exec("UPDATE webhook SET state = ?, retry_at = ? WHERE slug = ?", bindings)?;
        Ok(())
    }

    fn forget_deliveries(&self, slug: &str) -> worker::Result<()> {
        self.sql().exec("DELETE FROM delivery WHERE webhook = ?", vec![slug.into()])?;
        Ok(())
    }

    // ---- messages -------------------------------------------------------------------------------

    /// Has every webhook told that wants to be. Part of the transaction that writes what it is about.
    pub(super) fn enqueue(&self, notice: &Notice) -> worker::Result<()> {
        for slug in self.texts("SELECT slug FROM webhook ORDER BY slug", vec![])? {
            let Some((row, mut endpoint)) = self.webhook(&slug)? else { continue };
            if endpoint.gone || !row.events.contains(&notice.event) {
                continue;
            }
            let body = body_of(row.format, &notice.event, &iso_time(notice.at), notice.data.clone(), row.arguments);
            let message = format!("msg_{}", random_hex::<16>()?);
            let at = now();
            self.sql().exec(
                "INSERT INTO delivery (webhook, message, at, tries, next_at, body) VALUES (?, ?, ?, 0, ?, ?)",
                vec![slug.as_str().into(), message.into(), cast(at), cast(at), body.into()],
            )?;
            let old =
                format!("SELECT id FROM delivery WHERE webhook = ? ORDER BY id DESC LIMIT -1 OFFSET {QUEUE_LIMIT}");
            let gone = self
                .rows(&format!("DELETE FROM delivery WHERE id IN ({old}) RETURNING id"), vec![slug.as_str().into()])?;
            if !gone.is_empty() {
                endpoint.dropped += u64::try_from(gone.len()).unwrap_or(0);
                let state = serde_json::to_string(&endpoint)?;
                self.sql()
                    .exec("UPDATE webhook SET state = ? WHERE slug = ?", vec![state.into(), slug.as_str().into()])?;
            }
        }
        Ok(())
    }

    /// When the next message is to be sent.
    pub(super) fn next_delivery(&self) -> worker::Result<Option<u64>> {
        let rows = self.rows(
            "SELECT MIN(MAX(retry_at, (SELECT MIN(next_at) FROM delivery WHERE webhook = slug))) FROM webhook",
            vec![],
        )?;
        Ok(rows.first().and_then(|row| integer(row, 0)))
    }

    /// Sends what is due, each webhook's beside the others'.
    pub(super) async fn send_due(&self) -> worker::Result<()> {
        let slugs = self.texts(
            "SELECT slug FROM webhook WHERE retry_at <= ?1 AND EXISTS (SELECT 1 FROM delivery WHERE webhook = slug AND next_at <= ?1)",
            vec![cast(now())],
        )?;
        for result in join_all(slugs.iter().map(|slug| self.send_to(slug))).await {
            result?;
        }
        Ok(())
    }

    async fn send_to(&self, slug: &str) -> worker::Result<()> {
        let began = now();
        let Some((row, _)) = self.webhook(slug)? else { return Ok(()) };
        let opened = self.open_webhook(&row).await;
        while now().saturating_sub(began) < TURN_MS {
            self.drop_old(slug)?;
            let Some(delivery) = self.due(slug)? else { return Ok(()) };
            let outcome = match &opened {
                Ok((url, secrets)) => self.post(url, secrets, &row, &delivery).await,
                Err(why) => Err(why.clone()),
            };
            // Written anew or removed meanwhile: what was found is of another one.
            let Some((now_row, mut endpoint)) = self.webhook(slug)? else { return Ok(()) };
            if now_row != row {
                if outcome.is_ok_and(|status| (200..300).contains(&status)) {
                    self.forget_delivery(delivery.id)?;
                }
                return Ok(());
            }
            let (at, settings) = (now(), load_settings(&self.env));
            let settings = settings.map_err(|error| worker::Error::RustError(error.to_string()))?;
            let why = match outcome {
                Ok(200..=299) => {
                    endpoint = Endpoint { failures: 0, delivered_at: Some(at), ..endpoint };
                    self.in_transaction(|| {
                        self.forget_delivery(delivery.id)?;
                        self.put_endpoint(slug, &endpoint, 0)
                    })?;
                    continue;
                }
                Ok(410) => {
                    endpoint = Endpoint { gone: true, failed: Some((at, "HTTP 410".to_owned())), ..endpoint };
                    log("webhook_gone", json!({ "webhook": slug }));
                    return self.in_transaction(|| {
                        self.forget_deliveries(slug)?;
                        self.put_endpoint(slug, &endpoint, 0)
                    });
                }
                Ok(status) => format!("HTTP {status}"),
                Err(why) => why,
            };
            log("webhook_failed", json!({ "webhook": slug, "tries": delivery.tries + 1, "reason": why }));
            let [random] = random_bytes::<1>()?;
            let wait = |tries: u32| at.saturating_add(wait_after(tries, settings.webhook_retry_ms, random));
            endpoint.failures = endpoint.failures.saturating_add(1);
            endpoint.failed = Some((at, why));
            return self.in_transaction(|| {
                if delivery.tries + 1 >= TRIES {
                    self.forget_delivery(delivery.id)?;
                    endpoint.dropped += 1;
                } else {
                    let tries = delivery.tries + 1;
                    let bindings = vec![cast(u64::from(tries)), cast(wait(tries)), cast(delivery.id)];
                    self.sql().exec("UPDATE delivery SET tries = ?, next_at = ? WHERE id = ?", bindings)?;
                }
                self.put_endpoint(slug, &endpoint, wait(endpoint.failures))
            });
        }
        Ok(())
    }

    fn due(&self, slug: &str) -> worker::Result<Option<Delivery>> {
        let query = "SELECT id, message, tries, body FROM delivery WHERE webhook = ? AND next_at <= ? ORDER BY next_at, id LIMIT 1";
        let rows = self.rows(query, vec![slug.into(), cast(now())])?;
        Ok(rows.first().map(|row| Delivery {
            id: integer(row, 0).unwrap_or(0),
            message: text(row, 1).unwrap_or_default().to_owned(),
            tries: integer(row, 2).and_then(|tries| u32::try_from(tries).ok()).unwrap_or(0),
            body: text(row, 3).unwrap_or_default().to_owned(),
        }))
    }

    fn forget_delivery(&self, id: u64) -> worker::Result<()> {
        self.sql().exec("DELETE FROM delivery WHERE id = ?", vec![cast(id)])?;
        Ok(())
    }

    fn drop_old(&self, slug: &str) -> worker::Result<()> {
        let until = cast(now().saturating_sub(OLDEST_MS));
        let gone =
            self.rows("DELETE FROM delivery WHERE webhook = ? AND at <= ? RETURNING id", vec![slug.into(), until])?;
        if let (false, Some((_, mut endpoint))) = (gone.is_empty(), self.webhook(slug)?) {
            endpoint.dropped += u64::try_from(gone.len()).unwrap_or(0);
            let state = serde_json::to_string(&endpoint)?;
            self.sql().exec("UPDATE webhook SET state = ? WHERE slug = ?", vec![state.into(), slug.into()])?;
        }
        Ok(())
    }

    /// The URL, and the secrets that sign; or why they cannot be read.
    async fn open_webhook(&self, row: &WebhookRow) -> Result<(String, Vec<String>), String> {
        let organization = self.meta("organization").ok().flatten().unwrap_or_default();
        let organization = organization.as_str();
        let open = |sealed: SealedText| async move {
            let place = place_of(organization, &sealed.id);
            secrets::open(&self.env, &place, &sealed.sealed).await.map_err(|error| error.to_string())
        };
        let url = open(row.url.clone()).await?;
        let previous = row.previous.as_ref().filter(|(_, until)| *until > now()).map(|(secret, _)| secret);
        let mut secrets = Vec::new();
        for secret in row.secret.iter().chain(previous) {
            secrets.push(open(secret.clone()).await?);
        }
        Ok((url, secrets))
    }

    /// The status of the answer, or why there is none, in words that say nothing of the URL.
    async fn post(&self, url: &str, secrets: &[String], row: &WebhookRow, delivery: &Delivery) -> Result<u16, String> {
        let settings = load_settings(&self.env).map_err(|error| error.to_string())?;
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if row.format == Format::Standard {
            let timestamp = now() / 1_000;
            headers.push(("webhook-id".to_owned(), delivery.message.clone()));
            headers.push(("webhook-timestamp".to_owned(), timestamp.to_string()));
            let signed = signature(secrets, &delivery.message, timestamp, &delivery.body);
            headers.push(("webhook-signature".to_owned(), signed));
        }
        let body = Some(delivery.body.clone().into_bytes());
        let request = HttpRequest { method: "POST".to_owned(), url: url.to_owned(), headers, body };
        let outgoing = Outgoing { follow_redirects: false, ..Outgoing::new(&request) };
        let limits = Limits { time_ms: ANSWER_MS, bytes: 0, allow_local: settings.allow_local_network };
        match outbound::open(outgoing, limits).await {
            Ok(answer) => Ok(answer.status),
            Err(SendError::AddressRefused(refusal)) => Err(refusal.to_string()),
            Err(SendError::Timeout { limit_ms, .. }) => Err(format!("no answer within {limit_ms} ms")),
            Err(
                SendError::OriginNotConfirmed { .. }
                | SendError::CredentialUnavailable { .. }
                | SendError::Unsendable { .. }
                | SendError::Broken { .. }
                | SendError::TooLarge { .. },
            ) => Err("it could not be reached, or broke off".to_owned()),
        }
    }
}
