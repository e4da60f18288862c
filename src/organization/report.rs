//! What an import did, in a size that does not depend on the document's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog::openapi::{ReportAction, ReportEntry};

/// Entries of a report.
pub const ENTRIES_LIMIT: usize = 200;
/// Addresses of each kind of change.
pub const CHANGES_LIMIT: usize = 50;

/// A report: all is counted, the first of each are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How often each action happened.
    pub counts: BTreeMap<String, u64>,
    /// What happened.
    pub entries: Vec<Entry>,
    /// How many entries are not listed.
    pub omitted: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `skipped`, `renamed`, `adjusted`, `added`, `changed`, `removed`.
    pub action: String,
    /// The operation of the document, or the tool's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Why.
    pub why: String,
}

impl Report {
    /// A report of what an import left out, renamed or adjusted.
    #[must_use]
    pub fn of_import(entries: Vec<ReportEntry>) -> Self {
        let mut report = Self::default();
        for entry in entries {
            let action = match entry.action {
                ReportAction::Skipped => "skipped",
                ReportAction::Renamed => "renamed",
                ReportAction::Changed => "adjusted",
            };
            report.add(action, entry.operation, &entry.why);
        }
        report
    }

    /// Counts one thing, and names it while there is room.
    pub fn add(&mut self, action: &str, what: Option<String>, why: &str) {
        *self.counts.entry(action.to_owned()).or_default() += 1;
        if self.entries.len() < ENTRIES_LIMIT {
            self.entries.push(Entry { action: action.to_owned(), what, why: why.to_owned() });
        } else {
            self.omitted += 1;
        }
    }

    /// Notes how many tools an import changed in one way, and the addresses of the first.
    pub fn add_changes(&mut self, action: &str, total: u64, addresses: &[String], why: &str) {
        self.counts.insert(action.to_owned(), total);
        let listed = addresses.iter().take(CHANGES_LIMIT);
        self.omitted += total.saturating_sub(u64::try_from(listed.len()).unwrap_or(u64::MAX));
        let entry =
            |address: &String| Entry { action: action.to_owned(), what: Some(address.clone()), why: why.to_owned() };
        self.entries.extend(listed.map(entry));
    }

    /// As the administration API shows it.
    #[must_use]
    pub fn shown(&self) -> Value {
        json!({ "counts": self.counts, "entries": self.entries, "omitted": self.omitted })
    }
}
