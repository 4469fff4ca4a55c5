//! The instances' side: two installations a name, each with its present process.

use the_loop_gateway::digest;
use the_loop_gateway::domain::{CommitItem, Identity, InstanceName, Outcome, PeerId, RunId, Seq};

use crate::arrivals::INSTANCES;

/// The lease that every client asks for.
pub const LEASE_MS: i64 = 60_000;

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The name, as an index.
    pub instance: usize,
    /// The installation.
    pub peer: String,
    /// The process: a number that grows.
    pub run: u32,
}

impl Who {
    /// What the gateway is told.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            instance: name(self.instance),
            peer: PeerId::parse(&self.peer).ok(),
            run: RunId::parse(&self.run_name()).ok(),
        }
    }

    fn run_name(&self) -> String {
        format!("run-{}", self.run)
    }

    /// How the store tells the hands of this process from others.
    #[must_use]
    pub fn hands(&self) -> String {
        format!("{}@{}", self.run_name(), digest::fingerprint(&self.peer))
    }
}

/// A name of the simulation.
#[must_use]
pub fn name(instance: usize) -> InstanceName {
    InstanceName::parse(INSTANCES[instance]).expect("a plain name")
}

/// One installation under a name, with what its present process remembers.
#[derive(Debug, Clone)]
pub struct Client {
    /// Who it is.
    pub who: Who,
    /// The last response that it received.
    pub cursor: i64,
    /// What it received and has said nothing of.
    pub in_hand: Vec<i64>,
    /// What it said last, to say it again.
    pub said: Vec<(i64, &'static str)>,
}

impl Client {
    /// An installation that has just been started.
    #[must_use]
    pub fn new(instance: usize, peer: usize) -> Self {
        Self {
            who: Who {
                instance,
                peer: format!("peer-{instance}-{peer}"),
                run: 1,
            },
            cursor: 0,
            in_hand: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Its process ends, and another begins that knows nothing.
    pub fn restart(&mut self) {
        self.who.run += 1;
        self.cursor = 0;
        self.in_hand.clear();
        self.said.clear();
    }
}

/// A commit list.
#[must_use]
pub fn items(outcomes: &[(i64, &'static str)]) -> Vec<CommitItem> {
    let items = outcomes.iter();
    items
        .map(|(seq, outcome)| CommitItem {
            seq: Seq(*seq),
            outcome: Outcome::parse(outcome).expect("an outcome"),
            detail: None,
        })
        .collect()
}
