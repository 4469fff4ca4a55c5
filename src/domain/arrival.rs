//! An arrival: verified and parsed, not stored yet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{DedupKey, Timestamp, WorkItemRef};

/// Whose event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// GitHub, hosted or Enterprise Server.
    GitHub,
    /// Jira Cloud or Data Center.
    Jira,
    /// Slack.
    Slack,
}

impl Provider {
    /// All providers, in the order they are shown.
    pub const ALL: [Self; 3] = [Self::GitHub, Self::Jira, Self::Slack];

    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::Jira => "jira",
            Self::Slack => "slack",
        }
    }

    /// The provider of a stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == word)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which kind of transport brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// An HTTP request of the provider.
    Webhook,
    /// The Slack Socket Mode connection.
    Socket,
    /// A poller or the Slack catch-up.
    Poll,
}

impl Source {
    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Socket => "socket",
            Self::Poll => "poll",
        }
    }

    /// The source of a stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Webhook, Self::Socket, Self::Poll]
            .into_iter()
            .find(|source| source.as_str() == word)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The closed list of reasons for which something that arrived is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The signature is missing, malformed or wrong.
    BadSignature,
    /// A Slack timestamp more than 300 s away.
    ReplayWindow,
    /// Not a JSON object in UTF-8.
    InvalidPayload,
    /// One of its keys is seen already.
    Duplicate,
    /// It names an object that nothing binds to a work item.
    Unbound,
    /// Its repository is not declared.
    UndeclaredRepository,
    /// Its Jira project or site is not declared.
    UndeclaredProject,
    /// It is about no work item.
    NoWorkItem,
    /// A Jira comment without its issue's key; the twin delivery carries it.
    Keyless,
}

impl DropReason {
    /// The word recorded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadSignature => "bad-signature",
            Self::ReplayWindow => "replay-window",
            Self::InvalidPayload => "invalid-payload",
            Self::Duplicate => "duplicate",
            Self::Unbound => "unbound",
            Self::UndeclaredRepository => "undeclared-repository",
            Self::UndeclaredProject => "undeclared-project",
            Self::NoWorkItem => "no-work-item",
            Self::Keyless => "keyless",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The human behind an event: a GitHub login, a Slack user id, a Jira account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventActor {
    /// Whose account it is.
    pub provider: Provider,
    /// The account as the provider spells it.
    pub name: String,
}

impl EventActor {
    /// What equality means: GitHub logins ignore ASCII case, the others are exact.
    #[must_use]
    pub fn key(&self) -> Cow<'_, str> {
        match self.provider {
            Provider::GitHub => Cow::Owned(self.name.to_ascii_lowercase()),
            Provider::Jira | Provider::Slack => Cow::Borrowed(&self.name),
        }
    }
}

/// One way to name the work item of an arrival; tried in order inside the append's transaction.
#[derive(Debug, Clone)]
pub enum Reference {
    /// The payload names it, and its repository or project is declared.
    Direct(WorkItemRef),
    /// Whatever instances have bound to this key; normalised as [`Binding`](super::Binding) says.
    Bound {
        /// The provider of the key.
        provider: Provider,
        /// The normalised key.
        key: String,
    },
    /// The pull requests whose head this commit is.
    Commit {
        /// `host/owner/repo` in lower case.
        repository: String,
        /// The commit's full hash.
        sha: String,
    },
    /// The room that an instance published for this Slack channel.
    Room {
        /// The channel's id.
        channel: String,
    },
    /// The room that the configuration declares.
    DeclaredRoom(WorkItemRef),
}

/// What becomes of an arrival that none of its references resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnresolved {
    /// Dropped at once with this reason.
    Drop(DropReason),
    /// Kept without a subject for `store.unboundGraceSeconds`, then dropped as unbound.
    Grace,
    /// Stored without a work item for the instance that registered its actor; nobody: dropped
    /// as unbound.
    ToActor,
}

/// Teaches the store which pull request a commit heads.
#[derive(Debug, Clone)]
pub struct LearnedCommit {
    /// `host/owner/repo` in lower case.
    pub repository: String,
    /// The head commit's full hash.
    pub sha: String,
    /// The pull request.
    pub pull_request: WorkItemRef,
}

/// A verified and parsed event, ready to be appended.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Whose event it is.
    pub provider: Provider,
    /// Which kind of transport brought it.
    pub source: Source,
    /// The provider's id of this delivery, or the fallback `sha256-<16 hex>`; never empty.
    pub delivery_id: String,
    /// The provider's name for the kind of event.
    pub kind: String,
    /// When it arrived.
    pub received_at: Timestamp,
    /// When it happened by the provider's clock, when the payload tells.
    pub happened_at: Option<Timestamp>,
    /// The allow-listed headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The provider's JSON text, exactly.
    pub payload: super::Payload,
    /// Who did it, when that is known.
    pub actor: Option<EventActor>,
    /// The ways to name the work item, best first.
    pub keys: Vec<Reference>,
    /// Further work items that it names (a CI run of several pull requests).
    pub also: Vec<WorkItemRef>,
    /// Commits to remember, whatever becomes of the event.
    pub learns: Vec<LearnedCommit>,
    /// The keys by which it counts as seen.
    pub dedup_keys: Vec<DedupKey>,
    /// What to do when no reference resolves.
    pub on_unresolved: OnUnresolved,
    /// True for the provider's own retry, which never revives a dead event.
    pub is_retry: bool,
}
