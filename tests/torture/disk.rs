//! A disk that is full for a while. The short form, with a limit on the file's pages, is in
//! `tests/it/faults`; this one fills a real file system.

use std::path::Path;
use std::process::Command;

use fastrand::Rng;

use crate::consumers::Temper;
use crate::gateway::Gateway;
use crate::program::Home;
use crate::world::World;
use crate::{number_of, pass, seed, wait_for};

/// More than the store with its write-ahead log and the event log ever take.
const DISK_MB: usize = 64;

const SMALL_LOG: &str = "observability: {eventLog: {maxBytes: 1048576, keep: 1}}";

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Nothing where this user may not mount.
    fn mount() -> Option<Self> {
        let point = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_MB}m"), "tmpfs"])
            .arg(point.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(point)),
            other => {
                eprintln!("SKIPPED: no right to mount a small disk: {other:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills what is free of it, to the last byte.
    fn fill(&self) {
        use std::io::Write;
        let mut ballast = std::fs::File::create(self.path().join("ballast")).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            let block = vec![0x5a; size];
            while ballast.write_all(&block).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(
            Command::new("umount")
                .arg("--lazy")
                .arg(self.path())
                .output(),
        );
    }
}

#[test]
#[ignore = "the long form; TORTURE_DISK_ROUNDS says how often"]
fn a_real_disk_that_fills_and_is_freed_again_and_again_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let limits = format!("{}\n{SMALL_LOG}", World::limits());
    let world = World::over(Gateway::new(Home::below(disk.path()), &limits));
    let mut rng = Rng::with_seed(seed());
    let tally = world.torment(4, Temper::Wild, || {
        for _ in 0..number_of("TORTURE_DISK_ROUNDS", 25) {
            world.send_through(60);
            let faults = world.ledger.faults();
            disk.fill();
            wait_for("a COMMIT to fail", 60, || world.ledger.faults() > faults);
            // A third of them meet a kill while the disk is full.
            if rng.u32(0..3) == 0 {
                world.gateway.kill();
                disk.free();
                world.gateway.start();
            } else {
                pass(rng.u64(0..2_000));
                disk.free();
            }
            wait_for("readiness", 60, || world.gateway.is_ready());
        }
    });
    assert!(tally.acked > 0);
    drop(world);
}
