//! Starts and ends Dynamic Workers, and turns what they say into plain values. Believes nothing.

use std::borrow::Cow;
use std::fmt::Write;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::*;
use worker::Env;

use crate::engine::{Boot, Delivery, Finish, IssuedCall, LogLine, Output, ProgramError, ProgramRow, Turn};
use crate::json::{canonical_json, json_depth_within, without_lone_surrogates};
use crate::protocol::text::bounded;

/// The version of the prelude that new executions start with.
pub(crate) const PRELUDE_VERSION: u32 = 2;
/// Every prelude that an execution which is not over may have started with. An older one may go one approval window after
/// the release that replaced it; an execution that still needs it then ends as `program_expired`.
const PRELUDES: [(u32, &str); 2] = [(1, include_str!("prelude-1.js")), (2, include_str!("prelude-2.js"))];
/// Pinned: a program must behave tomorrow as it did when it stopped. The CPU limit ends what fuel does not count, such as
/// a regular expression; a local runtime does not enforce it.
const CODE: &str = r#"{"compatibilityDate":"2026-10-01","compatibilityFlags":["disallow_eval_during_startup","disallow_importable_env","no_nodejs_compat","no_nodejs_compat_v2","disable_weak_ref"],"limits":{"cpuMs":30000}}"#;
/// Characters of an address that a program may write.
const ADDRESS_LIMIT: usize = 256;
/// Depth of nesting of a call's arguments and of a result.
const DEPTH_LIMIT: usize = 120;
/// Bytes of a program's result.
const RESULT_LIMIT: usize = 16 << 20;
/// Warnings of one program.
const WARNINGS_LIMIT: usize = 50;
/// What stands in the journal for the address of a timer, which has none.
const SLEEP: &str = "sleep";
/// Characters of an error's message.
const MESSAGE_LIMIT: usize = 8_000;

#[wasm_bindgen(module = "/src/shell/sandbox.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    fn start_sandbox(
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

/// Whether there is a Worker Loader binding: an account may have none.
pub(crate) fn has_loader(env: &Env) -> bool {
    js_sys::Reflect::get(env.as_ref(), &"LOADER".into()).is_ok_and(|value| !value.is_undefined())
}

/// Whether this release still has the prelude of a version.
pub(crate) fn has_prelude(version: u32) -> bool {
    prelude(version).is_some()
}

fn prelude(version: u32) -> Option<&'static str> {
    PRELUDES.iter().find(|(known, _)| *known == version).map(|(_, text)| *text)
}

