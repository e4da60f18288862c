//! Definitions cleaned for one tool of a document and used again for its others: most tools of a large document lead to the
//! same few hundred.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use super::clean::Direction;

/// How much cleaned text is kept; as values it takes several times the memory.
const KEPT_BYTES: usize = 1 << 20;

/// A cleaned definition, and what cleaning it did beside.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) schema: Value,
    /// Bytes of its text.
    pub(super) size: usize,
    /// Schemas that were cleaned for it.
    pub(super) steps: usize,
    /// The references that stayed in it.
    pub(super) refers: Vec<Refers>,
}

/// A reference, where it leads, and the name that the definition there has.
#[derive(Clone, Debug)]
pub(super) struct Refers {
    pub(super) reference: String,
    pub(super) pointer: String,
    pub(super) name: String,
}

/// The definitions of one document by their pointers. All are forgotten when they become too many.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: RefCell<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_pointer: HashMap<(Direction, String), Rc<Definition>>,
    bytes: usize,
}

impl Definitions {
    pub(super) fn get(&self, direction: Direction, pointer: &str) -> Option<Rc<Definition>> {
        self.known.borrow().by_pointer.get(&(direction, pointer.to_owned())).cloned()
    }

    pub(super) fn keep(&self, direction: Direction, pointer: &str, definition: &Rc<Definition>) {
        let mut known = self.known.borrow_mut();
        if known.bytes + definition.size > KEPT_BYTES {
            *known = Known::default();
        }
        known.bytes += definition.size;
        known.by_pointer.insert((direction, pointer.to_owned()), Rc::clone(definition));
    }
}
