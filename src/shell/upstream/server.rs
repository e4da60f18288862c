//! A configured server as a session passes it through in direct mode: resources, templates, prompts, completion.
//!
//! Its tools come from the catalog, so that policy counts for them. Names of prompts are those of tools, made from
//! `<source>.<name>`. A resource's URI begins with the source and a plus sign, which leaves templates usable, wherever a
//! client meets it: in lists, in contents, in results and in prompts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value, json};

use super::{Trouble, Upstream, list};
use crate::catalog::mcp::{prefix_block, prefix_member, uri_prefix, without_prefix};
use crate::session::direct::direct_name;
use crate::upstream::client::{CallParts, RpcFault};
use crate::upstream::{Link, LogLevel, McpServer, Offers, ServerError};

/// A server of a session.
pub(crate) struct UpstreamServer {
    upstream: Rc<Upstream>,
    /// It is the only one of the session's toolkit, whose names stay as they are.
    alone: bool,
    log_level: Option<LogLevel>,
    /// Names of prompts here, and there.
    prompts: RefCell<BTreeMap<String, String>>,
}

impl UpstreamServer {
    pub(crate) fn new(upstream: Rc<Upstream>, alone: bool, log_level: Option<LogLevel>) -> Self {
        Self { upstream, alone, log_level, prompts: RefCell::default() }
    }

    fn slug(&self) -> &str {
        &self.upstream.source.slug
    }

    fn prompt_name(&self, wire: &str) -> String {
        if self.alone { wire.to_owned() } else { direct_name(&format!("{}.{wire}", self.slug())) }
    }

    /// What its URIs begin with for the client; nothing where it is the only one.
    fn prefix(&self) -> String {
        if self.alone { String::new() } else { uri_prefix(self.slug()) }
    }

    /// The server's own URI; `None` for another server's, and for one that says nobody's name.
    fn wire_uri(&self, uri: &str) -> Option<String> {
        if self.alone {
            return Some(uri.to_owned());
        }
        without_prefix(uri, &self.prefix()).map(ToOwned::to_owned)
    }

    async fn answer(&self, method: &str, params: Map<String, Value>, link: Rc<dyn Link>) -> Result<Value, ServerError> {
        match method {
            "resources/list" => self.listed("resources/list", "resources", "uri", &link).await,
            "resources/templates/list" => {
                self.listed("resources/templates/list", "resourceTemplates", "uriTemplate", &link).await
            }
            "prompts/list" => {
                let mut prompts = self.entries("prompts/list", "prompts", &link).await?;
                self.remember(&mut prompts);
                Ok(json!({ "prompts": prompts }))
            }
            "resources/read" => self.read(params, &link).await,
            "prompts/get" => self.prompt(params, &link).await,
            "completion/complete" => self.complete(params, &link).await,
            _ => Err(ServerError::Unknown(method.to_owned())),
        }
    }

    async fn listed(
        &self,
        method: &str,
        key: &'static str,
        member: &str,
        link: &Rc<dyn Link>,
    ) -> Result<Value, ServerError> {
        let mut entries = self.entries(method, key, link).await?;
        let prefix = self.prefix();
        for entry in &mut entries {
            prefix_member(entry, member, &prefix);
        }
        Ok(json!({ key: entries }))
    }

    /// All entries of a list; none where the server does not have the method.
    async fn entries(&self, method: &str, key: &'static str, link: &Rc<dyn Link>) -> Result<Vec<Value>, ServerError> {
        match list(&self.upstream, method, key, link).await.map_err(|trouble| self.unusable(&trouble))? {
            Ok(entries) => Ok(entries.into_iter().filter(Value::is_object).collect()),
            Err(fault) if fault.code == -32_601 => Ok(Vec::new()),
            Err(fault) => Err(passed(fault)),
        }
    }

    fn remember(&self, prompts: &mut [Value]) {
        let mut names = BTreeMap::new();
        for prompt in prompts {
            let Some(wire) = prompt.get("name").and_then(Value::as_str).map(ToOwned::to_owned) else { continue };
            let name = self.prompt_name(&wire);
            if let Some(prompt) = prompt.as_object_mut() {
                prompt.insert("name".to_owned(), Value::String(name.clone()));
            }
            names.insert(name, wire);
        }
        *self.prompts.borrow_mut() = names;
    }

