//! The settings. Every one is a var, so that tests can make it small; a value that makes no sense
//! stops the Worker with a message that names the variable.

mod auth;

use crate::auth::settings::AuthSettings;
use crate::engine::Limits;
use crate::session::alarm::AlarmSettings;
use crate::session::{ElicitationMode, ToolMode};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent switch")]
pub struct Settings {
    /// `AUTH_MODE` and what belongs to its providers.
    pub auth: AuthSettings,
    /// `DEMO`: whether there is the built-in inventory to try things on.
    pub demo: bool,
    /// `PUBLIC_ORIGIN`; the origin of the request's own URL where it is not set.
    pub public_origin: Option<String>,
    /// `ALLOWED_ORIGINS`, separated by commas: pages that may call `/mcp`.
    pub allowed_origins: Vec<String>,
    /// `DEFAULT_ELICITATION_MODE`
    pub default_elicitation_mode: ElicitationMode,
    /// `DEFAULT_TOOL_MODE`
    pub default_tool_mode: ToolMode,
    /// `FORM_DECISIONS=allow`: whether `elicitation_mode=native` may take a decision from a form in the client.
    pub form_decisions: bool,
    /// `MODEL_DECISIONS=allow`: whether `elicitation_mode=model` may be used.
    pub model_decisions: bool,
    /// `ALLOW_LOCAL_NETWORK=true`: whether tools may reach local addresses.
    pub allow_local_network: bool,
    /// `SESSION_JURISDICTION`: where session objects live.
    pub jurisdiction: Option<String>,
    /// `RESUME_WAIT_MS`
    pub resume_wait_ms: u64,
    /// `TOOL_TIMEOUT_MS`: how long one request to a tool may take.
    pub tool_timeout_ms: u64,
    /// `TOOL_RESPONSE_BYTES`: how large an answer of a tool may be.
    pub tool_response_bytes: usize,
    /// `EXECUTION_RETENTION_MS`: how long an ended execution can still be asked for.
    pub execution_retention_ms: u64,
    /// `AUDIT_RETENTION_DAYS`: how long entries of the audit log are kept, in milliseconds.
    pub audit_retention_ms: u64,
    /// `WEBHOOK_RETRY_MS`: how long the first try of a webhook is before the second; each further wait is four times as long.
    pub webhook_retry_ms: u64,
    /// `STREAM_RETENTION_MS`: how long a finished response can be fetched again.
    pub stream_retention_ms: u64,
    /// `SESSION_IDLE_TIMEOUT_MS`, `TOMBSTONE_MS`
    pub alarm: AlarmSettings,
    /// `APPROVAL_WINDOW_MS`, `EXECUTION_TIMEOUT_MS`, `SUSPEND_AFTER_MS`, `EXECUTION_RECOVERY_MS`
    pub limits: Limits,
}

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// There is no default for it.
    #[error("The variable {name} is not set. {advice}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What to set it to.
        advice: &'static str,
    },
    /// The value cannot be used.
    #[error("The variable {name} has a value that cannot be used: {problem}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What it has to be.
        problem: String,
    },
}

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// The longest a timer may be that keeps a person waiting.
const LONGEST_MS: u64 = 400 * DAY_MS;

/// The variables, read in the few forms that there are.
trait Vars {
    /// Without spaces around it; empty is as good as absent.
    fn text(&self, name: &str) -> Option<String>;

    fn flag(&self, name: &'static str) -> Result<bool, SettingsError> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(name, "use \"true\" or \"false\"")),
        }
    }

    fn number(&self, name: &'static str, default: u64, least: u64, most: u64) -> Result<u64, SettingsError> {
        match self.text(name) {
            None => Ok(default),
            Some(value) => value
                .parse::<u64>()
                .ok()
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| invalid(name, &format!("use a whole number from {least} to {most}"))),
        }
    }
}

