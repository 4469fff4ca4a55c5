//! Promises that a test build breaks on purpose, so that what checks them is seen to fail.
//!
//! A check that never fails proves nothing. With the cargo feature `broken-promises` one promise
//! can be chosen when the process starts, and the place that keeps it asks [`Break::is_on`].
//! Without the feature the answer is a constant and the compiler leaves the place as it was:
//! the feature must not be part of a build that is shipped.
//!
//! Must not hold behaviour: what a broken promise does stands where the promise is kept.

#[cfg(feature = "broken-promises")]
pub use chosen::{UnknownBreak, choose, choose_from_environment};

/// The variable that names the promise to break, in a build with the feature.
pub const BREAK_VARIABLE: &str = "THE_LOOP_GATEWAY_BREAK";

macro_rules! breaks {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One way in which a promise is broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Break {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Break {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that chooses it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

breaks! {
    /// A COMMIT does not wait for the disk, so that a power cut loses it.
    SynchronousNormal = "synchronous-normal",
    /// Callers are answered before the COMMIT.
    AckBeforeCommit = "ack-before-commit",
    /// A response that never arrived is held against its deliveries.
    LostIsAStrike = "lost-is-a-strike",
    /// What waits for its retry lets the later deliveries of its subject pass.
    OrderIgnoredOnRedelivery = "order-ignored-on-redelivery",

    /// Another peer is let in while the lease lives.
    RivalLetIn = "rival-let-in",
    /// A request without a peer is let in while a lease lives.
    PeerNotNeeded = "peer-not-needed",
    /// A lease has no end.
    LeaseNeverLapses = "lease-never-lapses",
    /// The lease of a held fetch ends while it is held.
    HeldPollWithoutLease = "held-poll-without-lease",
    /// A new run of the same peer has to wait for the lease to lapse.
    NewRunRefused = "new-run-refused",
    /// A run that was taken over from is served.
    SupersededRunServed = "superseded-run-served",
    /// What a superseded run commits is lost.
    SupersededCommitIgnored = "superseded-commit-ignored",
    /// Registering actors leaves the lease as it is.
    ActorsTakeNothingOver = "actors-take-nothing-over",
    /// A commit leaves the lease as it is.
    CommitRenewsNothing = "commit-renews-nothing",
    /// A refusal shows the holder's peer id.
    PeerIdShown = "peer-id-shown",
    /// A run whose lease lapsed has vanished.
    SleeperLosesItsHands = "sleeper-loses-its-hands",

    /// A response may have a number below those of its deliveries.
    CursorBelowDeliveries = "cursor-below-deliveries",
    /// An empty answer says 0 instead of the request's cursor.
    EmptyAnswerForgetsCursor = "empty-answer-forgets-cursor",
    /// Every response is taken as received.
    CursorIgnored = "cursor-ignored",
    /// What was lost on the way comes again as the next attempt.
    LostIsAnAttempt = "lost-is-an-attempt",
    /// A client without a run that starts again is taken for the one of before.
    MadeUpRunKept = "made-up-run-kept",
    /// A client without a run is another one at every fetch.
    MadeUpRunAlwaysNew = "made-up-run-always-new",

    /// `spawned` ends nothing.
    SpawnedSettlesNothing = "spawned-settles-nothing",
    /// `committed` does not stop at what is still open.
    CommittedPassesGaps = "committed-passes-gaps",
    /// An outcome for what was never handed out is passed over in silence.
    UndeliveredIgnored = "undelivered-ignored",
    /// An outcome for a delivery of another queue is taken.
    ForeignCommitAccepted = "foreign-commit-accepted",
    /// Of two outcomes for one delivery the first counts.
    FirstOfTwoCounts = "first-of-two-counts",
    /// A later outcome replaces the one that ended a delivery.
    LastOutcomeStands = "last-outcome-stands",
    /// An outcome that is repeated is held against its delivery.
    RepeatIsAFailure = "repeat-is-a-failure",
    /// An outcome counts only while its delivery is in hand.
    WaitingOutcomeIgnored = "waiting-outcome-ignored",
    /// What failed is due at once.
    FailedDueAtOnce = "failed-due-at-once",
    /// A failure counts whatever response its sender received.
    UncoveredFailureCounts = "uncovered-failure-counts",
    /// What was released comes again as the next attempt.
    ReleasedIsAnAttempt = "released-is-an-attempt",
    /// What is in hand behind a released delivery stays there.
    NeighboursNotSentBack = "neighbours-not-sent-back",
    /// The detail of an outcome is not kept.
    DetailForgotten = "detail-forgotten",

    /// What vanished comes again as the same attempt.
    VanishedIsNoAttempt = "vanished-is-no-attempt",
    /// Nothing has to go out alone.
    NoSuspects = "no-suspects",
    /// Nothing ever dies.
    StrikesWithoutBound = "strikes-without-bound",

    /// An answer goes subject by subject instead of oldest first.
    SubjectBySubject = "subject-by-subject",
    /// An answer holds one delivery more than was asked for.
    MoreThanAskedFor = "more-than-asked-for",
    /// What is in hand holds up nothing of its subject.
    InHandHoldsUpNothing = "in-hand-holds-up-nothing",
    /// A claim leaves the events that were held for it where they are.
    ClaimRoutesNothing = "claim-routes-nothing",

    /// A new delivery ends no held fetch.
    AppendWakesNobody = "append-wakes-nobody",
    /// An outcome ends no held fetch.
    OutcomeWakesNobody = "outcome-wakes-nobody",
    /// A delivery that becomes due ends no held fetch.
    DueWakesNobody = "due-wakes-nobody",
    /// A newer fetch leaves the held one waiting.
    NewerWaitsBeside = "newer-waits-beside",

    /// A redriven delivery does not say what it replaces.
    RedriveUnmarked = "redrive-unmarked",
    /// What was replaced can be replaced again.
    ReplacedTwice = "replaced-twice",
    /// An outcome for a replaced delivery leaves its successor waiting.
    ChainNotFollowed = "chain-not-followed",
    /// A dry run changes what it should only tell.
    DryRunActs = "dry-run-acts",
    /// A replay says what it would do and does not do it.
    ReplayOnlyTells = "replay-only-tells",
    /// A webhook that is redelivered is never more than a duplicate.
    RevivalForgotten = "revival-forgotten",
    /// A webhook that is redelivered comes again though it was handled.
    HandledRevived = "handled-revived",

    /// A payload is written anew instead of copied.
    PayloadWrittenAnew = "payload-written-anew",
    /// A lease may be as long as anybody likes.
    LeaseNotClamped = "lease-not-clamped",
    /// A fetch with `max` 0 hands something out.
    MaxZeroHandsOut = "max-zero-hands-out",
    /// An empty answer may be followed at once.
    PollAtOnce = "poll-at-once",
    /// After a wait the client has to wait again.
    PollAfterAWait = "poll-after-a-wait",
}

impl Break {
    /// The one with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }

    /// True when this process was told to break the promise.
    #[cfg(feature = "broken-promises")]
    #[must_use]
    pub fn is_on(self) -> bool {
        chosen::is(self)
    }

    /// False: this build keeps its promises.
    #[cfg(not(feature = "broken-promises"))]
    #[must_use]
    pub const fn is_on(self) -> bool {
        false
    }
}

#[cfg(feature = "broken-promises")]
mod chosen {
    use std::sync::{PoisonError, RwLock};

    use super::{BREAK_VARIABLE, Break};

    static CHOSEN: RwLock<Option<Break>> = RwLock::new(None);

    /// The environment names something that is no break.
    #[derive(Debug, thiserror::Error)]
    #[error("{BREAK_VARIABLE}: there is no break {0:?}")]
    pub struct UnknownBreak(String);

    pub(super) fn is(one: Break) -> bool {
        *CHOSEN.read().unwrap_or_else(PoisonError::into_inner) == Some(one)
    }

    /// Chooses what the process breaks from now on; `None` keeps every promise.
    pub fn choose(one: Option<Break>) {
        *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = one;
    }

    /// Chooses what the environment names, when the process starts.
    ///
    /// # Errors
    /// When it names no break: a test of a misspelt one would pass for the wrong reason.
    pub fn choose_from_environment() -> Result<Option<Break>, UnknownBreak> {
        #[expect(
            clippy::disallowed_methods,
            reason = "no configuration: only a test build reads it"
        )]
        let Ok(name) = std::env::var(BREAK_VARIABLE) else {
            return Ok(None);
        };
        let one = Break::parse(&name).ok_or(UnknownBreak(name))?;
        choose(Some(one));
        Ok(Some(one))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_break_is_found_by_its_name_and_by_no_other() {
        let names: BTreeSet<_> = Break::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Break::ALL.len());
        for one in Break::ALL {
            assert_eq!(Break::parse(one.name()), Some(*one));
        }
        assert_eq!(Break::parse("nothing"), None);
    }

    #[cfg(not(feature = "broken-promises"))]
    #[test]
    fn a_build_without_the_feature_keeps_every_promise() {
        assert!(Break::ALL.iter().all(|one| !one.is_on()));
    }
}
