//! Refuses a program that nests too deeply or that takes too long to parse.
//!
//! Parser, checks and printer recurse over the program, and the stack of an isolate is one
//! megabyte: overflowing it would end every session of the isolate. So the depth is estimated from
//! the tokens, always at least as high as the parser's. An open bracket counts, and so do the
//! operators and keywords of the unfinished expression or statement around each open bracket.
//!
//! The parser also reads some text several times, in the worst case twice for each level of
//! nesting. The number of tokens it may have to read is estimated, too.

use super::tokens::{AmbiguousSlash, Kind, Operand, Token, Tokens};

/// Cost of all that is open at once, in units of 512 bytes of stack in an unoptimised build.
/// Enough for 160 brackets, 320 conditional expressions, or a sum of 1 200 terms.
const DEPTH_LIMIT: u32 = 1_280;

/// Tokens that the parser may read, repetitions included.
const WORK_LIMIT: u64 = 800_000;

/// Larger factors are over the limit anyway.
const FACTOR_BITS: u32 = 24;

/// A bracket, or a list of type arguments.
const BRACKET: u32 = 8;
/// An operator or keyword whose operand nests in it, by recursion of several functions.
const HEAVY: u32 = 4;
/// The same with few functions.
const LIGHT: u32 = 2;
/// A link of a chain like `a.b.c` or `a + b + c`.
const LINK: u32 = 1;
/// What becomes a block with a call of the fuel counter: a loop's body, and the value of an arrow function.
const BLOCK: u32 = BRACKET + HEAVY;

/// Why a program is refused before it is parsed. The number is the byte at which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooDeep(usize),
    TooComplex(usize),
    /// A slash that may be a division or start a regular expression.
    Ambiguous(usize),
    /// `@`
    Decorator(usize),
}

impl From<AmbiguousSlash> for Refusal {
    fn from(slash: AmbiguousSlash) -> Self {
        Self::Ambiguous(slash.start)
    }
}

/// Checks a text that the parser is going to read.
pub(super) fn check_nesting(text: &str) -> Result<(), Refusal> {
    let mut tokens = Tokens::new(text);
    let mut nesting = Nesting::default();
    while let Some(token) = tokens.next()? {
        nesting.add(&token)?;
    }
    Ok(())
}

/// What is open within one pair of brackets, and not finished yet.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// Cost of operators, keywords and chains.
    depth: u32,
    /// Loops and arrow functions, which become blocks.
    blocks: u32,
    /// `<` that may still be the start of type arguments.
    angles: u32,
    /// Kinds of binary operators that were seen.
    operators: u16,
    /// A statement holds a statement, so that a comma does not end all that is open.
    in_statement: bool,
    /// Constructs that make the parser read all that follows once more.
    rereads: u32,
    /// Constructs that double what the parser reads.
    doublings: u32,
    /// The bracket may hold the parameters of an arrow function, which is found out by trying.
    tried: bool,
    /// `tried`, and nothing but modifiers stands in it so far.
    starting: bool,
    /// Product of the factors of this level and those around it; set while it is an outer one.
    factors: u64,
}

impl Level {
    /// The level after the end of an item or a statement.
    fn anew(&self) -> Self {
        Self { tried: self.tried, ..Self::default() }
    }

    fn rereads(&self) -> u32 {
        self.rereads.saturating_add(u32::from(self.tried))
    }

    /// How often the parser may read what follows, because of this level alone. A list of type
    /// arguments is given up where it ends wrongly, and the next `<` starts another one.
    fn factor(&self) -> u64 {
        (u64::from(self.angles) + 1) << self.doublings.min(FACTOR_BITS)
    }

    fn depth(&self) -> u32 {
        let depth = self.depth.saturating_add(self.angles.saturating_mul(BRACKET));
        depth.saturating_add(self.blocks.saturating_mul(BLOCK))
    }
}

#[derive(Debug, Default)]
struct Nesting<'s> {
    outer: Vec<Level>,
    /// Sums over `outer`.
    outer_depth: u32,
    outer_rereads: u32,
    level: Level,
    previous: Option<Token<'s>>,
    words_after_infer: Option<u32>,
    work: u64,
}

