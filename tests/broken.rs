//! The conformance check against gateways that break one promise each: it must name the promises
//! that the break breaks, and no other. What it can never say "broken" of, it does not check.
//!
//! Needs the feature `broken-promises`; see *Break a promise on purpose* in `docs/TESTING.md`.

#![cfg(test)]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test that fails here says where; the exemptions of clippy.toml stop at helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use the_loop_gateway::broken::{BREAK_VARIABLE, Break};
use the_loop_gateway::client::GatewayUrl;
use the_loop_gateway::client::conformance::{Ingress, Options, Verdict, promises, run};

/// Gateways that are checked at once.
const AT_ONCE: usize = 6;
const SECRET: &str = "a secret of the webhook";
/// Long enough for everything that a check waits for with the bounds below.
const PATIENCE: Duration = Duration::from_secs(30);

const CONFIG: &str = "version: '1'
state: {root: state}
listen: {port: 0}
env: {file: the-loop.env}
repositories: [octo/repo]
store: {retryBackoffSeconds: {min: 1}}
consume: {leaseSeconds: {min: 1}}
github: {webhook: {enabled: true}}
";

/// What each break breaks, in words that only one promise has.
const BROKEN: &[(Break, &[&str])] = &[
    (Break::LostIsAStrike, &["What was lost three times"]),
    (
        Break::OrderIgnoredOnRedelivery,
        &[
            "What is in hand behind",
            "Nothing of a subject goes out while an",
        ],
    ),
    (
        Break::RivalLetIn,
        &[
            "Another peer is refused while",
            "While a lease lives, a",
            "Commits and registrations under a",
            "After the lease has lapsed",
            "While a poll is held",
            "A commit renews the lease",
        ],
    ),
    (Break::PeerNotNeeded, &["While a lease lives, a"]),
    (Break::LeaseNeverLapses, &["After the lease has lapsed"]),
    (Break::HeldPollWithoutLease, &["While a poll is held"]),
    (
        Break::NewRunRefused,
        &[
            "A new run of the",
            "The run that was taken",
            "What a superseded run still",
            "Registering actors with a new",
            "delivered, spawned and dropped end",
            "What a vanished run had",
            "What vanished in company goes",
            "What vanished in company and",
            "A delivery that kills its",
            "A clean stop costs nothing",
            "A redrive appends a new",
            "What was replaced is never",
            "An outcome for the old",
            "A dry run changes nothing",
            "A webhook that is redelivered after its delivery",
        ],
    ),
    (
        Break::SupersededRunServed,
        &["The run that was taken", "Registering actors with a new"],
    ),
    (
        Break::SupersededCommitIgnored,
        &["What a superseded run still"],
    ),
    (
        Break::ActorsTakeNothingOver,
        &["Registering actors with a new"],
    ),
    (Break::CommitRenewsNothing, &["A commit renews the lease"]),
    (Break::PeerIdShown, &["The holder's peer id is"]),
    (
        Break::SleeperLosesItsHands,
        &["A lapsed lease alone changes"],
    ),
    (
        Break::CursorBelowDeliveries,
        &["Every answer with deliveries has"],
    ),
    (
        Break::EmptyAnswerForgetsCursor,
        &["An empty answer returns the", "What is in hand behind"],
    ),
    (
        Break::CursorIgnored,
        &[
            "What was in an answer",
            "A cursor that was never",
            "A client whose cursor is",
            "A client that keeps its",
            "failed for a hand-out that",
            "A delivery that kills its",
            "What was lost three times",
        ],
    ),
    (
        Break::LostIsAnAttempt,
        &[
            "What was in an answer",
            "A cursor that was never",
            "A client whose cursor is",
            "A client that keeps its",
            "failed for a hand-out that",
        ],
    ),
    (Break::MadeUpRunKept, &["A client without a run gets"]),
    (Break::MadeUpRunAlwaysNew, &["A client without a run that"]),
    (
        Break::SpawnedSettlesNothing,
        &[
            "delivered, spawned and dropped end",
            "The first outcome that ends",
        ],
    ),
    (
        Break::CommittedPassesGaps,
        &["committed is one below the", "An outcome for what was"],
    ),
    (
        Break::UndeliveredIgnored,
        &["An outcome for what was", "So does one for a"],
    ),
    (Break::ForeignCommitAccepted, &["So does one for a"]),
    (Break::FirstOfTwoCounts, &["Of two outcomes for one"]),
    (Break::LastOutcomeStands, &["The first outcome that ends"]),
    (Break::RepeatIsAFailure, &["The same outcomes sent again"]),
    (
        Break::WaitingOutcomeIgnored,
        &["An outcome that ends a", "An outcome for the old"],
    ),
    (
        Break::FailedDueAtOnce,
        &[
            "failed is not due at",
            "Nothing of a subject goes out while an",
        ],
    ),
    (
        Break::UncoveredFailureCounts,
        &["failed for a hand-out that"],
    ),
    (
        Break::ReleasedIsAnAttempt,
        &[
            "The same outcomes sent again",
            "released is due again within",
            "What is in hand behind",
            "A clean stop costs nothing",
            "A delivery that becomes due",
        ],
    ),
    (Break::NeighboursNotSentBack, &["What is in hand behind"]),
    (Break::DetailForgotten, &["A detail is kept with"]),
    (
        Break::VanishedIsNoAttempt,
        &[
            "After the lease has lapsed",
            "A client without a run gets",
            "What a vanished run had",
            "What vanished in company goes",
        ],
    ),
    (
        Break::NoSuspects,
        &[
            "What vanished in company goes",
            "What vanished in company and",
            "What was lost three times",
        ],
    ),
    (
        Break::StrikesWithoutBound,
        &[
            "A delivery that kills its",
            "A redrive appends a new",
            "What was replaced is never",
            "An outcome for the old",
            "A dry run changes nothing",
            "A webhook that is redelivered after its delivery",
        ],
    ),
    (Break::SubjectBySubject, &["Deliveries go out oldest event"]),
    (
        Break::MoreThanAskedFor,
        &[
            "A lapsed lease alone changes",
            "Every answer with deliveries has",
            "What an echoed cursor covers",
            "What was in an answer",
            "A client without a run gets",
            "A client without a run that",
            "An answer holds no more",
            "Nothing of a subject goes out while something",
            "An outcome that sets a",
        ],
    ),
    (
        Break::InHandHoldsUpNothing,
        &["Nothing of a subject goes out while something"],
    ),
    (Break::ClaimRoutesNothing, &["A claim routes the events"]),
    (Break::AppendWakesNobody, &["A held fetch is answered"]),
    (Break::OutcomeWakesNobody, &["An outcome that sets a"]),
    (Break::DueWakesNobody, &["A delivery that becomes due"]),
    (Break::NewerWaitsBeside, &["A newer fetch takes the"]),
    (
        Break::RedriveUnmarked,
        &["A redrive appends a new", "An outcome for the old"],
    ),
    (Break::ReplacedTwice, &["What was replaced is never"]),
    (Break::ChainNotFollowed, &["An outcome for the old"]),
    (Break::DryRunActs, &["A dry run changes nothing"]),
    (Break::ReplayOnlyTells, &["A replay goes to the"]),
    (
        Break::RevivalForgotten,
        &["A webhook that is redelivered after its delivery"],
    ),
    (
        Break::HandledRevived,
        &["A webhook that is redelivered after its event"],
    ),
    (Break::PayloadWrittenAnew, &["An envelope has its eleven"]),
    (Break::LeaseNotClamped, &["What is out of range"]),
    (Break::MaxZeroHandsOut, &["A fetch with max 0"]),
    (Break::PollAtOnce, &["An empty answer without a"]),
    (Break::PollAfterAWait, &["A held fetch that finds"]),
];

