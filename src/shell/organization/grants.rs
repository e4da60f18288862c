//! What people granted to OAuth clients: one row each, changed by one step in one transaction. And how often somebody tried to
//! sign in with the owner's passphrase.

use super::object::OrganizationDurableObject;
use super::rows::cast;
use crate::auth::passphrase::{FAILURE_WINDOW_MS, may_try};
use crate::oauth::{Change, Grant, GrantAnswer, GrantStep, take_step};
use crate::shell::clock::now;

/// Grants of one account; the ones that were used longest ago go first.
const KEPT: u64 = 100;

impl OrganizationDurableObject {
    /// Carries out a step. The row is written before the answer leaves.
    pub(super) fn grant_step(&self, step: GrantStep) -> worker::Result<GrantAnswer> {
        let stored = self
            .texts("SELECT json FROM oauth_grant WHERE id = ?", vec![step.id().into()])?
            .into_iter()
            .next()
            .map(|text| crate::json::from_str::<Grant>(&text))
            .transpose()?;
        let opens = matches!(step, GrantStep::Open { .. });
        let (answer, change) = take_step(step, stored.as_ref(), now());
        match change {
            None => {}
            Some(Change::Remove(id)) => self.remove_grant(&id)?,
            Some(Change::Put(grant)) => {
                self.sql().exec(
                    "INSERT OR REPLACE INTO oauth_grant (id, account, used_at, expires_at, json) VALUES (?, ?, ?, ?, ?)",
                    vec![
                        grant.id.as_str().into(),
                        grant.account.as_str().into(),
                        cast(now()),
                        cast(grant.expires_at),
                        serde_json::to_string(&grant)?.into(),
                    ],
                )?;
                if opens {
                    self.sweep_grants(&grant.account)?;
                }
            }
        }
        Ok(answer)
    }

    /// Whether one more try to sign in is allowed. It counts as failed until [`Self::signed_in`] says otherwise.
    pub(super) fn may_sign_in(&self, address: &str) -> worker::Result<bool> {
        let since = now().saturating_sub(FAILURE_WINDOW_MS);
        self.sql().exec("DELETE FROM sign_in_try WHERE at <= ?", vec![cast(since)])?;
        let of_all = self.count("SELECT COUNT(*) FROM sign_in_try", vec![])?;
        let of_address = self.count("SELECT COUNT(*) FROM sign_in_try WHERE address = ?", vec![address.into()])?;
        let allowed = may_try(of_address, of_all);
        if allowed {
            self.sql()
                .exec("INSERT INTO sign_in_try (at, address) VALUES (?, ?)", vec![cast(now()), address.into()])?;
        }
        Ok(allowed)
    }

    /// Somebody from that address knew the passphrase.
    pub(super) fn signed_in(&self, address: &str) -> worker::Result<()> {
        self.sql().exec("DELETE FROM sign_in_try WHERE address = ?", vec![address.into()])?;
        Ok(())
    }

    fn remove_grant(&self, id: &str) -> worker::Result<()> {
        self.sql().exec("DELETE FROM oauth_grant WHERE id = ?", vec![id.into()])?;
        Ok(())
    }

    /// Removes what is over, and what is more than an account may have. New rows come only here, so it is bounded.
    fn sweep_grants(&self, account: &str) -> worker::Result<()> {
        self.sql().exec("DELETE FROM oauth_grant WHERE expires_at <= ?", vec![cast(now())])?;
        self.sql().exec(
            "DELETE FROM oauth_grant WHERE id IN \
             (SELECT id FROM oauth_grant WHERE account = ? ORDER BY used_at DESC, id LIMIT -1 OFFSET ?)",
            vec![account.into(), cast(KEPT)],
        )?;
        Ok(())
    }
}
