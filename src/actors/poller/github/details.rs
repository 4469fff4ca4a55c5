//! What the list of changes does not tell: heads, reviews, and who closed.
//!
//! Every pull request that changed is read, every issue that was closed, and every known item that
//! a complete listing missed. What a round does not get to stays pending in the ledger.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, Said};
use super::objects::Objects;
use super::{GitHubPoller, PER_PAGE};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json;
use crate::actors::poller::round::Round;
use crate::domain::{Timestamp, WorkItemRef};
use crate::store::{FindItems, ItemChange, ItemKind, ItemSeen, KnownItem, PresenceChange};

use super::teller::Teller;

/// Items read in one round; the rest follows at once in the next.
const ITEMS_MAX: usize = 40;
/// Pages of the reviews of one pull request.
const REVIEW_PAGES_MAX: usize = 10;

/// An item to read.
struct Reading {
    work_item: WorkItemRef,
    kind: ItemKind,
    floor: Timestamp,
    handled: BTreeSet<String>,
}

/// Items that changed in this round, by number: what they are, and since when.
pub(super) type Changed = BTreeMap<u64, (ItemKind, Timestamp)>;

impl GitHubPoller {
    /// Reads what changed, and what earlier rounds left over.
    pub(super) async fn read_details(
        &self,
        teller: &Teller,
        changed: Changed,
        objects: &mut Objects,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let mut readings = self.readings(teller, &changed).await?;
        for (work_item, (kind, floor)) in changed_items(teller, changed)? {
            let seen = ItemSeen {
                presence: match kind {
                    ItemKind::Issue => PresenceChange::Disarm,
                    ItemKind::PullRequest => PresenceChange::Keep,
                },
                ..ItemSeen::pending(kind, floor)
            };
            round.save.items.push((work_item, ItemChange::Seen(seen)));
        }
        if readings.len() > ITEMS_MAX {
            readings.truncate(ITEMS_MAX);
            round.more = true;
        }
        for reading in readings {
            match self.read_one(teller, &reading, objects, round).await {
                Ok(change) => round.save.items.push((reading.work_item, change)),
                Err(failure) => {
                    round.more = false;
                    round.tolerate(failure)?;
                }
            }
        }
        Ok(())
    }

    /// What is to be read: what is pending first, for it waits longest.
    async fn readings(&self, teller: &Teller, changed: &Changed) -> Result<Vec<Reading>, Failure> {
        let mut wanted = BTreeMap::new();
        for (number, (kind, floor)) in changed {
            let work_item = teller.repository.item(*number)?;
            wanted.insert(work_item.key(), (work_item, *kind, *floor));
        }
        let find = FindItems {
            source: self.key.clone(),
            keys: wanted.keys().cloned().collect(),
        };
        let known = self.store.submit(find).await?;
        let mut readings: Vec<Reading> = known.into_values().map(Reading::of_known).collect();
        for reading in &readings {
            wanted.remove(&reading.work_item.key());
        }
        let of_new = |(work_item, kind, floor)| Reading {
            work_item,
            kind,
            floor,
            handled: BTreeSet::new(),
        };
        readings.extend(wanted.into_values().map(of_new));
        Ok(readings)
    }

    async fn read_one(
        &self,
        teller: &Teller,
        reading: &Reading,
        objects: &mut Objects,
        round: &mut Round,
    ) -> Result<ItemChange, Failure> {
        let WorkItemRef::GitHub { number, .. } = &reading.work_item else {
            return Ok(ItemChange::Gone);
        };
        if !self.monitors(reading.kind) {
            return Ok(ItemChange::Gone);
        }
        match reading.kind {
            ItemKind::Issue => self.read_issue(teller, *number, reading, round).await,
            ItemKind::PullRequest => {
                let number = *number;
                self.read_pull_request(teller, number, reading, objects, round)
                    .await
            }
        }
    }

