//! Finds names that are declared twice, which is an error before anything runs.

use std::collections::HashMap;

use oxc_span::Span;

/// How a name is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declared {
    /// `let`, `const`, `using`, a class, a function in a block.
    Lexical,
    /// `var`, a function in a function.
    Var,
    Parameter,
    /// The parameter of `catch`.
    Caught,
    /// An enum; several declarations make one.
    Enum,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Function,
    Block,
    Catch,
}

#[derive(Debug)]
struct Scope<'a> {
    kind: ScopeKind,
    names: HashMap<&'a str, (Declared, Span)>,
    /// Names of the members of each enum, and whether they are texts.
    enums: HashMap<&'a str, HashMap<&'a str, bool>>,
}

/// The scopes around a place in the program, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a> {
    scopes: Vec<Scope<'a>>,
}

impl<'a> Scopes<'a> {
    pub(super) fn enter(&mut self, kind: ScopeKind) {
        self.scopes.push(Scope { kind, names: HashMap::new(), enums: HashMap::new() });
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Whether a function that is declared here is visible in the whole function around it.
    pub(super) fn is_function(&self) -> bool {
        self.scopes.last().is_some_and(|scope| scope.kind == ScopeKind::Function)
    }

    /// Declares a name. Where that is an error: the earlier declaration.
    pub(super) fn declare(&mut self, name: &'a str, declared: Declared, span: Span) -> Result<(), Span> {
        let caught = self.scopes.iter().rev().nth(1).filter(|outer| outer.kind == ScopeKind::Catch);
        if declared != Declared::Var
            && let Some((_, earlier)) = caught.and_then(|outer| outer.names.get(name))
        {
            return Err(*earlier);
        }
        for scope in self.scopes.iter_mut().rev() {
            let earlier = scope.names.get(name).copied();
            let Some((before, earlier)) = earlier else {
                scope.names.insert(name, (declared, span));
                if declared == Declared::Var && scope.kind != ScopeKind::Function {
                    continue;
                }
                return Ok(());
            };
            match (before, declared) {
                (Declared::Enum, Declared::Enum) | (Declared::Var | Declared::Parameter, Declared::Var) => {
                    return Ok(());
                }
                (Declared::Caught, Declared::Var) => {}
                (_, _) => return Err(earlier),
            }
        }
        Ok(())
    }

    /// Whether a name is declared in one of the scopes inside the first `depth`.
    pub(super) fn is_declared_inside(&self, depth: usize, name: &str) -> bool {
        self.scopes.iter().skip(depth).any(|scope| scope.names.contains_key(name))
    }

    pub(super) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// The members of an enum of this scope; `None` if it was not declared before.
    pub(super) fn enum_members(&self, name: &str) -> Option<&HashMap<&'a str, bool>> {
        self.scopes.last()?.enums.get(name)
    }

    /// Whether an enum of the innermost of `depth` scopes has a member.
    pub(super) fn enum_members_at(&self, depth: usize, name: &str, member: &str) -> bool {
        let scope = depth.checked_sub(1).and_then(|index| self.scopes.get(index));
        scope.and_then(|scope| scope.enums.get(name)).is_some_and(|members| members.contains_key(member))
    }

    /// Notes a member of an enum of this scope.
    pub(super) fn add_enum(&mut self, name: &'a str, members: HashMap<&'a str, bool>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.enums.entry(name).or_default().extend(members);
        }
    }

    /// Whether a member of an enum that is visible here is a text.
    pub(super) fn is_text(&self, name: &str, member: &str) -> bool {
        let members = self.scopes.iter().rev().find_map(|scope| scope.enums.get(name));
        members.and_then(|members| members.get(member)).copied().unwrap_or(false)
    }
}
