//! What an instance that is gone still holds: its name, its claims, its actors.

use rusqlite::params;

use crate::domain::{InstanceName, Role, Subject};
use crate::store::error::StoreError;
use crate::store::instances;
use crate::store::lease::{self, Holder};
use crate::store::writer::{Tx, Write};
use crate::telemetry::GatewayEvent;

/// Takes from an instance what it holds, whoever its peer is. Sent by the API for an operator.
///
/// Its deliveries stay on its queue. An instance that is alive takes its lease again with its
/// next fetch.
#[derive(Debug, Clone)]
pub struct OperatorRelease {
    /// Whose.
    pub instance: InstanceName,
    /// The lease of its name, so that another peer can take it at once.
    pub lease: bool,
    /// Its claims.
    pub claims: bool,
    /// The actors that it registered.
    pub actors: bool,
    /// Of its claims only those on this subject.
    pub subject: Option<Subject>,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

/// What was taken, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Released {
    /// True when the instance is known; nothing is taken from one that is not.
    pub known: bool,
    /// True when a live lease ended.
    pub lease: bool,
    /// Claims that ended.
    pub claims: u64,
    /// Actors that are free.
    pub actors: u64,
}

impl Write for OperatorRelease {
    type Reply = Released;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Released, StoreError> {
        let mut released = Released {
            known: instances::is_known(tx, &self.instance)?,
            ..Released::default()
        };
        if let Some(holder) = lease::load(tx, &self.instance)? {
            released.lease = self.lease && self.end_lease(tx, &holder)?;
            if self.claims {
                released.claims = self.end_claims(tx, &holder)?;
            }
            if self.actors {
                released.actors = self.end_actors(tx, &holder)?;
            }
        }
        if !self.dry_run {
            let changed = released
                .claims
                .saturating_add(released.actors)
                .saturating_add(u64::from(released.lease));
            super::record(tx, "release", self.in_words(), changed);
        }
        Ok(released)
    }
}

impl OperatorRelease {
    fn in_words(&self) -> String {
        let what = [
            (self.lease, "lease"),
            (self.claims, "claims"),
            (self.actors, "actors"),
        ];
        let what: Vec<_> = what
            .into_iter()
            .filter_map(|(is_meant, word)| is_meant.then_some(word))
            .collect();
        let on = self
            .subject
            .as_ref()
            .map_or(String::new(), |subject| format!(" on {subject}"));
        format!("{} of {}{on}", what.join(", "), self.instance)
    }

    fn end_lease(&self, tx: &Tx<'_>, holder: &Holder) -> Result<bool, StoreError> {
        let is_live = holder.is_live(tx.now, tx.settings);
        if is_live && !self.dry_run {
            tx.execute(
                "UPDATE instances SET lease_until_ms = ?2 WHERE id = ?1",
                params![holder.id, tx.now.0],
                "end a lease",
            )?;
        }
        Ok(is_live)
    }

    fn end_claims(&self, tx: &mut Tx<'_>, holder: &Holder) -> Result<u64, StoreError> {
        let subject_key = self.subject.as_ref().map(Subject::key).unwrap_or_default();
        let claims = tx.all(
            "SELECT subject, role FROM claims
             WHERE instance_id = ?1 AND (?2 = '' OR subject_key = ?2)
             ORDER BY subject_key, role",
            params![holder.id, subject_key],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
            "read the claims of an instance",
        )?;
        let count = u64::try_from(claims.len()).unwrap_or(u64::MAX);
        if self.dry_run {
            return Ok(count);
        }
        tx.execute(
            "DELETE FROM claims WHERE instance_id = ?1 AND (?2 = '' OR subject_key = ?2)",
            params![holder.id, subject_key],
            "end the claims of an instance",
        )?;
        for (subject, role) in claims {
            let role = Role::parse(&role)
                .map_err(|error| StoreError::Corrupt(format!("the role of a claim {error}")))?;
            tx.effects.events.push(GatewayEvent::Released {
                instance: self.instance.to_string(),
                subject,
                role,
            });
        }
        Ok(count)
    }

    fn end_actors(&self, tx: &mut Tx<'_>, holder: &Holder) -> Result<u64, StoreError> {
        let count = tx
            .first(
                "SELECT count(*) FROM actors WHERE instance_id = ?1",
                params![holder.id],
                |row| row.get::<_, i64>(0),
                "count the actors of an instance",
            )?
            .unwrap_or(0);
        if count > 0 && !self.dry_run {
            tx.execute(
                "DELETE FROM actors WHERE instance_id = ?1",
                params![holder.id],
                "end the actors of an instance",
            )?;
            tx.effects.events.push(GatewayEvent::Registered {
                instance: self.instance.to_string(),
                actors: Vec::new(),
                taken: None,
                routed: 0,
            });
        }
        Ok(count.unsigned_abs())
    }
}