impl<'s> Nesting<'s> {
    fn add(&mut self, token: &Token<'s>) -> Result<(), Refusal> {
        if self.starts_anew(token) {
            self.level = self.level.anew();
        }
        if token.kind != Kind::Word && self.previous.is_some_and(|previous| previous.is("<<")) {
            self.level.angles = self.level.angles.saturating_sub(2);
        }
        self.level.starting &= token.kind == Kind::Open || token.is_contextual();
        match token.kind {
            Kind::Word => self.add_word(token),
            Kind::Open => self.open(token),
            Kind::TemplateHead => self.push(Level::default()),
            // The parts of a template are a list.
            Kind::TemplateMiddle => self.level = Level::default(),
            Kind::Close | Kind::TemplateTail => self.close(),
            Kind::Template => self.level.depth += LINK,
            Kind::Punctuator => {
                if token.text == "@" {
                    return Err(Refusal::Decorator(token.start));
                }
                self.add_punctuator(token);
            }
            Kind::Private | Kind::Number | Kind::Text | Kind::RegExp => {}
        }
        self.words_after_infer = if token.is_word("infer") {
            Some(0)
        } else {
            let words = self.words_after_infer.filter(|_| token.kind == Kind::Word);
            words.map(|words| words.saturating_add(1))
        };
        self.previous = Some(*token);
        let depth = self.outer_depth.saturating_add(self.level.depth());
        if depth > DEPTH_LIMIT {
            return Err(Refusal::TooDeep(token.start));
        }
        self.work = self.work.saturating_add(self.readings());
        if self.work > WORK_LIMIT {
            return Err(Refusal::TooComplex(token.start));
        }
        Ok(())
    }

    /// How often the parser may read a token here.
    fn readings(&self) -> u64 {
        let rereads = self.outer_rereads.saturating_add(self.level.rereads());
        let outer = self.outer.last().map_or(1, |outer| outer.factors);
        (u64::from(rereads) + 1).saturating_mul(outer).saturating_mul(self.level.factor())
    }

    fn push(&mut self, level: Level) {
        let mut outer = std::mem::replace(&mut self.level, level);
        outer.factors = self.outer.last().map_or(1, |outer| outer.factors);
        outer.factors = outer.factors.saturating_mul(outer.factor());
        self.outer_depth = self.outer_depth.saturating_add(outer.depth()).saturating_add(BRACKET);
        self.outer_rereads = self.outer_rereads.saturating_add(outer.rereads());
        self.outer.push(outer);
    }

    fn close(&mut self) {
        let Some(outer) = self.outer.pop() else { return };
        self.outer_depth = self.outer_depth.saturating_sub(outer.depth()).saturating_sub(BRACKET);
        self.outer_rereads = self.outer_rereads.saturating_sub(outer.rereads());
        self.level = outer;
        // It was a call or an index.
        self.level.depth += LINK;
    }

    fn open(&mut self, token: &Token<'s>) {
        let after = |text| self.previous.is_some_and(|previous| previous.is(text));
        let after_word = |word| self.previous.is_some_and(|previous| previous.is_word(word));
        let called =
            token.operand_before == Operand::Yes && !self.previous.is_some_and(|previous| previous.is_contextual());
        match token.text {
            // `a ? (b) : (c) => d`: the colon may belong to the arrow function.
            "(" if after("?") => self.level.rereads += 1,
            // Attributes may hold expressions, in types too.
            "(" if after_word("import") => self.level.doublings += 1,
            // In a type, a pattern is tried first.
            "[" | "{" if self.level.starting => self.level.doublings += 1,
            _ => {}
        }
        self.level.starting = false;
        let tried = token.text == "(" && !called;
        self.push(Level { tried, starting: tried, ..Level::default() });
    }

