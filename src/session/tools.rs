//! The gateway's own MCP tools: how they are described, and how an execution's report reads as a
//! tool result.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::content::emitted_content;
use super::direct::outcome_result;
use super::{ElicitationMode, SessionMeta};
use crate::engine::{ExecutionStatus, Outcome, PauseReport, PendingCall, Report};
use crate::protocol::text::shortened;
use crate::protocol::time::iso_time;

/// Characters of a result's text.
pub const TEXT_LIMIT: usize = 30_000;
/// Calls that are listed in the text of a pause; more than that cannot be relayed by a model.
pub const PENDING_LINES: usize = 20;
/// Characters of a call's arguments that a model is told to show the user; longer ones cannot be relayed.
pub const RELAYED_CHARACTERS: usize = 2_000;
/// Characters of a result's JSON text in `structuredContent`; beyond it only the preview is sent.
const STRUCTURED_LIMIT: usize = 200_000;

/// The tools of `tool_mode=code`, in an order that never changes.
#[must_use]
pub fn code_mode_tools() -> Value {
    json!([
        {
            "name": "execute",
            "title": "Run a program",
            "description": EXECUTE_DESCRIPTION,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "code": { "type": "string", "description": "TypeScript or JavaScript. Top-level await and return work." }
                },
                "required": ["code"],
                "additionalProperties": false
            },
            "annotations": { "title": "Run a program", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true }
        },
        resume_tool(),
        {
            "name": "skills",
            "title": "How to work with this gateway",
            "description": "Short guides: writing programs, finding tools, approvals, errors. Without a name: the list.",
            "inputSchema": {
                "type": "object",
                "properties": { "name": { "type": "string", "description": "A guide from the list." } },
                "additionalProperties": false
            },
            "annotations": { "title": "How to work with this gateway", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false }
        }
    ])
}

