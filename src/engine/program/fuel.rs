//! Inserts a call of the fuel counter wherever a program can run for ever.
//!
//! Counted are the entry of each function and each turn of each loop. Recursion that passes no
//! function entry is counted at class fields, static blocks, and the parameters of generators
//! (their body does not run when they are called). Built-in functions that loop are not counted.

use oxc_allocator::{Allocator, TakeIn};
use oxc_ast::ast::{
    ArrowFunctionBody, ArrowFunctionExpression, AssignmentPattern, BindingProperty, CallExpression, DoWhileStatement,
    Expression, ForInStatement, ForOfStatement, ForStatement, FormalParameter, Function, FunctionBody, NumberBase,
    Program, PropertyDefinition, Statement, StaticBlock, WhileStatement,
};
use oxc_ast::builder::AstBuilder;
use oxc_ast_visit::{VisitMut, walk_mut};
use oxc_span::{GetSpan, SPAN, Span};
use oxc_syntax::scope::ScopeFlags;

/// Inserts calls of `counter`, a name that the program does not use.
pub(super) fn insert_fuel<'a>(program: &mut Program<'a>, counter: &'a str, allocator: &'a Allocator) {
    let builder = AstBuilder::new(allocator);
    Fuel { counter, builder, in_generator_parameters: false }.visit_program(program);
}

struct Fuel<'a> {
    counter: &'a str,
    builder: AstBuilder<'a>,
    in_generator_parameters: bool,
}

impl<'a> Fuel<'a> {
    /// `$fuel()`; errors that it throws belong to the source line of `span`.
    fn call(&self, span: Span) -> Expression<'a> {
        let callee = Expression::new_identifier(SPAN, self.counter, &self.builder);
        Expression::new_call_expression(span, callee, None, [], false, &self.builder)
    }

    /// `$fuel();`
    fn statement(&self, span: Span) -> Statement<'a> {
        Statement::new_expression_statement(span, self.call(span), &self.builder)
    }

    /// `expression` → `($fuel(), expression)`, unless evaluating it runs no code of the program.
    /// (A function keeps the name that it gets from its place this way.)
    fn count_expression(&self, expression: &mut Expression<'a>) {
        if expression.is_literal() || expression.is_function() {
            return;
        }
        let span = expression.span();
        let value = expression.take_in(&self.builder);
        *expression = Expression::new_sequence_expression(span, [self.call(span), value], &self.builder);
    }

    /// A loop's body → `{ $fuel(); body }`
    fn count_loop(&self, body: &mut Statement<'a>, span: Span) {
        let call = self.statement(span);
        if let Statement::BlockStatement(block) = body {
            block.body.insert(0, call);
            return;
        }
        let span = body.span();
        let statement = body.take_in(&self.builder);
        *body = Statement::new_block_statement(span, [call, statement], &self.builder);
    }

    fn count_body(&self, body: &mut FunctionBody<'a>, span: Span) {
        body.statements.insert(0, self.statement(span));
    }
}

impl<'a> VisitMut<'a> for Fuel<'a> {
    fn visit_function(&mut self, it: &mut Function<'a>, flags: ScopeFlags) {
        let outer = std::mem::replace(&mut self.in_generator_parameters, false);
        if it.generator {
            self.in_generator_parameters = true;
            self.visit_formal_parameters(&mut it.params);
            self.in_generator_parameters = false;
            if let Some(body) = &mut it.body {
                self.visit_function_body(body);
            }
        } else {
            walk_mut::walk_function(self, it, flags);
        }
        self.in_generator_parameters = outer;
        let span = it.span;
        if let Some(body) = &mut it.body {
            self.count_body(body, span);
        }
    }

    fn visit_arrow_function_expression(&mut self, it: &mut ArrowFunctionExpression<'a>) {
        let outer = std::mem::replace(&mut self.in_generator_parameters, false);
        walk_mut::walk_arrow_function_expression(self, it);
        self.in_generator_parameters = outer;
        let span = it.span;
        if let ArrowFunctionBody::FunctionBody(body) = &mut it.body {
            self.count_body(body, span);
        } else if let Some(value) = it.body.as_expression_mut() {
            // `x => e` → `x => { $fuel(); return e; }`
            let value_span = value.span();
            let value = value.take_in(&self.builder);
            let result = Statement::new_return_statement(value_span, Some(value), &self.builder);
            let statements = [self.statement(span), result];
            it.body = ArrowFunctionBody::new_function_body(value_span, [], statements, &self.builder);
        }
    }

    fn visit_formal_parameter(&mut self, it: &mut FormalParameter<'a>) {
        walk_mut::walk_formal_parameter(self, it);
        if let Some(initializer) = it.initializer.as_deref_mut()
            && self.in_generator_parameters
        {
            self.count_expression(initializer);
        }
    }

    fn visit_assignment_pattern(&mut self, it: &mut AssignmentPattern<'a>) {
        walk_mut::walk_assignment_pattern(self, it);
        if self.in_generator_parameters {
            self.count_expression(&mut it.right);
        }
    }

    fn visit_binding_property(&mut self, it: &mut BindingProperty<'a>) {
        walk_mut::walk_binding_property(self, it);
        if self.in_generator_parameters
            && it.computed
            && let Some(key) = it.key.as_expression_mut()
        {
            self.count_expression(key);
        }
    }

    fn visit_property_definition(&mut self, it: &mut PropertyDefinition<'a>) {
        walk_mut::walk_property_definition(self, it);
        if let Some(value) = &mut it.value {
            self.count_expression(value);
        }
    }

    fn visit_static_block(&mut self, it: &mut StaticBlock<'a>) {
        walk_mut::walk_static_block(self, it);
        it.body.insert(0, self.statement(it.span));
    }

    fn visit_for_statement(&mut self, it: &mut ForStatement<'a>) {
        walk_mut::walk_for_statement(self, it);
        self.count_loop(&mut it.body, it.span);
    }

    fn visit_for_in_statement(&mut self, it: &mut ForInStatement<'a>) {
        walk_mut::walk_for_in_statement(self, it);
        self.count_loop(&mut it.body, it.span);
    }

    fn visit_for_of_statement(&mut self, it: &mut ForOfStatement<'a>) {
        walk_mut::walk_for_of_statement(self, it);
        self.count_loop(&mut it.body, it.span);
    }

    fn visit_while_statement(&mut self, it: &mut WhileStatement<'a>) {
        walk_mut::walk_while_statement(self, it);
        self.count_loop(&mut it.body, it.span);
    }

    fn visit_do_while_statement(&mut self, it: &mut DoWhileStatement<'a>) {
        walk_mut::walk_do_while_statement(self, it);
        self.count_loop(&mut it.body, it.span);
    }

    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        walk_mut::walk_statement(self, it);
        // It would stop a sandbox that is being inspected.
        if let Statement::DebuggerStatement(debugger) = it {
            *it = Statement::new_empty_statement(debugger.span, &self.builder);
        }
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        walk_mut::walk_call_expression(self, it);
        // `eval(…)` → `(0, eval)(…)`: code from a string must not see the counter's name.
        if it.callee.is_specific_id("eval") {
            let span = it.callee.span();
            let zero = NumberBase::Decimal;
            let zero = Expression::new_numeric_literal(SPAN, 0.0, None, zero, &self.builder);
            let callee = it.callee.take_in(&self.builder);
            it.callee = Expression::new_sequence_expression(span, [zero, callee], &self.builder);
        }
    }
}
