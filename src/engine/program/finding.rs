//! What parses but may not run: modules, what the sandbox's engine does not know, and what no engine starts.

use oxc_span::Span;

use super::error::{CompileError, Construct};
use super::source::Source;

#[derive(Debug)]
pub(super) enum Finding {
    Import,
    DynamicImport,
    ImportMeta,
    NamedExport,
    Construct(Construct),
    /// A rule of the language that the grammar does not express.
    Invalid(String),
    /// A name that is declared twice, and the first declaration.
    Redeclared(String, Span),
}

/// The first finding in the text.
#[derive(Debug, Default)]
pub(super) struct Findings {
    first: Option<(u32, Finding)>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding, start: u32) {
        if self.first.as_ref().is_none_or(|(first, _)| start < *first) {
            self.first = Some((start, finding));
        }
    }

    pub(super) fn invalid(&mut self, message: &str, start: u32) {
        self.add(Finding::Invalid(message.to_owned()), start);
    }

    /// An error if something was found.
    pub(super) fn reject(self, source: &Source<'_>) -> Result<(), CompileError> {
        let Some((start, finding)) = self.first else { return Ok(()) };
        let place = source.place(start as usize);
        Err(match finding {
            Finding::Import => CompileError::import(place),
            Finding::DynamicImport => CompileError::dynamic_import(place),
            Finding::ImportMeta => CompileError::import_meta(place),
            Finding::NamedExport => CompileError::named_export(place),
            Finding::Construct(construct) => CompileError::unsupported(construct, place),
            Finding::Invalid(message) => CompileError::syntax(message, place),
            Finding::Redeclared(name, first) => {
                let line = source.place(first.start as usize).line;
                CompileError::syntax(format!("Identifier `{name}` has already been declared (at line {line})"), place)
            }
        })
    }
}
