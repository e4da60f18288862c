//! `tool_mode=direct`: tools of the catalog and of MCP servers, called one by one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};

use super::exchange::Exchange;
use super::outcome::RpcError;
use super::questions::{ExchangeLink, UpstreamLink};
use super::{Session, caller_of};
use crate::engine::{DirectCall, ProgramRow, Resolution, error_result};
use crate::internal::{DirectAnswer, DirectQuestion, SourceRow, ToolLookup};
use crate::json::canonical_json;
use crate::organization::stop::{Stop, stop_of};
use crate::policy::{Vouched, may_be_sent_again};
use crate::protocol::text::bounded;
use crate::session::direct::{outcome_result, own_tool};
use crate::session::{SessionMeta, app};
use crate::shell::clock::{now, sleep};
use crate::shell::invoke::{CallToResolve, Caller, invoke, log_call, resolve_found};
use crate::shell::organization::{self, FRESH_MS};
use crate::shell::telemetry::log;
use crate::shell::upstream::{Reach, UpstreamServer};
use crate::upstream::{Link, McpServer, Offers, ServerError};

/// How long a list waits for one server.
const LIST_WAIT: Duration = Duration::from_secs(10);
/// Tools that are remembered.
const REMEMBERED: usize = 200;

/// What this object remembers of the catalog.
pub(super) struct Directory {
    catalog: u64,
    checked_at: u64,
    first_page: Option<Rc<str>>,
    tools: BTreeMap<String, Rc<ToolLookup>>,
}

/// When the organization was asked, and the servers; with the stops of those that nothing is sent to.
type Configured = (u64, Vec<Rc<dyn McpServer>>, BTreeMap<String, Stop>);

/// The MCP servers of a session.
pub(super) struct Servers {
    /// Part of the gateway itself.
    own: Vec<Rc<dyn McpServer>>,
    /// Those of configured sources.
    configured: RefCell<Option<Configured>>,
}

impl Default for Servers {
    fn default() -> Self {
        #[cfg(feature = "conformance")]
        let own: Vec<Rc<dyn McpServer>> = vec![Rc::new(crate::upstream::fixtures::Fixtures)];
        #[cfg(not(feature = "conformance"))]
        let own = Vec::new();
        Self { own, configured: RefCell::default() }
    }
}

impl Servers {
    fn offering(&self, offers: impl Fn(Offers) -> bool) -> impl Iterator<Item = &Rc<dyn McpServer>> {
        self.own.iter().filter(move |server| offers(server.offers()))
    }

    /// The catalog changed.
    pub(super) fn forget(&self) {
        self.configured.take();
    }
}

/// Whether a server offers something.
type Offered = fn(Offers) -> bool;

/// Which servers are asked for a method, and the name of the list that its result is, where it is one.
fn serves(method: &str) -> Option<(Offered, Option<&'static str>)> {
    Some(match method {
        "resources/list" => (|offers| offers.resources, Some("resources")),
        "resources/templates/list" => (|offers| offers.resources, Some("resourceTemplates")),
        "resources/read" => (|offers| offers.resources, None),
        "resources/subscribe" | "resources/unsubscribe" => (|offers| offers.subscriptions, None),
        "prompts/list" => (|offers| offers.prompts, Some("prompts")),
        "prompts/get" => (|offers| offers.prompts, None),
        "completion/complete" => (|offers| offers.completions, None),
        _ => return None,
    })
}

