//! Secrets taken out of what an API answers: it may echo one, as it is or encoded.
//!
//! What is looked for: the secret itself, in base64 at each of the three places where it can begin in a longer text, in
//! hexadecimal, percent-encoded, and as it stands within JSON or HTML. One pass over the text finds all of them (Wu and
//! Manber, "A fast algorithm for multi-pattern searching"), skipping most of it.

mod forms;
mod scan;

use std::borrow::Cow;

use forms::{Form, forms_of};
use scan::Scanner;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub struct Redactor {
    forms: Vec<Form>,
    scanner: Option<Scanner>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor of {} forms", self.forms.len())
    }
}

impl Redactor {
    /// Looks for these secrets. One of fewer than four bytes is not looked for: it would be found everywhere, and what
    /// stands in its place would tell where. One of fewer than eight counts only where no letter or digit touches it.
    #[must_use]
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut forms: Vec<Form> = Vec::new();
        for secret in secrets {
            forms.extend(forms_of(secret));
        }
        // The longest first: of two that begin at the same place it takes more away.
        forms.sort_by(|left, right| {
            (right.bytes.len(), &left.bytes, left.alone).cmp(&(left.bytes.len(), &right.bytes, right.alone))
        });
        forms.dedup_by(|later, earlier| later.bytes == earlier.bytes);
        let scanner = Scanner::new(forms.iter().map(|form| form.bytes.as_slice()));
        Self { forms, scanner }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// The bytes without the secrets.
    #[must_use]
    pub fn bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let Some(scanner) = &self.scanner else {
            return Cow::Borrowed(text);
        };
        let mut written: Vec<u8> = Vec::new();
        let mut copied = 0;
        let mut from = 0;
        while let Some((at, candidates)) = scanner.next_candidates(text, from) {
            let mut found = candidates.iter().filter_map(|index| self.forms.get(usize::from(*index)));
            let Some((start, end)) = found.find_map(|form| form.found_at(text, at)) else {
                from = at + 1;
                continue;
            };
            // The character before may have been taken away already.
            written.extend_from_slice(text.get(copied..start.max(copied)).unwrap_or_default());
            written.extend_from_slice(REDACTED.as_bytes());
            copied = end;
            from = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        written.extend_from_slice(text.get(copied..).unwrap_or_default());
        Cow::Owned(written)
    }

    /// The text without the secrets.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Secrets are whole characters, so what is left is UTF-8.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// The same for a body that is not needed any more; it is not copied where nothing is found.
    #[must_use]
    pub fn body(&self, body: Vec<u8>) -> Vec<u8> {
        match self.bytes(&body) {
            Cow::Borrowed(_) => body,
            Cow::Owned(redacted) => redacted,
        }
    }
}

#[cfg(test)]
mod tests;