impl Sandbox {
    /// Starts a sandbox. `on_turn` gets the text of each turn and a function that answers it,
    /// `on_lost` the reason when it ends by itself.
    pub(crate) fn start(
        (program, prelude_version): (&ProgramRow, u32),
        boot: &Boot,
        on_turn: impl Fn(String, js_sys::Function) + 'static,
        on_lost: impl Fn(String) + 'static,
    ) -> Result<Self, String> {
        let turn = Closure::<dyn FnMut(String, js_sys::Function)>::own_assert_unwind_safe(on_turn);
        let lost = Closure::<dyn FnMut(String)>::own_assert_unwind_safe(on_lost);
        let handle = start_sandbox(
            CODE,
            prelude(prelude_version).ok_or("this release has no such prelude")?,
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
        r#"{{"startedAt":{},"seed":{},"longestTimer":{},"settled":{}}}"#,
        boot.started_at,
        Value::String(boot.seed.clone()),
        boot.longest_timer,
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
    cleared: Vec<u32>,
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
    #[serde(default)]
    address: String,
    /// Of a timer: its length in milliseconds.
    #[serde(default)]
    sleep: Option<u64>,
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
    #[serde(default)]
    warnings: Vec<LogText>,
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

/// Reads turn `number` of a sandbox; `lines` maps compiled lines to the program's, `prelude` is the version that speaks.
pub(crate) fn parse_turn(
    text: &str,
    lines: &[u32],
    (attempt, number): (u32, u32),
    prelude: u32,
) -> Result<Turn, String> {
    if !json_depth_within(text, DEPTH_LIMIT) {
        return Err("the sandbox sent a message that is nested too deeply".to_owned());
    }
    let turn: TurnText = crate::json::from_str(&without_lone_surrogates(text))
        .map_err(|error| format!("the sandbox sent a broken message: {error}"))?;
    let source_line = |line: Option<u32>| source_line(line, lines);
    let calls = turn
        .calls
        .into_iter()
        .map(|call| {
            let (address, arguments) = match call.sleep {
                Some(length) => (SLEEP.to_owned(), Ok(format!(r#"{{"ms":{length}}}"#).into())),
                None => (call.address.chars().take(ADDRESS_LIMIT).collect(), arguments_of(call.arguments, call.fault)),
            };
            IssuedCall { seq: call.seq, address, arguments, line: source_line(call.line), timer: call.sleep }
        })
        .collect();
    let log_line =
        |line: LogText| LogLine { level: bounded(&line.level, 16), text: rewrite_lines(&line.text, &source_line) };
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
                Some(Some(text)) => Err(refused_result(
                    "result_too_large",
                    format!(
                        "The program returned {} bytes; {RESULT_LIMIT} are the limit. Return less: a summary, or a part.",
                        text.len()
                    ),
                )),
                Some(None) => Err(refused_result(
                    "result_not_json",
                    "What the program returned is no JSON, or is nested too deeply.".to_owned(),
                )),
            },
        },
        warnings: finish.warnings.into_iter().take(WARNINGS_LIMIT).map(log_line).collect(),
    });
    let output = Output {
        emitted: turn.emitted.into_iter().filter_map(sound_json).collect(),
        logs: turn.logs.into_iter().map(log_line).collect(),
        logs_cut: turn.logs_cut,
    };
    // Version 1 told everything with the end, as often as it told the end.
    let output_is_whole = prelude == 1 && finish.is_some();
    Ok(Turn { attempt, number, calls, cleared: turn.cleared, output, output_is_whole, finish })
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

fn refused_result(code: &str, message: String) -> ProgramError {
    ProgramError { code: code.to_owned(), message, line: None }
}

/// JSON text that can be read, with whole characters.
fn sound_json(text: String) -> Option<String> {
    let text = match without_lone_surrogates(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    let sound = json_depth_within(&text, DEPTH_LIMIT) && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
    sound.then_some(text)
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

    fn turn_of(text: &str, lines: &[u32]) -> Result<Turn, String> {
        parse_turn(text, lines, (1, 0), PRELUDE_VERSION)
    }

    #[test]
    fn hostile_turns_are_errors_not_panics() {
        for text in
            ["", "null", "[]", "{\"calls\":1}", "{\"calls\":[{\"seq\":-1,\"address\":\"a\"}]}", &"[".repeat(500)]
        {
            assert!(turn_of(text, &[]).is_err(), "{text:.40}");
        }
    }

    #[test]
    fn arguments_become_canonical_or_a_reason() {
        let arguments = |text: &str| {
            let turn = format!(
                r#"{{"calls":[{{"seq":0,"address":"a.b","arguments":{},"line":2}}]}}"#,
                Value::String(text.to_owned())
            );
            turn_of(&turn, &[0, 7]).unwrap().calls.remove(0)
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
        let turn = turn_of(turn, &[]).unwrap();
        assert_eq!(turn.calls[0].arguments.as_deref(), Ok("{\"a\":\"\u{fffd}\"}"));
        assert_eq!(turn.finish.unwrap().result, Ok(Some("\"x\\ufffd\"".to_owned())));
        assert_eq!(turn.output.logs[0].text, "\u{fffd}");
    }

    #[test]
    fn what_a_sandbox_says_is_bounded() {
        let logs: Vec<Value> =
            (0..10).map(|_| serde_json::json!({ "level": "log", "text": "x".repeat(100_000) })).collect();
        let turn = serde_json::json!({ "calls": [], "finish": {}, "logs": logs }).to_string();
        let mut output = Output::default();
        output.add(turn_of(&turn, &[]).unwrap().output);
        assert_eq!((output.logs.len(), output.logs_cut), (2, true));
    }

    #[test]
    fn timers_are_calls_without_a_tool() {
        let text = r#"{"calls":[{"seq":0,"sleep":250,"line":1}],"cleared":[4]}"#;
        let turn = turn_of(text, &[3]).unwrap();
        let [call] = turn.calls.as_slice() else { panic!("one call") };
        assert_eq!((call.timer, call.line, call.arguments.as_deref()), (Some(250), Some(3), Ok(r#"{"ms":250}"#)));
        assert_eq!(turn.cleared, [4]);
    }

    #[test]
    fn version_1_tells_all_that_it_said_with_the_end() {
        let text =
            r#"{"calls":[],"finish":{"result":"1"},"logs":[{"level":"log","text":"a"}],"logsCut":false,"emitted":[]}"#;
        assert!(parse_turn(text, &[], (1, 0), 1).unwrap().output_is_whole);
        assert!(!parse_turn(text, &[], (1, 0), 2).unwrap().output_is_whole);
    }

    /// A change of either changes how old programs replay: then a new version is needed, and the old one has to stay
    /// for one approval window.
    #[test]
    fn preludes_are_unchanged() {
        let hashes =
            PRELUDES.map(|(version, text)| (version, crate::json::sha256_hex(format!("{text}{CODE}").as_bytes())));
        let known = [
            (1, "b4620879ec2a0f7279e28818caf33b72404e07d9b08ce1841028c872f493354b"),
            (2, "edf9e9c717a3af41dbc4013e7bc4de9108fb76d478367ec6dbbc846abe041ce5"),
        ];
        assert_eq!(hashes, known.map(|(version, hash)| (version, hash.to_owned())));
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
