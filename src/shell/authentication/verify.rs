//! Signatures of tokens, verified with the platform's `WebCrypto`.

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::auth::jwt::{Algorithm, Jwk};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = importKey, catch)]
    fn import_key(
        format: &str,
        key: &Object,
        algorithm: &Object,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(js_namespace = ["crypto", "subtle"], js_name = verify, catch)]
    fn verify_signature(
        algorithm: &Object,
        key: &JsValue,
        signature: &Uint8Array,
        data: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

/// The platform's form of a public key, for one algorithm. An error means that the issuer's key is none, such as a point that
/// is not on its curve.
pub(super) async fn import(key: &Jwk, algorithm: Algorithm) -> Result<JsValue, JsValue> {
    let jwk = Object::new();
    for (name, value) in key.members() {
        Reflect::set(&jwk, &(*name).into(), &value.into())?;
    }
    let usages = Array::of1(&"verify".into());
    JsFuture::from(import_key("jwk", &jwk, &parameters(algorithm)?, false, &usages)?).await
}

/// Whether a signature is the key's. One of the wrong form is not.
pub(super) async fn verify(key: &JsValue, algorithm: Algorithm, signature: &[u8], signed: &str) -> bool {
    let verified = async {
        let (signature, signed) = (Uint8Array::from(signature), Uint8Array::from(signed.as_bytes()));
        JsFuture::from(verify_signature(&parameters(algorithm)?, key, &signature, &signed)?).await
    };
    verified.await.is_ok_and(|verdict| verdict == JsValue::TRUE)
}

/// The algorithm with all that importing and verifying need.
fn parameters(algorithm: Algorithm) -> Result<Object, JsValue> {
    let object = Object::new();
    let set = |name: &str, value: JsValue| Reflect::set(&object, &name.into(), &value);
    set("name", algorithm.platform_name().into())?;
    if let Some((hash, bytes)) = algorithm.hash() {
        set("hash", hash.into())?;
        // Of PSS: as long as the hash (RFC 7518, section 3.5).
        set("saltLength", bytes.into())?;
    }
    if let (_, Some(curve)) = algorithm.key_type() {
        set("namedCurve", curve.into())?;
    }
    Ok(object)
}
