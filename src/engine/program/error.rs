//! Why a program was not compiled, in the words that the model reads.

use super::source::Place;

/// A construct that TypeScript knows and a program may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Construct {
    /// `@decorator`: no engine runs it natively.
    Decorator,
    /// `accessor x`, part of the decorators proposal.
    AutoAccessor,
    /// `namespace X {}` and `module X {}` that hold code.
    Namespace,
    /// `export default class {}`: a class is no entry point.
    DefaultClass,
}

impl Construct {
    /// What to say about it: what is not supported, and what to do instead.
    fn advice(self) -> &'static str {
        match self {
            Self::Decorator => "decorators are not supported; call the function yourself",
            Self::AutoAccessor => "`accessor` is not supported; write a field or a getter and a setter",
            Self::Namespace => "namespaces with code are not supported; use an object or functions",
            Self::DefaultClass => "a class cannot be the default export; export a function",
        }
    }
}

/// Why a program was not compiled. The text is a sentence for the model: where, what, and what to do.
///
/// Lines and columns count from 1 and refer to the text that was sent, a Markdown fence included;
/// columns count characters. `text` is the line, at most 200 characters of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There is nothing to run.
    #[error("The program is empty: send statements, a function, or one code block that does something.")]
    Empty,
    /// The text exceeds the limit.
    #[error(
        "The program has {bytes} bytes and at most {limit} are accepted: send a shorter program and keep large data out of its text."
    )]
    TooLarge {
        /// Size of the text that was sent.
        bytes: usize,
        /// The largest size that is accepted.
        limit: usize,
    },
    /// The text holds several code blocks, so it is not clear which one to run.
    #[error("The text holds more than one code block, the second at line {line}: send exactly one program.")]
    SeveralBlocks {
        /// Line of the second block's opening fence.
        line: u32,
    },
    /// The text is not a valid program.
    #[error(
        "Line {line}, column {column} (`{text}`) is not valid TypeScript: {message}; correct it and send the whole program again."
    )]
    Syntax {
        /// What the parser says, at most 300 characters.
        message: String,
        /// Line of the error.
        line: u32,
        /// Column of the error.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// A static import, of a type too.
    #[error(
        "Line {line}, column {column} (`{text}`) imports a module, but programs cannot import anything: remove the import and use the global `tools` instead."
    )]
    Import {
        /// Line of the import.
        line: u32,
        /// Column of the import.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// `import(…)`.
    #[error(
        "Line {line}, column {column} (`{text}`) calls `import()`, but programs cannot import anything: remove the call and use the global `tools` instead."
    )]
    DynamicImport {
        /// Line of the call.
        line: u32,
        /// Column of the call.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// `import.meta`.
    #[error("Line {line}, column {column} (`{text}`) uses `import.meta`, which a program does not have: remove it.")]
    ImportMeta {
        /// Line of the expression.
        line: u32,
        /// Column of the expression.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// An export other than `export default`.
    #[error(
        "Line {line}, column {column} (`{text}`) exports a name, but only `export default` has a meaning here: remove the word `export`, and return the value or export one function by default."
    )]
    NamedExport {
        /// Line of the export.
        line: u32,
        /// Column of the export.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// A construct that the sandbox cannot run.
    #[error("Line {line}, column {column} (`{text}`): {}.", .construct.advice())]
    Unsupported {
        /// What was used.
        construct: Construct,
        /// Line of the construct.
        line: u32,
        /// Column of the construct.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// Brackets, operators or statements nest deeper than the compiler can follow.
    #[error(
        "Line {line}, column {column} (`{text}`) is nested too deeply: split the expression or move inner parts into functions and variables."
    )]
    TooDeep {
        /// Line where the limit is reached.
        line: u32,
        /// Column where the limit is reached.
        column: u32,
        /// The line's text.
        text: String,
    },
    /// Compiling would take more time than a program may cost.
    #[error(
        "Line {line}, column {column} (`{text}`) takes too long to compile: simplify the types, enum values and nested parentheses there, or split the statement."
    )]
    TooComplex {
        /// Line where the limit is reached.
        line: u32,
        /// Column where the limit is reached.
        column: u32,
        /// The line's text.
        text: String,
    },
}

impl CompileError {
    pub(super) fn syntax(message: String, Place { line, column, text }: Place) -> Self {
        Self::Syntax { message, line, column, text }
    }

    pub(super) fn import(Place { line, column, text }: Place) -> Self {
        Self::Import { line, column, text }
    }

    pub(super) fn dynamic_import(Place { line, column, text }: Place) -> Self {
        Self::DynamicImport { line, column, text }
    }

    pub(super) fn import_meta(Place { line, column, text }: Place) -> Self {
        Self::ImportMeta { line, column, text }
    }

    pub(super) fn named_export(Place { line, column, text }: Place) -> Self {
        Self::NamedExport { line, column, text }
    }

    pub(super) fn unsupported(construct: Construct, Place { line, column, text }: Place) -> Self {
        Self::Unsupported { construct, line, column, text }
    }

    pub(super) fn too_deep(Place { line, column, text }: Place) -> Self {
        Self::TooDeep { line, column, text }
    }

    pub(super) fn too_complex(Place { line, column, text }: Place) -> Self {
        Self::TooComplex { line, column, text }
    }
}
