//! Check runs and commit statuses of pull requests that somebody works on.
//!
//! Told are results: completed runs, and statuses that are not pending. What a head commit has
//! already when it is first looked at is told too, for it is what its claimant has to deal with;
//! what a webhook brought before has the same keys.

use std::collections::BTreeSet;

use super::teller::Teller;
use super::{GitHubPoller, PER_PAGE, Pass};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::http::Answer;
use crate::actors::poller::json::{self, quoted};
use crate::actors::poller::moment;
use crate::actors::poller::round::Happening;
use crate::domain::{Timestamp, WorkItemRef};
use crate::providers::lenient::{self, Node, Want};
use crate::store::{ClaimedPullRequest, ClaimedPullRequests, PollList};

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

    /// The list of a pull request.
    fn list_of(self, work_item: &WorkItemRef) -> Option<String> {
        let WorkItemRef::GitHub { number, .. } = work_item else {
            return None;
        };
        Some(format!("{}:{number}", self.list()))
    }

    fn path(self, sha: &str) -> String {
        let end = match self {
            Self::Runs => "check-runs?filter=latest&",
            Self::Statuses => "status?",
        };
        format!("commits/{sha}/{end}{PER_PAGE}")
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
    pub(super) async fn read_checks(&self, pass: &mut Pass) -> Result<(), Failure> {
        let ask = ClaimedPullRequests {
            source: self.key.clone(),
            limit: PULL_REQUESTS_MAX,
            after: String::new(),
        };
        let claimed = self.store.submit(ask).await?;
        forget_others(pass, &claimed);
        for ClaimedPullRequest { work_item, head } in &claimed {
            if head.is_empty() {
                continue;
            }
            for kind in Kind::ALL {
                let head = Head {
                    work_item,
                    sha: head,
                };
                match self.read_kind(pass, kind, &head).await {
                    Ok(()) => {}
                    // The commit may be gone: somebody pushed over it.
                    Err(failure) if failure.is_absence() => {}
                    // What is refused for one is refused for all.
                    Err(failure) => return pass.round.tolerate(failure),
                }
            }
        }
        Ok(())
    }

    async fn read_kind(&self, pass: &mut Pass, kind: Kind, head: &Head<'_>) -> Result<(), Failure> {
        let Some(name) = kind.list_of(head.work_item) else {
            return Ok(());
        };
        let url = self.api.url(&pass.path(&kind.path(head.sha)));
        let known = pass.lists.get(&name).filter(|known| known.url == url);
        let etag = known.map_or("", |known| known.etag.as_str());
        let Answer::Page(mut page) = self.api.get_if_changed(&url, etag).await? else {
            return Ok(());
        };
        let mut list = PollList {
            url,
            handled: known.map(|known| known.handled.clone()).unwrap_or_default(),
            ..PollList::starting_at(page.date)
        };
        if page.next.is_none() {
            list.etag = page.etag.clone();
        }
        let mut told = Vec::new();
        for _ in 0..PAGES_MAX {
            for raw in json::items_of(&page.body, kind.items())? {
                let Some(check) = Check::read(kind, raw) else {
                    continue;
                };
                if list.handled.insert(check.entry()) {
                    told.extend(check.happening(&pass.teller, head));
                }
            }
            let Some(next) = page.next.take() else { break };
            page = self.api.get(&next).await?;
        }
        pass.round.happenings.extend(told);
        pass.note_list(&name, list);
        Ok(())
    }
}

/// Ends the lists of pull requests that nobody works on any more.
fn forget_others(pass: &mut Pass, claimed: &[ClaimedPullRequest]) {
    let kept: BTreeSet<String> = claimed
        .iter()
        .flat_map(|claim| Kind::ALL.map(|kind| kind.list_of(&claim.work_item)))
        .flatten()
        .collect();
    let is_of_checks = |name: &str| {
        let (kind, _) = name.split_once(':').unwrap_or_default();
        Kind::ALL.iter().any(|own| own.list() == kind)
    };
    let over = pass.lists.keys();
    let over = over.filter(|name| is_of_checks(name) && !kept.contains(*name));
    pass.round.save.over.extend(over.cloned());
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
    /// `None` for what has no result yet.
    fn read(kind: Kind, raw: &'a str) -> Option<Self> {
        let (want, [name, result, at]) = match kind {
            Kind::Runs => (&RUN, ["name", "conclusion", "completed_at"]),
            Kind::Statuses => (&STATUS, ["context", "state", "updated_at"]),
        };
        let node = lenient::read(raw, want).ok()?;
        let check = Self {
            raw,
            kind,
            id: node.number("id")?,
            name: node.text(name)?.into_owned(),
            result: node.text(result)?.into_owned(),
            at: moment::parse(&node.text(at)?)?,
            node,
        };
        let is_over = match kind {
            Kind::Runs => check.node.text("status").as_deref() == Some("completed"),
            Kind::Statuses => check.result != "pending",
        };
        is_over.then_some(check)
    }

    /// What it is known by among what was told.
    fn entry(&self) -> String {
        format!("{}:{}@{}", self.id, self.result, self.at.0)
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
