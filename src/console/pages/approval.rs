//! The approval page: what is asked, what came of it, and the form that answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;

use super::edit::{EDITABLE, EDITABLE_TOGETHER, difference, editable, sent_size};
use super::json::json;
use super::markup::{Html, block, count, inline, line, number, percent};
use super::program::{Listing, Mark, listing};
use super::question::{QuestionPart, question_part};
use super::{Frame, render};
use crate::approval::Verdict;
use crate::console::approval::{
    ApprovalView, ChangeView, DecisionView, ItemState, ItemView, OtherCall, OutcomeView, PauseState,
};
use crate::engine::ExecutionStatus;

/// Bytes of arguments on one page: as HTML they can become fifteen times as many, and memory is scarce. What waits beyond it is shown once the calls before it are decided.
const PAGE_ARGUMENTS: usize = 1 << 20;
/// Bytes of a result up to which it is not folded.
const OPEN_RESULT: usize = 600;
/// Other calls on one page.
const OTHERS: usize = 100;

/// Something the person must know about the answer that was just sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Every choice was "decide later".
    NothingChosen,
    /// What was answered is not what waits now.
    Changed,
    /// Somebody else was first.
    AlreadyDecided,
    /// The time was over.
    TooLate,
    /// The program had ended.
    ProgramOver,
    /// The form was incomplete or had an unknown action.
    BadForm,
}

/// How a state is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Waits,
    Good,
    Bad,
    Quiet,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Quiet => "plain",
        }
    }
}

#[derive(Template)]
#[template(path = "approval.html")]
#[expect(clippy::struct_excessive_bools, reason = "each shows one part of the page or not")]
struct ApprovalTemplate<'a> {
    frame: Frame,
    notice: Option<Html>,
    version: String,
    live: bool,
    refresh: bool,
    api: String,
    action: String,
    heading: String,
    announce: String,
    lead: Html,
    state: &'static str,
    tone: &'static str,
    next: Option<String>,
    client: Html,
    client_note: &'static str,
    account: Html,
    started: Html,
    expires: Html,
    until_ms: u64,
    waiting: usize,
    /// Of those that wait, the ones that whoever looks may decide.
    mine: usize,
    not_yours: Option<&'static str>,
    owner: bool,
    reason_sent: &'a str,
    complete: bool,
    digest: &'a str,
    approve: String,
    decline: String,
    approve_hint: String,
    decline_hint: String,
    stop: bool,
    stopped: Option<DecisionPart>,
    history: String,
    marked: bool,
    outcome: Option<OutcomePart>,
    items: Vec<ItemPart<'a>>,
    program: Listing,
    program_lines: String,
    others: Vec<OtherPart>,
    others_left_out: usize,
}

#[expect(clippy::struct_excessive_bools, reason = "each shows one part of the item or not")]
struct ItemPart<'a> {
    call: u32,
    digest: &'a str,
    title: Html,
    state: &'static str,
    tone: &'static str,
    asked_again: bool,
    changes: Vec<ChangePart>,
    approvers: &'static str,
    original: Option<Html>,
    edit: Option<EditPart>,
    /// What can be allowed beyond this call: the value, the words, and whether it was chosen.
    grants: Vec<(&'static str, &'static str, bool)>,
    granting: bool,
    choice: &'a str,
    reason_sent: &'a str,
    decision: Option<DecisionPart>,
    note: Option<&'static str>,
    method: Html,
    url: Html,
    address: Html,
    credential: Option<Html>,
    reason: Html,
    line: Option<u32>,
    arguments: Html,
    description: Option<Html>,
    result: Option<Html>,
    result_size: String,
    result_open: bool,
    decidable: bool,
    question: Option<QuestionPart>,
}

struct ChangePart {
    what: &'static str,
    difference: Html,
}

/// The arguments as a text to be corrected.
struct EditPart {
    text: String,
    open: bool,
    rows: usize,
}

struct DecisionPart {
    text: Html,
    reason: Option<Html>,
}

struct OtherPart {
    call: u32,
    address: Html,
    state: &'static str,
    tone: &'static str,
    line: Option<u32>,
    arguments: Html,
    edited: Option<Html>,
    result: Option<Html>,
}

struct OutcomePart {
    heading: &'static str,
    error: Option<Html>,
    result: Option<Html>,
}

