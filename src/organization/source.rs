//! The body of `PUT /api/sources/<slug>`.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::fault::Fault;
use super::fields::Fields;
use super::text::{parse_origin, parse_url};
use super::toolkit::TITLE_LIMIT;

/// Origins that one source may have confirmed.
pub const ORIGINS_LIMIT: usize = 100;

/// What a source is to be.
#[derive(Debug)]
pub struct SourceRequest<'a> {
    /// What its tools are made from.
    pub definition: Definition<'a>,
    /// For people; `None` takes the document's.
    pub title: Option<String>,
    /// What to do about the credential.
    pub auth: AuthChange,
    /// Origins that the credential may go to; `None` leaves those that were confirmed before.
    pub confirmed_origins: Option<Vec<String>>,
    /// Whether what it says of its own tools may loosen something.
    pub trusted: bool,
    /// Whether PUT and DELETE may be sent again.
    pub idempotent_writes: bool,
    /// Whether it carries out a repeated idempotency key once.
    pub honours_idempotency_key: bool,
}

/// Where the tools come from.
#[derive(Debug)]
pub enum Definition<'a> {
    /// An `OpenAPI` document, and the base that an administrator stated.
    Openapi {
        /// The document.
        document: Document<'a>,
        /// Used instead of the document's servers.
        base_url: Option<String>,
    },
    /// An MCP server.
    Mcp {
        /// Its endpoint.
        url: String,
    },
    /// A GraphQL endpoint.
    Graphql {
        /// Its URL.
        url: String,
        /// The result of an introspection query, where the endpoint is not to be asked for it.
        introspection: Option<Cow<'a, str>>,
    },
}

/// An `OpenAPI` document.
#[derive(Debug)]
pub enum Document<'a> {
    /// As it stands in the body: a JSON object, or a JSON string with a text in JSON or YAML.
    Text(&'a str),
    /// Where it is.
    Url(String),
}

/// What to do about a source's credential.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthChange {
    /// It stays as it is.
    Keep,
    /// It is removed.
    Remove,
    /// It is written.
    Write(Value),
}

impl SourceRequest<'_> {
    /// The origins that the administrator typed: stating a base confirms it.
    #[must_use]
    pub fn stated_url(&self) -> Option<&str> {
        match &self.definition {
            Definition::Openapi { base_url, .. } => base_url.as_deref(),
            Definition::Mcp { url } | Definition::Graphql { url, .. } => Some(url),
        }
    }
}

/// Reads the body.
pub fn parse_source(body: &str) -> Result<SourceRequest<'_>, Fault> {
    let mut fields = Fields::read(body, "The body", "")?;
    let kind = fields.text("kind", 20)?;
    let definition = match kind.as_deref() {
        Some("openapi") => openapi(&mut fields)?,
        Some(kind @ ("mcp" | "graphql")) => {
            let url = fields.text("url", usize::MAX)?;
            let url = url.ok_or_else(|| Fault::field("url", format!("is required for the kind {kind}")))?;
            let url = parse_url("url", &url)?;
            if kind == "mcp" {
                Definition::Mcp { url }
            } else {
                let given = fields.raw("spec").filter(|raw| raw.get() != "null");
                let problem = "has to be the result of an introspection query: an object, or a text in JSON";
                Definition::Graphql { url, introspection: given.map(|raw| document(raw, problem)).transpose()? }
            }
        }
        Some(_) => return Err(Fault::field("kind", "has to be openapi, mcp or graphql")),
        None => return Err(Fault::field("kind", "is required: openapi, mcp or graphql")),
    };
    let auth = match fields.raw("auth") {
        None => AuthChange::Keep,
        Some(raw) => match serde_json::from_str(raw.get()) {
            Ok(Value::Null) => AuthChange::Remove,
            Ok(value) => AuthChange::Write(value),
            Err(_) => return Err(Fault::field("auth", "nests too deeply")),
        },
    };
    let request = SourceRequest {
        definition,
        title: fields.text("title", TITLE_LIMIT)?,
        auth,
        confirmed_origins: fields
            .list("confirmedOrigins", ORIGINS_LIMIT)?
            .map(|list| origins("confirmedOrigins", &list))
            .transpose()?,
        trusted: fields.flag("trusted")?,
        idempotent_writes: fields.flag("idempotentWrites")?,
        honours_idempotency_key: fields.flag("honoursIdempotencyKey")?,
    };
    fields.end(match request.definition {
        Definition::Openapi { .. } => {
            "kind, spec, specUrl, baseUrl, title, auth, confirmedOrigins, trusted, idempotentWrites, honoursIdempotencyKey"
        }
        Definition::Graphql { .. } => {
            "kind, url, spec, title, auth, confirmedOrigins, trusted, idempotentWrites, honoursIdempotencyKey"
        }
        Definition::Mcp { .. } => {
            "kind, url, title, auth, confirmedOrigins, trusted, idempotentWrites, honoursIdempotencyKey"
        }
    })?;
    Ok(request)
}

fn openapi<'a>(fields: &mut Fields<'a>) -> Result<Definition<'a>, Fault> {
    let spec = fields.raw("spec").filter(|raw| raw.get() != "null");
    let spec_url = fields.text("specUrl", usize::MAX)?;
    let base_url = fields.text("baseUrl", usize::MAX)?.map(|url| parse_url("baseUrl", &url)).transpose()?;
    let document = match (spec, spec_url) {
        (Some(_), Some(_)) => return Err(Fault::field("specUrl", "and spec exclude each other; give one of them")),
        (None, None) => return Err(Fault::field("spec", "or specUrl is required")),
        (None, Some(url)) => Document::Url(parse_url("specUrl", &url)?),
        (Some(raw), None) if raw.get().starts_with(['{', '"']) => Document::Text(raw.get()),
        (Some(_), None) => return Err(Fault::field("spec", "has to be an object, or a text in JSON or YAML")),
    };
    Ok(Definition::Openapi { document, base_url })
}

/// A document is a JSON object as it stands, or a text in JSON or YAML.
fn document<'a>(raw: &'a RawValue, problem: &str) -> Result<Cow<'a, str>, Fault> {
    let text = raw.get();
    if text.starts_with('{') {
        return Ok(Cow::Borrowed(text));
    }
    serde_json::from_str::<String>(text).map(Cow::Owned).map_err(|_| Fault::field("spec", problem))
}

/// Reads the body of `POST /api/sources/<slug>/confirm`.
pub fn parse_confirm(body: &str) -> Result<Vec<String>, Fault> {
    let mut fields = Fields::read(body, "The body", "")?;
    let list = fields.list("origins", ORIGINS_LIMIT)?.filter(|list| !list.is_empty());
    fields.end("origins")?;
    origins("origins", &list.ok_or_else(|| Fault::field("origins", "has to be a list with at least one origin"))?)
}

fn origins(field: &str, list: &[Value]) -> Result<Vec<String>, Fault> {
    let origin =
        |(at, item): (usize, &Value)| parse_origin(&format!("{field}[{at}]"), item.as_str().unwrap_or_default());
    let mut origins: Vec<String> = list.iter().enumerate().map(origin).collect::<Result<_, _>>()?;
    origins.sort();
    origins.dedup();
    Ok(origins)
}
