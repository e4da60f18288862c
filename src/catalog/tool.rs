//! What a tool is: its address, its schemas, its hints, and how a call to it becomes a request.
//!
//! All of this is stored as JSON. It holds no credential and decides nothing about whether a call may run.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openapi::request::origin_of;

/// One operation of a source, as it is stored and shown to models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// `<source>.<tool>`; the tool's own part may have dots too.
    pub address: String,
    /// The slug of the source.
    pub source: String,
    /// One line for people.
    pub title: String,
    /// At most [`MAX_DESCRIPTION_CHARS`] characters for the model. It is the document's text: untrusted.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments; the root is `type: object` without `anyOf` and the like.
    pub input_schema: Value,
    /// JSON Schema (2020-12) of a successful answer's `data`, for showing only: a real answer is never held against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the operation's method or annotations say about its effects.
    pub hints: ToolHints,
    /// How a call becomes a request.
    pub binding: Binding,
}

/// The most characters that [`Tool::description`] can have.
pub const MAX_DESCRIPTION_CHARS: usize = 1_000;

/// What is known about a tool's effects (MCP tool annotations, 2025-06-18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// The tool changes nothing: GET, HEAD, OPTIONS, QUERY.
    pub read_only: bool,
    /// The tool may remove or overwrite something: PUT, PATCH, DELETE. Of a POST nothing is known, so `false`.
    pub destructive: bool,
    /// Calling twice with the same arguments does what calling once does: the read-only methods, PUT, DELETE.
    pub idempotent: bool,
}

/// How a call to a tool becomes a request, by the kind of its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Binding {
    /// An operation of an `OpenAPI` document.
    Http(HttpBinding),
    /// A tool of an MCP server.
    Mcp(McpBinding),
    /// A field of a GraphQL API.
    Graphql(GraphqlBinding),
}

// By hand: what serde derives for a tagged enum buffers it, and everything in it is compiled once more for the buffer.
impl<'de> Deserialize<'de> for Binding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let kind = value.as_object_mut().and_then(|members| members.shift_remove("kind"));
        match kind.as_ref().and_then(Value::as_str) {
            Some("http") => crate::json::from_value(value).map(Self::Http),
            Some("mcp") => crate::json::from_value(value).map(Self::Mcp),
            Some("graphql") => crate::json::from_value(value).map(Self::Graphql),
            _ => Err(serde::de::Error::custom("a binding without a kind that is known")),
        }
        .map_err(serde::de::Error::custom)
    }
}

impl Binding {
    /// What the person is shown and what the approval digest covers: method, origin, path template, serialisation and
    /// definition hash. `base_url` is the source's base, used where the tool has none of its own.
    ///
    /// Feed it to [`canonical_json`](crate::json::canonical_json) for the digest. The credential's id and version
    /// belong to the digest too; they are not known here.
    #[must_use]
    pub fn identity(&self, base_url: Option<&str>) -> Value {
        match self {
            Self::Http(http) => {
                let base = http.base_url.as_deref().or(base_url);
                json!({
                    "kind": "http",
                    "method": http.method,
                    "origin": base.and_then(origin_of),
                    "baseUrl": base,
                    "pathTemplate": http.path_template,
                    "parameters": http.parameters,
                    "body": http.body,
                    "renamed": http.renamed,
                    "accept": http.accept,
                    "definitionHash": http.definition_hash,
                })
            }
            Self::Mcp(mcp) => json!({
                "kind": "mcp",
                "origin": base_url.and_then(origin_of),
                "url": base_url,
                "name": mcp.name,
                "headers": mcp.headers,
                "renamed": mcp.renamed,
                "definitionHash": mcp.definition_hash,
            }),
            Self::Graphql(graphql) => json!({
                "kind": "graphql",
                "origin": base_url.and_then(origin_of),
                "url": base_url,
                // With a selection of the caller's it is that one's, which is among the arguments.
                "document": graphql.document(),
                "renamed": graphql.renamed,
                "definitionHash": graphql.definition_hash,
            }),
        }
    }

    /// The origin (`https://host[:port]`) that a call goes to; `None` when no base is known or it is not a URL.
    #[must_use]
    pub fn origin(&self, base_url: Option<&str>) -> Option<String> {
        match self {
            Self::Http(http) => http.base_url.as_deref().or(base_url).and_then(origin_of),
            Self::Mcp(_) | Self::Graphql(_) => base_url.and_then(origin_of),
        }
    }
}

/// A tool of an MCP server: the name and the headers that a call to it has on the wire. The server's URL is the source's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpBinding {
    /// The name that the server knows it by. The address has one of its own.
    pub name: String,
    /// Arguments that are also sent as headers (revision 2026-07-28, "Custom Headers from Tool Parameters").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderArgument>,
    /// Names on the wire of nested properties that had to be exposed under another key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<RenamedProperty>,
    /// SHA-256 (hex) over the definition as the server gave it: description, schemas, annotations.
    pub definition_hash: String,
}

