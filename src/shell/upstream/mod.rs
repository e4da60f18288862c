//! MCP servers that are configured as sources: how they are reached, listed and asked.

use std::collections::BTreeMap;

use worker::Env;

use crate::catalog::mcp::ListedTools;
use crate::config::Settings;
use crate::internal::SourceRow;

/// Why a server's tools could not be listed. The text is for an administrator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    /// It could not be reached, did not answer in time, or answered what is no MCP.
    #[error("{0}")]
    Unusable(String),
}

/// Reads the tools of a source of the kind `mcp`. `known_names` has the wire names of tools that the catalog has already,
/// with their part of the address, which stays.
pub(crate) async fn list_tools(
    _env: &Env,
    _settings: &Settings,
    source: &SourceRow,
    _known_names: &BTreeMap<String, String>,
) -> Result<ListedTools, ListError> {
    Err(ListError::Unusable(format!("the source {} cannot be read yet", source.slug)))
}