/// The tool `resume`, which every session has.
#[must_use]
pub fn resume_tool() -> Value {
    json!({
        "name": "resume",
        "title": "Wait for a person's decision",
        "description": RESUME_DESCRIPTION,
        "inputSchema": {
            "type": "object",
            "properties": {
                "executionId": { "type": "string", "description": "From the result of execute or resume." },
                "action": { "type": "string", "enum": ["accept", "decline", "cancel"], "description": "Only when a result has status waiting_for_interaction: what the person answered." },
                "content": { "type": "object", "description": "Only with action: what the person entered, or {reason}." }
            },
            "required": ["executionId"],
            "additionalProperties": false
        },
        "annotations": { "title": "Wait for a person's decision", "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false }
    })
}

const EXECUTE_DESCRIPTION: &str = "Run a TypeScript program that calls tools; end it with `return value`. \
Find tools first: `return await tools.search({ query: \"delete item\" })`, then `tools.describe({ address })` for the exact shapes. \
Call them as `await tools.<source>.<tool>({ ... })`. A call never throws: it gives `{ ok: true, data }` or `{ ok: false, error: { code, message } }`. \
Calls may run in parallel with Promise.all. There is no network and no import; `await sleep(ms)` and setTimeout work, also for hours.\n\
A risky call waits for a person: the result then has status `user_approval_required` with an `approvalUrl`. \
Show that link to the user and call `resume` with the `executionId`; do not run the program again.";

const RESUME_DESCRIPTION: &str = "Wait until a person has decided on a program that waits, and get what it led to. \
Safe to repeat with the same executionId. While nobody has decided it answers `user_approval_required` again: call it again.";

/// The gateway's advice to a model, sent with `initialize`.
pub const INSTRUCTIONS: &str = "Countersign runs programs over a catalog of tools. Call `execute` with TypeScript; inside it \
`tools.search({ query })` finds tools. Risky calls wait for a person: show the approvalUrl to the user, then call `resume`.";

/// The same for `tool_mode=direct`.
pub const DIRECT_INSTRUCTIONS: &str = "Countersign offers tools of several sources. A risky call waits for a person: show the \
approvalUrl to the user, then call `resume` with the executionId; do not call the tool again.";

/// The guides of `skills`: name, what it is about, text.
pub const SKILLS: [(&str, &str, &str); 4] = [
    (
        "programs",
        "How to write a program for execute",
        "# Programs\n\nStatements with top-level `await` and `return`, or one function. TypeScript is fine; types are removed, not checked.\n\n\
```ts\nconst page = await tools.demo.listItems({ search: \"broken\" });\nif (!page.ok) return page.error;\nconst gone = await Promise.all(page.data.items.map((item) => tools.demo.deleteItem({ id: item.id })));\nreturn gone.map((one) => one.ok ? \"deleted\" : one.error.code);\n```\n\n\
- A call never throws. Check `ok` before you read `data`.\n- Return what you need, not everything: text beyond 30 000 characters is cut.\n- `emit(value)` shows something to the user without spending your context. `console.log` comes back as `logs`.\n\
- A program may be run again from its start with the recorded results when the gateway restarts. `Date`, `Math.random` and `crypto.randomUUID` repeat their values then.\n\
- `await sleep(ms)`, `setTimeout` and `setInterval` work, for up to a day; each is one of the calls. For a long sleep `execute` answers `status: \"sleeping\"`; `resume` gives the outcome. When the program has ended, only timers that are due within two seconds are waited for.\n\
- `emit({ name?, mimeType, encoding: \"base64\", data })` gives the user a file, `emit({ uri, name })` a link.\n\
- A cut result can be read: `await tools.results.read({ id, offset })` with the id of the note gives `{ text, nextOffset, totalCharacters }`.\n\
- Limits: 256 KiB of program, 1 000 calls, 6 at a time, 1 MiB of arguments and 16 MiB of result a call, 32 MiB of both in all, 5 minutes of running (waiting for a person and sleeping do not count).\n",
    ),
    (
        "tools",
        "How to find and call tools",
        "# Tools\n\n`await tools.search({ query, source?, limit?, offset? })` gives `{ items: [{ address, title, description, approval }], total }`.\n\
`await tools.describe({ address })` gives the input and output as TypeScript, and suggestions when there is no such tool.\n\
`await tools.sources.list()` gives the sources.\nAll three answer like any tool: `{ ok, data }`.\n\n\
Call `tools.<source>.<tool>({ ... })`, or `tools[\"<address>\"]({ ... })`. Wrong arguments give `invalid_tool_arguments` with the paths, before anybody is asked.\n",
    ),
    (
        "approvals",
        "What happens when a call needs a person",
        "# Approvals\n\nA call that changes something waits until a person has approved exactly that call. `execute` then answers with `status: \"user_approval_required\"`, an `executionId`, an `approvalUrl` and what is `pending`.\n\n\
1. Show the `approvalUrl` to the user.\n2. Call `resume({ executionId })`. It waits up to 50 seconds; call it again while it answers the same status.\n3. It answers with the program's result, or with the next pause and its own `executionId`.\n\n\
Never run the program again while it waits: that would ask for everything twice. A declined call gives the program `{ ok: false, error: { code: \"declined\", reason } }` and the program goes on. Calls made together (`Promise.all`) are asked for together.\n\n\
A tool may ask the user something while it carries a call out: the same status, and that call in `pending` has a `question`. The user answers on the same page.\n",
    ),
    (
        "errors",
        "What the error codes mean",
        "# Error codes of a call\n\n- `declined`: a person said no; `reason` says why. `approval_timeout` as the reason: nobody answered in time.\n\
- `tool_blocked`: policy forbids it. `stopped`: an administrator stopped sending; tell the user, do not try again. `tool_not_found`: see the suggestions. `invalid_tool_arguments`: see `details`.\n\
- `outcome_unknown`: the gateway was interrupted while the call was on its way. It may have been carried out and was not repeated; check before you repeat it.\n\
- `upstream_error` with `status`: what the API answered is in `details`.\n- `result_too_large`: ask for less. `result_not_found`: the result to be read was forgotten.\n\n\
`resume` with `execution_not_found`: the id is unknown, expired or of somebody else; run `execute` again.\n",
    ),
];

/// A tool result of MCP, as JSON text.
#[must_use]
pub fn text_result(text: &str, structured: Option<&Value>, is_error: bool) -> String {
    let mut result = Map::new();
    result.insert("content".to_owned(), json!([{ "type": "text", "text": text }]));
    if let Some(structured) = structured {
        result.insert("structuredContent".to_owned(), structured.clone());
    }
    result.insert("isError".to_owned(), Value::Bool(is_error));
    Value::Object(result).to_string()
}

/// What a report needs to be worded.
#[derive(Debug, Clone, Copy)]
pub struct ReportContext<'a> {
    /// How the asking session wants to be asked.
    pub mode: ElicitationMode,
    /// The session that holds the execution.
    pub holder: &'a SessionMeta,
    /// Its id.
    pub holder_id: &'a str,
    /// Whether the same pause was reported before and still waits.
    pub still_waiting: bool,
    /// Whether it is one direct tool call rather than a program.
    pub direct: bool,
    /// By what name a program can read the result.
    pub result_id: &'a str,
}

