//! What the client tells of itself: where it stands, and what just happened.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::ActorHolder;
use super::wire::ErrorBody;
use crate::domain::{Role, Seq, Subject, Timestamp};

/// Who holds the instance's name instead of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The contested name.
    pub instance: String,
    /// Since when it is held, RFC 3339.
    pub since: String,
    /// A digest of the holder's peer id.
    pub fingerprint: String,
    /// How long until the holder's lease ends, unless it renews it.
    pub retry_after: Duration,
}

impl From<ErrorBody> for Holder {
    fn from(error: ErrorBody) -> Self {
        Self {
            instance: error.holder.unwrap_or_default(),
            since: error.since.unwrap_or_default(),
            fingerprint: error.fingerprint.unwrap_or_default(),
            retry_after: Duration::from_secs(error.retry_after.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is held by peer {} since {}",
            self.instance, self.fingerprint, self.since
        )
    }
}

/// Where the client stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Registering, or about to.
    Connecting,
    /// Fetching.
    Connected,
    /// The gateway says no; tried again with back-off.
    Refused {
        /// Why.
        why: Refusal,
    },
    /// No usable answer; tried again with back-off.
    Unreachable {
        /// Why.
        why: String,
    },
    /// Not running any more.
    Off {
        /// Why.
        why: End,
    },
}

impl State {
    /// One word: `connecting`, `connected`, `refused`, `unreachable` or `off`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Off { .. } => "off",
        }
    }
}

/// Why the gateway says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another peer holds the instance's name.
    DuplicateInstance(Holder),
    /// Other live instances are registered for some of the actors; everything else goes on.
    DuplicateActor(Vec<ActorHolder>),
    /// The gateway does not accept the request.
    Rejected {
        /// The code of the error.
        code: String,
        /// Its sentence.
        message: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateInstance(holder) => write!(f, "duplicate-instance: {holder}"),
            Self::DuplicateActor(conflicts) => {
                f.write_str("duplicate-actor: ")?;
                for (position, conflict) in conflicts.iter().enumerate() {
                    let ActorHolder {
                        provider,
                        actor,
                        holder,
                    } = conflict;
                    let comma = if position > 0 { ", " } else { "" };
                    write!(f, "{comma}{provider} {actor} is registered by {holder}")?;
                }
                Ok(())
            }
            Self::Rejected { code, message } => write!(f, "{code}: {message}"),
        }
    }
}

/// Why a client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was asked to, or nobody held it any more.
    Stopped {
        /// Outcomes that the gateway did not confirm; their deliveries come again.
        unconfirmed: usize,
    },
    /// A newer process with the same peer file took over; this one must not start again by itself.
    Superseded {
        /// Who took over.
        by: Holder,
    },
    /// Its thread could not go on.
    Broken {
        /// Why.
        why: String,
    },
}

/// Something that happened to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Registered and fetching: at first, and once after each outage and refusal.
    Connected,
    /// An outage begins; told once, however long it lasts.
    Unreachable {
        /// Why.
        why: String,
    },
    /// The gateway says no; told once while it says the same.
    Refused {
        /// Why.
        why: Refusal,
    },
    /// A newer process with the same peer file took over; this one stops.
    Superseded {
        /// Who took over.
        by: Holder,
    },
    /// Outcomes of deliveries that the gateway says it never handed out were forgotten.
    Forgotten {
        /// The deliveries.
        seqs: Vec<Seq>,
    },
    /// What works on deliveries is down; fetching stops until it is back.
    TargetDown {
        /// Its name.
        target: String,
        /// What is wrong, and how to mend it.
        advice: String,
    },
    /// A target that was down took a delivery.
    TargetUp {
        /// Its name.
        target: String,
    },
    /// The client ended.
    Stopped {
        /// Why.
        why: End,
    },
}

impl Event {
    /// The name under which it is logged.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connected => "gateway.connected",
            Self::Unreachable { .. } => "gateway.unreachable",
            Self::Refused { .. } => "gateway.refused",
            Self::Superseded { .. } => "gateway.superseded",
            Self::Forgotten { .. } => "gateway.commit_forgotten",
            Self::TargetDown { .. } => "target.down",
            Self::TargetUp { .. } => "target.up",
            Self::Stopped { .. } => "gateway.stopped",
        }
    }

    /// True when somebody should look.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::Superseded { .. }
            | Self::Forgotten { .. }
            | Self::TargetDown { .. } => true,
            Self::Connected | Self::TargetUp { .. } | Self::Stopped { .. } => false,
        }
    }
}

/// One sentence for people.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected to the gateway"),
            Self::Unreachable { why } => {
                write!(f, "the gateway is unreachable and is tried again: {why}")
            }
            Self::Refused { why } => write!(f, "the gateway refuses and is asked again: {why}"),
            Self::Superseded { by } => write!(
                f,
                "a newer process with the same peer file took over ({by}); this one stops"
            ),
            Self::Forgotten { seqs } => {
                f.write_str("outcomes forgotten, because the gateway never handed them out:")?;
                seqs.iter().try_for_each(|seq| write!(f, " {seq}"))
            }
            Self::TargetDown { target, advice } => {
                write!(
                    f,
                    "{target} is down, fetching stops until it is back: {advice}"
                )
            }
            Self::TargetUp { target } => write!(f, "{target} is back, fetching goes on"),
            Self::Stopped { why } => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { unconfirmed: 0 } => f.write_str("stopped, everything is committed"),
            Self::Stopped { unconfirmed } => write!(
                f,
                "stopped; outcomes not committed, whose deliveries come again: {unconfirmed}"
            ),
            Self::Superseded { by } => write!(f, "stopped: a newer process took over ({by})"),
            Self::Broken { why } => write!(f, "stopped: {why}"),
        }
    }
}

/// A snapshot of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Where the gateway is.
    pub url: String,
    /// The name whose queue is fetched.
    pub instance: String,
    /// A digest of this installation's peer id; what the gateway calls its fingerprint.
    pub peer_fingerprint: String,
    /// Where the client stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// Everything up to this delivery is settled, as the gateway last said.
    pub committed: Option<Seq>,
    /// How long a fetch is held at most; zero for plain polling.
    pub long_poll: Duration,
    /// How long plain polling waits at least after an empty answer.
    pub poll_interval: Duration,
    /// What this instance claims, whether or not the gateway knows by now.
    pub claims: Vec<(Subject, Role)>,
    /// Deliveries in hand, worked on or not.
    pub in_hand: usize,
    /// Deliveries worked on.
    pub running: usize,
    /// Outcomes that the gateway has not confirmed.
    pub unconfirmed: usize,
    /// What works on deliveries and is down.
    pub targets_down: Vec<String>,
    /// How often each outcome was said in this process.
    pub outcomes: BTreeMap<String, u64>,
}
