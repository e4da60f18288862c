//! Checked arguments written as the request of GraphQL over HTTP (draft of 2025, section 5.4).
//!
//! Arguments are variables, always. The only text of a caller's that gets into a document is a selection, which is read and
//! written anew first.

use serde_json::{Map, Value, json};

use super::syntax::{SyntaxError, parse_selection, write_selection};
use crate::catalog::openapi::request::{HttpRequest, rename_within};
use crate::catalog::tool::GraphqlBinding;

/// What an endpoint may answer with.
const ACCEPT: &str = "application/graphql-response+json, application/json";

/// Why arguments could not be written as a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphqlRequestError {
    /// What is selected is no selection.
    #[error("the argument {key:?} has to be a GraphQL selection such as \"{{ id name }}\"; it {error}")]
    Selection {
        /// The argument's key.
        key: String,
        /// What is wrong with it.
        error: SyntaxError,
    },
}

impl GraphqlBinding {
    /// The document that a call without a selection of its own sends.
    #[must_use]
    pub fn document(&self) -> String {
        self.document_with(self.selection.as_ref().map(|selection| selection.default.as_str()))
    }

    fn document_with(&self, selection: Option<&str>) -> String {
        let listed = |write: &dyn Fn(&str, &str) -> String| {
            let parts: Vec<String> =
                self.variables.iter().map(|variable| write(&variable.name, &variable.takes)).collect();
            if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) }
        };
        let declared = listed(&|name, takes| format!("${name}: {takes}"));
        let passed = listed(&|name, _| format!("{name}: ${name}"));
        let selection = selection.map(|selection| format!(" {selection}")).unwrap_or_default();
        let (operation, field) = (self.operation.word(), &self.field);
        format!("{operation} {field}{declared} {{ {field}{passed}{selection} }}")
    }
}

/// Writes checked arguments as a request to `url`. The result depends on nothing but its inputs.
pub fn build_request(
    binding: &GraphqlBinding,
    url: &str,
    arguments: &Value,
) -> Result<HttpRequest, GraphqlRequestError> {
    let selection = match &binding.selection {
        None => None,
        Some(selects) => Some(match arguments.get(&selects.key).and_then(Value::as_str) {
            None => selects.default.clone(),
            Some(text) => {
                let parsed = parse_selection(text)
                    .map_err(|error| GraphqlRequestError::Selection { key: selects.key.clone(), error })?;
                let mut written = String::new();
                write_selection(&parsed, &mut written);
                written
            }
        }),
    };
    // `null` is a value of its own: it empties what leaving it out would leave alone.
    let variables: Map<String, Value> = binding
        .variables
        .iter()
        .filter_map(|variable| {
            let mut value = arguments.get(&variable.key)?.clone();
            if !binding.renamed.is_empty() {
                rename_within(&mut value, &binding.renamed);
            }
            Some((variable.name.clone(), value))
        })
        .collect();
    let document = binding.document_with(selection.as_deref());
    Ok(post(url, &json!({ "query": document, "variables": variables, "operationName": binding.field })))
}

/// The request that asks for the schema. It asks for nothing that servers of 2018 do not know.
#[must_use]
pub fn introspection_request(url: &str) -> HttpRequest {
    post(url, &json!({ "query": super::INTROSPECTION, "operationName": "IntrospectionQuery" }))
}

fn post(url: &str, body: &Value) -> HttpRequest {
    HttpRequest {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), ACCEPT.to_owned()),
        ],
        body: Some(body.to_string().into_bytes()),
    }
}
