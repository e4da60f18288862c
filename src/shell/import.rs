//! Makes the tools of a source, outside of the sessions' and the organization's objects: reads the document operation by
//! operation, hands the tools over in batches, and ends with one step that changes the catalog.

use std::borrow::Cow;
use std::rc::Rc;

use futures_util::StreamExt;
use serde_json::json;
use worker::{Env, Fetch, Headers, Method, Request, RequestInit, RequestRedirect};

use super::admin_api::{Asks, SOURCE_LIMIT};
use super::import_room::{Place, place_for};
use super::organization::{self as organization_object, staged_tool};
use super::outbound::{Limits, Outgoing, send};
use super::random::random_hex;
use super::secrets;
use super::telemetry::log;
use super::upstream::list_tools;
use crate::auth::{Principal, Purpose};
use crate::catalog::graphql::{GraphqlImporter, GraphqlOptions, introspection_request, read_answer};
use crate::catalog::openapi::answer::HttpAnswer;
use crate::catalog::openapi::request::origin_of;
use crate::catalog::openapi::{
    ImportError, ImportLimits, ImportOptions, Importer, ReportAction, ReportEntry, document_json, document_repaired,
    trimmed,
};
use crate::catalog::tool::{Tool, ToolOutcome};
use crate::config::Settings;
use crate::credential::{SecretPlace, SecretsError, parse_auth};
use crate::internal::{
    AdminAnswer, ImportEnd, ImportStart, SealedCredential, ServerSeen, SourceKind, SourceRow, StagedTool, StagedTools,
    VERSION, Via,
};
use crate::json::unescaped;
use crate::organization::fault::Fault;
use crate::organization::report::Report;
use crate::organization::source::{AuthChange, Definition, Document, parse_source};
use crate::outbound::refuse_address;

/// Bytes of tools that are handed over at a time.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of a tool of an MCP server. Those of documents are bounded by the importer.
const MCP_TOOL_LIMIT: usize = 256 << 10;
/// How often a document may be somewhere else.
const HOPS: u32 = 5;

/// One import.
pub(super) struct Importing<'a> {
    pub(super) asks: &'a Asks<'a>,
    pub(super) slug: &'a str,
}

