//! An answer that is given when a batch is durable, without a future in between: with one for
//! each write, the store's thread would look at all of them whenever one message arrives.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, Message};

/// What a handler returns whose answer comes later, through the [`Answering`] made with it.
pub struct Later<T>(Arc<Mutex<Meeting<T>>>);

/// Gives the answer. Dropped without one, it tells the caller that none will come.
pub(super) struct Answering<T>(Arc<Mutex<Meeting<T>>>);

/// Where an answer and the one who waits for it meet; whichever comes second passes it on.
enum Meeting<T> {
    Neither,
    Asked(OneshotSender<T>),
    Answered(T),
    Over,
}

impl<T> Later<T> {
    /// The two ends of one answer.
    pub(super) fn new() -> (Self, Answering<T>) {
        let meeting = Arc::new(Mutex::new(Meeting::Neither));
        (Self(Arc::clone(&meeting)), Answering(meeting))
    }
}

impl<T> Answering<T> {
    /// Answers; a caller that left hears nothing.
    pub(super) fn answer(self, answer: T) {
        let mut meeting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Asked(caller) => drop(caller.send(answer)),
            Meeting::Neither => *meeting = Meeting::Answered(answer),
            Meeting::Answered(_) | Meeting::Over => {}
        }
    }
}

impl<A, M> MessageResponse<A, M> for Later<M::Result>
where
    A: Actor,
    M: Message,
{
    fn handle(self, _: &mut A::Context, caller: Option<OneshotSender<M::Result>>) {
        let Some(caller) = caller else { return };
        let mut meeting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Answered(answer) => drop(caller.send(answer)),
            Meeting::Neither => *meeting = Meeting::Asked(caller),
            Meeting::Asked(_) | Meeting::Over => {}
        }
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Answering<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}
