//! Webhooks: what an administrator says of one, what is stored, what a message says, how it is signed, when it is tried again.
//!
//! Messages follow the Standard Webhooks specification (<https://www.standardwebhooks.com>, 1.0.0): the headers `webhook-id`,
//! `webhook-timestamp` and `webhook-signature`, and `{type, timestamp, data}` as body. A message never decides anything and
//! carries no secret; arguments only where an administrator wants them there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::Fault;
use super::fields::Fields;
use super::text::parse_url;
use crate::auth::signed::hmac_sha256;

/// Webhooks of an organization.
pub const WEBHOOKS_LIMIT: u64 = 20;
/// Messages that wait for one webhook; the oldest go when there are more.
pub const QUEUE_LIMIT: u64 = 1_000;
/// How often one message is sent at most; an endpoint that failed so often in a row counts as dead.
pub const TRIES: u32 = 8;
/// The longest wait between two tries, in milliseconds.
const LONGEST_WAIT_MS: u64 = 6 * 3_600_000;
/// How old a message may become before it is dropped, in milliseconds.
pub const OLDEST_MS: u64 = 3 * 86_400_000;
/// How long the secret before a rotation still signs, in milliseconds.
pub const OVERLAP_MS: u64 = 86_400_000;
/// What may be told.
pub const EVENTS: [&str; 4] = ["waiting", "decided", "expired", "finished"];
/// Before the secret of a webhook.
pub const SECRET_PREFIX: &str = "whsec_";
/// Characters of what Slack shows of the calls; it takes 3 000.
const SLACK_CHARS: usize = 2_500;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A program that knows the specification.
    Standard,
    /// An incoming webhook of Slack's, whose URL is the secret.
    Slack,
}

/// A webhook that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRequest {
    /// Where messages go; `None` leaves what was stored.
    pub url: Option<String>,
    /// Who reads them.
    pub format: Format,
    /// Some of [`EVENTS`].
    pub events: Vec<String>,
    /// Whether messages carry arguments.
    pub arguments: bool,
    /// Whether there is to be a new secret.
    pub rotate_secret: bool,
}

/// Reads `{url, format?, events?, arguments?, rotateSecret?}`.
pub fn parse_webhook(body: &str) -> Result<WebhookRequest, Fault> {
    let mut fields = Fields::read(body, "The body", "")?;
    let url = fields.text("url", usize::MAX)?.map(|url| parse_url("url", &url)).transpose()?;
    let format = match fields.text("format", 20)?.as_deref() {
        None | Some("standard") => Format::Standard,
        Some("slack") => Format::Slack,
        Some(_) => return Err(Fault::field("format", "has to be standard or slack")),
    };
    let events = match fields.list("events", EVENTS.len())? {
        None => EVENTS.iter().map(|event| (*event).to_owned()).collect(),
        Some(events) => {
            let wrong = || Fault::field("events", format!("has to be a list of some of {}", EVENTS.join(", ")));
            let known = |event: &Value| event.as_str().filter(|event| EVENTS.contains(event)).map(ToOwned::to_owned);
            let events = events.iter().map(known).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            if events.is_empty() { Err(wrong()) } else { Ok(events) }?
        }
    };
    let arguments = fields.flag("arguments")?;
    let rotate_secret = fields.flag("rotateSecret")?;
    fields.end("url, format, events, arguments and rotateSecret")?;
    Ok(WebhookRequest { url, format, events, arguments, rotate_secret })
}

/// Whether a text can be a webhook's slug.
#[must_use]
pub fn is_webhook(slug: &str) -> bool {
    super::slug::is_toolkit(slug) || slug == "default"
}

/// A text that only the holder of the gateway's key can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedText {
    /// A part of what it is bound to; no two have the same.
    pub id: String,
    /// The encrypted text.
    pub sealed: String,
}

/// A webhook, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookRow {
    /// Who reads its messages.
    pub format: Format,
    /// What it is told.
    pub events: Vec<String>,
    /// Whether messages carry arguments.
    pub arguments: bool,
    /// What may be shown of the URL.
    pub shown: String,
    /// The URL.
    pub url: SealedText,
    /// What messages are signed with; `None` for Slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SealedText>,
    /// The secret before it, and until when it signs too, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<(SealedText, u64)>,
    /// When it was written last, likewise.
    pub updated_at: u64,
}

