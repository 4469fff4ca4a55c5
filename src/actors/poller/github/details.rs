//! What the list of changes does not tell: heads, reviews, and who closed.
//!
//! Every pull request that changed is read, every issue that was closed, and every known item that
//! a complete listing missed. All of them are pending in the ledger until they were read, so what
//! a round does not get to, the next ones do.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, Said};
use super::teller::Teller;
use super::{DETAILS, GitHubPoller, PER_PAGE, Pass};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json;
use crate::domain::{Timestamp, WorkItemRef};
use crate::store::{FindItems, ItemChange, ItemKind, ItemSeen, KnownItem, PresenceChange};

/// Items read in one round; the rest follows at once in the next.
const ITEMS_MAX: usize = 40;
/// Pages of the reviews of one pull request.
const REVIEW_PAGES_MAX: usize = 10;

/// Items that changed in this round, by number: what they are, and since when.
pub(super) type Changed = BTreeMap<u64, (ItemKind, Timestamp)>;

/// An item to read.
struct Reading {
    number: u64,
    kind: ItemKind,
    /// What was said of it before is history or was told.
    floor: Timestamp,
    /// The reviews that were told.
    handled: BTreeSet<String>,
}

/// Notes that items have to be read.
pub(super) fn note_pending(pass: &mut Pass, changed: &Changed) -> Result<(), Failure> {
    for (number, (kind, floor)) in changed {
        let seen = ItemSeen {
            presence: match kind {
                ItemKind::Issue => PresenceChange::Disarm,
                ItemKind::PullRequest => PresenceChange::Keep,
            },
            ..ItemSeen::pending(*kind, *floor)
        };
        pass.note_item(*number, ItemChange::Seen(seen))?;
    }
    Ok(())
}

impl GitHubPoller {
    /// Reads what changed, and what earlier rounds left over.
    pub(super) async fn read_details(
        &mut self,
        pass: &mut Pass,
        changed: Changed,
    ) -> Result<(), Failure> {
        let mut readings = self.readings(pass, changed).await?;
        if readings.is_empty() {
            return Ok(());
        }
        if let Some(failure) = self.is_left_alone(DETAILS) {
            pass.round.failures.push(failure);
            return Ok(());
        }
        let more = readings.len() > ITEMS_MAX;
        readings.truncate(ITEMS_MAX);
        for reading in readings {
            match self.read_one(pass, &reading).await {
                Ok(change) => pass.note_item(reading.number, change)?,
                Err(failure) => {
                    // What is refused for one is refused for all.
                    pass.round.tolerate(failure.clone())?;
                    self.leave_alone(DETAILS, failure);
                    return Ok(());
                }
            }
        }
        self.refused.remove(DETAILS);
        pass.round.more |= more;
        Ok(())
    }

    /// What is to be read: what is pending first, for it waits longest.
    async fn readings(&self, pass: &Pass, mut changed: Changed) -> Result<Vec<Reading>, Failure> {
        let keys = changed.keys().map(|number| {
            let work_item = pass.teller.repository.item(*number)?;
            Ok(work_item.key())
        });
        let find = FindItems {
            source: self.key.clone(),
            keys: keys.collect::<Result<_, Failure>>()?,
        };
        let known = self.store.submit(find).await?;
        let known = known.into_values().filter_map(Reading::of_known);
        let mut readings: Vec<Reading> = known.collect();
        for reading in &readings {
            changed.remove(&reading.number);
        }
        let of_new = |(number, (kind, floor))| Reading {
            number,
            kind,
            floor,
            handled: BTreeSet::new(),
        };
        readings.extend(changed.into_iter().map(of_new));
        Ok(readings)
    }

    async fn read_one(&self, pass: &mut Pass, reading: &Reading) -> Result<ItemChange, Failure> {
        if !self.monitors(reading.kind) {
            return Ok(ItemChange::Gone);
        }
        match reading.kind {
            ItemKind::Issue => self.read_issue(pass, reading).await,
            ItemKind::PullRequest => self.read_pull_request(pass, reading).await,
        }
    }

