//! Splits a program into tokens without recursion, before the recursive parser sees it.
//!
//! It follows the parser's own lexer. Where only the parser could tell a division from a regular
//! expression, it refuses the program: a wrong guess would hide the rest of the text from the
//! limits in `nesting`.

/// Whether a token ends an operand, so that an operator may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Yes,
    No,
    /// Only the parser knows.
    Maybe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or a keyword.
    Word,
    /// `#name`
    Private,
    Number,
    /// A string literal.
    Text,
    RegExp,
    /// A template literal without substitutions.
    Template,
    /// From the backtick to the first `${`.
    TemplateHead,
    /// From `}` to the next `${`.
    TemplateMiddle,
    /// From `}` to the backtick.
    TemplateTail,
    /// `(`, `[` or `{`
    Open,
    /// `)`, `]` or `}`
    Close,
    Punctuator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s str,
    /// Byte at which it starts.
    pub(super) start: usize,
    /// A line break stands before it.
    pub(super) on_new_line: bool,
    /// It follows `.` or `?.`, so a word is a property's name.
    pub(super) after_dot: bool,
    /// A word with a Unicode escape: it may be any keyword.
    pub(super) escaped: bool,
    /// Whether an operand ends before it.
    pub(super) operand_before: Operand,
    /// Whether it ends an operand.
    pub(super) operand: Operand,
}

impl Token<'_> {
    /// Whether it is this keyword and not a property's name.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && !self.after_dot && !self.escaped && self.text == word
    }

    /// Whether it is a word that may be a name, or come before something that belongs to it.
    pub(super) fn is_contextual(&self) -> bool {
        self.kind == Kind::Word
            && !self.after_dot
            && (CONTEXTUAL.contains(&self.text) || ALSO_CONTEXTUAL.contains(&self.text))
    }

    /// Whether it is this punctuator or bracket.
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Punctuator | Kind::Open | Kind::Close) && self.text == text
    }
}

/// A slash that may start a regular expression or be a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AmbiguousSlash {
    /// Byte of the slash.
    pub(super) start: usize,
}

/// Punctuators of several characters, the longest first.
const PUNCTUATORS: [&str; 33] = [
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", "**",
    "<<", ">>", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
];
const PUNCTUATION: &str = ";,.?:=<>+-*/%&|^!~@";

/// After these, an operand follows.
const BEFORE_OPERAND: [&str; 14] = [
    "return",
    "typeof",
    "case",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "delete",
    "throw",
    "extends",
    "default",
    "debugger",
    "break",
];
const ALSO_BEFORE_OPERAND: [&str; 11] =
    ["continue", "if", "while", "for", "with", "switch", "catch", "finally", "try", "class", "function"];

/// Words that may be a name, or come before something that belongs to them.
const CONTEXTUAL: [&str; 17] = [
    "abstract",
    "accessor",
    "as",
    "asserts",
    "async",
    "const",
    "declare",
    "enum",
    "export",
    "get",
    "global",
    "import",
    "infer",
    "interface",
    "is",
    "keyof",
    "let",
];
const ALSO_CONTEXTUAL: [&str; 16] = [
    "module",
    "namespace",
    "out",
    "override",
    "readonly",
    "set",
    "static",
    "type",
    "unique",
    "using",
    "var",
    "satisfies",
    "implements",
    "private",
    "protected",
    "public",
];

/// Operators in some contexts, identifiers or types in others.
const AMBIGUOUS: [&str; 4] = ["void", "of", "await", "yield"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// `header`: it belongs to `if`, `for`, `while` or `with`, so a statement follows it.
    Round {
        header: bool,
    },
    Other,
    Template,
}

/// The tokens of a text. Stops early where the text cannot be a program; the parser says why.
#[derive(Debug)]
pub(super) struct Tokens<'s> {
    text: &'s str,
    position: usize,
    previous: Option<Token<'s>>,
    /// The token before the previous one is the word `for`.
    after_for: bool,
    brackets: Vec<Bracket>,
}

