//! Starts and ends Dynamic Workers, and turns what they say into plain values. Believes nothing.

use std::borrow::Cow;
use std::fmt::Write;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use worker::Env;

use crate::engine::{Boot, Delivery, Finish, IssuedCall, LogLine, ProgramError, ProgramRow};
use crate::json::{canonical_json, json_depth_within, without_lone_surrogates};
use crate::protocol::text::bounded;

/// The version of the prelude that new executions start with.
pub(crate) const PRELUDE_VERSION: u32 = 1;
const PRELUDE: &str = include_str!("prelude.js");
/// Pinned: a program must behave tomorrow as it did when it stopped. The CPU limit ends what fuel does not count, such as
/// a regular expression; a local runtime does not enforce it.
const CODE: &str = r#"{"compatibilityDate":"2026-10-01","compatibilityFlags":["disallow_eval_during_startup","disallow_importable_env","no_nodejs_compat","no_nodejs_compat_v2","disable_weak_ref"],"limits":{"cpuMs":30000}}"#;
/// Characters of an address that a program may write.
const ADDRESS_LIMIT: usize = 256;
/// Depth of nesting of a call's arguments and of a result.
const DEPTH_LIMIT: usize = 120;
/// Bytes of a program's result.
const RESULT_LIMIT: usize = 32 << 20;
/// Bytes of everything that a program emits.
const EMITTED_LIMIT: usize = 4 << 20;
/// Bytes of everything that a program logs.
const LOGS_LIMIT: usize = 256 << 10;
/// Characters of an error's message.
const MESSAGE_LIMIT: usize = 8_000;

#[wasm_bindgen(module = "/src/shell/sandbox.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    #[allow(clippy::too_many_arguments, reason = "the shape of the JavaScript function")]
    fn start_sandbox(
        loader: &JsValue,
        id: &str,
        code: &str,
        prelude: &str,
        program: &str,
        boot: &str,
        turn: &JsValue,
        lost: &JsValue,
    ) -> Result<SandboxHandle, JsValue>;

    #[derive(Clone, Debug)]
    type SandboxHandle;

    #[wasm_bindgen(method, catch)]
    fn drop(this: &SandboxHandle) -> Result<(), JsValue>;
}

/// A running sandbox.
pub(crate) struct Sandbox {
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// Turns heard so far.
    pub(crate) turns: u32,
    handle: Option<SandboxHandle>,
    answer: Option<js_sys::Function>,
    _turn: Closure<dyn FnMut(String, js_sys::Function)>,
    _lost: Closure<dyn FnMut(String)>,
}

/// The Worker Loader binding; `None` where the account has none.
pub(crate) fn loader(env: &Env) -> Option<JsValue> {
    js_sys::Reflect::get(env.as_ref(), &"LOADER".into()).ok().filter(|value| !value.is_undefined())
}

/// Whether this release still has the prelude of a version.
pub(crate) fn has_prelude(version: u32) -> bool {
    version == PRELUDE_VERSION
}

impl Sandbox {
    /// Starts a sandbox. `on_turn` gets the text of each turn and a function that answers it,
    /// `on_lost` the reason when it ends by itself.
    pub(crate) fn start(
        loader: &JsValue,
        id: &str,
        program: &ProgramRow,
        boot: &Boot,
        on_turn: impl Fn(String, js_sys::Function) + 'static,
        on_lost: impl Fn(String) + 'static,
    ) -> Result<Self, String> {
        let turn = Closure::<dyn FnMut(String, js_sys::Function)>::own_assert_unwind_safe(on_turn);
        let lost = Closure::<dyn FnMut(String)>::own_assert_unwind_safe(on_lost);
        let handle = start_sandbox(
            loader,
            id,
            CODE,
            PRELUDE,
            &program.compiled,
            &boot_text(boot),
            turn.as_ref().unchecked_ref(),
            lost.as_ref().unchecked_ref(),
        )
        .map_err(|error| format!("{error:?}"))?;
        Ok(Self { attempt: boot.attempt, turns: 0, handle: Some(handle), answer: None, _turn: turn, _lost: lost })
    }

    /// Keeps what answers the present turn.
    pub(crate) fn expect_answer(&mut self, answer: js_sys::Function) {
        self.answer = Some(answer);
    }

    /// Answers the present turn.
    pub(crate) fn answer(&mut self, deliveries: &[Delivery]) {
        self.reply(&deliveries_text(deliveries));
    }

    /// Ends it. Nothing that it says later is heard.
    pub(crate) fn end(&mut self) {
        self.reply("");
        if let Some(handle) = self.handle.take() {
            // An isolate that is gone already cannot be ended again.
            let _ = handle.drop();
        }
    }

    fn reply(&mut self, text: &str) {
        if let Some(answer) = self.answer.take() {
            // A promise's resolve function does not throw.
            let _ = answer.call1(&JsValue::UNDEFINED, &text.into());
        }
    }
}

fn boot_text(boot: &Boot) -> String {
    format!(
        r#"{{"startedAt":{},"seed":{},"settled":{}}}"#,
        boot.started_at,
        Value::String(boot.seed.clone()),
        deliveries_text(&boot.settled)
    )
}

