//! Rooms: which Slack channels belong to which work items as a whole.

use std::collections::BTreeMap;

use rusqlite::params;

use super::super::error::StoreError;
use super::super::late_routing::{self, Routed, Scope};
use super::super::lease::Holder;
use super::super::routing;
use super::super::writer::{Tx, Write};
use crate::domain::{Identity, Room, Timestamp, WorkItemRef};
use crate::telemetry::GatewayEvent;

/// Replaces the rooms that an instance publishes. Sent by the API.
///
/// A channel that is published twice, by whomever, belongs to the last who did.
#[derive(Debug, Clone)]
pub struct PutRooms {
    /// Who publishes them.
    pub identity: Identity,
    /// All its rooms from now on.
    pub rooms: Vec<Room>,
}

/// A room as it lies in the store.
struct Published {
    work_item: String,
    instance_id: i64,
    instance: String,
    used_at: Timestamp,
}

impl Write for PutRooms {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let holder = super::publisher(tx, &self.identity)?;
        let position = tx.effects.events.len();
        let mut taken = Vec::new();
        let mut wanted: BTreeMap<String, WorkItemRef> = BTreeMap::new();
        for room in self.rooms {
            let other = wanted.insert(room.channel.clone(), room.work_item);
            if other.is_some() {
                taken.push(format!("{}@{}", room.channel, holder.name));
            }
        }
        let given_up = give_up_others(tx, holder.id, &wanted)?;
        let mut scopes = Vec::new();
        for (channel, work_item) in &wanted {
            if publish(tx, &holder, (channel, work_item), &mut taken)? {
                scopes.push(Scope::Room(channel.clone()));
            }
        }
        let routed = late_routing::cover(tx, &scopes)?;
        if !scopes.is_empty() || given_up > 0 || !taken.is_empty() {
            let record = GatewayEvent::Roomed {
                instance: holder.name.to_string(),
                rooms: wanted
                    .iter()
                    .map(|(channel, work_item)| format!("{channel}={work_item}"))
                    .collect(),
                taken: (!taken.is_empty()).then_some(taken),
                routed: routed.deliveries,
            };
            super::record_at(tx, position, record);
        }
        Ok(routed)
    }
}

/// Withdraws the rooms of an instance that it does not name any more; tells how many.
fn give_up_others(
    tx: &Tx<'_>,
    instance_id: i64,
    wanted: &BTreeMap<String, WorkItemRef>,
) -> Result<u64, StoreError> {
    let published = tx.all(
        "SELECT channel FROM rooms WHERE instance_id = ?1",
        params![instance_id],
        |row| row.get::<_, String>(0),
        "read the rooms of an instance",
    )?;
    let mut given_up = 0_u64;
    for channel in published
        .iter()
        .filter(|channel| !wanted.contains_key(*channel))
    {
        tx.execute(
            "DELETE FROM rooms WHERE channel = ?1",
            params![channel],
            "withdraw a room",
        )?;
        given_up = given_up.saturating_add(1);
    }
    Ok(given_up)
}

/// True when the room is new or names another work item; one that is published again counts as
/// used. Notes from whom it was taken.
fn publish(
    tx: &Tx<'_>,
    holder: &Holder,
    (channel, work_item): (&str, &WorkItemRef),
    taken: &mut Vec<String>,
) -> Result<bool, StoreError> {
    let before = published(tx, channel)?;
    let text = work_item.to_string();
    let is_same = before
        .as_ref()
        .is_some_and(|room| room.work_item == text && room.instance_id == holder.id);
    if let Some(room) = &before {
        if is_same && !routing::is_use_due(tx.now, room.used_at) {
            return Ok(false);
        }
        if room.instance_id != holder.id {
            taken.push(format!("{channel}@{}", room.instance));
        }
    }
    tx.execute(
        "INSERT INTO rooms (channel, work_item, instance_id, published_at_ms, used_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (channel) DO UPDATE SET work_item = excluded.work_item,
             instance_id = excluded.instance_id, used_at_ms = excluded.used_at_ms",
        params![channel, text, holder.id, tx.now.0],
        "publish a room",
    )?;
    Ok(!is_same)
}

fn published(tx: &Tx<'_>, channel: &str) -> Result<Option<Published>, StoreError> {
    tx.first(
        "SELECT rooms.work_item, rooms.instance_id, instances.name, rooms.used_at_ms
         FROM rooms JOIN instances ON instances.id = rooms.instance_id
         WHERE rooms.channel = ?1",
        params![channel],
        |row| {
            Ok(Published {
                work_item: row.get(0)?,
                instance_id: row.get(1)?,
                instance: row.get(2)?,
                used_at: Timestamp(row.get(3)?),
            })
        },
        "read a room",
    )
}