/// A report as a tool result.
#[must_use]
pub fn report_result(report: &Report, execution_id: &str, context: ReportContext<'_>) -> String {
    match report {
        Report::Ended { outcome, .. } if context.direct && outcome.error.is_none() => {
            outcome_result(outcome.result.as_deref().unwrap_or("null"))
        }
        Report::Ended { status, outcome } => ended_result(*status, outcome, context.result_id),
        Report::Sleeping { wakes_at, .. } => sleeping_result(*wakes_at, execution_id),
        Report::Running { .. } => running_result(execution_id),
        Report::Paused(pause) => match context.mode {
            ElicitationMode::Browser | ElicitationMode::Native => browser_result(pause, execution_id, context),
            ElicitationMode::Model => model_result(pause, execution_id, context),
        },
    }
}

/// The program sleeps for longer than a request is kept open.
#[inline(never)]
fn sleeping_result(wakes_at: u64, execution_id: &str) -> String {
    let wakes = iso_time(wakes_at);
    let text = format!(
        "The program sleeps until {wakes} and then goes on by itself. Nobody has to decide anything. Call resume with the \
         executionId, then or later, to get its result; do not run it again.\nexecutionId: {execution_id}"
    );
    let structured = json!({ "status": "sleeping", "executionId": execution_id, "wakesAt": wakes });
    text_result(&text, Some(&structured), false)
}

/// It runs for longer than a request is kept open.
#[inline(never)]
fn running_result(execution_id: &str) -> String {
    let text = format!(
        "The program is still running; nobody has to decide anything now. Call resume with the executionId again to get its \
         result; do not run it again.\nexecutionId: {execution_id}"
    );
    text_result(&text, Some(&json!({ "status": "running", "executionId": execution_id })), false)
}

/// `resume` with an id that leads nowhere.
#[must_use]
pub fn execution_not_found() -> String {
    let text = "There is no such execution: the id is unknown, expired, or of another account. Run execute again.";
    text_result(text, Some(&json!({ "status": "execution_not_found", "error": text })), true)
}

/// The page on which a person decides.
#[must_use]
pub fn approval_url(origin: &str, execution_id: &str, session_id: &str) -> String {
    format!("{origin}/resume/{execution_id}?mcp_session_id={session_id}")
}

#[inline(never)]
fn browser_result(pause: &PauseReport, execution_id: &str, context: ReportContext<'_>) -> String {
    let url = approval_url(&context.holder.public_origin, execution_id, context.holder_id);
    let expires = iso_time(pause.expires_at);
    let lead = match (context.still_waiting, asks(pause)) {
        (true, _) => "Nobody has decided yet.",
        (false, false) => "A person has to approve before this goes on.",
        (false, true) => "A person has to answer before this goes on.",
    };
    let mut text = format!(
        "{lead} Show this link to the user, then call resume with the executionId (again, while it waits):\n{url}\n\
         executionId: {execution_id}\nWaiting until {expires}:"
    );
    text.push_str(&pending_lines(pause, 400));
    if let Some(call) = pause.pending.iter().find(|call| !call.by.is_owner()) {
        let some = if pause.pending.iter().all(|other| other.by == call.by) { "Only" } else { "In part, only" };
        text = format!("{text}\n{some} {} may decide: the user has to pass the link on.", call.by.words());
    }
    let structured = json!({
        "status": "user_approval_required",
        "executionId": execution_id,
        "approvalUrl": url,
        "expiresAt": expires,
        "pending": pending(pause),
    });
    text_result(&text, Some(&structured), false)
}

