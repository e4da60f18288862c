//! Messages between the Worker and its objects.
//!
//! During a deploy the two may differ by one version, so every message carries one. Identity is verified at the edge; no
//! header of a client's request gets to an object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::approval::{Approvers, Standing, Verdict};
use crate::auth::{Principal, Purpose};
use crate::catalog::tool::Tool;
use crate::organization;
use crate::organization::cursor::Page;
use crate::organization::fault::Fault;
use crate::organization::report::Report;
use crate::organization::route::AdminCall;
use crate::organization::stop::Stop;
use crate::organization::webhook::{Format, SealedText};
use crate::policy::{Action, Judgement, Vouched, judge_nature};
use crate::protocol::time::iso_time;
use crate::protocol::trace::Trace;
use crate::session::ElicitationMode;
use crate::session::events::SessionEvent;

/// Version of the messages in this module. From 2 on no header of the client's goes along, so a context has to say what was
/// asked; from 3 on it is fields between tabs. An object of version 4 would not see that arguments were edited.
pub const VERSION: u32 = 5;
/// The same as text.
const VERSION_TEXT: &str = "5";
/// Fields of an encoded [`Context`].
const FIELDS: usize = 19;
/// The second field where the body is small and at hand, which `light.js` looks for.
const QUICK: &str = "quick";
/// The header that carries the [`Context`].
pub const CONTEXT_HEADER: &str = "x-countersign-context";

/// What the edge tells a session object about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The verified identity.
    pub principal: Principal,
    /// The resource that was addressed.
    pub resource: String,
    /// The gateway's own origin.
    pub public_origin: String,
    /// What the client's request says of itself; empty where there is none.
    pub asked: Asked,
    /// The trace that the request belongs to.
    pub trace: Trace,
    /// What is wanted.
    pub operation: Operation,
}

/// Headers of a client's request that the session object acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// `Accept`
    pub accept: Option<String>,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `MCP-Protocol-Version`
    pub protocol_version: Option<String>,
    /// `Last-Event-ID`
    pub last_event_id: Option<String>,
    /// Whether the body is small and was read already.
    pub held: bool,
}

/// What a session object is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// An MCP request of a session that may exist.
    Mcp,
    /// An `initialize` request, in an object that was just made for it.
    Open,
    /// What waits under a pause, for a person.
    View {
        /// The pause.
        pause: String,
    },
    /// A decision; the body is a [`DecisionRequest`].
    Decide {
        /// The pause.
        pause: String,
    },
    /// A person ends a program, whatever it does; the body is a [`StopRequest`].
    Stop {
        /// The execution, by its own id.
        execution: String,
    },
    /// What the session's programs did, newest first.
    History {
        /// What the page before this one ended with.
        after: Option<String>,
    },
    /// The organization's catalog changed.
    CatalogChanged,
    /// The owner has no access any more. Of the principal only account and organization count; an empty organization is any.
    AccessLost,
    /// `resume` from another session; the body is a [`ResumeRequest`].
    Resume {
        /// The pause.
        pause: String,
    },
}