/// Breaks that no client can see: what loses power or dies has to be simulated.
const UNSEEN: &[Break] = &[Break::SynchronousNormal, Break::AckBeforeCommit];

/// Promises that no break breaks: the form of requests, which has tests of its own; where an event
/// goes, without which there is nothing to check; and a hang-up, after which a delivery that was
/// handed out all the same only looks lost.
const UNBROKEN: &[&str] = &[
    "An event reaches the instance",
    "A fetch needs a peer",
    "A number that is negative",
    "Unknown fields are ignored",
    "A malformed outcome is refused",
    "A body that is no",
    "A caller that hung up",
];

/// A gateway of its own, which ends with this.
struct Gateway {
    child: Child,
    url: String,
    _home: tempfile::TempDir,
}

impl Gateway {
    fn start(broken: Option<Break>) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.yaml"), CONFIG).unwrap();
        let secret = format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n");
        std::fs::write(home.path().join("the-loop.env"), secret).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-loop-gateway"));
        command
            .args(["--config", "config.yaml", "run"])
            .env_clear()
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(broken) = broken {
            command.env(BREAK_VARIABLE, broken.name());
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = |line: String| line.strip_prefix("listening on ").map(str::to_owned);
        let url = lines.map_while(Result::ok).find_map(listening).unwrap();
        Self {
            child,
            url,
            _home: home,
        }
    }