fn deliveries_text(deliveries: &[Delivery]) -> String {
    let mut text = String::from("[");
    for delivery in deliveries {
        if text.len() > 1 {
            text.push(',');
        }
        let result = serde_json::to_string(&*delivery.result).unwrap_or_else(|_| "\"null\"".to_owned());
        // Writing to a String does not fail.
        let _ = write!(text, "[{},{},{result}]", delivery.seq, delivery.at);
    }
    text.push(']');
    text
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnText {
    calls: Vec<CallText>,
    #[serde(default)]
    finish: Option<FinishText>,
    #[serde(default)]
    logs: Vec<LogText>,
    #[serde(default)]
    logs_cut: bool,
    #[serde(default)]
    emitted: Vec<String>,
}

#[derive(Deserialize)]
struct CallText {
    seq: u32,
    address: String,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    fault: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

#[derive(Deserialize)]
struct FinishText {
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    error: Option<ErrorText>,
}

#[derive(Deserialize)]
struct ErrorText {
    code: String,
    message: String,
    #[serde(default)]
    line: Option<u32>,
}

#[derive(Deserialize)]
struct LogText {
    level: String,
    text: String,
}

/// Reads a turn; `lines` maps compiled lines to the program's.
pub(crate) fn parse_turn(text: &str, lines: &[u32]) -> Result<(Vec<IssuedCall>, Option<Finish>), String> {
    if !json_depth_within(text, DEPTH_LIMIT) {
        return Err("the sandbox sent a message that is nested too deeply".to_owned());
    }
    let turn: TurnText = serde_json::from_str(&without_lone_surrogates(text))
        .map_err(|error| format!("the sandbox sent a broken message: {error}"))?;
    let source_line = |line: Option<u32>| source_line(line, lines);
    let calls = turn
        .calls
        .into_iter()
        .map(|call| IssuedCall {
            seq: call.seq,
            address: call.address.chars().take(ADDRESS_LIMIT).collect(),
            arguments: arguments_of(call.arguments, call.fault),
            line: source_line(call.line),
        })
        .collect();
    let finish = turn.finish.map(|finish| Finish {
        result: match finish.error {
            Some(error) => Err(ProgramError {
                code: bounded(&error.code, 64),
                message: bounded(&rewrite_lines(&error.message, &source_line), MESSAGE_LIMIT),
                line: source_line(error.line),
            }),
            None => match finish.result.map(sound_json) {
                None => Ok(None),
                Some(Some(text)) if text.len() <= RESULT_LIMIT => Ok(Some(text)),
                Some(_) => Err(ProgramError {
                    code: "result_too_large".to_owned(),
                    message: format!(
                        "What the program returned is no JSON of at most {RESULT_LIMIT} bytes. Return less."
                    ),
                    line: None,
                }),
            },
        },
        emitted: within(turn.emitted.into_iter().filter_map(sound_json), EMITTED_LIMIT, String::len),
        logs: within(
            turn.logs
                .into_iter()
                .map(|line| LogLine { level: bounded(&line.level, 16), text: rewrite_lines(&line.text, &source_line) }),
            LOGS_LIMIT,
            |line| line.text.len(),
        ),
        logs_cut: turn.logs_cut,
    });
    Ok((calls, finish))
}

/// Why a sandbox ended, and the program's line if it could not be loaded at all.
pub(crate) fn load_failure<'r>(reason: &'r str, lines: &[u32]) -> (&'r str, Option<u32>) {
    const UNCAUGHT: &str = "Uncaught ";
    let start = reason.find("Uncaught SyntaxError: ").map(|at| at + UNCAUGHT.len());
    let Some(error) = start.and_then(|start| reason.get(start..)) else { return (reason, None) };
    let (message, place) = error.split_once('\n').unwrap_or((error, ""));
    let number = place.split_once("program.js:").and_then(|(_, place)| place.split(':').next()?.parse().ok());
    (message, source_line(number, lines))
}

/// The program's line for a compiled one.
fn source_line(line: Option<u32>, lines: &[u32]) -> Option<u32> {
    let index = usize::try_from(line?).ok()?.checked_sub(1)?;
    lines.get(index).copied().filter(|line| *line > 0)
}

fn arguments_of(arguments: Option<String>, fault: Option<String>) -> Result<Rc<str>, String> {
    if let Some(fault) = fault {
        return Err(fault);
    }
    let text = arguments.unwrap_or_else(|| "{}".to_owned());
    let text = without_lone_surrogates(&text);
    if !json_depth_within(&text, DEPTH_LIMIT) {
        return Err("The arguments are nested too deeply.".to_owned());
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value @ Value::Object(_)) => Ok(canonical_json(&value).into()),
        Ok(_) => Err("The arguments of a call have to be one object.".to_owned()),
        Err(_) => Err("The arguments of a call have to be JSON.".to_owned()),
    }
}

