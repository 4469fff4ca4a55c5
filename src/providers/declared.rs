//! What the configuration declares as ours: repositories, the Jira site and its projects, rooms.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{ParseError, WorkItemRef};

/// One entry of `repositories`: `owner/repo`, `owner/*` or `host/owner/repo`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryPattern {
    /// `host[:port]` in lower case; `github.com` when the entry names none.
    pub host: String,
    /// The owner as the configuration spells it.
    pub owner: String,
    /// The repository; `None` for every repository of the owner.
    pub repo: Option<String>,
}

impl RepositoryPattern {
    /// Parses one entry.
    ///
    /// # Errors
    /// When the entry has not two or three non-empty parts, or `*` stands elsewhere than last.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        const WRONG: ParseError = ParseError("must be owner/repo, owner/* or host/owner/repo");
        let parts: Vec<&str> = text.split('/').collect();
        let (host, owner, repo) = match parts.as_slice() {
            [owner, repo] => ("github.com", *owner, *repo),
            [host, owner, repo] => (*host, *owner, *repo),
            _ => return Err(WRONG),
        };
        let named = if repo == "*" { "any" } else { repo };
        if owner.contains('*') || named.contains('*') {
            return Err(WRONG);
        }
        WorkItemRef::github(Some(host), owner, named, 1).ok_or(WRONG)?;
        Ok(Self {
            host: host.to_ascii_lowercase(),
            owner: owner.to_owned(),
            repo: (repo != "*").then(|| repo.to_owned()),
        })
    }

    fn covers(&self, host: &str, owner: &str, repo: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
            && self.owner.eq_ignore_ascii_case(owner)
            && self
                .repo
                .as_deref()
                .is_none_or(|own| own.eq_ignore_ascii_case(repo))
    }
}

/// What the configuration declares; what is not in here is not ours.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// The repositories; empty: every GitHub event is dropped.
    pub repositories: Vec<RepositoryPattern>,
    /// `host[:port]` of the Jira site in lower case.
    pub jira_site: Option<String>,
    /// The keys of the Jira projects, upper case.
    pub jira_projects: BTreeSet<String>,
    /// Slack channel id → the work item that it is a room of.
    pub rooms: BTreeMap<String, WorkItemRef>,
}

/// Rooms are the same when their work items are spelled the same.
impl PartialEq for Declared {
    fn eq(&self, other: &Self) -> bool {
        self.repositories == other.repositories
            && self.jira_site == other.jira_site
            && self.jira_projects == other.jira_projects
            && self.has_the_rooms_of(other)
    }
}

impl Declared {
    /// True when both declare the same rooms.
    #[must_use]
    pub fn has_the_rooms_of(&self, other: &Self) -> bool {
        let spelled = |rooms: &BTreeMap<String, WorkItemRef>| -> Vec<(String, String)> {
            rooms
                .iter()
                .map(|(channel, item)| (channel.clone(), item.to_string()))
                .collect()
        };
        spelled(&self.rooms) == spelled(&other.rooms)
    }

    /// True when a repository is declared; ASCII case is ignored.
    #[must_use]
    pub fn has_repository(&self, host: &str, owner: &str, repo: &str) -> bool {
        self.repositories
            .iter()
            .any(|pattern| pattern.covers(host, owner, repo))
    }

    /// True when a Jira project of a site is declared.
    #[must_use]
    pub fn has_project(&self, site: &str, project: &str) -> bool {
        self.jira_site
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(site))
            && self.jira_projects.contains(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_declared_exactly_by_owner_or_with_a_host() {
        let declared = Declared {
            repositories: ["octo/repo", "acme/*", "ghe.corp.example:8443/octo/other"]
                .iter()
                .map(|text| RepositoryPattern::parse(text).unwrap())
                .collect(),
            ..Declared::default()
        };
        assert!(declared.has_repository("github.com", "Octo", "REPO"));
        assert!(declared.has_repository("github.com", "acme", "anything"));
        assert!(declared.has_repository("ghe.corp.example:8443", "octo", "other"));
        assert!(!declared.has_repository("github.com", "octo", "other"));
        assert!(!declared.has_repository("ghe.corp.example:8443", "acme", "anything"));
    }

    #[test]
    fn a_malformed_entry_is_refused() {
        for bad in [
            "", "octo", "octo/", "/repo", "*/repo", "a/b/c/d", "octo/re*", "ghe/o/r",
        ] {
            assert!(RepositoryPattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
