//! Bindings: which secondary objects (pull requests, threads) belong to which work items.

use rusqlite::params;

use super::super::error::StoreError;
use super::super::late_routing::{self, Routed, Scope};
use super::super::writer::{Tx, Write};
use super::super::{routing, stored_event};
use crate::domain::{Binding, Identity, Provider, Timestamp};
use crate::telemetry::GatewayEvent;

/// Binds a key to a work item. Sent by the API.
///
/// A GitHub or Jira key gains one more work item; of a Slack key the last one published wins.
#[derive(Debug, Clone)]
pub struct PutBinding {
    /// Who publishes it.
    pub identity: Identity,
    /// What belongs to what.
    pub binding: Binding,
}

/// Withdraws a binding, whoever published it; nothing happens when there is none. Sent by the API.
#[derive(Debug, Clone)]
pub struct DeleteBinding {
    /// Who withdraws it.
    pub identity: Identity,
    /// What does not belong together any more.
    pub binding: Binding,
}

impl Write for PutBinding {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let holder = super::publisher(tx, &self.identity)?;
        let position = tx.effects.events.len();
        let replaced = replace_slack_binding(tx, &self.binding)?;
        let is_new = insert(tx, holder.id, &self.binding)?;
        let routed = late_routing::cover(tx, &covered_scopes(&self.binding))?;
        if is_new || replaced.is_some() || routed.deliveries > 0 {
            let record = GatewayEvent::Bound {
                instance: holder.name.to_string(),
                provider: self.binding.provider,
                key: self.binding.key,
                work_item: self.binding.work_item.to_string(),
                replaced,
                routed: routed.deliveries,
            };
            super::record_at(tx, position, record);
        }
        Ok(routed)
    }
}

impl Write for DeleteBinding {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let Some(holder) = super::withdrawer(tx, &self.identity)? else {
            return Ok(Routed::default());
        };
        let Binding { provider, key, .. } = self.binding;
        let deleted = tx.execute(
            "DELETE FROM bindings WHERE provider = ?1 AND key = ?2 AND work_item_key = ?3",
            params![provider.as_str(), key, self.binding.work_item.key()],
            "withdraw a binding",
        )?;
        if deleted > 0 {
            tx.effects.events.push(GatewayEvent::Unbound {
                instance: holder.name.to_string(),
                provider,
                key,
                work_item: self.binding.work_item.to_string(),
            });
        }
        Ok(Routed::default())
    }
}

/// Takes a Slack key away from another work item, and names that one.
fn replace_slack_binding(tx: &Tx<'_>, binding: &Binding) -> Result<Option<String>, StoreError> {
    match binding.provider {
        Provider::GitHub | Provider::Jira => Ok(None),
        Provider::Slack => tx.first(
            "DELETE FROM bindings WHERE provider = 'slack' AND key = ?1 AND work_item_key <> ?2
             RETURNING work_item",
            params![binding.key, binding.work_item.key()],
            |row| row.get(0),
            "replace a binding",
        ),
    }
}

/// True when the binding was not there yet; one that is published again counts as used.
fn insert(tx: &Tx<'_>, instance_id: i64, binding: &Binding) -> Result<bool, StoreError> {
    let provider = binding.provider.as_str();
    let work_item_key = binding.work_item.key();
    let used_at = tx.first(
        "SELECT used_at_ms FROM bindings
         WHERE provider = ?1 AND key = ?2 AND work_item_key = ?3",
        params![provider, binding.key, work_item_key],
        |row| row.get(0).map(Timestamp),
        "read a binding",
    )?;
    if used_at.is_some_and(|used_at| !routing::is_use_due(tx.now, used_at)) {
        return Ok(false);
    }
    tx.execute(
        "INSERT INTO bindings (provider, key, work_item_key, work_item, subject_key,
             instance_id, bound_at_ms, used_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
         ON CONFLICT (provider, key, work_item_key) DO UPDATE SET used_at_ms = excluded.used_at_ms",
        params![
            provider,
            binding.key,
            work_item_key,
            binding.work_item.to_string(),
            binding.work_item.subject().key(),
            instance_id,
            tx.now.0
        ],
        "bind a key",
    )?;
    Ok(used_at.is_none())
}

/// What a binding covers: events that wait for its key, and held events of the object that the
/// key names, which now go to the claimants of the work item too.
fn covered_scopes(binding: &Binding) -> Vec<Scope> {
    let mut scopes = vec![Scope::Binding(binding.provider, binding.key.clone())];
    let object = match binding.provider {
        Provider::GitHub | Provider::Jira => stored_event::subject_key_of(&binding.key),
        Provider::Slack => None,
    };
    if let Some(key) = object {
        scopes.extend([Scope::Subject(key.clone()), Scope::Linked(key)]);
    }
    scopes
}
