//! The organization object: sources, tools and their search, policies, toolkits, the audit log, and the demo inventory.
//!
//! | table | key | holds |
//! |---|---|---|
//! | `meta` | `schema-version`, `catalog-version`, `told-at-ms`, `tell-at-ms`, `organization`, `policies`, `stops`, `audit-head`, `audit-checkpoint`, `demo-inventory` | one value each |
//! | `source` | slug | the source, the hash of a built-in one's document, and the report of the last import |
//! | `tool` | id; address | the names that clients see in direct mode, which operation it is, and the tool as JSON |
//! | `tool_search` | (FTS5) the tool's id | words of address, title and description |
//! | `staged` | import, address | tools of an import that is not finished |
//! | `toolkit` | slug | the toolkit as JSON |
//! | `toolkit_tool` | toolkit, address | the tools that each toolkit includes |
//! | `server_state` | source | how an MCP server was found when it was last asked |
//! | `waiting` | execution id | what waits for a person in the sessions, as they say |
//! | `program` | number; execution | programs of sessions that came to a pause or ended, as the sessions say |
//! | `audit` | number; event | who changed or decided what, and when: the text, its hash, and the session's event that it is of |
//! | `webhook` | slug | a webhook, its URL and secret encrypted, and how its endpoint was found |
//! | `delivery` | number | messages on their way to webhooks |
//! | `oauth_grant` | id | what people granted to OAuth clients; codes and tokens as hashes |
//! | `call_grant` | id | what people allowed beyond one call |
//! | `api_key` | id | hash of the secret, what the key is for, and when it was last used |
//! | `sign_in_try` | number | tries to sign in with a passphrase that were not successful, by address |
//! | `subscriber` | session id | sessions with an open stream, which are told when the catalog changes |
//! | `demo_answer` | idempotency key | what the demo answered to a request that changes something |

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
// The macros below expand to code that names `wasm_bindgen`.
use worker::{DurableObject, Env, Request, Response, SqlStorage, SqlStorageValue, State, durable_object, wasm_bindgen};

use super::alarm::TELL_AT;
use super::catalog::Rulebook;
use super::own_bytes;
use super::rows::{Row, text};
use crate::internal::{
    AdminQuestion, CatalogQuestion, DirectQuestion, GrantsQuestion, KeyQuestion, LookupQuestion, Question, ServerSeen,
    StagedTools, VERSION, WaitingOfSession,
};
use crate::organization::grant::{CallGrant, WantedCall};
use crate::shell::clock::now;
use crate::shell::http::json_response;

/// Between two rounds in which sessions are told of changes, in milliseconds.
const TOLD_EVERY_MS: u64 = 1_000;

#[durable_object(alarm)]
pub(super) struct OrganizationDurableObject {
    pub(super) state: State,
    pub(super) env: Env,
    pub(super) prepared: AssertUnwindSafe<Cell<bool>>,
    /// Policies and toolkits, until one of them changes.
    pub(super) rulebook: AssertUnwindSafe<RefCell<Option<Rc<Rulebook>>>>,
}

impl DurableObject for OrganizationDurableObject {
    fn new(state: State, env: Env) -> Self {
        Self {
            state,
            env,
            prepared: AssertUnwindSafe(Cell::new(false)),
            rulebook: AssertUnwindSafe(RefCell::new(None)),
        }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let path = request.path();
        if let Some(rest) = path.strip_prefix("/demo") {
            return self.demo(request, rest).boxed_local().await;
        }
        let Some(name) = path.strip_prefix("/internal/") else {
            return not_found();
        };
        self.respond(name, &own_bytes(&mut request).await?)
    }

    async fn alarm(&self) -> worker::Result<Response> {
        self.ring().await;
        Response::empty()
    }
}

