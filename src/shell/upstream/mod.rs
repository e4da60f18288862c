//! MCP servers that are configured as sources: how they are reached, listed and called.

mod asking;
mod connection;
mod server;
mod transport;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value, json};
use worker::Env;

pub(crate) use self::asking::Trouble;
pub(crate) use self::connection::Upstream;
pub(crate) use self::server::UpstreamServer;
use crate::catalog::mcp::{
    ListOptions, ListedTools, passed_outcome, read_result, read_tools, uri_prefix, wire_arguments, wire_headers,
};
use crate::catalog::tool::{Binding, McpBinding, ToolError, ToolOutcome, raw_json};
use crate::config::Settings;
use crate::engine::{CallError, error_result};
use crate::internal::SourceRow;
use crate::session::question::Askable;
use crate::upstream::client::{CallParts, Era, HEADER_MISMATCH, Pages, RpcFault};
use crate::upstream::{Changed, Link, LogLevel, Question, ServerError};

/// Servers that one session object remembers.
const REMEMBERED: usize = 64;

/// Why a server's tools could not be listed. The text is for an administrator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    /// It could not be reached, did not answer in time, or answered what is no MCP.
    #[error("The MCP server cannot be used: {0}.")]
    Unusable(String),
    /// It answered with an error.
    #[error("The MCP server refused to list its tools: {0}")]
    Refused(String),
}

/// A call that was looked up and may be sent.
#[derive(Debug, Clone)]
pub(crate) struct McpCall {
    pub(crate) source: SourceRow,
    pub(crate) binding: McpBinding,
    /// Checked, under the names that clients know.
    pub(crate) arguments: Value,
    /// The session knows the source's own names, its URIs too.
    pub(crate) alone: bool,
    /// A person was asked about it, as it was then.
    pub(crate) gated: bool,
}

/// What a call needs beside itself.
pub(crate) struct Reach<'r> {
    pub(crate) upstreams: &'r Upstreams,
    /// Who hears of it.
    pub(crate) link: Rc<dyn Link>,
    /// Whether an MCP result is wanted as it came.
    pub(crate) original: bool,
    /// Whether a person can be asked on a page, whatever the client can.
    pub(crate) person: bool,
}

/// The servers that one session object uses. A source that is reached in another way than before is another server.
pub(crate) struct Upstreams {
    env: Env,
    settings: Rc<Settings>,
    /// By slug, and whether the server may ask more than the client can be asked.
    known: RefCell<BTreeMap<(String, bool), Rc<Upstream>>>,
    askable: Cell<Askable>,
    log_level: Cell<Option<LogLevel>>,
}

impl Upstreams {
    pub(crate) fn new(env: Env, settings: Rc<Settings>) -> Self {
        Self { env, settings, known: RefCell::default(), askable: Cell::default(), log_level: Cell::default() }
    }

    /// Whose client it is: what it can be asked, and which log messages it wants.
    pub(crate) fn serve(&self, askable: Askable, log_level: Option<LogLevel>) {
        self.askable.set(askable);
        self.log_level.set(log_level);
    }