/// The page of one pause. Its form posts `action` (`accept`, `decline`, `cancel` or `items`), `digest`
/// and `reason` to the page's own address; for `items` also `choice-<call>` (`accept`, `decline` or
/// `later`), `digest-<call>` and `reason-<call>` of every call that can be decided alone. `arguments-<call>` is what the
/// person made of a call's arguments, JSON. `grant-<call>` is what is allowed beyond the call: `session`, or a number of hours. Fields of what a tool asks are
/// `field-<call>-<place>`. Where nothing waits, `cancel` without a digest ends the program.
#[must_use]
pub fn approval_page(view: &ApprovalView, person: &str, notice: Option<Notice>) -> String {
    page_with(view, person, notice.map(|notice| notice_text(notice, view)), None)
}

/// The page for a decision that this person may not make: it says who may.
#[must_use]
pub fn refused_page(view: &ApprovalView, person: &str, problem: &str) -> String {
    page_with(view, person, Some(inline(&format!("Nothing was decided. {problem}"))), None)
}

/// The page for an answer that does not fit what a tool asks or takes: it says why, and keeps what was entered.
#[must_use]
pub fn bad_answer_page(view: &ApprovalView, person: &str, problem: &str, sent: &[(String, String)]) -> String {
    page_with(view, person, Some(inline(&format!("Nothing was decided. {problem}"))), Some(sent))
}

fn page_with(view: &ApprovalView, person: &str, notice: Option<Html>, sent: Option<&[(String, String)]>) -> String {
    let waiting = waiting_count(view);
    let mine = mine_count(view);
    let several = waiting > 1;
    let complete = shown_completely(view);
    let all_shown = complete.iter().all(|shown| *shown);
    let (state, tone) = pause_state(view);
    let heading = heading(view, waiting);
    let announce = announcement(view);
    let others_left_out = view.others.len().saturating_sub(OTHERS);
    let marks = marks(view);
    let program = listing(&view.program, &marks);
    let asks = asking_count(view);
    let mut left_to_edit = EDITABLE_TOGETHER;
    render(&ApprovalTemplate {
        frame: Frame::new(Some(person)),
        notice,
        version: version(view),
        live: is_live(view),
        refresh: is_live(view) && mine == 0,
        api: format!("/api/mcp-sessions/{}/executions/{}", percent(&view.session_id), percent(&view.execution_id)),
        action: page_path(view, &view.execution_id),
        heading,
        announce,
        lead: lead(view, waiting),
        state,
        tone: tone.class(),
        next: view.next_execution_id.as_ref().map(|next| page_path(view, next)),
        client: if view.client.is_empty() { inline("no name given") } else { quoted(&view.client) },
        client_note: if view.client_left {
            "The client stopped waiting. Your decision counts all the same."
        } else {
            ""
        },
        account: inline(&format!("{}@{}", view.account, view.organization)),
        started: time(&view.started_at),
        expires: time(&view.expires_at),
        until_ms: view.expires_at_ms,
        waiting,
        mine,
        not_yours: not_yours(view, waiting, mine),
        owner: view.owner,
        reason_sent: sent_text(sent, "reason"),
        complete: all_shown,
        digest: &view.digest,
        approve: approve_words(waiting, asks),
        decline: together("Decline", waiting),
        approve_hint: approve_hint(waiting, asks),
        decline_hint: decline_hint(waiting, asks),
        stop: waiting == 0 && view.owner && !view.execution_status.is_over(),
        stopped: view.stopped.as_ref().map(|stopped| decision_part(stopped, false)),
        history: format!("/sessions/{}", percent(&view.session_id)),
        marked: !marks.is_empty(),
        outcome: view.outcome.as_ref().map(|outcome| outcome_part(outcome, view.execution_status)),
        items: view
            .items
            .iter()
            .zip(complete)
            .map(|(item, complete)| {
                let mut part = item_part(view, item, (complete, several), sent);
                let size = part.edit.as_ref().map_or(0, |edit| sent_size(&edit.text));
                // What was typed is never lost.
                if size > left_to_edit && sent.is_none() {
                    part.edit = None;
                } else {
                    left_to_edit = left_to_edit.saturating_sub(size);
                }
                part
            })
            .collect(),
        program_lines: count(program.lines, "line", "lines"),
        program,
        others: view.others.iter().skip(others_left_out).map(other_part).collect(),
        others_left_out,
    })
}

