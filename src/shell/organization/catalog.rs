//! What sessions ask: one tool, a page of them, a search. Every answer is for one resource: what its toolkit does not include
//! does not exist.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};
use worker::SqlStorageValue;

use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, text};
use crate::catalog::rank::{DESCRIPTION_CHARS, Hit, WEIGHED, rank};
use crate::catalog::search::{PARAMETER_CHARS, Search, search_of};
use crate::catalog::tool::Tool;
use crate::catalog::typescript::type_text;
use crate::internal::{
    CatalogQuestion, DirectAnswer, DirectQuestion, LookupAnswer, LookupQuestion, Question, ServersAnswer, SourceKind,
    SourceRow, ToolLookup,
};
use crate::organization::stop::Stop;
use crate::organization::toolkit::Toolkit;
use crate::policy::{Action, Judgement, Rule, Rules, judge};
use crate::session::direct::{PAGE, direct_name, listed_tool, own_direct_name};

/// Hits of a search, by default and at most.
const SEARCH_DEFAULT: u64 = 10;
const SEARCH_MOST: u64 = 50;
/// Hits with every word of a question that suffice.
const ENOUGH: usize = 40;
/// Bytes of a page of `tools/list`; at least one tool is on it.
const PAGE_BYTES: usize = 2 << 20;
/// Sources on a page of `sources.list`.
const SOURCES_PAGE: u64 = 200;
/// The resource that has everything.
const EVERYTHING: &str = "default";

/// Policies and toolkits.
#[derive(Default)]
pub(super) struct Rulebook {
    pub(super) policies: Vec<Rule>,
    pub(super) toolkits: BTreeMap<String, Toolkit>,
    pub(super) stops: Vec<Stop>,
}

/// What one resource sees of the catalog.
pub(super) struct View<'o> {
    object: &'o OrganizationDurableObject,
    resource: &'o str,
    rulebook: Rc<Rulebook>,
    /// Sources that were read already.
    sources: RefCell<BTreeMap<String, Option<Rc<SourceRow>>>>,
}

