//! Types where they are used: named ones, lists of them, and whether they can be null.

use serde_json::Value;

use super::syntax::is_name;

/// Lists and `!` around one type.
const WRAPPERS: usize = 16;

/// A type where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypeRef {
    Named(String),
    List(Box<TypeRef>),
    NonNull(Box<TypeRef>),
}

impl TypeRef {
    /// The type without lists and `!`.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::List(inner) | Self::NonNull(inner) => inner.name(),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        match self {
            Self::Named(_) => false,
            Self::List(_) => true,
            Self::NonNull(inner) => inner.is_list(),
        }
    }

    pub(super) fn is_required(&self) -> bool {
        matches!(self, Self::NonNull(_))
    }

    /// The same, `null` allowed.
    pub(super) fn nullable(&self) -> &Self {
        match self {
            Self::NonNull(inner) => inner,
            Self::Named(_) | Self::List(_) => self,
        }
    }

    /// As it is written in a document.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::List(inner) => format!("[{}]", inner.text()),
            Self::NonNull(inner) => format!("{}!", inner.text()),
        }
    }

    pub(super) fn read(value: &Value, depth: usize) -> Result<Self, String> {
        if depth > WRAPPERS {
            return Err("its type nests too deeply".to_owned());
        }
        let inner = || {
            value
                .get("ofType")
                .ok_or("its type is cut off")
                .and_then(|inner| if inner.is_null() { Err("its type is cut off") } else { Ok(inner) })
        };
        match value.get("kind").and_then(Value::as_str) {
            Some("NON_NULL") => match Self::read(inner()?, depth + 1)? {
                Self::NonNull(_) => Err("its type is required twice".to_owned()),
                inner @ (Self::Named(_) | Self::List(_)) => Ok(Self::NonNull(Box::new(inner))),
            },
            Some("LIST") => Ok(Self::List(Box::new(Self::read(inner()?, depth + 1)?))),
            _ => Ok(Self::Named(name_of(value).ok_or("its type has no usable name")?)),
        }
    }
}

/// The `name` of an object, where it is a name.
pub(super) fn name_of(value: &Value) -> Option<String> {
    value.get("name").and_then(Value::as_str).filter(|name| is_name(name)).map(ToOwned::to_owned)
}
