//! A simulation from its first step to its last, over all lives of the gateway.
//!
//! Everything is drawn from one seed and everything runs on one thread whose time goes on only
//! when nothing is left to do, so the same seed gives the same history. What a crash leaves is
//! compared with what was promised before the gateway goes on.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use the_loop_gateway::domain::{Clock, Timestamp};
use the_loop_gateway::store::Settings;

use crate::arrivals::{INSTANCES, Sent};
use crate::client::Client;
use crate::disk::{Power, Survival};
use crate::gateway::Gateway;
use crate::history::History;
use crate::ledger::{Broken, Checked, Ledger};
use crate::look::{self, Bounds};
use crate::time::SimClock;
use crate::vfs;

/// What to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// How long.
    pub steps: u32,
}

/// What happened in a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cuts of the power.
    pub cuts: u32,
    /// Deaths of the process.
    pub kills: u32,
    /// Ends in good order.
    pub stops: u32,
    /// Operations of the disk that were refused.
    pub faults: u32,
    /// Events that were acknowledged.
    pub events: u32,
    /// Deliveries that were handed out.
    pub deliveries: u32,
    /// Outcomes that were confirmed.
    pub outcomes: u32,
    /// Deliveries that died.
    pub dead: u32,
    /// Deliveries and held events that expired.
    pub expired: u32,
}

/// How a simulation ended.
#[derive(Debug)]
pub struct Report {
    /// What was simulated.
    pub plan: Plan,
    /// The promise that was broken, and at which step.
    pub broken: Option<(u32, Broken)>,
    /// What happened, in numbers.
    pub counts: Counts,
    /// What happened, in words.
    pub history: History,
}

/// How a life of the gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The power is cut.
    Cut,
    /// The process dies.
    Killed,
    /// It stops in good order.
    Stopped,
    /// The simulation is over.
    Finished,
}

/// A simulation.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) settings: Settings,
    pub(crate) step: u32,
    pub(crate) sent: Vec<Sent>,
    pub(crate) clients: Vec<[Client; 2]>,
    pub(crate) ledger: Ledger,
    pub(crate) history: History,
    pub(crate) counts: Counts,
    /// The latest moment that the wall clock has shown.
    pub(crate) latest: Timestamp,
    wall: Timestamp,
}

/// Plays a simulation on the present thread.
#[must_use]
pub fn play(plan: Plan) -> Report {
    vfs::register();
    vfs::renew(plan.seed);
    let mut world = World::new(plan);
    let broken = world.run().err().map(|broken| (world.step, broken));
    Report {
        plan,
        broken,
        counts: world.counts,
        history: world.history,
    }
}

/// The bounds of every simulation: real ones, with a retention that a history lives to see.
fn settings() -> Settings {
    Settings {
        retention_ms: 30 * 60_000,
        seen_keys_min: 50,
        batch_max: 8,
        hand_timeout_ms: 10 * 60_000,
        ..Settings::default()
    }
}

impl World {
    fn new(plan: Plan) -> Self {
        let clock = SimClock::new();
        let now = clock.now();
        Self {
            plan,
            rng: Rng::with_seed(plan.seed),
            clock,
            settings: settings(),
            step: 0,
            sent: Vec::new(),
            clients: (0..INSTANCES.len())
                .map(|instance| [0, 1].map(|peer| Client::new(instance, peer)))
                .collect(),
            ledger: Ledger::default(),
            history: History::default(),
            counts: Counts::default(),
            latest: now,
            wall: now,
        }
    }

    fn run(&mut self) -> Checked {
        loop {
            let runner = actix_rt::System::with_tokio_rt(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .expect("a runtime")
            });
            let ended = runner.block_on(async {
                let ended = self.live().await;
                if ended != Ok(End::Stopped) && ended != Ok(End::Finished) {
                    vfs::with_disk(crate::disk::Disk::halt);
                }
                // An actor that never ran would begin while the runtime is taken down.
                self.settle().await;
                ended
            });
            // What of the process is left goes, its open files with it.
            drop(runner);
            let ended = ended?;
            vfs::forget_processes();
            let survival = vfs::with_disk(crate::disk::Disk::restart);
            self.note_end(ended, survival);
            if ended == End::Finished {
                return Ok(());
            }
        }
    }

    fn note_end(&mut self, end: End, survival: Survival) {
        let count = match end {
            End::Cut => &mut self.counts.cuts,
            End::Killed => &mut self.counts.kills,
            End::Stopped | End::Finished => &mut self.counts.stops,
        };
        *count += 1;
        self.note(format_args!("{end:?}, survives: {survival:?}"));
    }

    /// One life of the gateway.
    async fn live(&mut self) -> Checked<End> {
        self.clock.begin_life(self.wall);
        if self.rng.u32(0..12) == 0 {
            let changes = self.rng.u32(0..20);
            vfs::with_disk(|disk| disk.cut_after(changes));
        }
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let gateway = match Gateway::start(&clock, self.settings.clone()) {
            Ok(gateway) => gateway,
            Err(_) if vfs::with_disk(|disk| disk.power()) == Power::Cut => return Ok(End::Cut),
            Err(error) => return Err(Broken(format!("the store does not open: {error}"))),
        };
        vfs::with_disk(crate::disk::Disk::disarm);
        self.audit(&gateway)?;
        let end = self.live_on(&gateway).await?;
        self.wall = self.clock.now();
        Ok(end)
    }

    async fn live_on(&mut self, gateway: &Gateway) -> Checked<End> {
        let mut life = crate::life::Life::new(gateway)?;
        while self.step < self.plan.steps {
            self.step += 1;
            match self.rng.u32(0..500) {
                0 | 1 => {
                    self.note("the process dies");
                    return Ok(End::Killed);
                }
                2 => {
                    life.stop(self).await?;
                    return Ok(End::Stopped);
                }
                _ => life.step(self).await?,
            }
            if vfs::with_disk(|disk| disk.power()) == Power::Cut {
                return Ok(End::Cut);
            }
        }
        life.settle_everything(self).await?;
        self.audit(gateway)?;
        life.stop(self).await?;
        Ok(End::Finished)
    }

    pub(crate) fn audit(&mut self, gateway: &Gateway) -> Checked {
        self.see_time();
        let bounds = Bounds {
            latest: self.latest,
            strikes_max: self.settings.strikes_max,
        };
        let (ledger, sent) = (&mut self.ledger, &self.sent);
        gateway.look(|connection| look::audit(connection, ledger, sent, bounds))
    }

    /// Lets everything happen that is to happen now.
    pub(crate) async fn settle(&mut self) {
        // The runtime goes on in time only when nothing is left to do.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.see_time();
    }

    fn see_time(&mut self) {
        self.latest = self.latest.max(self.clock.now());
    }

    pub(crate) fn note(&mut self, what: impl std::fmt::Display) {
        let step = self.step;
        self.history.note(format_args!("{step} {what}"));
    }
}
