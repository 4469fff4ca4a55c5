//! Listing what is open: at the first sight of a repository, and again every few hours.
//!
//! The first listing sets the baseline: what is open and labelled gets its presence, the heads of
//! pull requests are learned, and nothing older is told. The later ones find what no list of
//! changes tells: items that were deleted or transferred, other labels in the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use super::item::Item;
use super::teller::Teller;
use super::{COMMENTS, GitHubPoller, ISSUES, PER_PAGE, REVIEW_COMMENTS};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::http::{Answer, Page};
use crate::actors::poller::json;
use crate::actors::poller::round::Round;
use crate::domain::Timestamp;
use crate::store::{ItemChange, ItemKind, ItemSeen, PollList, PollLists, Sweep};

/// When everything open was listed last, and what was looked for.
const SWEEP: &str = "sweep";
const OPEN_ISSUES: &str = "open-issues";
const OPEN_PULL_REQUESTS: &str = "open-pull-requests";
/// Between two listings of what is open.
const SWEEP_EVERY: Duration = Duration::from_secs(6 * 3600);
/// Pages of one listing: five thousand items.
const PAGES_MAX: usize = 50;
const ORDER: &str = "state=open&sort=created&direction=asc";

/// One complete listing.
struct Listing<'a> {
    name: &'static str,
    kind: ItemKind,
    url: String,
    known: Option<&'a PollList>,
}

impl GitHubPoller {
    /// The first listing, and with it where all lists begin.
    pub(super) async fn first_sight(
        &mut self,
        teller: &Teller,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let path = format!("/repos/{}", teller.repository.full_name);
        // Whatever happens from this answer on is news.
        let baseline = self.api.get(&self.api.url(&path)).await?.date;
        self.sweep(teller, &PollLists::new(), baseline, round)
            .await?;
        for list in [ISSUES, COMMENTS, REVIEW_COMMENTS] {
            let list_at_baseline = PollList::starting_at(baseline);
            round.save.lists.insert(list.to_owned(), list_at_baseline);
        }
        Ok(())
    }

    /// True when it is time to list what is open, or what is looked for has changed.
    pub(super) fn is_sweep_due(&self, lists: &PollLists) -> bool {
        lists.get(SWEEP).is_none_or(|list| {
            let age = self.clock.now().since(list.watermark);
            let every = i64::try_from(SWEEP_EVERY.as_millis()).unwrap_or(i64::MAX);
            list.note != self.sweep_note() || !(0..every).contains(&age)
        })
    }

    /// Lists what is open; an item that is not known yet has this floor.
    pub(super) async fn sweep(
        &mut self,
        teller: &Teller,
        lists: &PollLists,
        floor: Timestamp,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let name = &teller.repository.full_name;
        let note = self.sweep_note();
        let known = |name: &str| lists.get(name).filter(|list| list.note == note);
        let issues = Listing {
            name: OPEN_ISSUES,
            kind: ItemKind::Issue,
            url: format!(
                "/repos/{name}/issues?{ORDER}&{PER_PAGE}{}",
                self.label_filter()
            ),
            known: known(OPEN_ISSUES),
        };
        let pull_requests = Listing {
            name: OPEN_PULL_REQUESTS,
            kind: ItemKind::PullRequest,
            url: format!("/repos/{name}/pulls?{ORDER}&{PER_PAGE}"),
            known: known(OPEN_PULL_REQUESTS),
        };
        for listing in [issues, pull_requests] {
            match self.sweep_one(teller, &listing, floor, round).await {
                Ok(()) => {}
                // Issues are switched off: that is how the repository is meant to be.
                Err(Failure::Gone(_)) if listing.kind == ItemKind::Issue => {}
                Err(failure) => round.tolerate(failure)?,
            }
        }
        // What was refused is not worth asking every minute.
        let done = PollList {
            note,
            ..PollList::starting_at(self.clock.now())
        };
        round.save.lists.insert(SWEEP.to_owned(), done);
        Ok(())
    }

    async fn sweep_one(
        &self,
        teller: &Teller,
        listing: &Listing<'_>,
        floor: Timestamp,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let began = self.clock.now();
        let mut found = BTreeSet::new();
        let mut list = PollList {
            url: self.api.url(&listing.url),
            note: self.sweep_note(),
            ..PollList::starting_at(began)
        };
        if self.monitors(listing.kind) {
            let etag = listing.known.filter(|known| known.url == list.url);
            let etag = etag.map_or("", |known| known.etag.as_str());
            let Answer::Page(page) = self.api.get_if_changed(&list.url, etag).await? else {
                list.etag = etag.to_owned();
                round.save.lists.insert(listing.name.to_owned(), list);
                return Ok(());
            };
            if page.next.is_none() {
                list.etag = page.etag.clone();
            }
            let is_whole = self
                .list_open(teller, listing.kind, page, (floor, &mut found), round)
                .await?;
            if !is_whole {
                round.save.lists.insert(listing.name.to_owned(), list);
                return Ok(());
            }
        }
        round.save.lists.insert(listing.name.to_owned(), list);
        round.save.sweeps.push(Sweep {
            kind: listing.kind,
            began,
            found,
        });
        Ok(())
    }

    /// Reads all pages of a listing; false when there are too many.
    async fn list_open(
        &self,
        teller: &Teller,
        kind: ItemKind,
        first: Page,
        (floor, found): (Timestamp, &mut BTreeSet<String>),
        round: &mut Round,
    ) -> Result<bool, Failure> {
        let mut page = first;
        for _ in 0..PAGES_MAX {
            for raw in json::items(&page.body)? {
                let change = match kind {
                    ItemKind::Issue => {
                        let item = Item::issue(raw)?;
                        if item.kind == ItemKind::PullRequest {
                            continue;
                        }
                        (item.number, self.issue_change(teller, &item, floor)?)
                    }
                    ItemKind::PullRequest => {
                        let item = Item::pull_request(raw)?;
                        round.save.learns.extend(teller.learned(&item)?);
                        (item.number, self.open_pull_request(teller, &item, floor)?)
                    }
                };
                let (number, change) = change;
                let work_item = teller.repository.item(number)?;
                if matches!(change, ItemChange::Seen(_)) {
                    found.insert(work_item.key());
                    round.save.items.push((work_item, change));
                }
            }
            let Some(next) = page.next.take() else {
                return Ok(true);
            };
            page = self.api.get(&next).await?;
        }
        Ok(false)
    }

    fn open_pull_request(
        &self,
        teller: &Teller,
        item: &Item<'_>,
        floor: Timestamp,
    ) -> Result<ItemChange, Failure> {
        Ok(ItemChange::Seen(ItemSeen {
            pending: false,
            head: Some(item.head.to_ascii_lowercase()),
            presence: teller.presence_of(item, &self.source.labels)?,
            ..ItemSeen::pending(ItemKind::PullRequest, floor)
        }))
    }

    /// `&labels=…`: those that an open issue must carry; a label with a comma cannot be asked for.
    fn label_filter(&self) -> String {
        let labels: Vec<&str> = self
            .source
            .labels
            .iter()
            .map(String::as_str)
            .filter(|label| !label.contains(','))
            .collect();
        if labels.is_empty() {
            return String::new();
        }
        let value: String = form_urlencoded::byte_serialize(labels.join(",").as_bytes()).collect();
        format!("&labels={value}")
    }

    /// What the listing looks for: another note makes it due.
    fn sweep_note(&self) -> String {
        let monitor = self.source.monitor;
        format!(
            "{}{} {}",
            u8::from(monitor.issues),
            u8::from(monitor.pull_requests),
            self.source.labels.join(",")
        )
    }
}
