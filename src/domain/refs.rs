//! Work-item references and the subjects that they name.
//!
//! The slug is the one the-loop names its terminal sessions with, so a subject equals the name of
//! the session that handles it: case kept, nothing shortened, nothing hashed.

use std::fmt;

use super::{ParseError, Provider};

const REF_BYTES_MAX: usize = 512;
const GITHUB_HOST: &str = "github.com";
const SUBJECT_SUFFIX_BYTES_MAX: usize = 507;

/// The name of a work item: `github:[host/]owner/repo#N`, `jira:site/KEY-N` or `standing:<name>`.
///
/// Kept as the provider spells it; two references are the same when their [`WorkItemRef::key`]s
/// are equal (ASCII case is ignored).
#[derive(Debug, Clone)]
pub enum WorkItemRef {
    /// An issue or a pull request.
    GitHub {
        /// `host[:port]` in lower case, `None` for github.com.
        host: Option<String>,
        /// The account that owns the repository.
        owner: String,
        /// The repository's name without its owner.
        repo: String,
        /// The number of the issue or pull request, from 1.
        number: u64,
    },
    /// A Jira issue.
    Jira {
        /// `host[:port]` in lower case, without a context path.
        site: String,
        /// The project's key, upper case.
        project: String,
        /// The number within the project, from 1.
        number: u64,
    },
    /// A conversation without a work item; only the target of a Slack binding or room.
    Standing(String),
}

impl WorkItemRef {
    /// Parses the text form.
    ///
    /// # Errors
    /// When the text follows none of the three grammars or is longer than 512 bytes.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        if text.len() > REF_BYTES_MAX {
            return Err(ParseError("must be at most 512 bytes"));
        }
        let parsed = match text.split_once(':') {
            Some(("github", path)) => Self::parse_github(path),
            Some(("jira", path)) => Self::parse_jira(path),
            Some(("standing", name)) => Self::parse_standing(name),
            _ => None,
        };
        parsed.ok_or(ParseError(
            "must be github:[host/]owner/repo#N, jira:site/KEY-N or standing:<name>",
        ))
    }

    /// A GitHub reference from its parts; `None` when a part has no usable shape.
    ///
    /// `host` may be `github.com` in any case; `owner` and `repo` must not be empty nor contain
    /// `/` or `#`; `number` starts at 1.
    #[must_use]
    pub fn github(host: Option<&str>, owner: &str, repo: &str, number: u64) -> Option<Self> {
        let part_is_usable = |part: &str| !part.is_empty() && !part.contains(['/', '#']);
        let host = host
            .map(str::to_ascii_lowercase)
            .filter(|host| host != GITHUB_HOST);
        let usable = part_is_usable(owner)
            && part_is_usable(repo)
            && number >= 1
            && host.as_deref().is_none_or(is_host);
        let reference = usable.then(|| Self::GitHub {
            host,
            owner: owner.to_owned(),
            repo: repo.to_owned(),
            number,
        })?;
        (reference.to_string().len() <= REF_BYTES_MAX).then_some(reference)
    }

    /// A Jira reference from a site (`host[:port]`) and an issue key such as `KEY-12`.
    #[must_use]
    pub fn jira(site: &str, issue_key: &str) -> Option<Self> {
        let (project, number) = issue_key.rsplit_once('-')?;
        let site = site.to_ascii_lowercase();
        (is_host(&site)
            && is_project_key(project)
            && !number.starts_with('0')
            && number.len() <= 10)
            .then_some(())?;
        Some(Self::Jira {
            site,
            project: project.to_owned(),
            number: parse_number(number)?,
        })
    }

    fn parse_github(path: &str) -> Option<Self> {
        let (path, number) = path.split_once('#')?;
        let parts: Vec<&str> = path.split('/').collect();
        let number = parse_number(number)?;
        match parts.as_slice() {
            [owner, repo] => Self::github(None, owner, repo, number),
            [host, owner, repo] => Self::github(Some(host), owner, repo, number),
            _ => None,
        }
    }

    fn parse_jira(path: &str) -> Option<Self> {
        let (site, key) = path.split_once('/')?;
        Self::jira(site, key)
    }

    fn parse_standing(name: &str) -> Option<Self> {
        let well_formed = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-')
            && (1..=40).contains(&name.len());
        well_formed.then(|| Self::Standing(name.to_owned()))
    }

    /// The provider whose object this names; `None` for a standing conversation.
    #[must_use]
    pub const fn provider(&self) -> Option<Provider> {
        match self {
            Self::GitHub { .. } => Some(Provider::GitHub),
            Self::Jira { .. } => Some(Provider::Jira),
            Self::Standing(_) => None,
        }
    }

    /// What equality means: the text form in lower case.
    #[must_use]
    pub fn key(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }

    /// The subject of this work item's stream.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let raw = match self {
            Self::GitHub {
                host: Some(host),
                owner,
                repo,
                number,
            } => {
                format!("github-{host}-{owner}-{repo}-{number}")
            }
            Self::GitHub {
                host: None,
                owner,
                repo,
                number,
            } => {
                format!("github-{owner}-{repo}-{number}")
            }
            Self::Jira {
                site,
                project,
                number,
            } => format!("jira-{site}-{project}-{number}"),
            Self::Standing(name) => format!("standing-{name}"),
        };
        Subject(format!("loop-{}", slug(&raw)))
    }
}

/// The reference as the-loop writes it.
impl fmt::Display for WorkItemRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GitHub {
                host: Some(host),
                owner,
                repo,
                number,
            } => {
                write!(f, "github:{host}/{owner}/{repo}#{number}")
            }
            Self::GitHub {
                host: None,
                owner,
                repo,
                number,
            } => {
                write!(f, "github:{owner}/{repo}#{number}")
            }
            Self::Jira {
                site,
                project,
                number,
            } => write!(f, "jira:{site}/{project}-{number}"),
            Self::Standing(name) => write!(f, "standing:{name}"),
        }
    }
}

