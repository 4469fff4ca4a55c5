//! Who holds an instance's name, and who may speak under it.
//!
//! A name belongs to one peer, and of that peer to one run, while its lease is live. Another peer
//! is refused meanwhile; a newer run of the same peer takes over at once, and the run that it took
//! over from is refused from then on. A name without a live lease refuses nobody.
//! Nothing here touches deliveries: what the old holder had in hand is taken back by a fetch.

use rusqlite::params;

use super::error::StoreError;
use super::instances;
use super::settings::Settings;
use super::writer::Tx;
use crate::broken::Break;
use crate::digest;
use crate::domain::{Identity, InstanceName, Millis, PeerId, Refusal, Timestamp};

/// Superseded runs that are remembered of each instance.
const SUPERSEDED_RUNS_MAX: i64 = 16;

/// One process of a peer, as the store tells processes apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// What the client calls it, or a name that no client can send.
    pub name: String,
    /// True when the client sent none.
    pub is_made_up: bool,
}

/// The row of an instance: who holds the name, and until when.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub id: i64,
    pub name: InstanceName,
    /// Empty before the first lease.
    pub peer: String,
    /// Empty before the first lease.
    pub run: String,
    pub run_is_made_up: bool,
    pub held_since: Timestamp,
    pub lease_ms: Millis,
    /// Never further away than the longest wait and lease, whatever the clock did meanwhile.
    pub lease_until: Timestamp,
    pub lapsed_at: Timestamp,
    pub last_number: i64,
    pub echoed_number: i64,
}

impl Holder {
    /// True while the name belongs to its holder.
    pub(super) fn is_live(&self, now: Timestamp, settings: &Settings) -> bool {
        is_live(self.lease_until, now, settings)
    }

    /// How long the lease lasts from now; 0 when it is not live.
    pub(super) fn lease_left_ms(&self, now: Timestamp) -> Millis {
        self.lease_until.since(now).max(0)
    }

    /// A run for a client that names none. The name differs from that of every run that was
    /// handed something, since a hand-out takes a new number.
    pub(super) fn make_up_run(&self) -> Run {
        Run {
            name: format!("made-up:{}", self.last_number),
            is_made_up: true,
        }
    }

    /// The run that a request outside fetch speaks for: its own, else the present one of its peer.
    pub(super) fn run_of(&self, identity: &Identity) -> Run {
        match &identity.run {
            Some(run) => Run {
                name: run.to_string(),
                is_made_up: false,
            },
            None if self.run.is_empty() || !self.is_peer(identity.peer.as_ref()) => {
                self.make_up_run()
            }
            None => Run {
                name: self.run.clone(),
                is_made_up: self.run_is_made_up,
            },
        }
    }

    fn is_peer(&self, peer: Option<&PeerId>) -> bool {
        peer.is_some_and(|peer| peer.as_str() == self.peer)
    }

    fn refusal(&self, now: Timestamp, superseded: bool) -> StoreError {
        let seconds = self.lease_left_ms(now).saturating_add(999).div_euclid(1000);
        StoreError::Refused(Refusal::DuplicateInstance {
            holder: self.name.clone(),
            since: self.held_since,
            fingerprint: if Break::PeerIdShown.is_on() {
                self.peer.clone()
            } else {
                digest::fingerprint(&self.peer)
            },
            superseded,
            retry_after: u32::try_from(seconds).unwrap_or(u32::MAX).max(1),
        })
    }
}

/// The end of a lease as it is read: a clock that was set back prolongs none beyond the longest.
pub(super) fn clamp_end(stored: Timestamp, now: Timestamp, settings: &Settings) -> Timestamp {
    let longest = settings.wait_max_ms.saturating_add(settings.lease_max_ms);
    stored.min(now.plus(longest))
}

/// True while a lease that ends then is live.
pub(super) fn is_live(lease_until: Timestamp, now: Timestamp, settings: &Settings) -> bool {
    clamp_end(lease_until, now, settings) > now
        || (Break::LeaseNeverLapses.is_on() && lease_until.0 > 0)
}

/// The holder of a name that has a row.
pub(super) fn load(tx: &Tx<'_>, name: &InstanceName) -> Result<Option<Holder>, StoreError> {
    tx.first(
        "SELECT id, peer, run, run_is_made_up, held_since_ms, lease_ms, lease_until_ms,
                lapsed_at_ms, last_number, echoed_number
         FROM instances WHERE name = ?1",
        params![name.as_str()],
        |row| {
            Ok(Holder {
                id: row.get(0)?,
                name: name.clone(),
                peer: row.get(1)?,
                run: row.get(2)?,
                run_is_made_up: row.get(3)?,
                held_since: Timestamp(row.get(4)?),
                lease_ms: row.get(5)?,
                lease_until: clamp_end(Timestamp(row.get(6)?), tx.now, tx.settings),
                lapsed_at: Timestamp(row.get(7)?),
                last_number: row.get(8)?,
                echoed_number: row.get(9)?,
            })
        },
        "read who holds a name",
    )
}

/// The holder of a name, whose row is made if there is none.
pub(super) fn create(tx: &Tx<'_>, name: &InstanceName) -> Result<Holder, StoreError> {
    instances::ensure(tx, name)?;
    load(tx, name)?.ok_or_else(|| StoreError::Corrupt("an instance without a row".to_owned()))
}