    /// The server's name of a prompt. A name is never taken apart: it is looked up in what the server lists.
    async fn wire_prompt(&self, name: &str, link: &Rc<dyn Link>) -> Result<Option<String>, ServerError> {
        if self.alone {
            return Ok(Some(name.to_owned()));
        }
        // All names of this server's begin so. For another's it is not asked: it may be down.
        if !name.starts_with(&format!("{}__", self.slug())) {
            return Ok(None);
        }
        let known = self.prompts.borrow().get(name).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let mut prompts = self.entries("prompts/list", "prompts", link).await?;
        self.remember(&mut prompts);
        Ok(self.prompts.borrow().get(name).cloned())
    }

    async fn prompt(&self, mut params: Map<String, Value>, link: &Rc<dyn Link>) -> Result<Value, ServerError> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(wire) = self.wire_prompt(&name, link).await? else { return Err(ServerError::Unknown(name)) };
        params.insert("name".to_owned(), Value::String(wire));
        let mut result = self.ask("prompts/get", &params, link).await?;
        let prefix = self.prefix();
        let messages = result.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten();
        for content in messages.filter_map(|message| message.get_mut("content")) {
            prefix_block(content, &prefix);
        }
        Ok(result)
    }

    async fn read(&self, mut params: Map<String, Value>, link: &Rc<dyn Link>) -> Result<Value, ServerError> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(wire) = self.wire_uri(&uri) else { return Err(ServerError::Unknown(uri)) };
        params.insert("uri".to_owned(), Value::String(wire));
        let mut result = self.ask("resources/read", &params, link).await?;
        let prefix = self.prefix();
        let contents = result.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten();
        contents.for_each(|content| prefix_member(content, "uri", &prefix));
        Ok(result)
    }

    async fn complete(&self, mut params: Map<String, Value>, link: &Rc<dyn Link>) -> Result<Value, ServerError> {
        let Some(reference) = params.get_mut("ref").and_then(Value::as_object_mut) else {
            return Err(ServerError::Rpc {
                code: -32_602,
                message: "completion/complete needs a ref".to_owned(),
                data: None,
            });
        };
        let text = |key: &str| reference.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        match (text("name"), text("uri")) {
            (Some(name), _) => {
                let wire = self.wire_prompt(&name, link).await?;
                reference.insert("name".to_owned(), Value::String(wire.ok_or(ServerError::Unknown(name))?));
                self.ask("completion/complete", &params, link).await
            }
            (None, Some(uri)) => {
                let Some(wire) = self.wire_uri(&uri) else { return Err(ServerError::Unknown(uri)) };
                reference.insert("uri".to_owned(), Value::String(wire));
                self.ask("completion/complete", &params, link).await
            }
            (None, None) => Err(ServerError::Unknown("a reference without a name".to_owned())),
        }
    }

    async fn ask(&self, method: &str, params: &Map<String, Value>, link: &Rc<dyn Link>) -> Result<Value, ServerError> {
        let parts = CallParts { progress: true, log_level: self.log_level, ..CallParts::default() };
        match self.upstream.ask(method, params, parts, link).await {
            Ok(Ok(mut result)) => {
                // What belongs to the other era, or to the connection, is not the client's.
                if let Some(result) = result.as_object_mut() {
                    result.remove("_meta");
                    result.remove("resultType");
                }
                Ok(result)
            }
            Ok(Err(fault)) => Err(passed(fault)),
            Err(trouble) => Err(self.unusable(&trouble)),
        }
    }

    fn unusable(&self, trouble: &Trouble) -> ServerError {
        let error = super::trouble_error(trouble);
        let message = format!("{}: {}", self.slug(), error.message);
        ServerError::Rpc { code: -32_000, message, data: None }
    }
}

fn passed(fault: RpcFault) -> ServerError {
    ServerError::Rpc { code: fault.code, message: fault.message, data: fault.data }
}

impl McpServer for UpstreamServer {
    fn name(&self) -> &str {
        self.slug()
    }

    /// Until it was connected to, anything may be there.
    fn offers(&self) -> Offers {
        let anything = Offers { resources: true, prompts: true, completions: true, logging: true, ..Offers::default() };
        Offers { subscriptions: false, ..self.upstream.offers().unwrap_or(anything) }
    }

    /// Its own words are not known to be the same twice.
    fn may_repeat(&self) -> bool {
        false
    }

    fn handle<'a>(
        &'a self,
        method: &'a str,
        params: Map<String, Value>,
        link: Rc<dyn Link>,
    ) -> LocalBoxFuture<'a, Result<Value, ServerError>> {
        Box::pin(self.answer(method, params, link))
    }
}
