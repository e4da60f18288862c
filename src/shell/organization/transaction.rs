//! Several statements as one: what fails on the way leaves nothing behind.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use wasm_bindgen::prelude::*;

use super::object::OrganizationDurableObject;

#[wasm_bindgen(module = "/src/shell/organization/transaction.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = inTransaction)]
    fn in_transaction(storage: &JsValue, work: &mut dyn FnMut() -> bool) -> Result<(), JsValue>;
}

impl OrganizationDurableObject {
    /// Runs `work`; an error takes back everything that it wrote.
    pub(super) fn in_transaction<T>(&self, work: impl FnOnce() -> worker::Result<T>) -> worker::Result<T> {
        let (work, outcome) = (AssertUnwindSafe(Cell::new(Some(work))), AssertUnwindSafe(Cell::new(None)));
        let storage = self.state.storage();
        let done = in_transaction(storage.as_raw().as_ref(), &mut || {
            let result = work.take().map(|work| work());
            let is_well = matches!(result, Some(Ok(_)));
            outcome.set(result);
            is_well
        });
        match (outcome.take(), done) {
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(error.into()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(worker::Error::RustError("a transaction did not run".to_owned())),
        }
    }
}
