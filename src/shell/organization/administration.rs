//! The administration API, as far as the organization's storage answers it.

use serde_json::{Value, json};

use super::audit::By;
use super::object::OrganizationDurableObject;
use super::rows::{cast, text};
use crate::catalog::tool::{Binding, Tool};
use crate::catalog::typescript::type_text;
use crate::internal::{AdminAnswer, AdminQuestion, SourceKind, SourceRow};
use crate::organization::cursor::{Page, encode};
use crate::organization::fault::Fault;
use crate::organization::report::Report;
use crate::organization::route::{Operation, ToolQuery, parse_call};
use crate::organization::source::ORIGINS_LIMIT;
use crate::organization::toolkit::Toolkit;
use crate::policy::Rule;
use crate::protocol::time::iso_time;
use crate::session::direct::direct_name;

/// Toolkits of an organization.
const TOOLKITS_LIMIT: usize = 50;
/// Addresses that are matched with the toolkits at a time.
const MATCHED_AT_ONCE: u64 = 2_000;

impl OrganizationDurableObject {
    pub(super) fn administer(&self, question: &AdminQuestion) -> worker::Result<AdminAnswer> {
        Self::check_version(question.version)?;
        let operation = match parse_call(&question.call) {
            Ok(operation) => operation,
            Err(fault) => return Ok(AdminAnswer::fault(&fault)),
        };
        let by = By { account: &question.by, via: &question.via };
        match operation {
            Operation::ListSources(page) => self.list_sources(&page),
            Operation::ReadSource(slug) => self.read_source(&slug),
            Operation::DeleteSource(slug) => self.delete_source(by, &slug),
            Operation::ConfirmOrigins(slug, origins) => self.confirm(by, &slug, &origins),
            Operation::ReadPolicies => Ok(AdminAnswer::new(200, json!({ "policies": self.rulebook()?.policies }))),
            Operation::PutPolicies(rules) => self.put_policies(by, &rules),
            Operation::ListToolkits(page) => self.list_toolkits(&page),
            Operation::ReadToolkit(slug) => match self.rulebook()?.toolkits.get(&slug) {
                Some(toolkit) => Ok(AdminAnswer::new(200, self.toolkit_shown(&slug, toolkit)?)),
                None => Ok(AdminAnswer::fault(&Fault::missing(format!("toolkit {slug}")))),
            },
            Operation::PutToolkit(slug, toolkit) => self.put_toolkit(by, &slug, &toolkit),
            Operation::DeleteToolkit(slug) => self.delete_toolkit(by, &slug),
            Operation::FindTools(query) => self.find_tools(&query),
            Operation::ReadTool(address) => self.read_tool(&address),
            Operation::ListAudit(page) => self.list_audit(&page),
            Operation::ListKeys(page) => self.list_keys(&page),
            Operation::CreateKey(asked) => self.create_key(by, &question.organization, &asked),
            Operation::DeleteKey(id) => self.delete_key(by, &id),
            Operation::ListApprovals(page, whose) => self.list_waiting(&page, whose.as_ref()),
            Operation::ListPrograms(page, filter) => self.list_programs(&page, &filter),
            Operation::ListWebhooks => self.list_webhooks(),
            Operation::ReadWebhook(slug) => self.read_webhook(&slug),
            Operation::DeleteWebhook(slug) => self.delete_webhook(by, &slug),
            Operation::ListStops => self.list_stops(),
            Operation::PutStop(scope, reason) => self.put_stop(by, &scope, reason),
            Operation::DeleteStop(scope) => self.delete_stop(by, &scope),
            // Documents are read, and secrets encrypted, where sessions do not have to wait for it.
            Operation::PutSource(_) | Operation::RefreshSource(_) | Operation::PutWebhook(_) => {
                Err(worker::Error::RustError(
                    "a request was sent to the organization's storage that is not for it".to_owned(),
                ))
            }
        }
    }

    // ---- sources --------------------------------------------------------------------------------

