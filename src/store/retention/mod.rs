//! What is too old, too much or used by nobody goes, a bounded piece at a time.
//!
//! One transaction changes at most [`ROWS_MAX`] rows and takes about [`TIME_MAX`], so that ingest
//! is not kept waiting; the reply says whether more is left. What is consumed goes quietly; what
//! was never consumed expires first, with a record, and its row stays as long again without its
//! payload, so that a crash repeats the record rather than losing it.

mod ended;
mod expiry;
mod grace;
mod names;
mod space;
mod unattended;

pub use grace::{ExpireGrace, GraceExpired};
pub use unattended::{NoteUnattended, Unattended};

use std::time::{Duration, Instant};

use super::error::StoreError;
use super::writer::{Tx, Write};
use crate::domain::{Millis, Timestamp};

/// Rows that one transaction changes for retention.
const ROWS_MAX: u32 = 500;
/// Time that one transaction takes for retention: less than a batch of ingest takes, which waits
/// for it twice at most, once before its batch and once within.
const TIME_MAX: Duration = Duration::from_millis(2);
/// How long a binding or a room is kept after its last use.
const REFERENCES_KEPT_MS: Millis = 180 * 24 * 3600 * 1000;

/// Lets go of what retention does not keep. Sent by housekeeping, again while there is more.
#[derive(Debug, Clone, Copy)]
pub struct Expire {
    /// The size of the write-ahead log in bytes, measured when the sweep began: what a sweep
    /// frees is in the log twice until the next checkpoint, and must not make it free more.
    pub wal_bytes: u64,
}

/// What one piece of a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expired {
    /// Deliveries that are gone.
    pub deliveries: u64,
    /// Events that are gone.
    pub events: u64,
    /// Deliveries and held events that expired without having been consumed.
    pub expired: u64,
    /// True when the bound on the piece was reached.
    pub more: bool,
}

impl Write for Expire {
    type Reply = Expired;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Expired, StoreError> {
        let mut sweep = Sweep::begin(tx);
        ended::drop_old(tx, &mut sweep)?;
        expiry::expire_deliveries(tx, &mut sweep)?;
        expiry::expire_held(tx, &mut sweep)?;
        ended::drop_expired_events(tx, &mut sweep)?;
        space::make_room(tx, &mut sweep, self.wal_bytes)?;
        names::forget_unused(tx, &mut sweep)?;
        sweep.done.more = sweep.is_over(tx);
        Ok(sweep.done)
    }
}

/// One piece of a sweep: what it did, and what it may still do.
struct Sweep {
    rows_left: u32,
    began: Instant,
    done: Expired,
}

impl Sweep {
    fn begin(tx: &Tx<'_>) -> Self {
        Self {
            rows_left: ROWS_MAX,
            began: tx.clock.instant(),
            done: Expired::default(),
        }
    }

    fn is_over(&self, tx: &Tx<'_>) -> bool {
        self.rows_left == 0 || (self.has_begun() && self.took(tx) >= TIME_MAX)
    }

    /// What only looked goes on: or a look that takes long, at many queues, would be repeated
    /// from its beginning and never come to an end.
    const fn has_begun(&self) -> bool {
        self.rows_left < ROWS_MAX
    }

    fn took(&self, tx: &Tx<'_>) -> Duration {
        tx.clock.instant().duration_since(self.began)
    }

    fn count_row(&mut self) {
        self.rows_left = self.rows_left.saturating_sub(1);
    }

    fn count_rows(&mut self, rows: usize) {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.rows_left = self.rows_left.saturating_sub(rows);
    }
}

/// The moment before which something is older than a span.
fn before(tx: &Tx<'_>, span: Millis) -> Timestamp {
    tx.now.plus(span.saturating_neg())
}