/// The page for an answer that came too late or to something else: it says who decided, and shows how things stand.
#[must_use]
pub fn conflict_page(view: &ApprovalView, person: &str) -> String {
    let decided = view.items.iter().any(|item| item.decision.as_ref().is_some_and(|decision| decision.by.is_some()));
    let notice = match view.state {
        _ if decided => Notice::AlreadyDecided,
        PauseState::Waiting => Notice::Changed,
        PauseState::Expired => Notice::TooLate,
        PauseState::Decided | PauseState::Over => Notice::ProgramOver,
    };
    approval_page(view, person, Some(notice))
}

fn page_path(view: &ApprovalView, execution: &str) -> String {
    format!("/resume/{}?mcp_session_id={}", percent(execution), percent(&view.session_id))
}

/// Calls that can be decided now.
fn waiting_count(view: &ApprovalView) -> usize {
    if view.state == PauseState::Waiting { view.waiting_count() } else { 0 }
}

/// Those of them that whoever looks may decide.
fn mine_count(view: &ApprovalView) -> usize {
    let mine = |item: &&ItemView| item.state == ItemState::Waiting && item.may_decide;
    if view.state == PauseState::Waiting { view.items.iter().filter(mine).count() } else { 0 }
}

/// What to say where something waits that whoever looks may not decide.
fn not_yours(view: &ApprovalView, waiting: usize, mine: usize) -> Option<&'static str> {
    match (waiting, mine) {
        (0, _) => None,
        (_, 0) if view.owner => {
            Some("You may not decide this yourself. Who may is said at each call; pass the address of this page on.")
        }
        (_, 0) => Some("You may look at this, but not decide it. Who may is said at each call."),
        (waiting, mine) if mine < waiting => {
            Some("Some of these calls are for somebody else to decide. Who may is said at each call.")
        }
        _ => None,
    }
}

/// What was sent in a field of the form, when it is shown again.
fn sent_text<'s>(sent: Option<&'s [(String, String)]>, name: &str) -> &'s str {
    sent.into_iter().flatten().find(|(sent, _)| sent == name).map(|(_, text)| text.as_str()).unwrap_or_default()
}

/// Those of them whose tools ask something.
fn asking_count(view: &ApprovalView) -> usize {
    let asks = |item: &&ItemView| item.state == ItemState::Waiting && item.question.is_some();
    if view.state == PauseState::Waiting { view.items.iter().filter(asks).count() } else { 0 }
}

fn is_live(view: &ApprovalView) -> bool {
    view.state == PauseState::Waiting || (!view.execution_status.is_over() && view.next_execution_id.is_none())
}

/// What a page shows, as text: the script compares it with the API's answer (`versionOf` in countersign.js).
fn version(view: &ApprovalView) -> String {
    let state = match view.state {
        PauseState::Waiting => "waiting",
        PauseState::Decided => "decided",
        PauseState::Expired => "expired",
        PauseState::Over => "over",
    };
    let status = match view.execution_status {
        ExecutionStatus::Running => "running",
        ExecutionStatus::Waiting => "waiting",
        ExecutionStatus::Sleeping => "sleeping",
        ExecutionStatus::Completed => "completed",
        ExecutionStatus::Failed => "failed",
        ExecutionStatus::Cancelled => "cancelled",
        ExecutionStatus::Expired => "expired",
    };
    let mut version = format!(
        "{state} {status} {} {} {} {}",
        view.digest,
        view.expires_at_ms,
        view.next_execution_id.as_deref().unwrap_or_default(),
        if view.outcome.is_some() { "ended" } else { "" }
    );
    for item in &view.items {
        let state = match item.state {
            ItemState::Waiting => "waiting",
            ItemState::Sleeping => "sleeping",
            ItemState::Approved => "approved",
            ItemState::Sent => "sent",
            ItemState::Done => "done",
            ItemState::Failed => "failed",
            ItemState::Declined => "declined",
            ItemState::Expired => "expired",
            ItemState::NotSent => "not_sent",
            ItemState::OutcomeUnknown => "outcome_unknown",
        };
        // Writing to a string never fails.
        let _ = write!(version, " {}:{state}", item.call);
    }
    version
}

