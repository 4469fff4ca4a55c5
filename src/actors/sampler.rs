//! How the queues stood lately: a sample every half minute, for the plots of the dashboard.
//!
//! Bounded in time and in queues, and lost with the process: whoever wants more keeps metrics.
//! Must not decide anything, and reads over a connection that only reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::fut::WrapFuture;
use actix::{Actor, ActorFutureExt, AsyncContext, Context};

use super::liveness::Alive;
use crate::domain::{Clock, Timestamp};
use crate::store::ReadPool;
use crate::store::views::{self, PageRequest, QueueRow};

/// Samples kept.
pub const SAMPLES_KEPT: usize = 120;
/// Queues that are sampled; one whose samples are all gone makes room for another.
pub const SAMPLED_QUEUES_MAX: usize = 200;
/// Queues looked at; of these the longest are sampled first.
const LOOKED_AT_MAX: u32 = 1_000;

/// How one queue stood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSample {
    /// Deliveries that were ready or in hand.
    pub backlog: i64,
    /// Seconds since the oldest of their events had arrived; 0 without any.
    pub oldest_age_seconds: f64,
}

/// What is kept: of every queue as many samples as there are times, the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleSeries {
    /// When the samples were taken.
    pub times: VecDeque<Timestamp>,
    /// How each queue stood then; `None` while it was not there.
    pub queues: BTreeMap<String, VecDeque<Option<QueueSample>>>,
}

impl SampleSeries {
    fn add(&mut self, at: Timestamp, rows: Vec<QueueRow>) {
        let mut now: BTreeMap<String, QueueSample> = BTreeMap::new();
        let known = |row: &QueueRow| self.queues.contains_key(&row.instance);
        let (old, mut new): (Vec<_>, Vec<_>) = rows.into_iter().partition(known);
        new.sort_by_key(|row| std::cmp::Reverse(row.backlog));
        let room = SAMPLED_QUEUES_MAX.saturating_sub(self.queues.len());
        for row in old.into_iter().chain(new.into_iter().take(room)) {
            let sample = QueueSample {
                backlog: row.backlog,
                oldest_age_seconds: row.oldest_age_seconds.unwrap_or(0.0),
            };
            self.queues.entry(row.instance.clone()).or_insert_with(|| {
                let before = self.times.len();
                std::iter::repeat_n(None, before).collect()
            });
            now.insert(row.instance, sample);
        }
        self.times.push_back(at);
        for (instance, samples) in &mut self.queues {
            samples.push_back(now.get(instance).copied());
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let surplus = self.times.len().saturating_sub(SAMPLES_KEPT);
        self.times.drain(..surplus);
        for samples in self.queues.values_mut() {
            samples.drain(..surplus);
        }
        self.queues
            .retain(|_, samples| samples.iter().any(Option::is_some));
    }
}

/// The samples, for those who ask; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Samples(Arc<Mutex<SampleSeries>>);

impl Samples {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> SampleSeries {
        self.kept().clone()
    }

    fn kept(&self) -> MutexGuard<'_, SampleSeries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a [`SamplerActor`] works with.
#[derive(Debug)]
pub struct SamplerParts {
    /// Where the queues are looked at.
    pub readers: ReadPool,
    /// Where the samples are kept.
    pub samples: Samples,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The time between two samples.
    pub every: Duration,
    /// The sign of life to hold.
    pub alive: Alive,
}

/// Takes the samples, one at a time.
#[derive(Debug)]
pub struct SamplerActor {
    parts: SamplerParts,
    is_looking: bool,
}

impl SamplerActor {
    /// An actor that takes its first sample at once.
    #[must_use]
    pub const fn new(parts: SamplerParts) -> Self {
        Self {
            parts,
            is_looking: false,
        }
    }

    /// Takes a sample, unless the last look still waits for the store.
    fn sample(&mut self, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.is_looking, true) {
            return;
        }
        let (readers, now) = (self.parts.readers.clone(), self.parts.clock.now());
        let look = actix_rt::task::spawn_blocking(move || look(&readers, now));
        let looked = look
            .into_actor(self)
            .map(move |looked, sampler: &mut Self, _| {
                sampler.is_looking = false;
                match looked {
                    Ok(Some(rows)) => sampler.parts.samples.kept().add(now, rows),
                    Ok(None) => tracing::debug!("the queues cannot be looked at"),
                    Err(error) => tracing::error!(%error, "no thread looks at the queues"),
                }
            });
        ctx.spawn(looked);
    }
}

fn look(readers: &ReadPool, now: Timestamp) -> Option<Vec<QueueRow>> {
    let page = PageRequest {
        limit: LOOKED_AT_MAX,
        after: None,
    };
    let connection = readers.get().ok()?;
    let page = views::queues(&connection, now, &page).ok()?;
    Some(page.rows)
}

impl Actor for SamplerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.sample(ctx);
        ctx.run_interval(self.parts.every, Self::sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instance: &str, backlog: i64) -> QueueRow {
        QueueRow {
            instance: instance.to_owned(),
            committed: 0,
            backlog,
            in_hand: 0,
            waiting_retry: 0,
            suspects: 0,
            dead: 0,
            oldest_received_at: None,
            oldest_age_seconds: (backlog > 0).then_some(2.5),
        }
    }

    fn backlogs(series: &SampleSeries, instance: &str) -> Vec<Option<i64>> {
        let samples = &series.queues[instance];
        samples
            .iter()
            .map(|sample| sample.map(|sample| sample.backlog))
            .collect()
    }

    #[test]
    fn a_queue_has_a_sample_or_a_gap_for_every_time() {
        let mut series = SampleSeries::default();
        series.add(Timestamp(0), vec![row("a", 1)]);
        series.add(Timestamp(30), vec![row("a", 2), row("b", 3)]);
        series.add(Timestamp(60), vec![row("b", 0)]);
        assert_eq!(series.times, [Timestamp(0), Timestamp(30), Timestamp(60)]);
        assert_eq!(backlogs(&series, "a"), [Some(1), Some(2), None]);
        assert_eq!(backlogs(&series, "b"), [None, Some(3), Some(0)]);
        let ages: Vec<f64> = series.queues["b"]
            .iter()
            .flatten()
            .map(|sample| sample.oldest_age_seconds)
            .collect();
        assert_eq!(ages, [2.5, 0.0]);
    }

    #[test]
    fn only_the_last_samples_are_kept_and_a_queue_goes_with_its_last_one() {
        let mut series = SampleSeries::default();
        series.add(Timestamp(0), vec![row("gone", 1)]);
        for at in 1..=SAMPLES_KEPT {
            let at = i64::try_from(at).unwrap();
            series.add(Timestamp(at), vec![row("a", at)]);
        }
        assert_eq!(series.times.len(), SAMPLES_KEPT);
        assert_eq!(series.times[0], Timestamp(1));
        assert_eq!(series.queues.len(), 1);
        assert_eq!(series.queues["a"].len(), SAMPLES_KEPT);
    }

    #[test]
    fn of_too_many_queues_the_longest_are_sampled() {
        let mut series = SampleSeries::default();
        let many = (0..300).map(|number| row(&format!("q{number:03}"), number));
        series.add(Timestamp(0), many.collect());
        assert_eq!(series.queues.len(), SAMPLED_QUEUES_MAX);
        assert!(series.queues.contains_key("q299"));
        assert!(!series.queues.contains_key("q099"));
        series.add(Timestamp(1), vec![row("late", 9_999)]);
        assert!(!series.queues.contains_key("late"), "there is no room yet");
    }
}
