//! Functions: their types, and the call of the fuel counter at their entry.
//!
//! Recursion that passes no function entry is counted at class fields, static blocks, and the parameters of generators
//! (their body does not run when they are called). Built-in functions that loop are not counted.

use oxc_ast::ast::{
    ArrowFunctionBody, ArrowFunctionExpression, Expression, FormalParameter, FormalParameters, Function, FunctionBody,
    FunctionType,
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;

use super::scan;
use super::scopes::{Declared, ScopeKind};
use super::stripper::{Place, Stripper};

/// Modifiers of class members and of constructor parameters that only TypeScript knows.
const MODIFIERS: [&str; 7] = ["public", "private", "protected", "readonly", "override", "abstract", "declare"];

impl<'a> Stripper<'a, '_> {
    /// A function with a body.
    pub(super) fn strip_function(&mut self, it: &Function<'a>) {
        if it.r#type == FunctionType::FunctionDeclaration
            && let Some(id) = &it.id
        {
            let hoisted = self.scopes.is_function();
            self.declare(id, if hoisted { Declared::Var } else { Declared::Lexical });
        }
        let super_property = std::mem::take(&mut self.is_method);
        let assigned = self.assigned.take();
        let after_super = self.after_super.take_if(|_| !super_property);
        self.in_place(Place { new_target: true, super_property, generator_parameters: it.generator }, |stripper| {
            stripper.scopes.enter(ScopeKind::Function);
            if let Some(types) = &it.type_parameters {
                stripper.visit_ts_type_parameter_declaration(types);
            }
            if let Some(this) = &it.this_param {
                let comma = scan::find(stripper.text, this.span.end as usize, ',');
                let end = comma.map_or(this.span.end, |comma| super::stripper::count(comma + 1));
                stripper.erase(this.span.start, end, "");
            }
            stripper.strip_parameters(&it.params);
            stripper.place.generator_parameters = false;
            if let Some(types) = &it.return_type {
                stripper.visit_ts_type_annotation(types);
            }
            if let Some(body) = &it.body {
                stripper.strip_body(body, &assigned.unwrap_or_default());
            }
            stripper.scopes.leave();
        });
        if after_super.is_some() {
            self.after_super = after_super;
        }
    }

    /// A body in braces; `first` is what it does before all else.
    fn strip_body(&mut self, body: &FunctionBody<'a>, first: &str) {
        let call = format!("{}();{first}", self.counter);
        match body.directives.last() {
            Some(directive) => self.edits.close(directive.span.end as usize, format!(";{call}")),
            None => self.edits.open(body.span.start as usize + 1, call),
        }
        for statement in &body.statements {
            self.visit_statement(statement);
        }
    }

    pub(super) fn strip_arrow(&mut self, it: &ArrowFunctionExpression<'a>) {
        let place = Place { generator_parameters: false, ..self.place };
        self.in_place(place, |stripper| {
            stripper.scopes.enter(ScopeKind::Function);
            stripper.strip_arrow_head(it);
            if let ArrowFunctionBody::FunctionBody(body) = &it.body {
                stripper.strip_body(body, "");
            } else if let Some(value) = it.body.as_expression() {
                // `x => e` → `x => {$fuel();return e}`
                let span = value.span();
                stripper.edits.open(span.start as usize, format!("{{{}();return ", stripper.counter));
                stripper.visit_expression(value);
                stripper.edits.close(span.end as usize, "}");
            }
            stripper.scopes.leave();
        });
    }

    /// The parameters and types of an arrow function. No line may end before its arrow, nor between `async` and the
    /// parameters, so brackets move over the lines of a type.
    fn strip_arrow_head(&mut self, it: &ArrowFunctionExpression<'a>) {
        let parameters = it.params.span;
        if let Some(types) = &it.type_parameters {
            let lines = scan::has_line_end(self.text, types.span.start as usize, parameters.start as usize);
            self.erase(types.span.start, types.span.end, if lines { "(" } else { "" });
            if lines {
                self.edits.blank(parameters.start as usize, parameters.start as usize + 1);
            }
        }
        self.strip_parameters(&it.params);
        if let Some(types) = &it.return_type {
            let lines = scan::has_line_end(self.text, parameters.end as usize, types.span.end as usize);
            if lines {
                self.edits.blank(parameters.end as usize - 1, parameters.end as usize);
            }
            self.erase(types.span.start, types.span.end, "");
            if lines {
                self.edits.close(types.span.end as usize, ")");
            }
        }
    }

    pub(super) fn strip_parameters(&mut self, it: &FormalParameters<'a>) {
        for parameter in &it.items {
            self.strip_parameter(parameter);
        }
        if let Some(rest) = &it.rest {
            self.declared = Some(Declared::Parameter);
            self.visit_binding_pattern(&rest.rest.argument);
            if let Some(types) = &rest.type_annotation {
                self.visit_ts_type_annotation(types);
            }
        }
        self.declared = None;
    }

    fn strip_parameter(&mut self, it: &FormalParameter<'a>) {
        let start = it.pattern.span().start;
        self.erase_modifiers(it.span.start, start, "");
        self.declared = Some(Declared::Parameter);
        self.visit_binding_pattern(&it.pattern);
        self.declared = None;
        if it.optional {
            self.erase_mark(it.pattern.span().end, &['?']);
        }
        if let Some(types) = &it.type_annotation {
            self.visit_ts_type_annotation(types);
        }
        if let Some(initializer) = &it.initializer {
            self.count_generator_part(initializer);
        }
    }

    /// Blanks modifiers; `first` is written where the first one began, if nothing stands before it.
    pub(super) fn erase_modifiers(&mut self, start: u32, end: u32, first: &'static str) {
        let (mut position, end) = (start as usize, end as usize);
        while position < end {
            let word = scan::word(self.text, position);
            if word.is_empty() {
                break;
            }
            let next = position + word.len();
            if MODIFIERS.contains(&word) {
                self.edits.replace(position, next, if position == start as usize { first } else { "" });
            }
            position = scan::skip_trivia(self.text, next);
        }
    }

    /// An expression in the parameters of a function, which is counted if that is a generator.
    pub(super) fn count_generator_part(&mut self, expression: &Expression<'a>) {
        if self.place.generator_parameters {
            self.count_expression(expression);
        } else {
            self.visit_expression(expression);
        }
    }

    /// `expression` → `($fuel(),expression)`, unless evaluating it runs no code of the program.
    /// (A function keeps the name that it gets from its place this way.)
    pub(super) fn count_expression(&mut self, expression: &Expression<'a>) {
        let inner = expression.get_inner_expression();
        if inner.is_literal() || inner.is_function() {
            return self.visit_expression(expression);
        }
        let span = expression.span();
        self.edits.open(span.start as usize, format!("({}(),", self.counter));
        self.visit_expression(expression);
        self.edits.close(span.end as usize, ")");
    }
}
