//! The page of a session's history: what its programs did, newest first.

use askama::Template;

use super::approval::{settled_state, time};
use super::markup::{Html, count, inline, line, number, percent};
use super::{Frame, render};
use crate::console::approval::DecisionView;
use crate::console::history::{DecisionLine, ExecutionView, HistoryView};
use crate::engine::ExecutionStatus;

/// Pauses of one program that are linked; the newest ones.
const LINKS: usize = 10;
/// Calls, and decisions, of one program that are shown.
const LINES: usize = 20;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryTemplate {
    frame: Frame,
    action: String,
    refresh: bool,
    executions: Vec<ExecutionPart>,
    next: Option<String>,
}

struct ExecutionPart {
    id: String,
    state: &'static str,
    tone: &'static str,
    started: Html,
    ended: Option<Html>,
    calls: String,
    ran: String,
    waiting: Option<String>,
    error: Option<Html>,
    stopped: Option<Html>,
    decisions: Vec<Html>,
    decisions_left_out: usize,
    lines: Vec<LinePart>,
    /// How many calls are not among the lines, in words; nothing where all are.
    more: String,
    links: Vec<LinkPart>,
    stop: bool,
}

struct LinePart {
    address: Html,
    state: &'static str,
    tone: &'static str,
    at: Html,
}

struct LinkPart {
    href: String,
    label: String,
}

/// The page of a session. The form of a program that has not ended posts `action=stop` and `execution`.
#[must_use]
pub fn history_page(session: &str, view: &HistoryView, person: &str) -> String {
    let path = format!("/sessions/{}", percent(session));
    render(&HistoryTemplate {
        frame: Frame::new(Some(person)),
        next: view.next.as_ref().map(|next| format!("{path}?after={}", percent(next))),
        refresh: view.executions.iter().any(|execution| execution.status == ExecutionStatus::Running),
        executions: view.executions.iter().map(|execution| execution_part(session, execution)).collect(),
        action: path,
    })
}

fn execution_part(session: &str, view: &ExecutionView) -> ExecutionPart {
    let (state, tone) = status_words(view.status);
    let lines = view.calls.as_deref().unwrap_or_default();
    let first_link = view.execution_ids.len().saturating_sub(LINKS);
    ExecutionPart {
        id: view.id.clone(),
        state,
        tone,
        started: time(&view.started_at),
        ended: view.ended_at.as_deref().map(time),
        calls: count(usize::try_from(view.call_count).unwrap_or(usize::MAX), "call", "calls"),
        ran: duration(view.ran_ms),
        waiting: (view.waiting > 0 && !view.status.is_over()).then(|| count(view.waiting, "call waits", "calls wait")),
        error: view.error.as_ref().map(|error| line(&error.message)),
        stopped: view.stopped.as_ref().map(stopped_words),
        decisions: view.decisions.iter().take(LINES).map(decision_words).collect(),
        decisions_left_out: view.decisions.len().saturating_sub(LINES),
        lines: lines
            .iter()
            .take(LINES)
            .map(|call| {
                let (state, tone) = settled_state(call.state);
                LinePart { address: inline(&call.address), state, tone: tone.class(), at: time(&call.made_at) }
            })
            .collect(),
        more: more_calls(view.call_count, lines.len().min(LINES)),
        links: view
            .execution_ids
            .iter()
            .enumerate()
            .skip(first_link)
            .map(|(place, id)| LinkPart {
                href: format!("/resume/{}?mcp_session_id={}", percent(id), percent(session)),
                label: if view.execution_ids.len() == 1 {
                    "Its page".to_owned()
                } else {
                    format!("Page {}", number(place + 1))
                },
            })
            .collect(),
        stop: !view.status.is_over(),
    }
}

pub(super) fn status_words(status: ExecutionStatus) -> (&'static str, &'static str) {
    match status {
        ExecutionStatus::Running => ("Running", "waits"),
        ExecutionStatus::Waiting => ("Waits for a person", "waits"),
        ExecutionStatus::Sleeping => ("Sleeps", "plain"),
        ExecutionStatus::Completed => ("Finished", "good"),
        ExecutionStatus::Failed => ("Failed", "bad"),
        ExecutionStatus::Cancelled => ("Cancelled", "plain"),
        ExecutionStatus::Expired => ("Ended", "bad"),
    }
}

fn decision_words(decision: &DecisionLine) -> Html {
    let verb = match decision.status.as_str() {
        "approved" => "Approved",
        "answered" => "Answered",
        "canceled" => "Cancelled",
        _ => "Declined",
    };
    let with_edit;
    let verb = match (&decision.grant, decision.edited) {
        (Some(grant), _) => {
            with_edit = format!("{verb} by grant {}", inline(grant));
            with_edit.as_str()
        }
        (None, true) => {
            with_edit = format!("{verb} with other arguments");
            with_edit.as_str()
        }
        (None, false) => verb,
    };
    words(verb, decision.by.as_deref(), &decision.at, decision.reason.as_deref(), Some(&decision.address))
}

fn stopped_words(stopped: &DecisionView) -> Html {
    words("Stopped", stopped.by.as_deref(), &stopped.at, stopped.reason.as_deref(), None)
}

