//! The sampler, wired to the rest.

use std::sync::Arc;

use actix::Addr;

use super::{Core, Parts};
use crate::actors::{SamplerActor, SamplerParts, Samples};
use crate::store::ReadPool;

/// Who takes samples of the queues, and where they are.
#[derive(Debug)]
pub(super) struct Sampling {
    pub(super) samples: Samples,
    _actor: Addr<SamplerActor>,
}

impl Sampling {
    pub(super) fn start(core: &Core, readers: &ReadPool, parts: &Parts) -> Self {
        let samples = Samples::default();
        let sampler_parts = SamplerParts {
            readers: readers.clone(),
            samples: samples.clone(),
            clock: Arc::clone(&parts.clock),
            every: parts.intervals.sample,
            alive: core.liveness.alive("sampler"),
        };
        let actor = core
            .threads
            .on_queues(move || SamplerActor::new(sampler_parts));
        Self {
            samples,
            _actor: actor,
        }
    }
}