/// For each item, whether its arguments are on the page as a whole. Items that wait come first.
fn shown_completely(view: &ApprovalView) -> Vec<bool> {
    let mut left = PAGE_ARGUMENTS;
    let waits = |item: &ItemView| item.state == ItemState::Waiting;
    let mut shown = vec![false; view.items.len()];
    for turn in [true, false] {
        for (item, shown) in view.items.iter().zip(&mut shown).filter(|(item, _)| waits(item) == turn) {
            let size = item.arguments.len();
            // The first one is always shown: else a call that is larger than the page could never be decided.
            *shown = size <= left || left == PAGE_ARGUMENTS;
            left = if *shown { left.saturating_sub(size) } else { left };
        }
    }
    shown
}

// ---- sentences ----------------------------------------------------------------------------------

fn together(verb: &str, waiting: usize) -> String {
    if waiting == 1 { verb.to_owned() } else { format!("{verb} all {}", number(waiting)) }
}

fn approve_words(waiting: usize, asks: usize) -> String {
    match (waiting, asks) {
        (1, 1) => "Send the answer".to_owned(),
        (_, 0) => together("Approve", waiting),
        _ if waiting == asks => format!("Send all {} answers", number(asks)),
        _ => format!("Approve and answer all {}", number(waiting)),
    }
}

fn approve_hint(waiting: usize, asks: usize) -> String {
    let calls = if waiting == 1 {
        "the call is sent once, exactly as shown."
    } else {
        "the calls are sent once, exactly as shown."
    };
    let answers = "the tool gets exactly what you entered, and goes on with its call.";
    match (waiting, asks) {
        (_, 0) => format!("Approve: {calls}"),
        _ if waiting == asks => format!("Answer: {answers}"),
        _ => format!("Approve and answer: {calls} Where a tool asks, {answers}"),
    }
}

fn decline_hint(waiting: usize, asks: usize) -> String {
    let calls = if waiting == 1 { "it is not sent." } else { "they are not sent." };
    let calls = format!("{calls} The program is told and may go on.");
    let answers = "the tool is told that you do not answer, and decides itself how to go on with its call, which was sent already.";
    match (waiting, asks) {
        (_, 0) => format!("Decline: {calls}"),
        _ if waiting == asks => format!("Decline: {answers}"),
        _ => format!("Decline: {calls} Where a tool asks, {answers}"),
    }
}

fn pause_state(view: &ApprovalView) -> (&'static str, Tone) {
    match view.state {
        PauseState::Waiting => ("Waiting for a decision", Tone::Waits),
        PauseState::Expired => ("Time is over", Tone::Bad),
        PauseState::Decided | PauseState::Over => match view.execution_status {
            ExecutionStatus::Running => ("The program goes on", Tone::Waits),
            ExecutionStatus::Waiting => ("The program waits again", Tone::Waits),
            ExecutionStatus::Sleeping => ("The program sleeps", Tone::Waits),
            ExecutionStatus::Completed => ("Finished", Tone::Good),
            ExecutionStatus::Failed => ("Failed", Tone::Bad),
            ExecutionStatus::Cancelled => ("Cancelled", Tone::Quiet),
            ExecutionStatus::Expired => ("Ended", Tone::Bad),
        },
    }
}

fn heading(view: &ApprovalView, waiting: usize) -> String {
    let asks = asking_count(view);
    match view.state {
        PauseState::Waiting if waiting == 1 && asks == 1 && view.items.len() == 1 => "A tool asks you".to_owned(),
        PauseState::Waiting if asks > 0 && waiting == view.items.len() => {
            format!("Decide on these {} calls", number(waiting))
        }
        PauseState::Waiting if waiting == 1 && view.items.len() == 1 => "Approve this call?".to_owned(),
        PauseState::Waiting if waiting == view.items.len() => format!("Approve these {} calls?", number(waiting)),
        PauseState::Waiting => {
            format!("{} of {} calls still to decide", number(waiting), number(view.items.len()))
        }
        PauseState::Expired => "Nobody decided in time".to_owned(),
        PauseState::Decided | PauseState::Over => match view.execution_status {
            ExecutionStatus::Running | ExecutionStatus::Waiting | ExecutionStatus::Sleeping
                if view.items.is_empty() =>
            {
                "Nothing to decide".to_owned()
            }
            ExecutionStatus::Running | ExecutionStatus::Waiting | ExecutionStatus::Sleeping => {
                verdict_heading(view).to_owned()
            }
            ExecutionStatus::Completed => "The program has finished".to_owned(),
            ExecutionStatus::Failed => "The program failed".to_owned(),
            ExecutionStatus::Cancelled => "The program was cancelled".to_owned(),
            ExecutionStatus::Expired => "The program cannot go on".to_owned(),
        },
    }
}

