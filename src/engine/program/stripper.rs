//! What is known at a place of the program while it is walked, and the changes that several constructs need.

use oxc_ast::ast::{BindingIdentifier, ExportDefaultDeclarationKind, Program, Statement};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use super::edits::Edits;
use super::error::{CompileError, Construct};
use super::finding::{Finding, Findings};
use super::jumps::Jumps;
use super::scan;
use super::scopes::{Declared, Scopes};
use super::source::Source;
use super::tokens::{Kind, Token, Tokens};
use super::wrap::{Plan, is_type};

const SECOND_DEFAULT: &str = "there is more than one `export default`";

/// The changes that make JavaScript of a program.
///
/// `counter` is the name of the function that counts fuel; the program does not use it.
pub(super) fn strip(
    program: &Program<'_>,
    source: &Source<'_>,
    counter: &str,
    plan: Option<&Plan>,
) -> Result<Edits, CompileError> {
    let mut stripper = Stripper {
        text: source.text(),
        counter,
        edits: Edits::default(),
        findings: Findings::default(),
        scopes: Scopes::default(),
        jumps: Jumps::default(),
        place: Place::default(),
        declared: None,
        initializer: None,
        after_super: None,
        assigned: None,
        is_method: false,
        has_default: false,
    };
    if let Some(plan) = plan {
        plan.open(&mut stripper.edits);
    }
    stripper.visit_program(program);
    if let Some(plan) = plan {
        plan.close(&mut stripper.edits);
    }
    stripper.findings.reject(source)?;
    Ok(stripper.edits)
}

/// What a place allows, and what has to be counted there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) new_target: bool,
    pub(super) super_property: bool,
    /// The parameters of a generator: their defaults run although its body does not.
    pub(super) generator_parameters: bool,
}

/// The initialiser of an enum member, in which other members have short names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Initializer<'a> {
    pub(super) name: &'a str,
    /// Number of scopes around the enum.
    pub(super) depth: usize,
}

pub(super) struct Stripper<'a, 's> {
    pub(super) text: &'s str,
    pub(super) counter: &'s str,
    pub(super) edits: Edits,
    pub(super) findings: Findings,
    pub(super) scopes: Scopes<'a>,
    pub(super) jumps: Jumps<'a>,
    pub(super) place: Place,
    /// How the names of the pattern that is visited are declared.
    pub(super) declared: Option<Declared>,
    pub(super) initializer: Option<Initializer<'a>>,
    /// Assignments of parameter properties that follow each call of `super` here, each after a comma.
    pub(super) after_super: Option<String>,
    /// Assignments of parameter properties at the start of the next function.
    pub(super) assigned: Option<String>,
    /// The next function is a method, which knows `super`.
    pub(super) is_method: bool,
    has_default: bool,
}

impl<'a> Stripper<'a, '_> {
    pub(super) fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Blanks types; `text` is written where they began.
    pub(super) fn erase(&mut self, start: u32, end: u32, text: &'static str) {
        self.find_imported_types(start as usize, end as usize);
        self.edits.replace(start as usize, end as usize, text);
    }

    /// Types may not name modules either: `import('a').B`.
    fn find_imported_types(&mut self, start: usize, end: usize) {
        let part = self.text.get(start..end).unwrap_or_default();
        if !part.contains("import") {
            return;
        }
        let mut tokens = Tokens::new(part);
        let mut before: [Option<Token<'_>>; 2] = [None, None];
        while let Ok(Some(token)) = tokens.next() {
            if let ([Some(first), Some(second)], Kind::Text) = (before, token.kind)
                && first.is_word("import")
                && second.is("(")
            {
                self.findings.add(Finding::Import, count(start + first.start));
            }
            before = [before[1], Some(token)];
        }
    }

    /// An expression whose type was blanked would go on where one of these follows on a new line.
    pub(super) fn separate(&mut self, end: u32) {
        let next = scan::skip_trivia(self.text, end as usize);
        if ['(', '[', '`'].iter().any(|mark| scan::starts_with(self.text, next, *mark)) {
            self.edits.separate(end as usize);
        }
    }

    /// Blanks `mark` if it follows byte `start`; gives the byte after it.
    pub(super) fn erase_mark(&mut self, start: u32, marks: &[char]) {
        let at = scan::skip_trivia(self.text, start as usize);
        if marks.iter().any(|mark| scan::starts_with(self.text, at, *mark)) {
            self.edits.blank(at, at + 1);
        }
    }

    pub(super) fn declare(&mut self, id: &BindingIdentifier<'a>, declared: Declared) {
        let name = id.name.as_str();
        if let Err(first) = self.scopes.declare(name, declared, id.span) {
            self.findings.add(Finding::Redeclared(name.to_owned(), first), id.span.start);
        }
    }

    /// A loop; `header_end` is the byte after its header.
    pub(super) fn visit_loop_body(&mut self, body: &Statement<'a>, header_end: usize) {
        self.jumps.enter_loop();
        let call = format!("{}();", self.counter);
        if let Statement::BlockStatement(block) = body {
            self.edits.open(block.span.start as usize + 1, call);
            self.visit_statement(body);
        } else {
            self.edits.open(header_end, format!("{{{call}"));
            self.visit_statement(body);
            self.edits.close(body.span().end as usize, "}");
        }
        self.jumps.leave_loop();
    }

    /// The byte after the bracket that closes a loop's header, whose last part ends at `end`.
    pub(super) fn header_end(&self, end: u32, body: &Statement<'a>) -> usize {
        scan::find(self.text, end as usize, ')').map_or(body.span().start as usize, |bracket| bracket + 1)
    }

    /// Visits a part in which other labels and loops count.
    pub(super) fn in_place(&mut self, place: Place, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.place, place);
        let jumps = std::mem::take(&mut self.jumps);
        let declared = self.declared.take();
        visit(self);
        self.place = outer;
        self.jumps = jumps;
        self.declared = declared;
    }

    /// Visits a statement, and removes it if it has no meaning in JavaScript.
    pub(super) fn visit_top_statement(&mut self, statement: &Statement<'a>) {
        let Statement::ExportDefaultDeclaration(export) = statement else {
            return self.visit_statement(statement);
        };
        if is_type(statement) {
            return self.erase(export.span.start, export.span.end, ";");
        }
        if std::mem::replace(&mut self.has_default, true) {
            self.findings.invalid(SECOND_DEFAULT, export.span.start);
        }
        if let ExportDefaultDeclarationKind::ClassDeclaration(class) = &export.declaration {
            self.findings.add(Finding::Construct(Construct::DefaultClass), class.span.start);
        }
        walk::walk_export_default_declaration_kind(self, &export.declaration);
    }
}

pub(super) fn count(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