impl View<'_> {
    fn is_everything(&self) -> bool {
        self.resource == EVERYTHING
    }

    /// `None` for everything, and for a toolkit that was removed.
    fn toolkit(&self) -> Option<&Toolkit> {
        self.rulebook.toolkits.get(self.resource)
    }

    fn has(&self, address: &str) -> bool {
        self.is_everything() || self.toolkit().is_some_and(|toolkit| toolkit.includes(address))
    }

    fn source_of(&self, slug: &str) -> worker::Result<Option<Rc<SourceRow>>> {
        if let Some(known) = self.sources.borrow().get(slug) {
            return Ok(known.clone());
        }
        let source = self.object.source(slug)?.map(Rc::new);
        self.sources.borrow_mut().insert(slug.to_owned(), source.clone());
        Ok(source)
    }

    pub(super) fn judge(&self, tool: &Tool) -> worker::Result<Judgement> {
        let source = self.source_of(&tool.source)?;
        if let Some(source) = &source
            && let Some(origin) = source.unconfirmed_origin_of(tool)
        {
            let reason = format!(
                "it sends to {origin}, and no administrator has confirmed that the credential of {} may go there",
                source.slug
            );
            return Ok(Judgement::new(Action::Block, reason));
        }
        let toolkit = self.toolkit().map(|toolkit| (self.resource, toolkit.policies.as_slice()));
        let rules = Rules { organization: &self.rulebook.policies, toolkit };
        Ok(judge(tool, source.map(|source| source.vouched()).unwrap_or_default(), rules))
    }

    /// The name of a tool in direct mode.
    fn name(&self, tool: &Tool) -> String {
        if self.own_source().is_some() { own_direct_name(&tool.address) } else { direct_name(&tool.address) }
    }

    fn own_source(&self) -> Option<&str> {
        self.toolkit().and_then(Toolkit::source)
    }

    pub(super) fn lookup(&self, address: &str) -> worker::Result<ToolLookup> {
        let tool = if self.has(address) { self.object.tool(address)? } else { None };
        let Some(tool) = tool else {
            return Ok(ToolLookup { suggestions: self.suggestions(address)?, ..ToolLookup::default() });
        };
        let judgement = self.judge(&tool)?;
        let source = self.source_of(&tool.source)?.map(|source| SourceRow::clone(&source));
        let alone = self.own_source().is_some();
        // Those of other sources are of no matter.
        let of_others = |stop: &Stop| stop.scope.strip_prefix("source:").is_some_and(|slug| slug != tool.source);
        let stops = self.rulebook.stops.iter().filter(|stop| !of_others(stop)).cloned().collect();
        Ok(ToolLookup { judgement: Some(judgement), tool: Some(tool), source, suggestions: Vec::new(), alone, stops })
    }

    fn suggestions(&self, address: &str) -> worker::Result<Vec<String>> {
        Ok(self.search(address, None, 3, 0)?.0.into_iter().map(|tool| tool.address).collect())
    }

    /// Tools that fit a question, the best first, and how many there are. Their schemas are left out.
    pub(super) fn search(
        &self,
        query: &str,
        source: Option<&str>,
        limit: u64,
        offset: u64,
    ) -> worker::Result<(Vec<Tool>, u64)> {
        let mut joins = String::new();
        let mut bindings: Vec<SqlStorageValue> = Vec::new();
        if !self.is_everything() {
            joins.push_str(" JOIN toolkit_tool ON toolkit_tool.address = tool.address AND toolkit_tool.toolkit = ?");
            bindings.push(self.resource.into());
        }
        let filter = if source.is_some() { " AND tool.source = ?" } else { "" };
        let with = |expression: Option<&str>| {
            let mut all = bindings.clone();
            all.extend(expression.map(Into::into));
            all.extend(source.map(Into::into));
            all
        };
        let slugs = self.object.texts("SELECT slug FROM source", vec![])?;
        let (addresses, total) = match search_of(query, |word| slugs.iter().any(|slug| slug == word)) {
            None => {
                let from = format!("FROM tool{joins} WHERE 1{filter}");
                let total = self.object.count(&format!("SELECT COUNT(*) {from}"), with(None))?;
                let mut bindings = with(None);
                bindings.extend([cast(limit), cast(offset)]);
                let page = format!("SELECT tool.address {from} ORDER BY tool.address LIMIT ? OFFSET ?");
                (self.object.texts(&page, bindings)?, total)
            }
            Some(search) => {
                // The tools themselves are looked at only where a filter needs it: there may be twenty thousand.
                let is_filtered = !self.is_everything() || source.is_some();
                let join = if is_filtered { " JOIN tool ON tool.id = tool_search.rowid" } else { "" };
                let found = format!("FROM tool_search{join}{joins} WHERE tool_search MATCH ?{filter}");
                let end = usize::try_from(limit.saturating_add(offset)).unwrap_or(usize::MAX);
                let total = self.object.count(&format!("SELECT COUNT(*) {found}"), with(Some(&search.any)))?;
                let mut hits = self.hits(&found, &search, &with, end)?;
                let mut rest = hits.split_off(hits.len().min(WEIGHED));
                rank(query, &mut hits);
                hits.append(&mut rest);
                let page = hits.into_iter().map(|hit| hit.address).take(end);
                (page.skip(usize::try_from(offset).unwrap_or(usize::MAX)).collect(), total)
            }
        };
        let tools = addresses.iter().filter_map(|address| self.object.tool_without_schemas(address).transpose());
        Ok((tools.collect::<worker::Result<_>>()?, total))
    }

    /// What the index finds, the best by its own measure first; at least `end` where there are as many.
    fn hits(
        &self,
        found: &str,
        search: &Search,
        with: &dyn Fn(Option<&str>) -> Vec<SqlStorageValue>,
        end: usize,
    ) -> worker::Result<Vec<Hit>> {
        let most = end.max(WEIGHED);
        let whole = self.object.count(&format!("SELECT COUNT(*) {found}"), with(Some(&search.all)))?;
        // Where there are enough tools that have every word, those that have only some need not be ranked.
        let is_enough = whole >= u64::try_from(end.max(ENOUGH)).unwrap_or(u64::MAX);
        let mut bindings = Vec::new();
        if !is_enough {
            bindings.push(search.all.as_str().into());
        }
        bindings.extend(with(Some(if is_enough { &search.all } else { &search.any })));
        bindings.push(cast(u64::try_from(most).unwrap_or(u64::MAX)));
        let has_all = "tool_search.rowid IN (SELECT rowid FROM tool_search WHERE tool_search MATCH ?)";
        let whole = if is_enough { "1" } else { has_all };
        // Numbers first: sorting would carry the texts of all hits along. A word in a name says most.
        let query = format!(
            "SELECT tool.address, tool_search.name, tool_search.title, substr(tool_search.description, 1, {DESCRIPTION_CHARS}) || ' ' || substr(tool_search.description, -{PARAMETER_CHARS}), tool.operation \
             FROM (SELECT tool_search.rowid AS id, {whole} AS whole, bm25(tool_search, 8.0, 6.0, 1.0) AS score {found} ORDER BY whole DESC, score, id LIMIT ?) AS best \
             JOIN tool_search ON tool_search.rowid = best.id JOIN tool ON tool.id = best.id ORDER BY best.whole DESC, best.score, best.id"
        );
        let rows = self.object.rows(&query, bindings)?;
        let hit = |row: &super::rows::Row| {
            let column = |index: usize| text(row, index).unwrap_or_default().to_owned();
            Hit { address: column(0), name: column(1), title: column(2), description: column(3), operation: column(4) }
        };
        Ok(rows.iter().map(hit).collect())
    }

    fn direct(&self, question: &DirectQuestion) -> worker::Result<DirectAnswer> {
        let empty = DirectAnswer { catalog: self.object.catalog()?, lookup: None, tools: Vec::new(), next: None };
        match question {
            DirectQuestion::Name(name) => {
                let (query, bindings): (_, Vec<SqlStorageValue>) = match self.own_source() {
                    Some(source) => {
                        let query = "SELECT address FROM tool WHERE source = ? AND own_name = ?";
                        (query, vec![source.into(), name.as_str().into()])
                    }
                    None => ("SELECT address FROM tool WHERE name = ?", vec![name.as_str().into()]),
                };
                let address = self.object.texts(query, bindings)?.into_iter().find(|address| self.has(address));
                let lookup = address.map(|address| self.lookup(&address)).transpose()?;
                Ok(DirectAnswer { lookup, ..empty })
            }
            DirectQuestion::Page { after } => {
                let (tools, next) = self.page(after)?;
                Ok(DirectAnswer { tools, next, ..empty })
            }
        }
    }

    /// A page of the tools as they are listed, and where the next one begins.
    fn page(&self, after: &str) -> worker::Result<(Vec<String>, Option<String>)> {
        let most = cast(u64::try_from(PAGE).unwrap_or(u64::MAX));
        let (query, bindings) = if self.is_everything() {
            ("SELECT json FROM tool WHERE address > ? ORDER BY address LIMIT ?", vec![after.into(), most])
        } else {
            let query = "SELECT tool.json FROM toolkit_tool JOIN tool ON tool.address = toolkit_tool.address WHERE toolkit_tool.toolkit = ? AND toolkit_tool.address > ? ORDER BY toolkit_tool.address LIMIT ?";
            (query, vec![self.resource.into(), after.into(), most])
        };
        let mut listed = Vec::new();
        let (mut seen, mut bytes, mut last) = (0, 0, None);
        // Row by row: a page of large tools must not be in memory as a whole.
        for row in self.object.sql().exec(query, bindings)?.raw() {
            let row = row?;
            let tool: Tool = crate::json::from_str(text(&row, 0).unwrap_or_default())?;
            seen += 1;
            match self.judge(&tool)?.action {
                Action::Block => {}
                action @ (Action::Allow | Action::Approve) => {
                    let entry = listed_tool(&tool, &self.name(&tool), action == Action::Approve).to_string();
                    bytes += entry.len();
                    listed.push(entry);
                }
            }
            last = Some(tool.address);
            if bytes > PAGE_BYTES {
                return Ok((listed, last));
            }
        }
        Ok((listed, last.filter(|_| seen == PAGE)))
    }

    /// Answers a program's question: JSON text of the data, or what is wrong with the question.
    fn answer(&self, question: &CatalogQuestion) -> worker::Result<Result<String, String>> {
        let data = match question.address.as_str() {
            "search" => self.found(&question.arguments)?,
            "describe" => self.described(&question.arguments)?,
            _ => Ok(self.sources(&question.arguments)?),
        };
        Ok(data.map(|data| data.to_string()))
    }

    #[inline(never)]
    fn found(&self, arguments: &Value) -> worker::Result<Result<Value, String>> {
        let query = arguments.get("query").and_then(Value::as_str);
        let (Some(query), Some(limit), Some(offset)) =
            (query, number(arguments, "limit", SEARCH_DEFAULT), number(arguments, "offset", 0))
        else {
            return Ok(Err(
                "tools.search takes { query: string, source?: string, limit?: number, offset?: number }.".to_owned()
            ));
        };
        let source = arguments.get("source").and_then(Value::as_str);
        let (tools, total) = self.search(query, source, limit.clamp(1, SEARCH_MOST), offset)?;
        let items = tools.iter().map(|tool| self.summary(tool)).collect::<worker::Result<Vec<_>>>()?;
        Ok(Ok(json!({ "items": items, "total": total })))
    }

    #[inline(never)]
    fn described(&self, arguments: &Value) -> worker::Result<Result<Value, String>> {
        let Some(address) = arguments.get("address").and_then(Value::as_str) else {
            return Ok(Err("tools.describe takes { address: string }.".to_owned()));
        };
        let lookup = self.lookup(address)?;
        let Some(tool) = &lookup.tool else {
            let hint = if lookup.suggestions.is_empty() {
                "tools.search({ query }) finds tools.".to_owned()
            } else {
                format!("Did you mean {}?", lookup.suggestions.join(", "))
            };
            return Ok(Err(format!("There is no tool {address}. {hint}")));
        };
        self.description(tool).map(Ok)
    }

    /// The MCP servers that the resource has tools of.
    fn servers(&self) -> worker::Result<ServersAnswer> {
        let slugs = if self.is_everything() {
            self.object.texts("SELECT slug FROM source ORDER BY slug", vec![])?
        } else {
            let query = "SELECT DISTINCT tool.source FROM toolkit_tool JOIN tool ON tool.address = toolkit_tool.address WHERE toolkit_tool.toolkit = ? ORDER BY 1";
            self.object.texts(query, vec![self.resource.into()])?
        };
        let mut sources = Vec::new();
        for slug in slugs {
            if let Some(source) = self.source_of(&slug)?.filter(|source| source.kind == SourceKind::Mcp) {
                // Nothing is asked of a server that its credential may not go to.
                if source.unconfirmed_origins().is_empty() {
                    sources.push(SourceRow::clone(&source));
                }
            }
        }
        Ok(ServersAnswer { sources, alone: self.own_source().is_some(), stops: self.rulebook.stops.clone() })
    }

    fn summary(&self, tool: &Tool) -> worker::Result<Value> {
        let action = self.judge(tool)?.action;
        let mut summary = json!({
            "address": tool.address,
            "title": tool.title,
            "description": tool.description.chars().take(200).collect::<String>(),
            "approval": action == Action::Approve,
        });
        if let (Action::Block, Some(summary)) = (action, summary.as_object_mut()) {
            summary.insert("blocked".to_owned(), true.into());
        }
        Ok(summary)
    }

    fn description(&self, tool: &Tool) -> worker::Result<Value> {
        let judgement = self.judge(tool)?;
        let mut description = json!({
            "address": tool.address,
            "title": tool.title,
            "description": tool.description,
            "approval": judgement.action == Action::Approve,
            "approvalReason": judgement.reason,
            "input": type_text(&tool.input_schema),
            "output": tool.output_schema.as_ref().map_or_else(|| "unknown".to_owned(), type_text),
        });
        if let (Action::Block, Some(description)) = (judgement.action, description.as_object_mut()) {
            description.insert("blocked".to_owned(), true.into());
        }
        Ok(description)
    }

    /// The sources that the resource has tools of.
    fn sources(&self, arguments: &Value) -> worker::Result<Value> {
        let after = arguments.get("after").and_then(Value::as_str).unwrap_or_default();
        let rows = if self.is_everything() {
            let query = "SELECT slug, 0 FROM source WHERE slug > ? ORDER BY slug LIMIT ?";
            self.object.rows(query, vec![after.into(), cast(SOURCES_PAGE)])?
        } else {
            let query = "SELECT tool.source, COUNT(*) FROM toolkit_tool JOIN tool ON tool.address = toolkit_tool.address WHERE toolkit_tool.toolkit = ? AND tool.source > ? GROUP BY tool.source ORDER BY tool.source LIMIT ?";
            self.object.rows(query, vec![self.resource.into(), after.into(), cast(SOURCES_PAGE)])?
        };
        let mut items = Vec::new();
        for row in &rows {
            if let Some(source) = self.source_of(text(row, 0).unwrap_or_default())? {
                let tools = if self.is_everything() { u64::from(source.tools) } else { integer(row, 1).unwrap_or(0) };
                items.push(json!({ "slug": source.slug, "title": source.title, "tools": tools }));
            }
        }
        Ok(json!({ "items": items }))
    }
}

