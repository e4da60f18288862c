//! YAML read as JSON.
//!
//! Events of the parser become JSON text at once, so that a large document never exists as a tree. Values follow the
//! core schema of YAML 1.2, in which timestamps, `yes` and `on` are strings; numbers keep their digits. What aliases
//! repeat counts towards the size limit.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ImportError, MAX_DOCUMENT_DEPTH};

/// The JSON text of the first document in `yaml`, which has to be a mapping; at most `limit` bytes.
pub(super) fn json_of(yaml: &str, limit: usize) -> Result<String, ImportError> {
    let mut writer =
        Writer { json: String::with_capacity(yaml.len()), open: Vec::new(), anchors: HashMap::new(), anchored: 0 };
    for event in Parser::new_from_str(yaml) {
        let (event, _) = event.map_err(|error| unreadable(error.to_string()))?;
        match event {
            Event::Scalar(text, style, anchor, tag) => writer.scalar(&text, style, anchor, tag.as_deref())?,
            Event::Alias(anchor) => writer.alias(anchor)?,
            Event::SequenceStart(anchor, _) => writer.start('[', anchor)?,
            Event::MappingStart(anchor, _) => writer.start('{', anchor)?,
            Event::SequenceEnd | Event::MappingEnd => writer.end()?,
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        let size = writer.json.len() + writer.anchored;
        if size > limit {
            return Err(ImportError::TooLarge { size, limit });
        }
    }
    if writer.json.starts_with('{') {
        Ok(writer.json)
    } else {
        Err(ImportError::NotOpenApi { reason: "it is not an object".to_owned() })
    }
}

fn unreadable(reason: impl Into<String>) -> ImportError {
    ImportError::Unreadable { reason: reason.into() }
}

/// A sequence or mapping that has not ended yet.
struct Open {
    /// Where its bracket is in the text.
    start: usize,
    anchor: usize,
    is_mapping: bool,
    members: usize,
    /// Of a mapping: whether a key was read and its value was not.
    awaits_value: bool,
    /// Where the value of a `<<` began.
    merges_from: Option<usize>,
}

struct Writer {
    json: String,
    open: Vec<Open>,
    /// The text of each anchored node that has ended.
    anchors: HashMap<usize, Rc<str>>,
    anchored: usize,
}

impl Writer {
    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>) -> Result<(), ImportError> {
        let is_plain = style == ScalarStyle::Plain;
        if self.awaits_key() {
            if is_plain && text == "<<" {
                self.start_merge();
                return Ok(());
            }
            let key = Value::from(text).to_string();
            self.anchor(anchor, &key);
            self.key(&key);
            return Ok(());
        }
        let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
        let is_text = match core {
            Some("str" | "binary" | "timestamp") => true,
            Some("int" | "float" | "bool" | "null") => false,
            _ => !is_plain,
        };
        let written = if is_text { None } else { plain_json(text) };
        let written = written.unwrap_or_else(|| Value::from(text).to_string());
        self.begin();
        self.json.push_str(&written);
        self.anchor(anchor, &written);
        self.ended()
    }

    fn alias(&mut self, anchor: usize) -> Result<(), ImportError> {
        let text = self.anchors.get(&anchor).ok_or_else(|| unreadable("an alias refers to what it is part of"))?;
        let text = Rc::clone(text);
        if self.awaits_key() {
            let key = if text.starts_with('"') { text.to_string() } else { Value::from(&*text).to_string() };
            self.key(&key);
            return Ok(());
        }
        self.begin();
        self.json.push_str(&text);
        self.ended()
    }

    fn start(&mut self, bracket: char, anchor: usize) -> Result<(), ImportError> {
        if self.awaits_key() {
            return Err(unreadable("a key is not a scalar"));
        }
        if self.open.len() >= MAX_DOCUMENT_DEPTH {
            return Err(ImportError::TooDeep { limit: MAX_DOCUMENT_DEPTH });
        }
        self.begin();
        self.open.push(Open {
            start: self.json.len(),
            anchor,
            is_mapping: bracket == '{',
            members: 0,
            awaits_value: false,
            merges_from: None,
        });
        self.json.push(bracket);
        Ok(())
    }

    fn end(&mut self) -> Result<(), ImportError> {
        let Some(ended) = self.open.pop() else { return Ok(()) };
        self.json.push(if ended.is_mapping { '}' } else { ']' });
        if ended.anchor != 0 {
            let text = self.json.get(ended.start..).unwrap_or_default().to_owned();
            self.anchor(ended.anchor, &text);
        }
        self.ended()
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_mapping && !open.awaits_value)
    }

    /// Before a value: the comma of a sequence.
    fn begin(&mut self) {
        if let Some(open) = self.open.last_mut()
            && !open.is_mapping
        {
            if open.members > 0 {
                self.json.push(',');
            }
            open.members += 1;
        }
    }

    fn key(&mut self, key: &str) {
        if let Some(open) = self.open.last_mut() {
            if open.members > 0 {
                self.json.push(',');
            }
            open.members += 1;
            open.awaits_value = true;
        }
        self.json.push_str(key);
        self.json.push(':');
    }

    /// A `<<`: what follows is merged into the mapping.
    fn start_merge(&mut self) {
        let from = self.json.len();
        if let Some(open) = self.open.last_mut() {
            open.awaits_value = true;
            open.merges_from = Some(from);
        }
    }

    /// After a value.
    fn ended(&mut self) -> Result<(), ImportError> {
        let Some(open) = self.open.last_mut().filter(|open| open.is_mapping) else { return Ok(()) };
        open.awaits_value = false;
        let Some(from) = open.merges_from.take() else { return Ok(()) };
        let merged = self.json.split_off(from);
        let broken = || unreadable("`<<` takes a mapping or a list of mappings");
        // The last of several members with the same key counts, and a mapping's own members count more than merged
        // ones: so merged ones stand first, and of several mappings the first stands last.
        let mappings: Vec<&RawValue> = if merged.starts_with('[') {
            serde_json::from_str(&merged).map_err(|_| broken())?
        } else {
            vec![serde_json::from_str(&merged).map_err(|_| broken())?]
        };
        let mut members = String::new();
        for mapping in mappings.iter().rev() {
            let inner = mapping.get().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(broken)?;
            if !inner.is_empty() {
                members.push_str(inner);
                members.push(',');
            }
        }
        if !members.is_empty() {
            if open.members == 0 {
                members.pop();
            }
            open.members += 1;
            self.json.insert_str(open.start + 1, &members);
        }
        Ok(())
    }

    fn anchor(&mut self, anchor: usize, text: &str) {
        if anchor != 0 {
            self.anchored += text.len();
            self.anchors.insert(anchor, text.into());
        }
    }
}

/// A plain scalar as JSON (YAML 1.2.2, 10.3.2); `None` when it is a string.
fn plain_json(text: &str) -> Option<String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Some("null".to_owned()),
        "true" | "True" | "TRUE" => Some("true".to_owned()),
        "false" | "False" | "FALSE" => Some("false".to_owned()),
        _ => number_json(text),
    }
}

/// A number with its digits; what JSON cannot write (`.inf`, leading zeros) stays a string.
fn number_json(text: &str) -> Option<String> {
    let radix = |prefix: &str, radix: u32| {
        let digits = text.strip_prefix(prefix)?;
        u128::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+')).map(|number| number.to_string())
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(number);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
    if !has_digits || has_leading_zero || !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return None;
    }
    let mut number = format!("{sign}{}", if whole.is_empty() { "0" } else { whole });
    if let Some(fraction) = fraction {
        number = format!("{number}.{}", if fraction.is_empty() { "0" } else { fraction });
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if digits.is_empty() || !all_digits(digits) {
            return None;
        }
        number = format!("{number}e{exponent}");
    }
    Some(number)
}
