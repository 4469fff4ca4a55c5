//! A Jira project, read through its REST API.
//!
//! One search a round finds what changed in a window that reaches back some minutes behind the
//! last round, because the index lags. The window is told in minutes before now, so that no clock
//! and no time zone but Jira's counts. Only issues that carry all labels are read further.

mod issue;
mod search;
mod teller;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::issue::{Comment, Issue, jira_label};
use self::search::quoted;
use self::teller::Teller;
use super::failure::Failure;
use super::http::{Api, Page};
use super::json;
use super::moment;
use super::parts::JiraProject;
use super::round::{Round, RoundEnd};
use super::store::PollStore;
use crate::config::JiraDeployment;
use crate::domain::{Clock, Millis, Timestamp, WorkItemRef};
use crate::providers::Declared;
use crate::providers::lenient::{self, Want};
use crate::store::{
    FindItems, ItemChange, ItemKind, ItemSeen, KnownItem, LoadPoll, PollList, PollLists,
    PresenceChange, Sweep,
};

/// The list of changed issues.
const CHANGED: &str = "changed";
/// When everything open was listed last, and what was looked for.
const SWEEP: &str = "sweep";
/// How far the window reaches back behind the last round: the index lags by minutes.
const OVERLAP_MS: Millis = 5 * 60_000;
const MINUTE_MS: Millis = 60_000;
/// Between two listings of everything open.
const SWEEP_EVERY_MS: Millis = 6 * 3_600_000;
/// Between two looks whether the token still works: a search may find nothing rather than say so.
const PROBE_EVERY: Duration = Duration::from_secs(3600);
/// Issues whose comments are read in one round; the rest follows at once in the next.
const ISSUES_MAX: usize = 100;
const COMMENTS_PAGE: u64 = 100;
const COMMENT_PAGES_MAX: u64 = 20;

static TOTAL: Want = Want::Object(&[("total", Want::Leaf)]);

/// The headers of every request.
pub(super) const HEADERS: &[(&str, &str)] = &[("accept", "application/json")];

/// Reads one project.
pub(super) struct JiraPoller {
    pub(super) project: JiraProject,
    /// What the ledger calls it.
    key: String,
    labels: Vec<String>,
    api: Api,
    store: PollStore,
    clock: Arc<dyn Clock>,
    /// How far Jira's clock is ahead of ours: moments are compared with its own.
    ahead_ms: Cell<Millis>,
    probe_due: Option<Instant>,
}

impl JiraPoller {
    pub(super) fn new(
        (project, key): (JiraProject, String),
        (api, store): (Api, PollStore),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let labels = project.labels.iter();
        let labels = labels.filter_map(|label| jira_label(label)).collect();
        Self {
            project,
            key,
            labels,
            api,
            store,
            clock,
            ahead_ms: Cell::new(0),
            probe_due: None,
        }
    }

    /// Reads everything once and stores what is new.
    pub(super) async fn round(&mut self, declared: Arc<Declared>) -> Result<RoundEnd, Failure> {
        self.probe().await?;
        let load = LoadPoll {
            source: self.key.clone(),
        };
        let lists = self.store.submit(load).await?;
        let mut round = Round::of(&self.key);
        let teller = Teller {
            site: self.project.site.clone(),
            declared,
            received_at: self.clock.now(),
        };
        let gathered = self.gather(&teller, &lists, &mut round).await;
        let end = round.store(&self.store, &self.key, &teller).await?;
        gathered.map(|()| end)
    }

    /// Makes sure that the token works.
    async fn probe(&mut self) -> Result<(), Failure> {
        let now = self.clock.instant();
        if self.probe_due.is_some_and(|due| due > now) {
            return Ok(());
        }
        let version = match self.project.deployment {
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => 3,
            JiraDeployment::DataCenter => 2,
        };
        let url = self.api.url(&format!("/rest/api/{version}/myself"));
        let page = self.api.get(&url).await?;
        self.check(&page)?;
        self.probe_due = now.checked_add(PROBE_EVERY);
        Ok(())
    }

