//! The authorization server's routes: metadata, registration, tokens, revocation, and the page on which a person agrees.

mod authorize;
mod endpoints;

use std::cell::RefCell;
use std::rc::Rc;

pub(super) use self::authorize::authorize;
pub(super) use self::endpoints::{metadata, register, revoke, token};
use super::entry::Edge;
use crate::auth::settings::OAuthSettings;
use crate::auth::signed::SigningKeys;
use crate::oauth::Signers;

/// Bytes of a form or a registration.
const BODY_LIMIT: usize = 16 * 1024;

thread_local! {
    /// The signers of the last keys: making them is a few hashes, and every request needs them.
    static SIGNERS: RefCell<Option<(SigningKeys, Rc<Signers>)>> = const { RefCell::new(None) };
}

/// The authorization server, for one request.
pub(super) struct OAuth<'e> {
    edge: &'e Edge<'e>,
    settings: &'e OAuthSettings,
    signers: Rc<Signers>,
}

impl<'e> OAuth<'e> {
    pub(super) fn new(edge: &'e Edge<'e>, settings: &'e OAuthSettings) -> Self {
        Self { edge, settings, signers: signers(&settings.keys) }
    }
}

/// The signers of the gateway's secret.
pub(super) fn signers(keys: &SigningKeys) -> Rc<Signers> {
    SIGNERS.with_borrow_mut(|kept| match kept {
        Some((known, signers)) if known == keys => Rc::clone(signers),
        _ => {
            let signers = Rc::new(Signers::new(keys));
            *kept = Some((keys.clone(), Rc::clone(&signers)));
            signers
        }
    })
}
