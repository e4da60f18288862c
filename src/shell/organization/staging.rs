//! Sources come in: tools are staged in batches while a document is read elsewhere, and take the place of the old ones in one
//! step at the end. What fails before that leaves the source as it was.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::audit::By;
use super::object::OrganizationDurableObject;
use super::rows::{cast, integer, text};
use crate::catalog::search::{indexed_text, words};
use crate::catalog::tool::{Binding, Tool};
use crate::internal::{AdminAnswer, ImportEnd, ImportStart, SourceRow, StagedTool, StagedTools};
use crate::organization::fault::Fault;
use crate::organization::report::{CHANGES_LIMIT, Report};
use crate::session::direct::{direct_name, own_direct_name};
use crate::shell::clock::now;

/// How long an import may take, in milliseconds; what is older was given up.
const IMPORT_TIME_MS: u64 = 600_000;
/// Sources of an organization.
const SOURCES_LIMIT: u64 = 200;
/// Tools of an organization.
const TOOLS_LIMIT: u64 = 50_000;
/// Bytes of one tool. Rows of the platform hold 2 MB.
pub(super) const TOOL_LIMIT: usize = 1 << 20;

/// A tool with everything that is stored beside it.
pub(super) struct IndexedTool<'t> {
    tool: &'t Tool,
    json: String,
    operation: String,
    name_words: String,
    title_words: String,
    text: String,
}

impl<'t> IndexedTool<'t> {
    pub(super) fn of(tool: &'t Tool) -> worker::Result<Self> {
        let json = serde_json::to_string(tool)?;
        if json.len() > TOOL_LIMIT {
            return Err(worker::Error::RustError(format!("the tool {} has {} bytes", tool.address, json.len())));
        }
        Ok(Self {
            tool,
            json,
            operation: operation_of(tool),
            name_words: words(&tool.address).join(" "),
            title_words: words(&tool.title).join(" "),
            text: indexed_text(tool),
        })
    }
}

/// A tool on its way to the organization's object.
pub(in crate::shell) fn staged_tool(tool: &Tool) -> worker::Result<StagedTool> {
    let IndexedTool { json, operation, name_words, title_words, text, .. } = IndexedTool::of(tool)?;
    Ok(StagedTool {
        address: tool.address.clone(),
        operation,
        name_words,
        title_words,
        description: text,
        json: RawValue::from_string(json)?,
    })
}

/// What a tool is known by in what it was made from; its name stays with that.
fn operation_of(tool: &Tool) -> String {
    match &tool.binding {
        Binding::Http(http) => format!("{} {}", http.method, http.path_template),
        Binding::Mcp(mcp) => mcp.name.clone(),
        Binding::Graphql(graphql) => format!("{} {}", graphql.operation.word(), graphql.field),
    }
}

/// What the audit log keeps of a source that was written: everything that an administrator decided, and no secret.
fn settings_of(source: &SourceRow, report: &Report, auth: &str) -> serde_json::Value {
    json!({
        "kind": source.kind,
        "tools": source.tools,
        "counts": report.counts,
        "auth": auth,
        "url": source.url,
        "specUrl": source.spec_url,
        "baseUrl": source.stated_base_url,
        "trusted": source.trusted,
        "idempotentWrites": source.idempotent_writes,
        "honoursIdempotencyKey": source.honours_idempotency_key,
        "confirmedOrigins": source.confirmed_origins,
    })
}

/// The tool's own part of an address.
fn own_part(address: &str) -> &str {
    address.split_once('.').map_or(address, |(_, own)| own)
}

impl OrganizationDurableObject {
    /// Removes what imports left behind that never ended: the Worker died, or its isolate did.
    pub(super) fn forget_old_imports(&self) -> worker::Result<()> {
        self.sql().exec("DELETE FROM staged WHERE at < ?", vec![cast(now().saturating_sub(IMPORT_TIME_MS))])?;
        Ok(())
    }

    /// What an import has to know before it begins.
    pub(super) fn start_import(&self, slug: &str) -> worker::Result<ImportStart> {
        self.forget_old_imports()?;
        let rows = self.rows("SELECT operation, address FROM tool WHERE source = ?", vec![slug.into()])?;
        let name = |row: &super::rows::Row| Some((text(row, 0)?.to_owned(), own_part(text(row, 1)?).to_owned()));
        Ok(ImportStart { source: self.source(slug)?, names: rows.iter().filter_map(name).collect::<BTreeMap<_, _>>() })
    }