    /// Notes Jira's time, and refuses an answer that was given to nobody in particular.
    fn check(&self, page: &Page) -> Result<(), Failure> {
        self.ahead_ms.set(page.date.since(self.clock.now()));
        if page.user.as_deref() == Some("anonymous") {
            Err(Failure::Unauthorized)
        } else {
            Ok(())
        }
    }

    /// Now, by Jira's clock.
    fn now(&self) -> Timestamp {
        self.clock.now().plus(self.ahead_ms.get())
    }

    async fn gather(
        &mut self,
        teller: &Teller,
        lists: &PollLists,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let result = match lists.get(CHANGED) {
            None => self.first_sight(teller, round).await,
            Some(list) => {
                self.read_changes(teller, list, round).await?;
                self.sweep_if_due(teller, lists, round).await
            }
        };
        if matches!(result, Err(Failure::Unauthorized)) {
            self.probe_due = None;
        }
        result
    }

    async fn first_sight(&self, teller: &Teller, round: &mut Round) -> Result<(), Failure> {
        let began = self.now();
        self.sweep(teller, began, round).await?;
        let list = PollList::starting_at(began);
        round.save.lists.insert(CHANGED.to_owned(), list);
        Ok(())
    }

    async fn sweep_if_due(
        &self,
        teller: &Teller,
        lists: &PollLists,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let now = self.now();
        let is_due = lists.get(SWEEP).is_none_or(|list| {
            let age = now.since(list.watermark);
            list.note != self.labels.join(",") || !(0..SWEEP_EVERY_MS).contains(&age)
        });
        if is_due {
            self.sweep(teller, now, round).await?;
        }
        Ok(())
    }

    /// Lists what is open and labelled; an issue that is not known yet has this floor.
    async fn sweep(
        &self,
        teller: &Teller,
        floor: Timestamp,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let began = self.clock.now();
        let labels = self.labels.iter();
        let labels: String = labels
            .map(|label| format!(" AND labels = {}", quoted(label)))
            .collect();
        let jql = format!(
            "project = {}{labels} AND statusCategory != Done ORDER BY created ASC",
            quoted(&self.project.key)
        );
        let listed = self.search(&jql).await?;
        let mut found = BTreeSet::new();
        for issue in listed.issues.iter().filter_map(|raw| Issue::read(raw)) {
            let work_item = teller.item(&issue.key)?;
            let presence = teller.presence_of(&issue, &self.labels)?;
            if presence == PresenceChange::Disarm {
                continue;
            }
            found.insert(work_item.key());
            let seen = ItemSeen {
                presence,
                ..ItemSeen::of(ItemKind::Issue, floor)
            };
            round.save.items.push((work_item, ItemChange::Seen(seen)));
        }
        if listed.is_whole {
            round.save.sweeps.push(Sweep {
                kind: ItemKind::Issue,
                began,
                found,
            });
        }
        let done = PollList {
            note: self.labels.join(","),
            ..PollList::starting_at(self.now())
        };
        round.save.lists.insert(SWEEP.to_owned(), done);
        Ok(())
    }