impl Context {
    /// The text of the header: fields between tabs. Read by one split, because every request has one.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(512);
        self.encode_into(&mut text);
        text
    }

    /// The same, behind what `text` has already.
    pub fn encode_into(&self, text: &mut String) {
        let Self { principal, asked, trace, .. } = self;
        let quick = asked.held && self.operation == Operation::Mcp;
        let (operation, pause) = self.operation.parts();
        let required = [
            if quick { QUICK } else { "-" },
            operation,
            pause.unwrap_or_default(),
            &principal.account,
            &principal.organization,
            if principal.admin { "admin" } else { "-" },
            principal.purpose.name(),
            &self.resource,
            &self.public_origin,
            if asked.held { "held" } else { "-" },
        ];
        let optional = [
            &asked.accept,
            &asked.content_type,
            &asked.protocol_version,
            &asked.last_event_id,
            &trace.traceparent,
            &trace.tracestate,
            &trace.baggage,
        ];
        text.push_str(VERSION_TEXT);
        for field in required {
            text.push('\t');
            escape_into(text, field);
        }
        for field in optional {
            text.push('\t');
            if let Some(field) = field {
                text.push('=');
                escape_into(text, field);
            }
        }
        // A header's value loses the white space at its end.
        text.push_str("\t.");
    }

    /// Reads the header; `None` when it is missing, broken or of another version.
    #[must_use]
    pub fn decode(header: Option<&str>) -> Option<Self> {
        let fields: Vec<&str> = header?.split('\t').collect();
        let fields: [&str; FIELDS] = fields.try_into().ok()?;
        let [version, _, operation, pause, account, organization, admin, purpose, resource, origin, held, ..] = fields;
        let [.., accept, content_type, protocol_version, last_event_id, traceparent, tracestate, baggage, _] = fields;
        if version != VERSION_TEXT {
            return None;
        }
        let optional = |field: &str| match field.strip_prefix('=') {
            Some(text) => unescape(text).map(Some),
            None => field.is_empty().then_some(None),
        };
        Some(Self {
            principal: Principal {
                account: unescape(account)?,
                organization: unescape(organization)?,
                admin: admin == "admin",
                purpose: Purpose::parse(purpose)?,
            },
            resource: unescape(resource)?,
            public_origin: unescape(origin)?,
            asked: Asked {
                accept: optional(accept)?,
                content_type: optional(content_type)?,
                protocol_version: optional(protocol_version)?,
                last_event_id: optional(last_event_id)?,
                held: held == "held",
            },
            trace: Trace {
                traceparent: optional(traceparent)?,
                tracestate: optional(tracestate)?,
                baggage: optional(baggage)?,
            },
            operation: Operation::of(operation, unescape(pause)?)?,
        })
    }
}

impl Operation {
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Mcp => ("mcp", None),
            Self::Open => ("open", None),
            Self::CatalogChanged => ("catalog_changed", None),
            Self::AccessLost => ("access_lost", None),
            Self::History { after } => ("history", after.as_deref()),
            Self::View { pause } => ("view", Some(pause)),
            Self::Decide { pause } => ("decide", Some(pause)),
            Self::Stop { execution } => ("stop", Some(execution)),
            Self::Resume { pause } => ("resume", Some(pause)),
        }
    }

    fn of(name: &str, pause: String) -> Option<Self> {
        Some(match name {
            "mcp" => Self::Mcp,
            "open" => Self::Open,
            "catalog_changed" => Self::CatalogChanged,
            "access_lost" => Self::AccessLost,
            "history" => Self::History { after: Some(pause).filter(|after| !after.is_empty()) },
            "view" => Self::View { pause },
            "decide" => Self::Decide { pause },
            "stop" => Self::Stop { execution: pause },
            "resume" => Self::Resume { pause },
            _ => return None,
        })
    }
}

/// Percent-encodes what a header cannot carry, and the percent sign.
fn escape_into(target: &mut String, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'%') {
        target.push_str(text);
        return;
    }
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            target.push(char::from(byte));
        } else {
            target.push('%');
            for digit in [byte >> 4, byte & 15] {
                target.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
            }
        }
    }
}

/// The opposite of [`escape_into`]; `None` for what it never makes.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// `resume`, as one session object asks another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeRequest {
    /// How the asking session wants to be asked.
    pub mode: ElicitationMode,
    /// The answer that the model relays.
    pub decision: Option<RelayedDecision>,
}

/// A decision that a model relays for everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedDecision {
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// What the user entered, where one call asks that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// Why a person ends a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// In the person's words.
    pub reason: Option<String>,
}

/// A decision on its way to the session object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRequest {
    /// For everything that waits: the digest, the answer and why.
    pub all: Option<DecisionOnAll>,
    /// For single calls.
    pub items: Vec<DecisionOnCall>,
    /// It comes from a page, with these fields of calls that ask something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Vec<SentField>>,
    /// What the person wrote in place of arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SentArguments>,
    /// What the person allows beyond the calls that are decided on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<SentGrant>,
}

impl DecisionRequest {
    /// What is decided on a call; `None` where nothing is.
    #[must_use]
    pub fn verdict_on(&self, call: u32) -> Option<Verdict> {
        match &self.all {
            Some(all) => Some(all.verdict),
            None => self.items.iter().find(|item| item.call == call).map(|item| item.verdict),
        }
    }
}