/// Replaces what a session name cannot hold: runs of other characters by `-`, then `.` by `_`.
fn slug(raw: &str) -> String {
    let mut slug = String::with_capacity(raw.len());
    let mut in_gap = false;
    for c in raw.chars() {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            slug.push(c);
            in_gap = false;
        } else if c == '.' {
            slug.push('_');
            in_gap = false;
        } else if !in_gap {
            slug.push('-');
            in_gap = true;
        }
    }
    slug
}

fn parse_number(text: &str) -> Option<u64> {
    let digits_only = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits_only
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number| *number >= 1)
}

fn is_project_key(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_uppercase())
        && (2..=10).contains(&text.len())
        && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// A dotted host name with an optional port, or a bare one with a port.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let labels_are_well_formed = name.split('.').all(|label| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    let port_is_well_formed =
        port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    labels_are_well_formed && port_is_well_formed && (name.contains('.') || port.is_some())
}

/// The name of a work item's stream: `^loop-[A-Za-z0-9_-]{1,507}$`.
///
/// Two references can share a subject (`a/b-c#1` and `a-b/c#1`); then both reach its claimants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject(String);

impl Subject {
    /// The word shown for an event that has no subject; it cannot be claimed.
    pub const UNASSIGNED: &'static str = "unassigned";

    /// Parses the subject of a claim.
    ///
    /// # Errors
    /// When it does not match `^loop-[A-Za-z0-9_-]{1,507}$`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let well_formed = text.strip_prefix("loop-").is_some_and(|rest| {
            (1..=SUBJECT_SUFFIX_BYTES_MAX).contains(&rest.len())
                && rest
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        });
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError("must match ^loop-[A-Za-z0-9_-]{1,507}$"))
        }
    }

    /// The subject as text, spelled as first seen.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What equality means: the text in lower case.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_the_session_that_handles_it() {
        for (text, canonical, subject) in [
            (
                "github:octo/repo#15",
                "github:octo/repo#15",
                "loop-github-octo-repo-15",
            ),
            (
                "github:MadaraUchiha-314/the-loop#496",
                "github:MadaraUchiha-314/the-loop#496",
                "loop-github-MadaraUchiha-314-the-loop-496",
            ),
            (
                "github:octo/foo.js#15",
                "github:octo/foo.js#15",
                "loop-github-octo-foo_js-15",
            ),
            (
                "github:octo/.github#1",
                "github:octo/.github#1",
                "loop-github-octo-_github-1",
            ),
            (
                "github:github.com/octo/repo#15",
                "github:octo/repo#15",
                "loop-github-octo-repo-15",
            ),
            (
                "github:ghe.corp.example:8443/octo/repo#15",
                "github:ghe.corp.example:8443/octo/repo#15",
                "loop-github-ghe_corp_example-8443-octo-repo-15",
            ),
            (
                "github:localhost:3000/octo/repo#7",
                "github:localhost:3000/octo/repo#7",
                "loop-github-localhost-3000-octo-repo-7",
            ),
            (
                "github:octo/repo#007",
                "github:octo/repo#7",
                "loop-github-octo-repo-7",
            ),
            (
                "github:octo/a--b#3",
                "github:octo/a--b#3",
                "loop-github-octo-a--b-3",
            ),
            (
                "github:octo/rëpo#3",
                "github:octo/rëpo#3",
                "loop-github-octo-r-po-3",
            ),
            (
                "jira:acme.atlassian.net/PROJ-123",
                "jira:acme.atlassian.net/PROJ-123",
                "loop-jira-acme_atlassian_net-PROJ-123",
            ),
            (
                "jira:ACME.atlassian.net/A_B2-7",
                "jira:acme.atlassian.net/A_B2-7",
                "loop-jira-acme_atlassian_net-A_B2-7",
            ),
            ("standing:ops-1", "standing:ops-1", "loop-standing-ops-1"),
        ] {
            let reference = WorkItemRef::parse(text).unwrap();
            assert_eq!(reference.to_string(), canonical);
            assert_eq!(reference.subject().as_str(), subject);
            assert!(Subject::parse(subject).is_ok());
        }
    }

    #[test]
    fn what_is_not_a_reference_is_refused() {
        for bad in [
            "",
            "octo/repo#1",
            "github:octo/repo",
            "github:octo/repo#",
            "github:octo/repo#-1",
            "github:octo/repo#0",
            "github:octo/repo#15x",
            "github:octo/repo#١٥",
            "github:octo#15",
            "github:/repo#15",
            "github:octo/#15",
            "github:a/b/c/d#1",
            "github:octo/re#po#1",
            "github:ghe/octo/repo#1",
            "GitHub:octo/repo#15",
            "jira:acme.atlassian.net/proj-1",
            "jira:acme.atlassian.net/PROJ-0",
            "jira:acme.atlassian.net/PROJ-01",
            "jira:acme/PROJ-1",
            "standing:Ops",
            "standing:",
            "gitlab:group/proj#9",
        ] {
            assert!(WorkItemRef::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn case_does_not_tell_references_or_subjects_apart() {
        let one = WorkItemRef::parse("github:Octo/Repo#1").unwrap();
        let two = WorkItemRef::parse("github:octo/repo#1").unwrap();
        assert_eq!(one.key(), two.key());
        assert_eq!(one.subject().key(), two.subject().key());
        assert_ne!(one.subject(), two.subject());
    }
}
