//! The gateway's own sources: the demo inventory, and the administration API.

use super::object::OrganizationDurableObject;
use super::rows::text;
use super::staging::IndexedTool;
use crate::catalog::openapi::{ImportLimits, ImportOptions, import_openapi};
use crate::catalog::tool::{Binding, Tool};
use crate::demo;
use crate::internal::SourceRow;
use crate::json::sha256_hex;
use crate::organization;

impl OrganizationDurableObject {
    pub(super) fn import_demo(&self) -> worker::Result<()> {
        let source = SourceRow {
            slug: demo::SLUG.to_owned(),
            title: "Demo inventory".to_owned(),
            honours_idempotency_key: true,
            ..SourceRow::default()
        };
        self.import_built_in(&source, demo::DOCUMENT, |_| true)
    }

    /// The administration API as tools. Decisions are never tools, nor are the links to them.
    pub(super) fn import_own_api(&self) -> worker::Result<()> {
        let source = SourceRow {
            slug: organization::SLUG.to_owned(),
            title: "Countersign: sources, policies, toolkits".to_owned(),
            ..SourceRow::default()
        };
        let is_tool = |tool: &Tool| match &tool.binding {
            Binding::Http(http) => organization::route::is_tool(http.path_template.trim_start_matches("/api/")),
            Binding::Mcp(_) | Binding::Graphql(_) => false,
        };
        self.import_built_in(&source, organization::DOCUMENT, is_tool)
    }

    fn import_built_in(
        &self,
        source: &SourceRow,
        document: &str,
        is_tool: impl Fn(&Tool) -> bool,
    ) -> worker::Result<()> {
        let slug = source.slug.as_str();
        // A release that reads documents differently imports them again.
        let hash = sha256_hex(format!("{} {document}", env!("CARGO_PKG_VERSION")).as_bytes());
        let known = self.rows("SELECT document_hash FROM source WHERE slug = ?", vec![slug.into()])?;
        if known.first().and_then(|row| text(row, 0)) == Some(hash.as_str()) {
            return Ok(());
        }
        let options = ImportOptions {
            source: slug,
            base_url: None,
            document_url: Some("http://gateway.invalid/openapi.json"),
            known_names: None,
            limits: ImportLimits::default(),
        };
        let import = import_openapi(document, &options)
            .map_err(|error| worker::Error::RustError(format!("the document of {slug}: {error}")))?;
        let mut tools: Vec<Tool> = import.tools.into_iter().filter(|tool| is_tool(tool)).collect();
        if slug == organization::SLUG {
            tools.iter_mut().for_each(without_secrets);
        }
        let row = SourceRow {
            built_in: true,
            base_url: None,
            tools: u32::try_from(tools.len()).unwrap_or(u32::MAX),
            ..source.clone()
        };
        self.in_transaction(|| {
            self.delete_tools(slug)?;
            for tool in &tools {
                self.insert_tool(&IndexedTool::of(tool)?)?;
            }
            self.sql().exec(
                "INSERT OR REPLACE INTO source (slug, document_hash, json) VALUES (?, ?, ?)",
                vec![slug.into(), hash.into(), serde_json::to_string(&row)?.into()],
            )?;
            self.fill_toolkits(Some(slug))?;
            self.catalog_changed()
        })
    }
}

/// A secret in the arguments of a call would be read by the model and shown to whoever approves it.
fn without_secrets(tool: &mut Tool) {
    if let Some(properties) = tool.input_schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
        properties.shift_remove("auth");
    }
}