    /// Reads what changed since the last round, and what earlier rounds left over.
    async fn read_changes(
        &self,
        teller: &Teller,
        list: &PollList,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let began = self.now();
        let minutes = window_minutes(list.watermark, began);
        let found = self.changes(minutes, list.watermark).await?;
        // While a long list is read, its floor holds: what changed again meanwhile stands at its
        // end, however old the comments are that were made before.
        let floor = moment::parse(&list.note)
            .unwrap_or_else(|| moment::before(list.watermark, OVERLAP_MS))
            .max(list.baseline);
        let mut wanted = BTreeMap::new();
        let mut handled = BTreeSet::new();
        for raw in found.issues {
            let Some(issue) = Issue::read(&raw) else {
                continue;
            };
            let (entry, work_item) = (issue.entry.clone(), teller.item(&issue.key)?);
            if !list.handled.contains(&entry) {
                wanted.insert(work_item.key(), (work_item, Some(raw)));
            }
            handled.insert(entry);
        }
        self.read_issues(teller, wanted, floor, round).await?;
        let rest_from = found.rest_from;
        round.more |= rest_from.is_some_and(|rest_from| rest_from > list.watermark);
        let moved_on = PollList {
            watermark: rest_from.unwrap_or(began),
            note: rest_from.map_or_else(String::new, |_| moment::in_seconds(floor)),
            handled,
            ..list.clone()
        };
        // The overlap covers some rounds in which nothing happened: they cost no write.
        let is_fresh = (0..OVERLAP_MS).contains(&began.since(list.watermark));
        if moved_on.handled != list.handled || moved_on.note != list.note || !is_fresh {
            round.save.lists.insert(CHANGED.to_owned(), moved_on);
        }
        Ok(())
    }

    /// Reads issues further. Those that a round does not get to stay pending in the ledger.
    async fn read_issues(
        &self,
        teller: &Teller,
        mut wanted: BTreeMap<String, (WorkItemRef, Option<String>)>,
        floor: Timestamp,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let find = FindItems {
            source: self.key.clone(),
            keys: wanted.keys().cloned().collect(),
        };
        let known = self.store.submit(find).await?;
        for (key, item) in &known {
            if item.pending {
                let left_over = (item.work_item.clone(), None);
                wanted.entry(key.clone()).or_insert(left_over);
            }
        }
        let mut asked = 0_usize;
        for (key, (work_item, raw)) in wanted {
            let known = known.get(&key);
            let pending = ItemSeen::pending(ItemKind::Issue, floor);
            let pending = ItemChange::Seen(pending);
            // What does not carry the labels costs no request.
            let is_cheap = raw
                .as_deref()
                .is_some_and(|raw| self.is_without_labels(raw));
            asked = asked.saturating_add(usize::from(!is_cheap));
            if asked > ISSUES_MAX && !is_cheap {
                round.more = true;
                round.save.items.push((work_item, pending));
                continue;
            }
            let read = self.read_issue(teller, (&work_item, raw), known, (floor, round));
            match read.await {
                Ok(change) => round.save.items.push((work_item, change)),
                // Deleted meanwhile.
                Err(failure) if failure.is_absence() => {
                    round.save.items.push((work_item, ItemChange::Gone));
                }
                Err(failure) => {
                    round.save.items.push((work_item, pending));
                    round.tolerate(failure)?;
                }
            }
        }
        Ok(())
    }

    fn is_without_labels(&self, raw: &str) -> bool {
        Issue::read(raw).is_some_and(|issue| !issue.carries(&self.labels))
    }

    async fn read_issue(
        &self,
        teller: &Teller,
        (work_item, raw): (&WorkItemRef, Option<String>),
        known: Option<&KnownItem>,
        (floor, round): (Timestamp, &mut Round),
    ) -> Result<ItemChange, Failure> {
        let raw = match raw {
            Some(raw) => raw,
            None => match self.issue_object(work_item).await? {
                Some(raw) => raw,
                None => return Ok(ItemChange::Gone),
            },
        };
        let issue = Issue::read(&raw).ok_or(Failure::Malformed("no issue"))?;
        if !issue.carries(&self.labels) {
            return Ok(ItemChange::Gone);
        }
        let floor = known.map_or(floor, |known| known.floor);
        let told = known.map(|known| known.handled.clone());
        let handled = self
            .read_comments(teller, &issue, (floor, told.unwrap_or_default()), round)
            .await?;
        if issue.is_done {
            let is_news = |at: &Timestamp| *at >= floor;
            let closed = issue.closed_at().filter(is_news);
            // Where Jira tells no date, an issue that was open before has been closed since.
            let undated =
                (issue.closed_at().is_none() && known.is_some()).then_some(teller.received_at);
            if let Some(at) = closed.or(undated) {
                round.happenings.extend(teller.closure(&issue, at)?);
            }
            return Ok(ItemChange::Gone);
        }
        Ok(ItemChange::Seen(ItemSeen {
            handled: Some(handled),
            presence: teller.presence_of(&issue, &self.labels)?,
            ..ItemSeen::read(ItemKind::Issue, floor)
        }))
    }

