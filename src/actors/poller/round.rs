//! What one round found, and how it reaches the store.
//!
//! First everything is appended, in the order in which it happened; then the ledger moves on, in
//! one write. If an append fails, the ledger stays where it was and the next round finds the same
//! again. Presence comes last: what is due is decided by the ledger as it then is.

use std::time::Duration;

use super::failure::Failure;
use super::store::PollStore;
use crate::domain::{Arrival, CallerToken, Timestamp};
use crate::store::{
    Append, AppendPresence, DuePresence, DuePresences, PresenceAppended, SavePoll, StoreError,
};

/// Items whose presence is looked at in one transaction.
const PRESENCES_PER_LOOK: u32 = 200;

/// Something that happened, ready to be appended.
#[derive(Debug)]
pub(super) struct Happening {
    /// When it happened, by the provider's clock.
    pub(super) at: Timestamp,
    pub(super) arrival: Box<Arrival>,
}

/// What one round found.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) happenings: Vec<Happening>,
    /// How the ledger moves on once they are stored.
    pub(super) save: SavePoll,
    /// What went wrong with a list or an object, the worst for the last.
    pub(super) failures: Vec<Failure>,
    /// True when there is more to read at once.
    pub(super) more: bool,
    /// How long the server wants to be left alone.
    pub(super) poll_interval: Option<Duration>,
}

/// How a round ended.
#[derive(Debug)]
pub(super) struct RoundEnd {
    pub(super) failure: Option<Failure>,
    pub(super) more: bool,
    pub(super) poll_interval: Option<Duration>,
}

impl Round {
    pub(super) fn of(source: &str) -> Self {
        Self {
            happenings: Vec::new(),
            save: SavePoll::of(source),
            failures: Vec::new(),
            more: false,
            poll_interval: None,
        }
    }

    /// Notes how long the server wants to be left alone.
    pub(super) fn respect(&mut self, poll_interval: Option<Duration>) {
        self.poll_interval = self.poll_interval.max(poll_interval);
    }

    /// Keeps a failure that is about one list or object alone; hands any other one back.
    pub(super) fn tolerate(&mut self, failure: Failure) -> Result<(), Failure> {
        if failure.is_local() {
            self.failures.push(failure);
            Ok(())
        } else {
            Err(failure)
        }
    }

    /// Appends what happened and moves the ledger on.
    pub(super) async fn store(
        mut self,
        store: &PollStore,
        source: &str,
        presence: &impl PresenceArrivals,
    ) -> Result<RoundEnd, StoreError> {
        self.happenings.sort_by_key(|happening| happening.at);
        for happening in self.happenings {
            let caller = CallerToken::always();
            let arrival = happening.arrival;
            store.submit(Append { arrival, caller }).await?;
        }
        if !self.save.is_empty() {
            store.submit(self.save).await?;
        }
        store_presences(store, source, presence).await?;
        Ok(RoundEnd {
            failure: self.failures.pop(),
            more: self.more,
            poll_interval: self.poll_interval,
        })
    }
}

/// Makes the event of an item's presence.
pub(super) trait PresenceArrivals {
    /// `None` when it cannot be one.
    fn presence(&self, due: &DuePresence) -> Option<Box<Arrival>>;
}

async fn store_presences(
    store: &PollStore,
    source: &str,
    arrivals: &impl PresenceArrivals,
) -> Result<(), StoreError> {
    let mut after = Some(String::new());
    while let Some(behind) = after {
        let look = DuePresences {
            source: source.to_owned(),
            after: behind,
            limit: PRESENCES_PER_LOOK,
        };
        let page = store.submit(look).await?;
        for due in &page.due {
            let Some(arrival) = arrivals.presence(due) else {
                continue;
            };
            let caller = CallerToken::always();
            let write = AppendPresence {
                source: source.to_owned(),
                key: due.work_item.key(),
                append: Append { arrival, caller },
            };
            if store.submit(write).await? == PresenceAppended::Refused {
                tracing::debug!(work_item = %due.work_item, "a presence is not stored");
            }
        }
        after = page.next;
    }
    Ok(())
}

/// A random id of version 4, as text.
pub(super) fn uuid4() -> String {
    let mut bytes = [0_u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Only told apart by it, never guarded by it.
        fastrand::Rng::new().fill(&mut bytes);
    }
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let digits = hex::encode(bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part));
    parts.map(Option::unwrap_or_default).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_id_is_of_version_4() {
        let id = uuid4();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&id.as_bytes()[19]));
        assert_ne!(id, uuid4());
    }
}
