//! The repository that a payload is about.

use super::GITHUB_HOST;
use crate::domain::WorkItemRef;
use crate::providers::lenient::Node;
use crate::providers::{Declared, RepositoryMoved, clipped};

/// A repository whose names make a reference; other than that they are as GitHub spells them.
#[derive(Debug)]
pub(super) struct Repository {
    /// `host[:port]` in lower case.
    pub(super) host: String,
    owner: String,
    name: String,
    /// What stays when the names change.
    pub(super) id: Option<u64>,
}

impl Repository {
    /// `None` when the payload names none, or one that no reference can name.
    pub(super) fn of(payload: &Node<'_>, enterprise_host: Option<&str>) -> Option<Self> {
        let repository = payload.at("repository");
        let full_name = repository.text("full_name")?;
        let (owner, name) = full_name.split_once('/')?;
        let host = [repository, payload.at("issue"), payload.at("pull_request")]
            .into_iter()
            .find_map(|object| host_of(&object.text("html_url")?))
            .or_else(|| enterprise_host.map(str::to_owned))
            .unwrap_or_else(|| GITHUB_HOST.to_owned());
        let found = Self {
            host,
            owner: owner.to_owned(),
            name: name.to_owned(),
            id: repository.number("id"),
        };
        let is_plain = !full_name.contains(|c: char| c.is_whitespace() || c.is_control());
        (is_plain && found.item(1).is_some()).then_some(found)
    }

    /// An issue or pull request of it.
    pub(super) fn item(&self, number: u64) -> Option<WorkItemRef> {
        WorkItemRef::github(Some(&self.host), &self.owner, &self.name, number)
    }

    pub(super) fn is_declared(&self, declared: &Declared) -> bool {
        declared.has_repository(&self.host, &self.owner, &self.name)
    }

    /// `host/owner/repo` in lower case: what commits are learned under.
    pub(super) fn key(&self) -> String {
        format!("{}/{}/{}", self.host, self.owner, self.name).to_ascii_lowercase()
    }

    /// The name as an entry of `repositories` writes it, for a record.
    pub(super) fn shown(&self) -> String {
        let Self {
            host, owner, name, ..
        } = self;
        clipped(&if host == GITHUB_HOST {
            format!("{owner}/{name}")
        } else {
            format!("{host}/{owner}/{name}")
        })
    }

    /// The declared name that this repository no longer has, when the event says so.
    pub(super) fn moved(
        &self,
        kind: &str,
        payload: &Node<'_>,
        declared: &Declared,
    ) -> Option<RepositoryMoved> {
        let changes = payload.at("changes");
        let (owner, name) = match (kind, payload.text("action")?.as_ref()) {
            ("repository", "renamed") => {
                let before = changes.at("repository").at("name").text("from")?;
                (self.owner.clone(), before.into_owned())
            }
            ("repository", "transferred") => {
                let before = changes.at("owner").at("from");
                let login = ["user", "organization"]
                    .iter()
                    .find_map(|owner| before.at(owner).text("login"))?;
                (login.into_owned(), self.name.clone())
            }
            _ => return None,
        };
        let before = Self {
            host: self.host.clone(),
            owner,
            name,
            id: self.id,
        };
        let concerns_us = before.is_declared(declared) && before.key() != self.key();
        concerns_us.then(|| RepositoryMoved {
            from: before.shown(),
            to: self.shown(),
        })
    }
}

/// `host[:port]` of a URL in lower case.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}
