//! Toolkits and lists of policies.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::Fault;
use super::fields::Fields;
use crate::approval::Approvers;
use crate::policy::{Action, Pattern, Rule};

/// Rules of one list.
const RULES_LIMIT: usize = 500;
/// Patterns that a toolkit includes.
const INCLUDE_LIMIT: usize = 500;
/// Characters of a note and of a title.
const NOTE_LIMIT: usize = 500;
/// Characters of a title.
pub const TITLE_LIMIT: usize = 200;

/// A part of the catalog, served at an endpoint of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolkit {
    /// For people.
    pub title: String,
    /// The tools that there are for its sessions.
    pub include: Vec<Pattern>,
    /// Rules of its own, beside the organization's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Rule>,
}

impl Toolkit {
    /// Whether its sessions have a tool.
    #[must_use]
    pub fn includes(&self, address: &str) -> bool {
        self.include.iter().any(|pattern| pattern.matches(address))
    }

    /// Whether all its tools are of one source, whatever is added to the catalog: then the tools' own names are enough.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        let mut sources = self.include.iter().map(Pattern::source);
        let first = sources.next()??;
        sources.all(|source| source == Some(first)).then_some(first)
    }

    /// Reads the body of `PUT /api/toolkits/<slug>`.
    pub fn parse(body: &str, slug: &str) -> Result<Self, Fault> {
        let mut fields = Fields::read(body, "The body", "")?;
        let title = fields.text("title", TITLE_LIMIT)?.unwrap_or_else(|| slug.to_owned());
        let include = fields.list("include", INCLUDE_LIMIT)?;
        let policies = fields.list("policies", RULES_LIMIT)?.unwrap_or_default();
        fields.end("title, include and policies")?;
        let Some(include) = include.filter(|include| !include.is_empty()) else {
            return Err(Fault::field("include", "has to be a list with at least one pattern, such as \"github.**\""));
        };
        let include = include.iter().enumerate().map(|(at, item)| pattern(&format!("include[{at}]"), item));
        Ok(Self { title, include: include.collect::<Result<_, _>>()?, policies: rules("policies", &policies)? })
    }

    /// As the administration API shows it.
    #[must_use]
    pub fn shown(&self, slug: &str) -> Value {
        json!({ "slug": slug, "title": self.title, "include": self.include, "policies": self.policies })
    }
}

/// Reads the body of `PUT /api/policies`: a list, or an object with `policies`.
pub fn parse_policies(body: &str) -> Result<Vec<Rule>, Fault> {
    let list = if body.trim_start().starts_with('[') {
        let list: Vec<Value> =
            serde_json::from_str(body).map_err(|error| Fault::new(400, format!("The body is not JSON: {error}")))?;
        list
    } else {
        let mut fields = Fields::read(body, "The body", "")?;
        let list = fields.list("policies", usize::MAX)?;
        fields.end("policies")?;
        list.ok_or_else(|| Fault::field("policies", "is required: a list of {pattern, action, by?, note?}"))?
    };
    if list.len() > RULES_LIMIT {
        return Err(Fault::field("policies", format!("has more than {RULES_LIMIT} items")));
    }
    rules("policies", &list)
}

fn rules(field: &str, list: &[Value]) -> Result<Vec<Rule>, Fault> {
    let rule = |(at, item): (usize, &Value)| {
        let name = format!("{field}[{at}]");
        if !item.is_object() {
            return Err(Fault::field(name, "has to be an object: {pattern, action, by?, note?}"));
        }
        let text = item.to_string();
        let mut fields = Fields::read(&text, &name, format!("{name}."))?;
        let pattern = pattern(&fields.name("pattern"), &fields.value("pattern")?.unwrap_or(Value::Null))?;
        let action = fields.value("action")?;
        let action = action.as_ref().and_then(Value::as_str).and_then(Action::parse);
        let action = action.ok_or_else(|| Fault::field(fields.name("action"), "has to be allow, approve or block"))?;
        let by = match fields.value("by")? {
            None => Approvers::Owner,
            Some(by) => {
                let by = by.as_str().and_then(Approvers::parse);
                let by = by.ok_or_else(|| Fault::field(fields.name("by"), "has to be owner, admin or other"))?;
                if action != Action::Approve {
                    return Err(Fault::field(
                        fields.name("by"),
                        "says who decides, which only the action approve asks",
                    ));
                }
                by
            }
        };
        let note = fields.text("note", NOTE_LIMIT)?;
        fields.end("pattern, action, by and note")?;
        Ok(Rule { pattern, action, by, note })
    };
    list.iter().enumerate().map(rule).collect()
}

fn pattern(field: &str, value: &Value) -> Result<Pattern, Fault> {
    let Some(text) = value.as_str() else {
        return Err(Fault::field(field, "has to be a pattern, such as \"github.issues.*\""));
    };
    Pattern::parse(text).map_err(|error| Fault::field(field, format!("is no pattern: {error}")))
}