fn verdict_heading(view: &ApprovalView) -> &'static str {
    let all = |verdict: Verdict| {
        view.items.iter().all(|item| item.decision.as_ref().is_some_and(|decision| decision.verdict == verdict))
    };
    if all(Verdict::Accept) {
        "Approved"
    } else if all(Verdict::Decline) {
        "Declined"
    } else if all(Verdict::Cancel) {
        "Cancelled"
    } else {
        "Everything is decided"
    }
}

/// What is asked, or what became of it, in a sentence or two.
fn lead(view: &ApprovalView, waiting: usize) -> Html {
    if view.state != PauseState::Waiting {
        return inline(&announcement(view));
    }
    let asks = asking_count(view);
    if asks > 0 {
        let client = if view.client.is_empty() { inline("A client") } else { quoted(&view.client) };
        let account = inline(&format!("{}@{}", view.account, view.organization));
        let rest = match waiting - asks {
            0 => String::new(),
            rest => {
                format!(" <b>{}</b> more wait for approval and are sent only with it.", count(rest, "call", "calls"))
            }
        };
        let tools = if asks == 1 {
            "The tool of <b>1 call</b> asks".to_owned()
        } else {
            format!("The tools of <b>{} calls</b> ask", number(asks))
        };
        return Html(format!("{tools} you something for {client} of {account}.{rest}"));
    }
    let mut undecided = view.items.iter().filter(|item| item.state == ItemState::Waiting);
    let writes = undecided.all(|item| matches!(item.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE"));
    let client = if view.client.is_empty() { inline("A client") } else { quoted(&view.client) };
    let account = inline(&format!("{}@{}", view.account, view.organization));
    let what = if writes { "may change something" } else { "needs approval" };
    let what = if !writes && waiting != 1 { "need approval" } else { what };
    let nothing =
        if waiting == 1 { "It is sent only if it is approved." } else { "Each is sent only if it is approved." };
    Html(format!(
        "{client} of {account} wants to make <b>{}</b> that {what}. {nothing}",
        count(waiting, "call", "calls")
    ))
}

/// Where things stand, without any text from outside.
fn announcement(view: &ApprovalView) -> String {
    match view.state {
        PauseState::Waiting => format!("{} to decide.", count(waiting_count(view), "call", "calls")),
        PauseState::Expired => {
            let late = |item: &&ItemView| matches!(item.state, ItemState::Expired | ItemState::Waiting);
            let missed = view.items.iter().filter(late).count();
            let was = if missed == 1 { "was" } else { "were" };
            format!("{} {was} not sent. {}", count(missed, "call", "calls"), ending(view.execution_status))
        }
        PauseState::Decided => ending(view.execution_status).to_owned(),
        PauseState::Over => format!("{} {}", carried_out(view), ending(view.execution_status)).trim_end().to_owned(),
    }
}

fn ending(status: ExecutionStatus) -> &'static str {
    match status {
        ExecutionStatus::Running => "The program goes on by itself. This page shows how it ends.",
        ExecutionStatus::Waiting => "The program waits for another decision.",
        ExecutionStatus::Sleeping => {
            "The program sleeps for a while and then goes on by itself. This page shows how it ends."
        }
        ExecutionStatus::Completed => "The program ran to its end.",
        ExecutionStatus::Failed => "The program ended with an error, shown below.",
        ExecutionStatus::Cancelled => "Nothing more is sent.",
        ExecutionStatus::Expired => {
            "This release of Countersign can no longer continue the program. Nothing more is sent."
        }
    }
}

fn carried_out(view: &ApprovalView) -> String {
    let with = |state: ItemState| view.items.iter().filter(|item| item.state == state).count();
    let (done, unknown) = (with(ItemState::Done), with(ItemState::OutcomeUnknown));
    match (view.items.len(), done, unknown) {
        (0, _, _) => String::new(),
        (1, 1, _) => "The call was carried out.".to_owned(),
        (1, _, 1) => "Nobody knows whether the call was carried out.".to_owned(),
        (1, _, _) if with(ItemState::Failed) == 1 => "The call ended with an error.".to_owned(),
        (1, _, _) if with(ItemState::Sent) == 1 => "The call was sent and not answered.".to_owned(),
        (1, _, _) => "The call was not sent.".to_owned(),
        (all, done, 0) => format!("{} of {} calls were carried out.", number(done), number(all)),
        (all, done, unknown) => {
            format!("{} of {} calls were carried out; of {} nobody knows.", number(done), number(all), number(unknown))
        }
    }
}

fn notice_text(notice: Notice, view: &ApprovalView) -> Html {
    inline(match notice {
        Notice::NothingChosen => "Nothing was decided: for every call you left “Decide later”.",
        Notice::Changed => {
            "Nothing was decided: what waits has changed since you opened the page. This is how it is now. Please look again."
        }
        Notice::TooLate => "Your answer came too late and was not used: the time to decide was over.",
        Notice::ProgramOver => "Your answer was not used: the program had already ended.",
        Notice::BadForm => "Nothing was decided: the answer was incomplete. Please choose again.",
        Notice::AlreadyDecided => return already_decided(view),
    })
}

fn already_decided(view: &ApprovalView) -> Html {
    let mut decisions =
        view.items.iter().filter_map(|item| item.decision.as_ref()).filter(|decision| decision.by.is_some());
    let first = decisions.next();
    let same = decisions.all(|other| first.is_some_and(|first| first.verdict == other.verdict && first.by == other.by));
    let rest = if view.state == PauseState::Waiting { " Please look at what still waits." } else { "" };
    match first.map(|first| (first, first.by.as_deref())) {
        Some((first, Some(by))) if same => Html(format!(
            "Already {} by <b>{}</b> on {}. Your answer was not used.{rest}",
            past(first.verdict),
            inline(by),
            time(&first.at)
        )),
        _ => Html(format!("Already decided, by whom is written at each call. Your answer was not used.{rest}")),
    }
}

fn past(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "approved",
        Verdict::Decline => "declined",
        Verdict::Cancel => "cancelled",
    }
}