/// A grant that is to go with a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentGrant {
    /// The call; `None` is every call that is decided on.
    pub call: Option<u32>,
    /// For how many hours exactly these arguments are allowed in all sessions of the account; `None` is the tool, whatever its
    /// arguments, in this session.
    pub hours: Option<u64>,
}

/// Arguments as a person wrote them, on the page or over the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentArguments {
    /// The call; `None` is the only one that waits.
    pub call: Option<u32>,
    /// What should be JSON.
    pub text: String,
}

/// One field of a page's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentField {
    /// The call that asks.
    pub call: u32,
    /// The place of the field in its form, from 0.
    pub place: usize,
    /// What the person entered.
    pub text: String,
}

/// One answer for everything that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionOnAll {
    /// Digest of all that was shown. Empty with cancel: the program ends, whatever it does.
    pub digest: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// What the person entered, where one call asks that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// The answer for one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionOnCall {
    /// The call's number.
    pub call: u32,
    /// Digest of what was shown of it.
    pub digest: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// What the person entered, where the call asks that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// A question of a session to the organization object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question<T> {
    /// [`VERSION`]
    pub version: u32,
    /// The resource of the session that asks: `default`, or a toolkit's slug.
    pub resource: String,
    /// What is asked.
    pub about: T,
}

/// Asks for a tool that is about to be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupQuestion {
    /// The tool's address.
    pub address: String,
    /// The version of the catalog that the asking side knows the tool from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<u64>,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupAnswer {
    /// The catalog has the version that is known.
    Unchanged,
    /// The catalog's version, and the tool.
    Found {
        /// Changes with every change of the catalog.
        catalog: u64,
        /// What there is.
        lookup: Box<ToolLookup>,
    },
}

/// What the organization object knows of a tool that is about to be called. What a session's toolkit does not include
/// does not exist for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolLookup {
    /// The tool; `None` when there is none at that address.
    pub tool: Option<Tool>,
    /// Its source.
    pub source: Option<SourceRow>,
    /// What policy says of a call, for the session that asked; there wherever the tool is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// Addresses that look alike, where there is no such tool.
    pub suggestions: Vec<String>,
    /// The session's toolkit has this tool's source and no other, so that the source's own names are used.
    #[serde(default, skip_serializing_if = "is_false")]
    pub alone: bool,
    /// Stops that calls of it may meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stop>,
}

impl ToolLookup {
    /// Whether the tool changes nothing, by its own nature.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        let (Some(tool), Some(source)) = (&self.tool, &self.source) else { return false };
        judge_nature(tool, source.vouched()).action == Action::Allow
    }
}

/// What a source is made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// An `OpenAPI` document.
    #[default]
    Openapi,
    /// An MCP server.
    Mcp,
    /// A GraphQL endpoint.
    Graphql,
}

/// A credential that only the holder of the gateway's key can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedCredential {
    /// Names it, for approvals; it never changes while the source has a credential.
    pub id: String,
    /// Counts how often it was written.
    pub version: u64,
    /// `bearer`, `basic`, `header`, `query`, `oauth2_client_credentials`.
    pub kind: String,
    /// The encrypted credential.
    pub sealed: String,
}

/// A configured API, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent promise of the source")]
pub struct SourceRow {
    /// The first part of its tools' addresses.
    pub slug: String,
    /// For people.
    pub title: String,
    /// What it is made from.
    #[serde(default)]
    pub kind: SourceKind,
    /// Where its requests go; absolute.
    pub base_url: Option<String>,
    /// The base that an administrator stated; it is used instead of the document's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated_base_url: Option<String>,
    /// Where the document came from; `None` where its text was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_url: Option<String>,
    /// MCP, GraphQL: the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// GraphQL: the schema was given, not asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub schema_given: bool,
    /// Whether it is served by the gateway itself.
    pub built_in: bool,
    /// Whether what it says of its own tools may loosen something.
    #[serde(default)]
    pub trusted: bool,
    /// Whether PUT and DELETE may be sent again.
    #[serde(default)]
    pub idempotent_writes: bool,
    /// Whether a request that is repeated with the same `Idempotency-Key` is carried out once.
    pub honours_idempotency_key: bool,
    /// Every origin that its tools send to, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// The origins that an administrator confirmed: the credential goes nowhere else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed_origins: Vec<String>,
    /// What its requests are authenticated with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<SealedCredential>,
    /// Number of its tools.
    pub tools: u32,
    /// How often it was written. A change that was prepared from an older one is refused.
    #[serde(default)]
    pub revision: u64,
    /// When it was last read, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub updated_at: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl SourceRow {
    /// What an administrator vouches for.
    #[must_use]
    pub fn vouched(&self) -> Vouched {
        Vouched {
            trusted: self.trusted,
            idempotent_writes: self.idempotent_writes,
            honours_idempotency_key: self.honours_idempotency_key,
            writes_are_gated: self.built_in && self.slug == organization::SLUG,
        }
    }
}