/// What stops an import.
enum Stop {
    /// The request, or what it leads to, is wrong.
    Fault(Fault),
    /// The platform failed.
    Platform(worker::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<worker::Error> for Stop {
    fn from(error: worker::Error) -> Self {
        Self::Platform(error)
    }
}

/// What was made of a source's definition.
struct Made {
    title: Option<String>,
    base_url: Option<String>,
    origins: Vec<String>,
    tools: u32,
    report: Vec<ReportEntry>,
}

impl Importing<'_> {
    /// `PUT /api/sources/<slug>`
    pub(super) async fn put(&self, body: String) -> worker::Result<AdminAnswer> {
        answer(self.try_put(body).await)
    }

    /// `POST /api/sources/<slug>/refresh`
    pub(super) async fn refresh(&self) -> worker::Result<AdminAnswer> {
        answer(self.try_refresh().await)
    }

    async fn try_put(&self, mut body: String) -> Result<AdminAnswer, Stop> {
        let request = parse_source(&body)?;
        if self.asks.is_tool() && matches!(request.auth, AuthChange::Write(_)) {
            let problem = "is never set by a program: what a model sees is no secret any more. An administrator sets it through the API";
            return Err(Fault::field("auth", problem).into());
        }
        let start = self.start().await?;
        let known = start.source.clone().unwrap_or_default();
        let (credential, change) = self.credential(&request.auth, &known).await?;
        let mut row = SourceRow {
            slug: self.slug.to_owned(),
            trusted: request.trusted,
            idempotent_writes: request.idempotent_writes,
            honours_idempotency_key: request.honours_idempotency_key,
            credential,
            confirmed_origins: request.confirmed_origins.clone().unwrap_or_else(|| known.confirmed_origins.clone()),
            ..SourceRow::default()
        };
        // Whoever types a base or an endpoint means it. A program does not confirm anything by the way.
        if self.asks.is_tool() {
            // Nor for a credential that is written later.
            row.confirmed_origins.clone_from(&known.confirmed_origins);
        } else {
            row.confirmed_origins.extend(request.stated_url().and_then(origin_of));
        }
        row.confirmed_origins.sort();
        row.confirmed_origins.dedup();
        row.title = request.title.unwrap_or_default();
        let mut place = None;
        let document = match request.definition {
            Definition::Openapi { document, base_url } => {
                row.stated_base_url = base_url;
                match document {
                    // What remains of the body is the document: it must not be in memory twice.
                    Document::Text(text) => {
                        let (start, length) = (text.as_ptr().addr() - body.as_ptr().addr(), text.len());
                        body.truncate(start + length);
                        body.drain(..start);
                        if body.starts_with('{') {
                            body
                        } else {
                            let problem = "has to be an object, or a text in JSON or YAML";
                            unescaped(body).ok_or_else(|| Fault::field("spec", problem))?
                        }
                    }
                    Document::Url(url) => {
                        let (text, taken) = fetch_document(self.asks.settings, &url).await?;
                        place = Some(taken);
                        row.spec_url = Some(url);
                        text
                    }
                }
            }
            Definition::Mcp { url } => {
                let row = SourceRow { url: Some(url), kind: SourceKind::Mcp, ..row };
                return self.import_mcp(row, &start, change, false).await;
            }
            Definition::Graphql { url, introspection } => {
                let schema_given = introspection.is_some();
                let row = SourceRow { url: Some(url), kind: SourceKind::Graphql, schema_given, ..row };
                return self.import_graphql(row, introspection.as_deref(), &start, change, false).await;
            }
        };
        let answer = self.import_openapi(row, document, &start, change, false).await;
        drop(place);
        answer
    }

    async fn try_refresh(&self) -> Result<AdminAnswer, Stop> {
        let start = self.start().await?;
        let Some(row) = start.source.clone() else {
            return Err(Fault::missing(format!("source {}", self.slug)).into());
        };
        match (row.kind, &row.spec_url) {
            (SourceKind::Openapi, Some(url)) => {
                let (document, place) = fetch_document(self.asks.settings, url).await?;
                let answer = self.import_openapi(row, document, &start, "kept", true).await;
                drop(place);
                answer
            }
            (SourceKind::Openapi, None) => {
                let problem =
                    "The document of this source was given as text, so it cannot be read again; put the source again.";
                Err(Fault::new(409, problem).into())
            }
            (SourceKind::Mcp, _) => self.import_mcp(row, &start, "kept", true).await,
            (SourceKind::Graphql, _) if row.schema_given => {
                let problem = "The schema of this source was given, so it cannot be read again; put the source again with a new one.";
                Err(Fault::new(409, problem).into())
            }
            (SourceKind::Graphql, _) => self.import_graphql(row, None, &start, "kept", true).await,
        }
    }

    async fn start(&self) -> Result<ImportStart, Stop> {
        Ok(organization_object::start_import(self.asks.env, &self.asks.principal.organization, self.slug).await?)
    }

    /// Asks an MCP server for its tools.
    async fn import_mcp(
        &self,
        row: SourceRow,
        start: &ImportStart,
        auth: &str,
        refresh: bool,
    ) -> Result<AdminAnswer, Stop> {
        let url = self.endpoint(&row)?;
        let listed =
            list_tools(self.asks.env, self.asks.settings, &self.asks.principal.organization, &row, &start.names).await;
        let (listed, era) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                // Of another endpoint than the source's it says nothing.
                if start.source.as_ref().is_some_and(|known| known.url == row.url) {
                    self.note_server(Err(error.to_string())).await;
                }
                return Err(Fault::field("url", format!("cannot be used: {error}")).with_status(502).into());
            }
        };
        let import = random_hex::<8>()?;
        let mut made = Made {
            title: None,
            base_url: None,
            origins: origin_of(&url).into_iter().collect(),
            tools: 0,
            report: listed.report,
        };
        let mut batch = Batch { importing: self, import: &import, tools: Vec::new(), bytes: 0 };
        for tool in listed.tools {
            let staged = staged_tool(&tool)?;
            if staged.json.get().len() > MCP_TOOL_LIMIT {
                let why = format!("its definition has more than {MCP_TOOL_LIMIT} bytes");
                made.report.push(ReportEntry { operation: Some(tool.address), action: ReportAction::Skipped, why });
                continue;
            }
            made.tools += 1;
            batch.add(staged).await?;
        }
        batch.hand_over().await?;
        let answer = self.end(import, row, made, start, auth, refresh).await?;
        // Of a new source there was nothing to note before.
        self.note_server(Ok(era)).await;
        Ok(answer)
    }

    /// Notes how the server was found. The import does not depend on it.
    async fn note_server(&self, outcome: Result<String, String>) {
        let seen = ServerSeen { version: VERSION, source: self.slug.to_owned(), outcome };
        let organization = &self.asks.principal.organization;
        if let Err(error) = organization_object::note_server(self.asks.env, organization, &seen).await {
            log("mcp_upstream_state_not_told", json!({ "source": self.slug, "reason": error.to_string() }));
        }
    }

    /// Reads a GraphQL schema: the one that was given, or what the endpoint says of itself.
    async fn import_graphql(
        &self,
        row: SourceRow,
        given: Option<&str>,
        start: &ImportStart,
        auth: &str,
        refresh: bool,
    ) -> Result<AdminAnswer, Stop> {
        let url = self.endpoint(&row)?;
        let asked;
        let (text, field) = if let Some(text) = given {
            (text, "spec")
        } else {
            asked = self.introspect(&row, &url).await?;
            (asked.as_str(), "url")
        };
        let options = GraphqlOptions { source: self.slug, known_names: &start.names };
        let mut importer = GraphqlImporter::new(text, &options)
            .map_err(|error| Fault::field(field, format!("leads to no GraphQL schema: {error}")).with_status(422))?;
        let import = random_hex::<8>()?;
        let tools = self.stage(&import, || importer.next_tool()).await?;
        let origins = origin_of(&url).into_iter().collect();
        let made = Made { title: None, base_url: None, origins, tools, report: importer.into_report() };
        self.end(import, row, made, start, auth, refresh).await
    }

    /// Asks an endpoint for its schema, with the source's credential, which goes to confirmed origins only.
    async fn introspect(&self, row: &SourceRow, url: &str) -> Result<String, Stop> {
        let failed = |why: &str| {
            let why = why.trim_end_matches('.');
            let hint = "Where introspection is forbidden, give its result as spec";
            Fault::field("url", format!("cannot be read by introspection: {why}. {hint}")).with_status(502)
        };
        let organization = &self.asks.principal.organization;
        let credential = match &row.credential {
            Some(sealed) => {
                let opened =
                    secrets::open_credential(self.asks.env, organization, sealed, &row.confirmed_origins).await;
                Some(opened.map_err(|error| failed(&error.to_string()))?)
            }
            None => None,
        };
        let request = introspection_request(url);
        let outgoing = Outgoing { credential: credential.as_ref(), ..Outgoing::new(&request) };
        let limits = Limits { bytes: SOURCE_LIMIT, ..Limits::of_call(self.asks.settings) };
        let answer = send(outgoing, limits).await.map_err(|error| failed(&error.to_string()))?;
        if answer.status != 200 {
            let read = HttpAnswer { status: answer.status, headers: &answer.headers, body: &answer.body };
            return Err(match read_answer("__schema", &read) {
                ToolOutcome::Failure(error) => failed(&answer.redactor.text(&error.message)).into(),
                ToolOutcome::Success { .. } => failed(&format!("it answered {}", answer.status)).into(),
            });
        }
        String::from_utf8(answer.body).map_err(|_| failed("its answer is not UTF-8").into())
    }

    /// The credential that the source is to have, and what was done about it.
    async fn credential(
        &self,
        change: &AuthChange,
        known: &SourceRow,
    ) -> Result<(Option<SealedCredential>, &'static str), Stop> {
        match change {
            AuthChange::Keep if known.credential.is_some() => Ok((known.credential.clone(), "kept")),
            AuthChange::Keep => Ok((None, "none")),
            AuthChange::Remove => Ok((None, "removed")),
            AuthChange::Write(value) => {
                let auth = parse_auth(value).map_err(|error| Fault::field(error.field, error.problem))?;
                let (id, version) = match &known.credential {
                    Some(credential) => (credential.id.clone(), credential.version + 1),
                    None => (random_hex::<8>()?, 1),
                };
                let place = SecretPlace { organization: &self.asks.principal.organization, credential: &id, version };
                let sealed = secrets::seal(self.asks.env, &place, &auth.sealed_form()).await;
                let sealed = sealed.map_err(|error| match error {
                    // The administrator's or the operator's to put right; says nothing about the secret.
                    SecretsError::Platform { .. } => Fault::field("auth", error.to_string()).with_status(503),
                    SecretsError::NoKey
                    | SecretsError::WeakKey { .. }
                    | SecretsError::UnknownKey
                    | SecretsError::Unreadable => Fault::field("auth", format!("cannot be stored: {error}")),
                })?;
                Ok((Some(SealedCredential { id, version, kind: auth.kind().to_owned(), sealed }), "written"))
            }
        }
    }

    async fn import_openapi(
        &self,
        row: SourceRow,
        document: String,
        start: &ImportStart,
        auth: &str,
        refresh: bool,
    ) -> Result<AdminAnswer, Stop> {
        let import = random_hex::<8>()?;
        let made = self.stage_openapi(&import, &row, document, start).await?;
        self.end(import, row, made, start, auth, refresh).await
    }

    /// The one step that changes the catalog.
    async fn end(
        &self,
        import: String,
        row: SourceRow,
        made: Made,
        start: &ImportStart,
        auth: &str,
        refresh: bool,
    ) -> Result<AdminAnswer, Stop> {
        let title = if row.title.is_empty() { made.title } else { Some(row.title.clone()) };
        let source = SourceRow {
            title: title.unwrap_or_else(|| self.slug.to_owned()),
            base_url: made.base_url,
            origins: made.origins,
            tools: made.tools,
            ..row
        };
        let end = ImportEnd {
            version: VERSION,
            import,
            by: self.asks.principal.account.clone(),
            via: self.asks.via.clone(),
            source,
            based_on: start.source.as_ref().map_or(0, |source| source.revision),
            report: Report::of_import(made.report),
            refresh,
            auth: auth.to_owned(),
        };
        Ok(organization_object::end_import(self.asks.env, &self.asks.principal.organization, &end).await?)
    }

    /// Hands over all tools that a reader gives, one by one; how many they were.
    async fn stage(&self, import: &str, mut next: impl FnMut() -> Option<Tool>) -> Result<u32, Stop> {
        let mut tools = 0_u32;
        let mut batch = Batch { importing: self, import, tools: Vec::new(), bytes: 0 };
        while let Some(tool) = next() {
            tools += 1;
            batch.add(staged_tool(&tool)?).await?;
        }
        batch.hand_over().await?;
        Ok(tools)
    }

    /// The endpoint of a source, where it may be called.
    fn endpoint(&self, row: &SourceRow) -> Result<String, Stop> {
        let url = row.url.clone().unwrap_or_default();
        match refuse_address(&url, self.asks.settings.allow_local_network) {
            Some(refusal) => Err(Fault::field("url", format!("cannot be called: {refusal}")).into()),
            None => Ok(url),
        }
    }

    async fn stage_openapi(
        &self,
        import: &str,
        row: &SourceRow,
        mut document: String,
        start: &ImportStart,
    ) -> Result<Made, Stop> {
        let limits = ImportLimits { document_bytes: SOURCE_LIMIT, ..ImportLimits::default() };
        let field = if row.spec_url.is_some() { "specUrl" } else { "spec" };
        // Of YAML only the JSON that was made of it stays.
        if let Cow::Owned(json) = document_json(&document, &limits).map_err(|error| unreadable(field, &error))? {
            document = json;
        }
        let document = trimmed(&document);
        let options = ImportOptions {
            source: self.slug,
            base_url: row.stated_base_url.as_deref(),
            document_url: row.spec_url.as_deref(),
            known_names: Some(&start.names),
            limits,
        };
        let repaired;
        let mut importer = match Importer::new(document, &options) {
            Err(error @ ImportError::Unreadable { .. }) => {
                repaired = document_repaired(document, &limits).ok_or_else(|| unreadable(field, &error))?;
                Importer::new(&repaired, &options)
            }
            importer => importer,
        }
        .map_err(|error| unreadable(field, &error))?;
        let tools = self.stage(import, || importer.next_tool()).await?;
        Ok(Made {
            title: importer.title().map(|title| title.chars().take(200).collect()),
            base_url: importer.base_url().map(ToOwned::to_owned),
            origins: importer.origins(),
            tools,
            report: importer.into_report(),
        })
    }
}