/// Text from outside on one line, in quotation marks.
fn quoted(text: &str) -> Html {
    Html(format!("“{}”", line(text)))
}

/// An RFC 3339 time in UTC, for people; the script shows it in their own time zone.
pub(super) fn time(text: &str) -> Html {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let parts = || {
        let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
        let mut date = date.splitn(3, '-').map(|part| part.parse::<usize>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let clock = clock.get(..5).filter(|clock| clock.bytes().all(|byte| byte.is_ascii_digit() || byte == b':'))?;
        Some(format!("{day} {} {year}, {clock} UTC", MONTHS.get(month.checked_sub(1)?)?))
    };
    match parts() {
        Some(shown) => Html(format!("<time datetime=\"{}\">{shown}</time>", inline(text))),
        None => inline(text),
    }
}

// ---- parts --------------------------------------------------------------------------------------

fn item_part<'a>(
    view: &ApprovalView,
    item: &'a ItemView,
    (complete, several): (bool, bool),
    sent: Option<&'a [(String, String)]>,
) -> ItemPart<'a> {
    let (state, tone) = item_state(item, view.state);
    let waits = item.state == ItemState::Waiting && view.state == PauseState::Waiting;
    ItemPart {
        call: item.call,
        digest: &item.digest,
        title: line(if item.title.is_empty() { &item.address } else { &item.title }),
        state,
        tone: tone.class(),
        asked_again: item.asked_again,
        changes: item.changes.iter().map(change_part).collect(),
        approvers: item.approvers.words(),
        original: item.original.as_deref().map(json),
        edit: (waits && complete && item.may_decide && item.question.is_none() && item.arguments.len() <= EDITABLE)
            .then(|| edit_part(item, sent))
            .flatten(),
        grants: if waits && complete && item.may_decide && item.grantable {
            grant_choices(sent_text(sent, &format!("grant-{}", item.call)))
        } else {
            Vec::new()
        },
        granting: !sent_text(sent, &format!("grant-{}", item.call)).is_empty(),
        choice: sent_text(sent, &format!("choice-{}", item.call)),
        reason_sent: sent_text(sent, &format!("reason-{}", item.call)),
        decision: item.decision.as_ref().map(|decision| decision_part(decision, item.question.is_some())),
        note: note(item.state),
        method: inline(&item.method),
        url: line(&item.url),
        address: line(&item.address),
        credential: item.credential.as_deref().map(line),
        reason: line(&item.reason),
        line: item.line,
        arguments: if complete {
            json(&item.arguments)
        } else {
            inline(&format!(
                "{} characters: too large for this page together with the other calls. Shown once those are decided.",
                number(item.arguments.chars().count())
            ))
        },
        description: (!item.description.is_empty()).then(|| block(&item.description)),
        result: item.result.as_deref().map(json),
        result_size: item.result.as_deref().map(size_of).unwrap_or_default(),
        result_open: item.result.as_deref().is_some_and(|result| result.len() <= OPEN_RESULT),
        decidable: waits && complete && several && item.may_decide,
        question: item
            .question
            .as_ref()
            .map(|question| question_part(item.call, question, waits && complete && item.may_decide, sent)),
    }
}