    fn list_sources(&self, page: &Page) -> worker::Result<AdminAnswer> {
        let after = page.after.as_deref().unwrap_or_default();
        let query = "SELECT json FROM source WHERE slug > ? ORDER BY slug LIMIT ?";
        let texts = self.texts(query, vec![after.into(), cast(page.limit + 1)])?;
        let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let sources =
            texts.iter().take(most).map(|json| crate::json::from_str(json)).collect::<Result<Vec<SourceRow>, _>>()?;
        let next = sources.last().filter(|_| texts.len() > most).map(|last| encode("sources", &last.slug));
        let shown = sources.iter().map(|source| self.source_shown(source)).collect::<worker::Result<Vec<_>>>()?;
        Ok(AdminAnswer::page(&shown, next))
    }

    fn read_source(&self, slug: &str) -> worker::Result<AdminAnswer> {
        let rows = self.rows("SELECT json, report FROM source WHERE slug = ?", vec![slug.into()])?;
        let Some(row) = rows.first() else {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("source {slug}"))));
        };
        let mut shown = self.source_shown(&crate::json::from_str(text(row, 0).unwrap_or_default())?)?;
        let report = text(row, 1).filter(|report| *report != "{}");
        if let (Some(report), Some(shown)) = (report, shown.as_object_mut()) {
            shown.insert("report".to_owned(), crate::json::from_str::<Report>(report)?.shown());
        }
        Ok(AdminAnswer::new(200, shown))
    }

    /// A source, and for an MCP server how it was found.
    fn source_shown(&self, source: &SourceRow) -> worker::Result<Value> {
        let mut shown = source_shown(source);
        if let (SourceKind::Mcp, Some(members)) = (source.kind, shown.as_object_mut()) {
            members.insert("server".to_owned(), self.server_shown(&source.slug)?);
        }
        Ok(shown)
    }

    fn delete_source(&self, by: By<'_>, slug: &str) -> worker::Result<AdminAnswer> {
        let Some(source) = self.source(slug)? else {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("source {slug}"))));
        };
        self.in_transaction(|| {
            self.delete_tools(slug)?;
            for statement in ["DELETE FROM source WHERE slug = ?", "DELETE FROM server_state WHERE source = ?"] {
                self.sql().exec(statement, vec![slug.into()])?;
            }
            self.fill_toolkits(Some(slug))?;
            self.note(by, "source.delete", Some(slug), json!({ "tools": source.tools }))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::done())
    }

    fn confirm(&self, by: By<'_>, slug: &str, origins: &[String]) -> worker::Result<AdminAnswer> {
        let Some(mut source) = self.source(slug)? else {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("source {slug}"))));
        };
        // A mistyped origin would never be noticed.
        if let Some(other) = origins.iter().find(|origin| !source.origins.contains(origin)) {
            let problem =
                format!("has {other}, which no tool of {slug} sends to; there are {}", source.origins.join(", "));
            return Ok(AdminAnswer::fault(&Fault::field("origins", problem)));
        }
        source.confirmed_origins.extend(origins.iter().cloned());
        source.confirmed_origins.sort();
        source.confirmed_origins.dedup();
        if source.confirmed_origins.len() > ORIGINS_LIMIT {
            let problem = format!("would be more than {ORIGINS_LIMIT} for this source");
            return Ok(AdminAnswer::fault(&Fault::field("origins", problem)));
        }
        source.revision += 1;
        self.in_transaction(|| {
            let json = serde_json::to_string(&source)?;
            self.sql().exec("UPDATE source SET json = ? WHERE slug = ?", vec![json.into(), slug.into()])?;
            self.note(by, "source.confirm", Some(slug), json!({ "origins": origins }))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::new(200, self.source_shown(&source)?))
    }

    // ---- policies and toolkits ------------------------------------------------------------------

    fn put_policies(&self, by: By<'_>, rules: &[Rule]) -> worker::Result<AdminAnswer> {
        self.in_transaction(|| {
            self.put_meta("policies", &serde_json::to_string(rules)?)?;
            self.note(by, "policies.put", None, json!({ "policies": rules }))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::new(200, json!({ "policies": rules })))
    }

    fn list_toolkits(&self, page: &Page) -> worker::Result<AdminAnswer> {
        let after = page.after.clone().unwrap_or_default();
        let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let rulebook = self.rulebook()?;
        let mut rest = rulebook.toolkits.iter().filter(|(slug, _)| **slug > after);
        let items = rest.by_ref().take(most).map(|(slug, toolkit)| Ok((slug, self.toolkit_shown(slug, toolkit)?)));
        let items = items.collect::<worker::Result<Vec<_>>>()?;
        let next = items.last().filter(|_| rest.next().is_some()).map(|(slug, _)| encode("toolkits", slug));
        Ok(AdminAnswer::page(&items.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>(), next))
    }

    fn toolkit_shown(&self, slug: &str, toolkit: &Toolkit) -> worker::Result<Value> {
        let tools = self.count("SELECT COUNT(*) FROM toolkit_tool WHERE toolkit = ?", vec![slug.into()])?;
        let mut shown = toolkit.shown(slug);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("tools".to_owned(), tools.into());
        }
        Ok(shown)
    }

    fn put_toolkit(&self, by: By<'_>, slug: &str, toolkit: &Toolkit) -> worker::Result<AdminAnswer> {
        let rulebook = self.rulebook()?;
        let is_new = !rulebook.toolkits.contains_key(slug);
        if is_new && rulebook.toolkits.len() >= TOOLKITS_LIMIT {
            let problem = format!("There are {TOOLKITS_LIMIT} toolkits already; remove one first.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        self.in_transaction(|| {
            let json = serde_json::to_string(toolkit)?;
            self.sql()
                .exec("INSERT OR REPLACE INTO toolkit (slug, json) VALUES (?, ?)", vec![slug.into(), json.into()])?;
            self.fill_toolkit(slug, toolkit, None)?;
            self.note(
                by,
                "toolkit.put",
                Some(slug),
                json!({ "include": toolkit.include, "policies": toolkit.policies }),
            )?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::new(if is_new { 201 } else { 200 }, self.toolkit_shown(slug, toolkit)?))
    }

    fn delete_toolkit(&self, by: By<'_>, slug: &str) -> worker::Result<AdminAnswer> {
        if !self.rulebook()?.toolkits.contains_key(slug) {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("toolkit {slug}"))));
        }
        self.in_transaction(|| {
            for statement in ["DELETE FROM toolkit WHERE slug = ?", "DELETE FROM toolkit_tool WHERE toolkit = ?"] {
                self.sql().exec(statement, vec![slug.into()])?;
            }
            self.note(by, "toolkit.delete", Some(slug), json!({}))?;
            self.catalog_changed()
        })?;
        Ok(AdminAnswer::done())
    }

    /// Notes which tools each toolkit includes, after those of a source changed.
    pub(super) fn fill_toolkits(&self, source: Option<&str>) -> worker::Result<()> {
        for (slug, toolkit) in &self.rulebook()?.toolkits {
            self.fill_toolkit(slug, toolkit, source)?;
        }
        Ok(())
    }

    fn fill_toolkit(&self, slug: &str, toolkit: &Toolkit, source: Option<&str>) -> worker::Result<()> {
        let sql = self.sql();
        match source {
            None => sql.exec("DELETE FROM toolkit_tool WHERE toolkit = ?", vec![slug.into()])?,
            Some(source) => {
                let (from, to) = (format!("{source}."), format!("{source}/"));
                let query = "DELETE FROM toolkit_tool WHERE toolkit = ? AND address > ? AND address < ?";
                sql.exec(query, vec![slug.into(), from.into(), to.into()])?
            }
        };
        let mut after = String::new();
        loop {
            let query =
                "SELECT address FROM tool WHERE address > ?1 AND (?2 IS NULL OR source = ?2) ORDER BY address LIMIT ?3";
            let addresses = self.texts(query, vec![after.as_str().into(), source.into(), cast(MATCHED_AT_ONCE)])?;
            let Some(last) = addresses.last() else {
                return Ok(());
            };
            let included: Vec<&String> = addresses.iter().filter(|address| toolkit.includes(address)).collect();
            if !included.is_empty() {
                sql.exec(
                    "INSERT OR IGNORE INTO toolkit_tool (toolkit, address) SELECT ?, value FROM json_each(?)",
                    vec![slug.into(), serde_json::to_string(&included)?.into()],
                )?;
            }
            after.clone_from(last);
        }
    }

    // ---- tools ----------------------------------------------------------------------------------

    fn find_tools(&self, asked: &ToolQuery) -> worker::Result<AdminAnswer> {
        let view = self.view_of_everything()?;
        let (tools, total) = view.search(&asked.query, asked.source.as_deref(), asked.limit, asked.offset)?;
        let end = asked.offset + u64::try_from(tools.len()).unwrap_or(0);
        let items = tools.iter().map(|tool| {
            let policy = view.judge(tool)?;
            Ok(json!({
                "address": tool.address,
                "title": tool.title,
                "description": tool.description.chars().take(200).collect::<String>(),
                "action": policy.action,
                "reason": policy.reason,
            }))
        });
        let items = items.collect::<worker::Result<Vec<_>>>()?;
        let mut answer = AdminAnswer::page(&items, (end < total).then(|| encode("tools", &end.to_string())));
        if let Some(body) = answer.body.as_object_mut() {
            body.insert("total".to_owned(), total.into());
        }
        Ok(answer)
    }

    fn read_tool(&self, address: &str) -> worker::Result<AdminAnswer> {
        let Some(tool) = self.tool(address)? else {
            return Ok(AdminAnswer::fault(&Fault::missing(format!("tool {address}"))));
        };
        let policy = self.view_of_everything()?.judge(&tool)?;
        let rulebook = self.rulebook()?;
        let including = rulebook.toolkits.iter().filter(|(_, toolkit)| toolkit.includes(address));
        let toolkits = including.map(|(slug, _)| {
            let policy = self.view(slug)?.judge(&tool)?;
            Ok(json!({ "slug": slug, "action": policy.action, "reason": policy.reason }))
        });
        let toolkits = toolkits.collect::<worker::Result<Vec<_>>>()?;
        let mut shown = json!({
            "address": tool.address,
            "source": tool.source,
            "title": tool.title,
            "description": tool.description,
            "directName": direct_name(&tool.address),
            "request": request_of(&tool),
            "hints": tool.hints,
            "policy": policy,
            "toolkits": toolkits,
            "input": type_text(&tool.input_schema),
            "output": tool.output_schema.as_ref().map_or_else(|| "unknown".to_owned(), type_text),
            "inputSchema": tool.input_schema,
        });
        if let (Some(schema), Some(shown)) = (tool.output_schema, shown.as_object_mut()) {
            shown.insert("outputSchema".to_owned(), schema);
        }
        Ok(AdminAnswer::new(200, shown))
    }
}

fn request_of(tool: &Tool) -> String {
    match &tool.binding {
        Binding::Http(http) => format!("{} {}", http.method, http.path_template),
        Binding::Mcp(mcp) => format!("tools/call {}", mcp.name),
        Binding::Graphql(graphql) => graphql.document(),
    }
}

/// A source as the administration API shows it: of its credential only that there is one.
fn source_shown(source: &SourceRow) -> Value {
    let auth =
        source.credential.as_ref().map(|credential| json!({ "kind": credential.kind, "version": credential.version }));
    json!({
        "slug": source.slug,
        "kind": source.kind,
        "title": source.title,
        "tools": source.tools,
        "builtIn": source.built_in,
        "baseUrl": source.base_url,
        "specUrl": source.spec_url,
        "url": source.url,
        "auth": auth,
        "trusted": source.trusted,
        "idempotentWrites": source.idempotent_writes,
        "honoursIdempotencyKey": source.honours_idempotency_key,
        "origins": source.origins,
        "unconfirmedOrigins": source.unconfirmed_origins(),
        "updatedAt": Some(source.updated_at).filter(|at| *at > 0).map(iso_time),
    })
}
