//! What instances publish, and the refusals that they can meet.

use std::fmt;

use serde::Serialize;

use super::{InstanceName, ParseError, PeerId, Provider, RunId, Seq, Timestamp, WorkItemRef};

/// Who sends a request of the consumer API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The queue that it speaks for.
    pub instance: InstanceName,
    /// The installation, when given.
    pub peer: Option<PeerId>,
    /// The process, when given.
    pub run: Option<RunId>,
}

/// What an instance is to a work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Works on it.
    Driver,
    /// Reviews it.
    Reviewer,
}

impl Role {
    /// Parses `driver` or `reviewer`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match text {
            "driver" => Ok(Self::Driver),
            "reviewer" => Ok(Self::Reviewer),
            _ => Err(ParseError("must be driver or reviewer")),
        }
    }

    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Reviewer => "reviewer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The actors that an instance works for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActorSet(pub Vec<super::EventActor>);

/// One secondary object that belongs to a work item.
///
/// `key` is normalised: GitHub and Jira keys are the full reference in lower case (see
/// [`WorkItemRef::key`]); a Slack key is `thread_ts`, `channel/thread_ts` or
/// `team/channel/thread_ts` as sent. A GitHub or Jira key holds a set of references; of a Slack
/// key the last one published wins.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The provider of the key.
    pub provider: Provider,
    /// The normalised key.
    pub key: String,
    /// The work item that the object belongs to.
    pub work_item: WorkItemRef,
}

/// A Slack channel that belongs to a work item.
#[derive(Debug, Clone)]
pub struct Room {
    /// The channel's id.
    pub channel: String,
    /// The work item that messages in it are about.
    pub work_item: WorkItemRef,
}

/// One actor that another live instance holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorConflict {
    /// The provider of the account.
    pub provider: Provider,
    /// The account.
    pub actor: String,
    /// The instance that holds it.
    pub holder: String,
}

/// An answer that is "no": nothing of the request is applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another peer or a newer run holds the name.
    #[error("the name {holder} is held by another peer or a newer run")]
    DuplicateInstance {
        /// The contested name.
        holder: InstanceName,
        /// Since when the holder has it.
        since: Timestamp,
        /// A fingerprint of the holder's peer; never the id itself.
        fingerprint: String,
        /// True when the refused one is a run that a newer run of its peer took over from.
        superseded: bool,
        /// Seconds until the holder's lease ends.
        retry_after: u32,
    },
    /// Some actors belong to instances whose lease is live.
    #[error("{} actors are registered by other live instances", conflicts.len())]
    DuplicateActor {
        /// Each of them.
        conflicts: Vec<ActorConflict>,
    },
    /// Outcomes for deliveries that this queue never handed out.
    #[error("{} outcomes are for deliveries that this queue never handed out", seqs.len())]
    CommitUndelivered {
        /// Their numbers, ascending.
        seqs: Vec<Seq>,
    },
}