    /// The server of a source. What may be asked is said when it is connected to; with `person` that is forms and pages
    /// too, because there is a page to show them on.
    pub(crate) fn of(&self, organization: &str, source: &SourceRow, person: bool) -> Rc<Upstream> {
        let client = self.askable.get();
        let askable = if person { Askable { form: true, url: true, ..client } } else { client };
        let key = (source.slug.clone(), askable != client);
        let mut known = self.known.borrow_mut();
        if let Some(upstream) = known.get(&key) {
            if upstream.is_for(source, askable) {
                return Rc::clone(upstream);
            }
            upstream.end();
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let upstream = Rc::new(Upstream::new(&self.env, &self.settings, organization, source, askable));
        known.insert(key, Rc::clone(&upstream));
        upstream
    }

    /// Ends all sessions with servers.
    pub(crate) fn end(&self) {
        for upstream in self.known.take().into_values() {
            upstream.end();
        }
    }

    /// Calls a tool. Never fails: whatever happens is a value, as JSON text. Where the original is wanted, the result's own
    /// blocks come along, for a client that understands them.
    pub(crate) async fn call(&self, organization: &str, call: &McpCall, reach: &Reach<'_>) -> Rc<str> {
        let link = &reach.link;
        let upstream = self.of(organization, &call.source, reach.person);
        let mut answer = self.call_once(&upstream, call, &call.binding, link).await;
        let mismatch = matches!(&answer, Ok(Err(fault)) if fault.code == HEADER_MISMATCH);
        if mismatch && upstream.connect().await.is_ok_and(|connected| connected.era == Era::Stateless) {
            // What we know of the tool's headers is not what the server knows. It refused the call unprocessed.
            upstream.reread_tools();
            if call.gated {
                return outcome_text(&ToolOutcome::Failure(definition_changed()));
            }
            if let Some(binding) = present_binding(&upstream, call, link).await {
                answer = self.call_once(&upstream, call, &binding, link).await;
            }
        }
        match answer {
            Ok(Ok(result)) => {
                let prefix = (!call.alone).then(|| uri_prefix(&call.source.slug));
                let passed = reach.original.then(|| passed_outcome(&result, prefix.as_deref())).flatten();
                passed.map_or_else(|| outcome_text(&read_result(&result)), Into::into)
            }
            Ok(Err(fault)) => outcome_text(&ToolOutcome::Failure(fault_error(&fault))),
            Err(trouble) => outcome_text(&ToolOutcome::Failure(trouble_error(&trouble))),
        }
    }

    async fn call_once(
        &self,
        upstream: &Rc<Upstream>,
        call: &McpCall,
        binding: &McpBinding,
        link: &Rc<dyn Link>,
    ) -> Result<Result<Value, RpcFault>, Trouble> {
        let arguments = wire_arguments(binding, &call.arguments);
        let parts = CallParts {
            headers: wire_headers(binding, &arguments),
            progress: true,
            log_level: self.log_level.get(),
            ..CallParts::default()
        };
        let params = Map::from_iter([
            ("name".to_owned(), Value::String(binding.name.clone())),
            ("arguments".to_owned(), arguments),
        ]);
        upstream.ask("tools/call", &params, parts, link).await
    }
}

/// How the server describes the tool now; `None` where it has no other headers than before (revision 2026-07-28, "Custom
/// Headers from Tool Parameters": read the list again, and send the call once more).
async fn present_binding(upstream: &Rc<Upstream>, call: &McpCall, link: &Rc<dyn Link>) -> Option<McpBinding> {
    let entries = list(upstream, "tools/list", "tools", link).await.ok()?.ok()?;
    let none = BTreeMap::new();
    let options = ListOptions { source: &call.source.slug, stateless: true, known_names: &none };
    read_tools(&entries, &options).tools.into_iter().find_map(|tool| match tool.binding {
        Binding::Mcp(present) if present.name == call.binding.name && present.headers != call.binding.headers => {
            Some(McpBinding { headers: present.headers, ..call.binding.clone() })
        }
        Binding::Mcp(_) | Binding::Http(_) | Binding::Graphql(_) => None,
    })
}

/// A person saw the tool as it was. Whether it may be called as it is now, is asked again.
fn definition_changed() -> ToolError {
    let message = "The MCP server describes this tool in another way than when the call was approved, and refused it; it was \
                   not carried out. Its description is being read again: call the tool once more in a moment.";
    ToolError { retryable: Some(true), ..ToolError::new("upstream_error", message) }
}

fn outcome_text(outcome: &ToolOutcome) -> Rc<str> {
    serde_json::to_string(outcome)
        .map_or_else(|_| error_result(&CallError::new("internal", "The answer could not be written.")), Into::into)
}

fn fault_error(fault: &RpcFault) -> ToolError {
    let mut error = ToolError::new("upstream_error", fault.message.clone());
    error.details = Some(raw_json(&json!({ "code": fault.code, "data": fault.data })));
    error
}

/// What a program or a model is told.
fn trouble_error(trouble: &Trouble) -> ToolError {
    let mut error = match trouble {
        Trouble::NotSent(why) => ToolError::new(
            "upstream_unreachable",
            format!("The MCP server cannot be used just now: {why}. The call was not sent."),
        ),
        Trouble::Refused { .. } | Trouble::SessionLost | Trouble::OtherVersion(_) => {
            ToolError::new("upstream_error", "The MCP server refused the call; it was not carried out.")
        }
        Trouble::Unknown(why) => ToolError::new(
            "outcome_unknown",
            format!(
                "The call was sent, but no answer came: {why}. It may have been carried out; check before you repeat it."
            ),
        ),
        Trouble::Timeout => ToolError::new(
            "outcome_unknown",
            "The MCP server did not answer in time. The call may have been carried out; check before you repeat it.",
        ),
        Trouble::TooLarge => ToolError::new(
            "result_too_large",
            "The MCP server's answer is larger than the limit. The call itself was carried out. Ask for less.",
        ),
    };
    match trouble {
        Trouble::NotSent(_) => error.retryable = Some(true),
        Trouble::Refused { status } => error.status = Some(*status),
        Trouble::SessionLost
        | Trouble::OtherVersion(_)
        | Trouble::Unknown(_)
        | Trouble::Timeout
        | Trouble::TooLarge => {}
    }
    error
}

/// A request with no client behind it.
pub(crate) struct Nobody;

impl Link for Nobody {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}

