//! Claims: which instances work on a subject, or review it.

use rusqlite::params;

use super::super::error::StoreError;
use super::super::late_routing::{self, Routed, Scope};
use super::super::lease::Holder;
use super::super::stored_event;
use super::super::writer::{Tx, Write};
use crate::broken::Break;
use crate::domain::{Identity, Role, Subject};
use crate::telemetry::GatewayEvent;

/// Claims a subject. Sent by the API; refused under a name that another peer holds.
#[derive(Debug, Clone)]
pub struct PutClaim {
    /// Who claims.
    pub identity: Identity,
    /// What it claims.
    pub subject: Subject,
    /// As what.
    pub role: Role,
}

/// Ends claims of an instance on a subject; nothing happens when there are none. Sent by the API.
#[derive(Debug, Clone)]
pub struct ReleaseClaim {
    /// Whose claim.
    pub identity: Identity,
    /// On what.
    pub subject: Subject,
    /// As what; `None` ends the claims of both roles.
    pub role: Option<Role>,
}

impl Write for PutClaim {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let holder = super::publisher(tx, &self.identity)?;
        let position = tx.effects.events.len();
        let is_new = insert(tx, holder.id, &self.subject, self.role)?;
        let mut scopes = covered_scopes(tx, &self.subject)?;
        if Break::ClaimRoutesNothing.is_on() {
            scopes.clear();
        }
        let routed = late_routing::cover(tx, &scopes)?;
        if is_new || routed.deliveries > 0 {
            let record = GatewayEvent::Claimed {
                instance: holder.name.to_string(),
                subject: self.subject.to_string(),
                role: self.role,
                routed: routed.deliveries,
            };
            super::record_at(tx, position, record);
        }
        Ok(routed)
    }
}

impl Write for ReleaseClaim {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        if let Some(holder) = super::withdrawer(tx, &self.identity)? {
            delete(tx, &holder, &self.subject, self.role)?;
        }
        Ok(Routed::default())
    }
}

/// True when the claim was not there yet. One that is asserted again stays as it is.
fn insert(
    tx: &Tx<'_>,
    instance_id: i64,
    subject: &Subject,
    role: Role,
) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "INSERT INTO claims (subject_key, instance_id, role, subject, claimed_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (subject_key, instance_id, role) DO NOTHING",
        params![
            subject.key(),
            instance_id,
            role.as_str(),
            subject.as_str(),
            tx.now.0
        ],
        "claim a subject",
    )?;
    Ok(changed > 0)
}

/// What a claim covers: the subject's own events and those of the objects that bindings link to
/// it (a ticket's pull requests), each as the event's subject and as one that it names besides.
fn covered_scopes(tx: &Tx<'_>, subject: &Subject) -> Result<Vec<Scope>, StoreError> {
    let mut keys = stored_event::subjects_linked_to(tx, subject)?;
    keys.insert(0, subject.key());
    Ok(keys
        .into_iter()
        .flat_map(|key| [Scope::Subject(key.clone()), Scope::Linked(key)])
        .collect())
}

/// Ends the claims of an instance on a subject, in one role or in both.
fn delete(
    tx: &mut Tx<'_>,
    holder: &Holder,
    subject: &Subject,
    role: Option<Role>,
) -> Result<(), StoreError> {
    let released = tx.all(
        "DELETE FROM claims
         WHERE subject_key = ?1 AND instance_id = ?2 AND (?3 = '' OR role = ?3)
         RETURNING role",
        params![subject.key(), holder.id, role.map_or("", Role::as_str)],
        |row| row.get::<_, String>(0),
        "release a claim",
    )?;
    for role in released {
        let role = Role::parse(&role)
            .map_err(|error| StoreError::Corrupt(format!("the role of a claim {error}")))?;
        tx.effects.events.push(GatewayEvent::Released {
            instance: holder.name.to_string(),
            subject: subject.to_string(),
            role,
        });
    }
    Ok(())
}
