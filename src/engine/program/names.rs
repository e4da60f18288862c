//! Chooses identifiers that the program cannot know.

use std::collections::HashSet;

use oxc_ast::ast::{
    BindingIdentifier, IdentifierName, IdentifierReference, LabelIdentifier, PrivateIdentifier, Program,
};
use oxc_ast_visit::Visit;

/// First character of every name that is chosen.
const MARK: char = '$';

/// The names of a program that start with `$`, escapes resolved, and all such names that its text
/// mentions anywhere.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Reads the program after its transformation, which may have added names, and its text.
    pub(super) fn of(program: &Program<'_>, text: &str) -> Self {
        let mut names = Self::default();
        names.visit_program(program);
        for part in text.split(MARK).skip(1) {
            let end = part.find(|character: char| !character.is_ascii_alphanumeric());
            names.take(&format!("{MARK}{}", part.get(..end.unwrap_or(part.len())).unwrap_or(part)));
        }
        names
    }

    fn take(&mut self, name: &str) {
        if name.starts_with(MARK) && !self.taken.contains(name) {
            self.taken.insert(name.to_owned());
        }
    }

    /// `base`, or `base` with the first number that makes it new. It is taken from then on.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let mut number = 0_u64;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{base}{number}");
        }
        name
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_binding_identifier(&mut self, it: &BindingIdentifier<'a>) {
        self.take(&it.name);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.take(&it.name);
    }

    fn visit_identifier_name(&mut self, it: &IdentifierName<'a>) {
        self.take(&it.name);
    }

    fn visit_label_identifier(&mut self, it: &LabelIdentifier<'a>) {
        self.take(&it.name);
    }

    fn visit_private_identifier(&mut self, it: &PrivateIdentifier<'a>) {
        self.take(&it.name);
    }
}
