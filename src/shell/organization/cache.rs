//! Tools that this isolate looked up lately. What is known of one that only reads is used for five seconds; then, and always before
//! a call that may change something, the organization is asked whether its catalog is still the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::internal::ToolLookup;
use crate::shell::clock::now;

/// How long what is known of a tool that only reads is used without asking, in milliseconds.
pub(crate) const FRESH_MS: u64 = 5_000;
/// Organizations that are remembered.
const ORGANIZATIONS: usize = 16;
/// Tools of one organization that are remembered.
const TOOLS: usize = 200;

type Key = (String, String);

/// What is known of one organization's catalog; all of the same version.
struct Known {
    catalog: u64,
    checked_at: u64,
    tools: HashMap<Key, Rc<ToolLookup>>,
}

thread_local! {
    static KNOWN: RefCell<HashMap<String, Known>> = RefCell::default();
}

/// A tool that is known.
pub(super) enum Remembered {
    /// It only reads, and this is how it was less than five seconds ago. Before anything else the organization is asked.
    Fresh(Rc<ToolLookup>),
    /// As it is in that version of the catalog.
    Stale(u64, Rc<ToolLookup>),
}

pub(super) fn recall(organization: &str, resource: &str, address: &str) -> Option<Remembered> {
    KNOWN.with_borrow(|all| {
        let known = all.get(organization)?;
        let lookup = Rc::clone(known.tools.get(&(resource.to_owned(), address.to_owned()))?);
        Some(if lookup.only_reads() && now().saturating_sub(known.checked_at) < FRESH_MS {
            Remembered::Fresh(lookup)
        } else {
            Remembered::Stale(known.catalog, lookup)
        })
    })
}

/// Notes that an organization's catalog still had that version at a time.
pub(super) fn confirm(organization: &str, catalog: u64, asked_at: u64) {
    KNOWN.with_borrow_mut(|all| {
        if let Some(known) = all.get_mut(organization).filter(|known| known.catalog == catalog) {
            known.checked_at = known.checked_at.max(asked_at);
        }
    });
}

/// Remembers a tool of a version of the catalog. `asked_at` is when the question was asked, not when the answer came.
pub(super) fn remember(
    organization: &str,
    resource: &str,
    address: &str,
    catalog: u64,
    asked_at: u64,
    lookup: &Rc<ToolLookup>,
) {
    KNOWN.with_borrow_mut(|all| {
        if !all.contains_key(organization) && all.len() >= ORGANIZATIONS {
            all.clear();
        }
        let new = || Known { catalog, checked_at: asked_at, tools: HashMap::new() };
        let known = all.entry(organization.to_owned()).or_insert_with(new);
        // An answer that was overtaken by a newer one.
        if known.catalog > catalog {
            return;
        }
        if known.catalog < catalog {
            *known = new();
        }
        known.checked_at = known.checked_at.max(asked_at);
        if known.tools.len() >= TOOLS {
            known.tools.clear();
        }
        // What is not there is asked for again: there is no bound on such addresses.
        if lookup.tool.is_some() {
            known.tools.insert((resource.to_owned(), address.to_owned()), Rc::clone(lookup));
        }
    });
}

/// Forgets an organization: its catalog changed.
pub(super) fn forget(organization: &str) {
    KNOWN.with_borrow_mut(|all| all.remove(organization));
}