fn size_of(text: &str) -> String {
    count(text.chars().count(), "character", "characters")
}

fn grant_choices(chosen: &str) -> Vec<(&'static str, &'static str, bool)> {
    [
        ("", "This call only"),
        ("session", "This tool in this session, whatever its arguments"),
        ("1", "This tool with exactly these arguments for 1 hour"),
        ("8", "… for 8 hours"),
        ("24", "… for 1 day"),
        ("168", "… for 7 days"),
    ]
    .map(|(value, words)| (value, words, value == chosen))
    .to_vec()
}

fn change_part(change: &ChangeView) -> ChangePart {
    ChangePart {
        what: match change.what.as_str() {
            "approvers" => "Who may decide",
            "request" => "The request",
            "arguments" => "The arguments",
            "credential" => "The credential",
            "title" => "The tool’s title",
            "description" => "What the tool says about itself",
            _ => "The tool’s definition",
        },
        difference: difference(&change.before, &change.now),
    }
}

/// The arguments as they are, or as they were sent when that could not be taken.
fn edit_part(item: &ItemView, sent: Option<&[(String, String)]>) -> Option<EditPart> {
    let shown = editable(&item.arguments)?;
    let name = format!("arguments-{}", item.call);
    let typed = sent.into_iter().flatten().find(|(sent, _)| *sent == name).map(|(_, text)| text.replace("\r\n", "\n"));
    let open = typed.as_ref().is_some_and(|typed| *typed != shown);
    let text = typed.unwrap_or(shown);
    Some(EditPart { rows: text.lines().count().clamp(3, 20), text, open })
}

fn decision_part(decision: &DecisionView, question: bool) -> DecisionPart {
    let text = match &decision.by {
        Some(by) => {
            let verb = match decision.verdict {
                Verdict::Accept if question => "Answered",
                Verdict::Accept => "Approved",
                Verdict::Decline => "Declined",
                Verdict::Cancel => "Cancelled",
            };
            let how = match (&decision.grant, decision.edited) {
                (Some(grant), _) => format!(" by grant <span class=\"code\">{}</span>, given", inline(grant)),
                (None, true) => " with other arguments".to_owned(),
                (None, false) => String::new(),
            };
            let gives = match &decision.gives {
                Some(grant) => format!(
                    " This gave the grant <span class=\"code\">{}</span> (<a href=\"/grants\">all grants</a>).",
                    inline(grant)
                ),
                None => String::new(),
            };
            Html(format!("{verb}{how} by <b>{}</b> on {}.{gives}", inline(by), time(&decision.at)))
        }
        None => Html(format!("Nobody had decided by {}.", time(&decision.at))),
    };
    let reason = decision.reason.as_deref().filter(|reason| decision.by.is_some() && !reason.is_empty());
    DecisionPart { text, reason: reason.map(line) }
}