impl SourceRow {
    /// Whether a credential may not go where a tool sends to: nobody confirmed that origin. Without a credential nothing can
    /// be lost.
    #[must_use]
    pub fn unconfirmed_origin_of(&self, tool: &Tool) -> Option<String> {
        self.credential.as_ref()?;
        let base = self.url.as_deref().or(self.base_url.as_deref());
        let origin = tool.binding.origin(base).unwrap_or_else(|| "an unknown origin".to_owned());
        (!self.confirmed_origins.contains(&origin)).then_some(origin)
    }

    /// The origins that its credential does not go to.
    #[must_use]
    pub fn unconfirmed_origins(&self) -> Vec<&String> {
        let confirmed = |origin: &&String| self.credential.is_none() || self.confirmed_origins.contains(origin);
        self.origins.iter().filter(|origin| !confirmed(origin)).collect()
    }
}

/// How an administrator's request is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Over HTTP.
    #[default]
    Api,
    /// By a program that calls it as a tool, after a person approved.
    Tool {
        /// The execution that the call is of, as log lines name it.
        execution: String,
    },
    /// By nobody: an MCP server said that its tools changed.
    Server,
}

impl Via {
    /// The word for it, and the execution where there is one.
    #[must_use]
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Api => ("api", None),
            Self::Tool { execution } => ("tool", Some(execution)),
            Self::Server => ("server", None),
        }
    }
}

/// A request to the administration API, on its way to the organization object. Whoever sends it has checked the role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminQuestion {
    /// [`VERSION`]
    pub version: u32,
    /// The account that asks.
    pub by: String,
    /// The organization that it asks about, which the object does not know of itself.
    #[serde(default)]
    pub organization: String,
    /// How it asks.
    #[serde(default)]
    pub via: Via,
    /// What it asks for.
    pub call: AdminCall,
}

/// Asks for an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyQuestion {
    /// [`VERSION`]
    pub version: u32,
    /// Which key.
    pub id: String,
    /// Hash of the secret that was presented.
    pub hash: String,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdminAnswer {
    /// HTTP status.
    pub status: u16,
    /// JSON.
    pub body: Value,
    /// The `Allow` header of a 405.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

impl AdminAnswer {
    /// An answer with a status and a body.
    #[must_use]
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, body, allow: None }
    }

    /// Something was done, and there is nothing to show.
    #[must_use]
    pub fn done() -> Self {
        Self::new(200, json!({ "status": "ok" }))
    }

    /// A page of a list.
    #[must_use]
    pub fn page(items: &[Value], next: Option<String>) -> Self {
        let mut body = json!({ "items": items });
        if let (Some(next), Some(body)) = (next, body.as_object_mut()) {
            body.insert("nextCursor".to_owned(), next.into());
        }
        Self::new(200, body)
    }

    /// A request that is refused.
    #[must_use]
    pub fn fault(fault: &Fault) -> Self {
        Self { allow: fault.allow.map(ToOwned::to_owned), ..Self::new(fault.status, fault.body()) }
    }
}

/// A webhook on its way to storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookPut {
    /// [`VERSION`]
    pub version: u32,
    /// The account that asks.
    pub by: String,
    /// How it asks.
    pub via: Via,
    /// The organization, which the object does not know of itself.
    pub organization: String,
    /// Its slug.
    pub slug: String,
    /// What may be shown of the URL, and the URL; `None` leaves what is stored.
    pub url: Option<(String, SealedText)>,
    /// A new secret, which counts where there is none yet or where a new one is wanted.
    pub secret: Option<SealedText>,
    /// Who reads its messages.
    pub format: Format,
    /// What it is told.
    pub events: Vec<String>,
    /// Whether messages carry arguments.
    pub arguments: bool,
    /// Whether the new secret is wanted.
    pub rotate_secret: bool,
}

