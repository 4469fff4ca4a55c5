//! The repository that is polled: what GitHub calls it now, and what we call it.

use super::GitHubPoller;
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json::{object, quoted};
use crate::actors::poller::parts::shown;
use crate::actors::poller::round::Round;
use crate::config::GitHubSource;
use crate::domain::WorkItemRef;
use crate::providers::Declared;
use crate::providers::lenient::{self, Node, Want};
use crate::store::{PollList, PollLists};
use crate::telemetry::GatewayEvent;

/// The list whose note says what GitHub calls the repository.
pub(super) const REPOSITORY: &str = "repository";

static WANTED: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("node_id", Want::Leaf),
    ("full_name", Want::Leaf),
]);

/// A repository as events show it.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    /// `host[:port]` in lower case.
    pub(super) host: String,
    /// What GitHub calls it; part of every URL.
    pub(super) full_name: String,
    /// What events and references call it.
    owner: String,
    name: String,
    /// As in a webhook's payload.
    pub(super) json: String,
}

impl Repository {
    /// The repository of a note. A new name counts only when it is declared too: events of an
    /// undeclared repository would be dropped, and the configured name still says what is meant.
    fn read(note: &str, source: &GitHubSource, declared: &Declared) -> Option<Self> {
        let node = lenient::read(note, &WANTED).ok()?;
        let (id, full_name) = (node.number("id")?, node.text("full_name")?.into_owned());
        let (owner, name) = match full_name.split_once('/') {
            Some((owner, name)) if declared.has_repository(&source.host, owner, name) => {
                (owner.to_owned(), name.to_owned())
            }
            _ => (source.owner.clone(), source.repo.clone()),
        };
        WorkItemRef::github(Some(&source.host), &owner, &name, 1)?;
        let json = object([
            ("id", Some(id.to_string().as_str())),
            ("node_id", node.raw("node_id")),
            ("name", Some(&quoted(&name))),
            ("full_name", Some(&quoted(&format!("{owner}/{name}")))),
            (
                "owner",
                Some(&object([("login", Some(quoted(&owner).as_str()))])),
            ),
            (
                "html_url",
                Some(&quoted(&format!("https://{}/{owner}/{name}", source.host))),
            ),
        ]);
        Some(Self {
            host: source.host.clone(),
            full_name,
            owner,
            name,
            json,
        })
    }

    /// An issue or pull request of it.
    pub(super) fn item(&self, number: u64) -> Result<WorkItemRef, Failure> {
        WorkItemRef::github(Some(&self.host), &self.owner, &self.name, number)
            .ok_or(Failure::Malformed("a number that is none"))
    }

    /// `host/owner/repo` in lower case: what commits are learned under.
    pub(super) fn key(&self) -> String {
        format!("{}/{}/{}", self.host, self.owner, self.name).to_ascii_lowercase()
    }
}

impl GitHubPoller {
    /// Finds out what the repository is called; asks only if nobody has yet.
    pub(super) async fn identify(
        &mut self,
        lists: &PollLists,
        declared: &Declared,
        round: &mut Round,
    ) -> Result<Repository, Failure> {
        let noted = lists.get(REPOSITORY).filter(|_| !self.has_moved);
        if let Some(list) = noted
            && let Some(repository) = Repository::read(&list.note, &self.source, declared)
        {
            return Ok(repository);
        }
        let GitHubSource { owner, repo, .. } = &self.source;
        let url = self.api.url(&format!("/repos/{owner}/{repo}"));
        let page = self.api.get(&url).await?;
        let known = lists.get(REPOSITORY).map(|list| list.note.as_str());
        let repository = self.take_note(&page.body, known, declared, round)?;
        if let Some(list) = round.save.lists.get_mut(REPOSITORY) {
            list.watermark = page.date;
            list.baseline = page.date;
        }
        self.has_moved = false;
        Ok(repository)
    }

    fn take_note(
        &self,
        body: &str,
        known: Option<&str>,
        declared: &Declared,
        round: &mut Round,
    ) -> Result<Repository, Failure> {
        let node = lenient::read(body.trim(), &WANTED).ok();
        let node = node.ok_or(Failure::Malformed("no repository"))?;
        let id = node.number("id").map(|id| id.to_string());
        let note = object([
            ("id", id.as_deref()),
            ("node_id", node.raw("node_id")),
            ("full_name", node.raw("full_name")),
        ]);
        let repository = Repository::read(&note, &self.source, declared)
            .ok_or(Failure::Malformed("a repository without id or name"))?;
        let known = known.and_then(full_name_in);
        if let Some(record) = self.moved(&repository.full_name, known.as_deref()) {
            round.save.records.push(record);
        }
        let list = PollList {
            note,
            ..PollList::starting_at(self.clock.now())
        };
        round.save.lists.insert(REPOSITORY.to_owned(), list);
        Ok(repository)
    }

    /// The record of a new name, if it is news.
    fn moved(&self, full_name: &str, known: Option<&str>) -> Option<GatewayEvent> {
        let GitHubSource {
            host, owner, repo, ..
        } = &self.source;
        let is_ours = full_name.eq_ignore_ascii_case(&format!("{owner}/{repo}"));
        let is_known = known.is_some_and(|known| known.eq_ignore_ascii_case(full_name));
        let to = match host.as_str() {
            "github.com" => full_name.to_owned(),
            host => format!("{host}/{full_name}"),
        };
        (!is_ours && !is_known).then(|| GatewayEvent::RepositoryMoved {
            from: shown(&self.source),
            to,
        })
    }
}

fn full_name_in(note: &str) -> Option<String> {
    let node: Node<'_> = lenient::read(note, &WANTED).ok()?;
    Some(node.text("full_name")?.into_owned())
}
