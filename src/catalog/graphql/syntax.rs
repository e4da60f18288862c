//! GraphQL text (specification, October 2021, sections 2.1 and 2.4 to 2.9): selections and literal values, read and written.
//!
//! Whatever reaches an endpoint is written here from what was read, never copied: a caller's text can only be a selection.
//! Operations, named fragments, variables, directives and block strings are refused.

use serde_json::{Map, Number, Value};

/// Bytes of a text.
const TEXT_BYTES: usize = 16 << 10;
/// How deep selections and values nest.
const DEPTH: usize = 24;

/// What is selected of one object.
pub(super) type SelectionSet = Vec<Selection>;

/// One part of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// A field.
    Field {
        /// What it is called in the answer, where that is not its name.
        alias: Option<String>,
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Vec<(String, Literal)>,
        /// What is selected of it; empty for a scalar.
        selection: SelectionSet,
    },
    /// `... on Type { … }`, or without a type.
    Fragment {
        /// The type.
        on: Option<String>,
        /// What is selected of objects of that type.
        selection: SelectionSet,
    },
}

/// A literal value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Null,
    Boolean(bool),
    /// As it was written: digits are kept.
    Number(String),
    Text(String),
    Enum(String),
    List(Vec<Literal>),
    Object(Vec<(String, Literal)>),
}

/// Why a text is no selection, or no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text is too long.
    #[error("has more than {TEXT_BYTES} bytes")]
    TooLong,
    /// It nests too deeply.
    #[error("nests deeper than {DEPTH} levels")]
    TooDeep,
    /// It ends too early.
    #[error("ends where {wanted} was expected")]
    End {
        /// What was expected.
        wanted: &'static str,
    },
    /// Something stands where it cannot be.
    #[error("has {found:?} at character {at}, where {wanted} was expected")]
    Unexpected {
        /// What was found.
        found: String,
        /// The number of the character, from 1 on.
        at: usize,
        /// What was expected.
        wanted: &'static str,
    },
    /// Something that a selection here cannot have.
    #[error("has {what} at character {at}, which cannot be used here; arguments have to be literal values")]
    Refused {
        /// What it is.
        what: &'static str,
        /// The number of the character, from 1 on.
        at: usize,
    },
}

/// Whether a text is a name (section 2.1.9) of a sensible length.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 256
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reads a selection, with or without the braces around it. At least one field is in it.
pub(super) fn parse_selection(text: &str) -> Result<SelectionSet, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let selection = if parser.peek() == Some('{') { parser.selection_set(0)? } else { parser.selections(0)? };
    match parser.peek() {
        None => Ok(selection),
        Some(_) => Err(parser.unexpected("the end of the selection")),
    }
}

/// Reads a literal value, such as the default of an argument.
pub(super) fn parse_literal(text: &str) -> Result<Literal, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let value = parser.value(0)?;
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("the end of the value")),
    }
}

/// Writes a selection with its braces, on one line.
pub(super) fn write_selection(selection: &SelectionSet, text: &mut String) {
    text.push('{');
    for part in selection {
        text.push(' ');
        match part {
            Selection::Field { alias, name, arguments, selection } => {
                if let Some(alias) = alias {
                    text.push_str(alias);
                    text.push_str(": ");
                }
                text.push_str(name);
                if !arguments.is_empty() {
                    text.push('(');
                    write_members(arguments, text);
                    text.push(')');
                }
                if !selection.is_empty() {
                    text.push(' ');
                    write_selection(selection, text);
                }
            }
            Selection::Fragment { on, selection } => {
                text.push_str("... ");
                if let Some(on) = on {
                    text.push_str("on ");
                    text.push_str(on);
                    text.push(' ');
                }
                write_selection(selection, text);
            }
        }
    }
    text.push_str(" }");
}

fn write_members(members: &[(String, Literal)], text: &mut String) {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(name);
        text.push_str(": ");
        value.write(text);
    }
}