    /// The promises that are found broken, with how.
    fn broken_promises(&self) -> BTreeMap<&'static str, String> {
        let options = Options {
            url: GatewayUrl::parse(&self.url).unwrap(),
            ingress: Some(Ingress {
                url: GatewayUrl::parse(&format!("{}/gh-webhook", self.url)).unwrap(),
                secret: SECRET.to_owned(),
            }),
            repository: "octo/repo".to_owned(),
            patience: PATIENCE,
            only: String::new(),
        };
        let findings = actix_rt::System::new().block_on(run(options, |_| {}));
        let findings = findings.unwrap().into_iter();
        findings
            .filter_map(|finding| match finding.verdict {
                Verdict::Pass => None,
                Verdict::Fail(how) => Some((finding.promise, how)),
                Verdict::Skipped(why) => panic!("{} is skipped: {why}", finding.promise),
            })
            .collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // An error here means that it has ended, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The one promise with these words.
fn promise(words: &str) -> &'static str {
    let found: Vec<_> = promises()
        .into_iter()
        .filter(|promise| promise.contains(words))
        .collect();
    assert_eq!(found.len(), 1, "{words:?}: {found:?}");
    found[0]
}

#[test]
fn the_check_names_what_is_broken_and_nothing_else() {
    let waiting = Mutex::new(vec![(None, BTreeSet::new())]);
    for (broken, words) in BROKEN {
        let expected = words.iter().map(|words| promise(words)).collect();
        waiting.lock().unwrap().push((Some(*broken), expected));
    }
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((broken, expected)) = waiting.lock().unwrap().pop() else {
                        return;
                    };
                    let found = Gateway::start(broken).broken_promises();
                    if found.keys().copied().collect::<BTreeSet<_>>() != expected {
                        wrong.lock().unwrap().push((broken, found));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_promise_has_a_break_or_is_known_to_have_none() {
    let broken = BROKEN.iter().flat_map(|(_, words)| words.iter());
    let broken: BTreeSet<_> = broken.map(|words| promise(words)).collect();
    let unbroken: BTreeSet<_> = UNBROKEN.iter().map(|words| promise(words)).collect();
    assert!(broken.is_disjoint(&unbroken));
    let known: BTreeSet<_> = broken.union(&unbroken).copied().collect();
    assert_eq!(known, promises().into_iter().collect());
}

/// Mistakes of clients that a server has to bear: a cursor computed from deliveries, one that is
/// always 0, and one run id over restarts.
#[test]
fn a_server_that_believes_every_cursor_is_told_which_clients_it_hurts() {
    let (_, words) = BROKEN
        .iter()
        .find(|(one, _)| *one == Break::CursorIgnored)
        .unwrap();
    let named: Vec<_> = words.iter().map(|words| promise(words)).collect();
    for mistake in [
        "client computes from deliveries",
        "cursor is always 0",
        "keeps its run id",
    ] {
        assert!(named.contains(&promise(mistake)), "{mistake}");
    }
}

#[test]
fn every_break_is_checked_or_cannot_be_seen() {
    for broken in Break::ALL {
        let is_checked = BROKEN.iter().any(|(checked, _)| checked == broken);
        assert_ne!(is_checked, UNSEEN.contains(broken), "{broken:?}");
    }
}