/// JSON text that can be read, with whole characters.
fn sound_json(text: String) -> Option<String> {
    let text = match without_lone_surrogates(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    let sound = json_depth_within(&text, DEPTH_LIMIT) && serde_json::from_str::<Value>(&text).is_ok();
    sound.then_some(text)
}

/// Items as long as they fit together: the sandbox has limits of its own, but it is not believed.
fn within<T>(items: impl Iterator<Item = T>, limit: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut used = 0;
    items
        .take_while(|item| {
            used += size(item);
            used <= limit
        })
        .collect()
}

/// The prelude knows compiled lines only; people know the program's.
fn rewrite_lines(text: &str, source_line: &impl Fn(Option<u32>) -> Option<u32>) -> String {
    const MARK: &str = "(at compiled line ";
    let mut pieces = text.split(MARK);
    let mut rewritten = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(')') {
            Some((number, rest)) => match source_line(number.parse().ok()) {
                Some(line) => rewritten = format!("{rewritten}(line {line}){rest}"),
                None => rewritten = format!("{}{rest}", rewritten.trim_end()),
            },
            None => rewritten.push_str(piece),
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_turns_are_errors_not_panics() {
        for text in
            ["", "null", "[]", "{\"calls\":1}", "{\"calls\":[{\"seq\":-1,\"address\":\"a\"}]}", &"[".repeat(500)]
        {
            assert!(parse_turn(text, &[]).is_err(), "{text:.40}");
        }
    }

    #[test]
    fn arguments_become_canonical_or_a_reason() {
        let arguments = |text: &str| {
            let turn = format!(
                r#"{{"calls":[{{"seq":0,"address":"a.b","arguments":{},"line":2}}]}}"#,
                Value::String(text.to_owned())
            );
            parse_turn(&turn, &[0, 7]).unwrap().0.remove(0)
        };
        let call = arguments(r#"{"b":1, "a":10000000000000000001}"#);
        assert_eq!(call.arguments.as_deref(), Ok(r#"{"a":10000000000000000001,"b":1}"#));
        assert_eq!(call.line, Some(7));
        for text in ["[]", "1", "\"x\"", "{", "null"] {
            assert!(arguments(text).arguments.is_err(), "{text}");
        }
    }

    #[test]
    fn half_characters_from_a_program_are_no_broken_message() {
        let turn = r#"{"calls":[{"seq":0,"address":"a.b\ud83d","arguments":"{\"a\":\"\\ud83d\"}"}],"finish":{"result":"\"x\\ud83d\""},"logs":[{"level":"log","text":"\ud83d"}]}"#;
        let (calls, finish) = parse_turn(turn, &[]).unwrap();
        assert_eq!(calls[0].arguments.as_deref(), Ok("{\"a\":\"\u{fffd}\"}"));
        let finish = finish.unwrap();
        assert_eq!(finish.result, Ok(Some("\"x\\ufffd\"".to_owned())));
        assert_eq!(finish.logs[0].text, "\u{fffd}");
    }

    #[test]
    fn what_a_sandbox_says_is_bounded() {
        let logs: Vec<Value> =
            (0..10).map(|_| serde_json::json!({ "level": "log", "text": "x".repeat(100_000) })).collect();
        let turn = serde_json::json!({ "calls": [], "finish": {}, "logs": logs }).to_string();
        assert_eq!(parse_turn(&turn, &[]).unwrap().1.unwrap().logs.len(), 2);
    }

    /// A change of either changes how old programs replay: then a new version is needed, and the old one has to stay
    /// for one approval window.
    #[test]
    fn prelude_version_1_is_unchanged() {
        let hash = crate::json::sha256_hex(format!("{PRELUDE}{CODE}").as_bytes());
        assert_eq!(
            (PRELUDE_VERSION, hash.as_str()),
            (1, "b4620879ec2a0f7279e28818caf33b72404e07d9b08ce1841028c872f493354b")
        );
    }

    #[test]
    fn a_program_that_cannot_be_loaded_has_a_line() {
        let reason = "Failed to start Worker:\nUncaught SyntaxError: A class may only have one constructor\n  at program.js:3:26";
        let expected = ("SyntaxError: A class may only have one constructor", Some(9));
        assert_eq!(load_failure(reason, &[0, 0, 9]), expected);
        assert_eq!(load_failure(reason, &[]), (expected.0, None));
        assert_eq!(load_failure("Uncaught SyntaxError: x", &[7]), ("SyntaxError: x", None));
        assert_eq!(load_failure("it ended", &[7]), ("it ended", None));
    }

    #[test]
    fn lines_are_those_of_the_program() {
        let lines = |line: Option<u32>| line.map(|line| line + 10);
        assert_eq!(rewrite_lines("Error: x (at compiled line 3) y", &lines), "Error: x (line 13) y");
        assert_eq!(rewrite_lines("no mark", &lines), "no mark");
        assert_eq!(rewrite_lines("x (at compiled line 3)", &|_| None), "x");
        assert_eq!(rewrite_lines("a (at compiled line 1) b (at compiled line 2)", &lines), "a (line 11) b (line 12)");
        assert_eq!(rewrite_lines("(at compiled line 3", &lines), "3");
    }
}