impl OrganizationDurableObject {
    pub(super) fn answer_lookup(&self, question: &Question<LookupQuestion>) -> worker::Result<LookupAnswer> {
        Self::check_version(question.version)?;
        let catalog = self.catalog()?;
        if question.about.known == Some(catalog) {
            return Ok(LookupAnswer::Unchanged);
        }
        let lookup = Box::new(self.view(&question.resource)?.lookup(&question.about.address)?);
        Ok(LookupAnswer::Found { catalog, lookup })
    }

    pub(super) fn answer_servers(&self, question: &Question<()>) -> worker::Result<ServersAnswer> {
        Self::check_version(question.version)?;
        self.view(&question.resource)?.servers()
    }

    pub(super) fn answer_direct(&self, question: &Question<DirectQuestion>) -> worker::Result<DirectAnswer> {
        Self::check_version(question.version)?;
        self.view(&question.resource)?.direct(&question.about)
    }

    pub(super) fn answer(&self, question: &Question<CatalogQuestion>) -> worker::Result<Result<String, String>> {
        Self::check_version(question.version)?;
        self.view(&question.resource)?.answer(&question.about)
    }

    /// The catalog as sessions of a resource see it.
    pub(super) fn view<'o>(&'o self, resource: &'o str) -> worker::Result<View<'o>> {
        Ok(View { object: self, resource, rulebook: self.rulebook()?, sources: RefCell::default() })
    }

