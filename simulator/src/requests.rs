//! Requests on their way, and their answers in the order in which they came.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use the_loop_gateway::actors::{FetchAnswer, QueueError};
use the_loop_gateway::domain::CallerGuard;
use the_loop_gateway::store::{Appended, Committed, Redriven, Routed, StoreError};
use tokio::task::JoinHandle;

use crate::client::Who;

/// What a client asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who.
    pub who: Who,
    /// With which outcomes.
    pub said: Vec<(i64, &'static str)>,
    /// At most so many deliveries.
    pub limit: usize,
    /// True when it names what it never received.
    pub is_dishonest: bool,
}

/// An answer, with what it answers.
#[derive(Debug)]
pub enum Answer {
    /// Of an arrival, by its place among what was sent.
    Appended(usize, Result<Appended, StoreError>),
    /// Of a fetch.
    Fetched(Asked, Result<FetchAnswer, QueueError>),
    /// Of a commit.
    Committed(Asked, Result<Committed, QueueError>),
    /// Of a registration: who, whether with a peer, and what.
    Registered(Who, bool, &'static str, Result<Routed, StoreError>),
    /// Of an operator.
    Redriven(&'static str, Result<Redriven, StoreError>),
}

/// A fetch on its way.
#[derive(Debug)]
pub struct Held {
    /// What was asked.
    pub asked: Asked,
    task: JoinHandle<()>,
}

impl Held {
    /// Hangs up.
    pub fn hang_up(self) {
        self.task.abort();
    }

    /// True when it was answered, or never will be.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

/// Where answers arrive.
#[derive(Debug, Clone, Default)]
pub struct Answers(Rc<RefCell<Vec<Answer>>>);

impl Answers {
    /// Waits for an answer beside everything else; one that never comes is none.
    pub fn expect(&self, answer: impl Future<Output = Option<Answer>> + 'static) -> JoinHandle<()> {
        let answers = Rc::clone(&self.0);
        actix_rt::spawn(async move {
            if let Some(answer) = answer.await {
                answers.borrow_mut().push(answer);
            }
        })
    }

    /// Waits for the answer of a fetch that may be held; whoever waits goes with the task.
    pub fn hold(
        &self,
        asked: Asked,
        guard: CallerGuard,
        answer: impl Future<Output = Option<Answer>> + 'static,
    ) -> Held {
        let task = self.expect(async move {
            let answer = answer.await;
            drop(guard);
            answer
        });
        Held { asked, task }
    }

    /// The answers since the last time.
    #[must_use]
    pub fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}
