//! A claim that its instance does not end.

use rusqlite::params;

use crate::domain::{InstanceName, Role, Subject};
use crate::store::error::StoreError;
use crate::store::writer::{Tx, Write};
use crate::store::{instances, registrations};

/// Ends claims of an instance on a subject, whoever holds its name. Sent by the API for an
/// operator.
#[derive(Debug, Clone)]
pub struct OperatorRelease {
    /// Whose claim.
    pub instance: InstanceName,
    /// On what.
    pub subject: Subject,
    /// As what; `None` ends the claims of both roles.
    pub role: Option<Role>,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

/// Claims that ended, or would end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimsReleased {
    /// How many.
    pub claims: u64,
}

impl Write for OperatorRelease {
    type Reply = ClaimsReleased;

    fn apply(self, tx: &mut Tx<'_>) -> Result<ClaimsReleased, StoreError> {
        let claims = match instances::find(tx, &self.instance)? {
            Some(id) if self.dry_run => self.count(tx, id)?,
            Some(id) => {
                let holder = (id, &self.instance);
                let ended = registrations::release_rows(tx, holder, &self.subject, self.role)?;
                u64::try_from(ended.len()).unwrap_or(u64::MAX)
            }
            None => 0,
        };
        if !self.dry_run {
            let target = format!("{} of {}", self.subject, self.instance);
            super::record(tx, "release", target, claims);
        }
        Ok(ClaimsReleased { claims })
    }
}

impl OperatorRelease {
    fn count(&self, tx: &Tx<'_>, instance_id: i64) -> Result<u64, StoreError> {
        let role = self.role.map_or("", Role::as_str);
        let claims = tx.first(
            "SELECT count(*) FROM claims
             WHERE subject_key = ?1 AND instance_id = ?2 AND (?3 = '' OR role = ?3)",
            params![self.subject.key(), instance_id, role],
            |row| row.get::<_, i64>(0),
            "count claims",
        )?;
        Ok(claims.unwrap_or(0).unsigned_abs())
    }
}