fn item_state(item: &ItemView, pause: PauseState) -> (&'static str, Tone) {
    match item.state {
        ItemState::Waiting if pause == PauseState::Waiting => ("Waiting", Tone::Waits),
        ItemState::Waiting if pause == PauseState::Expired => ("Time is over, not sent", Tone::Bad),
        ItemState::Waiting => ("Not sent", Tone::Quiet),
        ItemState::Approved => ("Approved, about to be sent", Tone::Good),
        ItemState::Sleeping => ("Sleeps", Tone::Quiet),
        ItemState::Sent => ("Sent, no answer yet", Tone::Waits),
        ItemState::Done
        | ItemState::Failed
        | ItemState::Declined
        | ItemState::Expired
        | ItemState::NotSent
        | ItemState::OutcomeUnknown => settled_state(item.state),
    }
}

pub(super) fn settled_state(state: ItemState) -> (&'static str, Tone) {
    match state {
        ItemState::Waiting => ("Waiting for a decision", Tone::Waits),
        ItemState::Sleeping => ("Sleeps", Tone::Quiet),
        ItemState::Approved => ("About to be sent", Tone::Quiet),
        ItemState::Sent => ("Sent, no answer yet", Tone::Waits),
        ItemState::Done => ("Done", Tone::Good),
        ItemState::Failed => ("Ended with an error", Tone::Bad),
        ItemState::Declined => ("Declined, not sent", Tone::Quiet),
        ItemState::Expired => ("Time is over, not sent", Tone::Bad),
        ItemState::NotSent => ("Not sent", Tone::Quiet),
        ItemState::OutcomeUnknown => ("Sent, outcome unknown", Tone::Bad),
    }
}

fn note(state: ItemState) -> Option<&'static str> {
    (state == ItemState::OutcomeUnknown).then_some(
        "The call was sent, but no answer was recorded. It may or may not have been carried out, and it is not sent again. \
         Look at the tool itself before you repeat it.",
    )
}

fn other_part(other: &OtherCall) -> OtherPart {
    let (state, tone) = settled_state(other.state);
    OtherPart {
        call: other.call,
        address: inline(&other.address),
        state,
        tone: tone.class(),
        line: other.line,
        arguments: json(&other.arguments),
        edited: other.edited.as_deref().map(json),
        result: other.result.as_deref().map(json),
    }
}

fn outcome_part(outcome: &OutcomeView, status: ExecutionStatus) -> OutcomePart {
    let failed = outcome.error.is_some();
    OutcomePart {
        heading: match status {
            ExecutionStatus::Completed if outcome.result.is_none() && !failed => "The program returned nothing",
            ExecutionStatus::Cancelled => "How it ended",
            ExecutionStatus::Running
            | ExecutionStatus::Waiting
            | ExecutionStatus::Sleeping
            | ExecutionStatus::Completed
            | ExecutionStatus::Failed
            | ExecutionStatus::Expired => {
                if failed {
                    "Why it failed"
                } else {
                    "What came of it"
                }
            }
        },
        error: outcome.error.as_deref().map(block),
        result: outcome.result.as_deref().map(json),
    }
}

/// The lines of this pause's calls; where one of several calls of a line waits, only those that wait are named.
fn marks(view: &ApprovalView) -> BTreeMap<usize, Mark> {
    let mut calls: BTreeMap<usize, [Vec<String>; 2]> = BTreeMap::new();
    for (place, item) in view.items.iter().enumerate() {
        let Some(line) = item.line.and_then(|line| usize::try_from(line).ok()) else { continue };
        let [waiting, others] = calls.entry(line).or_default();
        let waits = item.state == ItemState::Waiting && view.state == PauseState::Waiting;
        if waits { waiting } else { others }.push(number(place + 1));
    }
    let named =
        |places: &[String]| if view.items.len() > 1 { format!("{} ", places.join(", ")) } else { String::new() };
    calls
        .into_iter()
        .map(|(line, [waiting, others])| {
            let label = match waiting.len() {
                0 => format!("{}called here", named(&others)),
                1 => format!("{}waits here", named(&waiting)),
                _ => format!("{}wait here", named(&waiting)),
            };
            (line, Mark { label, waits: !waiting.is_empty() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        assert_eq!(
            time("2026-03-04T05:06:07Z").0,
            "<time datetime=\"2026-03-04T05:06:07Z\">4 March 2026, 05:06 UTC</time>"
        );
        for text in ["", "soon", "2026-13-04T05:06:07Z", "2026-00-04T05:06:07Z", "<b>T<i>Z"] {
            assert!(!time(text).0.contains("<time"), "{text}");
        }
    }
}