/// Reads a source again because its server says that its tools changed. Nobody asked: the audit log names the server.
pub(super) async fn reread(env: &Env, settings: &Rc<Settings>, organization: &str, slug: &str) -> worker::Result<u16> {
    let principal = Principal {
        account: format!("the server of {slug}"),
        organization: organization.to_owned(),
        admin: true,
        purpose: Purpose::Mcp,
    };
    let asks = Asks { env, settings, principal: &principal, via: Via::Server };
    Ok(Importing { asks: &asks, slug }.refresh().await?.status)
}

/// Tools on their way to the organization.
struct Batch<'a> {
    importing: &'a Importing<'a>,
    import: &'a str,
    tools: Vec<StagedTool>,
    bytes: usize,
}

impl Batch<'_> {
    async fn add(&mut self, tool: StagedTool) -> Result<(), Stop> {
        self.bytes += tool.json.get().len() + tool.description.len() + 200;
        self.tools.push(tool);
        if self.bytes > BATCH_BYTES { self.hand_over().await } else { Ok(()) }
    }

    async fn hand_over(&mut self) -> Result<(), Stop> {
        let tools = std::mem::take(&mut self.tools);
        self.bytes = 0;
        let staged = StagedTools { version: VERSION, import: self.import.to_owned(), tools };
        let asks = self.importing.asks;
        Ok(organization_object::stage_tools(asks.env, &asks.principal.organization, &staged).await?)
    }
}

