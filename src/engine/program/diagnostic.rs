//! Turns what the parser and its checks report into one sentence with a place.

use oxc_diagnostics::{Diagnostics, OxcDiagnostic};
use oxc_span::LabeledSpan;

use super::error::CompileError;
use super::source::Source;

/// Characters of a report that are passed on; it may repeat text of the program.
const MESSAGE_CHARACTERS: usize = 300;

/// Characters of an unexpected token that are shown.
const TOKEN_CHARACTERS: usize = 40;

/// An error if there is one among the diagnostics: the first in the text. `origin` gives the byte of
/// the source for one of the text that was parsed.
pub(super) fn reject(
    diagnostics: &Diagnostics,
    source: &Source<'_>,
    origin: impl Fn(usize) -> usize,
) -> Result<(), CompileError> {
    match diagnostics.errors().min_by_key(|diagnostic| offset(diagnostic)) {
        None => Ok(()),
        Some(diagnostic) => Err(rejected(diagnostic, source, origin(offset(diagnostic)))),
    }
}

#[inline(never)]
fn rejected(diagnostic: &OxcDiagnostic, source: &Source<'_>, at: usize) -> CompileError {
    // What is missing at the end is missing after the last line with text.
    let end = source.text().trim_end().len();
    CompileError::syntax(message(diagnostic, source), source.place(at.min(end)))
}

/// Where a name is declared twice, the first label is at the first declaration.
fn is_redeclaration(diagnostic: &OxcDiagnostic) -> bool {
    diagnostic.message.ends_with("has already been declared")
}

/// The label at the error itself.
fn label(diagnostic: &OxcDiagnostic) -> Option<&LabeledSpan> {
    if is_redeclaration(diagnostic) { diagnostic.labels.last() } else { diagnostic.labels.first() }
}

/// Byte at which the error is.
fn offset(diagnostic: &OxcDiagnostic) -> usize {
    label(diagnostic).map_or(0, |label| label.offset() as usize)
}

/// The report as a part of a sentence.
fn message(diagnostic: &OxcDiagnostic, source: &Source<'_>) -> String {
    let without_stop = |text: &str| text.trim().trim_end_matches('.').to_owned();
    let mut message = without_stop(&diagnostic.message);
    if message == "Unexpected token" {
        message = unexpected(label(diagnostic), source);
    }
    message = message.replace("`EOF`", "the end of the program");
    if let Some(related) = related_line(diagnostic, source) {
        message.push_str(&related);
    }
    if let Some(help) = &diagnostic.help {
        message = format!("{message} ({})", without_stop(help));
    }
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(MESSAGE_CHARACTERS).collect()
}

fn unexpected(label: Option<&LabeledSpan>, source: &Source<'_>) -> String {
    let span = label.map(LabeledSpan::span).unwrap_or_default();
    let token = source.text().get(span.start as usize..span.end as usize).unwrap_or_default();
    if token.is_empty() {
        "Unexpected end of the program".to_owned()
    } else {
        let token: String = token.chars().take(TOKEN_CHARACTERS).collect();
        format!("Unexpected token `{token}`")
    }
}

/// The line of the bracket that is not closed, or of the first declaration.
fn related_line(diagnostic: &OxcDiagnostic, source: &Source<'_>) -> Option<String> {
    let line = |label: &LabeledSpan| source.place(label.offset() as usize).line;
    if is_redeclaration(diagnostic) {
        return Some(format!(" (at line {})", line(diagnostic.labels.first()?)));
    }
    let opened = diagnostic.labels.iter().find(|label| label.label() == Some("Opened here"))?;
    Some(format!(" (bracket opened at line {})", line(opened)))
}
