//! Promises of the simulator itself, and a handful of histories.

use std::path::Path;
use std::sync::Arc;

use simulator::disk::{Fault, Op, Survival, code};
use simulator::{Plan, arrivals, play, vfs};
use the_loop_gateway::domain::{CallerToken, SystemClock, Timestamp};
use the_loop_gateway::store::{Append, Settings, Writer, open_writer};

#[test]
fn the_same_seed_gives_the_same_history_byte_for_byte() {
    let plan = Plan {
        seed: 11,
        steps: 600,
    };
    let (first, second) = (play(plan), play(plan));
    assert!(first.history.text().lines().count() > 600);
    assert_eq!(first.history.text(), second.history.text());
    assert_eq!(first.counts, second.counts);
}

#[test]
fn another_seed_gives_another_history() {
    let history = |seed| play(Plan { seed, steps: 100 }).history.text().to_owned();
    assert_ne!(history(1), history(2));
}

#[test]
fn a_handful_of_histories_breaks_no_promise_and_is_full_of_trouble() {
    for seed in 100..104 {
        let report = play(Plan { seed, steps: 400 });
        assert_eq!(report.broken, None, "{}", report.history.tail(40));
        let counts = report.counts;
        assert!(counts.cuts > 3 && counts.faults > 0, "{counts:?}");
        assert!(counts.events > 50 && counts.deliveries > 50, "{counts:?}");
    }
}

fn writer() -> Writer {
    let connection = open_writer(Path::new("/gateway.db")).unwrap();
    Writer::new(connection, Settings::default(), Arc::new(SystemClock))
}

fn is_appended(writer: &mut Writer, number: usize) -> bool {
    let mut rng = fastrand::Rng::with_seed(1);
    let sent = std::iter::repeat_with(|| arrivals::compose(&mut rng, number, Timestamp(0)))
        .find(|sent| !sent.may_be_dropped && !sent.arrival.keys.is_empty())
        .unwrap();
    let append = Append {
        arrival: Box::new(sent.arrival),
        caller: CallerToken::always(),
    };
    writer.commit_one(append).0.is_ok()
}

#[test]
fn what_a_process_could_not_sync_takes_nothing_with_it_that_the_next_one_acknowledges() {
    vfs::register();
    vfs::renew(1);
    let mut before = writer();
    let refused = Fault {
        op: Op::Sync,
        after: 0,
        times: 1_000,
        code: code::SYNC,
    };
    vfs::with_disk(|disk| disk.arm(refused));
    assert!(!is_appended(&mut before, 1));
    vfs::with_disk(simulator::disk::Disk::halt);
    drop(before);
    vfs::forget_processes();
    // The machine goes on: what was written is read by the next process, synced or not.
    vfs::with_disk(|disk| disk.restart_with(Survival::Everything));
    let mut next = writer();
    assert!(is_appended(&mut next, 2));
    vfs::with_disk(simulator::disk::Disk::cut);
    drop(next);
    vfs::forget_processes();
    vfs::with_disk(|disk| disk.restart_with(Survival::Nothing));
    let last = writer();
    let sql = "SELECT count(*) FROM events WHERE delivery_id = 'arrival-2'";
    let found: i64 = last
        .connection()
        .query_row(sql, [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, 1);
}
