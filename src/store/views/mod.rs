//! What people and the metrics read: rows of the store as they are shown.
//!
//! Everything here reads on a query-only connection and decides nothing. A page is a few short
//! statements, so that no view holds a checkpoint back; they may see different moments.

mod dead;
mod events;
mod named;
mod queues;
mod story;
mod subjects;
mod waiting;

pub use dead::{DeadRow, dead};
pub use events::{EventFilter, EventRow, EventState, NewerEvents, events, newer, payload};
pub use queues::{
    HealthCounters, InstanceActors, InstanceRow, LeaseView, QueueRow, health_counters, instances,
    queues,
};
pub use story::{Awaited, DeliveryStory, EventDetails, EventStory, HandOut, story};
pub use subjects::{Claimant, SubjectQueue, SubjectRow, subjects};
pub use waiting::WaitsFor;

use crate::domain::Timestamp;
use crate::store::error::StoreError;

/// Which page of a list.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// Rows at most.
    pub limit: u32,
    /// The `next` of the page before; `None` for the first.
    pub after: Option<String>,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, at most as many as asked for.
    pub rows: Vec<T>,
    /// What to ask for next; `None` on the last page.
    pub next: Option<String>,
}

/// Why a view cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The position of a page is none of this list.
    #[error("is not a position of this list")]
    UnknownPosition,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PageRequest {
    /// The limit of a query that looks one row ahead.
    fn limit_and_one(&self) -> i64 {
        i64::from(self.limit).saturating_add(1)
    }

    /// The name that the page before ended with; empty for the first page.
    fn after_name(&self) -> &str {
        self.after.as_deref().unwrap_or_default()
    }

    /// The two numbers that the page before ended with.
    fn after_numbers(&self) -> Result<Option<(i64, i64)>, ViewError> {
        self.after
            .as_deref()
            .map(|text| parse_numbers(text).ok_or(ViewError::UnknownPosition))
            .transpose()
    }

    /// Cuts the row that was looked ahead, and names the position of the last one that stays.
    fn page<T>(&self, mut rows: Vec<T>, position: impl Fn(&T) -> String) -> Page<T> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        Page {
            next: rows.last().filter(|_| is_cut).map(position),
            rows,
        }
    }
}

fn parse_numbers(text: &str) -> Option<(i64, i64)> {
    let (first, second) = text.split_once('.')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

fn numbers(first: i64, second: i64) -> String {
    format!("{first}.{second}")
}

/// A stored time as it is shown; 0 says that there is none.
fn shown_time(ms: i64) -> Option<String> {
    (ms != 0).then(|| Timestamp(ms).to_string())
}

/// A stored text as it is shown; an empty one says that there is none.
fn shown_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Seconds from a stored time until now, never negative.
fn age_seconds(now: Timestamp, since_ms: i64) -> f64 {
    seconds(now.since(Timestamp(since_ms)))
}

/// A span in seconds with its milliseconds, never negative.
fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(ms.max(0).unsigned_abs()).as_secs_f64()
}