    async fn read_issue(&self, pass: &mut Pass, reading: &Reading) -> Result<ItemChange, Failure> {
        let number = reading.number;
        let Some(raw) = self.object(&pass.path(&format!("issues/{number}"))).await? else {
            return Ok(ItemChange::Gone);
        };
        let item = Item::issue(&raw)?;
        if item.number != number {
            return Ok(ItemChange::Gone);
        }
        if let Some(at) = item.closed_at.filter(|at| *at >= reading.floor)
            && !item.is_open
        {
            let closure = pass.teller.closure(&item, item.closer(), at)?;
            pass.round.happenings.extend(closure);
        }
        self.issue_change(&pass.teller, &item, reading.floor)
    }

    /// What the ledger keeps of an issue: only one whose presence is to be stated.
    pub(super) fn issue_change(
        &self,
        teller: &Teller,
        item: &Item<'_>,
        floor: Timestamp,
    ) -> Result<ItemChange, Failure> {
        let presence = teller.presence_of(item, &self.source.labels)?;
        Ok(match presence {
            PresenceChange::Keep | PresenceChange::Disarm => ItemChange::Gone,
            PresenceChange::Arm { .. } => ItemChange::Seen(ItemSeen {
                presence,
                ..ItemSeen::read(ItemKind::Issue, floor)
            }),
        })
    }

    async fn read_pull_request(
        &self,
        pass: &mut Pass,
        reading: &Reading,
    ) -> Result<ItemChange, Failure> {
        self.find_pull_request(pass, reading.number).await?;
        let Some(raw) = pass.objects.pull_request(reading.number) else {
            return Ok(ItemChange::Gone);
        };
        let raw = raw.to_owned();
        let item = Item::pull_request(&raw)?;
        pass.round.save.learns.extend(pass.teller.learned(&item)?);
        let handled = self.read_reviews(pass, &item, reading).await?;
        if item.is_open {
            return Ok(ItemChange::Seen(ItemSeen {
                head: Some(item.head.to_ascii_lowercase()),
                handled: Some(handled),
                presence: pass.teller.presence_of(&item, &self.source.labels)?,
                ..ItemSeen::read(ItemKind::PullRequest, reading.floor)
            }));
        }
        if let Some(at) = item.closed_at.filter(|at| *at >= reading.floor) {
            let closer = self.closer(pass, &item).await?;
            let closure = pass.teller.closure(&item, closer.as_deref(), at)?;
            pass.round.happenings.extend(closure);
        }
        Ok(ItemChange::Gone)
    }

    /// The user object of whoever merged a pull request, or closed it: that only its issue object
    /// tells.
    async fn closer(&self, pass: &Pass, item: &Item<'_>) -> Result<Option<String>, Failure> {
        if let Some(closer) = item.closer() {
            return Ok(Some(closer.to_owned()));
        }
        let path = pass.path(&format!("issues/{}", item.number));
        let Some(raw) = self.object(&path).await? else {
            return Ok(None);
        };
        Ok(Item::issue(&raw)?.closer().map(str::to_owned))
    }

    /// Tells the reviews that were not told yet; returns all that were.
    async fn read_reviews(
        &self,
        pass: &mut Pass,
        item: &Item<'_>,
        reading: &Reading,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut handled = reading.handled.clone();
        let mut told = Vec::new();
        let path = pass.path(&format!("pulls/{}/reviews?{PER_PAGE}", item.number));
        let mut next = Some(self.api.url(&path));
        for _ in 0..REVIEW_PAGES_MAX {
            let Some(url) = next.take() else { break };
            let page = self.api.get(&url).await?;
            for review in json::items(&page.body)?
                .into_iter()
                .filter_map(Said::review)
            {
                pass.objects.keep_review(&review);
                if handled.insert(review.id.to_string()) && review.at >= reading.floor {
                    told.extend(pass.teller.review(&review, item.raw)?);
                }
            }
            next = page.next;
        }
        pass.round.happenings.extend(told);
        Ok(handled)
    }
}

impl Reading {
    fn of_known(item: KnownItem) -> Option<Self> {
        let WorkItemRef::GitHub { number, .. } = item.work_item else {
            return None;
        };
        Some(Self {
            number,
            kind: item.kind,
            floor: item.floor,
            handled: item.handled,
        })
    }
}
