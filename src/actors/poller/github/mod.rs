//! A repository, read through GitHub's REST API.
//!
//! One list tells which issues and pull requests changed, one which comments, one which review
//! comments: three requests a round, each a 304 while nothing happens. What they do not tell is
//! read for the items that changed. What happened before the baseline, or was told, is not told.

mod changes;
mod checks;
mod comments;
mod details;
mod item;
mod objects;
mod repository;
mod sweep;
mod teller;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::changes::{Changes, Listing};
use self::details::{Changed, note_pending};
use self::item::Item;
use self::objects::Objects;
use self::teller::Teller;
use super::failure::Failure;
use super::http::Api;
use super::round::{PresenceArrivals, Round, RoundEnd};
use super::store::PollStore;
use crate::config::GitHubSource;
use crate::domain::{Arrival, Clock};
use crate::providers::Declared;
use crate::store::{DuePresence, ItemChange, ItemKind, LoadPoll, PollList, PollLists};

/// The list of changed issues and pull requests.
const ISSUES: &str = "issues";
/// The list of comments on issues and pull requests.
const COMMENTS: &str = "issue-comments";
/// The list of comments on lines of pull requests.
const REVIEW_COMMENTS: &str = "review-comments";
/// Stands for what is read of single items.
const DETAILS: &str = "details";
const PER_PAGE: &str = "per_page=100";
/// Rounds for which a list is left alone after it was refused: they double up to this.
const SKIPS_MAX: u32 = 64;

/// The headers of every request.
pub(super) const HEADERS: &[(&str, &str)] = &[
    ("accept", "application/vnd.github+json"),
    ("x-github-api-version", "2022-11-28"),
];

/// Reads one repository.
pub(super) struct GitHubPoller {
    pub(super) source: GitHubSource,
    /// What the ledger calls it.
    pub(super) key: String,
    pub(super) checks_every: Option<Duration>,
    pub(super) api: Api,
    pub(super) store: PollStore,
    pub(super) clock: Arc<dyn Clock>,
    checks_due: Option<Instant>,
    /// True when an answer came from another URL, so that the name has to be asked for.
    has_moved: bool,
    refused: BTreeMap<&'static str, Refused>,
}

/// A list that was refused: permissions, a feature that is switched off.
struct Refused {
    failure: Failure,
    skips_left: u32,
    skips_next: u32,
}

/// One round while it is made.
struct Pass {
    teller: Teller,
    /// The lists as the ledger has them.
    lists: PollLists,
    objects: Objects,
    round: Round,
}

impl Pass {
    /// A path below the repository.
    fn path(&self, rest: &str) -> String {
        format!("/repos/{}/{rest}", self.teller.repository.full_name)
    }

    /// Notes what becomes of an item.
    fn note_item(&mut self, number: u64, change: ItemChange) -> Result<(), Failure> {
        let work_item = self.teller.repository.item(number)?;
        self.round.save.items.push((work_item, change));
        Ok(())
    }

    /// Lets a list go on, once everything on it is noted.
    fn note_list(&mut self, name: &str, list: PollList) {
        if self.lists.get(name) != Some(&list) {
            self.round.save.lists.insert(name.to_owned(), list);
        }
    }
}