impl Literal {
    fn write(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Boolean(flag) => text.push_str(if *flag { "true" } else { "false" }),
            Self::Number(written) | Self::Enum(written) => text.push_str(written),
            // Every escape of JSON is one of GraphQL.
            Self::Text(value) => text.push_str(&Value::from(value.as_str()).to_string()),
            Self::List(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        text.push_str(", ");
                    }
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                write_members(members, text);
                text.push('}');
            }
        }
    }

    /// The value as a variable would have it.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(flag) => Value::Bool(*flag),
            Self::Number(text) => {
                serde_json::from_str::<Number>(text).map_or_else(|_| Value::from(text.as_str()), Value::Number)
            }
            Self::Text(text) | Self::Enum(text) => Value::from(text.as_str()),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Object(members) => {
                Value::Object(members.iter().map(|(name, value)| (name.clone(), value.json())).collect::<Map<_, _>>())
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self, SyntaxError> {
        if text.len() > TEXT_BYTES {
            return Err(SyntaxError::TooLong);
        }
        let mut parser = Self { text, rest: text };
        parser.skip_ignored();
        Ok(parser)
    }

    /// Spaces, commas, line breaks and comments mean nothing (section 2.1.7).
    fn skip_ignored(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', ',', '\u{feff}']);
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.trim_start_matches(|character| !matches!(character, '\n' | '\r'));
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn at(&self) -> usize {
        let before = self.text.len() - self.rest.len();
        self.text.get(..before).map_or(0, |before| before.chars().count()) + 1
    }

    fn unexpected(&self, wanted: &'static str) -> SyntaxError {
        let at = self.at();
        let refused = |what| SyntaxError::Refused { what, at };
        match self.peek() {
            None => SyntaxError::End { wanted },
            Some('$') => refused("a variable"),
            Some('@') => refused("a directive"),
            Some(_) => SyntaxError::Unexpected { found: self.rest.chars().take(12).collect(), at, wanted },
        }
    }

    /// Takes a sign, and what means nothing after it.
    fn take(&mut self, sign: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest;
        self.skip_ignored();
        true
    }

    fn expect(&mut self, sign: &str, wanted: &'static str) -> Result<(), SyntaxError> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    fn name(&mut self, wanted: &'static str) -> Result<String, SyntaxError> {
        let end = self.rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if !is_name(name) {
            return Err(self.unexpected(wanted));
        }
        self.rest = rest;
        self.skip_ignored();
        Ok(name.to_owned())
    }

    fn selection_set(&mut self, depth: usize) -> Result<SelectionSet, SyntaxError> {
        self.expect("{", "{")?;
        let selection = self.selections(depth)?;
        self.expect("}", "a field or }")?;
        Ok(selection)
    }

    /// One or more, up to what is none.
    fn selections(&mut self, depth: usize) -> Result<SelectionSet, SyntaxError> {
        if depth >= DEPTH {
            return Err(SyntaxError::TooDeep);
        }
        let mut selection = vec![self.selection(depth)?];
        while !matches!(self.peek(), None | Some('}')) {
            selection.push(self.selection(depth)?);
        }
        Ok(selection)
    }

    fn selection(&mut self, depth: usize) -> Result<Selection, SyntaxError> {
        let began = self.at();
        if self.take("...") {
            let mut on = None;
            if self.peek() != Some('{') {
                if self.name("on, or {")? != "on" {
                    return Err(SyntaxError::Refused { what: "a named fragment", at: began });
                }
                on = Some(self.name("the name of a type")?);
            }
            return Ok(Selection::Fragment { on, selection: self.selection_set(depth + 1)? });
        }
        let mut name = self.name("a field")?;
        let mut alias = None;
        if self.take(":") {
            alias = Some(name);
            name = self.name("a field")?;
        }
        let arguments = if self.take("(") { self.members(")", depth + 1)? } else { Vec::new() };
        let selection = if self.peek() == Some('{') { self.selection_set(depth + 1)? } else { Vec::new() };
        Ok(Selection::Field { alias, name, arguments, selection })
    }

    fn members(&mut self, end: &'static str, depth: usize) -> Result<Vec<(String, Literal)>, SyntaxError> {
        let mut members = Vec::new();
        while !self.take(end) {
            let name = self.name("a name")?;
            self.expect(":", ":")?;
            members.push((name, self.value(depth)?));
        }
        Ok(members)
    }

    fn value(&mut self, depth: usize) -> Result<Literal, SyntaxError> {
        if depth >= DEPTH {
            return Err(SyntaxError::TooDeep);
        }
        match self.peek() {
            Some('[') => {
                self.take("[");
                let mut items = Vec::new();
                while !self.take("]") {
                    items.push(self.value(depth + 1)?);
                }
                Ok(Literal::List(items))
            }
            Some('{') => {
                self.take("{");
                Ok(Literal::Object(self.members("}", depth + 1)?))
            }
            Some('"') => self.text_value(),
            Some('-' | '0'..='9') => self.number(),
            Some(_) | None => {
                let name = self.name("a value")?;
                Ok(match name.as_str() {
                    "null" => Literal::Null,
                    "true" => Literal::Boolean(true),
                    "false" => Literal::Boolean(false),
                    _ => Literal::Enum(name),
                })
            }
        }
    }

    /// Numbers of GraphQL are written as those of JSON are.
    fn number(&mut self) -> Result<Literal, SyntaxError> {
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '+' | '.' | '_');
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        if serde_json::from_str::<Number>(number).is_err() {
            return Err(self.unexpected("a number"));
        }
        self.rest = rest;
        self.skip_ignored();
        Ok(Literal::Number(number.to_owned()))
    }

    fn text_value(&mut self) -> Result<Literal, SyntaxError> {
        if self.rest.starts_with("\"\"\"") {
            return Err(SyntaxError::Refused { what: "a block string", at: self.at() });
        }
        let mut end = None;
        let mut escaped = false;
        for (at, character) in self.rest.char_indices().skip(1) {
            match character {
                '\n' | '\r' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                _ => {}
            }
        }
        let (written, rest) = self.rest.split_at(end.ok_or_else(|| self.unexpected("a string that ends"))?);
        // Tabs may stand in strings of GraphQL, and `\u{…}` is an escape of its alone, which hardly anybody writes.
        let text = serde_json::from_str(&written.replace('\t', "\\t")).map_err(|_| self.unexpected("a string"))?;
        self.rest = rest;
        self.skip_ignored();
        Ok(Literal::Text(text))
    }
}
