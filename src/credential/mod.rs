//! Credentials for what the gateway calls: what an administrator writes, where it goes in a request, and how it is taken
//! out again of what comes back.
//!
//! Nothing here stores or sends anything. A value of these types holds secrets in clear, so none of them prints them.

mod apply;
mod auth;
mod form;
mod parse;
mod redaction;
mod sealed;
mod source;
mod token;

pub use apply::{decoded_form, without_query_parameter};
pub use auth::{Auth, ClientAuthentication, ClientCredentials, Secret};
pub use form::form_encoded;
pub use parse::{AuthError, parse_auth};
pub use redaction::{REDACTED, Redactor};
pub use sealed::{KEY_PURPOSE, NONCE_BYTES, Sealed, SecretPlace, SecretsError, check_key, key_id};
pub use source::SourceCredential;
pub use token::{AccessToken, TOKEN_ANSWER_LIMIT, TokenError, read_token, refuses_authentication, token_request};

#[cfg(test)]
mod tests;