/// A part of the audit log as JSON lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPart {
    /// Whole lines.
    pub text: String,
    /// The last entry of it; `None` where the log ends here.
    pub after: Option<u64>,
}

/// What an import of a source has to know before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportStart {
    /// The source as it is; `None` where it is new.
    pub source: Option<SourceRow>,
    /// The names that its tools have, by what they were made from.
    pub names: BTreeMap<String, String>,
}

/// Some tools of an import.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StagedTools {
    /// [`VERSION`]
    pub version: u32,
    /// Names the import.
    pub import: String,
    /// The tools.
    pub tools: Vec<StagedTool>,
}

/// A tool as it is stored, written where the document was read: the organization's object takes it without reading it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StagedTool {
    /// `<source>.<tool>`
    pub address: String,
    /// What it is known by in what it was made from; its name stays with that.
    pub operation: String,
    /// The words of the address, for search.
    pub name_words: String,
    /// The words of the title.
    pub title_words: String,
    /// The description, and words of the parameters.
    pub description: String,
    /// The tool.
    pub json: Box<RawValue>,
}

/// The end of an import: its tools take the place of the source's old ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportEnd {
    /// [`VERSION`]
    pub version: u32,
    /// Names the import.
    pub import: String,
    /// The account that asked for it.
    pub by: String,
    /// How it asked.
    #[serde(default)]
    pub via: Via,
    /// The source as it is to be; `tools` is how many were staged.
    pub source: SourceRow,
    /// The revision that it was made from; 0 for a new one.
    pub based_on: u64,
    /// What was left out, renamed or adjusted.
    pub report: Report,
    /// Whether the source was only read again.
    pub refresh: bool,
    /// What was done about the credential, for the audit log: `kept`, `written`, `removed`, `none`.
    pub auth: String,
}

/// A question of a program to the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogQuestion {
    /// `search`, `describe` or `sources.list`.
    pub address: String,
    /// The arguments.
    pub arguments: Value,
}

/// A question about one tool that a client named, or about a page of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectQuestion {
    /// The tool with that name.
    Name(String),
    /// The tools whose addresses come after this one.
    Page {
        /// An address, or nothing for the first page.
        after: String,
    },
}

/// Its answer, with the version of the catalog that it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectAnswer {
    /// Changes with every change of the catalog.
    pub catalog: u64,
    /// The tool that was asked for.
    pub lookup: Option<ToolLookup>,
    /// The page: each tool as it is listed, as JSON text.
    pub tools: Vec<String>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// The MCP servers that a session passes through in direct mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServersAnswer {
    /// Sources of the kind `mcp` that the session's resource includes, by slug.
    pub sources: Vec<SourceRow>,
    /// The session's toolkit has this one source and no other, so that its own names are used.
    pub alone: bool,
    /// All stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stop>,
}

/// A grant that lets a call through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundGrant {
    /// Names it.
    pub id: String,
    /// The account that gave it.
    pub by: String,
    /// In what role.
    pub standing: Standing,
}

/// Lists grants, or revokes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantsQuestion {
    /// [`VERSION`]
    pub version: u32,
    /// The account that asks.
    pub account: String,
    /// Whether it sees all, and not only its own.
    pub admin: bool,
    /// The page that is asked for.
    pub page: Page,
    /// The grant that is revoked, where it is that.
    pub revoke: Option<String>,
}

/// Everything that waits for a person in one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingOfSession {
    /// [`VERSION`]
    pub version: u32,
    /// The session.
    pub session: String,
    /// What waits; each is one pause.
    pub items: Vec<WaitingItem>,
    /// What happened there and was not told yet, in order.
    #[serde(default)]
    pub events: Vec<SessionEvent>,
    /// Programs that ended or came to a pause since the session told of them last.
    #[serde(default)]
    pub programs: Vec<ProgramLine>,
}

