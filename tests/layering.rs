//! Holds the dependency table of ARCHITECTURE.md: which part of the crate may name which other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each part, and what it may use. Whatever a part uses stands above it.
const TABLE: [(&str, &[&str]); 19] = [
    ("json", &[]),
    ("approval", &["json"]),
    ("auth", &["json"]),
    ("demo", &["json"]),
    ("protocol", &["json"]),
    ("oauth", &["auth", "json", "protocol"]),
    ("catalog", &["json"]),
    ("credential", &["catalog", "json"]),
    ("outbound", &["catalog"]),
    ("engine", &["approval"]),
    ("policy", &["approval", "catalog"]),
    ("organization", &["approval", "auth", "catalog", "policy", "protocol"]),
    ("upstream", &["json", "protocol"]),
    ("session", &["approval", "auth", "catalog", "engine", "json", "protocol", "upstream"]),
    ("config", &["auth", "credential", "engine", "oauth", "protocol", "session"]),
    ("internal", &["approval", "auth", "catalog", "organization", "policy", "protocol", "session"]),
    ("console", &["approval", "engine", "protocol", "session"]),
    (
        "shell",
        &[
            "approval",
            "auth",
            "catalog",
            "config",
            "console",
            "credential",
            "demo",
            "engine",
            "internal",
            "json",
            "oauth",
            "organization",
            "outbound",
            "policy",
            "protocol",
            "session",
            "upstream",
        ],
    ),
    ("lib", &[]),
];
/// What names the platform; only `shell` may.
const PLATFORM: [&str; 6] =
    ["worker::", "worker_macros", "wasm_bindgen", "js_sys", "web_sys", "console_error_panic_hook"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Code lines of a file, without comments, tests included.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"))
}

fn part_of(root: &Path, file: &Path) -> String {
    let first = file.strip_prefix(root).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

#[test]
fn every_part_uses_only_what_the_table_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(part, uses)| (*part, uses.iter().copied().collect())).collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 40, "only {} files found", files.len());
    let mut broken = Vec::new();
    for file in &files {
        let part = part_of(&root, file);
        let Some(allowed) = table.get(part.as_str()) else {
            broken.push(format!("{}: the part {part} is not in the table", file.display()));
            continue;
        };
        let text = fs::read_to_string(file).unwrap();
        for line in code_lines(&text) {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if !used.is_empty() && used != part && !allowed.contains(used.as_str()) {
                    broken.push(format!("{}: {part} uses {used}: {line}", file.display()));
                }
            }
            if part != "shell" && PLATFORM.iter().any(|name| line.contains(name)) {
                broken.push(format!("{}: names the platform: {line}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_table_has_no_cycle() {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (part, uses) in TABLE {
        for used in uses {
            assert!(known.contains(used), "{part} uses {used}, which stands below it");
        }
        known.insert(part);
    }
}
