//! Reads the fields of a JSON object, and refuses those that nobody reads: a misspelt field must not pass for a default.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::fault::Fault;

/// An object whose fields are taken out one by one. A field that holds `null` is as good as absent, except for [`Self::raw`].
pub(super) struct Fields<'a> {
    /// In front of every name in a fault, such as `policies[2].`.
    prefix: String,
    members: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Reads an object; `what` names it in a fault.
    pub(super) fn read(text: &'a str, what: &str, prefix: impl Into<String>) -> Result<Self, Fault> {
        let members: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(text).map_err(|error| {
            let problem =
                if error.is_data() { "has to be a JSON object".to_owned() } else { format!("is not JSON: {error}") };
            Fault::new(400, format!("{what} {problem}"))
        })?;
        Ok(Self { prefix: prefix.into(), members })
    }

    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The field as it is written.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        self.members.remove(name)
    }

    pub(super) fn value(&mut self, name: &str) -> Result<Option<Value>, Fault> {
        let Some(raw) = self.members.remove(name) else {
            return Ok(None);
        };
        let value: Value =
            serde_json::from_str(raw.get()).map_err(|_| Fault::field(self.name(name), "nests too deeply"))?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Fault> {
        match self.value(name)? {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(Fault::field(self.name(name), "has to be true or false")),
        }
    }

    /// A text of at most `most` characters, without spaces around it; empty is as good as absent.
    pub(super) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, Fault> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= most => {
                Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
            }
            Some(Value::String(_)) => Err(Fault::field(self.name(name), format!("has more than {most} characters"))),
            Some(_) => Err(Fault::field(self.name(name), "has to be a text")),
        }
    }

    /// A list; `None` where there is none.
    pub(super) fn list(&mut self, name: &str, most: usize) -> Result<Option<Vec<Value>>, Fault> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() <= most => Ok(Some(items)),
            Some(Value::Array(_)) => Err(Fault::field(self.name(name), format!("has more than {most} items"))),
            Some(_) => Err(Fault::field(self.name(name), "has to be a list")),
        }
    }

    /// Refuses what was not read.
    pub(super) fn end(self, known: &str) -> Result<(), Fault> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().take(100).collect();
                Err(Fault::field(format!("{}{shown}", self.prefix), format!("is not a field here; there are {known}")))
            }
        }
    }
}
