//! Who may speak under a name.

use super::support::{HOUR, SECOND, TestStore, claim, identity};
use crate::digest;
use crate::domain::{Identity, Millis, PeerId, Refusal};
use crate::store::lease::{self, Holder};
use crate::store::testing::START;
use crate::store::{StoreError, Tx, Write};

/// A fetch as far as the lease goes: take the name if that is allowed.
struct Take(Identity, Millis);

impl Write for Take {
    type Reply = Holder;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Holder, StoreError> {
        let mut holder = lease::create(tx, &self.0.instance)?;
        lease::check(tx, &holder, &self.0)?;
        let peer = self.0.peer.clone().unwrap();
        let run = holder.run_of(&self.0);
        lease::take(tx, &mut holder, &peer, &run, self.1)?;
        Ok(holder)
    }
}

/// A commit as far as the lease goes: only another peer is refused.
struct Commit(Identity);

impl Write for Commit {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let holder = lease::create(tx, &self.0.instance)?;
        lease::check_peer(tx, &holder, &self.0)
    }
}

fn take(who: &str) -> Take {
    Take(identity(who), 60 * SECOND)
}

#[test]
fn a_name_without_a_live_lease_refuses_nobody() {
    let mut store = TestStore::new();
    store.write(claim("laptop", "github:octo/repo#1"));
    store.write(claim("laptop@ann", "github:octo/repo#1"));
    store.write(take("laptop@ann/r1"));
    store.clock.advance(60 * SECOND);
    store.write(claim("laptop", "github:octo/repo#2"));
    store.write(claim("laptop@bob", "github:octo/repo#3"));
}

#[test]
fn another_peer_is_refused_while_the_lease_is_live_and_takes_over_after() {
    let mut store = TestStore::new();
    store.write(take("laptop@ann/r1"));
    let since = store.now();
    store.clock.advance(20 * SECOND);
    let expected = Refusal::DuplicateInstance {
        holder: super::support::instance("laptop"),
        since,
        fingerprint: digest::fingerprint("ann"),
        superseded: false,
        retry_after: 40,
    };
    assert_eq!(store.refused(take("laptop@bob/r9")), expected);
    assert_eq!(store.refused(Commit(identity("laptop@bob"))), expected);
    assert_eq!(store.refused(Commit(identity("laptop"))), expected);
    assert_eq!(
        store.refused(claim("laptop", "github:octo/repo#1")),
        expected
    );
    store.clock.advance(40 * SECOND);
    let holder = store.write(take("laptop@bob/r9"));
    assert_eq!((holder.peer.as_str(), holder.run.as_str()), ("bob", "r9"));
    assert_eq!(holder.lapsed_at, store.now());
}

#[test]
fn a_fingerprint_never_shows_the_peer() {
    let fingerprint = digest::fingerprint("ann");
    assert_eq!(fingerprint.len(), 16);
    assert!(!fingerprint.contains("ann"));
}

#[test]
fn a_newer_run_takes_over_at_once_and_the_older_one_is_refused() {
    let mut store = TestStore::new();
    store.write(take("laptop@ann/r1"));
    store.clock.advance(SECOND);
    let holder = store.write(take("laptop@ann/r2"));
    assert_eq!(holder.held_since, store.now());
    assert_eq!(holder.lapsed_at.0, START, "the first lease");
    for refusal in [
        store.refused(take("laptop@ann/r1")),
        store.refused(claim("laptop@ann/r1", "github:octo/repo#1")),
    ] {
        assert!(matches!(
            refusal,
            Refusal::DuplicateInstance {
                superseded: true,
                ..
            }
        ));
    }
    store.write(Commit(identity("laptop@ann/r1")));
    store.write(claim("laptop@ann", "github:octo/repo#1"));
}

#[test]
fn a_superseded_run_that_comes_back_after_the_lease_is_the_present_one_again() {
    let mut store = TestStore::new();
    store.write(take("laptop@ann/r1"));
    store.write(take("laptop@ann/r2"));
    store.clock.advance(HOUR);
    store.write(take("laptop@ann/r1"));
    assert_eq!(store.texts("SELECT run FROM superseded_runs"), ["r2"]);
    let refusal = store.refused(take("laptop@ann/r2"));
    assert!(matches!(
        refusal,
        Refusal::DuplicateInstance {
            superseded: true,
            ..
        }
    ));
}

#[test]
fn a_lapsed_lease_alone_changes_nothing_for_the_same_run() {
    let mut store = TestStore::new();
    let first = store.write(take("laptop@ann/r1"));
    store.clock.advance(HOUR);
    let again = store.write(take("laptop@ann/r1"));
    assert_eq!(again.held_since, first.held_since);
    assert_eq!(again.lapsed_at, store.now());
    assert_eq!(store.number("SELECT count(*) FROM superseded_runs"), 0);
}

#[test]
fn sixteen_superseded_runs_are_remembered() {
    let mut store = TestStore::new();
    for run in 0..=20 {
        store.write(take(&format!("laptop@ann/r{run}")));
    }
    let runs = store.texts("SELECT run FROM superseded_runs ORDER BY id");
    let expected: Vec<String> = (4..20).map(|run| format!("r{run}")).collect();
    assert_eq!(runs, expected);
}

#[test]
fn a_made_up_run_is_never_remembered_as_superseded() {
    let mut store = TestStore::new();
    let holder = store.write(take("laptop@ann"));
    assert!(holder.run_is_made_up);
    store.write(take("laptop@ann/r1"));
    assert_eq!(store.number("SELECT count(*) FROM superseded_runs"), 0);
    let holder = store.write(take("laptop@ann"));
    assert_eq!(holder.run, "r1", "no run means the present one");
}

#[test]
fn a_new_peer_without_a_run_does_not_inherit_the_old_run() {
    let mut store = TestStore::new();
    store.write(take("laptop@ann/r1"));
    store.clock.advance(HOUR);
    let holder = store.write(take("laptop@bob"));
    assert!(holder.run_is_made_up);
    assert_ne!(holder.run, "r1");
}

#[test]
fn a_lease_is_clamped_when_taken_and_again_when_read() {
    let mut store = TestStore::new();
    let holder = store.write(Take(identity("laptop@ann/r1"), HOUR));
    assert_eq!(holder.lease_ms, 300 * SECOND);
    let holder = store.write(Take(identity("laptop@ann/r1"), 1));
    assert_eq!(holder.lease_ms, 10 * SECOND);
    store.write(Take(identity("laptop@ann/r1"), 60 * SECOND));
    store.clock.advance(-24 * HOUR);
    let Refusal::DuplicateInstance { retry_after, .. } = store.refused(take("laptop@bob")) else {
        panic!("another refusal");
    };
    assert_eq!(retry_after, 330, "the longest wait and the longest lease");
}

#[test]
fn a_renewal_covers_the_wait_of_a_held_poll() {
    struct Park(Identity);
    impl Write for Park {
        type Reply = Holder;
        fn apply(self, tx: &mut Tx<'_>) -> Result<Holder, StoreError> {
            let mut holder = lease::create(tx, &self.0.instance)?;
            let run = holder.run_of(&self.0);
            lease::take(
                tx,
                &mut holder,
                &PeerId::parse("ann").unwrap(),
                &run,
                60_000,
            )?;
            lease::renew(tx, &mut holder, 60_000, 30_000)?;
            Ok(holder)
        }
    }
    let mut store = TestStore::new();
    let holder = store.write(Park(identity("laptop@ann/r1")));
    assert_eq!(holder.lease_until, store.now().plus(90 * SECOND));
}
