//! Whether a call may run: `allow`, `approve` or `block`. Pure policy, no lookups.

pub mod pattern;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::pattern::{Pattern, PatternError};
use crate::approval::Approvers;
use crate::catalog::tool::{Binding, GraphqlOperation, Tool};

/// What policy says of a call, from loose to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is sent.
    Allow,
    /// A person is asked first.
    Approve,
    /// It is never sent.
    Block,
}

impl Action {
    /// The word of the administration API.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "approve" => Some(Self::Approve),
            "block" => Some(Self::Block),
            _ => None,
        }
    }
}

/// An action and why it applies, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What is done.
    pub action: Action,
    /// Why.
    pub reason: String,
    /// Who may decide, where a person is asked.
    #[serde(default, skip_serializing_if = "Approvers::is_owner")]
    pub by: Approvers,
}

impl Judgement {
    /// A judgement that leaves decisions to the session's owner.
    #[must_use]
    pub fn new(action: Action, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into(), by: Approvers::Owner }
    }
}

/// One rule of an administrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The tools that it is about.
    pub pattern: Pattern,
    /// What happens to calls of them.
    pub action: Action,
    /// Who may decide, where a person is asked.
    #[serde(default, skip_serializing_if = "Approvers::is_owner")]
    pub by: Approvers,
    /// Why the administrator wants it so; shown to whoever is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What an administrator vouches for, of one source. Nothing, unless stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent promise of the source")]
pub struct Vouched {
    /// What the source says of its own tools may loosen something.
    pub trusted: bool,
    /// PUT and DELETE may be sent again (RFC 9110, section 9.2.2, which not every API keeps to).
    pub idempotent_writes: bool,
    /// A request that is repeated with the same `Idempotency-Key` is carried out once.
    pub honours_idempotency_key: bool,
    /// No rule allows what changes something without asking: an agent must not loosen its own rules.
    pub writes_are_gated: bool,
}

/// The rules that count for a session: the organization's, and those of its toolkit with the toolkit's slug.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules<'a> {
    /// The organization's, in order.
    pub organization: &'a [Rule],
    /// The toolkit's, in order.
    pub toolkit: Option<(&'a str, &'a [Rule])>,
}

/// Judges a call. Within a list the first rule that matches counts; across the lists the stricter one; where none matches,
/// the tool's own nature. Where the rules of both lists want a person, whoever decides has to satisfy both.
#[must_use]
pub fn judge(tool: &Tool, vouched: Vouched, rules: Rules<'_>) -> Judgement {
    let found = |rules: &[Rule], whose: &str| {
        let (number, rule) = (1..).zip(rules).find(|(_, rule)| rule.pattern.matches(&tool.address))?;
        let note = rule.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        let reason = format!("rule {number} of {whose} ({}){note}", rule.pattern);
        Some(Judgement { action: rule.action, reason, by: rule.by })
    };
    let organization = found(rules.organization, "the organization");
    let toolkit = rules.toolkit.and_then(|(slug, rules)| found(rules, &format!("the toolkit {slug}")));
    let judgement = match (organization, toolkit) {
        (Some(one), Some(other)) if one.action == Action::Approve && other.action == Action::Approve => {
            let by = one.by.and(other.by);
            // The rule that says who decides is the one to name.
            let reason = if one.by == by {
                one.reason
            } else if other.by == by {
                other.reason
            } else {
                format!("{}; {}", one.reason, other.reason)
            };
            Judgement { action: Action::Approve, reason, by }
        }
        (Some(organization), Some(toolkit)) if toolkit.action > organization.action => toolkit,
        (Some(judgement), _) | (None, Some(judgement)) => judgement,
        (None, None) => judge_nature(tool, vouched),
    };
    if vouched.writes_are_gated && !tool.hints.read_only && judgement.action == Action::Allow {
        return Judgement::new(Action::Approve, "it changes the gateway itself");
    }
    judgement
}

/// What a tool's own nature says where no rule matches: what only reads is allowed, everything else
/// is asked about.
#[must_use]
pub fn judge_nature(tool: &Tool, vouched: Vouched) -> Judgement {
    match &tool.binding {
        Binding::Http(http) => {
            let method = http.method.as_str();
            if tool.hints.read_only {
                Judgement::new(Action::Allow, format!("{method} only reads"))
            } else {
                Judgement::new(Action::Approve, format!("{method} may change something"))
            }
        }
        Binding::Graphql(graphql) => match graphql.operation {
            GraphqlOperation::Query => Judgement::new(Action::Allow, "a query only reads"),
            GraphqlOperation::Mutation => Judgement::new(Action::Approve, "a mutation may change something"),
        },
        Binding::Mcp(_) if vouched.trusted && tool.hints.read_only => {
            Judgement::new(Action::Allow, "its server, which is trusted, says that it only reads")
        }
        Binding::Mcp(_) if vouched.trusted => Judgement::new(Action::Approve, "it may change something"),
        // Whoever wants a call to pass says that it only reads.
        Binding::Mcp(_) => Judgement::new(Action::Approve, "its server is not trusted to say what its tools do"),
    }
}

/// Whether a call may be sent again after a crash, as far as the source vouches for it.
#[must_use]
pub fn may_be_sent_again(tool: &Tool, vouched: Vouched) -> bool {
    match &tool.binding {
        Binding::Http(http) => {
            vouched.honours_idempotency_key
                || match http.method.as_str() {
                    "GET" | "HEAD" | "OPTIONS" => true,
                    "PUT" | "DELETE" => vouched.idempotent_writes,
                    _ => false,
                }
        }
        Binding::Graphql(graphql) => vouched.honours_idempotency_key || graphql.operation == GraphqlOperation::Query,
        Binding::Mcp(_) => vouched.trusted && (tool.hints.read_only || tool.hints.idempotent),
    }
}