#[inline(never)]
fn model_result(pause: &PauseReport, execution_id: &str, context: ReportContext<'_>) -> String {
    let expires = iso_time(pause.expires_at);
    let url = approval_url(&context.holder.public_origin, execution_id, context.holder_id);
    let mut message = match (pause.pending.len(), asks(pause)) {
        (1, false) => "The program wants to make this call:".to_owned(),
        (calls, false) => format!("The program wants to make these {calls} calls:"),
        (1, true) => "The tool of this call asks the user something:".to_owned(),
        (calls, true) => {
            format!("The program wants to make these {calls} calls, or their tools ask the user something:")
        }
    };
    message.push_str(&pending_lines(pause, RELAYED_CHARACTERS));
    let instructions = if asks(pause) {
        "Ask the user, word for word. Then call resume with the executionId and action accept (content: what the user entered, \
         by the names of the question's fields), decline or cancel, as the user answered. Do not answer yourself."
    } else {
        "Ask the user, word for word, whether this may be done. Then call resume with the executionId and \
         action accept, decline (content {\"reason\": …}) or cancel, as the user answered. Do not answer yourself."
    };
    let first = pause.pending.first();
    let structured = json!({
        "status": "waiting_for_interaction",
        "executionId": execution_id,
        "interaction": {
            "kind": "approval",
            "message": message,
            "instructions": instructions,
            "address": first.map(|call| call.address.as_str()),
            "args": first.map(|call| arguments_value(&call.arguments, TEXT_LIMIT)),
            "pending": pending(pause),
            "url": url,
        },
        "expiresAt": expires,
    });
    let text = format!("{message}\n\n{instructions}\nexecutionId: {execution_id}\nWaiting until {expires}.");
    text_result(&text, Some(&structured), false)
}

/// Whether a tool asks something, rather than a call waiting to be sent.
fn asks(pause: &PauseReport) -> bool {
    pause.pending.iter().any(|call| call.question.is_some())
}

/// A line for each call, as far as a result has room for them.
pub(crate) fn pending_lines(pause: &PauseReport, limit: usize) -> String {
    let line = |call: &PendingCall| {
        let arguments = shortened(&call.arguments, limit);
        match &call.question {
            Some(question) => format!("\n- {} {arguments} asks: {}", call.address, shortened(question, limit)),
            None => format!("\n- {} {arguments}", call.address),
        }
    };
    let mut lines: String = pause.pending.iter().take(PENDING_LINES).map(line).collect();
    if pause.pending.len() > PENDING_LINES {
        lines = format!("{lines}\n… and {} more", pause.pending.len() - PENDING_LINES);
    }
    lines
}

fn pending(pause: &PauseReport) -> Value {
    let room = STRUCTURED_LIMIT / pause.pending.len().max(1);
    let calls = pause.pending.iter().map(|call| {
        let mut value = json!({
            "call": call.seq,
            "address": call.address,
            "args": arguments_value(&call.arguments, room),
            "line": call.line,
        });
        if let (Some(question), Some(value)) = (&call.question, value.as_object_mut()) {
            value.insert("question".to_owned(), arguments_value(question, room));
        }
        if let (false, Some(value)) = (call.by.is_owner(), value.as_object_mut()) {
            value.insert("by".to_owned(), json!(call.by));
        }
        value
    });
    Value::Array(calls.collect())
}

/// Arguments as a value, or as a shortened text where they are too long to repeat.
fn arguments_value(arguments: &Rc<str>, room: usize) -> Value {
    if arguments.len() > room.min(TEXT_LIMIT) {
        return Value::String(shortened(arguments, 1_000));
    }
    serde_json::from_str(arguments).unwrap_or(Value::Null)
}

