//! What the instance publishes: kept as wishes, and asserted until the gateway has them. Pure.
//!
//! Actors, rooms and claims last: after an outage they are asserted again, because the gateway may
//! have lost them or given them to others. A release or a binding is forgotten once the gateway
//! has it. Of two wishes for the same thing the later one counts.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ActorHolder;
use super::backoff::{BackOff, Waits};
use super::wire::{Actors, Registration, Routed};
use crate::domain::{Role, Subject};

/// Wishes that may wait for the gateway at once.
const WISHES_MAX: usize = 10_000;

/// Where the answer to a wish goes.
pub(super) type Reply = oneshot::Sender<Result<Routed, CallError>>;

/// Why something could not be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The gateway does not accept it.
    #[error("the gateway answered {code}: {message}")]
    Rejected {
        /// The code of the error.
        code: String,
        /// Its sentence.
        message: String,
    },
    /// Other live instances are registered for some of the actors; it is tried again.
    #[error("{} actors are registered by other live instances", .0.len())]
    DuplicateActor(Vec<ActorHolder>),
    /// A later call about the same thing took its place.
    #[error("a later call took its place")]
    Replaced,
    /// More waits for the gateway than is kept.
    #[error("too much waits for the gateway already")]
    TooMany,
    /// The client is not running any more.
    #[error("the client has stopped")]
    Stopped,
}

/// What a wish is about; in the order in which wishes are asserted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Actors,
    Rooms,
    Claim(String, Role),
    /// Bindings are independent of one another and keep their order.
    Binding(u64),
}

#[derive(Debug)]
struct Wish {
    registration: Registration,
    number: u64,
    is_asserted: bool,
    not_before: Option<Instant>,
    reply: Option<Reply>,
}

/// A wish on its way to the gateway.
#[derive(Debug)]
pub(super) struct Sent {
    key: Key,
    number: u64,
    /// What to send.
    pub(super) registration: Registration,
}

/// All that the instance wants the gateway to know.
#[derive(Debug)]
pub(super) struct Registrations {
    wishes: BTreeMap<Key, Wish>,
    made: u64,
    actor_waits: Waits,
}

impl Registrations {
    pub(super) fn new(actors: Actors, back_off: BackOff) -> Self {
        let mut registrations = Self {
            wishes: BTreeMap::new(),
            made: 0,
            actor_waits: Waits::new(back_off),
        };
        registrations.wish(Registration::Actors(actors), None);
        registrations
    }

    /// Takes a wish; an earlier one for the same thing is answered as replaced.
    pub(super) fn wish(&mut self, registration: Registration, reply: Option<Reply>) {
        self.made = self.made.saturating_add(1);
        let key = self.key_of(&registration);
        if self.wishes.len() >= WISHES_MAX && !self.wishes.contains_key(&key) {
            return tell(reply, Err(CallError::TooMany));
        }
        let replaced = self.wishes.insert(
            key,
            Wish {
                registration,
                number: self.made,
                is_asserted: false,
                not_before: None,
                reply,
            },
        );
        tell(
            replaced.and_then(|wish| wish.reply),
            Err(CallError::Replaced),
        );
    }

    fn key_of(&self, registration: &Registration) -> Key {
        match registration {
            Registration::Actors(_) => Key::Actors,
            Registration::Rooms(_) => Key::Rooms,
            Registration::Claim(subject, role) | Registration::Release(subject, role) => {
                Key::Claim(subject.key(), *role)
            }
            Registration::Bind(_) | Registration::Unbind(_) => Key::Binding(self.made),
        }
    }

    /// The next wish that the gateway does not know of.
    pub(super) fn next(&self, now: Instant) -> Option<Sent> {
        let mut due = (self.wishes.iter()).filter(|(_, wish)| {
            !wish.is_asserted && wish.not_before.is_none_or(|moment| moment <= now)
        });
        due.next().map(|(key, wish)| Sent {
            key: key.clone(),
            number: wish.number,
            registration: wish.registration.clone(),
        })
    }

    /// When a wish that was put off should be tried again.
    pub(super) fn next_try(&self) -> Option<Instant> {
        let unasserted = self.wishes.values().filter(|wish| !wish.is_asserted);
        unasserted.filter_map(|wish| wish.not_before).min()
    }

    /// The gateway has it.
    pub(super) fn asserted(&mut self, sent: &Sent, routed: Routed) {
        if sent.key == Key::Actors {
            self.actor_waits.reset();
        }
        let Some(wish) = self.current(sent) else {
            return;
        };
        wish.is_asserted = true;
        wish.not_before = None;
        tell(wish.reply.take(), Ok(routed));
        match wish.registration {
            Registration::Actors(_) | Registration::Rooms(_) | Registration::Claim(..) => {}
            Registration::Release(..) | Registration::Bind(_) | Registration::Unbind(_) => {
                self.wishes.remove(&sent.key);
            }
        }
    }

    /// The gateway does not accept it. The wish for actors stays and is put off; others go.
    pub(super) fn rejected(&mut self, sent: &Sent, error: CallError, now: Instant) {
        let is_actors = sent.key == Key::Actors;
        let wait = if is_actors {
            self.actor_waits.next()
        } else {
            std::time::Duration::ZERO
        };
        let Some(wish) = self.current(sent) else {
            return;
        };
        wish.not_before = now.checked_add(wait);
        tell(wish.reply.take(), Err(error));
        if !is_actors {
            self.wishes.remove(&sent.key);
        }
    }

    fn current(&mut self, sent: &Sent) -> Option<&mut Wish> {
        let wish = self.wishes.get_mut(&sent.key)?;
        (wish.number == sent.number).then_some(wish)
    }

