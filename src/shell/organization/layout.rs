//! The tables, and how older layouts become this one.

use worker::Error;

use super::alarm::TELL_AT;
use super::object::OrganizationDurableObject;
use super::staging::IndexedTool;
use crate::catalog::tool::Tool;
use crate::shell::clock::now;
use crate::shell::http::load_settings;

/// The layout that this release writes.
const SCHEMA_VERSION: &str = "5";

/// Tables that every layout has in the same form.
const TABLES: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS source (slug TEXT PRIMARY KEY, document_hash TEXT NOT NULL, json TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS demo_answer (key TEXT PRIMARY KEY, status INTEGER NOT NULL, body TEXT)",
    "CREATE TABLE IF NOT EXISTS subscriber (session TEXT PRIMARY KEY)",
];
/// What layout 3 has beyond them.
const LAYOUT_3: [&str; 9] = [
    "ALTER TABLE source ADD COLUMN report TEXT NOT NULL DEFAULT '{}'",
    // The text is last: what only reads the other columns does not touch its pages.
    "CREATE TABLE tool (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE, source TEXT NOT NULL, name TEXT NOT NULL, own_name TEXT NOT NULL, operation TEXT NOT NULL, json TEXT NOT NULL)",
    "CREATE INDEX tool_name ON tool (name)",
    "CREATE INDEX tool_source ON tool (source, own_name)",
    "CREATE VIRTUAL TABLE tool_search USING fts5(name, title, description, tokenize = 'porter unicode61')",
    "CREATE TABLE staged (import TEXT NOT NULL, address TEXT NOT NULL, at INTEGER NOT NULL, name TEXT NOT NULL, own_name TEXT NOT NULL, operation TEXT NOT NULL, name_words TEXT NOT NULL, title_words TEXT NOT NULL, description TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (import, address)) WITHOUT ROWID",
    "CREATE TABLE toolkit (slug TEXT PRIMARY KEY, json TEXT NOT NULL)",
    "CREATE TABLE toolkit_tool (toolkit TEXT NOT NULL, address TEXT NOT NULL, PRIMARY KEY (toolkit, address)) WITHOUT ROWID",
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, json TEXT NOT NULL)",
];
/// What layout 4 has beyond them.
const LAYOUT_4: [&str; 8] = [
    "CREATE TABLE api_key (id TEXT PRIMARY KEY, hash TEXT NOT NULL, json TEXT NOT NULL, last_used INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE oauth_grant (id TEXT PRIMARY KEY, account TEXT NOT NULL, used_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX oauth_grant_account ON oauth_grant (account, used_at)",
    "CREATE TABLE sign_in_try (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, address TEXT NOT NULL)",
    "CREATE TABLE waiting (execution TEXT PRIMARY KEY, session TEXT NOT NULL, since INTEGER NOT NULL, expires_at INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX waiting_since ON waiting (since, execution)",
    "CREATE INDEX waiting_session ON waiting (session)",
    "CREATE TABLE server_state (source TEXT PRIMARY KEY, json TEXT NOT NULL)",
];
/// What layout 5 has beyond them, for the audit log, webhooks and the history of all sessions.
const LAYOUT_5: [&str; 8] = [
    "ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit ADD COLUMN event TEXT",
    "CREATE UNIQUE INDEX audit_event ON audit (event) WHERE event IS NOT NULL",
    "CREATE TABLE webhook (slug TEXT PRIMARY KEY, json TEXT NOT NULL, state TEXT NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE delivery (id INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, message TEXT NOT NULL, at INTEGER NOT NULL, tries INTEGER NOT NULL, next_at INTEGER NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX delivery_next ON delivery (webhook, next_at)",
    "CREATE TABLE program (number INTEGER PRIMARY KEY AUTOINCREMENT, execution TEXT NOT NULL UNIQUE, session TEXT NOT NULL, account TEXT NOT NULL, status TEXT NOT NULL, started_at INTEGER NOT NULL, json TEXT NOT NULL)",
    "CREATE INDEX program_started ON program (started_at, number)",
];
/// Tools that are moved to the new layout at a time.
const MOVED_AT_ONCE: i64 = 200;

impl OrganizationDurableObject {
    /// Makes the tables, brings old ones up to date, and has the built-in sources there.
    pub(super) fn prepare(&self) -> worker::Result<()> {
        if self.prepared.get() { Ok(()) } else { self.prepare_now() }
    }

    #[inline(never)]
    fn prepare_now(&self) -> worker::Result<()> {
        let is_new = self.rows("SELECT name FROM sqlite_master WHERE name = 'meta'", vec![])?.is_empty();
        let version = if is_new { None } else { self.meta("schema-version")? };
        match version.as_deref() {
            Some(SCHEMA_VERSION) => {}
            // The tables without their version: they were made by a step that was not stored whole.
            None | Some("1" | "2" | "3" | "4") => self.in_transaction(|| self.bring_up_to_date(version.as_deref()))?,
            Some(found) => {
                let message = format!("the organization's stored layout {found} is newer than this release");
                return Err(Error::RustError(message));
            }
        }
        if load_settings(&self.env).is_ok_and(|settings| settings.demo) {
            self.import_demo()?;
        }
        self.import_own_api()?;
        self.forget_old_imports()?;
        self.prepared.set(true);
        Ok(())
    }

    fn bring_up_to_date(&self, version: Option<&str>) -> worker::Result<()> {
        if !matches!(version, Some("3" | "4")) {
            self.make_layout_3(version.is_some())?;
        }
        if version != Some("4") {
            self.make(&LAYOUT_4)?;
        }
        self.make(&LAYOUT_5)?;
        self.make_call_grant_tables()?;
        // An alarm that an older release set is for this, and for nothing else.
        if !self.rows("SELECT 1 FROM subscriber LIMIT 1", vec![])?.is_empty() {
            self.put_meta(TELL_AT, &now().to_string())?;
        }
        self.chain_old_entries()?;
        self.put_meta("schema-version", SCHEMA_VERSION)
    }

    fn make(&self, statements: &[&str]) -> worker::Result<()> {
        for statement in statements {
            self.sql().exec(statement, None)?;
        }
        Ok(())
    }

    fn make_layout_3(&self, has_tools: bool) -> worker::Result<()> {
        let sql = self.sql();
        for table in TABLES {
            sql.exec(table, None)?;
        }
        if has_tools {
            for statement in
                ["DROP TABLE tool_search", "DROP INDEX IF EXISTS tool_name", "ALTER TABLE tool RENAME TO old_tool"]
            {
                sql.exec(statement, None)?;
            }
        }
        for statement in LAYOUT_3 {
            sql.exec(statement, None)?;
        }
        if has_tools { self.move_tools() } else { Ok(()) }
    }

    /// 1 and 2 → 3: tools have numbers, which their index goes by, and the names that they have in a toolkit.
    fn move_tools(&self) -> worker::Result<()> {
        let mut after = String::new();
        loop {
            let query = "SELECT json FROM old_tool WHERE address > ? ORDER BY address LIMIT ?";
            let texts = self.texts(query, vec![after.as_str().into(), MOVED_AT_ONCE.into()])?;
            for text in &texts {
                let tool: Tool = crate::json::from_str(text)?;
                self.insert_tool(&IndexedTool::of(&tool)?)?;
                after.clone_from(&tool.address);
            }
            if texts.is_empty() {
                break;
            }
        }
        self.sql().exec("DROP TABLE old_tool", None)?;
        Ok(())
    }
}
