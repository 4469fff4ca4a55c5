//! The actors: who runs where, who may send what to whom.

mod checkpointer;
mod config_watch;
mod housekeeping;
mod ingress_board;
mod later;
mod liveness;
pub mod messages;
pub mod poller;
mod queue;
mod queue_registry;
mod sampler;
pub mod slack_socket;
mod store;
mod store_health;
mod supervisor;
#[cfg(test)]
mod test_support;

pub use actix::MailboxError;
pub use config_watch::{Apply, ConfigWatchActor, WatchParts};
pub use housekeeping::{HousekeepingActor, HousekeepingParts};
pub use ingress_board::{IngressBoard, IngressStatus};
pub use liveness::{Alive, Liveness};
pub use messages::{
    Close, Commit, Drain, Fetch, FetchAnswer, IngressChanged, IngressState, LookNow, Observe,
    PollEnd, QueueError, Redeclare, ReplaceSettings, StopIngress, StopIngresses, StoreState,
    Submit, WakeThrough,
};
pub use queue::StoreDoor;
pub use queue_registry::QueueRegistryActor;
pub use sampler::{
    QueueSample, SAMPLED_QUEUES_MAX, SAMPLES_KEPT, SampleSeries, SamplerActor, SamplerParts,
    Samples,
};
pub use store::{BATCH_BYTES_MAX, BATCH_WRITES_MAX, StoreActor, StoreParts};
pub use store_health::StoreHealth;
pub use supervisor::{AdapterTiming, IngressSupervisorActor, Supervise, SupervisorParts};

/// Where writes go.
pub type Store = actix::Addr<StoreActor>;
/// Where fetches and commits go.
pub type Queues = actix::Addr<QueueRegistryActor>;
