//! The sign-in of a gateway with one owner: a passphrase, kept as a slow hash (scrypt, RFC 7914), with a bound on how often
//! somebody may try.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scrypt::{Params, scrypt};

/// How the text begins.
const PREFIX: &str = "scrypt";
/// log2 of the cost: 16 MiB of memory at least, which an isolate can spare, and 32 MiB at most.
const COST: std::ops::RangeInclusive<u8> = 14..=15;
/// The block size that the memory above is for.
const BLOCK_SIZE: u32 = 8;
/// How often the whole is done, one after the other.
const PARALLELISM: std::ops::RangeInclusive<u32> = 1..=16;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Bytes of a passphrase that are looked at.
const PASSPHRASE_BYTES: usize = 1_024;

/// How long a failed try counts, in milliseconds.
pub const FAILURE_WINDOW_MS: u64 = 15 * 60_000;
/// Failed tries of one address in that time.
const FAILURES_OF_ADDRESS: u64 = 5;
/// Failed tries of all addresses in that time. With more the owner has to wait as well: better than being guessed.
const FAILURES_OF_ALL: u64 = 50;

/// A passphrase, as `npm run passphrase` writes it: `scrypt:<log2 of N>:<r>:<p>:<salt>:<hash>`.
#[derive(Clone, PartialEq, Eq)]
pub struct PassphraseHash {
    params: (u8, u32),
    salt: [u8; SALT_BYTES],
    hash: [u8; HASH_BYTES],
}

impl std::fmt::Debug for PassphraseHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PassphraseHash")
    }
}

impl PassphraseHash {
    /// Reads the text; `None` for anything that the script does not write.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let [prefix, cost, block_size, parallelism, salt, hash] = parts.try_into().ok()?;
        let (cost, parallelism) = (cost.parse::<u8>().ok()?, parallelism.parse::<u32>().ok()?);
        let known = prefix == PREFIX && block_size.parse() == Ok(BLOCK_SIZE);
        if !known || !COST.contains(&cost) || !PARALLELISM.contains(&parallelism) {
            return None;
        }
        Some(Self {
            params: (cost, parallelism),
            salt: URL_SAFE_NO_PAD.decode(salt).ok()?.try_into().ok()?,
            hash: URL_SAFE_NO_PAD.decode(hash).ok()?.try_into().ok()?,
        })
    }

    /// Tells this passphrase from others; says nothing about it.
    #[must_use]
    pub fn name(&self) -> String {
        // The salt is new with every passphrase.
        URL_SAFE_NO_PAD.encode(self.salt)
    }

    /// Whether that is the passphrase. Takes some tenths of a second of processor time, whatever it is.
    #[must_use]
    pub fn is_of(&self, passphrase: &str) -> bool {
        let (cost, parallelism) = self.params;
        let Ok(params) = Params::new(cost, BLOCK_SIZE, parallelism) else {
            return false;
        };
        let mut hash = [0; HASH_BYTES];
        let bytes = passphrase.as_bytes();
        let looked_at = bytes.get(..PASSPHRASE_BYTES).unwrap_or(bytes);
        scrypt(looked_at, &self.salt, &params, &mut hash).is_ok()
            && bytes.len() <= PASSPHRASE_BYTES
            && super::same_bytes(&hash, &self.hash)
    }
}

/// Whether one more try is allowed, with so many failed ones in the last [`FAILURE_WINDOW_MS`].
#[must_use]
pub fn may_try(of_address: u64, of_all: u64) -> bool {
    of_address < FAILURES_OF_ADDRESS && of_all < FAILURES_OF_ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of "correct horse battery staple", by Node's `crypto.scryptSync`.
    const TEXT: &str = "scrypt:14:8:1:AAECAwQFBgcICQoLDA0ODw:11kKyiyYAc8G7rp3KmncMc44YlkdllIqxOa7pq0fMaU";

    #[test]
    fn only_the_passphrase_fits() {
        let hash = PassphraseHash::parse(TEXT).unwrap();
        assert!(hash.is_of("correct horse battery staple"));
        for wrong in ["", "correct horse battery stapl", "Correct horse battery staple", &"x".repeat(100_000)] {
            assert!(!hash.is_of(wrong));
        }
        assert_eq!(format!("{hash:?}"), "PassphraseHash");
    }

    #[test]
    fn what_is_no_hash_is_not_taken_for_one() {
        for (from, to) in [
            ("scrypt:", "bcrypt:"),
            (":14:", ":13:"),
            (":14:", ":20:"),
            (":8:1:", ":8:0:"),
            (":8:1:", ":8:1000000:"),
            (":8:1:", ":16:1:"),
            ("AAECAwQFBgcICQoLDA0ODw", "AAEC"),
            (":14:8:1", ":14:8"),
        ] {
            assert_eq!(PassphraseHash::parse(&TEXT.replacen(from, to, 1)), None, "{from} {to}");
        }
        assert_eq!(PassphraseHash::parse("correct horse battery staple"), None);
        assert!(PassphraseHash::parse(&format!(" {TEXT}\n")).is_some());
    }

    #[test]
    fn guessing_ends_soon() {
        assert!(may_try(4, 4) && !may_try(5, 5) && may_try(0, 49) && !may_try(0, 50));
    }
}
