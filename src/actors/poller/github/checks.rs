//! Check runs and commit statuses of pull requests that somebody works on.
//!
//! Told are results: completed runs, and statuses that are not pending. What a head commit has
//! already when it is first looked at is told too, for it is what its claimant has to deal with;
//! what a webhook brought before has the same keys.

use std::collections::BTreeSet;

use super::teller::Teller;
use super::{GitHubPoller, PER_PAGE};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::http::{Answer, Page};
use crate::actors::poller::json::{self, quoted};
use crate::actors::poller::moment;
use crate::actors::poller::round::{Happening, Round};
use crate::domain::{Timestamp, WorkItemRef};
use crate::providers::lenient::{self, Node, Want};
use crate::store::{ClaimedPullRequest, ClaimedPullRequests, PollList, PollLists};

/// Pull requests whose checks are read in one round.
const PULL_REQUESTS_MAX: u32 = 200;
/// Pages of the checks of one commit.
const PAGES_MAX: usize = 10;
const RUNS: &str = "check-runs";
const STATUSES: &str = "statuses";

static RUN: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("name", Want::Leaf),
    ("status", Want::Leaf),
    ("conclusion", Want::Leaf),
    ("completed_at", Want::Leaf),
]);

static STATUS: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("node_id", Want::Leaf),
    ("state", Want::Leaf),
    ("context", Want::Leaf),
    ("description", Want::Leaf),
    ("target_url", Want::Leaf),
    ("created_at", Want::Leaf),
    ("updated_at", Want::Leaf),
]);

/// The checks of one commit, of one of the two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Runs,
    Statuses,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Runs, Self::Statuses];

    const fn list(self) -> &'static str {
        match self {
            Self::Runs => RUNS,
            Self::Statuses => STATUSES,
        }
    }

    fn path(self, repository: &str, sha: &str) -> String {
        let end = match self {
            Self::Runs => "check-runs?filter=latest&",
            Self::Statuses => "status?",
        };
        format!("/repos/{repository}/commits/{sha}/{end}{PER_PAGE}")
    }

    const fn items(self) -> &'static str {
        match self {
            Self::Runs => "check_runs",
            Self::Statuses => "statuses",
        }
    }
}

/// The head of a pull request.
struct Head<'a> {
    work_item: &'a WorkItemRef,
    sha: &'a str,
}

impl GitHubPoller {
    /// Reads the checks of every claimed pull request, and forgets those of others.
    pub(super) async fn read_checks(
        &self,
        teller: &Teller,
        lists: &PollLists,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let ask = ClaimedPullRequests {
            source: self.key.clone(),
            limit: PULL_REQUESTS_MAX,
            after: String::new(),
        };
        let claimed = self.store.submit(ask).await?;
        let mut kept = BTreeSet::new();
        for ClaimedPullRequest { work_item, head } in &claimed {
            let WorkItemRef::GitHub { number, .. } = work_item else {
                continue;
            };
            for kind in Kind::ALL {
                let name = format!("{}:{number}", kind.list());
                kept.insert(name.clone());
                if head.is_empty() {
                    continue;
                }
                let head = Head {
                    work_item,
                    sha: head,
                };
                let known = lists.get(&name);
                match self.read_kind(teller, kind, &head, known).await {
                    Ok(Some((list, happenings))) => {
                        round.happenings.extend(happenings);
                        round.save.lists.insert(name, list);
                    }
                    Ok(None) => {}
                    // The commit may be gone: somebody pushed over it.
                    Err(failure) if failure.is_absence() => {}
                    Err(failure) => round.tolerate(failure)?,
                }
            }
        }
        let is_of_checks = |name: &&String| {
            name.starts_with(&format!("{RUNS}:")) || name.starts_with(&format!("{STATUSES}:"))
        };
        let over = lists.keys().filter(is_of_checks);
        let over = over.filter(|name| !kept.contains(*name));
        round.save.over.extend(over.cloned());
        Ok(())
    }