    /// One issue as sent; `None` when it is gone.
    async fn issue_object(&self, work_item: &WorkItemRef) -> Result<Option<String>, Failure> {
        let WorkItemRef::Jira {
            project, number, ..
        } = work_item
        else {
            return Ok(None);
        };
        let path = format!(
            "/rest/api/2/issue/{project}-{number}?fields={}",
            issue::FIELDS
        );
        match self.api.get(&self.api.url(&path)).await {
            Ok(page) => Ok(Some(page.body)),
            Err(failure) if failure.is_absence() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Tells the comments that were not told yet, newest first; returns all that were told.
    ///
    /// Version 2 of the API is the one whose comments look like those of a webhook.
    async fn read_comments(
        &self,
        teller: &Teller,
        issue: &Issue<'_>,
        (floor, mut handled): (Timestamp, BTreeSet<String>),
        round: &mut Round,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut begin = 0_u64;
        for _ in 0..COMMENT_PAGES_MAX {
            let path = format!(
                "/rest/api/2/issue/{}/comment?orderBy=-created&maxResults={COMMENTS_PAGE}\
                 &startAt={begin}",
                issue.key
            );
            let page = self.api.get(&self.api.url(&path)).await?;
            let comments = json::items_of(&page.body, "comments")?;
            let count = u64::try_from(comments.len()).unwrap_or(u64::MAX);
            let mut is_news = false;
            for comment in comments.into_iter().filter_map(Comment::read) {
                let is_told = comment.at < floor || !handled.insert(comment.id.clone());
                if !is_told {
                    is_news = true;
                    round.happenings.extend(teller.comment(&comment, issue));
                }
            }
            begin = begin.saturating_add(count);
            let paging = lenient::read(page.body.trim(), &TOTAL).ok();
            let total = paging.and_then(|paging| paging.number("total"));
            let is_end = count == 0 || begin >= total.unwrap_or(begin);
            // Without `orderBy` the oldest come first: then a page without news says nothing.
            if is_end || !is_news && is_newest_first(&page.body) {
                break;
            }
        }
        Ok(handled)
    }
}

/// True when the comments of a page are in descending order.
fn is_newest_first(body: &str) -> bool {
    let comments = json::items_of(body, "comments").unwrap_or_default();
    let moments: Vec<Timestamp> = comments
        .into_iter()
        .filter_map(Comment::read)
        .map(|comment| comment.at)
        .collect();
    moments.first() > moments.last()
}

/// How many minutes the window reaches back. A clock that was set back makes it no smaller than
/// the overlap.
fn window_minutes(watermark: Timestamp, now: Timestamp) -> Millis {
    let span = now.since(watermark).max(0).saturating_add(OVERLAP_MS);
    span.saturating_add(MINUTE_MS.saturating_sub(1)) / MINUTE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_back_behind_the_last_round_in_whole_minutes() {
        let at = |ms: i64| Timestamp(1_790_000_000_000 + ms);
        assert_eq!(window_minutes(at(0), at(0)), 5);
        assert_eq!(window_minutes(at(0), at(1)), 6);
        assert_eq!(window_minutes(at(0), at(60_000)), 6);
        assert_eq!(window_minutes(at(0), at(7 * 24 * 3_600_000)), 10_085);
        assert_eq!(window_minutes(at(60_000), at(0)), 5);
    }
}