/// What may be shown of a URL: of Slack's the origin, because the rest is the secret.
#[must_use]
pub fn shown_url(url: &str, format: Format) -> String {
    match (format, url::Url::parse(url)) {
        (Format::Slack, Ok(url)) => format!("{}/…", url.origin().ascii_serialization()),
        (Format::Slack, Err(_)) => "…".to_owned(),
        (Format::Standard, _) => url.to_owned(),
    }
}

/// How the endpoint was found, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// It said that it is gone (410): nothing is sent until the webhook is written again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Tries in a row that were not successful.
    pub failures: u32,
    /// When the last message was taken, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<u64>,
    /// When one was not taken the last time, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<(u64, String)>,
    /// Messages that were given up.
    pub dropped: u64,
}

impl Endpoint {
    /// `ok`, `failing`, `dead` or `gone`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.failures {
            _ if self.gone => "gone",
            0 => "ok",
            failures if failures < TRIES => "failing",
            _ => "dead",
        }
    }
}

/// How long to wait after so many tries, in milliseconds: `base`, and each time four times as long, six hours at most. `random`
/// makes it up to a fifth longer, so that what failed together does not come back together.
#[must_use]
pub fn wait_after(tries: u32, base: u64, random: u8) -> u64 {
    let wait = base.saturating_mul(4_u64.saturating_pow(tries.saturating_sub(1))).min(LONGEST_WAIT_MS);
    wait + wait / 5 * u64::from(random) / 255
}

/// The value of `webhook-signature`, for each secret one signature.
#[must_use]
pub fn signature(secrets: &[String], id: &str, timestamp: u64, body: &str) -> String {
    let signed = format!("{id}.{timestamp}.{body}");
    let one = |secret: &String| {
        let key = STANDARD.decode(secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret)).unwrap_or_default();
        format!("v1,{}", STANDARD.encode(hmac_sha256(&key, signed.as_bytes())))
    };
    secrets.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A secret of these random bytes.
#[must_use]
pub fn secret_of(bytes: &[u8]) -> String {
    format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes))
}

/// The body of a message. `data` may have more than the webhook is to be told.
#[must_use]
pub fn body_of(format: Format, event: &str, time: &str, mut data: Value, arguments: bool) -> String {
    if !arguments {
        for call in data.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
            call.as_object_mut().map(|call| call.shift_remove("arguments"));
        }
    }
    match format {
        Format::Standard => json!({ "type": format!("approval.{event}"), "timestamp": time, "data": data }),
        Format::Slack => slack(event, &data),
    }
    .to_string()
}

fn slack(event: &str, data: &Value) -> Value {
    let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
    let count = data.get("count").and_then(Value::as_u64).unwrap_or(0);
    let calls = if count == 1 { "1 call".to_owned() } else { format!("{count} calls") };
    let account = text("account");
    let title = match event {
        "waiting" => format!("{calls} of {account} wait for a person"),
        "decided" => format!("{calls} of {account}: {} by {}", text("decision"), text("by")),
        "expired" => format!("{calls} of {account} expired: nobody decided in time"),
        _ => format!("A program of {account} ended: {}", text("outcome")),
    };
    let line = |call: &Value| {
        let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        let arguments = call.get("arguments").map(|arguments| format!(" {arguments}")).unwrap_or_default();
        format!("{} – {}{arguments}", text("address"), text("title"))
    };
    let list =
        data.get("calls").and_then(Value::as_array).into_iter().flatten().map(line).collect::<Vec<_>>().join("\n");
    // Whatever comes from outside is plain text, which Slack takes as it is.
    let plain = |text: &str| json!({ "type": "section", "text": { "type": "plain_text", "text": bounded(text), "emoji": false } });
    let mut blocks = vec![plain(&title)];
    if !list.is_empty() {
        blocks.push(plain(&list));
    }
    let url = text("approvalUrl");
    if !url.is_empty() {
        let markup = format!("<{}|Open the page>", escaped(url));
        blocks.push(json!({ "type": "section", "text": { "type": "mrkdwn", "text": markup } }));
    }
    json!({ "text": escaped(&title), "blocks": blocks })
}

fn bounded(text: &str) -> String {
    text.chars().take(SLACK_CHARS).collect()
}

