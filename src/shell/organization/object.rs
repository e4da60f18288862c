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

// The macros below expand to code that names `wasm_bindgen`.
use serde_json::json;
use worker::{DurableObject, Env, Request, Response, SqlStorage, SqlStorageValue, State, durable_object, wasm_bindgen};

use super::alarm::TELL_AT;
use super::catalog::Rulebook;
use super::rows::{Row, text};
use super::{read_own_body, read_own_text};
use crate::internal::{
    AdminQuestion, CatalogQuestion, DirectQuestion, GrantsQuestion, ImportEnd, KeyQuestion, LookupQuestion, Question,
    ServerSeen, StagedTools, VERSION, WaitingOfSession, WebhookPut,
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
            return self.demo(request, rest).await;
        }
        let Some(name) = path.strip_prefix("/internal/") else {
            return json_response(404, &json!({ "message": "Not found" }));
        };
        match name {
            "lookup" => {
                let question: Question<LookupQuestion> = self.read(&mut request).await?;
                Response::from_json(&self.answer_lookup(&question)?)
            }
            "direct" => {
                let question: Question<DirectQuestion> = self.read(&mut request).await?;
                Response::from_json(&self.answer_direct(&question)?)
            }
            "question" => {
                let question: Question<CatalogQuestion> = self.read(&mut request).await?;
                Response::from_json(&self.answer(&question)?)
            }
            "servers" => {
                let question: Question<()> = self.read(&mut request).await?;
                Response::from_json(&self.answer_servers(&question)?)
            }
            "toolkit" => {
                let slug: String = self.read(&mut request).await?;
                Response::from_json(&self.rulebook()?.toolkits.contains_key(&slug))
            }
            "subscribe" => {
                let (organization, session): (String, String) = self.read(&mut request).await?;
                self.subscribe(&organization, &session)?;
                Response::from_json(&())
            }
            "sign-in-try" => {
                let address: String = self.read(&mut request).await?;
                Response::from_json(&self.may_sign_in(&address)?)
            }
            "signed-in" => {
                let address: String = self.read(&mut request).await?;
                self.signed_in(&address)?;
                Response::from_json(&())
            }
            "grant" => Response::from_json(&self.grant_step(self.read(&mut request).await?)?),
            "key" => {
                // Not `read`: an organization that is not there must not come into being.
                let question: KeyQuestion = read_own_body(&mut request).await?;
                Response::from_json(&self.find_key(&question)?)
            }
            "call-grant-put" | "call-grant-confirm" | "call-grant-use" | "call-grants" => {
                self.answer_about_grants(name, &mut request).await
            }
            "waiting" | "told" => {
                let waiting: WaitingOfSession = self.read(&mut request).await?;
                self.put_waiting(&waiting)?;
                Response::from_json(&())
            }
            "server" => {
                let seen: ServerSeen = self.read(&mut request).await?;
                self.note_server(&seen)?;
                Response::from_json(&())
            }
            "webhook" => {
                let put: WebhookPut = self.read(&mut request).await?;
                Response::from_json(&self.put_webhook(put)?)
            }
            "audit-export" => {
                let after: Option<u64> = self.read(&mut request).await?;
                Response::from_json(&self.export_audit(after)?)
            }
            "admin" => {
                let question: AdminQuestion = self.read(&mut request).await?;
                Response::from_json(&self.administer(&question)?)
            }
            "import-start" => {
                let slug: String = self.read(&mut request).await?;
                Response::from_json(&self.start_import(&slug)?)
            }
            "import-stage" => {
                let staged: StagedTools = read_own_text(&mut request).await?;
                self.prepare()?;
                self.stage(&staged)?;
                Response::from_json(&())
            }
            "import-end" => {
                let end: ImportEnd = self.read(&mut request).await?;
                Response::from_json(&self.end_import(end)?)
            }
            _ => json_response(404, &json!({ "message": "Not found" })),
        }
    }

    async fn alarm(&self) -> worker::Result<Response> {
        self.ring().await;
        Response::empty()
    }
}

impl OrganizationDurableObject {
    async fn answer_about_grants(&self, name: &str, request: &mut Request) -> worker::Result<Response> {
        match name {
            "call-grant-put" => {
                let grant: CallGrant = self.read(request).await?;
                Response::from_json(&self.put_call_grant(&grant)?)
            }
            "call-grant-confirm" => {
                let ids: Vec<String> = self.read(request).await?;
                self.confirm_call_grants(&ids)?;
                Response::from_json(&())
            }
            "call-grant-use" => {
                let call: WantedCall = self.read(request).await?;
                Response::from_json(&self.use_call_grant(&call)?)
            }
            "call-grants" => {
                let question: GrantsQuestion = self.read(request).await?;
                Response::from_json(&self.answer_grants(&question)?)
            }
            _ => json_response(404, &json!({ "message": "Not found" })),
        }
    }

    /// Reads a message, and makes the object ready for it.
    async fn read<T: serde::de::DeserializeOwned>(&self, request: &mut Request) -> worker::Result<T> {
        let message = read_own_body(request).await?;
        self.prepare()?;
        Ok(message)
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
