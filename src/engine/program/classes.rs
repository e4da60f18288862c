//! Classes: what only TypeScript knows of them, and parameter properties.

use oxc_ast::ast::{
    BindingPattern, Class, ClassElement, ClassType, FormalParameter, MethodDefinition, MethodDefinitionKind,
    MethodDefinitionType, PropertyDefinition, PropertyDefinitionType, StaticBlock,
};
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

use super::error::Construct;
use super::finding::Finding;
use super::scan;
use super::scopes::{Declared, ScopeKind};
use super::stripper::{Place, Stripper};

/// What a class element allows outside of functions of its own.
const ELEMENT: Place = Place { new_target: true, super_property: true, generator_parameters: false };

impl<'a> Stripper<'a, '_> {
    pub(super) fn strip_class(&mut self, it: &Class<'a>) {
        match &it.id {
            _ if it.r#type == ClassType::ClassExpression => {}
            Some(id) => self.declare(id, Declared::Lexical),
            None => self.findings.invalid("a class that is a statement needs a name", it.span.start),
        }
        self.erase_modifiers(it.span.start, it.body.span.start, "");
        let after_super = self.after_super.take();
        self.scopes.enter(ScopeKind::Block);
        let class = scan::skip_modifiers(self.text, it.span.start as usize);
        let mut end = it.id.as_ref().map_or(super::stripper::count(class + "class".len()), |id| id.span.end);
        if let Some(types) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(types);
            end = types.span.end;
        }
        if let Some(heritage) = &it.heritage {
            self.visit_expression(&heritage.expression);
            end = heritage.expression.span().end;
            if let Some(types) = &heritage.type_arguments {
                self.visit_ts_type_parameter_instantiation(types);
                end = types.span.end;
            }
        }
        if !it.implements.is_empty() {
            self.erase(end, it.body.span.start, "");
        }
        self.strip_elements(it);
        self.scopes.leave();
        self.after_super = after_super;
    }

    fn strip_elements(&mut self, it: &Class<'a>) {
        let mut names = Vec::new();
        for element in &it.body.body {
            if let ClassElement::MethodDefinition(method) = element {
                names.extend(self.property_names(method));
            }
        }
        if !names.is_empty() {
            self.edits.open(it.body.span.start as usize + 1, names.join(";") + ";");
        }
        for element in &it.body.body {
            match element {
                ClassElement::StaticBlock(block) => self.strip_static_block(block),
                ClassElement::MethodDefinition(method) => self.strip_method(method, it.heritage.is_some()),
                ClassElement::PropertyDefinition(property) => self.strip_property(property),
                ClassElement::AccessorProperty(property) => {
                    self.findings.add(Finding::Construct(Construct::AutoAccessor), property.span.start);
                }
                ClassElement::TSIndexSignature(signature) => self.erase_element(signature.span),
            }
        }
    }

    /// What stood before it must not go on with what stands after it.
    fn erase_element(&mut self, span: Span) {
        self.erase(span.start, span.end, ";");
    }

    /// Names of the parameter properties, if the method is a constructor.
    fn property_names(&self, method: &MethodDefinition<'a>) -> Vec<String> {
        if method.kind != MethodDefinitionKind::Constructor || method.value.body.is_none() {
            return Vec::new();
        }
        method.value.params.items.iter().filter_map(|parameter| self.property_name(parameter)).collect()
    }

    fn property_name(&self, parameter: &FormalParameter<'a>) -> Option<String> {
        let is_property = parameter.accessibility.is_some() || parameter.readonly || parameter.r#override;
        let BindingPattern::BindingIdentifier(id) = &parameter.pattern else { return None };
        is_property.then(|| self.slice(id.span).to_owned())
    }

    fn strip_method(&mut self, it: &MethodDefinition<'a>, is_derived: bool) {
        if it.r#type == MethodDefinitionType::TSAbstractMethodDefinition || it.value.body.is_none() {
            return self.erase_element(it.span);
        }
        self.erase_modifiers(it.span.start, it.key.span().start, ";");
        self.visit_property_key(&it.key);
        if it.optional {
            self.erase_mark(self.key_end(it.key.span(), it.computed), &['?']);
        }
        if it.kind == MethodDefinitionKind::Constructor {
            let names = self.property_names(it);
            let assignments: Vec<String> = names.iter().map(|name| format!("this.{name}={name}")).collect();
            let has_properties = !assignments.is_empty();
            if is_derived {
                self.after_super = has_properties.then(|| format!(",{}", assignments.join(",")));
            } else {
                self.assigned = has_properties.then(|| assignments.join(";") + ";");
            }
        }
        self.is_method = true;
        self.visit_function(&it.value, ScopeFlags::Function);
        self.after_super = None;
    }

    /// The byte after a key and its brackets.
    fn key_end(&self, key: Span, computed: bool) -> u32 {
        let bracket = scan::find(self.text, key.end as usize, ']').filter(|_| computed);
        bracket.map_or(key.end, |bracket| super::stripper::count(bracket + 1))
    }

    fn strip_property(&mut self, it: &PropertyDefinition<'a>) {
        if it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition || it.declare {
            return self.erase_element(it.span);
        }
        self.erase_modifiers(it.span.start, it.key.span().start, ";");
        self.visit_property_key(&it.key);
        let mut end = self.key_end(it.key.span(), it.computed);
        if it.optional || it.definite {
            self.erase_mark(end, &['?', '!']);
        }
        if let Some(types) = &it.type_annotation {
            self.visit_ts_type_annotation(types);
            end = types.span.end;
        }
        if let Some(value) = &it.value {
            self.in_place(ELEMENT, |stripper| {
                stripper.scopes.enter(ScopeKind::Function);
                stripper.count_expression(value);
                stripper.scopes.leave();
            });
        } else if it.optional || it.definite || it.type_annotation.is_some() {
            // Without its type, a field `get` would belong to the next line.
            self.edits.separate(end as usize);
        }
    }

    pub(super) fn strip_static_block(&mut self, it: &StaticBlock<'a>) {
        if let Some(brace) = scan::find(self.text, it.span.start as usize + "static".len(), '{') {
            self.edits.open(brace + 1, format!("{}();", self.counter));
        }
        self.in_place(ELEMENT, |stripper| {
            stripper.scopes.enter(ScopeKind::Function);
            stripper.visit_statements(&it.body);
            stripper.scopes.leave();
        });
    }
}