    fn add_word(&mut self, token: &Token<'s>) {
        if token.after_dot {
            return;
        }
        let level = &mut self.level;
        level.depth += match token.text {
            _ if token.escaped => HEAVY,
            "new" | "for" | "function" | "class" | "extends" | "infer" => HEAVY,
            "typeof" | "void" | "delete" | "await" | "yield" | "return" | "throw" | "if" | "else" | "while" | "do"
            | "with" | "case" | "default" | "switch" | "export" | "of" | "is" | "asserts" | "keyof" | "unique"
            | "readonly" | "abstract" | "namespace" | "module" | "declare" | "try" => LIGHT,
            "in" | "instanceof" | "as" | "satisfies" => binary_cost(&mut level.operators, 5),
            _ => 0,
        };
        level.blocks += u32::from(token.escaped || matches!(token.text, "for" | "while" | "do"));
        level.in_statement |= token.escaped || matches!(token.text, "if" | "else" | "for" | "while" | "do" | "with");
        // `infer T extends U` is tried as a constraint first.
        if self.words_after_infer == Some(1) && token.text == "extends" {
            level.doublings += 1;
        }
    }

    fn add_punctuator(&mut self, token: &Token<'s>) {
        let level = &mut self.level;
        let binary = token.operand_before == Operand::Yes;
        level.blocks += u32::from(token.text == "=>");
        level.depth += match token.text {
            "," => {
                if !level.in_statement {
                    level.blocks = 0;
                    // Not within type arguments: they may continue.
                    if level.angles == 0 {
                        *level = level.anew();
                    }
                }
                0
            }
            "." | "?." | "..." => LINK,
            "!" if binary => LINK,
            "?" | ":" | "!" | "~" | "++" | "--" => LIGHT,
            "+" | "-" if !binary => LIGHT,
            "||" | "??" => binary_cost(&mut level.operators, 0),
            "&&" => binary_cost(&mut level.operators, 1),
            "|" => binary_cost(&mut level.operators, 2),
            "^" => binary_cost(&mut level.operators, 3),
            "&" => binary_cost(&mut level.operators, 4),
            "<" | ">" | "<=" | ">=" => binary_cost(&mut level.operators, 5),
            "==" | "!=" | "===" | "!==" => binary_cost(&mut level.operators, 6),
            "<<" | ">>" | ">>>" => binary_cost(&mut level.operators, 7),
            "+" | "-" => binary_cost(&mut level.operators, 8),
            "*" | "/" | "%" => binary_cost(&mut level.operators, 9),
            ";" => 0,
            // `=>`, `**`, and assignments.
            _ => HEAVY,
        };
        let closing = token.text.bytes().filter(|byte| *byte == b'>').count();
        match token.text {
            "<" => level.angles += 1,
            // The second one starts type parameters if a name follows; see `add`.
            "<<" => level.angles += 2,
            "=>" => {}
            _ if closing > 0 => {
                level.angles = level.angles.saturating_sub(u32::try_from(closing).unwrap_or(0));
            }
            // None of these can stand in a list of types.
            "&&" | "||" | "??" | "==" | "!=" | "===" | "!==" | "%" | "^" | "**" | "++" | "--" | "+" | "/" | "~" => {
                level.angles = 0;
            }
            _ => {}
        }
    }

    /// Whether the parser has finished all of this level when it reaches `token`.
    fn starts_anew(&self, token: &Token<'s>) -> bool {
        let Some(previous) = self.previous else { return false };
        if token.escaped {
            return false;
        }
        if previous.is(";") {
            // `if (a) b; else c`, `do a; while (b)`
            return !(token.is_word("else") || token.is_word("while"));
        }
        let starts = matches!(token.kind, Kind::Word | Kind::Number | Kind::Text)
            && !token.after_dot
            && !CONTINUING.contains(&token.text);
        let ended =
            previous.is("}") || (token.on_new_line && previous.operand == Operand::Yes && !previous.is_contextual());
        token.is_word("case") || (starts && ended)
    }
}

/// Words that continue what stands before them.
const CONTINUING: [&str; 14] = [
    "else",
    "while",
    "catch",
    "finally",
    "in",
    "instanceof",
    "of",
    "as",
    "satisfies",
    "extends",
    "implements",
    "is",
    "asserts",
    "from",
];

/// Operators of one precedence are parsed in a loop; each precedence recurses once.
fn binary_cost(seen: &mut u16, precedence: u16) -> u32 {
    let bit = 1 << precedence;
    let first = *seen & bit == 0;
    *seen |= bit;
    if first { HEAVY } else { LINK }
}
