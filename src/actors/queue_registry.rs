//! Which instance has which queue: made with its first request, given up when nobody uses it.

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Context, Handler, Message, ResponseFuture};
use futures_util::future::join_all;

use super::liveness::Alive;
use super::messages::{Commit, DeliveriesRouted, Drain, Fetch, FetchAnswer, QueueError, Wake};
use super::queue::{QueueActor, StoreDoor};
use crate::domain::{Clock, InstanceName};
use crate::store::Committed;

/// Queues beyond which unused ones are given up.
const QUEUES_KEPT: usize = 64;
const MAILBOX_MAX: usize = 8_192;

/// Sends each request to the queue that it is for, and each wake to whom it concerns.
#[derive(Debug)]
pub struct QueueRegistryActor {
    store: StoreDoor,
    clock: Arc<dyn Clock>,
    queues: BTreeMap<InstanceName, Entry>,
    /// The number of queues at which to look for unused ones.
    sweep_at: usize,
    is_draining: bool,
    _alive: Alive,
}

#[derive(Debug)]
struct Entry {
    queue: Addr<QueueActor>,
    /// Every request on its way holds a clone; alone, the queue is unused and knows nothing.
    in_use: Rc<()>,
}

impl QueueRegistryActor {
    /// A registry whose queues ask this store.
    #[must_use]
    pub const fn new(store: StoreDoor, clock: Arc<dyn Clock>, alive: Alive) -> Self {
        Self {
            store,
            clock,
            queues: BTreeMap::new(),
            sweep_at: QUEUES_KEPT,
            is_draining: false,
            _alive: alive,
        }
    }

    fn entry(&mut self, instance: &InstanceName) -> &Entry {
        if self.queues.len() >= self.sweep_at && !self.queues.contains_key(instance) {
            self.give_up_unused();
        }
        self.queues.entry(instance.clone()).or_insert_with(|| {
            let (store, clock) = (self.store.clone(), Arc::clone(&self.clock));
            Entry {
                queue: QueueActor::new(store, clock, self.is_draining).start(),
                in_use: Rc::new(()),
            }
        })
    }

    /// Costs each new queue a constant share: the next look comes when their number has doubled.
    fn give_up_unused(&mut self) {
        self.queues
            .retain(|_, entry| Rc::strong_count(&entry.in_use) > 1);
        self.sweep_at = self.queues.len().saturating_mul(2).max(QUEUES_KEPT);
    }

    /// Hands a message on in the order of arrival, and keeps its queue until it is answered.
    fn hand_on<M, T>(
        &mut self,
        instance: &InstanceName,
        message: M,
    ) -> impl Future<Output = Result<T, QueueError>> + 'static
    where
        M: Message<Result = Result<T, QueueError>> + Send + 'static,
        T: Send + 'static,
        QueueActor: Handler<M>,
        Context<QueueActor>: ToEnvelope<QueueActor, M>,
    {
        let entry = self.entry(instance);
        let in_use = Rc::clone(&entry.in_use);
        let answer = entry.queue.send(message);
        async move {
            let answer = answer.await;
            drop(in_use);
            answer?
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a wake is answered by nobody, and one that waited for room would be a lost one"
    )]
    fn wake(&self, routed: &DeliveriesRouted) {
        for instance in &routed.instances {
            // A queue that nobody uses holds no fetch.
            if let Some(entry) = self.queues.get(instance) {
                entry.queue.do_send(Wake);
            }
        }
    }
}

impl Actor for QueueRegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_MAX);
    }
}

impl Handler<Fetch> for QueueRegistryActor {
    type Result = ResponseFuture<Result<FetchAnswer, QueueError>>;

    fn handle(&mut self, fetch: Fetch, _: &mut Self::Context) -> Self::Result {
        let instance = fetch.identity.instance.clone();
        Box::pin(self.hand_on(&instance, fetch))
    }
}

impl Handler<Commit> for QueueRegistryActor {
    type Result = ResponseFuture<Result<Committed, QueueError>>;

    fn handle(&mut self, commit: Commit, _: &mut Self::Context) -> Self::Result {
        let instance = commit.0.identity.instance.clone();
        Box::pin(self.hand_on(&instance, commit))
    }
}

impl Handler<DeliveriesRouted> for QueueRegistryActor {
    type Result = ();

    fn handle(&mut self, routed: DeliveriesRouted, _: &mut Self::Context) {
        self.wake(&routed);
    }
}

impl Handler<Drain> for QueueRegistryActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Drain, _: &mut Self::Context) -> Self::Result {
        self.is_draining = true;
        let drained: Vec<_> = self
            .queues
            .values()
            .map(|entry| entry.queue.send(Drain))
            .collect();
        Box::pin(async move {
            // A queue that is gone holds nothing.
            drop(join_all(drained).await);
        })
    }
}

#[cfg(test)]
#[path = "queue_registry_tests.rs"]
mod tests;