impl<F: Fn(&str) -> Option<String>> Vars for F {
    fn text(&self, name: &str) -> Option<String> {
        self(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Reads the settings; `var` gives the text of a variable.
pub fn parse_settings(var: impl Fn(&str) -> Option<String>) -> Result<Settings, SettingsError> {
    let text = |name: &str| var.text(name);
    let flag = |name: &'static str| var.flag(name);
    let number = |name: &'static str, default: u64, least: u64, most: u64| var.number(name, default, least, most);
    let auth = auth::parse_auth(&var)?;
    let is_dev = auth.dev().is_some();
    let public_origin = text("PUBLIC_ORIGIN").map(|value| parse_origin("PUBLIC_ORIGIN", &value)).transpose()?;
    let allowed_origins = text("ALLOWED_ORIGINS")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .map(|value| parse_origin("ALLOWED_ORIGINS", value))
        .collect::<Result<Vec<_>, _>>()?;
    let default_elicitation_mode = match text("DEFAULT_ELICITATION_MODE") {
        None => ElicitationMode::Browser,
        Some(value) => ElicitationMode::parse(&value)
            .ok_or_else(|| invalid("DEFAULT_ELICITATION_MODE", "use \"browser\", \"native\" or \"model\""))?,
    };
    let default_tool_mode = match text("DEFAULT_TOOL_MODE").as_deref() {
        // The fixtures of the conformance suite are tools of their own.
        None if cfg!(feature = "conformance") => ToolMode::Direct,
        None | Some("code") => ToolMode::Code,
        Some("direct") => ToolMode::Direct,
        Some(_) => return Err(invalid("DEFAULT_TOOL_MODE", "use \"code\" or \"direct\"")),
    };
    // A client could answer a form by itself.
    let form_decisions = match text("FORM_DECISIONS").as_deref() {
        None | Some("deny") => false,
        Some("allow") => true,
        Some(_) => return Err(invalid("FORM_DECISIONS", "use \"allow\" or \"deny\"")),
    };
    // The model could answer by itself. Development mode believes every name anyway, so there it may unless forbidden.
    let model_decisions = match text("MODEL_DECISIONS").as_deref() {
        None => is_dev,
        Some("allow") => true,
        Some("deny") => false,
        Some(_) => return Err(invalid("MODEL_DECISIONS", "use \"allow\" or \"deny\"")),
    };
    if default_elicitation_mode == ElicitationMode::Model && !model_decisions {
        return Err(invalid("DEFAULT_ELICITATION_MODE", "\"model\" needs MODEL_DECISIONS=allow"));
    }
    let jurisdiction = text("SESSION_JURISDICTION");
    if jurisdiction.as_ref().is_some_and(|value| !matches!(value.as_str(), "eu" | "fedramp" | "us")) {
        return Err(invalid("SESSION_JURISDICTION", "use \"eu\", \"us\" or \"fedramp\""));
    }
    let limits = Limits::default();
    let window = number("APPROVAL_WINDOW_MS", limits.approval_window_ms, 1, LONGEST_MS)?;
    Ok(Settings {
        auth,
        demo: if text("DEMO").is_some() { flag("DEMO")? } else { is_dev },
        public_origin,
        allowed_origins,
        default_elicitation_mode,
        default_tool_mode,
        form_decisions,
        model_decisions,
        allow_local_network: flag("ALLOW_LOCAL_NETWORK")?,
        jurisdiction,
        resume_wait_ms: number("RESUME_WAIT_MS", 50_000, 0, 600_000)?,
        tool_timeout_ms: number("TOOL_TIMEOUT_MS", 60_000, 1, 600_000)?,
        tool_response_bytes: usize::try_from(number("TOOL_RESPONSE_BYTES", 16 << 20, 1_024, 64 << 20)?)
            .unwrap_or(16 << 20),
        execution_retention_ms: number("EXECUTION_RETENTION_MS", 86_400_000, 1, LONGEST_MS)?,
        audit_retention_ms: number("AUDIT_RETENTION_DAYS", 365, 1, 36_500)? * DAY_MS,
        webhook_retry_ms: number("WEBHOOK_RETRY_MS", 5_000, 1, 3_600_000)?,
        stream_retention_ms: number("STREAM_RETENTION_MS", 300_000, 1, LONGEST_MS)?,
        alarm: AlarmSettings {
            idle_timeout: number("SESSION_IDLE_TIMEOUT_MS", 86_400_000, 1, LONGEST_MS)?,
            tombstone: number("TOMBSTONE_MS", 3_600_000, 1, LONGEST_MS)?,
        },
        limits: Limits {
            approval_window_ms: window,
            execution_timeout_ms: number("EXECUTION_TIMEOUT_MS", limits.execution_timeout_ms, 1, 86_400_000)?,
            suspend_after_ms: number("SUSPEND_AFTER_MS", limits.suspend_after_ms, 0, 3_600_000)?,
            recovery_ms: number("EXECUTION_RECOVERY_MS", limits.recovery_ms, 100, 600_000)?,
            ..limits
        },
    })
}

fn missing(name: &'static str, advice: &'static str) -> SettingsError {
    SettingsError::Missing { name, advice }
}

fn invalid(name: &'static str, problem: &str) -> SettingsError {
    SettingsError::Invalid { name, problem: problem.to_owned() }
}

fn parse_origin(name: &'static str, value: &str) -> Result<String, SettingsError> {
    url::Url::parse(value)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none())
        .map(|url| url.origin().ascii_serialization())
        .ok_or_else(|| invalid(name, &format!("\"{value}\" is not an origin such as https://gateway.example")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(vars: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        parse_settings(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named() {
        for (name, value) in [
            ("AUTH_MODE", "none"),
            ("RESUME_WAIT_MS", "soon"),
            ("RESUME_WAIT_MS", "-1"),
            ("SESSION_IDLE_TIMEOUT_MS", "0"),
            ("DEV_REQUIRE_TOKEN", "yes"),
            ("PUBLIC_ORIGIN", "gateway.example"),
            ("PUBLIC_ORIGIN", "https://gateway.example/path"),
            ("ALLOWED_ORIGINS", "https://a.example, *"),
            ("DEFAULT_ELICITATION_MODE", "none"),
            ("MODEL_DECISIONS", "true"),
            ("DEMO", "yes"),
            ("SESSION_JURISDICTION", "mars"),
            ("AUDIT_RETENTION_DAYS", "0"),
            ("WEBHOOK_RETRY_MS", "0"),
        ] {
            let vars =
                if name == "AUTH_MODE" { vec![(name, value)] } else { vec![("AUTH_MODE", "dev"), (name, value)] };
            let message = parse(&vars).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
        assert!(parse(&[]).unwrap_err().to_string().contains("AUTH_MODE"));
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let settings = parse(&[("AUTH_MODE", "dev")]).unwrap();
        assert_eq!(settings.resume_wait_ms, 50_000);
        assert_eq!(settings.alarm, AlarmSettings { idle_timeout: 86_400_000, tombstone: 3_600_000 });
        assert_eq!(settings.limits, Limits::default());
        assert!(!settings.allow_local_network);
        assert!(settings.demo && settings.model_decisions);
    }

    #[test]
    fn what_development_mode_allows_has_to_be_asked_for_elsewhere() {
        let keys = |more: &[(&str, &str)]| parse(&[&[("AUTH_MODE", "keys")], more].concat());
        let settings = keys(&[]).unwrap();
        assert!(!settings.demo && !settings.model_decisions);
        assert!(keys(&[("MODEL_DECISIONS", "allow")]).unwrap().model_decisions);
        assert!(keys(&[("DEFAULT_ELICITATION_MODE", "model")]).unwrap_err().to_string().contains("MODEL_DECISIONS"));
    }

    #[test]
    fn origins_are_normalised() {
        let settings = parse(&[("AUTH_MODE", "dev"), ("PUBLIC_ORIGIN", "https://Gateway.example:443/")]).unwrap();
        assert_eq!(settings.public_origin.as_deref(), Some("https://gateway.example"));
    }
}
