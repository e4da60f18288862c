//! Walks a program once: finds what it may not use, and collects the changes of its text that make it JavaScript that
//! counts fuel.
//!
//! Types become blanks, so that every line and column stays. What is written in their place, or inserted, keeps the
//! statements apart that the types kept apart, and together what belongs together.

use std::cell::Cell;

use oxc_ast::ast::{
    ArrowFunctionExpression, AssignmentPattern, BindingIdentifier, BindingProperty, BreakStatement, CallExpression,
    CatchParameter, Class, ContinueStatement, DoWhileStatement, ExportAllDeclaration, ExportDeclaration,
    ExportDefaultDeclaration, ExportFromDeclaration, ExportNamedDeclaration, Expression, ExpressionStatement,
    ForInStatement, ForOfStatement, ForStatement, FormalParameters, Function, IdentifierReference, ImportDeclaration,
    ImportExpression, ImportMeta, JSXElement, JSXFragment, LabeledStatement, NewTarget, ObjectProperty, Program,
    PropertyKind, Statement, StaticBlock, Super, SwitchStatement, TSAsExpression, TSEnumDeclaration,
    TSExportAssignment, TSImportEqualsDeclaration, TSNamespaceExportDeclaration, TSNonNullExpression,
    TSSatisfiesExpression, TSType, TSTypeAnnotation, TSTypeAssertion, TSTypeParameterDeclaration,
    TSTypeParameterInstantiation, VariableDeclaration, VariableDeclarationKind, VariableDeclarator, WhileStatement,
    WithStatement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::GetSpan;
use oxc_syntax::scope::{ScopeFlags, ScopeId};

use super::error::Construct;
use super::finding::Finding;
use super::scan;
use super::scopes::{Declared, ScopeKind};
use super::stripper::{Stripper, count};
use super::wrap::is_type;

const INNER_DEFAULT: &str = "`export default` can only stand at the top level";

impl<'a> Visit<'a> for Stripper<'a, '_> {
    fn enter_scope(&mut self, flags: ScopeFlags, _: &Cell<Option<ScopeId>>) {
        self.scopes.enter(if flags.intersects(ScopeFlags::Top | ScopeFlags::Function | ScopeFlags::ClassStaticBlock) {
            ScopeKind::Function
        } else if flags.contains(ScopeFlags::CatchClause) {
            ScopeKind::Catch
        } else {
            ScopeKind::Block
        });
    }

    fn leave_scope(&mut self) {
        self.scopes.leave();
    }

    fn visit_program(&mut self, it: &Program<'a>) {
        self.scopes.enter(ScopeKind::Function);
        if let Some(hashbang) = &it.hashbang {
            self.edits.blank(hashbang.span.start as usize, hashbang.span.end as usize);
        }
        for statement in &it.body {
            self.visit_top_statement(statement);
        }
        self.scopes.leave();
    }

    // Statements.

    fn visit_statement(&mut self, it: &Statement<'a>) {
        if !matches!(
            it,
            Statement::LabeledStatement(_)
                | Statement::ForStatement(_)
                | Statement::ForInStatement(_)
                | Statement::ForOfStatement(_)
                | Statement::WhileStatement(_)
                | Statement::DoWhileStatement(_)
        ) {
            self.jumps.begin_statement();
        }
        let span = it.span();
        if is_type(it) {
            return self.erase(span.start, span.end, ";");
        }
        if let Statement::DebuggerStatement(_) = it {
            // It would stop a sandbox that is being inspected.
            self.edits.replace(span.start as usize, span.end as usize, ";");
        } else if matches!(
            it,
            Statement::TSNamespaceDeclaration(_)
                | Statement::TSExternalModuleDeclaration(_)
                | Statement::TSGlobalDeclaration(_)
        ) {
            self.findings.add(Finding::Construct(Construct::Namespace), span.start);
        } else {
            walk::walk_statement(self, it);
        }
    }

    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        if let Some(assignments) = self.after_super.clone()
            && let Expression::CallExpression(call) = &it.expression
            && matches!(call.callee, Expression::Super(_))
        {
            walk::walk_call_expression(self, call);
            self.edits.close(call.span.end as usize, assignments);
        } else {
            self.visit_expression(&it.expression);
        }
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        self.scopes.enter(ScopeKind::Block);
        let mut end = scan::find(self.text, it.span.start as usize + 3, '(').map_or(it.span.start, count) + 1;
        if let Some(init) = &it.init {
            self.visit_for_statement_init(init);
            end = init.span().end;
        }
        for part in [&it.test, &it.update].into_iter().flatten() {
            self.visit_expression(part);
            end = part.span().end;
        }
        let end = self.header_end(end, &it.body);
        self.visit_loop_body(&it.body, end);
        self.scopes.leave();
    }

    fn visit_for_in_statement(&mut self, it: &ForInStatement<'a>) {
        self.scopes.enter(ScopeKind::Block);
        self.visit_for_statement_left(&it.left);
        self.visit_expression(&it.right);
        let end = self.header_end(it.right.span().end, &it.body);
        self.visit_loop_body(&it.body, end);
        self.scopes.leave();
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.scopes.enter(ScopeKind::Block);
        self.visit_for_statement_left(&it.left);
        self.visit_expression(&it.right);
        let end = self.header_end(it.right.span().end, &it.body);
        self.visit_loop_body(&it.body, end);
        self.scopes.leave();
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.visit_expression(&it.test);
        let end = self.header_end(it.test.span().end, &it.body);
        self.visit_loop_body(&it.body, end);
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.visit_loop_body(&it.body, it.span.start as usize + "do".len());
        self.visit_expression(&it.test);
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.jumps.enter_switch();
        walk::walk_switch_statement(self, it);
        self.jumps.leave_switch();
    }

    fn visit_labeled_statement(&mut self, it: &LabeledStatement<'a>) {
        if !self.jumps.enter_label(it.label.name.as_str()) {
            self.findings.invalid("this label is in use already", it.span.start);
        }
        self.visit_statement(&it.body);
        self.jumps.leave_label();
    }

    fn visit_break_statement(&mut self, it: &BreakStatement<'a>) {
        if let Some(message) = self.jumps.break_error(it.label.as_ref().map(|label| label.name.as_str())) {
            self.findings.invalid(message, it.span.start);
        }
    }

    fn visit_continue_statement(&mut self, it: &ContinueStatement<'a>) {
        if let Some(message) = self.jumps.continue_error(it.label.as_ref().map(|label| label.name.as_str())) {
            self.findings.invalid(message, it.span.start);
        }
    }

    fn visit_with_statement(&mut self, it: &WithStatement<'a>) {
        self.findings.invalid("`with` is not allowed", it.span.start);
    }

    fn visit_catch_parameter(&mut self, it: &CatchParameter<'a>) {
        self.declared = Some(Declared::Caught);
        walk::walk_catch_parameter(self, it);
        self.declared = None;
    }

    // Declarations.

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        let is_var = it.kind == VariableDeclarationKind::Var;
        for declarator in &it.declarations {
            self.declared = Some(if is_var { Declared::Var } else { Declared::Lexical });
            self.visit_variable_declarator(declarator);
        }
        self.declared = None;
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        self.visit_binding_pattern(&it.id);
        self.declared = None;
        if it.definite {
            self.erase_mark(it.id.span().end, &['!']);
        }
        if let Some(annotation) = &it.type_annotation {
            self.visit_ts_type_annotation(annotation);
        }
        if let Some(init) = &it.init {
            self.visit_expression(init);
        }
    }

    fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
        if let Some(declared) = self.declared {
            self.declare(it, declared);
        }
    }

    fn visit_assignment_pattern(&mut self, it: &AssignmentPattern<'a>) {
        self.visit_binding_pattern(&it.left);
        self.count_generator_part(&it.right);
    }

    fn visit_binding_property(&mut self, it: &BindingProperty<'a>) {
        match it.key.as_expression() {
            Some(key) if it.computed => self.count_generator_part(key),
            _ => {}
        }
        self.visit_binding_pattern(&it.value);
    }

    fn visit_function(&mut self, it: &Function<'a>, _: ScopeFlags) {
        self.strip_function(it);
    }

    fn visit_formal_parameters(&mut self, it: &FormalParameters<'a>) {
        self.strip_parameters(it);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.strip_arrow(it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        self.strip_class(it);
    }

    fn visit_static_block(&mut self, it: &StaticBlock<'a>) {
        self.strip_static_block(it);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.lower_enum(it);
    }

    // Expressions.

    fn visit_expression(&mut self, it: &Expression<'a>) {
        let declared = self.declared.take();
        walk::walk_expression(self, it);
        self.declared = declared;
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.qualify_member(it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if !it.shorthand {
            self.visit_property_key(&it.key);
            self.is_method = it.method || it.kind != PropertyKind::Init;
            return self.visit_expression(&it.value);
        }
        if self.is_enum_member(it.key.name().as_deref().unwrap_or_default()) {
            let name = format!("{}:", self.slice(it.key.span()));
            self.edits.open(it.span.start as usize, name);
        }
        self.visit_expression(&it.value);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::Identifier(name) = it.callee.get_inner_expression()
            && name.name == "eval"
        {
            // Code from a string must not see the counter's name. No program can declare `eval`.
            self.edits.open(name.span.start as usize, "globalThis.");
        }
        let assignments = self.after_super.clone().filter(|_| matches!(it.callee, Expression::Super(_)));
        if assignments.is_some() {
            self.edits.open(it.span.start as usize, "(");
        }
        walk::walk_call_expression(self, it);
        if let Some(assignments) = assignments {
            self.edits.close(it.span.end as usize, format!("{assignments},this)"));
        }
    }

    fn visit_super(&mut self, it: &Super) {
        if !self.place.super_property {
            self.findings.invalid("`super` can only be used in methods and constructors", it.span.start);
        }
    }

    fn visit_new_target(&mut self, it: &NewTarget) {
        if !self.place.new_target {
            self.findings.invalid("`new.target` can only be used in functions", it.span.start);
        }
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase(it.expression.span().end, it.span.end, "");
        self.separate(it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase(it.expression.span().end, it.span.end, "");
        self.separate(it.span.end);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.edits.blank(it.expression.span().end as usize, it.span.end as usize);
    }

    /// `<A>b` → `( b)`: what follows may have to be on this line, and may look like the start of a statement.
    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.erase(it.span.start, it.expression.span().start, "(");
        self.visit_expression(&it.expression);
        self.edits.close(it.expression.span().end as usize, ")");
    }

    // Types.

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.erase(it.span.start, it.span.end, "");
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.erase(it.span.start, it.span.end, "");
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.erase(it.span.start, it.span.end, "");
    }

    fn visit_ts_type(&mut self, _: &TSType<'a>) {}

    // The parser does not read these.

    fn visit_jsx_element(&mut self, _: &JSXElement<'a>) {}

    fn visit_jsx_fragment(&mut self, _: &JSXFragment<'a>) {}

    // Modules.

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        self.findings.add(Finding::Import, it.span.start);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.findings.add(Finding::Import, it.span.start);
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        self.findings.add(Finding::Import, it.span.start);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        self.findings.add(Finding::Import, it.span.start);
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.findings.add(Finding::DynamicImport, it.span.start);
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.findings.add(Finding::ImportMeta, it.span.start);
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        self.findings.add(Finding::NamedExport, it.span.start);
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        self.findings.add(Finding::NamedExport, it.span.start);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.findings.add(Finding::NamedExport, it.span.start);
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.findings.add(Finding::NamedExport, it.span.start);
    }

    /// At the top level it is no statement; the parser accepts it behind a label.
    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        self.findings.invalid(INNER_DEFAULT, it.span.start);
    }
}
