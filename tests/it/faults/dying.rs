//! A panic in an actor that everything depends on: the gateway ends rather than going on without
//! it, and leaves nothing that keeps the next one from starting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use the_loop_gateway::app::{Parts, Stopped};
use the_loop_gateway::config::{ConfigFingerprint, Environment, GatewayConfig, LoadedConfig};
use the_loop_gateway::domain::{Clock, SystemClock, Timestamp};

use crate::support::Call;
use crate::support::gateway::{parts, run};

/// A clock that lets whoever looks at it next panic, once it is wound up.
#[derive(Debug, Default)]
struct Trap(AtomicBool);

impl Clock for Trap {
    fn now(&self) -> Timestamp {
        assert!(!self.0.swap(false, Ordering::Relaxed), "the trap closes");
        SystemClock.now()
    }

    fn instant(&self) -> Instant {
        SystemClock.instant()
    }
}

fn loaded(root: &std::path::Path) -> LoadedConfig {
    let mut config = GatewayConfig::rooted_at(root);
    config.listen.address.port = 0;
    LoadedConfig {
        config,
        environment: Environment::given([]),
        fingerprint: ConfigFingerprint::look(None, None),
        warnings: Vec::new(),
    }
}

#[test]
fn a_panic_in_an_actor_ends_the_gateway_and_the_next_one_starts() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("state");
    let trap = Arc::new(Trap::default());
    let parts = Parts {
        clock: Arc::<Trap>::clone(&trap),
        ..parts(&Arc::default())
    };
    let first = run(loaded(&root), parts.clone()).unwrap();
    // Nobody asks anything: the next look is that of housekeeping or of the store.
    trap.0.store(true, Ordering::Relaxed);
    let ended = first.thread.join().unwrap();
    assert!(matches!(ended, Stopped::Died(_)), "{ended:?}");
    let log = std::fs::read_to_string(root.join("logs/events.jsonl")).unwrap();
    let last = log.lines().last().unwrap();
    assert!(
        last.contains("gateway.error") && last.contains(" is gone"),
        "{last}"
    );
    assert!(!root.join("gateway.pid").is_file());
    let second = run(loaded(&root), parts).unwrap();
    Call::new(second.port, "GET", "/api/v1/gateway/ready")
        .send()
        .assert(200);
    second.stop.stop("test");
    assert_eq!(second.thread.join().unwrap(), Stopped::InOrder);
}
