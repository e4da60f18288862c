//! What went wrong on the way to an API, in the words that a program and a model get.

use super::address::Refusal;
use crate::catalog::tool::{ToolError, ToolOutcome};

/// Why there is no answer. Texts from outside are bounded and redacted before they get here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The URL is not one that is called.
    #[error("The tool's URL is not called: {0}.")]
    AddressRefused(#[from] Refusal),
    /// The credential may not go to that origin.
    #[error("The source's credential was not sent to {origin}, because no administrator confirmed that origin.")]
    OriginNotConfirmed {
        /// Scheme, host and port.
        origin: String,
    },
    /// There is no token, or the stored credential cannot be read. The call was not sent.
    #[error("The source's credential cannot be used, so the call was not sent: {reason}.")]
    CredentialUnavailable {
        /// Why.
        reason: String,
        /// Whether it may work later.
        retryable: bool,
    },
    /// The platform does not take the request, which therefore was not sent.
    #[error("The request cannot be sent: {reason}.")]
    Unsendable {
        /// Why.
        reason: String,
    },
    /// There was no answer in time.
    #[error("The API did not answer within {limit_ms} ms.")]
    Timeout {
        /// The limit.
        limit_ms: u64,
        /// Whether the request had left.
        sent: bool,
    },
    /// The connection could not be made, or broke before or within the answer. The platform does not say which.
    #[error("The API could not be reached, or broke off: {reason}.")]
    Broken {
        /// What the platform said.
        reason: String,
    },
    /// The answer is too large.
    #[error(
        "The API answered {status} with more than {limit} bytes. The call itself was carried out. Ask for less: a page, a filter, fewer fields."
    )]
    TooLarge {
        /// Its status.
        status: u16,
        /// The limit in bytes.
        limit: usize,
    },
}

impl SendError {
    /// Whether the request may have arrived, and so may have done what it should do.
    #[must_use]
    pub fn may_have_arrived(&self) -> bool {
        match self {
            Self::Timeout { sent, .. } => *sent,
            Self::Broken { .. } | Self::TooLarge { .. } => true,
            Self::AddressRefused(_)
            | Self::OriginNotConfirmed { .. }
            | Self::CredentialUnavailable { .. }
            | Self::Unsendable { .. } => false,
        }
    }

    /// What the call answers with. A call that must not be sent twice and may have arrived is `outcome_unknown`, the word
    /// that also stands for a call that the gateway itself lost: whoever reads it has to check before repeating it.
    #[must_use]
    pub fn outcome(&self, may_be_sent_again: bool) -> ToolOutcome {
        let (code, retryable) = match self {
            Self::AddressRefused(_) => ("address_refused", false),
            Self::OriginNotConfirmed { .. } => ("origin_not_confirmed", false),
            Self::CredentialUnavailable { retryable, .. } => ("credential_unavailable", *retryable),
            Self::Unsendable { .. } => ("invalid_tool_arguments", false),
            Self::TooLarge { .. } => ("result_too_large", false),
            Self::Timeout { .. } | Self::Broken { .. } if self.may_have_arrived() && !may_be_sent_again => {
                ("outcome_unknown", false)
            }
            Self::Timeout { .. } => ("upstream_timeout", true),
            Self::Broken { .. } => ("upstream_unreachable", true),
        };
        let advice = match code {
            "outcome_unknown" => {
                " The call may or may not have been carried out, and it was not sent again. Check before you repeat it."
            }
            "origin_not_confirmed" => " An administrator confirms it in the source's settings; nothing was sent.",
            _ => "",
        };
        ToolOutcome::Failure(ToolError {
            retryable: Some(retryable),
            ..ToolError::new(code, format!("{self}{advice}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_may_have_arrived_is_told_apart_from_one_that_did_not() {
        let broken = || SendError::Broken { reason: "x".to_owned() };
        let timeout = |sent| SendError::Timeout { limit_ms: 5, sent };
        let too_large = || SendError::TooLarge { status: 200, limit: 9 };
        let credential = |retryable| SendError::CredentialUnavailable { reason: "x".to_owned(), retryable };
        for (error, again, code, retryable) in [
            (broken(), true, "upstream_unreachable", true),
            (broken(), false, "outcome_unknown", false),
            (timeout(true), true, "upstream_timeout", true),
            (timeout(true), false, "outcome_unknown", false),
            (timeout(false), false, "upstream_timeout", true),
            (too_large(), false, "result_too_large", false),
            (credential(true), false, "credential_unavailable", true),
            (credential(false), false, "credential_unavailable", false),
            (
                SendError::OriginNotConfirmed { origin: "https://a.example".to_owned() },
                false,
                "origin_not_confirmed",
                false,
            ),
            (SendError::AddressRefused(Refusal::Scheme), false, "address_refused", false),
        ] {
            let ToolOutcome::Failure(failure) = error.outcome(again) else { panic!("{error}") };
            assert_eq!((failure.code.as_str(), failure.retryable), (code, Some(retryable)), "{error}");
            assert_eq!(code == "outcome_unknown", failure.message.contains("Check before you repeat it"), "{error}");
        }
    }
}