impl GitHubPoller {
    pub(super) fn new(
        (source, key): (GitHubSource, String),
        checks_every: Option<Duration>,
        (api, store): (Api, PollStore),
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            source,
            key,
            checks_every,
            api,
            store,
            clock,
            checks_due: None,
            has_moved: false,
            refused: BTreeMap::new(),
        }
    }

    /// Reads everything once and stores what is new.
    pub(super) async fn round(&mut self, declared: Arc<Declared>) -> Result<RoundEnd, Failure> {
        let load = LoadPoll {
            source: self.key.clone(),
        };
        let lists = self.store.submit(load).await?;
        let mut round = Round::of(&self.key);
        let repository = self.identify(&lists, &declared, &mut round).await?;
        let teller = Teller {
            repository,
            declared,
            received_at: self.clock.now(),
        };
        let mut pass = Pass {
            teller,
            lists,
            objects: Objects::default(),
            round,
        };
        let gathered = self.gather(&mut pass).await;
        let Pass { teller, round, .. } = pass;
        let end = round.store(&self.store, &self.key, &teller).await?;
        gathered.map(|()| end)
    }

    async fn gather(&mut self, pass: &mut Pass) -> Result<(), Failure> {
        if !pass.lists.contains_key(ISSUES) {
            return self.first_sight(pass).await;
        }
        let changed = self.read_changes(pass).await?;
        self.read_details(pass, changed).await?;
        for list in [COMMENTS, REVIEW_COMMENTS] {
            self.read_comments(pass, list).await?;
        }
        if self.is_sweep_due(&pass.lists) {
            let known = pass.lists.get(ISSUES);
            let floor = known.map_or(pass.teller.received_at, |list| list.watermark);
            self.sweep(pass, floor).await?;
        }
        if self.are_checks_due() {
            self.read_checks(pass).await?;
            self.put_off_checks();
        }
        Ok(())
    }

    /// Reads which items changed; returns those that have to be read on their own.
    async fn read_changes(&mut self, pass: &mut Pass) -> Result<Changed, Failure> {
        let mut changed = Changed::new();
        let path = "issues?state=all&sort=updated&direction=asc";
        let changes = match self.changes(pass, ISSUES, path).await? {
            Some(changes) => Some(changes),
            None => self.without_issues(pass).await?,
        };
        let Some(changes) = changes else {
            return Ok(changed);
        };
        for raw in &changes.entries {
            let Ok(item) = Item::issue(raw) else { continue };
            if item.is_issue_object {
                pass.objects.keep_issue(item.number, raw);
            }
            if !self.monitors(item.kind) {
                continue;
            }
            let was_closed = !item.is_open && item.closed_at >= Some(changes.floor);
            if item.kind == ItemKind::PullRequest || was_closed {
                changed.insert(item.number, (item.kind, changes.floor));
                continue;
            }
            let change = if item.is_open {
                self.issue_change(&pass.teller, &item, changes.floor)?
            } else {
                ItemChange::Gone
            };
            pass.note_item(item.number, change)?;
        }
        note_pending(pass, &changed)?;
        pass.note_list(ISSUES, changes.list);
        Ok(changed)
    }

    /// Where issues are switched off, the list of pull requests tells what changed.
    async fn without_issues(&mut self, pass: &mut Pass) -> Result<Option<Changes>, Failure> {
        let is_off = |refused: &Refused| matches!(refused.failure, Failure::Gone(_));
        if !self.refused.get(ISSUES).is_some_and(is_off) {
            return Ok(None);
        }
        // That is how the repository is meant to be.
        let is_real = |failure: &Failure| !matches!(failure, Failure::Gone(_));
        pass.round.failures.retain(is_real);
        let path = pass.path("pulls?state=all&sort=updated&direction=desc&");
        let Some(known) = pass.lists.get(ISSUES) else {
            return Ok(None);
        };
        let listing = Listing {
            url: self.api.url(&format!("{path}{PER_PAGE}")),
            known,
            is_of_items: true,
        };
        match listing.read_newest_first(&self.api).await {
            Ok(changes) => Ok(changes),
            Err(failure) => pass.round.tolerate(failure).map(|()| None),
        }
    }

    /// What changed on a list, unless nothing did or it is refused.
    async fn changes(
        &mut self,
        pass: &mut Pass,
        name: &'static str,
        path: &str,
    ) -> Result<Option<Changes>, Failure> {
        if let Some(failure) = self.is_left_alone(name) {
            pass.round.failures.push(failure);
            return Ok(None);
        }
        let url = self.api.url(&pass.path(&format!("{path}&{PER_PAGE}")));
        let Some(known) = pass.lists.get(name) else {
            return Ok(None);
        };
        let listing = Listing {
            url,
            known,
            is_of_items: name == ISSUES,
        };
        match listing.read(&self.api).await {
            Ok(changes) => {
                self.refused.remove(name);
                if let Some(changes) = &changes {
                    self.has_moved |= changes.moved;
                    pass.round.more |= changes.more;
                    pass.round.respect(changes.poll_interval);
                }
                Ok(changes)
            }
            Err(failure) => {
                pass.round.tolerate(failure.clone())?;
                self.leave_alone(name, failure);
                Ok(None)
            }
        }
    }

    /// The failure of a list that is not asked this time.
    fn is_left_alone(&mut self, name: &'static str) -> Option<Failure> {
        let refused = self.refused.get_mut(name)?;
        refused.skips_left = refused.skips_left.checked_sub(1)?;
        Some(refused.failure.clone())
    }

    fn leave_alone(&mut self, name: &'static str, failure: Failure) {
        let skips = self.refused.get(name).map_or(1, |known| known.skips_next);
        let refused = Refused {
            failure,
            skips_left: skips,
            skips_next: skips.saturating_mul(2).min(SKIPS_MAX),
        };
        self.refused.insert(name, refused);
    }

    const fn monitors(&self, kind: ItemKind) -> bool {
        match kind {
            ItemKind::Issue => self.source.monitor.issues,
            ItemKind::PullRequest => self.source.monitor.pull_requests,
        }
    }

    fn are_checks_due(&self) -> bool {
        let now = self.clock.instant();
        self.checks_every.is_some()
            && self.source.monitor.pull_requests
            && self.checks_due.is_none_or(|due| due <= now)
    }

    fn put_off_checks(&mut self) {
        let now = self.clock.instant();
        self.checks_due = self.checks_every.and_then(|every| now.checked_add(every));
    }
}

impl PresenceArrivals for Teller {
    fn presence(&self, due: &DuePresence) -> Option<Box<Arrival>> {
        Self::presence(self, &due.work_item, due.kind, &due.payload)
    }
}
