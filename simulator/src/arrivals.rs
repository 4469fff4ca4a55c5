//! What arrives, and who may be handed it.
//!
//! Every work item, actor, thread, room and commit has a fixed set of instances that ever claim,
//! register or bind it, so that a delivery on a foreign queue is known without a model of routing.

use std::collections::BTreeMap;

use fastrand::Rng;
use the_loop_gateway::domain::{
    Arrival, DedupKey, DropReason, EventActor, LearnedCommit, OnUnresolved, Payload, Provider,
    Reference, Source, Timestamp, WorkItemRef,
};

/// The names of the instances.
pub const INSTANCES: [&str; 4] = ["alder", "birch", "cedar", "dogwood"];
/// Work items: 1 to 4 are tickets, 5 and 6 pull requests of the tickets 1 and 2.
pub const ITEMS: u64 = 6;
/// The first pull request.
pub const FIRST_PULL_REQUEST: u64 = 5;
/// The room of ticket 4.
pub const CHANNEL: &str = "C1";
/// Slack threads; each is about the ticket of its number.
pub const THREADS: u64 = 3;
/// Accounts, each with the one instance that ever registers it.
pub const ACTORS: [(Provider, &str, usize); 3] = [
    (Provider::GitHub, "ada", 0),
    (Provider::GitHub, "ben", 3),
    (Provider::Slack, "U1", 2),
];

/// Instances as bits.
pub type Instances = u8;

/// Something that was sent to the gateway at least once.
#[derive(Debug)]
pub struct Sent {
    /// What was sent.
    pub arrival: Arrival,
    /// Its payload.
    pub text: Vec<u8>,
    /// Who may be handed it.
    pub allowed: Instances,
    /// True when it may be dropped as unbound later.
    pub may_be_dropped: bool,
}

/// `github:octo/repo#<number>`.
#[must_use]
pub fn item(number: u64) -> WorkItemRef {
    WorkItemRef::github(None, "octo", "repo", number).expect("a plain reference")
}

/// The ticket of a pull request.
#[must_use]
pub const fn ticket_of(pull_request: u64) -> u64 {
    pull_request - FIRST_PULL_REQUEST + 1
}

/// The instances that ever claim a work item.
#[must_use]
pub const fn claimants(number: u64) -> [usize; 2] {
    let first = number as usize % INSTANCES.len();
    [first, (first + 1) % INSTANCES.len()]
}

/// The thread's key.
#[must_use]
pub fn thread(number: u64) -> String {
    format!("T1/C2/{number}.000100")
}

/// The commit at the head of a pull request.
#[must_use]
pub fn head_of(pull_request: u64) -> LearnedCommit {
    LearnedCommit {
        repository: "github.com/octo/repo".to_owned(),
        sha: format!("{pull_request:040}"),
        pull_request: item(pull_request),
    }
}

fn may_have(number: u64) -> Instances {
    let own = claimants(number).map(|index| 1 << index);
    let own = own[0] | own[1];
    if number >= FIRST_PULL_REQUEST {
        own | may_have(ticket_of(number))
    } else {
        own
    }
}

/// What a new arrival is about.
struct About {
    keys: Vec<Reference>,
    on_unresolved: OnUnresolved,
    provider: Provider,
    allowed: Instances,
    learns: Vec<LearnedCommit>,
}

impl About {
    fn direct(number: u64) -> Self {
        Self {
            keys: vec![Reference::Direct(item(number))],
            on_unresolved: OnUnresolved::Drop(DropReason::NoWorkItem),
            provider: Provider::GitHub,
            allowed: may_have(number),
            learns: Vec::new(),
        }
    }

    fn graced(provider: Provider, key: Reference, number: u64) -> Self {
        Self {
            keys: vec![key],
            on_unresolved: OnUnresolved::Grace,
            provider,
            ..Self::direct(number)
        }
    }

    fn choose(rng: &mut Rng) -> Self {
        match rng.u32(0..20) {
            0 | 1 => {
                let number = rng.u64(1..=THREADS);
                let (provider, key) = (Provider::Slack, thread(number));
                Self::graced(provider, Reference::Bound { provider, key }, number)
            }
            2 => {
                let channel = CHANNEL.to_owned();
                Self::graced(Provider::Slack, Reference::Room { channel }, 4)
            }
            3 => {
                let number = rng.u64(FIRST_PULL_REQUEST..=ITEMS);
                let LearnedCommit {
                    repository, sha, ..
                } = head_of(number);
                Self::graced(
                    Provider::GitHub,
                    Reference::Commit { repository, sha },
                    number,
                )
            }
            4 => Self {
                keys: Vec::new(),
                on_unresolved: OnUnresolved::ToActor,
                provider: Provider::Slack,
                allowed: 0,
                learns: Vec::new(),
            },
            5 => Self {
                keys: Vec::new(),
                allowed: 0,
                ..Self::direct(1)
            },
            6 => {
                let number = rng.u64(FIRST_PULL_REQUEST..=ITEMS);
                Self {
                    learns: vec![head_of(number)],
                    ..Self::direct(number)
                }
            }
            _ => Self::direct(rng.u64(1..=ITEMS)),
        }
    }
}

/// A new arrival, told apart from all others by its number.
pub fn compose(rng: &mut Rng, number: usize, now: Timestamp) -> Sent {
    let about = About::choose(rng);
    let accounts = ACTORS.iter().filter(|actor| actor.0 == about.provider);
    let accounts: Vec<_> = accounts.collect();
    let account = rng.bool().then(|| accounts[rng.usize(0..accounts.len())]);
    let allowed = about.allowed | account.map_or(0, |(_, _, instance)| 1 << instance);
    let id = format!("arrival-{number}");
    let bytes = match rng.u32(0..50) {
        0 => rng.usize(20_000..60_000),
        _ => rng.usize(0..800),
    };
    let filler: String = std::iter::repeat_with(|| rng.alphanumeric())
        .take(bytes)
        .collect();
    let text = format!("{{\"id\" : \"{id}\",\"body\":\"{filler}\"}}").into_bytes();
    let arrival = Arrival {
        happened_at: None,
        provider: about.provider,
        source: Source::Webhook,
        kind: "issue_comment".to_owned(),
        received_at: now,
        headers: BTreeMap::from([("x-github-event".into(), "issue_comment".into())]),
        payload: Payload::compress(&text).expect("room in memory"),
        actor: account.map(|(provider, name, _)| EventActor {
            provider: *provider,
            name: (*name).to_owned(),
        }),
        keys: about.keys,
        also: Vec::new(),
        learns: about.learns,
        dedup_keys: vec![
            DedupKey::delivery(format!("github:github.com:delivery:{id}")),
            DedupKey::object(format!("gh:github.com:issue_comment:{id}:created")),
        ],
        on_unresolved: about.on_unresolved,
        is_retry: false,
        delivery_id: id,
    };
    Sent {
        may_be_dropped: matches!(arrival.on_unresolved, OnUnresolved::Grace),
        arrival,
        text,
        allowed,
    }
}

/// The same event once more: redelivered by hand, retried by the provider, or found by a poll.
pub fn repeat(rng: &mut Rng, sent: &Sent) -> Arrival {
    let arrival = sent.arrival.clone();
    match rng.u32(0..3) {
        0 => arrival,
        1 => Arrival {
            is_retry: true,
            ..arrival
        },
        _ => Arrival {
            source: Source::Poll,
            dedup_keys: arrival.dedup_keys.iter().skip(1).cloned().collect(),
            ..arrival
        },
    }
}
