//! Encrypts and decrypts stored secrets with the platform's `WebCrypto`. The only place that reads the key.

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use worker::Env;

use super::random::random_bytes;
use crate::credential::{
    KEY_PURPOSE, Sealed, SecretPlace, SecretsError, SourceCredential, check_key, key_id, parse_auth,
};
use crate::internal::SealedCredential;
use crate::outbound::SendError;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = importKey, catch)]
    fn import_key(
        format: &str,
        key: &Uint8Array,
        algorithm: &str,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = deriveKey, catch)]
    fn derive_key(
        algorithm: &Object,
        base: &JsValue,
        derived: &Object,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], catch)]
    fn encrypt(algorithm: &Object, key: &JsValue, data: &Uint8Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], catch)]
    fn decrypt(algorithm: &Object, key: &JsValue, data: &Uint8Array) -> Result<Promise, JsValue>;
}

/// The secret that keys are made from.
const KEY: &str = "COUNTERSIGN_SECRET_KEY";
/// The one before it, for reading only.
const OLD_KEY: &str = "COUNTERSIGN_SECRET_KEY_OLD";

/// Encrypts a text for that place.
pub(crate) async fn seal(env: &Env, place: &SecretPlace<'_>, plaintext: &str) -> Result<String, SecretsError> {
    let secret = current_key(env)?;
    let key_id = key_id(&secret);
    let nonce = random_bytes().map_err(|error| SecretsError::Platform { reason: error.to_string() })?;
    let key = key_of(&secret, place.organization, "encrypt").await?;
    let algorithm = cipher(&nonce, &place.associated_data(&key_id))?;
    let ciphertext = wait(encrypt(&algorithm, &key, &bytes(plaintext.as_bytes()))).await?;
    Ok(Sealed { key_id, nonce, ciphertext: Uint8Array::new(&ciphertext).to_vec() }.text())
}

/// Decrypts what [`seal`] gave for the same place, under the present key or the old one.
pub(crate) async fn open(env: &Env, place: &SecretPlace<'_>, sealed: &str) -> Result<String, SecretsError> {
    let sealed = Sealed::parse(sealed)?;
    let secret = key_for(env, &sealed)?;
    let key = key_of(&secret, place.organization, "decrypt").await?;
    let algorithm = cipher(&sealed.nonce, &place.associated_data(&sealed.key_id))?;
    // Whatever fails here, the text is not what was stored for this place.
    let plaintext = wait(decrypt(&algorithm, &key, &bytes(&sealed.ciphertext))).await;
    let plaintext = plaintext.map_err(|_| SecretsError::Unreadable)?;
    String::from_utf8(Uint8Array::new(&plaintext).to_vec()).map_err(|_| SecretsError::Unreadable)
}

/// A source's credential, decrypted for one call.
pub(crate) async fn open_credential(
    env: &Env,
    organization: &str,
    sealed: &SealedCredential,
    confirmed_origins: &[String],
) -> Result<SourceCredential, SendError> {
    let unavailable = |reason: String| SendError::CredentialUnavailable { reason, retryable: false };
    let place = SecretPlace { organization, credential: &sealed.id, version: sealed.version };
    let text = open(env, &place, &sealed.sealed)
        .await
        .map_err(|error| unavailable(error.to_string().trim_end_matches('.').to_owned()))?;
    let value = serde_json::from_str(&text).map_err(|_| unavailable("what is stored of it is not JSON".to_owned()))?;
    let auth = parse_auth(&value).map_err(|error| unavailable(error.to_string()))?;
    Ok(SourceCredential {
        organization: organization.to_owned(),
        id: sealed.id.clone(),
        version: sealed.version,
        auth,
        confirmed_origins: confirmed_origins.to_vec(),
    })
}

fn current_key(env: &Env) -> Result<String, SecretsError> {
    let secret = variable(env, KEY).ok_or(SecretsError::NoKey)?;
    check_key(KEY, &secret)?;
    Ok(secret)
}

fn key_for(env: &Env, sealed: &Sealed) -> Result<String, SecretsError> {
    let known: Vec<String> = [KEY, OLD_KEY].into_iter().filter_map(|name| variable(env, name)).collect();
    if known.is_empty() {
        return Err(SecretsError::NoKey);
    }
    known.into_iter().find(|secret| key_id(secret) == sealed.key_id).ok_or(SecretsError::UnknownKey)
}

fn variable(env: &Env, name: &str) -> Option<String> {
    let text = env.secret(name).ok()?.to_string();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The organization's own key (HKDF, RFC 5869): what leaks of one says nothing about another.
async fn key_of(secret: &str, organization: &str, usage: &str) -> Result<JsValue, SecretsError> {
    let base =
        wait(import_key("raw", &bytes(secret.as_bytes()), "HKDF", false, &Array::of1(&"deriveKey".into()))).await?;
    let derivation = object(&[
        ("name", "HKDF".into()),
        ("hash", "SHA-256".into()),
        ("salt", bytes(KEY_PURPOSE.as_bytes()).into()),
        ("info", bytes(organization.as_bytes()).into()),
    ])?;
    let derived = object(&[("name", "AES-GCM".into()), ("length", 256.into())])?;
    wait(derive_key(&derivation, &base, &derived, false, &Array::of1(&usage.into()))).await
}

fn cipher(nonce: &[u8], associated_data: &str) -> Result<Object, SecretsError> {
    object(&[
        ("name", "AES-GCM".into()),
        ("iv", bytes(nonce).into()),
        ("additionalData", bytes(associated_data.as_bytes()).into()),
    ])
}

fn bytes(bytes: &[u8]) -> Uint8Array {
    Uint8Array::from(bytes)
}

fn object(members: &[(&str, JsValue)]) -> Result<Object, SecretsError> {
    let object = Object::new();
    for (name, value) in members {
        Reflect::set(&object, &(*name).into(), value).map_err(platform)?;
    }
    Ok(object)
}

async fn wait(promise: Result<Promise, JsValue>) -> Result<JsValue, SecretsError> {
    JsFuture::from(promise.map_err(platform)?).await.map_err(platform)
}

fn platform(error: JsValue) -> SecretsError {
    SecretsError::Platform { reason: worker::Error::from(error).to_string() }
}