fn answer(result: Result<AdminAnswer, Stop>) -> worker::Result<AdminAnswer> {
    match result {
        Ok(answer) => Ok(answer),
        Err(Stop::Fault(fault)) => Ok(AdminAnswer::fault(&fault)),
        Err(Stop::Platform(error)) => Err(error),
    }
}

fn unreadable(field: &str, error: &ImportError) -> Fault {
    let status = if matches!(error, ImportError::TooLarge { .. }) { 413 } else { 422 };
    Fault::field(field, format!("cannot be imported: {error}")).with_status(status)
}

/// Fetches a document. No credential goes along, so it may be somewhere else; each place is looked at first.
async fn fetch_document(settings: &Settings, url: &str) -> Result<(String, Place), Fault> {
    let mut url = url.to_owned();
    for _ in 0..HOPS {
        if let Some(refusal) = refuse_address(&url, settings.allow_local_network) {
            return Err(Fault::field("specUrl", format!("cannot be fetched: {refusal}")));
        }
        let limit = std::time::Duration::from_millis(settings.tool_timeout_ms);
        let fetched = Box::pin(fetch_once(&url));
        let fetched = match futures_util::future::select(fetched, super::clock::sleep(limit)).await {
            futures_util::future::Either::Left((fetched, _)) => fetched?,
            futures_util::future::Either::Right(_) => {
                let problem = format!("did not answer within {} ms", settings.tool_timeout_ms);
                return Err(Fault::field("specUrl", problem).with_status(502));
            }
        };
        match fetched {
            Fetched::Document(text, place) => return Ok((text, place)),
            Fetched::Elsewhere(place) => url = place,
        }
    }
    Err(Fault::field("specUrl", "redirects too often").with_status(502))
}

