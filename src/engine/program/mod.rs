//! Compiles the program that a model wrote into a module for the sandbox.
//!
//! It decides what counts as a program, what such a program returns, and what it may not contain:
//! modules, and nesting that would overflow the stack. It strips the types and makes loops and
//! functions count fuel. It never runs anything, and equal texts give equal modules.
//!
//! The text is parsed on its own and printed from its syntax tree, so that no text can reach out of
//! the function around it.

mod diagnostic;
mod error;
mod fuel;
mod inspect;
mod lines;
mod markdown;
mod names;
mod nesting;
mod source;
mod tokens;
mod wrap;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};

use diagnostic::reject;
pub use error::{CompileError, Construct};
use names::Names;
use nesting::{Refusal, check_nesting};
use source::Source;
use tokens::{Kind, Tokens};

/// Size of the largest text that is compiled.
pub const PROGRAM_LIMIT_BYTES: usize = 256 * 1024;

/// What makes a statement of a function without a name.
const EXPORT_DEFAULT: &str = "export default ";

const FILE_NAME: &str = "program.ts";

/// A program ready for the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledProgram {
    /// Text of an ES module: `export default ($fuel) => async () => { … };`. The parameter is a
    /// function that is called at each loop turn and function entry; it stops the program by
    /// throwing each time. Its name is one that the program does not contain.
    pub javascript: String,
    /// For each line of `javascript` (as ECMAScript counts lines, the first at index 0) the line of
    /// the text that was sent, from 1; 0 where there is none.
    pub lines: Vec<u32>,
}

/// Compiles the text of a program: statements, a function, `export default`, or one of these in a
/// Markdown code block.
///
/// # Errors
///
/// The error's text tells the model where the program is wrong and what to do.
pub fn compile_program(source: &str) -> Result<CompiledProgram, CompileError> {
    if source.len() > PROGRAM_LIMIT_BYTES {
        return Err(CompileError::TooLarge { bytes: source.len(), limit: PROGRAM_LIMIT_BYTES });
    }
    let source = find_program(source)?;
    let allocator = Allocator::default();
    let mut program = parse(&source, &allocator)?;
    inspect::inspect(&program, &source)?;
    strip_types(&mut program, &source, &allocator)?;

    let mut names = Names::of(&program, source.text());
    let counter = allocator.alloc_str(&names.fresh("$fuel"));
    let value = allocator.alloc_str(&names.fresh("$value"));
    fuel::insert_fuel(&mut program, counter, &allocator);
    if !wrap::return_value(&mut program, value, &allocator) {
        return Err(CompileError::Empty);
    }
    wrap::wrap(&mut program, counter, &allocator);

    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(PathBuf::from(FILE_NAME)),
        // Deep nesting must not make a long text.
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    let javascript = printed.code.trim_end().to_owned();
    let lines = lines::line_table(&javascript, printed.map.as_ref(), &source);
    Ok(CompiledProgram { javascript, lines })
}

/// Takes the program out of the Markdown around it, and completes a function without a name.
fn find_program(sent: &str) -> Result<Source<'_>, CompileError> {
    let sent = sent.strip_prefix('\u{feff}').unwrap_or(sent);
    let blocks = markdown::code_blocks(sent);
    let source = match blocks.as_slice() {
        [first, ..] if is_in_comment(sent, first.fence_start) => Source::new(sent, 1),
        [] => Source::new(sent, 1),
        [block] => Source::new(block.text, block.fence_line.saturating_add(1)),
        [_, second, ..] => return Err(CompileError::SeveralBlocks { line: second.fence_line }),
    };
    Ok(if starts_with_nameless_function(source.text()) { source.prefixed(EXPORT_DEFAULT) } else { source })
}

/// Whether all of `text` is a program in which byte `offset` belongs to a comment.
fn is_in_comment(text: &str, offset: usize) -> bool {
    if text.get(..offset).is_none_or(|before| before.trim().is_empty()) {
        return false;
    }
    let allocator = Allocator::default();
    parse(&Source::new(text, 1), &allocator).is_ok_and(|program| {
        let contains = |start: u32, end: u32| (start as usize..end as usize).contains(&offset);
        program.comments.iter().any(|comment| contains(comment.span.start, comment.span.end))
    })
}

/// `function (…) {…}` and `async function* (…) {…}` are no statements.
fn starts_with_nameless_function(text: &str) -> bool {
    let mut tokens = Tokens::new(text);
    let mut next = || tokens.next().ok().flatten();
    let mut token = next();
    if token.is_some_and(|token| token.is_word("async")) {
        token = next();
    }
    if !token.is_some_and(|token| token.is_word("function")) {
        return false;
    }
    token = next();
    if token.is_some_and(|token| token.is("*")) {
        token = next();
    }
    token.is_some_and(|token| token.kind != Kind::Word)
}

/// Parses a program whose nesting is harmless.
fn parse<'a>(source: &Source<'_>, allocator: &'a Allocator) -> Result<Program<'a>, CompileError> {
    check_nesting(source.text()).map_err(|refusal| refused(refusal, source))?;
    let text = allocator.alloc_str(source.text());
    let options =
        ParseOptions { allow_return_outside_function: true, preserve_parens: false, ..ParseOptions::default() };
    let source_type = SourceType::ts().with_module(true);
    let parsed = Parser::new(allocator, text, source_type).with_options(options).parse();
    reject(&parsed.diagnostics, source)?;
    Ok(parsed.program)
}

fn refused(refusal: Refusal, source: &Source<'_>) -> CompileError {
    match refusal {
        Refusal::TooDeep(start) => CompileError::too_deep(source.place(start)),
        Refusal::TooComplex(start) => CompileError::too_complex(source.place(start)),
        Refusal::Decorator(start) => CompileError::unsupported(Construct::Decorator, source.place(start)),
        Refusal::Ambiguous(start) => {
            let message = "a division or a regular expression cannot be told apart here, so put \
                           the regular expression, or what is divided, in parentheses";
            CompileError::syntax(message.to_owned(), source.place(start))
        }
    }
}

/// Checks the rules that the grammar does not express, and removes the types.
fn strip_types<'a>(
    program: &mut Program<'a>,
    source: &Source<'_>,
    allocator: &'a Allocator,
) -> Result<(), CompileError> {
    let checked = SemanticBuilder::new_compiler().with_enum_eval(true).build(program);
    reject(&checked.diagnostics, source)?;
    let scoping = checked.semantic.into_scoping();
    // Comments could hold instructions for the transformer.
    program.comments.clear();
    program.hashbang = None;
    let options = TransformOptions::default();
    let transformed = Transformer::new(allocator, Path::new(FILE_NAME), &options).build_with_scoping(scoping, program);
    reject(&transformed.diagnostics, source)
}
