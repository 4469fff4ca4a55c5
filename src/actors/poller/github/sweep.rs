//! Listing what is open: at the first sight of a repository, and again every few hours.
//!
//! The first listing sets the baseline: what is open and labelled gets its presence, the heads of
//! pull requests are learned, and nothing older is told. The later ones find what no list of
//! changes tells: items that were deleted or transferred, other labels in the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use super::item::Item;
use super::{COMMENTS, GitHubPoller, ISSUES, PER_PAGE, Pass, REVIEW_COMMENTS};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::http::{Answer, Page};
use crate::actors::poller::json;
use crate::domain::Timestamp;
use crate::store::{ItemChange, ItemKind, ItemSeen, PollList, PollLists, PresenceChange, Sweep};

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
struct Listing {
    name: &'static str,
    kind: ItemKind,
    /// The path and query.
    url: String,
    /// Of an item that is not known yet.
    floor: Timestamp,
}

impl GitHubPoller {
    /// The first listing, and with it where all lists begin.
    pub(super) async fn first_sight(&mut self, pass: &mut Pass) -> Result<(), Failure> {
        let path = format!("/repos/{}", pass.teller.repository.full_name);
        // Whatever happens from this answer on is news.
        let baseline = self.api.get(&self.api.url(&path)).await?.date;
        self.sweep(pass, baseline).await?;
        for list in [ISSUES, COMMENTS, REVIEW_COMMENTS] {
            let list_at_baseline = PollList::starting_at(baseline);
            let lists = &mut pass.round.save.lists;
            lists.insert(list.to_owned(), list_at_baseline);
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
    pub(super) async fn sweep(&mut self, pass: &mut Pass, floor: Timestamp) -> Result<(), Failure> {
        let labels = self.label_filter();
        let issues = Listing {
            name: OPEN_ISSUES,
            kind: ItemKind::Issue,
            url: pass.path(&format!("issues?{ORDER}&{PER_PAGE}{labels}")),
            floor,
        };
        let pull_requests = Listing {
            name: OPEN_PULL_REQUESTS,
            kind: ItemKind::PullRequest,
            url: pass.path(&format!("pulls?{ORDER}&{PER_PAGE}")),
            floor,
        };
        for listing in [issues, pull_requests] {
            match self.sweep_one(pass, &listing).await {
                Ok(()) => {}
                // Issues are switched off: that is how the repository is meant to be.
                Err(Failure::Gone(_)) if listing.kind == ItemKind::Issue => {}
                Err(failure) => pass.round.tolerate(failure)?,
            }
        }
        // What was refused is not worth asking every minute.
        let done = self.listed_now();
        pass.round.save.lists.insert(SWEEP.to_owned(), done);
        Ok(())
    }

    /// A list that was read now, and what was looked for.
    fn listed_now(&self) -> PollList {
        PollList {
            note: self.sweep_note(),
            ..PollList::starting_at(self.clock.now())
        }
    }

    async fn sweep_one(&self, pass: &mut Pass, listing: &Listing) -> Result<(), Failure> {
        let mut sweep = Sweep {
            kind: listing.kind,
            began: self.clock.now(),
            found: BTreeSet::new(),
        };
        let mut list = PollList {
            url: self.api.url(&listing.url),
            ..self.listed_now()
        };
        if self.monitors(listing.kind) {
            let known = pass.lists.get(listing.name);
            let known = known.filter(|known| known.url == list.url && known.note == list.note);
            let etag = known.map(|known| known.etag.clone()).unwrap_or_default();
            let Answer::Page(page) = self.api.get_if_changed(&list.url, &etag).await? else {
                list.etag = etag;
                pass.note_list(listing.name, list);
                return Ok(());
            };
            if page.next.is_none() {
                list.etag = page.etag.clone();
            }
            if !self
                .read_pages(pass, listing, page, &mut sweep.found)
                .await?
            {
                return Ok(());
            }
        }
        pass.note_list(listing.name, list);
        pass.round.save.sweeps.push(sweep);
        Ok(())
    }

    /// Reads all pages of a listing; false when there are too many.
    async fn read_pages(
        &self,
        pass: &mut Pass,
        listing: &Listing,
        first: Page,
        found: &mut BTreeSet<String>,
    ) -> Result<bool, Failure> {
        let mut page = first;
        for _ in 0..PAGES_MAX {
            for raw in json::items(&page.body)? {
                let Some((number, seen)) = self.open_item(pass, listing, raw)? else {
                    continue;
                };
                found.insert(pass.teller.repository.item(number)?.key());
                pass.note_item(number, ItemChange::Seen(seen))?;
            }
            let Some(next) = page.next.take() else {
                return Ok(true);
            };
            page = self.api.get(&next).await?;
        }
        Ok(false)
    }

    /// What the ledger keeps of an open item: each pull request, and each issue whose presence is
    /// to be stated. What remains to be read of it is no matter of a listing.
    fn open_item(
        &self,
        pass: &mut Pass,
        listing: &Listing,
        raw: &str,
    ) -> Result<Option<(u64, ItemSeen)>, Failure> {
        let teller = &pass.teller;
        let seen = ItemSeen::of(listing.kind, listing.floor);
        match listing.kind {
            ItemKind::Issue => {
                let item = Item::issue(raw)?;
                let presence = teller.presence_of(&item, &self.source.labels)?;
                let is_kept = item.kind == ItemKind::Issue && presence != PresenceChange::Disarm;
                Ok(is_kept.then_some((item.number, ItemSeen { presence, ..seen })))
            }
            ItemKind::PullRequest => {
                let item = Item::pull_request(raw)?;
                let seen = ItemSeen {
                    head: Some(item.head.to_ascii_lowercase()),
                    presence: teller.presence_of(&item, &self.source.labels)?,
                    ..seen
                };
                pass.round.save.learns.extend(teller.learned(&item)?);
                Ok(Some((item.number, seen)))
            }
        }
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
