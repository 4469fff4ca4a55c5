//! What instances publish: claims, actors, bindings, rooms; and what pollers learn of commits.
//!
//! Each is one write that refuses whoever may not speak under the name, changes its rows, and
//! routes the waiting events that it covers in the same transaction. So an event finds either the
//! registration, or the registration finds the event.

mod actors;
mod bindings;
mod claims;
mod commits;
mod rooms;

pub use actors::PutActors;
pub use bindings::{DeleteBinding, PutBinding};
pub use claims::{PutClaim, ReleaseClaim};
pub use commits::LearnCommits;
pub use rooms::PutRooms;

pub(super) use commits::learn;

use super::error::StoreError;
use super::lease::{self, Holder};
use super::writer::Tx;
use crate::domain::Identity;
use crate::telemetry::GatewayEvent;

/// The instance that publishes something; its row is made if there is none.
fn publisher(tx: &Tx<'_>, identity: &Identity) -> Result<Holder, StoreError> {
    let holder = lease::create(tx, &identity.instance)?;
    lease::check(tx, &holder, identity)?;
    Ok(holder)
}

/// The instance that withdraws something; `None` when it never published anything.
fn withdrawer(tx: &Tx<'_>, identity: &Identity) -> Result<Option<Holder>, StoreError> {
    let holder = lease::load(tx, &identity.instance)?;
    if let Some(holder) = &holder {
        lease::check(tx, holder, identity)?;
    }
    Ok(holder)
}

/// Records a registration in front of the routings that it caused.
fn record_at(tx: &mut Tx<'_>, position: usize, event: GatewayEvent) {
    tx.effects.events.insert(position, event);
}
