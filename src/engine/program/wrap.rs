//! Turns the statements of a program into the body of one function that returns the program's value.

use oxc_ast::ast::{
    BindingPattern, ExportDefaultDeclaration, ExportDefaultDeclarationKind, Expression, Program, Statement,
};
use oxc_span::{GetSpan, Span};

use super::edits::Edits;

/// What is written into a program so that it returns its value.
#[derive(Debug, Default)]
pub(super) struct Plan {
    opened: Option<(Span, String)>,
    closed: Option<(usize, &'static str)>,
    /// The last statement, and the byte that it belongs to.
    pub(super) tail: Option<(usize, String)>,
}

impl Plan {
    /// Says what the program returns.
    ///
    /// - `export default` of a function: the function is called at the end. Of something else: the value.
    /// - A single function, however it is written: it is called.
    /// - A last statement that is an expression, in a program without `return`: its value.
    ///
    /// `name` is free for the value of `export default`. `None` if there is no statement at all.
    pub(super) fn of(program: &Program<'_>, text: &str, name: &str) -> Option<Self> {
        let statements: Vec<&Statement<'_>> = program.body.iter().filter(|statement| !is_nothing(statement)).collect();
        if statements.is_empty() {
            // A program that is one string.
            let directive = program.directives.last()?;
            return Some(Self::opening(directive.span, "return "));
        }
        let export = statements.iter().find_map(|statement| {
            if let Statement::ExportDefaultDeclaration(export) = statement { Some(export) } else { None }
        });
        Some(if let Some(export) = export {
            Self::default_export(export, text, name)
        } else if let Some(function) = single_function(&statements) {
            Self { tail: Some((function.start as usize, call(slice(text, function)))), ..Self::default() }
        } else if program.body.iter().any(returns) {
            Self::default()
        } else {
            Self::last_expression(&statements)
        })
    }

    fn opening(span: Span, text: &str) -> Self {
        let start = Span::new(span.start, span.start);
        Self { opened: Some((start, text.to_owned())), ..Self::default() }
    }

    /// `export default` of a function with a name: blanked; of anything else: a constant.
    fn default_export(export: &ExportDefaultDeclaration<'_>, text: &str, name: &str) -> Self {
        let declaration = export.declaration.span();
        let keywords = Span::new(export.span.start, declaration.start);
        if let ExportDefaultDeclarationKind::FunctionDeclaration(function) = &export.declaration
            && let Some(id) = &function.id
        {
            let tail = Some((id.span.start as usize, call(slice(text, id.span))));
            return Self { opened: Some((keywords, String::new())), closed: None, tail };
        }
        let is_function = matches!(&export.declaration, ExportDefaultDeclarationKind::FunctionDeclaration(_))
            || export.declaration.as_expression().is_some_and(is_function);
        let tail =
            if is_function { call(name) } else { format!("return typeof {name}===\"function\"?{name}():{name};") };
        Self {
            opened: Some((keywords, format!("const {name}="))),
            closed: Some((declaration.end as usize, ";")),
            tail: Some((declaration.start as usize, tail)),
        }
    }

    /// Functions that are declared after the last expression do not count: they exist from the start.
    fn last_expression(statements: &[&Statement<'_>]) -> Self {
        let last = statements.iter().rfind(|statement| !matches!(statement, Statement::FunctionDeclaration(_)));
        let Some(Statement::ExpressionStatement(statement)) = last else { return Self::default() };
        let span = statement.expression.span();
        if !is_function(&statement.expression) {
            return Self::opening(span, "return ");
        }
        Self { closed: Some((span.end as usize, ")()")), ..Self::opening(span, "return (") }
    }

    /// Adds what stands outside of all other changes.
    pub(super) fn open(&self, edits: &mut Edits) {
        if let Some((span, text)) = &self.opened {
            edits.replace(span.start as usize, span.end as usize, text.clone());
        }
    }

    /// Adds what follows all other changes.
    pub(super) fn close(&self, edits: &mut Edits) {
        if let Some((end, text)) = self.closed {
            edits.close(end, text);
        }
    }
}

fn slice(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or_default()
}

fn call(name: &str) -> String {
    format!("return {name}();")
}

fn is_function(expression: &Expression<'_>) -> bool {
    expression.get_inner_expression().is_function()
}

/// The name of the function that is all that the program declares.
fn single_function(statements: &[&Statement<'_>]) -> Option<Span> {
    let [statement] = statements else { return None };
    if let Statement::FunctionDeclaration(function) = statement {
        return function.id.as_ref().map(|id| id.span);
    }
    let Statement::VariableDeclaration(declaration) = statement else { return None };
    let [declarator] = declaration.declarations.as_slice() else { return None };
    let BindingPattern::BindingIdentifier(id) = &declarator.id else { return None };
    declarator.init.as_ref().is_some_and(is_function).then_some(id.span)
}

/// Whether a statement has a meaning for TypeScript only.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other statements do something")]
pub(super) fn is_type(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::TSTypeAliasDeclaration(_) | Statement::TSInterfaceDeclaration(_) => true,
        Statement::VariableDeclaration(declaration) => declaration.declare,
        Statement::FunctionDeclaration(function) => function.declare || function.body.is_none(),
        Statement::ClassDeclaration(class) => class.declare,
        Statement::TSEnumDeclaration(declaration) => declaration.declare,
        Statement::TSNamespaceDeclaration(declaration) => declaration.declare,
        Statement::TSExternalModuleDeclaration(declaration) => declaration.declare,
        Statement::TSGlobalDeclaration(declaration) => declaration.declare,
        Statement::ExportDefaultDeclaration(export) => match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => function.body.is_none(),
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether nothing is left of a statement.
fn is_nothing(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::EmptyStatement(_) | Statement::DebuggerStatement(_)) || is_type(statement)
}

/// Whether a statement returns from the program.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other statement holds statements of the same function")]
fn returns(statement: &Statement<'_>) -> bool {
    let any = |statements: &[Statement<'_>]| statements.iter().any(returns);
    match statement {
        Statement::ReturnStatement(_) => true,
        Statement::BlockStatement(block) => any(&block.body),
        Statement::IfStatement(branch) => returns(&branch.consequent) || branch.alternate.as_ref().is_some_and(returns),
        Statement::ForStatement(statement) => returns(&statement.body),
        Statement::ForInStatement(statement) => returns(&statement.body),
        Statement::ForOfStatement(statement) => returns(&statement.body),
        Statement::WhileStatement(statement) => returns(&statement.body),
        Statement::DoWhileStatement(statement) => returns(&statement.body),
        Statement::LabeledStatement(statement) => returns(&statement.body),
        Statement::SwitchStatement(switch) => switch.cases.iter().any(|case| any(&case.consequent)),
        Statement::TryStatement(statement) => {
            any(&statement.block.body)
                || statement.handler.as_ref().is_some_and(|handler| any(&handler.body.body))
                || statement.finalizer.as_ref().is_some_and(|finalizer| any(&finalizer.body))
        }
        _ => false,
    }
}