    /// The catalog as administrators see it.
    pub(super) fn view_of_everything(&self) -> worker::Result<View<'_>> {
        self.view(EVERYTHING)
    }

    pub(super) fn rulebook(&self) -> worker::Result<Rc<Rulebook>> {
        if let Some(known) = &*self.rulebook.borrow() {
            return Ok(Rc::clone(known));
        }
        let policies = self.meta("policies")?.map(|text| crate::json::from_str(&text)).transpose()?;
        let policies = policies.unwrap_or_default();
        let mut rulebook = Rulebook { policies, stops: self.stops()?, ..Rulebook::default() };
        for row in self.rows("SELECT slug, json FROM toolkit", vec![])? {
            if let (Some(slug), Some(json)) = (text(&row, 0), text(&row, 1)) {
                rulebook.toolkits.insert(slug.to_owned(), crate::json::from_str(json)?);
            }
        }
        let rulebook = Rc::new(rulebook);
        *self.rulebook.borrow_mut() = Some(Rc::clone(&rulebook));
        Ok(rulebook)
    }

    pub(super) fn tool(&self, address: &str) -> worker::Result<Option<Tool>> {
        let texts = self.texts("SELECT json FROM tool WHERE address = ?", vec![address.into()])?;
        texts.first().map(|json| Ok(crate::json::from_str(json)?)).transpose()
    }

    /// A tool as lists show it: schemas are most of its text, which would be carried over from the database to be dropped here.
    fn tool_without_schemas(&self, address: &str) -> worker::Result<Option<Tool>> {
        let query = "SELECT json_remove(json_set(json, '$.inputSchema', json('{}')), '$.outputSchema') FROM tool WHERE address = ?";
        let texts = self.texts(query, vec![address.into()])?;
        texts.first().map(|json| Ok(crate::json::from_str(json)?)).transpose()
    }

    pub(super) fn source(&self, slug: &str) -> worker::Result<Option<SourceRow>> {
        let texts = self.texts("SELECT json FROM source WHERE slug = ?", vec![slug.into()])?;
        texts.first().map(|json| Ok(crate::json::from_str(json)?)).transpose()
    }
}

/// A whole number among the arguments; `None` when it is something else.
fn number(arguments: &Value, key: &str, default: u64) -> Option<u64> {
    match arguments.get(key) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_u64(),
    }
}
