//! How a session offers tools and asks for decisions, chosen by query parameters.

use serde::{Deserialize, Serialize};

/// How a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationMode {
    /// On a page; the model cannot choose the answer.
    Browser,
    /// Through MCP elicitation where the client has it.
    Native,
    /// The model relays the answer.
    Model,
}

/// How tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// `execute`, `resume`, `skills`.
    Code,
    /// Every tool by itself.
    Direct,
}

/// Both choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// How a person is asked.
    pub elicitation: ElicitationMode,
    /// How tools are offered.
    pub tools: ToolMode,
}

/// Why the query was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// A value that no mode has.
    #[error("{parameter}={value} is not known; use one of {known}")]
    Unknown {
        /// The query parameter.
        parameter: &'static str,
        /// Its value, bounded.
        value: String,
        /// What it may be.
        known: &'static str,
    },
    /// The organization does not let the model relay decisions.
    #[error(
        "elicitation_mode=model is not allowed here, because the model could answer by itself. Use elicitation_mode=browser, or set the var MODEL_DECISIONS to \"allow\""
    )]
    ModelNotAllowed,
}

impl ElicitationMode {
    /// The mode of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "browser" => Some(Self::Browser),
            "native" => Some(Self::Native),
            "model" => Some(Self::Model),
            _ => None,
        }
    }
}

/// Reads `elicitation_mode` and `tool_mode` from a URL's query.
pub fn parse_modes(query: &[(String, String)], defaults: Modes, model_decisions: bool) -> Result<Modes, ModeError> {
    let find = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let elicitation = match find("elicitation_mode") {
        None => defaults.elicitation,
        Some(value) => ElicitationMode::parse(value).ok_or_else(|| ModeError::Unknown {
            parameter: "elicitation_mode",
            value: value.chars().take(40).collect(),
            known: "browser, native, model",
        })?,
    };
    if elicitation == ElicitationMode::Model && !model_decisions {
        return Err(ModeError::ModelNotAllowed);
    }
    let tools = match find("tool_mode") {
        None => defaults.tools,
        Some("code") => ToolMode::Code,
        Some("direct") => ToolMode::Direct,
        Some(value) => {
            return Err(ModeError::Unknown {
                parameter: "tool_mode",
                value: value.chars().take(40).collect(),
                known: "code, direct",
            });
        }
    };
    Ok(Modes { elicitation, tools })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_come_from_the_query() {
        let parse = |query: &[(&str, &str)], model| {
            let query: Vec<_> = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let defaults = Modes { elicitation: ElicitationMode::Browser, tools: ToolMode::Code };
            parse_modes(&query, defaults, model).map(|modes| (modes.elicitation, modes.tools))
        };
        assert_eq!(parse(&[], false), Ok((ElicitationMode::Browser, ToolMode::Code)));
        assert_eq!(parse(&[("elicitation_mode", "native")], false), Ok((ElicitationMode::Native, ToolMode::Code)));
        assert_eq!(parse(&[("elicitation_mode", "model")], true), Ok((ElicitationMode::Model, ToolMode::Code)));
        assert_eq!(parse(&[("tool_mode", "direct")], true), Ok((ElicitationMode::Browser, ToolMode::Direct)));
        assert_eq!(parse(&[("elicitation_mode", "model")], false), Err(ModeError::ModelNotAllowed));
        assert!(matches!(parse(&[("elicitation_mode", "x")], true), Err(ModeError::Unknown { .. })));
        assert!(matches!(parse(&[("tool_mode", "x")], true), Err(ModeError::Unknown { .. })));
    }
}