enum Fetched {
    Document(String, Place),
    Elsewhere(String),
}

async fn fetch_once(url: &str) -> Result<Fetched, Fault> {
    let failed = |problem: String| Fault::field("specUrl", problem).with_status(502);
    let broken = |error: worker::Error| failed(format!("could not be fetched: {error}"));
    let headers = Headers::new();
    headers.set("accept", "application/json, application/yaml, text/yaml, */*;q=0.5").map_err(broken)?;
    headers.set("user-agent", concat!("countersign/", env!("CARGO_PKG_VERSION"))).map_err(broken)?;
    let mut init = RequestInit::new();
    init.with_method(Method::Get).with_headers(headers).with_redirect(RequestRedirect::Manual);
    let request = Request::new_with_init(url, &init).map_err(broken)?;
    let mut response = Fetch::Request(request).send().await.map_err(broken)?;
    let status = response.status_code();
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        let place = response.headers().get("location").ok().flatten().unwrap_or_default();
        let base = url::Url::parse(url).map_err(|_| failed("is not a URL".to_owned()))?;
        let place = base.join(&place).map_err(|_| failed("redirects to what is no URL".to_owned()))?;
        return Ok(Fetched::Elsewhere(place.to_string()));
    }
    if status != 200 {
        return Err(failed(format!("answered {status}")));
    }
    let too_large = |size: usize| {
        let problem = format!("has {size} bytes or more; the limit is {SOURCE_LIMIT}");
        Fault::field("specUrl", problem).with_status(413)
    };
    let declared = response.headers().get("content-length").ok().flatten().and_then(|length| length.parse().ok());
    if let Some(size) = declared.filter(|size| *size > SOURCE_LIMIT) {
        return Err(too_large(size));
    }
    let place = place_for(declared.unwrap_or(SOURCE_LIMIT)).await?;
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0));
    let mut stream = response.stream().map_err(broken)?;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(broken)?;
        if bytes.len() + chunk.len() > SOURCE_LIMIT {
            return Err(too_large(bytes.len() + chunk.len()));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(bytes);
    text.map(|text| Fetched::Document(text, place))
        .map_err(|_| Fault::field("specUrl", "leads to what is not UTF-8").with_status(422))
}