    fn ask(&self, _: Question) -> LocalBoxFuture<'_, Result<Value, ServerError>> {
        Box::pin(async { Err(ServerError::ClientCannotBeAsked("nobody is connected".to_owned())) })
    }

    fn changed(&self, _: Changed) {}

    fn sleep(&self, milliseconds: u32) -> LocalBoxFuture<'_, ()> {
        Box::pin(super::clock::sleep(std::time::Duration::from_millis(u64::from(milliseconds))))
    }

    fn disconnect(&self) {}
}

/// Follows the pages of a list to the end.
pub(super) async fn list(
    upstream: &Rc<Upstream>,
    method: &str,
    key: &'static str,
    link: &Rc<dyn Link>,
) -> Result<Result<Vec<Value>, RpcFault>, Trouble> {
    let mut pages = Pages::default();
    let mut params = Map::new();
    let until = super::clock::now().saturating_add(upstream.settings.tool_timeout_ms.saturating_mul(2));
    loop {
        if super::clock::now() > until {
            return Err(Trouble::Timeout);
        }
        let mut page = match upstream.ask(method, &params, CallParts::default(), link).await? {
            Ok(page) => page,
            Err(fault) => return Ok(Err(fault)),
        };
        let next = pages.take(&mut page, key).map_err(|error| Trouble::Unknown(error.to_string()))?;
        match next {
            Some(cursor) => params.insert("cursor".to_owned(), Value::String(cursor)),
            None => return Ok(Ok(pages.into_entries())),
        };
    }
}

/// Reads the tools of a source of the kind `mcp`. `known_names` has the wire names of tools that the catalog has already,
/// with their part of the address, which stays. Gives them, and the era that the server speaks.
pub(crate) async fn list_tools(
    env: &Env,
    settings: &Rc<Settings>,
    organization: &str,
    source: &SourceRow,
    known_names: &BTreeMap<String, String>,
) -> Result<(ListedTools, String), ListError> {
    // Some servers have tools only for clients that can be asked; whether one can be, its own session says.
    let askable = Askable { form: true, url: true, sampling: true, roots: true };
    let mut upstream = Upstream::new(env, settings, organization, source, askable);
    upstream.tells_changes = false;
    let upstream = Rc::new(upstream);
    let link: Rc<dyn Link> = Rc::new(Nobody);
    let listed = list(&upstream, "tools/list", "tools", &link).await;
    let era = upstream.connect().await.map(|connected| connected.era.clone());
    // Awaited: of a Worker's request that has ended nothing goes on.
    upstream.end_now().await;
    match listed {
        Ok(Ok(entries)) => {
            let stateless = matches!(&era, Ok(Era::Stateless));
            let options = ListOptions { source: &source.slug, stateless, known_names };
            Ok((read_tools(&entries, &options), era.as_ref().map_or("unknown", Era::word).to_owned()))
        }
        // A server without tools need not know the method.
        Ok(Err(fault)) if fault.code == -32_601 => {
            Ok((ListedTools::default(), era.as_ref().map_or("unknown", Era::word).to_owned()))
        }
        Ok(Err(fault)) => Err(ListError::Refused(fault.message)),
        Err(trouble) => Err(ListError::Unusable(match trouble {
            Trouble::NotSent(why) | Trouble::Unknown(why) => why,
            Trouble::Refused { status } => format!("it answered {status}"),
            Trouble::SessionLost => "it forgets its sessions".to_owned(),
            Trouble::OtherVersion(fault) => fault.message,
            Trouble::Timeout => "it did not answer in time".to_owned(),
            Trouble::TooLarge => "its answer is too large".to_owned(),
        })),
    }
}