impl<'s> Tokens<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        let mut tokens = Self { text, position: 0, previous: None, after_for: false, brackets: Vec::new() };
        if text.starts_with("#!") {
            tokens.skip_line();
        }
        tokens
    }

    fn rest(&self) -> &'s str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.position += rest.find(ends_line).unwrap_or(rest.len());
    }

    /// Skips white space and comments; says whether a line ended. `None`: a comment never ends.
    fn skip_trivia(&mut self) -> Option<bool> {
        let mut line_ended = self.previous.is_none();
        loop {
            let rest = self.rest();
            let first = rest.chars().next();
            if rest.starts_with("//") || (line_ended && rest.starts_with("<!--")) {
                self.skip_line();
            } else if rest.starts_with("/*") {
                let length = rest.get(2..)?.find("*/")? + 4;
                line_ended |= rest.get(..length)?.contains(ends_line);
                self.position += length;
            } else if let Some(space) = first.filter(|&character| is_space(character)) {
                line_ended |= ends_line(space);
                self.position += space.len_utf8();
            } else {
                return Some(line_ended);
            }
        }
    }

    /// The next token; `None` at the end of what can be read.
    pub(super) fn next(&mut self) -> Result<Option<Token<'s>>, AmbiguousSlash> {
        let Some(on_new_line) = self.skip_trivia() else { return Ok(None) };
        let start = self.position;
        let operand_before = self.previous.map_or(Operand::No, |token| token.operand);
        let slash = self.rest().starts_with('/');
        let ambiguous = match operand_before {
            Operand::Maybe => true,
            Operand::Yes => on_new_line && slash && is_ambiguous_line(self.rest()),
            Operand::No => false,
        };
        if slash && ambiguous {
            return Err(AmbiguousSlash { start });
        }
        let Some((kind, length)) = self.measure(operand_before) else { return Ok(None) };
        let text = self.rest().get(..length).unwrap_or_default();
        let after_dot = self.previous.is_some_and(|token| token.is(".") || token.is("?."));
        let escaped = kind == Kind::Word && text.contains('\\');
        let operand = Operand::No;
        let mut token = Token { kind, text, start, on_new_line, after_dot, escaped, operand_before, operand };
        token.operand = self.operand_after(&token);
        self.after_for = self.previous.is_some_and(|token| token.is_word("for"));
        self.position += length;
        self.previous = Some(token);
        Ok(Some(token))
    }

    /// Kind and length of the token that starts here.
    fn measure(&self, operand_before: Operand) -> Option<(Kind, usize)> {
        let rest = self.rest();
        let first = rest.chars().next()?;
        let second = rest.chars().nth(1).unwrap_or_default();
        if first == '}' && self.brackets.last() == Some(&Bracket::Template) {
            let (length, open) = template_length(rest)?;
            let kind = if open { Kind::TemplateMiddle } else { Kind::TemplateTail };
            return Some((kind, length));
        }
        match first {
            '(' | '[' | '{' => Some((Kind::Open, 1)),
            ')' | ']' | '}' => Some((Kind::Close, 1)),
            '"' | '\'' => Some((Kind::Text, text_length(rest, first)?)),
            '`' => {
                let (length, open) = template_length(rest)?;
                Some((if open { Kind::TemplateHead } else { Kind::Template }, length))
            }
            '#' => Some((Kind::Private, 1 + word_length(rest.get(1..)?)?)),
            '/' if operand_before == Operand::No => Some((Kind::RegExp, reg_exp_length(rest)?)),
            '.' if second.is_ascii_digit() => Some((Kind::Number, number_length(rest))),
            _ if first.is_ascii_digit() => Some((Kind::Number, number_length(rest))),
            _ if PUNCTUATION.contains(first) => Some((Kind::Punctuator, punctuator_length(rest, second))),
            _ => Some((Kind::Word, word_length(rest)?)),
        }
    }

    /// Whether `token` ends an operand. Keeps the stack of brackets.
    fn operand_after(&mut self, token: &Token<'s>) -> Operand {
        match token.kind {
            Kind::Word => word_operand(token),
            Kind::Private | Kind::Number | Kind::Text | Kind::RegExp | Kind::Template => Operand::Yes,
            Kind::TemplateHead => {
                self.brackets.push(Bracket::Template);
                Operand::No
            }
            Kind::TemplateMiddle => Operand::No,
            Kind::TemplateTail => {
                self.brackets.pop();
                Operand::Yes
            }
            Kind::Open => {
                self.brackets.push(if token.text == "(" {
                    Bracket::Round { header: self.is_header() }
                } else {
                    Bracket::Other
                });
                Operand::No
            }
            Kind::Close => match (self.brackets.pop(), token.text) {
                (Some(Bracket::Round { header: true }), ")") => Operand::No,
                (_, ")" | "]") => Operand::Yes,
                (_, _) => Operand::Maybe,
            },
            Kind::Punctuator => match (token.text, token.operand_before) {
                // `as !T`, an old way to write types, or `as!`, where it is a name.
                ("!", Operand::Yes) if self.previous.is_some_and(|word| word.is_contextual()) => Operand::Maybe,
                // Postfix; on a new line it is a prefix.
                ("!" | "++" | "--", Operand::Yes) if !token.on_new_line => Operand::Yes,
                ("!" | "++" | "--", Operand::Maybe) | (">" | ">>" | ">>>", _) => Operand::Maybe,
                (_, _) => Operand::No,
            },
        }
    }

    /// Whether the bracket that opens here starts the header of a statement.
    fn is_header(&self) -> bool {
        self.previous.is_some_and(|token| {
            token.escaped
                || ["if", "while", "for", "with"].iter().any(|word| token.is_word(word))
                || (self.after_for && token.is_word("await"))
        })
    }
}