impl OrganizationDurableObject {
    /// Answers a message of a session or of the entry.
    fn respond(&self, name: &str, body: &[u8]) -> worker::Result<Response> {
        match name {
            "lookup" => self.handle(body, |this, question: Question<LookupQuestion>| this.answer_lookup(&question)),
            "direct" => self.handle(body, |this, question: Question<DirectQuestion>| this.answer_direct(&question)),
            "question" => self.handle(body, |this, question: Question<CatalogQuestion>| this.answer(&question)),
            "servers" => self.handle(body, |this, question: Question<()>| this.answer_servers(&question)),
            "toolkit" => self.handle(body, |this, slug: String| Ok(this.rulebook()?.toolkits.contains_key(&slug))),
            "subscribe" => self.handle(body, |this, (organization, session): (String, String)| {
                this.subscribe(&organization, &session)
            }),
            "sign-in-try" => self.handle(body, |this, address: String| this.may_sign_in(&address)),
            "signed-in" => self.handle(body, |this, address: String| this.signed_in(&address)),
            "grant" => self.handle(body, Self::grant_step),
            // Not `handle`: an organization that is not there must not come into being.
            "key" => Response::from_json(&self.find_key(&crate::json::from_slice::<KeyQuestion>(body)?)?),
            "call-grant-put" => self.handle(body, |this, grant: CallGrant| this.put_call_grant(&grant)),
            "call-grant-confirm" => self.handle(body, |this, ids: Vec<String>| this.confirm_call_grants(&ids)),
            "call-grant-use" => self.handle(body, |this, call: WantedCall| this.use_call_grant(&call)),
            "call-grants" => self.handle(body, |this, question: GrantsQuestion| this.answer_grants(&question)),
            "waiting" | "told" => self.handle(body, |this, waiting: WaitingOfSession| this.put_waiting(&waiting)),
            "server" => self.handle(body, |this, seen: ServerSeen| this.note_server(&seen)),
            "webhook" => self.handle(body, Self::put_webhook),
            "audit-export" => self.handle(body, |this, after: Option<u64>| this.export_audit(after)),
            "admin" => self.handle(body, |this, question: AdminQuestion| this.administer(&question)),
            "import-start" => self.handle(body, |this, slug: String| this.start_import(&slug)),
            "import-stage" => self.take_stage(body),
            "import-end" => self.handle(body, Self::end_import),
            _ => not_found(),
        }
    }

    /// Reads a message, makes the object ready for it, and writes the answer. A function of its own for each kind of message, so
    /// that the runtime compiles what is asked for and not all of them.
    #[inline(never)]
    fn handle<Q: DeserializeOwned, A: Serialize>(
        &self,
        body: &[u8],
        answer: impl FnOnce(&Self, Q) -> worker::Result<A>,
    ) -> worker::Result<Response> {
        let question = crate::json::from_slice(body)?;
        self.prepare()?;
        Response::from_json(&answer(self, question)?)
    }

    /// A piece of an import, which holds pieces of JSON text as they came (`RawValue`): only the text itself gives them.
    #[inline(never)]
    fn take_stage(&self, body: &[u8]) -> worker::Result<Response> {
        let text = std::str::from_utf8(body).map_err(|error| worker::Error::RustError(error.to_string()))?;
        let staged: StagedTools = serde_json::from_str(text)?;
        self.prepare()?;
        self.stage(&staged)?;
        Response::from_json(&())
    }

    pub(super) fn sql(&self) -> SqlStorage {
        self.state.storage().sql()
    }

    pub(super) fn rows(&self, query: &str, bindings: Vec<SqlStorageValue>) -> worker::Result<Vec<Row>> {
        self.sql().exec(query, bindings)?.raw().collect()
    }

    /// The texts in the first column.
    pub(super) fn texts(&self, query: &str, bindings: Vec<SqlStorageValue>) -> worker::Result<Vec<String>> {
        let rows = self.rows(query, bindings)?;
        Ok(rows.iter().filter_map(|row| text(row, 0)).map(ToOwned::to_owned).collect())
    }

    /// The number in the first row.
    pub(super) fn count(&self, query: &str, bindings: Vec<SqlStorageValue>) -> worker::Result<u64> {
        let rows = self.rows(query, bindings)?;
        Ok(rows.first().and_then(|row| super::rows::integer(row, 0)).unwrap_or(0))
    }

    pub(super) fn meta(&self, key: &str) -> worker::Result<Option<String>> {
        Ok(self.texts("SELECT value FROM meta WHERE key = ?", vec![key.into()])?.into_iter().next())
    }

    pub(super) fn put_meta(&self, key: &str, value: &str) -> worker::Result<()> {
        self.sql().exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", vec![key.into(), value.into()])?;
        Ok(())
    }

    pub(super) fn catalog(&self) -> worker::Result<u64> {
        Ok(self.meta("catalog-version")?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Counts a change of the catalog, and has the alarm tell of it: at most once a second.
    pub(super) fn catalog_changed(&self) -> worker::Result<()> {
        *self.rulebook.borrow_mut() = None;
        self.put_meta("catalog-version", &(self.catalog()? + 1).to_string())?;
        if !self.rows("SELECT 1 FROM subscriber LIMIT 1", vec![])?.is_empty() && self.meta(TELL_AT)?.is_none() {
            let told_at = self.meta("told-at-ms")?.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            self.put_meta(TELL_AT, &now().max(told_at.saturating_add(TOLD_EVERY_MS)).to_string())?;
            self.rearm()?;
        }
        Ok(())
    }

    /// Whether a message is of this release; the other side tries again where it is not.
    pub(super) fn check_version(version: u32) -> worker::Result<()> {
        if version == VERSION {
            return Ok(());
        }
        Err(worker::Error::RustError(format!("a message of version {version}, where {VERSION} is spoken")))
    }
}

fn not_found() -> worker::Result<Response> {
    json_response(404, &json!({ "message": "Not found" }))
}
