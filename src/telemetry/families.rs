//! The labels and the buckets of the metrics.

use std::fmt;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

use crate::domain::{Provider, Source};

/// Waits: from what a quick disk takes to what a provider gives up after.
pub(super) const LATENCY_SECONDS: [f64; 12] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 8.0,
];
/// Ages: from at once to what a poll finds after a day without webhooks.
pub(super) const EVENT_AGE_SECONDS: [f64; 10] = [
    1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0,
];
/// Sizes of batches, up to the largest.
pub(super) const WRITES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// What a set of labels can do.
pub(super) trait Labels:
    EncodeLabelSet + Clone + Hash + Eq + fmt::Debug + Send + Sync + 'static
{
}

impl<L: EncodeLabelSet + Clone + Hash + Eq + fmt::Debug + Send + Sync + 'static> Labels for L {}

pub(super) type Counters<L> = Family<L, Counter>;
pub(super) type Histograms<L> = Family<L, Histogram, Buckets>;

/// Makes the histograms of a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets(pub(super) &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Arrived {
    pub(super) provider: &'static str,
    pub(super) transport: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Transported {
    provider: &'static str,
    transport: &'static str,
}

impl Transported {
    pub(super) const fn new(provider: Provider, transport: Source) -> Self {
        Self {
            provider: provider.as_str(),
            transport: transport.as_str(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PerProvider {
    provider: &'static str,
}

impl PerProvider {
    pub(super) const fn new(provider: Provider) -> Self {
        Self {
            provider: provider.as_str(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Requested {
    provider: &'static str,
    ended: &'static str,
}

impl Requested {
    pub(super) const fn new(provider: Provider, ended: &'static str) -> Self {
        Self {
            provider: provider.as_str(),
            ended,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SecretMatched {
    provider: &'static str,
    secret: &'static str,
}

impl SecretMatched {
    pub(super) const fn new(provider: Provider, secret: &'static str) -> Self {
        Self {
            provider: provider.as_str(),
            secret,
        }
    }
}

/// One label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct By {
    key: &'static str,
    value: &'static str,
}

impl By {
    pub(super) const fn new(key: &'static str, value: &'static str) -> Self {
        Self { key, value }
    }

    pub(super) const fn transport(value: &'static str) -> Self {
        Self::new("transport", value)
    }
}

impl EncodeLabelSet for By {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        [(self.key, self.value)].encode(encoder)
    }
}