/// Whether a line that starts with a slash may start with a regular expression, which would matter here. After an
/// operand it is a division, but a statement may have ended: `let a: B` is complete.
fn is_ambiguous_line(rest: &str) -> bool {
    let line = rest.get(1..).unwrap_or_default().split(ends_line).next().unwrap_or_default();
    line.contains('/') && (line.contains(['(', ')', '[', ']', '{', '}', '\'', '"', '`']) || line.contains("/*"))
}

fn word_operand(token: &Token<'_>) -> Operand {
    let among = |words: &[&str]| words.contains(&token.text);
    if token.escaped {
        Operand::Maybe
    } else if token.after_dot {
        Operand::Yes
    } else if among(&AMBIGUOUS) {
        Operand::Maybe
    } else if among(&BEFORE_OPERAND) || among(&ALSO_BEFORE_OPERAND) {
        Operand::No
    } else {
        Operand::Yes
    }
}

pub(super) fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// Length of the identifier at the start of `text`, if there is one.
fn word_length(text: &str) -> Option<usize> {
    let mut length = 0;
    while let Some(rest) = text.get(length..) {
        let Some(character) = rest.chars().next() else { break };
        if character == '\\' {
            // Of `\u{61}`, the braces belong to the word; `\u0061` has none.
            let digits = rest.strip_prefix("\\u{").unwrap_or_default();
            let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(0);
            let braced = digits.get(end..).is_some_and(|after| after.starts_with('}'));
            length += if braced { end + 4 } else { 1 };
        } else if character.is_ascii_alphanumeric()
            || matches!(character, '_' | '$')
            || !(character.is_ascii() || is_space(character))
        {
            length += character.len_utf8();
        } else {
            break;
        }
    }
    (length > 0).then_some(length)
}

/// Length of the punctuator at the start of `text`, whose second character is `second`.
fn punctuator_length(text: &str, second: char) -> usize {
    if !PUNCTUATION.contains(second) {
        return 1;
    }
    let longest = PUNCTUATORS.iter().find(|punctuator| text.starts_with(**punctuator));
    let digit = || text.chars().nth(2).is_some_and(|third| third.is_ascii_digit());
    match longest {
        // `a?.5:1` is a conditional expression.
        Some(&"?.") if digit() => 1,
        Some(punctuator) => punctuator.len(),
        None => 1,
    }
}

fn number_length(text: &str) -> usize {
    let digits =
        |text: &str| text.find(|character: char| !character.is_ascii_digit() && character != '_').unwrap_or(text.len());
    let from = |start: usize| text.get(start..).unwrap_or_default();
    let mut characters = text.chars();
    let zero = characters.next() == Some('0');
    if zero && characters.next().is_some_and(|base| "xXoObB".contains(base)) {
        let body = from(2);
        let end = body.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        return 2 + end.unwrap_or(body.len());
    }
    let mut length = digits(text);
    if from(length).starts_with('.') {
        length += 1;
        length += digits(from(length));
    }
    if from(length).starts_with(['e', 'E']) {
        length += 1;
        if from(length).starts_with(['+', '-']) {
            length += 1;
        }
        length += digits(from(length));
    } else if from(length).starts_with('n') {
        length += 1;
    }
    length
}

/// Length of a string literal; `None` if the line ends first.
fn text_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => {
                if let Some((_, '\r')) = characters.next() {
                    characters.next_if(|(_, next)| *next == '\n');
                }
            }
            '\n' | '\r' => return None,
            _ if character == quote => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Length of a piece of a template literal whose first character is a backtick or `}`, and whether
/// a substitution follows.
fn template_length(text: &str) -> Option<(usize, bool)> {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '`' => return Some((index + 1, false)),
            '$' if matches!(characters.peek(), Some((_, '{'))) => return Some((index + 2, true)),
            _ => {}
        }
    }
    None
}

/// Length of a regular expression with its flags; `None` if the line ends first.
fn reg_exp_length(text: &str) -> Option<usize> {
    let mut in_class = false;
    let mut characters = text.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        match character {
            _ if ends_line(character) => return None,
            '\\' => {
                let (_, escaped) = characters.next()?;
                if ends_line(escaped) {
                    return None;
                }
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let flags = text.get(index + 1..).unwrap_or_default();
                return Some(index + 1 + word_length(flags).unwrap_or(0));
            }
            _ => {}
        }
    }
    None
}
