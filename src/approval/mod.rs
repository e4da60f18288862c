//! What a decision is, and what exactly it is bound to. Never decides by itself.

mod approvers;
mod digest;

use serde::{Deserialize, Serialize};

pub use approvers::{Approvers, Standing};
pub use digest::{call_digest, pause_digest};

/// The reason of a decision that nobody made in time.
pub const TIMEOUT: &str = "approval_timeout";

/// What a person may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call is sent, exactly as shown.
    Accept,
    /// The call is not sent; the program is told and may go on.
    Decline,
    /// Nothing that waits is sent and the program ends.
    Cancel,
}

impl Verdict {
    /// The verdict of an `action` field; `None` for anything but the three words.
    #[must_use]
    pub fn parse(action: &str) -> Option<Self> {
        match action {
            "accept" => Some(Self::Accept),
            "decline" => Some(Self::Decline),
            "cancel" => Some(Self::Cancel),
            _ => None,
        }
    }

    /// The word that reports the verdict afterwards.
    #[must_use]
    pub fn past_tense(self) -> &'static str {
        match self {
            Self::Accept => "approved",
            Self::Decline => "denied",
            Self::Cancel => "canceled",
        }
    }
}

/// By which way a decision came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The approval page, by a person who is signed in.
    Page,
    /// The approval API, by a credential with the purpose `approve`.
    Api,
    /// The model relayed it (`elicitation_mode=model`).
    Model,
    /// A form in the client (`elicitation_mode=native`), where the organization allows it.
    Form,
    /// Nobody: the approval window ended.
    Expiry,
    /// A grant that a person gave before: [`Decision::grant`] names it.
    Grant,
}

/// A decision that was written and is never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// What was answered.
    pub verdict: Verdict,
    /// Why; reaches the program when the call is declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of what was shown.
    pub digest: String,
    /// The account that decided; `None` when the window ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// By which way it came.
    pub route: Route,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// In what role: what later rules are held against.
    #[serde(default, skip_serializing_if = "Standing::is_plain_owner")]
    pub standing: Standing,
    /// The person put other arguments in place of the program's; the digest is of those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The grant that decided, where the route is [`Route::Grant`]; `by` is who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// The grant that was given with the decision, for calls to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<String>,
}

impl Decision {
    /// Nobody decided before the window ended at `at`.
    #[must_use]
    pub fn expired(digest: String, at: u64) -> Self {
        Self {
            verdict: Verdict::Decline,
            reason: Some(TIMEOUT.to_owned()),
            digest,
            by: None,
            route: Route::Expiry,
            at,
            standing: Standing::default(),
            edited: false,
            grant: None,
            gives: None,
        }
    }
}

/// What a person is shown of one call. The digest covers everything here but what says that it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownCall {
    /// Digest of execution, number, address, arguments and binding.
    pub digest: String,
    /// Canonical JSON of the arguments that are sent.
    pub arguments: String,
    /// The tool's title. Untrusted text.
    pub title: String,
    /// The tool's description. Untrusted text.
    #[serde(default)]
    pub description: String,
    /// HTTP method or protocol verb.
    pub method: String,
    /// The resolved URL, or what stands for one.
    pub url: String,
    /// Name of the credential that is used; `None` where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Why a person is asked.
    pub reason: String,
    /// Canonical JSON of the binding that the digest covers.
    pub binding: String,
    /// Who may decide. Not covered by the digest: a decision is held against the rule of the moment when the call is sent.
    #[serde(default, skip_serializing_if = "Approvers::is_owner")]
    pub approvers: Approvers,
    /// Whether the tool may change something, whatever the rules say of it. The digest does not cover it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// Whether sending was stopped when this was asked. The digest does not cover it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}