    /// Takes some tools of an import.
    pub(super) fn stage(&self, staged: &StagedTools) -> worker::Result<()> {
        Self::check_version(staged.version)?;
        let sql = self.sql();
        for tool in &staged.tools {
            sql.exec(
                "INSERT OR REPLACE INTO staged (import, address, at, name, own_name, operation, name_words, title_words, description, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                vec![
                    staged.import.as_str().into(),
                    tool.address.as_str().into(),
                    cast(now()),
                    direct_name(&tool.address).into(),
                    own_direct_name(&tool.address).into(),
                    tool.operation.as_str().into(),
                    tool.name_words.as_str().into(),
                    tool.title_words.as_str().into(),
                    tool.description.as_str().into(),
                    tool.json.get().into(),
                ],
            )?;
        }
        Ok(())
    }

    /// Ends an import: its tools take the place of the source's old ones. Nothing of it stays where it is refused.
    pub(super) fn end_import(&self, end: ImportEnd) -> worker::Result<AdminAnswer> {
        Self::check_version(end.version)?;
        let import = end.import.clone();
        let ended = self.try_end_import(end);
        self.sql().exec("DELETE FROM staged WHERE import = ?", vec![import.as_str().into()])?;
        ended
    }

    fn try_end_import(&self, end: ImportEnd) -> worker::Result<AdminAnswer> {
        let slug = end.source.slug.clone();
        let known = self.source(&slug)?;
        if known.as_ref().map_or(0, |known| known.revision) != end.based_on {
            let problem =
                format!("The source {slug} was changed by somebody else meanwhile. Look at it, and try again.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        let staged = self.count("SELECT COUNT(*) FROM staged WHERE import = ?", vec![end.import.as_str().into()])?;
        if staged != u64::from(end.source.tools) {
            let problem = "The import took too long and was given up; the source is as it was.";
            return Ok(AdminAnswer::fault(&Fault::new(503, problem)));
        }
        let others = "SELECT COUNT(*) FROM tool WHERE source <> ?";
        if self.count(others, vec![slug.as_str().into()])? + staged > TOOLS_LIMIT {
            let problem = format!("The catalog would have more than {TOOLS_LIMIT} tools.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        if known.is_none() && self.count("SELECT COUNT(*) FROM source", vec![])? >= SOURCES_LIMIT {
            let problem = format!("There are {SOURCES_LIMIT} sources already; remove one first.");
            return Ok(AdminAnswer::fault(&Fault::new(409, problem)));
        }
        // Never one that the slug had before, whoever deleted it meanwhile.
        let revision = self.catalog()?.max(end.based_on) + 1;
        let source = SourceRow { revision, updated_at: now(), ..end.source };
        let report = self.in_transaction(|| {
            let report = self.take_staged(&end.import, &slug, end.report)?;
            // Sessions are told of changes only.
            let changed = ["added", "changed", "removed"].iter().any(|action| report.counts.get(*action) != Some(&0));
            let is_other = |known: &SourceRow| {
                (&known.origins, &known.base_url, &known.title) != (&source.origins, &source.base_url, &source.title)
            };
            let is_news = changed || !end.refresh || known.as_ref().is_none_or(is_other);
            self.sql().exec(
                "INSERT OR REPLACE INTO source (slug, document_hash, json, report) VALUES (?, '', ?, ?)",
                vec![
                    slug.as_str().into(),
                    serde_json::to_string(&source)?.into(),
                    serde_json::to_string(&report)?.into(),
                ],
            )?;
            if !is_news {
                return Ok(report);
            }
            self.note(
                By { account: &end.by, via: &end.via },
                if end.refresh { "source.refresh" } else { "source.put" },
                Some(&slug),
                settings_of(&source, &report, &end.auth),
            )?;
            self.catalog_changed()?;
            Ok(report)
        })?;
        let body = json!({
            "slug": slug,
            "tools": source.tools,
            "origins": source.origins,
            "unconfirmedOrigins": source.unconfirmed_origins(),
            "report": report.shown(),
        });
        Ok(AdminAnswer::new(if known.is_none() { 201 } else { 200 }, body))
    }

    fn take_staged(&self, import: &str, slug: &str, mut report: Report) -> worker::Result<Report> {
        let sql = self.sql();
        let most = cast(u64::try_from(CHANGES_LIMIT).unwrap_or(u64::MAX));
        let gone = "FROM tool WHERE source = ?1 AND address NOT IN (SELECT address FROM staged WHERE import = ?2)";
        let new = "FROM staged WHERE import = ?2 AND address NOT IN (SELECT address FROM tool WHERE source = ?1)";
        let other = "FROM tool JOIN staged ON staged.import = ?2 AND staged.address = tool.address WHERE tool.source = ?1 AND tool.json <> staged.json";
        let keys = || vec![slug.into(), import.into()];
        let had_tools = self.count("SELECT COUNT(*) FROM tool WHERE source = ?", vec![slug.into()])? > 0;
        for (action, from, column, why) in [
            ("removed", gone, "address", "it is not there any more"),
            ("changed", other, "tool.address", "its definition is another than before"),
            ("added", new, "address", "it is new"),
        ] {
            let total = self.count(&format!("SELECT COUNT(*) {from}"), keys())?;
            // All tools of a new source are new; nobody needs a list of them.
            let listed = if had_tools {
                let bindings = vec![slug.into(), import.into(), most.clone()];
                self.texts(&format!("SELECT {column} {from} ORDER BY 1 LIMIT ?3"), bindings)?
            } else {
                Vec::new()
            };
            if total > 0 && had_tools {
                report.add_changes(action, total, &listed, why);
            } else {
                report.counts.insert(action.to_owned(), total);
            }
        }
        // What is the same as before keeps its row.
        let old = format!("SELECT id {gone} UNION ALL SELECT tool.id {other}");
        sql.exec(&format!("DELETE FROM tool_search WHERE rowid IN ({old})"), keys())?;
        sql.exec(&format!("DELETE FROM tool WHERE id IN ({old})"), keys())?;
        let last = cast(self.count("SELECT COALESCE(MAX(id), 0) FROM tool", vec![])?);
        sql.exec(
            "INSERT INTO tool (address, source, name, own_name, operation, json) SELECT address, ?1, name, own_name, operation, json FROM staged WHERE import = ?2 AND address NOT IN (SELECT address FROM tool WHERE source = ?1) ORDER BY address",
            keys(),
        )?;
        sql.exec(
            "INSERT INTO tool_search (rowid, name, title, description) SELECT tool.id, name_words, title_words, description FROM staged JOIN tool ON tool.address = staged.address WHERE staged.import = ? AND tool.id > ?",
            vec![import.into(), last],
        )?;
        sql.exec("DELETE FROM staged WHERE import = ?", vec![import.into()])?;
        self.fill_toolkits(Some(slug))?;
        Ok(report)
    }

    /// Puts one tool into the catalog; for sources of the gateway's own.
    pub(super) fn insert_tool(&self, indexed: &IndexedTool<'_>) -> worker::Result<()> {
        let tool = indexed.tool;
        let sql = self.sql();
        let inserted = self.rows(
            "INSERT INTO tool (address, source, name, own_name, operation, json) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
            vec![
                tool.address.as_str().into(),
                tool.source.as_str().into(),
                direct_name(&tool.address).into(),
                own_direct_name(&tool.address).into(),
                indexed.operation.as_str().into(),
                indexed.json.as_str().into(),
            ],
        )?;
        let id = inserted.first().and_then(|row| integer(row, 0)).unwrap_or(0);
        sql.exec(
            "INSERT INTO tool_search (rowid, name, title, description) VALUES (?, ?, ?, ?)",
            vec![
                cast(id),
                indexed.name_words.as_str().into(),
                indexed.title_words.as_str().into(),
                indexed.text.as_str().into(),
            ],
        )?;
        Ok(())
    }

    /// Removes the tools of a source.
    pub(super) fn delete_tools(&self, slug: &str) -> worker::Result<()> {
        let sql = self.sql();
        sql.exec("DELETE FROM tool_search WHERE rowid IN (SELECT id FROM tool WHERE source = ?)", vec![slug.into()])?;
        sql.exec("DELETE FROM tool WHERE source = ?", vec![slug.into()])?;
        Ok(())
    }
}
