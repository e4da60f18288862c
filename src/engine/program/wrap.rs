//! Turns the statements of a program into one function that returns the program's value.

use oxc_allocator::{Allocator, ArenaBox, ArenaVec, TakeIn};
use oxc_ast::ast::{
    ArrowFunctionBody, BinaryOperator, BindingPattern, Class, ExportDefaultDeclaration, ExportDefaultDeclarationKind,
    Expression, FormalParameter, FormalParameterKind, FormalParameters, Function, FunctionType, Program,
    ReturnStatement, Statement, UnaryOperator, VariableDeclarationKind, VariableDeclarator,
};
use oxc_ast::builder::AstBuilder;
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, SPAN, Span};
use oxc_syntax::scope::ScopeFlags;

/// Says what the program returns: makes `return` statements of what it means to return.
///
/// - `export default` of a function: the function is called at the end. Of something else: the value.
/// - A single function, however it is written: it is called.
/// - A last statement that is an expression, in a program without `return`: its value.
///
/// `false` if there is no statement at all.
pub(super) fn return_value<'a>(program: &mut Program<'a>, name: &'a str, allocator: &'a Allocator) -> bool {
    let builder = AstBuilder::new(allocator);
    let wrapper = Wrapper { builder };
    let mut body = program.body.take_in(&wrapper.builder);
    // The transformer leaves `export {}` where it removed the last export; others were refused.
    body.retain(|statement| !matches!(statement, Statement::EmptyStatement(_) | Statement::ExportNamedDeclaration(_)));
    let directive = program.directives.pop();
    program.directives.clear();
    if let Some(directive) = directive.filter(|_| body.is_empty()) {
        // A program that is one string.
        let text = ArenaBox::new_in(directive.expression, &wrapper.builder);
        body.push(wrapper.return_statement(directive.span, Expression::StringLiteral(text)));
    } else if !wrapper.return_default(&mut body, name) && !wrapper.call_single(&mut body) {
        wrapper.return_last(&mut body);
    }
    let has_statements = !body.is_empty();
    program.body = body;
    has_statements
}

/// `statements` → `export default (counter) => async () => { statements };`
pub(super) fn wrap<'a>(program: &mut Program<'a>, counter: &'a str, allocator: &'a Allocator) {
    let builder = AstBuilder::new(allocator);
    let wrapper = Wrapper { builder };
    let statements = program.body.take_in(&wrapper.builder);
    let body = ArrowFunctionBody::new_function_body(SPAN, [], statements, &wrapper.builder);
    let program_function = wrapper.arrow(true, None, body);
    let factory = wrapper.arrow(false, Some(counter), ArrowFunctionBody::from(program_function));
    let declaration = ExportDefaultDeclarationKind::from(factory);
    let export = ExportDefaultDeclaration::boxed(SPAN, declaration, &wrapper.builder);
    program.body.push(Statement::ExportDefaultDeclaration(export));
}

struct Wrapper<'a> {
    builder: AstBuilder<'a>,
}

