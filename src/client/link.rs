//! Whether the gateway can be talked to: the phases of the connection, and what is told of them.
//! Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{BackOff, Waits};
use super::status::{Event, Refusal, State};
use super::{ActorHolder, Holder};

/// A gateway that asks for a longer rest than this is asked sooner.
const REST_MAX: Duration = Duration::from_secs(60);

/// What may be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Publish what the gateway may not know; nothing else before it is done.
    Registering,
    /// Fetch and commit.
    Online,
    /// Leave the gateway alone until then.
    Resting(Instant),
}

/// The connection.
#[derive(Debug)]
pub(super) struct Link {
    phase: Phase,
    waits: Waits,
    state: State,
    /// An outage is told once, however it is felt.
    has_told_outage: bool,
    told: Option<Refusal>,
    told_actors: Vec<ActorHolder>,
}

impl Link {
    pub(super) const fn new(back_off: BackOff) -> Self {
        Self {
            phase: Phase::Registering,
            waits: Waits::new(back_off),
            state: State::Connecting,
            has_told_outage: false,
            told: None,
            told_actors: Vec::new(),
        }
    }

    /// The phase at a moment; a rest that is over ends here.
    pub(super) fn phase(&mut self, now: Instant) -> Phase {
        match self.phase {
            Phase::Resting(until) if until <= now => self.phase = Phase::Registering,
            Phase::Resting(_) | Phase::Registering | Phase::Online => {}
        }
        self.phase
    }

    /// Where the client stands, as it is shown.
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Everything is published: fetching may begin.
    pub(super) fn is_registered(&mut self) -> Event {
        self.phase = Phase::Online;
        self.state = State::Connected;
        self.waits.reset();
        self.has_told_outage = false;
        self.told = None;
        Event::Connected
    }

    /// No usable answer.
    pub(super) fn lost(
        &mut self,
        why: String,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Option<Event> {
        self.rest(retry_after.unwrap_or_default().min(REST_MAX), now);
        self.state = State::Unreachable { why: why.clone() };
        let is_first = !std::mem::replace(&mut self.has_told_outage, true);
        is_first.then_some(Event::Unreachable { why })
    }

    /// The gateway says no to everything.
    pub(super) fn refused(&mut self, why: Refusal, now: Instant) -> Option<Event> {
        self.rest(Duration::ZERO, now);
        self.state = State::Refused { why: why.clone() };
        let is_new = !(self.told.as_ref()).is_some_and(|told| says_the_same(told, &why));
        self.told = Some(why.clone());
        is_new.then_some(Event::Refused { why })
    }

    /// The gateway says no to the actors alone.
    pub(super) fn actors_refused(&mut self, conflicts: Vec<ActorHolder>) -> Option<Event> {
        let is_new = self.told_actors != conflicts;
        self.told_actors.clone_from(&conflicts);
        is_new.then_some(Event::Refused {
            why: Refusal::DuplicateActor(conflicts),
        })
    }

    /// The gateway has the actors.
    pub(super) fn actors_accepted(&mut self) {
        self.told_actors.clear();
    }

    fn rest(&mut self, at_least: Duration, now: Instant) {
        let wait = self.waits.next().max(at_least);
        self.phase = Phase::Resting(now.checked_add(wait).unwrap_or(now));
    }
}

/// True when a refusal is the one that was told already; how long a lease still lasts is no news.
fn says_the_same(told: &Refusal, now: &Refusal) -> bool {
    match (told, now) {
        (Refusal::DuplicateInstance(told), Refusal::DuplicateInstance(now)) => {
            let key = |holder: &Holder| (holder.since.clone(), holder.fingerprint.clone());
            key(told) == key(now)
        }
        (told, now) => told == now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(fingerprint: &str, retry_after: u64) -> Refusal {
        Refusal::DuplicateInstance(Holder {
            instance: "laptop".to_owned(),
            since: "2026-10-18T13:57:59.310Z".to_owned(),
            fingerprint: fingerprint.to_owned(),
            retry_after: Duration::from_secs(retry_after),
        })
    }

    fn rest_of(link: &mut Link, now: Instant) -> Duration {
        match link.phase(now) {
            Phase::Resting(until) => until.saturating_duration_since(now),
            awake @ (Phase::Registering | Phase::Online) => panic!("{awake:?}"),
        }
    }

    #[tokio::test]
    async fn an_outage_is_told_once_and_its_end_once() {
        let mut link = Link::new(BackOff::default());
        let now = Instant::now();
        for round in 0..2 {
            assert!(link.lost("down".to_owned(), None, now).is_some(), "{round}");
            assert!(link.lost("reset".to_owned(), None, now).is_none());
            assert_eq!(link.state().as_str(), "unreachable");
            assert_eq!(link.is_registered(), Event::Connected);
            assert_eq!(link.phase(now), Phase::Online);
        }
    }

    #[tokio::test]
    async fn a_rest_grows_obeys_the_gateway_and_ends_in_registering() {
        let mut link = Link::new(BackOff::default());
        let now = Instant::now();
        link.lost("down".to_owned(), None, now);
        assert!(rest_of(&mut link, now) <= Duration::from_millis(1_200));
        link.lost("busy".to_owned(), Some(Duration::from_secs(7)), now);
        assert_eq!(rest_of(&mut link, now), Duration::from_secs(7));
        link.lost("busy".to_owned(), Some(Duration::from_secs(9_999)), now);
        assert_eq!(rest_of(&mut link, now), Duration::from_secs(60));
        assert_eq!(
            link.phase(now + Duration::from_secs(60)),
            Phase::Registering
        );
    }

    #[tokio::test]
    async fn a_refusal_is_told_again_only_when_it_says_something_else() {
        let mut link = Link::new(BackOff::default());
        let now = Instant::now();
        assert!(link.refused(holder("a", 42), now).is_some());
        assert!(link.refused(holder("a", 41), now).is_none());
        assert!(link.refused(holder("b", 60), now).is_some());
        assert_eq!(link.state().as_str(), "refused");
    }
}
