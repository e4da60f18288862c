//! The only place that draws randomness.

use wasm_bindgen::prelude::*;

use crate::json::hex;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues, catch)]
    fn get_random_values(buffer: &mut [u8]) -> Result<JsValue, JsValue>;
}

/// Random bytes from the platform's generator.
pub(crate) fn random_bytes<const N: usize>() -> worker::Result<[u8; N]> {
    let mut bytes = [0; N];
    get_random_values(&mut bytes)?;
    Ok(bytes)
}

/// A random number of milliseconds below `limit`: so that those who failed together do not come back
/// together.
pub(crate) fn jitter(limit: u8) -> worker::Result<u64> {
    let [byte] = random_bytes::<1>()?;
    Ok(u64::from(byte) % u64::from(limit.max(1)))
}

/// Random bytes as hexadecimal text.
pub(crate) fn random_hex<const N: usize>() -> worker::Result<String> {
    Ok(hex(&random_bytes::<N>()?))
}