fn ended_result(status: ExecutionStatus, outcome: &Outcome, result_id: &str) -> String {
    let mut structured = Map::new();
    let logs: Vec<Value> = outcome.logs.iter().map(|line| json!({ "level": line.level, "text": line.text })).collect();
    let (blocks, emitted) = emitted_content(&outcome.emitted);
    let (text, is_error) = if let Some(error) = &outcome.error {
        structured.insert("status".to_owned(), json!("error"));
        let value = json!({ "code": error.code, "message": error.message, "line": error.line });
        structured.insert("error".to_owned(), value);
        let place = error.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        (format!("{}{place}", error.message), true)
    } else {
        structured.insert("status".to_owned(), json!("completed"));
        let result = outcome.result.as_deref().unwrap_or("null");
        if result.len() <= STRUCTURED_LIMIT {
            structured.insert("result".to_owned(), serde_json::from_str(result).unwrap_or(Value::Null));
        } else {
            structured.insert("resultPreview".to_owned(), json!(shortened(result, TEXT_LIMIT)));
            structured.insert("resultCharacters".to_owned(), json!(result.chars().count()));
        }
        let text = plain_text(result);
        if text.len() > TEXT_LIMIT {
            structured.insert("resultId".to_owned(), json!(result_id));
        }
        (text, false)
    };
    if status == ExecutionStatus::Cancelled {
        structured.insert("cancelled".to_owned(), json!(true));
    }
    if !emitted.is_empty() {
        structured.insert("emitted".to_owned(), Value::Array(emitted));
    }
    structured.insert("logs".to_owned(), Value::Array(logs));
    if outcome.logs_cut {
        structured.insert("logsCut".to_owned(), json!(true));
    }
    let mut content = vec![json!({ "type": "text", "text": cut_result(&text, result_id) })];
    content.extend(blocks);
    json!({ "content": content, "structuredContent": structured, "isError": is_error }).to_string()
}

/// The beginning of a text, and how to get the rest.
fn cut_result(text: &str, result_id: &str) -> String {
    let length = text.chars().count();
    if length <= TEXT_LIMIT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(TEXT_LIMIT).collect();
    let left = length - TEXT_LIMIT;
    format!(
        "{kept}\n… {left} of {length} characters were cut. Return less, or let a program read the rest: \
         (await tools.results.read({{ id: \"{result_id}\", offset: {TEXT_LIMIT} }})).data.text"
    )
}

/// Bytes of a result that is indented: deep nesting makes many times as much of it.
const INDENTED_BYTES: usize = 64 << 10;

/// The text of a result: a string as it is, everything else as JSON, indented where it is not large.
pub(crate) fn plain_text(result: &str) -> String {
    if result.len() > INDENTED_BYTES && !result.starts_with('"') {
        return result.to_owned();
    }
    match serde_json::from_str::<Value>(result) {
        Ok(Value::String(text)) => text,
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| result.to_owned()),
        Err(_) => result.to_owned(),
    }
}

pub(crate) fn cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= TEXT_LIMIT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(TEXT_LIMIT).collect();
    format!("{kept}\n… {} of {length} characters were cut. Return less, or a part.", length - TEXT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_list_is_short_enough_for_every_conversation() {
        assert!(code_mode_tools().to_string().len() < 4_000, "{}", code_mode_tools().to_string().len());
    }

    #[test]
    fn long_results_are_cut_in_text_and_in_structured_content() {
        let outcome = Outcome {
            result: Some(format!("\"{}\"", "ä".repeat(300_000))),
            error: None,
            emitted: Vec::new(),
            logs: Vec::new(),
            logs_cut: false,
        };
        let result: Value = serde_json::from_str(&ended_result(ExecutionStatus::Completed, &outcome, "r1")).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(
            text.ends_with(
                "270000 of 300000 characters were cut. Return less, or let a program read the rest: \
                 (await tools.results.read({ id: \"r1\", offset: 30000 })).data.text"
            ),
            "{}",
            &text[text.len() - 200..]
        );
        assert!(result["structuredContent"].get("result").is_none());
        assert_eq!(result["structuredContent"]["resultCharacters"], 300_002);
        assert_eq!(result["structuredContent"]["resultId"], "r1");
    }
}
