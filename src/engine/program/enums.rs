//! Enums become objects, as the TypeScript compiler makes them: a number also gives its member's name.
//!
//! `enum A { B, C = 'c' }` → `const A={};[A[A["B"]=0]="B",A["C"]= 'c'];`: assignments in a list, so that the commas and
//! the values stay where they are, and each value may refer to the members before it.

use std::collections::HashMap;

use oxc_ast::ast::{
    BinaryOperator, Expression, IdentifierReference, TSEnumDeclaration, TSEnumMember, TSEnumMemberName,
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;
use oxc_syntax::operator::UnaryOperator;

use super::scopes::Declared;
use super::stripper::{Initializer, Stripper};

/// What the member after a member has as its value if it has no initialiser.
enum Next {
    Number(f64),
    /// One more than this member, by its key.
    After(String),
    /// It needs one.
    Missing,
}

impl<'a> Stripper<'a, '_> {
    /// An enum that is not only declared.
    pub(super) fn lower_enum(&mut self, it: &TSEnumDeclaration<'a>) {
        self.declare(&it.id, Declared::Enum);
        let name = it.id.name.as_str();
        let is_new = self.scopes.enum_members(name).is_none();
        // All members have short names in all values, those of the enum's other declarations, too.
        let members = it.body.members.iter().filter_map(|member| Some((member_name(&member.id)?, false)));
        self.scopes.add_enum(name, members.collect());
        let written = self.slice(it.id.span).to_owned();
        let head = if is_new { format!("const {written}={{}};[") } else { ";[".to_owned() };
        self.edits.replace(it.span.start as usize, it.body.span.start as usize + 1, head);
        let mut next = Next::Number(0.0);
        for member in &it.body.members {
            next = self.lower_member(member, name, &written, &next);
        }
        let end = it.body.span.end as usize;
        self.edits.replace(end.saturating_sub(1), end, "];");
    }

    /// `written` is the enum's name as the program writes it.
    fn lower_member(&mut self, it: &TSEnumMember<'a>, name: &'a str, written: &str, next: &Next) -> Next {
        let key = match &it.id {
            TSEnumMemberName::Identifier(id) => format!("\"{}\"", id.name),
            TSEnumMemberName::String(_)
            | TSEnumMemberName::ComputedString(_)
            | TSEnumMemberName::ComputedTemplateString(_) => self.slice(it.id.span()).to_owned(),
        };
        let start = it.span.start as usize;
        let Some(value) = &it.initializer else {
            let number = match next {
                Next::Number(number) => number.to_string(),
                Next::After(before) => format!("{written}[{before}]+1"),
                Next::Missing => {
                    self.findings
                        .invalid("this enum member needs a value, because the one before is text", it.span.start);
                    return Next::Missing;
                }
            };
            self.edits.replace(start, it.span.end as usize, format!("{written}[{written}[{key}]={number}]={key}"));
            return if let Next::Number(number) = next { Next::Number(number + 1.0) } else { Next::After(key) };
        };
        let is_text = self.is_text(value, name);
        let (before, after) = if is_text { ("", String::new()) } else { (&*format!("{written}["), format!("]={key}")) };
        let span = value.span();
        self.edits.replace(start, span.start as usize, format!("{before}{written}[{key}]="));
        let outer = self.initializer.replace(Initializer { name, depth: self.scopes.depth() });
        self.visit_expression(value);
        self.initializer = outer;
        self.edits.close(span.end as usize, after);
        if is_text {
            let known = member_name(&it.id).map(|member| (member, true));
            self.scopes.add_enum(name, known.into_iter().collect::<HashMap<_, _>>());
            return Next::Missing;
        }
        number(value).map_or(Next::After(key), |number| Next::Number(number + 1.0))
    }

    /// Whether a value is a text, so that it does not give its member's name.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other values are taken for numbers")]
    fn is_text(&self, value: &Expression<'a>, name: &str) -> bool {
        match value.get_inner_expression() {
            Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => true,
            Expression::BinaryExpression(sum) => {
                sum.operator == BinaryOperator::Addition
                    && (self.is_text(&sum.left, name) || self.is_text(&sum.right, name))
            }
            Expression::Identifier(member) => self.scopes.is_text(name, &member.name),
            Expression::StaticMemberExpression(member) => {
                matches!(&member.object, Expression::Identifier(object)
                    if self.scopes.is_text(&object.name, &member.property.name))
            }
            Expression::ComputedMemberExpression(member) => {
                matches!((&member.object, &member.expression), (Expression::Identifier(object), Expression::StringLiteral(key))
                    if self.scopes.is_text(&object.name, &key.value))
            }
            _ => false,
        }
    }

    /// Whether a name means a member of the enum whose value is visited.
    pub(super) fn is_enum_member(&self, name: &str) -> bool {
        self.initializer.is_some_and(|initializer| {
            self.scopes.enum_members_at(initializer.depth, initializer.name, name)
                && !self.scopes.is_declared_inside(initializer.depth, name)
        })
    }

    /// `B` → `A.B` in the value of a member of `A`.
    pub(super) fn qualify_member(&mut self, it: &IdentifierReference<'a>) {
        if self.is_enum_member(&it.name)
            && let Some(initializer) = self.initializer
        {
            self.edits.open(it.span.start as usize, format!("{}.", initializer.name));
        }
    }
}

fn member_name<'a>(id: &TSEnumMemberName<'a>) -> Option<&'a str> {
    match id {
        TSEnumMemberName::Identifier(name) => Some(name.name.as_str()),
        TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => Some(name.value.as_str()),
        TSEnumMemberName::ComputedTemplateString(_) => None,
    }
}

/// A value that is known without running it.
fn number(value: &Expression<'_>) -> Option<f64> {
    if let Expression::NumericLiteral(literal) = value {
        return Some(literal.value);
    }
    let Expression::UnaryExpression(unary) = value else { return None };
    let Expression::NumericLiteral(literal) = &unary.argument else { return None };
    (unary.operator == UnaryOperator::UnaryNegation).then_some(-literal.value)
}