/// The three characters that Slack reads as its own.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_asked_for() {
        let asked = parse_webhook(r#"{"url":"https://hooks.example/x"}"#).unwrap();
        assert_eq!((asked.format, asked.events.len(), asked.arguments), (Format::Standard, 4, false));
        let asked =
            parse_webhook(r#"{"format":"slack","events":["waiting"],"arguments":true,"rotateSecret":true}"#).unwrap();
        assert_eq!((asked.url, asked.format, asked.events), (None, Format::Slack, vec!["waiting".to_owned()]));
        assert!(asked.arguments && asked.rotate_secret);
        for (body, field) in [
            (r#"{"url":"ftp://a.example"}"#, "url"),
            (r#"{"url":"https://user:pass@a.example"}"#, "url"),
            (r#"{"url":"https://a.example","format":"teams"}"#, "format"),
            (r#"{"url":"https://a.example","events":[]}"#, "events"),
            (r#"{"url":"https://a.example","events":["all"]}"#, "events"),
            (r#"{"url":"https://a.example","events":"waiting"}"#, "events"),
            (r#"{"url":"https://a.example","secret":"x"}"#, "secret"),
        ] {
            assert_eq!(parse_webhook(body).unwrap_err().field.as_deref(), Some(field), "{body}");
        }
    }

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the specification's libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(std::slice::from_ref(&secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(signature(&[secret.clone(), secret], "a", 1, "b").split(' ').count(), 2);
    }

    #[test]
    fn waits_grow_and_end() {
        assert_eq!([1, 2, 3].map(|tries| wait_after(tries, 5_000, 0)), [5_000, 20_000, 80_000]);
        assert_eq!([8, 40, u32::MAX].map(|tries| wait_after(tries, 5_000, 0)), [LONGEST_WAIT_MS; 3]);
        assert_eq!(wait_after(1, 5_000, 255), 6_000);
    }

    #[test]
    fn webhook_format_unchanged() {
        let sealed = |id: &str| SealedText { id: id.to_owned(), sealed: "v1.x".to_owned() };
        let row = WebhookRow {
            format: Format::Slack,
            events: vec!["waiting".to_owned()],
            arguments: false,
            shown: "https://hooks.slack.com/…".to_owned(),
            url: sealed("u"),
            secret: Some(sealed("s")),
            previous: Some((sealed("p"), 7)),
            updated_at: 1,
        };
        let text = r#"{"format":"slack","events":["waiting"],"arguments":false,"shown":"https://hooks.slack.com/…","url":{"id":"u","sealed":"v1.x"},"secret":{"id":"s","sealed":"v1.x"},"previous":[{"id":"p","sealed":"v1.x"},7],"updatedAt":1}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
        assert_eq!(serde_json::from_str::<WebhookRow>(text).unwrap(), row);
        let endpoint = Endpoint { failures: 8, failed: Some((3, "HTTP 500".to_owned())), ..Endpoint::default() };
        let text = r#"{"failures":8,"failed":[3,"HTTP 500"],"dropped":0}"#;
        assert_eq!(serde_json::to_string(&endpoint).unwrap(), text);
        assert_eq!(serde_json::from_str::<Endpoint>(text).unwrap(), endpoint);
        assert_eq!(endpoint.state(), "dead");
    }

    #[test]
    fn messages_carry_arguments_only_where_wanted_and_no_markup_of_others() {
        let data = json!({
            "account": "<!channel> & co", "approvalUrl": "https://gw.example/resume/x?a=1&b=2", "count": 1,
            "calls": [{ "address": "a.b", "title": "<https://evil.example|click>", "arguments": { "token": "t0p" } }],
        });
        for format in [Format::Standard, Format::Slack] {
            assert!(!body_of(format, "waiting", "2026-01-01T00:00:00Z", data.clone(), false).contains("t0p"));
            assert!(body_of(format, "waiting", "2026-01-01T00:00:00Z", data.clone(), true).contains("t0p"));
        }
        let slack: Value = serde_json::from_str(&body_of(Format::Slack, "waiting", "", data, false)).unwrap();
        assert_eq!(slack["text"], "1 call of &lt;!channel&gt; &amp; co wait for a person");
        let types: Vec<_> = slack["blocks"].as_array().unwrap().iter().map(|block| &block["text"]["type"]).collect();
        assert_eq!(types, ["plain_text", "plain_text", "mrkdwn"]);
        assert_eq!(slack["blocks"][2]["text"]["text"], "<https://gw.example/resume/x?a=1&amp;b=2|Open the page>");
        assert_eq!(shown_url("https://hooks.slack.com/services/T0/B0/x", Format::Slack), "https://hooks.slack.com/…");
    }
}
