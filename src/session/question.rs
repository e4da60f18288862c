//! Questions to the client: whether it can be asked, and how an approval is asked natively
//! (specification, revision 2025-11-25, "Elicitation", "Sampling", "Roots").

use serde_json::{Map, Value, json};

use crate::approval::Verdict;
use crate::engine::PauseReport;
use crate::session::tools::{PENDING_LINES, RELAYED_CHARACTERS, pending_lines};
use crate::upstream::Question;

/// Characters of the reason that a form may give.
const REASON_LIMIT: usize = 2_000;

/// What a client declared, of the things that it can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent capability")]
pub struct Askable {
    /// Forms.
    pub form: bool,
    /// Pages.
    pub url: bool,
    /// Completions by its model.
    pub sampling: bool,
    /// Its folders.
    pub roots: bool,
}

impl Askable {
    /// Reads the client's capabilities, as JSON text. Elicitation without a mode means forms.
    #[must_use]
    pub fn parse(capabilities: &str) -> Self {
        let value: Value = serde_json::from_str(capabilities).unwrap_or(Value::Null);
        let has = |value: &Value, key: &str| value.get(key).is_some_and(Value::is_object);
        let elicitation = value.get("elicitation").filter(|mode| mode.is_object());
        let url = elicitation.is_some_and(|mode| has(mode, "url"));
        Self {
            form: elicitation.is_some_and(|mode| has(mode, "form") || !url),
            url,
            sampling: has(&value, "sampling"),
            roots: has(&value, "roots"),
        }
    }

    /// Why this cannot be asked; `None` when it can.
    #[must_use]
    pub fn refusal(self, question: &Question) -> Option<&'static str> {
        let (declared, what) = match question {
            Question::Elicitation(params) if params.get("mode").and_then(Value::as_str) == Some("url") => {
                (self.url, "it did not declare elicitation.url")
            }
            Question::Elicitation(_) => (self.form, "it did not declare elicitation"),
            Question::Sampling(_) => (self.sampling, "it did not declare sampling"),
            Question::Roots => (self.roots, "it did not declare roots"),
        };
        (!declared).then_some(what)
    }
}

/// Method and parameters of a question.
#[must_use]
pub fn wire_parts(question: Question) -> (&'static str, Option<Map<String, Value>>) {
    match question {
        Question::Elicitation(params) => ("elicitation/create", Some(params)),
        Question::Sampling(params) => ("sampling/createMessage", Some(params)),
        Question::Roots => ("roots/list", None),
    }
}

/// A question about calls that wait for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalQuestion {
    /// What the client is asked.
    pub question: Question,
    /// Whether the person answers on the page; otherwise the client's answer is the decision.
    pub by_url: bool,
}

/// How the client is asked about a pause; `None` where it cannot be, or where its answer could be the client's own.
///
/// A page is preferred: there the person sees everything and the client cannot answer. A form must hold all that is
/// accepted by it.
#[must_use]
pub fn approval_question(pause: &PauseReport, url: &str, askable: Askable, forms: bool) -> Option<ApprovalQuestion> {
    let fields = if askable.url {
        let message = match pause.pending.as_slice() {
            [call] if call.question.is_some() => {
                format!("The tool of {} asks you something. The page shows what.", call.address)
            }
            [call] => format!("{} waits for your approval. The page shows exactly what it does.", call.address),
            calls => format!("{} calls wait for your approval. The page shows exactly what they do.", calls.len()),
        };
        json!({ "mode": "url", "message": message, "url": url, "elicitationId": pause.id })
    } else if askable.form && forms && can_be_relayed(pause) {
        json!({
            "message": format!("These calls wait for your approval:{}", pending_lines(pause, RELAYED_CHARACTERS)),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "decision": {
                        "type": "string", "title": "Decision", "enum": ["approve", "decline"],
                        "description": "Whether all of these calls may be made, exactly as shown.",
                    },
                    "reason": {
                        "type": "string", "title": "Reason", "maxLength": REASON_LIMIT,
                        "description": "Told to the program when you decline.",
                    },
                },
                "required": ["decision"],
            },
        })
    } else {
        return None;
    };
    let Value::Object(params) = fields else { return None };
    Some(ApprovalQuestion { question: Question::Elicitation(params), by_url: askable.url })
}

/// Whether a person who is shown this in a form sees all of it, and can say all that is asked.
fn can_be_relayed(pause: &PauseReport) -> bool {
    pause.pending.len() <= PENDING_LINES
        && pause.pending.iter().all(|call| call.question.is_none() && call.by.is_owner())
        && pause.pending.iter().all(|call| call.arguments.chars().count() <= RELAYED_CHARACTERS)
}

/// The decision in the answer to a form: the verdict and the reason. `None` when the person decided nothing.
#[must_use]
pub fn form_decision(answer: &Value) -> Option<(Verdict, Option<String>)> {
    let content = answer.get("content");
    let text = |key: &str| content.and_then(|content| content.get(key)).and_then(Value::as_str);
    let reason = text("reason").filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| reason.chars().take(REASON_LIMIT).collect());
    match (answer.get("action").and_then(Value::as_str), text("decision")) {
        (Some("accept"), Some("approve")) => Some((Verdict::Accept, None)),
        (Some("accept"), Some("decline")) | (Some("decline"), _) => Some((Verdict::Decline, reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::Approvers;
    use crate::engine::PendingCall;

    fn pause(arguments: &str) -> PauseReport {
        let call = PendingCall {
            seq: 0,
            address: "demo.deleteItem".to_owned(),
            arguments: arguments.into(),
            line: None,
            question: None,
            by: Approvers::Owner,
        };
        PauseReport { id: "p".to_owned(), expires_at: 1, pending: vec![call] }
    }

    #[test]
    fn elicitation_without_a_mode_means_forms() {
        for (capabilities, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
            (r#"{"elicitation":true}"#, false, false),
            ("no json", false, false),
        ] {
            let askable = Askable::parse(capabilities);
            assert_eq!((askable.form, askable.url), (form, url), "{capabilities}");
        }
    }

    #[test]
    fn a_page_is_preferred_and_a_form_needs_leave_and_must_hold_everything() {
        let both = Askable { form: true, url: true, ..Askable::default() };
        let form = Askable { form: true, ..Askable::default() };
        assert!(approval_question(&pause("{}"), "u", both, false).is_some_and(|asked| asked.by_url));
        assert_eq!(approval_question(&pause("{}"), "u", form, false), None);
        assert!(approval_question(&pause("{}"), "u", form, true).is_some_and(|asked| !asked.by_url));
        assert_eq!(approval_question(&pause(&"x".repeat(3_000)), "u", form, true), None);
        assert_eq!(approval_question(&pause("{}"), "u", Askable::default(), true), None);
    }

    #[test]
    fn a_form_decides_only_in_so_many_words() {
        for (answer, verdict) in [
            (json!({ "action": "accept", "content": { "decision": "approve" } }), Some(Verdict::Accept)),
            (json!({ "action": "accept", "content": { "decision": "decline" } }), Some(Verdict::Decline)),
            (json!({ "action": "decline" }), Some(Verdict::Decline)),
            (json!({ "action": "accept" }), None),
            (json!({ "action": "accept", "content": { "decision": true } }), None),
            (json!({ "action": "cancel" }), None),
            (json!({}), None),
        ] {
            assert_eq!(form_decision(&answer).map(|(verdict, _)| verdict), verdict, "{answer}");
        }
    }
}