/// A program of a session, for the history of all sessions: no arguments, no results, no text of the program. It is stored by the
/// organization object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramLine {
    /// The execution's own id.
    pub execution: String,
    /// Whose session it is.
    pub account: String,
    /// What the client calls itself. Untrusted.
    pub client: String,
    /// Where it stood when it was told.
    pub status: String,
    /// In milliseconds since the Unix epoch.
    pub started_at: u64,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// How many calls it made, timers included.
    pub calls: u64,
    /// The addresses of the tools that it called, the first of them; empty where the journal is too large to be read for a list.
    pub tools: Vec<String>,
    /// Calls that a person approved.
    pub approved: u32,
    /// Calls that a person declined, or that nobody decided in time.
    pub declined: u32,
}

/// A pause that waits for a person. It is stored by the organization object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingItem {
    /// What the wire calls `executionId`.
    pub execution_id: String,
    /// Whose session it is.
    pub account: String,
    /// What the client calls itself. Untrusted.
    pub client: String,
    /// The tools that are to be called, the first of them.
    pub tools: Vec<WaitingTool>,
    /// How many calls wait.
    pub calls: u32,
    /// Since when, in milliseconds since the Unix epoch.
    pub since: u64,
    /// When the last of it expires, likewise.
    pub expires_at: u64,
    /// Where it is decided.
    pub approval_url: String,
    /// Who may decide, each kind once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Approvers>,
}

/// A tool that is to be called. Its arguments are for those who decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTool {
    /// The tool's address.
    pub address: String,
    /// The tool's title.
    pub title: String,
}

/// How an MCP server was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// [`VERSION`]
    pub version: u32,
    /// The slug of its source.
    pub source: String,
    /// The era that it speaks, or why it could not be used.
    pub outcome: Result<String, String>,
}

/// What is known of an MCP server. It is stored by the organization object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerState {
    /// When it could be used last, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<u64>,
    /// `stateless`, or the version of its sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// When it could not be used, and why; `None` once it could be again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<(u64, String)>,
}

impl ServerState {
    /// The state after somebody found it so.
    #[must_use]
    pub fn after(self, seen: &ServerSeen, now: u64) -> Self {
        match &seen.outcome {
            Ok(era) => Self { reached_at: Some(now), era: Some(era.clone()), failed: None },
            Err(why) => Self { failed: Some((now, why.chars().take(500).collect())), ..self },
        }
    }

