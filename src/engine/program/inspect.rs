//! Refuses what parses but may not run: modules, and what the sandbox's engine does not know.

use std::collections::HashMap;

use oxc_ast::ast::{
    AccessorProperty, Decorator, ExportAllDeclaration, ExportDeclaration, ExportDefaultDeclaration,
    ExportDefaultDeclarationKind, ExportFromDeclaration, ExportNamedDeclaration, Expression, ImportDeclaration,
    ImportExpression, ImportMeta, Program, Statement, TSEnumDeclaration, TSEnumMember, TSEnumMemberName,
    TSExportAssignment, TSExternalModuleDeclaration, TSGlobalDeclaration, TSImportEqualsDeclaration, TSImportType,
    TSNamespaceDeclaration, TSNamespaceExportDeclaration,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use super::error::{CompileError, Construct};
use super::source::Source;

/// Enums that one program may declare. Merging them takes quadratic time.
const ENUM_LIMIT: usize = 500;

/// Operators that may be nested in an enum member's initialiser.
const ENUM_DEPTH_LIMIT: u32 = 100;

/// Characters that the values of all enum members may have together, as far as they are computed
/// when compiling: a member may repeat another one twice, and the next one that.
const ENUM_TEXT_LIMIT: u64 = 1024 * 1024;

const INNER_DEFAULT: &str = "`export default` can only stand at the top level";
const SECOND_DEFAULT: &str = "there is more than one `export default`";

/// Characters of a number, at most.
const NUMBER_LENGTH: u64 = 32;

/// Finds the first construct that a program may not use.
pub(super) fn inspect(program: &Program<'_>, source: &Source<'_>) -> Result<(), CompileError> {
    let mut inspector = Inspector::default();
    inspector.visit_program(program);
    let Some((finding, span)) = inspector.finding else { return Ok(()) };
    let place = source.place(span.start as usize);
    Err(match finding {
        Finding::Import => CompileError::import(place),
        Finding::DynamicImport => CompileError::dynamic_import(place),
        Finding::ImportMeta => CompileError::import_meta(place),
        Finding::NamedExport => CompileError::named_export(place),
        Finding::Construct(construct) => CompileError::unsupported(construct, place),
        Finding::InnerDefault => CompileError::syntax(INNER_DEFAULT.to_owned(), place),
        Finding::SecondDefault => CompileError::syntax(SECOND_DEFAULT.to_owned(), place),
        Finding::Complex => CompileError::too_complex(place),
    })
}

#[derive(Debug, Clone, Copy)]
enum Finding {
    Import,
    DynamicImport,
    ImportMeta,
    NamedExport,
    Construct(Construct),
    InnerDefault,
    SecondDefault,
    Complex,
}

#[derive(Debug, Default)]
struct Inspector<'a> {
    finding: Option<(Finding, Span)>,
    /// Where the `export default` at the top level start.
    defaults: Vec<u32>,
    has_default: bool,
    enums: usize,
    /// Length of the longest enum member of a name.
    lengths: HashMap<&'a str, u64>,
    enum_text: u64,
}

impl<'a> Inspector<'a> {
    fn find(&mut self, finding: Finding, span: Span) {
        self.finding.get_or_insert((finding, span));
    }

    /// Characters of the value of an enum member's initialiser, at most; very many if it is deeper
    /// than `depth`, because computing it recurses.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other values are numbers or computed at run time")]
    fn text_length(&self, expression: &Expression<'a>, depth: u32) -> u64 {
        let Some(depth) = depth.checked_sub(1) else { return u64::MAX };
        let known = |name: &str| self.lengths.get(name).copied().unwrap_or(NUMBER_LENGTH);
        match expression.get_inner_expression() {
            Expression::StringLiteral(text) => text.value.len() as u64,
            Expression::Identifier(name) => known(&name.name),
            Expression::StaticMemberExpression(member) => known(&member.property.name),
            Expression::ComputedMemberExpression(member) => {
                if let Expression::StringLiteral(name) = &member.expression {
                    known(&name.value)
                } else {
                    NUMBER_LENGTH
                }
            }
            Expression::UnaryExpression(unary) => self.text_length(&unary.argument, depth).max(NUMBER_LENGTH),
            Expression::BinaryExpression(binary) => {
                let left = self.text_length(&binary.left, depth);
                left.saturating_add(self.text_length(&binary.right, depth))
            }
            Expression::TemplateLiteral(template) => {
                let quasis = template.quasis.iter().map(|quasi| quasi.value.raw.len() as u64);
                let values = template.expressions.iter().map(|value| self.text_length(value, depth));
                quasis.chain(values).fold(0, u64::saturating_add)
            }
            _ => NUMBER_LENGTH,
        }
    }
}