/// An argument that is also sent as the header `Mcp-Param-<name>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderArgument {
    /// Names on the wire of the properties that lead to it.
    pub path: Vec<String>,
    /// The header's name after `Mcp-Param-`.
    pub name: String,
}

/// A field of a GraphQL API's query or mutation type. The endpoint is the source's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphqlBinding {
    /// The kind of the document.
    pub operation: GraphqlOperation,
    /// The field's name.
    pub field: String,
    /// The field's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<GraphqlVariable>,
    /// What is selected of the result; `None` where it is a scalar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<GraphqlSelection>,
    /// Names on the wire of nested properties that had to be exposed under another key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<RenamedProperty>,
    /// SHA-256 (hex) over what was read of it: title, description, input schema, hints, document.
    pub definition_hash: String,
}

/// The kind of a GraphQL document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GraphqlOperation {
    /// It only reads.
    Query,
    /// It may change something.
    Mutation,
}

impl GraphqlOperation {
    /// The word that a document begins with.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
        }
    }
}

/// An argument of a field, which is a variable of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphqlVariable {
    /// The argument's key in the input schema.
    pub key: String,
    /// The name on the wire.
    pub name: String,
    /// The type as a document declares it, such as `[ID!]!`.
    pub takes: String,
}

/// What is selected of a field's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphqlSelection {
    /// The argument that a caller selects with.
    pub key: String,
    /// What is selected without it, in braces.
    pub default: String,
}

/// An HTTP operation: where each argument goes and how it is written there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpBinding {
    /// Upper case, as sent.
    pub method: String,
    /// Absolute URL from an operation's or path's own `servers`, variables filled in; `None`: the source's base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The path as in the document, with `{name}` places; starts with `/`.
    pub path_template: String,
    /// The arguments outside the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterBinding>,
    /// The body, where the operation takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyBinding>,
    /// Names on the wire of nested properties that had to be exposed under another key, anywhere in the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<RenamedProperty>,
    /// The `Accept` header that is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// SHA-256 (hex) over what was read from the document: title, description, input schema, hints, serialisation.
    pub definition_hash: String,
}

/// One parameter: the argument's key, and the place, name and style on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParameterBinding {
    /// The argument's key in the input schema.
    pub key: String,
    /// The name on the wire.
    pub name: String,
    /// Where it is written.
    pub location: ParameterLocation,
    /// How arrays and objects are written.
    pub style: ParameterStyle,
    /// Whether each item or property is written by itself.
    pub explode: bool,
    /// Whether reserved characters stay as they are.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_reserved: bool,
    /// Whether the document requires it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// With `content` instead of `schema`: the media type the value is written in, and `style` is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Where a parameter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ParameterLocation {
    /// A `{name}` in the path.
    Path,
    /// The query.
    Query,
    /// The whole query (`in: querystring`, `OpenAPI` 3.2).
    QueryString,
    /// A header.
    Header,
    /// The `Cookie` header.
    Cookie,
}

/// How a value is written (`OpenAPI` 3.1.1, section 4.8.12.4), with what Swagger 2.0 has beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ParameterStyle {
    /// `;name=value`
    Matrix,
    /// `.value`
    Label,
    /// `value,value`
    Simple,
    /// `name=value&name=value`
    Form,
    /// `name=value%20value`
    SpaceDelimited,
    /// `name=value%7Cvalue`
    PipeDelimited,
    /// `name=value%09value` (Swagger 2.0 `collectionFormat: tsv`)
    TabDelimited,
    /// `name%5Bkey%5D=value`
    DeepObject,
    /// `name=value; name=value` without percent-encoding (`OpenAPI` 3.2)
    Cookie,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyBinding {
    /// The declared media type; sent as `Content-Type` (multipart with its boundary added).
    pub media_type: String,
    /// How the value becomes bytes.
    pub format: BodyFormat,
    /// Whether the document requires a body.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Where in the arguments the body is.
    pub layout: BodyLayout,
}

/// How a body's value becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BodyFormat {
    /// The JSON family.
    Json,
    /// One JSON value a line.
    JsonLines,
    /// `application/x-www-form-urlencoded`
    Form,
    /// `multipart/*`
    Multipart,
    /// A string, sent as UTF-8.
    Text,
    /// A file value (see [`FileValue`]), sent as its bytes.
    Binary,
}