impl Session {
    /// A method that MCP servers answer.
    pub(super) async fn pass_on(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let unknown = || RpcError::method_not_found(method);
        let (offers, list) = serves(method).ok_or_else(unknown)?;
        let apps = method.starts_with("resources/") && app::shows_apps(&exchange.meta.capabilities);
        let own = if apps && method == "resources/list" { vec![app::entry()] } else { Vec::new() };
        let servers = self.all_servers(&exchange.meta).await;
        let servers: Vec<Rc<dyn McpServer>> = servers.into_iter().filter(|server| offers(server.offers())).collect();
        match list {
            Some(_) if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) => Err(RpcError::invalid_cursor()),
            Some(key) if servers.is_empty() && apps => Ok(json!({ key: own }).to_string()),
            _ if servers.is_empty() => Err(unknown()),
            Some(key) => Ok(self.merged_list(exchange, &servers, method, (key, own)).await),
            None => self.first_answer(exchange, servers, method, params).await,
        }
    }

    /// One list of all servers', in an order that stays. One that does not answer in time is left out.
    async fn merged_list(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        servers: &[Rc<dyn McpServer>],
        method: &str,
        (key, own): (&'static str, Vec<Value>),
    ) -> String {
        let ask = |server: &Rc<dyn McpServer>| {
            let server = Rc::clone(server);
            async move {
                let asking = std::pin::pin!(self.ask_server(exchange, &server, method, Map::new()));
                let problem = match select(asking, sleep(LIST_WAIT)).await {
                    Either::Left((Ok(mut result), _)) => match result.get_mut(key).map(Value::take) {
                        Some(Value::Array(items)) => return items,
                        _ => "its answer is no list".to_owned(),
                    },
                    Either::Left((Err(error), _)) => error.to_string(),
                    Either::Right(_) => "it did not answer in time".to_owned(),
                };
                log("mcp_server_unavailable", json!({ "server": server.name(), "method": method, "reason": problem }));
                Vec::new()
            }
        };
        let mut lists = futures_util::future::join_all(servers.iter().map(ask)).await;
        lists.insert(0, own);
        json!({ key: lists.concat() }).to_string()
    }

    /// The answer of the first server that has what is asked for.
    async fn first_answer(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        servers: Vec<Rc<dyn McpServer>>,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let mut missing = ServerError::Unknown(method.to_owned());
        for server in servers {
            match self.ask_server(exchange, &server, method, params.clone()).await {
                Ok(result) => return Ok(result.to_string()),
                Err(error @ ServerError::Unknown(_)) => missing = error,
                Err(error) => return Err(rpc_error(error)),
            }
        }
        Err(rpc_error(missing))
    }

    /// What any server offers.
    pub(super) async fn offers(&self, meta: &SessionMeta) -> Offers {
        let servers = self.all_servers(meta).await;
        servers.iter().fold(Offers::default(), |all, server| all.or(server.offers()))
    }

    /// All servers: those of sources, by their slugs, then the gateway's own.
    async fn all_servers(&self, meta: &SessionMeta) -> Vec<Rc<dyn McpServer>> {
        let known = self
            .servers
            .configured
            .borrow()
            .as_ref()
            .filter(|(at, ..)| now().saturating_sub(*at) < FRESH_MS)
            .map(|(_, known, _)| known.clone());
        let mut servers = match known {
            Some(known) => known,
            None => self.configured_servers(meta).await,
        };
        servers.extend(self.servers.own.iter().cloned());
        servers
    }

    /// The servers of sources, as the organization says.
    async fn configured_servers(&self, meta: &SessionMeta) -> Vec<Rc<dyn McpServer>> {
        let Ok(runner) = self.runner() else { return Vec::new() };
        let asked_at = now();
        let answer = match organization::servers(&self.env, &meta.organization, &meta.resource).await {
            Ok(answer) => answer,
            Err(error) => {
                log("mcp_organization_unavailable", json!({ "reason": error.to_string() }));
                return Vec::new();
            }
        };
        let log_level = self.meta.borrow().as_ref().and_then(|meta| meta.log_level);
        let server = |source| -> Rc<dyn McpServer> {
            let upstream = runner.upstreams.of(&meta.organization, source, false);
            Rc::new(UpstreamServer::new(upstream, answer.alone, log_level))
        };
        let configured: Vec<_> = answer.sources.iter().map(server).collect();
        let stop = |source: &SourceRow| {
            let stop = stop_of(&answer.stops, &source.slug, &meta.account)?;
            Some((source.slug.clone(), stop.clone()))
        };
        let stops = answer.sources.iter().filter_map(stop).collect();
        *self.servers.configured.borrow_mut() = Some((asked_at, configured.clone(), stops));
        configured
    }

    async fn ask_server(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        server: &Rc<dyn McpServer>,
        method: &str,
        mut params: Map<String, Value>,
    ) -> Result<Value, ServerError> {
        params.remove("_meta");
        let stop =
            self.servers.configured.borrow().as_ref().and_then(|(_, _, stops)| stops.get(server.name()).cloned());
        if let Some(stop) = stop {
            return Err(ServerError::Rpc { code: -32_000, message: format!("{}.", stop.message()), data: None });
        }
        let link: Rc<dyn Link> = if server.may_repeat() {
            Rc::new(ExchangeLink(Rc::clone(exchange)))
        } else {
            Rc::new(UpstreamLink(Rc::clone(exchange)))
        };
        server.handle(method, params, link).await
    }

    /// `tools/list` in direct mode: the gateway's own tool, the servers', the catalog's, each in an order that stays.
    pub(super) async fn list_direct_tools(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        params: &Map<String, Value>,
    ) -> Result<Rc<str>, RpcError> {
        let after = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(read_cursor(cursor).ok_or_else(RpcError::invalid_cursor)?),
            Some(_) => return Err(RpcError::invalid_cursor()),
        };
        if let Some(after) = after {
            let page = self.ask_directory(&exchange.meta, DirectQuestion::Page { after }).await?;
            return Ok(page_text(&page, Vec::new()).into());
        }
        let known = self.directory.borrow().as_ref().filter(|known| is_fresh(known)).and_then(|d| d.first_page.clone());
        if let Some(text) = known {
            return Ok(text);
        }
        let page = DirectQuestion::Page { after: String::new() };
        let page = self.ask_directory(&exchange.meta, page).await?;
        let mut own = own_tool();
        if app::shows_apps(&exchange.meta.capabilities) {
            app::link_tool(&mut own);
        }
        let mut first = vec![own.to_string()];
        for server in self.servers.offering(|offers| offers.tools).cloned().collect::<Vec<_>>() {
            let list = self.ask_server(exchange, &server, "tools/list", Map::new()).await;
            match list {
                Ok(list) => {
                    let tools = list.get("tools").and_then(Value::as_array).into_iter().flatten();
                    first.extend(tools.map(ToString::to_string));
                }
                // One dead server hides nobody else's tools.
                Err(error) => {
                    log("mcp_server_unavailable", json!({ "server": server.name(), "reason": error.to_string() }));
                }
            }
        }
        let text: Rc<str> = page_text(&page, first).into();
        if let Some(known) = self.directory.borrow_mut().as_mut() {
            known.first_page = Some(Rc::clone(&text));
        }
        Ok(text)
    }

    /// Asks the organization, and notes the catalog's version.
    async fn ask_directory(&self, meta: &SessionMeta, question: DirectQuestion) -> Result<DirectAnswer, RpcError> {
        let asked_at = now();
        let answer =
            organization::direct(&self.env, &meta.organization, &meta.resource, &question).await.map_err(|error| {
                log("mcp_organization_unavailable", json!({ "reason": error.to_string() }));
                RpcError::Unavailable
            })?;
        let mut slot = self.directory.borrow_mut();
        let changed = slot.as_ref().is_none_or(|known| known.catalog != answer.catalog);
        if changed {
            let tools = BTreeMap::new();
            *slot = Some(Directory { catalog: answer.catalog, checked_at: asked_at, first_page: None, tools });
        } else if let Some(known) = slot.as_mut() {
            known.checked_at = known.checked_at.max(asked_at);
        }
        drop(slot);
        Ok(answer)
    }

    async fn tool_named(&self, meta: &SessionMeta, name: &str) -> Result<Rc<ToolLookup>, RpcError> {
        let known =
            self.directory.borrow().as_ref().filter(|known| is_fresh(known)).and_then(|d| d.tools.get(name).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let answer = self.ask_directory(meta, DirectQuestion::Name(name.to_owned())).await?;
        let none = ToolLookup::default();
        let lookup = Rc::new(answer.lookup.unwrap_or(none));
        if lookup.tool.is_some()
            && let Some(directory) = self.directory.borrow_mut().as_mut()
        {
            if directory.tools.len() >= REMEMBERED {
                directory.tools.clear();
            }
            directory.tools.insert(name.to_owned(), Rc::clone(&lookup));
        }
        Ok(lookup)
    }

    /// Calls one tool by its name.
    pub(super) async fn call_direct(
        self: &Rc<Self>,
        exchange: &Rc<Exchange>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, RpcError> {
        let params = Map::from_iter([
            ("name".to_owned(), Value::String(name.to_owned())),
            ("arguments".to_owned(), Value::Object(arguments.clone())),
        ]);
        for server in self.servers.offering(|offers| offers.tools).cloned().collect::<Vec<_>>() {
            if server.may_repeat() {
                exchange.may_be_repeated("tools/call", params.clone());
            }
            // These servers are part of the gateway and only read; what a policy says of others comes with them.
            match self.ask_server(exchange, &server, "tools/call", params.clone()).await {
                Ok(result) => return Ok(result.to_string()),
                Err(ServerError::Unknown(_)) => exchange.must_not_be_repeated(),
                Err(error) => return Err(rpc_error(error)),
            }
        }
        let lookup = self.tool_named(&exchange.meta, name).await?;
        let Some(tool) = &lookup.tool else {
            return Err(RpcError::unknown_tool(name));
        };
        let arguments = Value::Object(arguments);
        let canonical: Rc<str> = canonical_json(&arguments).into();
        let call = CallToResolve {
            execution: String::new(),
            seq: 0,
            address: tool.address.clone(),
            arguments: Rc::clone(&canonical),
            session: None,
        };
        let caller = Caller { trace: exchange.trace(), ..caller_of(&exchange.meta) };
        let (resolution, prepared) = match resolve_found(&caller, &call, &lookup, arguments) {
            Ok(found) => found,
            // Wrong arguments, a forbidden tool: known before anybody is asked.
            Err(error) => return Ok(outcome_result(&error_result(&error))),
        };
        let asks = !matches!(resolution, Resolution::Ready { ask: false, .. });
        if asks || !may_be_sent_again(tool, Vouched::default()) {
            // Somebody is asked, or it must not be sent twice: then it is journaled, as a program of one call.
            exchange.open_stream();
            let program = ProgramRow {
                source: format!("await tools.{}({})", tool.address, canonical),
                compiled: String::new(),
                lines: Vec::new(),
                direct: Some(DirectCall { address: tool.address.clone(), arguments: canonical }),
                trace: exchange.trace(),
            };
            return self.start(exchange, program).await;
        }
        exchange.may_be_repeated("tools/call", params);
        let started = now();
        let runner = self.runner()?;
        let link = Rc::new(UpstreamLink(Rc::clone(exchange)));
        // Without a journal there is no pause, so nobody but the client can be asked.
        let reach = Reach { upstreams: &runner.upstreams, link, original: true, person: false };
        let outcome = invoke(&self.env, &runner.settings, &caller, &prepared, &reach).await;
        log_call(None, &tool.address, &outcome, started);
        Ok(outcome_result(&outcome))
    }
}

fn is_fresh(directory: &Directory) -> bool {
    now().saturating_sub(directory.checked_at) < FRESH_MS
}

fn rpc_error(error: ServerError) -> RpcError {
    match error {
        ServerError::Rpc { code, message, data } => RpcError::Answer { code, message, data },
        ServerError::Unknown(what) => RpcError::new(-32_602, format!("Unknown: {}", bounded(&what, 200))),
        ServerError::ClientCannotBeAsked(why) => {
            RpcError::new(-32_600, format!("This needs an answer of the client, which cannot be asked: {why}"))
        }
    }
}

fn page_text(page: &DirectAnswer, mut tools: Vec<String>) -> String {
    tools.extend(page.tools.iter().cloned());
    let next = page.next.as_ref().map(|after| format!(r#","nextCursor":"{}""#, URL_SAFE_NO_PAD.encode(after)));
    format!(r#"{{"tools":[{}]{}}}"#, tools.join(","), next.unwrap_or_default())
}

/// The address in a cursor of [`page_text`]; `None` for anything else.
fn read_cursor(cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    String::from_utf8(bytes).ok().filter(|address| address.contains('.') && address.len() <= 1_024)
}