impl<'a> Visit<'a> for Inspector<'a> {
    fn visit_program(&mut self, it: &Program<'a>) {
        let is_default = |statement: &&Statement<'a>| matches!(statement, Statement::ExportDefaultDeclaration(_));
        self.defaults = it.body.iter().filter(is_default).map(|statement| statement.span().start).collect();
        walk::walk_program(self, it);
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        self.find(Finding::Import, it.span);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.find(Finding::Import, it.span);
    }

    fn visit_ts_import_type(&mut self, it: &TSImportType<'a>) {
        self.find(Finding::Import, it.span);
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.find(Finding::DynamicImport, it.span);
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.find(Finding::ImportMeta, it.span);
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        self.find(Finding::Import, it.span);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        self.find(Finding::Import, it.span);
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        self.find(Finding::NamedExport, it.span);
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        self.find(Finding::NamedExport, it.span);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.find(Finding::NamedExport, it.span);
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.find(Finding::NamedExport, it.span);
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        // The parser accepts it behind a label.
        if !self.defaults.contains(&it.span.start) {
            self.find(Finding::InnerDefault, it.span);
        }
        // The signatures of an overloaded function are removed.
        if !it.is_typescript_syntax() && std::mem::replace(&mut self.has_default, true) {
            self.find(Finding::SecondDefault, it.span);
        }
        walk::walk_export_default_declaration(self, it);
    }

    fn visit_export_default_declaration_kind(&mut self, it: &ExportDefaultDeclarationKind<'a>) {
        if let ExportDefaultDeclarationKind::ClassDeclaration(class) = it {
            self.find(Finding::Construct(Construct::DefaultClass), class.span);
        }
        walk::walk_export_default_declaration_kind(self, it);
    }

    // What is only declared is removed as a whole, so its content does not matter.

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        if !it.declare {
            self.find(Finding::Construct(Construct::Namespace), it.span);
        }
    }

    fn visit_ts_external_module_declaration(&mut self, it: &TSExternalModuleDeclaration<'a>) {
        if !it.declare {
            self.find(Finding::Construct(Construct::Namespace), it.span);
        }
    }

    fn visit_ts_global_declaration(&mut self, it: &TSGlobalDeclaration<'a>) {
        if !it.declare {
            self.find(Finding::Construct(Construct::Namespace), it.span);
        }
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.find(Finding::Construct(Construct::Decorator), it.span);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.find(Finding::Construct(Construct::AutoAccessor), it.span);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.enums += 1;
        if self.enums > ENUM_LIMIT {
            self.find(Finding::Complex, it.span);
        }
        walk::walk_ts_enum_declaration(self, it);
    }

    fn visit_ts_enum_member(&mut self, it: &TSEnumMember<'a>) {
        if let Some(initializer) = &it.initializer {
            let length = self.text_length(initializer, ENUM_DEPTH_LIMIT);
            self.enum_text = self.enum_text.saturating_add(length);
            if self.enum_text > ENUM_TEXT_LIMIT {
                self.find(Finding::Complex, initializer.span());
            }
            let name = match &it.id {
                TSEnumMemberName::Identifier(name) => Some(name.name.as_str()),
                TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => Some(name.value.as_str()),
                TSEnumMemberName::ComputedTemplateString(_) => None,
            };
            if let Some(name) = name {
                let longest = self.lengths.entry(name).or_default();
                *longest = length.max(*longest);
            }
        }
        walk::walk_ts_enum_member(self, it);
    }
}