    /// As the administration API shows it.
    #[must_use]
    pub fn shown(&self) -> Value {
        json!({
            "state": if self.failed.is_some() { "failing" } else { "ok" },
            "reachedAt": self.reached_at.map(iso_time),
            "era": self.era,
            "failedAt": self.failed.as_ref().map(|(at, _)| iso_time(*at)),
            "error": self.failed.as_ref().map(|(_, why)| why),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_state_format_unchanged() {
        let seen = |outcome| ServerSeen { version: VERSION, source: "docs".to_owned(), outcome };
        let state = ServerState::default().after(&seen(Ok("stateless".to_owned())), 1);
        assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"reachedAt":1,"era":"stateless"}"#);
        let state = state.after(&seen(Err("it hangs".to_owned())), 2);
        let text = r#"{"reachedAt":1,"era":"stateless","failed":[2,"it hangs"]}"#;
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
        assert_eq!(serde_json::from_str::<ServerState>(text).unwrap(), state);
        assert_eq!(state.shown()["state"], "failing");
        assert_eq!(state.after(&seen(Ok("2025-11-25".to_owned())), 3).failed, None);
    }

    #[test]
    fn program_line_format_unchanged() {
        let line = ProgramLine {
            execution: "e".to_owned(),
            account: "ann".to_owned(),
            client: "c 1".to_owned(),
            status: "completed".to_owned(),
            started_at: 1,
            ended_at: Some(2),
            calls: 3,
            tools: vec!["a.b".to_owned()],
            approved: 1,
            declined: 0,
        };
        let text = r#"{"execution":"e","account":"ann","client":"c 1","status":"completed","startedAt":1,"endedAt":2,"calls":3,"tools":["a.b"],"approved":1,"declined":0}"#;
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
        assert_eq!(serde_json::from_str::<ProgramLine>(text).unwrap(), line);
        // What a session of the release before says.
        let told: WaitingOfSession = serde_json::from_str(r#"{"version":4,"session":"s","items":[]}"#).unwrap();
        assert!(told.programs.is_empty());
    }

    #[test]
    fn waiting_item_format_unchanged() {
        let item = WaitingItem {
            execution_id: "x".to_owned(),
            account: "ann".to_owned(),
            client: "c 1".to_owned(),
            tools: vec![WaitingTool { address: "a.b".to_owned(), title: "B".to_owned() }],
            calls: 1,
            since: 1,
            expires_at: 2,
            approval_url: "https://gw.example/resume/x".to_owned(),
            by: Vec::new(),
        };
        let text = r#"{"executionId":"x","account":"ann","client":"c 1","tools":[{"address":"a.b","title":"B"}],"calls":1,"since":1,"expiresAt":2,"approvalUrl":"https://gw.example/resume/x"}"#;
        assert_eq!(serde_json::to_string(&item).unwrap(), text);
        assert_eq!(serde_json::from_str::<WaitingItem>(text).unwrap(), item);
        let item = WaitingItem { by: vec![Approvers::Owner, Approvers::OtherAdmin], ..item };
        let text = text.trim_end_matches('}').to_owned() + r#","by":["owner","other_admin"]}"#;
        assert_eq!(serde_json::to_string(&item).unwrap(), text);
        assert_eq!(serde_json::from_str::<WaitingItem>(&text).unwrap(), item);
    }

    fn context() -> Context {
        let principal = Principal {
            account: "ann".to_owned(),
            organization: "acme".to_owned(),
            admin: false,
            purpose: Purpose::Mcp,
        };
        Context {
            principal,
            resource: "default".to_owned(),
            public_origin: "https://gw.example".to_owned(),
            asked: Asked { accept: Some("*/*".to_owned()), ..Asked::default() },
            trace: Trace::default(),
            operation: Operation::Mcp,
        }
    }

    #[test]
    fn context_format_unchanged() {
        let context = Context { asked: Asked { held: true, ..context().asked }, ..context() };
        let expected = "5\tquick\tmcp\t\tann\tacme\t-\tmcp\tdefault\thttps://gw.example\theld\t=*/*\t\t\t\t\t\t\t.";
        assert_eq!(context.encode(), expected);
    }

    #[test]
    fn what_was_written_is_read() {
        let nasty = "a\tb\n%é\u{202e}= ".to_owned();
        let principal =
            Principal { account: nasty.clone(), organization: nasty.clone(), admin: true, purpose: Purpose::Browser };
        let some = Some(nasty.clone());
        let asked = Asked {
            accept: some.clone(),
            content_type: Some(String::new()),
            protocol_version: some.clone(),
            last_event_id: some.clone(),
            held: true,
        };
        let trace = Trace { traceparent: some.clone(), tracestate: None, baggage: some };
        for operation in [
            Operation::Mcp,
            Operation::Open,
            Operation::CatalogChanged,
            Operation::AccessLost,
            Operation::History { after: None },
            Operation::History { after: Some(nasty.clone()) },
            Operation::View { pause: nasty.clone() },
            Operation::Decide { pause: "p".to_owned() },
            Operation::Stop { execution: "e".to_owned() },
            Operation::Resume { pause: String::new() },
        ] {
            let context = Context {
                principal: principal.clone(),
                resource: nasty.clone(),
                asked: asked.clone(),
                trace: trace.clone(),
                operation,
                ..context()
            };
            let text = context.encode();
            assert!(text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')), "{text}");
            assert_eq!(text.trim(), text);
            assert_eq!(Context::decode(Some(&text)), Some(context));
        }
    }

    #[test]
    fn a_context_of_another_version_is_not_read() {
        assert_eq!(VERSION.to_string(), VERSION_TEXT);
        for version in ["4", "6"] {
            let other = context().encode().replacen(VERSION_TEXT, version, 1);
            assert_eq!(Context::decode(Some(&other)), None, "{version}");
        }
        // What a Worker of version 2 sends.
        assert_eq!(Context::decode(Some("eyJ2ZXJzaW9uIjoyfQ==")), None);
        assert_eq!(Context::decode(None), None);
    }
}