impl<'a> Wrapper<'a> {
    fn return_statement(&self, span: Span, value: Expression<'a>) -> Statement<'a> {
        Statement::new_return_statement(span, Some(value), &self.builder)
    }

    fn call(&self, callee: Expression<'a>) -> Expression<'a> {
        Expression::new_call_expression(callee.span(), callee, None, [], false, &self.builder)
    }

    /// The last statement of a program whose `export default` or single statement is `callee`.
    fn return_call(&self, callee: Expression<'a>) -> Statement<'a> {
        self.return_statement(callee.span(), self.call(callee))
    }

    /// Replaces `export default`. `name` is free for its value. `false` if there is none.
    fn return_default(&self, body: &mut ArenaVec<'a, Statement<'a>>, name: &'a str) -> bool {
        let is_default = |statement: &Statement<'a>| matches!(statement, Statement::ExportDefaultDeclaration(_));
        let Some(position) = body.iter().position(is_default) else { return false };
        let Statement::ExportDefaultDeclaration(export) = body.remove(position) else {
            return false;
        };
        let export = export.unbox();
        if let ExportDefaultDeclarationKind::FunctionDeclaration(mut function) = export.declaration {
            if let Some(id) = &function.id {
                let callee = Expression::new_identifier(id.span, id.name, &self.builder);
                body.insert(position, Statement::FunctionDeclaration(function));
                body.push(self.return_call(callee));
            } else {
                function.r#type = FunctionType::FunctionExpression;
                body.push(self.return_call(Expression::FunctionExpression(function)));
            }
        } else if let Ok(value) = Expression::try_from(export.declaration) {
            if value.is_function() {
                body.push(self.return_call(value));
            } else {
                body.insert(position, self.constant(export.span, name, value));
                body.push(self.return_function_or_value(export.span, name));
            }
        }
        true
    }

    /// `const name = value;`
    fn constant(&self, span: Span, name: &'a str, value: Expression<'a>) -> Statement<'a> {
        let builder = &self.builder;
        let pattern = BindingPattern::new_binding_identifier(SPAN, name, builder);
        let declarator = VariableDeclarator::new(span, pattern, None, Some(value), false, builder);
        let kind = VariableDeclarationKind::Const;
        Statement::new_variable_declaration(span, kind, [declarator], false, builder)
    }

    /// `return typeof name === "function" ? name() : name;`
    fn return_function_or_value(&self, span: Span, name: &'a str) -> Statement<'a> {
        let builder = &self.builder;
        let read = || Expression::new_identifier(span, name, builder);
        let kind = Expression::new_unary_expression(span, UnaryOperator::Typeof, read(), builder);
        let function = Expression::new_string_literal(SPAN, "function", None, builder);
        let equal = BinaryOperator::StrictEquality;
        let test = Expression::new_binary_expression(span, kind, equal, function, builder);
        let value = Expression::new_conditional_expression(span, test, self.call(read()), read(), builder);
        self.return_statement(span, value)
    }

    /// Calls the function if one is all that the program declares.
    fn call_single(&self, body: &mut ArenaVec<'a, Statement<'a>>) -> bool {
        let [statement] = body.as_slice() else { return false };
        let id = if let Statement::FunctionDeclaration(function) = statement {
            function.id.as_ref()
        } else if let Statement::VariableDeclaration(declaration) = statement
            && let [declarator] = declaration.declarations.as_slice()
            && declarator.init.as_ref().is_some_and(Expression::is_function)
            && let BindingPattern::BindingIdentifier(id) = &declarator.id
        {
            Some(&**id)
        } else {
            None
        };
        let Some(id) = id else { return false };
        let callee = Expression::new_identifier(id.span, id.name, &self.builder);
        body.push(self.return_call(callee));
        true
    }

    /// Returns the value of the last statement if it is an expression. Functions that are declared
    /// after it do not count: they exist from the start.
    fn return_last(&self, body: &mut ArenaVec<'a, Statement<'a>>) {
        if returns(body) {
            return;
        }
        let last = body.iter_mut().rfind(|statement| !matches!(statement, Statement::FunctionDeclaration(_)));
        if let Some(statement) = last
            && let Statement::ExpressionStatement(expression) = statement
        {
            let span = expression.span;
            let value = expression.expression.take_in(&self.builder);
            *statement = if value.is_function() { self.return_call(value) } else { self.return_statement(span, value) };
        }
    }

    fn arrow(&self, r#async: bool, parameter: Option<&'a str>, body: ArrowFunctionBody<'a>) -> Expression<'a> {
        let builder = &self.builder;
        let mut parameters = ArenaVec::new_in(builder);
        parameters.extend(parameter.map(|name| {
            let pattern = BindingPattern::new_binding_identifier(SPAN, name, builder);
            FormalParameter::new_plain(SPAN, pattern, builder)
        }));
        let kind = FormalParameterKind::ArrowFormalParameters;
        let parameters = FormalParameters::boxed(SPAN, kind, parameters, None, builder);
        Expression::new_arrow_function_expression(SPAN, r#async, None, parameters, None, body, builder)
    }
}

/// Whether one of the statements returns from the program.
fn returns(body: &[Statement<'_>]) -> bool {
    let mut finder = ReturnFinder { found: false };
    for statement in body {
        finder.visit_statement(statement);
    }
    finder.found
}

struct ReturnFinder {
    found: bool,
}

impl<'a> Visit<'a> for ReturnFinder {
    fn visit_return_statement(&mut self, _: &ReturnStatement<'a>) {
        self.found = true;
    }

    // What these hold does not return from the program.

    fn visit_expression(&mut self, _: &Expression<'a>) {}

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_class(&mut self, _: &Class<'a>) {}
}
