//! Compiles the program that a model wrote into a module for the sandbox.
//!
//! It decides what counts as a program, what such a program returns, and what it may not contain:
//! modules, and nesting that would overflow the stack. It strips the types and makes loops and
//! functions count fuel. It never runs anything, and equal texts give equal modules.
//!
//! The text is parsed on its own and changed in place, so that lines stay. The module is parsed once
//! more, so that no text can reach out of the function around it.

mod classes;
mod diagnostic;
mod edits;
mod enums;
mod error;
mod finding;
mod functions;
mod jumps;
mod markdown;
mod names;
mod nesting;
mod scan;
mod scopes;
mod source;
mod strip;
mod stripper;
mod tokens;
mod wrap;

#[cfg(test)]
mod tests;

use oxc_allocator::Allocator;
use oxc_ast::ast::{ArrowFunctionBody, ExportDefaultDeclarationKind, Program, Statement};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

use diagnostic::reject;
use edits::Edited;
pub use error::{CompileError, Construct};
use names::Names;
use nesting::{Refusal, check_nesting};
use source::{Source, script_lines};
use tokens::{Kind, Tokens};
use wrap::Plan;

/// Size of the largest text that is compiled.
pub const PROGRAM_LIMIT_BYTES: usize = 256 * 1024;

/// What makes a statement of a function without a name.
const EXPORT_DEFAULT: &str = "export default ";

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
    let program = parse(&source, &allocator)?;
    let mut names = Names::of(source.text());
    let counter = names.fresh("$fuel");
    let plan = Plan::of(&program, source.text(), &names.fresh("$value"));
    let edits = stripper::strip(&program, &source, &counter, plan.as_ref())?;
    let plan = plan.ok_or(CompileError::Empty)?;
    let edited = edits.apply(source.text());

    let mut lines = script_lines(source.text(), source.first_line());
    let tail = plan.tail.as_ref().map_or("", |(_, tail)| tail);
    lines.push(plan.tail.as_ref().map_or(0, |(start, _)| source.place(*start).line));
    let head = format!("export default ({counter}) => async () => {{");
    let javascript = format!("{head}{}\n{tail}}};", edited.text);
    check_module(&javascript, head.len(), &edited, &source)?;
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
#[inline(never)]
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
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let source_type = SourceType::ts().with_module(true);
    let parsed = Parser::new(allocator, text, source_type).with_options(options).parse();
    reject(&parsed.diagnostics, source, |offset| offset)?;
    Ok(parsed.program)
}

#[inline(never)]
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

/// Checks that the module is JavaScript and that all of the program stands in the function.
fn check_module(javascript: &str, head: usize, edited: &Edited, source: &Source<'_>) -> Result<(), CompileError> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, javascript, SourceType::mjs()).parse();
    let origin = |offset: usize| edited.origin(offset.saturating_sub(head));
    reject(&parsed.diagnostics, source, origin)?;
    if is_one_function(&parsed.program, javascript, head) {
        return Ok(());
    }
    Err(CompileError::syntax("a bracket closes more than the program".to_owned(), source.place(0)))
}

/// Whether a module is one default export, whose inner function has its body after byte `head`, to the end.
fn is_one_function(module: &Program<'_>, javascript: &str, head: usize) -> bool {
    let [Statement::ExportDefaultDeclaration(export)] = module.body.as_slice() else { return false };
    let ExportDefaultDeclarationKind::ArrowFunctionExpression(factory) = &export.declaration else { return false };
    let ArrowFunctionBody::ArrowFunctionExpression(function) = &factory.body else { return false };
    let ArrowFunctionBody::FunctionBody(body) = &function.body else { return false };
    body.span.start as usize + 1 == head && body.span.end as usize + 1 == javascript.len()
}