    /// An outage: the gateway may know nothing any more.
    pub(super) fn forget_assertions(&mut self) {
        for wish in self.wishes.values_mut() {
            wish.is_asserted = false;
            wish.not_before = None;
        }
    }

    /// Tells everybody who waits that nothing will come.
    pub(super) fn close(&mut self) {
        for wish in self.wishes.values_mut() {
            tell(wish.reply.take(), Err(CallError::Stopped));
        }
    }

    /// The subjects that the instance works on.
    pub(super) fn claims(&self) -> Vec<(Subject, Role)> {
        let claim = |wish: &Wish| match &wish.registration {
            Registration::Claim(subject, role) => Some((subject.clone(), *role)),
            Registration::Actors(_)
            | Registration::Rooms(_)
            | Registration::Release(..)
            | Registration::Bind(_)
            | Registration::Unbind(_) => None,
        };
        self.wishes.values().filter_map(claim).collect()
    }
}

/// Answers; a caller that left hears nothing.
fn tell(reply: Option<Reply>, answer: Result<Routed, CallError>) {
    if let Some(reply) = reply {
        drop(reply.send(answer));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::wire::BindingKey;
    use crate::domain::{Provider, WorkItemRef};

    const ROUTED: Routed = Routed {
        routed: 0,
        more: false,
    };

    fn subject(number: u32) -> Subject {
        Subject::parse(&format!("loop-github-o-r-{number}")).unwrap()
    }

    fn claim(number: u32) -> Registration {
        Registration::Claim(subject(number), Role::Driver)
    }

    fn bind(key: &str) -> Registration {
        Registration::Bind(BindingKey {
            work_item: WorkItemRef::parse("github:o/r#1").unwrap(),
            provider: Provider::Slack,
            key: key.to_owned(),
        })
    }

    fn registrations() -> Registrations {
        Registrations::new(Actors::default(), BackOff::default())
    }

    fn word(sent: &Sent) -> String {
        match &sent.registration {
            Registration::Actors(_) => "actors".to_owned(),
            Registration::Rooms(_) => "rooms".to_owned(),
            Registration::Claim(subject, _) => format!("claim {subject}"),
            Registration::Release(subject, _) => format!("release {subject}"),
            Registration::Bind(binding) => format!("bind {}", binding.key),
            Registration::Unbind(binding) => format!("unbind {}", binding.key),
        }
    }

    /// Asserts all that is due, and names it.
    fn assert_all(registrations: &mut Registrations, now: Instant) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(sent) = registrations.next(now) {
            words.push(word(&sent));
            registrations.asserted(&sent, ROUTED);
        }
        words
    }

    #[tokio::test]
    async fn actors_go_first_then_rooms_claims_and_bindings_in_their_order() {
        let mut registrations = registrations();
        for wish in [
            bind("2.2"),
            bind("1.1"),
            claim(1),
            Registration::Rooms(Vec::new()),
        ] {
            registrations.wish(wish, None);
        }
        let now = Instant::now();
        assert_eq!(
            assert_all(&mut registrations, now),
            [
                "actors",
                "rooms",
                "claim loop-github-o-r-1",
                "bind 2.2",
                "bind 1.1"
            ]
        );
        // After an outage what lasts is asserted again.
        registrations.forget_assertions();
        assert_eq!(
            assert_all(&mut registrations, now),
            ["actors", "rooms", "claim loop-github-o-r-1"]
        );
    }

    #[tokio::test]
    async fn a_release_takes_the_place_of_its_claim_and_is_forgotten_once_done() {
        let mut registrations = registrations();
        let now = Instant::now();
        let (reply, replaced) = oneshot::channel();
        registrations.wish(claim(1), Some(reply));
        let sent = {
            assert_eq!(word(&registrations.next(now).unwrap()), "actors");
            let actors = registrations.next(now).unwrap();
            registrations.asserted(&actors, ROUTED);
            registrations.next(now).unwrap()
        };
        registrations.wish(Registration::Release(subject(1), Role::Driver), None);
        assert_eq!(replaced.await.unwrap(), Err(CallError::Replaced));
        // The answer to the claim comes late and is none to the release.
        registrations.asserted(&sent, ROUTED);
        assert_eq!(registrations.claims(), []);
        assert_eq!(
            assert_all(&mut registrations, now),
            ["release loop-github-o-r-1"]
        );
        registrations.forget_assertions();
        assert_eq!(assert_all(&mut registrations, now), ["actors"]);
    }

    #[tokio::test]
    async fn refused_actors_are_put_off_and_hold_up_nothing() {
        let mut registrations = registrations();
        registrations.wish(claim(1), None);
        let now = Instant::now();
        let actors = registrations.next(now).unwrap();
        registrations.rejected(&actors, CallError::DuplicateActor(Vec::new()), now);
        assert_eq!(
            assert_all(&mut registrations, now),
            ["claim loop-github-o-r-1"]
        );
        let again = registrations.next_try().unwrap();
        assert!(
            again >= now + Duration::from_millis(800),
            "{:?}",
            again - now
        );
        assert_eq!(assert_all(&mut registrations, again), ["actors"]);
        assert_eq!(registrations.next_try(), None);
    }

    #[tokio::test]
    async fn a_rejected_binding_is_told_to_its_caller_and_never_sent_again() {
        let mut registrations = registrations();
        let now = Instant::now();
        assert_all(&mut registrations, now);
        let (reply, answer) = oneshot::channel();
        registrations.wish(bind(""), Some(reply));
        let sent = registrations.next(now).unwrap();
        let error = CallError::Rejected {
            code: "invalid-field".to_owned(),
            message: "m".to_owned(),
        };
        registrations.rejected(&sent, error.clone(), now);
        assert_eq!(answer.await.unwrap(), Err(error));
        assert!(registrations.next(now).is_none());
    }
}