fn words(verb: &str, by: Option<&str>, at: &str, reason: Option<&str>, what: Option<&str>) -> Html {
    let what = what.map(|what| format!("<span class=\"code\">{}</span>: ", inline(what))).unwrap_or_default();
    let Some(by) = by else {
        return Html(format!("{what}nobody had decided by {}.", time(at)));
    };
    let reason = reason.filter(|reason| !reason.is_empty()).map(|reason| format!(" Reason: “{}”", line(reason)));
    Html(format!(
        "{what}{} by <b>{}</b> on {}.{}",
        verb.to_lowercase(),
        inline(by),
        time(at),
        reason.unwrap_or_default()
    ))
}

fn more_calls(all: u64, listed: usize) -> String {
    match usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(listed) {
        0 => String::new(),
        1 => "1 more call is not listed here.".to_owned(),
        more => format!("{} more calls are not listed here.", number(more)),
    }
}

/// A length of time with the two units that matter.
fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match (seconds, seconds / 60) {
        (0, _) => format!("{milliseconds} ms"),
        (_, 0) => format!("{seconds} s"),
        (_, minutes) => format!("{minutes} min {} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::{Route, Verdict};
    use crate::console::approval::ItemState;
    use crate::console::history::{CallLine, ErrorLine};

    const HOSTILE: &str = "</main>\"'><script>alert(1)</script>\u{202E}";

    fn execution(status: ExecutionStatus) -> ExecutionView {
        ExecutionView {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            status,
            started_at: "2026-03-04T09:00:00Z".to_owned(),
            ended_at: status.is_over().then(|| "2026-03-04T09:01:00Z".to_owned()),
            ran_ms: 61_500,
            replays: 1,
            call_count: 1_234,
            waiting: 0,
            calls: Some(vec![CallLine {
                call: 0,
                address: "demo.deleteItem".to_owned(),
                line: Some(2),
                state: ItemState::Done,
                made_at: "2026-03-04T09:00:01Z".to_owned(),
                settled_at: None,
            }]),
            decisions: vec![DecisionLine {
                call: 0,
                address: "demo.deleteItem".to_owned(),
                status: "approved".to_owned(),
                by: Some("ben".to_owned()),
                route: Route::Page,
                reason: Some("fine".to_owned()),
                at: "2026-03-04T09:00:30Z".to_owned(),
                edited: false,
                grant: None,
            }],
            stopped: None,
            execution_ids: vec!["exec_abc".to_owned()],
            error: None,
        }
    }

    fn page(execution: ExecutionView, next: Option<&str>) -> String {
        history_page("5e55", &HistoryView { executions: vec![execution], next: next.map(str::to_owned) }, "ann@acme")
    }

    #[test]
    fn what_a_program_did_is_on_the_page() {
        let html = page(execution(ExecutionStatus::Completed), Some("17-ab"));
        for part in [
            "Finished",
            "1,234 calls",
            "1 min 1 s",
            "4 March 2026, 09:00 UTC",
            "approved by <b>ben</b> on",
            "Reason: “fine”",
            "href=\"/resume/exec_abc?mcp_session_id=5e55\"",
            "href=\"/sessions/5e55?after=17-ab\"",
            "demo.deleteItem",
            "1,233 more calls are not listed",
        ] {
            assert!(html.contains(part), "no {part} in\n{html}");
        }
        assert!(!html.contains("<form"), "nothing to stop");
    }

    #[test]
    fn one_that_has_not_ended_can_be_stopped() {
        for status in [ExecutionStatus::Running, ExecutionStatus::Waiting, ExecutionStatus::Sleeping] {
            let html = page(ExecutionView { waiting: 1, ..execution(status) }, None);
            assert!(html.contains("method=\"post\" action=\"/sessions/5e55\""));
            assert!(html.contains("name=\"execution\" value=\"0123456789abcdef0123456789abcdef\""));
            assert!(html.contains("1 call waits"));
            assert!(!html.contains("after="));
        }
    }

    #[test]
    fn no_text_from_outside_becomes_markup() {
        let text = || HOSTILE.to_owned();
        let mut view = execution(ExecutionStatus::Failed);
        view.id = text();
        view.execution_ids = vec![text(), text()];
        view.error = Some(ErrorLine { code: text(), message: text() });
        view.stopped = Some(DecisionView {
            verdict: Verdict::Cancel,
            status: text(),
            reason: Some(text()),
            by: Some(text()),
            at: text(),
            edited: true,
            grant: None,
            gives: None,
        });
        for call in view.calls.iter_mut().flatten() {
            call.address = text();
            call.made_at = text();
        }
        for decision in &mut view.decisions {
            decision.address = text();
            decision.by = Some(text());
            decision.reason = Some(text());
            decision.grant = Some(text());
        }
        let html = history_page(HOSTILE, &HistoryView { executions: vec![view], next: Some(text()) }, HOSTILE);
        assert!(!html.contains("<script>") && !html.contains("\"'>") && !html.contains('\u{202E}'), "{html}");
        assert_eq!(html.matches("</main").count(), 1);
    }

    #[test]
    fn an_empty_history_says_so() {
        let html = history_page("5e55", &HistoryView { executions: vec![], next: None }, "ann@acme");
        assert!(html.contains("No program has run in this session"));
    }
}