/// Where in the arguments the body is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum BodyLayout {
    /// One argument is the whole body.
    Whole {
        /// Its key.
        key: String,
        /// How properties are written that need something else than the format's default.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        properties: Vec<BodyProperty>,
    },
    /// The body is an object, and each of its properties is an argument.
    Spread {
        /// The properties.
        properties: Vec<BodyProperty>,
    },
}

/// One property of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyProperty {
    /// The argument's key.
    pub key: String,
    /// The property's name on the wire.
    pub name: String,
    /// Forms and multipart: the media type of this property's value where the document states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Forms: the style, where the document states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ParameterStyle>,
    /// Forms: whether each item or property is written by itself.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub explode: bool,
    /// Forms: whether reserved characters stay as they are.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_reserved: bool,
    /// Multipart: the value is a file (see [`FileValue`]), or a list of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub file: bool,
}

/// A nested property whose exposed key differs from its name on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenamedProperty {
    /// The exposed key; no other property of the tool has it.
    pub key: String,
    /// The name on the wire.
    pub name: String,
}

/// A file as arguments and answers carry it. What an answer gave can be passed on as an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileValue {
    /// The file's name, without folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// `base64` or, in arguments only, `utf8`.
    #[serde(default)]
    pub encoding: FileEncoding,
    /// The contents in that encoding.
    pub data: String,
}

/// How [`FileValue::data`] is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileEncoding {
    /// RFC 4648 section 4, with padding.
    #[default]
    Base64,
    /// The text itself.
    Utf8,
}

/// What a call answers with. On the wire exactly `{"ok":true,"data":…,"http":{"status":…}?}` or
/// `{"ok":false,"error":{"code","message","status"?,"details"?,"retryable"?}}`.
///
/// `data` and `details` are JSON text on one line, so that numbers keep their digits.
#[derive(Clone, Debug)]
pub enum ToolOutcome {
    /// The call did what it should.
    Success {
        /// The payload; `null` when there was none.
        data: Box<RawValue>,
        /// The HTTP status, for HTTP sources.
        status: Option<u16>,
    },
    /// The call was refused or failed.
    Failure(ToolError),
}

/// Why a call did not do what it should.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// A stable word for programs.
    pub code: String,
    /// A sentence for the model.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the upstream said, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
    /// Whether the same call may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

impl ToolError {
    /// An error with a code and a message and nothing else.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), status: None, details: None, retryable: None }
    }
}

impl PartialEq for ToolError {
    fn eq(&self, other: &Self) -> bool {
        let text = |details: &Option<Box<RawValue>>| details.as_ref().map(|raw| raw.get().to_owned());
        self.code == other.code
            && self.message == other.message
            && self.status == other.status
            && text(&self.details) == text(&other.details)
            && self.retryable == other.retryable
    }
}

impl ToolOutcome {
    /// A success with `data` and no HTTP status.
    #[must_use]
    pub fn success(data: &Value) -> Self {
        Self::Success { data: raw_json(data), status: None }
    }

    /// A failure with a code and a message.
    #[must_use]
    pub fn failure(code: &str, message: impl Into<String>) -> Self {
        Self::Failure(ToolError::new(code, message))
    }

    /// Whether the call did what it should.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }
}

impl PartialEq for ToolOutcome {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Success { data, status }, Self::Success { data: other_data, status: other_status }) => {
                data.get() == other_data.get() && status == other_status
            }
            (Self::Failure(error), Self::Failure(other)) => error == other,
            (Self::Success { .. }, Self::Failure(_)) | (Self::Failure(_), Self::Success { .. }) => false,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct OutcomeOnWire<Json, Error> {
    ok: bool,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http: Option<HttpOnWire>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

#[derive(Serialize, Deserialize)]
struct HttpOnWire {
    status: u16,
}

impl Serialize for ToolOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire: OutcomeOnWire<&RawValue, &ToolError> = match self {
            Self::Success { data, status } => OutcomeOnWire {
                ok: true,
                data: Some(data),
                http: status.map(|status| HttpOnWire { status }),
                error: None,
            },
            Self::Failure(error) => OutcomeOnWire { ok: false, data: None, http: None, error: Some(error) },
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = OutcomeOnWire::<Box<RawValue>, ToolError>::deserialize(deserializer)?;
        match (wire.ok, wire.error) {
            (true, None) => Ok(Self::Success {
                data: wire.data.unwrap_or_else(|| raw_json(&Value::Null)),
                status: wire.http.map(|http| http.status),
            }),
            (false, Some(error)) => Ok(Self::Failure(error)),
            (true, Some(_)) => Err(serde::de::Error::custom("an outcome that is ok has no error")),
            (false, None) => Err(serde::de::Error::missing_field("error")),
        }
    }
}

/// A value as JSON text on one line. Never fails: a [`Value`] is always JSON.
#[must_use]
pub fn raw_json(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
}
