//! `PUT /api/webhooks/<slug>`: the URL and a new secret are encrypted here, before the organization's storage sees them.

use serde_json::Value;

use super::admin_api::Asks;
use super::organization;
use super::random::{random_bytes, random_hex};
use super::secrets;
use crate::credential::{SecretPlace, SecretsError};
use crate::internal::{AdminAnswer, VERSION, WebhookPut};
use crate::organization::fault::Fault;
use crate::organization::webhook::{Format, SealedText, parse_webhook, secret_of, shown_url};
use crate::outbound::refuse_address;

/// Random bytes of a secret; the specification wants 24 to 64.
const SECRET_BYTES: usize = 32;

/// Writes a webhook. The answer has the secret where a new one was made, and never again.
pub(super) async fn put(asks: &Asks<'_>, slug: &str, body: &str) -> worker::Result<AdminAnswer> {
    let asked = match parse_webhook(body) {
        Ok(asked) => asked,
        Err(fault) => return Ok(AdminAnswer::fault(&fault)),
    };
    let name = asks.principal.organization.as_str();
    let seal = |text: String| async move {
        let id = random_hex::<8>()?;
        let place = place_of(name, &id);
        Ok::<_, worker::Error>(secrets::seal(asks.env, &place, &text).await.map(|sealed| SealedText { id, sealed }))
    };
    let mut url = None;
    if let Some(text) = &asked.url {
        if let Some(refusal) = refuse_address(text, asks.settings.allow_local_network) {
            return Ok(AdminAnswer::fault(&Fault::field("url", format!("is not called: {refusal}"))));
        }
        match seal(text.clone()).await? {
            Ok(sealed) => url = Some((shown_url(text, asked.format), sealed)),
            Err(error) => return Ok(AdminAnswer::fault(&unsealable(&error))),
        }
    }
    let mut secret = None;
    let plain = secret_of(&random_bytes::<SECRET_BYTES>()?);
    if asked.format == Format::Standard {
        match seal(plain.clone()).await? {
            Ok(sealed) => secret = Some(sealed),
            Err(error) => return Ok(AdminAnswer::fault(&unsealable(&error))),
        }
    }
    let put = WebhookPut {
        version: VERSION,
        by: asks.principal.account.clone(),
        via: asks.via.clone(),
        organization: name.to_owned(),
        slug: slug.to_owned(),
        url,
        secret,
        format: asked.format,
        events: asked.events,
        arguments: asked.arguments,
        rotate_secret: asked.rotate_secret,
    };
    let mut answer = organization::put_webhook(asks.env, name, &put).await?;
    // The organization says that it took the secret; only here is it known.
    if let Some(secret) = answer.body.get_mut("secret").filter(|secret| **secret == Value::Bool(true)) {
        *secret = plain.into();
    }
    Ok(answer)
}

/// What a webhook's secret or URL is bound to.
pub(super) fn place_of<'p>(organization: &'p str, id: &'p str) -> SecretPlace<'p> {
    // Ids are random and never used again, also by no source, so none of them has a second version. 0 is none of a source's.
    SecretPlace { organization, credential: id, version: 0 }
}

fn unsealable(error: &SecretsError) -> Fault {
    let status = if matches!(error, SecretsError::Platform { .. }) { 503 } else { 400 };
    Fault::field("url", format!("cannot be stored: {error}")).with_status(status)
}
