//! Actor registrations: for whose accounts an instance works where nobody claims a subject.
//!
//! An account belongs to one instance. While that one's lease is live nobody else gets it; after
//! that it goes to whoever registers it next.

use std::collections::BTreeMap;

use rusqlite::params;

use super::super::error::StoreError;
use super::super::late_routing::{self, Routed, Scope};
use super::super::lease::{self, Holder};
use super::super::writer::{Tx, Write};
use crate::broken::Break;
use crate::domain::{
    ActorConflict, ActorSet, EventActor, Identity, Millis, Provider, Refusal, Timestamp,
};
use crate::telemetry::GatewayEvent;

/// The lease that a registration with a peer takes, as a fetch that names no other would.
const REGISTRATION_LEASE_MS: Millis = 60_000;

/// Replaces the accounts that an instance works for. Sent by the API.
///
/// Refused as a whole when another instance with a live lease holds one of them. With a peer it
/// takes the name's lease, so that two starting processes cannot take from each other.
#[derive(Debug, Clone)]
pub struct PutActors {
    /// Who registers.
    pub identity: Identity,
    /// All its accounts from now on.
    pub actors: ActorSet,
}

/// What a registration does to the accounts that are held so far.
#[derive(Debug, Default)]
struct Change {
    gained: Vec<Account>,
    taken: Vec<String>,
    given_up: u64,
}

/// An account with what its equality means.
type Account = ((Provider, String), EventActor);

impl Write for PutActors {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let mut holder = super::publisher(tx, &self.identity)?;
        hold_name(tx, &mut holder, &self.identity)?;
        let position = tx.effects.events.len();
        let wanted: BTreeMap<(Provider, String), EventActor> = self
            .actors
            .0
            .into_iter()
            .map(|actor| ((actor.provider, actor.key().into_owned()), actor))
            .collect();
        let change = replace(tx, &holder, &wanted)?;
        let scopes: Vec<Scope> = change
            .gained
            .iter()
            .map(|((provider, key), _)| Scope::Actor(*provider, key.clone()))
            .collect();
        let routed = late_routing::cover(tx, &scopes)?;
        if !change.gained.is_empty() || change.given_up > 0 {
            let record = GatewayEvent::Registered {
                instance: holder.name.to_string(),
                actors: wanted.values().map(shown).collect(),
                taken: (!change.taken.is_empty()).then_some(change.taken),
                routed: routed.deliveries,
            };
            super::record_at(tx, position, record);
        }
        Ok(routed)
    }
}

fn shown(actor: &EventActor) -> String {
    format!("{}:{}", actor.provider, actor.name)
}

/// Takes or renews the lease for the peer that registers; shortens none.
fn hold_name(tx: &Tx<'_>, holder: &mut Holder, identity: &Identity) -> Result<(), StoreError> {
    let Some(peer) = &identity.peer else {
        return Ok(());
    };
    let run = holder.run_of(identity);
    let is_held_by_it = holder.is_live(tx.now, tx.settings) && holder.run == run.name;
    let lease_ms = if is_held_by_it {
        holder.lease_ms.max(REGISTRATION_LEASE_MS)
    } else {
        REGISTRATION_LEASE_MS
    };
    let is_held_long_enough = is_held_by_it && holder.lease_left_ms(tx.now) >= lease_ms;
    if is_held_long_enough || Break::ActorsTakeNothingOver.is_on() {
        return Ok(());
    }
    lease::take(tx, holder, peer, &run, lease_ms)
}

fn replace(
    tx: &Tx<'_>,
    holder: &Holder,
    wanted: &BTreeMap<(Provider, String), EventActor>,
) -> Result<Change, StoreError> {
    let mut change = Change::default();
    let mut conflicts = Vec::new();
    for (account, actor) in wanted {
        match registrant(tx, account)? {
            Some(other) if other.id == holder.id => continue,
            Some(other) if lease::is_live(other.lease_until, tx.now, tx.settings) => {
                conflicts.push(ActorConflict {
                    provider: actor.provider,
                    actor: actor.name.clone(),
                    holder: other.name,
                });
            }
            Some(other) => change
                .taken
                .push(format!("{}@{}", shown(actor), other.name)),
            None => {}
        }
        change.gained.push((account.clone(), actor.clone()));
    }
    if !conflicts.is_empty() {
        return Err(Refusal::DuplicateActor { conflicts }.into());
    }
    change.given_up = give_up_others(tx, holder.id, wanted)?;
    for (account, actor) in &change.gained {
        insert(tx, holder.id, account, actor)?;
    }
    Ok(change)
}

/// The instance that an account is registered for.
struct Registrant {
    id: i64,
    name: String,
    lease_until: Timestamp,
}

fn registrant(
    tx: &Tx<'_>,
    (provider, key): &(Provider, String),
) -> Result<Option<Registrant>, StoreError> {
    tx.first(
        "SELECT instances.id, instances.name, instances.lease_until_ms
         FROM actors JOIN instances ON instances.id = actors.instance_id
         WHERE actors.provider = ?1 AND actors.actor_key = ?2",
        params![provider.as_str(), key],
        |row| {
            Ok(Registrant {
                id: row.get(0)?,
                name: row.get(1)?,
                lease_until: Timestamp(row.get(2)?),
            })
        },
        "read who registered an actor",
    )
}

/// Ends the registrations of an instance that it does not name any more; tells how many.
fn give_up_others(
    tx: &Tx<'_>,
    instance_id: i64,
    wanted: &BTreeMap<(Provider, String), EventActor>,
) -> Result<u64, StoreError> {
    let registered = tx.all(
        "SELECT provider, actor_key FROM actors WHERE instance_id = ?1",
        params![instance_id],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        "read the actors of an instance",
    )?;
    let mut given_up = 0_u64;
    for (word, key) in registered {
        let account = Provider::from_word(&word).map(|provider| (provider, key.clone()));
        if account.is_some_and(|account| wanted.contains_key(&account)) {
            continue;
        }
        tx.execute(
            "DELETE FROM actors WHERE provider = ?1 AND actor_key = ?2",
            params![word, key],
            "end an actor's registration",
        )?;
        given_up = given_up.saturating_add(1);
    }
    Ok(given_up)
}

fn insert(
    tx: &Tx<'_>,
    instance_id: i64,
    (provider, key): &(Provider, String),
    actor: &EventActor,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO actors (provider, actor_key, actor, instance_id, registered_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (provider, actor_key) DO UPDATE SET actor = excluded.actor,
             instance_id = excluded.instance_id, registered_at_ms = excluded.registered_at_ms",
        params![provider.as_str(), key, actor.name, instance_id, tx.now.0],
        "register an actor",
    )?;
    Ok(())
}