/// Refuses whoever may not speak under the name: another peer, and a superseded run.
pub(super) fn check(tx: &Tx<'_>, holder: &Holder, asking: &Identity) -> Result<(), StoreError> {
    check_peer(tx, holder, asking)?;
    if Break::NewRunRefused.is_on()
        && holder.is_live(tx.now, tx.settings)
        && holder.run_of(asking).name != holder.run
    {
        return Err(holder.refusal(tx.now, false));
    }
    if holder.is_live(tx.now, tx.settings) && is_superseded(tx, holder, asking)? {
        return Err(holder.refusal(tx.now, true));
    }
    Ok(())
}

/// Refuses another peer, and a request without one, while the lease is live. Enough for a commit:
/// what a superseded run says of its deliveries counts.
pub(super) fn check_peer(
    tx: &Tx<'_>,
    holder: &Holder,
    asking: &Identity,
) -> Result<(), StoreError> {
    if Break::RivalLetIn.is_on() || (Break::PeerNotNeeded.is_on() && asking.peer.is_none()) {
        return Ok(());
    }
    if holder.is_live(tx.now, tx.settings) && !holder.is_peer(asking.peer.as_ref()) {
        return Err(holder.refusal(tx.now, false));
    }
    Ok(())
}

/// True when a newer run took over from the run that asks.
pub(super) fn is_superseded(
    tx: &Tx<'_>,
    holder: &Holder,
    asking: &Identity,
) -> Result<bool, StoreError> {
    let Some(run) = &asking.run else {
        return Ok(false);
    };
    if Break::SupersededRunServed.is_on() {
        return Ok(false);
    }
    let found = tx.first(
        "SELECT 1 FROM superseded_runs WHERE instance_id = ?1 AND run = ?2",
        params![holder.id, run.as_str()],
        |_| Ok(()),
        "read the superseded runs",
    )?;
    Ok(found.is_some())
}

/// Gives the name to a run of a peer for so long; the caller has checked that it may have it.
pub(super) fn take(
    tx: &Tx<'_>,
    holder: &mut Holder,
    peer: &PeerId,
    run: &Run,
    lease_ms: Millis,
) -> Result<(), StoreError> {
    let is_same_peer = holder.is_peer(Some(peer));
    if !is_same_peer || holder.run != run.name {
        if is_same_peer && !holder.run.is_empty() && !holder.run_is_made_up {
            remember_superseded(tx, holder)?;
        }
        forget_superseded(tx, holder.id, &run.name)?;
        holder.peer = peer.to_string();
        holder.run.clone_from(&run.name);
        holder.run_is_made_up = run.is_made_up;
        holder.held_since = tx.now;
        holder.echoed_number = 0;
    }
    renew(tx, holder, lease_ms, 0)
}

/// Lets the lease of the present holder end so long after a wait that begins now.
pub(super) fn renew(
    tx: &Tx<'_>,
    holder: &mut Holder,
    lease_ms: Millis,
    wait_ms: Millis,
) -> Result<(), StoreError> {
    if !holder.is_live(tx.now, tx.settings) {
        holder.lapsed_at = tx.now;
    }
    holder.lease_ms = lease_ms.clamp(tx.settings.lease_min_ms, tx.settings.lease_max_ms);
    if Break::LeaseNotClamped.is_on() {
        holder.lease_ms = lease_ms.max(holder.lease_ms);
    }
    let wait_ms = wait_ms.clamp(0, tx.settings.wait_max_ms);
    holder.lease_until = tx.now.plus(wait_ms).plus(holder.lease_ms);
    tx.execute(
        "UPDATE instances SET peer = ?2, run = ?3, run_is_made_up = ?4, held_since_ms = ?5,
             lease_ms = ?6, lease_until_ms = ?7, lapsed_at_ms = ?8, echoed_number = ?9,
             forgotten_at_ms = 0
         WHERE id = ?1",
        params![
            holder.id,
            holder.peer,
            holder.run,
            holder.run_is_made_up,
            holder.held_since.0,
            holder.lease_ms,
            holder.lease_until.0,
            holder.lapsed_at.0,
            holder.echoed_number
        ],
        "renew a lease",
    )?;
    Ok(())
}

fn remember_superseded(tx: &Tx<'_>, holder: &Holder) -> Result<(), StoreError> {
    forget_superseded(tx, holder.id, &holder.run)?;
    tx.execute(
        "INSERT INTO superseded_runs (instance_id, run) VALUES (?1, ?2)",
        params![holder.id, holder.run],
        "remember a superseded run",
    )?;
    tx.execute(
        "DELETE FROM superseded_runs WHERE instance_id = ?1 AND id <= (
             SELECT id FROM superseded_runs WHERE instance_id = ?1
             ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        params![holder.id, SUPERSEDED_RUNS_MAX],
        "forget the oldest superseded run",
    )?;
    Ok(())
}

fn forget_superseded(tx: &Tx<'_>, instance_id: i64, run: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM superseded_runs WHERE instance_id = ?1 AND run = ?2",
        params![instance_id, run],
        "forget a superseded run",
    )?;
    Ok(())
}