    async fn read_issue(
        &self,
        teller: &Teller,
        number: u64,
        reading: &Reading,
        round: &mut Round,
    ) -> Result<ItemChange, Failure> {
        let path = format!("/repos/{}/issues/{number}", teller.repository.full_name);
        let Some(raw) = self.object(&path).await? else {
            return Ok(ItemChange::Gone);
        };
        let item = Item::issue(&raw)?;
        if item.number != number {
            return Ok(ItemChange::Gone);
        }
        if let Some(at) = item.closed_at.filter(|at| *at >= reading.floor)
            && !item.is_open
        {
            round
                .happenings
                .extend(teller.closure(&item, item.closer(), at)?);
        }
        Ok(self.issue_change(teller, &item, reading.floor)?)
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
                pending: false,
                presence,
                ..ItemSeen::pending(ItemKind::Issue, floor)
            }),
        })
    }

    async fn read_pull_request(
        &self,
        teller: &Teller,
        number: u64,
        reading: &Reading,
        objects: &mut Objects,
        round: &mut Round,
    ) -> Result<ItemChange, Failure> {
        let name = &teller.repository.full_name;
        let Some(raw) = self.pull_request(name, number, objects).await? else {
            return Ok(ItemChange::Gone);
        };
        let raw = raw.to_owned();
        let item = Item::pull_request(&raw)?;
        round.save.learns.extend(teller.learned(&item)?);
        let handled = self
            .read_reviews(teller, &item, reading, objects, round)
            .await?;
        if item.is_open {
            return Ok(ItemChange::Seen(ItemSeen {
                pending: false,
                head: Some(item.head.to_ascii_lowercase()),
                handled: Some(handled),
                presence: teller.presence_of(&item, &self.source.labels)?,
                ..ItemSeen::pending(ItemKind::PullRequest, reading.floor)
            }));
        }
        if let Some(at) = item.closed_at.filter(|at| *at >= reading.floor) {
            let closer = self.closer(teller, &item).await?;
            round
                .happenings
                .extend(teller.closure(&item, closer.as_deref(), at)?);
        }
        Ok(ItemChange::Gone)
    }

    /// The user object of whoever merged a pull request, or closed it: that only its issue object
    /// tells.
    async fn closer(&self, teller: &Teller, item: &Item<'_>) -> Result<Option<String>, Failure> {
        if let Some(closer) = item.closer() {
            return Ok(Some(closer.to_owned()));
        }
        let path = format!(
            "/repos/{}/issues/{}",
            teller.repository.full_name, item.number
        );
        let Some(raw) = self.object(&path).await? else {
            return Ok(None);
        };
        Ok(Item::issue(&raw)?.closer().map(str::to_owned))
    }

    /// Tells the reviews that were not told yet; returns all that were.
    async fn read_reviews(
        &self,
        teller: &Teller,
        item: &Item<'_>,
        reading: &Reading,
        objects: &mut Objects,
        round: &mut Round,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut handled = reading.handled.clone();
        let (name, number) = (&teller.repository.full_name, item.number);
        let path = format!("/repos/{name}/pulls/{number}/reviews?{PER_PAGE}");
        let mut next = Some(self.api.url(&path));
        for _ in 0..REVIEW_PAGES_MAX {
            let Some(url) = next.take() else { break };
            let page = self.api.get(&url).await?;
            for review in json::items(&page.body)?
                .into_iter()
                .filter_map(Said::review)
            {
                objects.keep_review(&review);
                if handled.insert(review.id.to_string()) && review.at >= reading.floor {
                    round.happenings.extend(teller.review(&review, item.raw)?);
                }
            }
            next = page.next;
        }
        Ok(handled)
    }
}

impl Reading {
    fn of_known(item: KnownItem) -> Self {
        Self {
            work_item: item.work_item,
            kind: item.kind,
            floor: item.floor,
            handled: item.handled,
        }
    }
}

fn changed_items(
    teller: &Teller,
    changed: Changed,
) -> Result<Vec<(WorkItemRef, (ItemKind, Timestamp))>, Failure> {
    let named = |(number, change)| Ok((teller.repository.item(number)?, change));
    changed.into_iter().map(named).collect()
}
