//! One life of a gateway: its real actors over its real store, on the present thread.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use rusqlite::Connection;
use the_loop_gateway::actors::{
    Alive, HousekeepingActor, HousekeepingParts, Liveness, QueueRegistryActor, StoreActor,
    StoreDoor, StoreHealth, StoreParts, WakeThrough,
};
use the_loop_gateway::domain::Clock;
use the_loop_gateway::store::{OpenError, Settings, Writer, open_reader, open_writer};
use the_loop_gateway::telemetry::{EventLog, KeptRecords};

use crate::vfs::with_disk;

/// The file of the store on the simulated disk.
const STORE: &str = "/gateway.db";
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(10);
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A gateway without its doors.
#[derive(Debug)]
pub struct Gateway {
    /// Takes writes.
    pub store: Addr<StoreActor>,
    /// Takes fetches and commits.
    pub queues: Addr<QueueRegistryActor>,
    /// What it recorded.
    pub records: KeptRecords,
    _housekeeping: Addr<HousekeepingActor>,
    _liveness: Liveness,
    /// Looks into the file, as the readers of a real gateway do.
    reader: Connection,
}

impl Gateway {
    /// Opens the store and starts the actors.
    ///
    /// # Errors
    /// When the store cannot be opened, as after a cut in the middle of it.
    pub fn start(clock: &Arc<dyn Clock>, settings: Settings) -> Result<Self, OpenError> {
        let path = Path::new(STORE);
        let writer = Writer::new(open_writer(path)?, settings, Arc::clone(clock));
        let reader = open_reader(path)?;
        let (log, records) = EventLog::in_memory(Arc::clone(clock));
        let (health, liveness) = (StoreHealth::default(), Liveness::default());
        let alive = |name| -> Alive { liveness.alive(name) };
        let store = StoreActor::new(StoreParts {
            writer,
            clock: Arc::clone(clock),
            log,
            health: health.clone(),
            alive: alive("store"),
        })
        .start();
        let door = StoreDoor {
            fetch: store.clone().recipient(),
            commit: store.clone().recipient(),
        };
        let queues = QueueRegistryActor::new(door, Arc::clone(clock), alive("queues")).start();
        let wakes = store.try_send(WakeThrough(queues.clone().recipient()));
        assert!(wakes.is_ok(), "an empty mailbox is full");
        let housekeeping = HousekeepingActor::new(HousekeepingParts {
            store: store.clone(),
            health,
            clock: Arc::clone(clock),
            wal_path: format!("{STORE}-wal").into(),
            every: HOUSEKEEPING_EVERY,
            sweep_every: SWEEP_EVERY,
            alive: alive("housekeeping"),
        })
        .start();
        Ok(Self {
            store,
            queues,
            records,
            _housekeeping: housekeeping,
            _liveness: liveness,
            reader,
        })
    }

    /// Looks into the file, without faults.
    pub fn look<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        with_disk(|disk| disk.set_quiet(true));
        let found = work(&self.reader);
        with_disk(|disk| disk.set_quiet(false));
        found
    }
}