    async fn read_kind(
        &self,
        teller: &Teller,
        kind: Kind,
        head: &Head<'_>,
        known: Option<&PollList>,
    ) -> Result<Option<(PollList, Vec<Happening>)>, Failure> {
        let path = kind.path(&teller.repository.full_name, head.sha);
        let url = self.api.url(&path);
        let known = known.filter(|known| known.url == url);
        let etag = known.map_or("", |known| known.etag.as_str());
        let Answer::Page(mut page) = self.api.get_if_changed(&url, etag).await? else {
            return Ok(None);
        };
        let mut list = PollList {
            url,
            handled: known.map(|known| known.handled.clone()).unwrap_or_default(),
            ..PollList::starting_at(page.date)
        };
        if page.next.is_none() {
            list.etag = page.etag.clone();
        }
        let mut happenings = Vec::new();
        for _ in 0..PAGES_MAX {
            tell(
                teller,
                kind,
                head,
                &page,
                (&mut list.handled, &mut happenings),
            )?;
            let Some(next) = page.next.take() else { break };
            page = self.api.get(&next).await?;
        }
        Ok(Some((list, happenings)))
    }
}

fn tell(
    teller: &Teller,
    kind: Kind,
    head: &Head<'_>,
    page: &Page,
    (handled, happenings): (&mut BTreeSet<String>, &mut Vec<Happening>),
) -> Result<(), Failure> {
    for raw in json::items_of(&page.body, kind.items())? {
        let check = match kind {
            Kind::Runs => Check::run(raw),
            Kind::Statuses => Check::status(raw),
        };
        let Some(check) = check else { continue };
        let key = format!("{}:{}@{}", check.id, check.result, check.at.0);
        if handled.insert(key) {
            happenings.extend(check.happening(teller, head));
        }
    }
    Ok(())
}

/// A result of a check.
struct Check<'a> {
    raw: &'a str,
    node: Node<'a>,
    kind: Kind,
    id: u64,
    name: String,
    result: String,
    at: Timestamp,
}

impl<'a> Check<'a> {
    /// `None` for a run that has not ended.
    fn run(raw: &'a str) -> Option<Self> {
        let node = lenient::read(raw, &RUN).ok()?;
        let is_over = node
            .text("status")
            .is_some_and(|status| status == "completed");
        let check = Self::read(
            raw,
            node,
            Kind::Runs,
            ["name", "conclusion", "completed_at"],
        );
        check.filter(|_| is_over)
    }

    /// `None` for a status that is pending.
    fn status(raw: &'a str) -> Option<Self> {
        let node = lenient::read(raw, &STATUS).ok()?;
        let check = Self::read(
            raw,
            node,
            Kind::Statuses,
            ["context", "state", "updated_at"],
        );
        check.filter(|check| check.result != "pending")
    }

    fn read(raw: &'a str, node: Node<'a>, kind: Kind, fields: [&str; 3]) -> Option<Self> {
        let [name, result, at] = fields;
        Some(Self {
            raw,
            kind,
            id: node.number("id")?,
            name: node.text(name)?.into_owned(),
            result: node.text(result)?.into_owned(),
            at: moment::parse(&node.text(at)?)?,
            node,
        })
    }

    fn happening(&self, teller: &Teller, head: &Head<'_>) -> Option<Happening> {
        let Head { work_item, sha } = head;
        let (name, result) = (&self.name, &self.result);
        match self.kind {
            Kind::Runs => {
                let id = format!("poll-ci-{work_item}-check-run:{name}-{sha}:{result}");
                let payload = [
                    ("action", Some("\"completed\"")),
                    ("check_run", Some(self.raw)),
                ];
                teller.check("check_run", id, self.at, &payload)
            }
            Kind::Statuses => {
                let id = format!("poll-ci-{work_item}-status:{name}-{sha}:{result}");
                let sha = quoted(sha);
                let mut payload = vec![("sha", Some(sha.as_str()))];
                let fields = [
                    "id",
                    "node_id",
                    "state",
                    "context",
                    "description",
                    "target_url",
                    "created_at",
                    "updated_at",
                ];
                payload.extend(fields.map(|field| (field, self.node.raw(field))));
                teller.check("status", id, self.at, &payload)
            }
        }
    }
}
