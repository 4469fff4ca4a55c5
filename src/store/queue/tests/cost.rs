//! What a fetch costs in steps of SQLite, whatever else waits in the store: a number that neither
//! the machine nor the build changes. `cargo bench --bench promises -- steps` goes further.

use rusqlite::Connection;

use crate::domain::Clock;
use crate::store::testing::*;
use crate::store::verify;

/// Deliveries of a fetch, each on a subject of its own.
const FETCHED: u64 = 8;
/// The subject with a failing head.
const FAILING: u64 = 9;

/// What waits beside what is fetched.
#[derive(Debug, Clone, Copy)]
struct Beside {
    instances: i64,
    /// Deliveries of each.
    each: i64,
    /// Deliveries behind the failing head.
    blocked: i64,
}

const LEAST: Beside = Beside {
    instances: 1,
    each: 1_000,
    blocked: 1,
};

/// Steps of a fetch, and of the next one, which commits what the first brought.
fn steps(beside: Beside) -> i64 {
    let (mut store, mut laptop) = (TestStore::new(), Client::new("laptop"));
    store.claim("laptop", FAILING);
    store.append(FAILING);
    let failing = laptop.fetch(&mut store, 1, &[]).deliveries[0].seq.0;
    laptop.fetch(&mut store, 0, &[(failing, "failed")]);
    put_behind(store.writer.connection(), beside.blocked);
    put_beside(store.writer.connection(), beside);
    let problems = verify(store.writer.connection(), store.clock.now()).unwrap();
    assert_eq!(problems, []);
    for number in 1..=FETCHED {
        store.claim("laptop", number);
        store.append(number);
        store.append(number);
    }
    let (steps, fetched) = store.steps_of(|store| {
        let first = laptop.fetch(store, 8, &[]);
        let done: Vec<_> = seqs(&first)
            .into_iter()
            .map(|seq| (seq, "delivered"))
            .collect();
        (done.len(), laptop.fetch(store, 8, &done).deliveries.len())
    });
    assert_eq!(fetched, (8, 8));
    steps
}

/// Copies of the failing event, which is the first, on the same queue and subject.
fn put_behind(connection: &Connection, count: i64) {
    copy_events(connection, count);
    let sql = "INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, why)
         SELECT d.instance_id, e.id, d.lane_id, d.routed_at_ms, d.why
         FROM deliveries d CROSS JOIN events e WHERE d.event_id = 1 AND e.id > 1";
    connection.execute(sql, []).unwrap();
    count_again(connection);
}

/// Deliveries of other instances, which all get the same events.
fn put_beside(connection: &Connection, beside: Beside) {
    let last = copy_events(connection, beside.each);
    let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO instances (name, created_at_ms) SELECT 'other-' || i, 1 FROM n";
    connection.execute(sql, [beside.instances]).unwrap();
    let sql = "INSERT INTO lanes (instance_id, lane_key, state, head_event_id, head_due_at_ms)
         SELECT i.id, e.subject_key, 0, e.id, 0 FROM instances i, events e
         WHERE i.name GLOB 'other-*' AND e.id = ?1 + 1";
    connection.execute(sql, [last]).unwrap();
    let sql = "INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, why)
         SELECT l.instance_id, e.id, l.id, 1, 'claim:driver' FROM lanes l CROSS JOIN events e
         WHERE l.head_event_id = ?1 + 1 AND e.id > ?1";
    connection.execute(sql, [last]).unwrap();
    count_again(connection);
}

/// Copies of the first event; tells which number was the last before them.
fn copy_events(connection: &Connection, count: i64) -> i64 {
    let last: i64 = connection
        .query_row("SELECT max(id) FROM events", [], |row| row.get(0))
        .unwrap();
    // Whatever columns there are.
    let sql = format!(
        "CREATE TEMP TABLE copies AS
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             SELECT events.* FROM n CROSS JOIN events WHERE events.id = 1;
         UPDATE copies SET id = {last} + rowid, delivery_id = 'copy-' || ({last} + rowid),
             dedup_keys = '[]';
         INSERT INTO events SELECT * FROM copies;
         DROP TABLE copies;"
    );
    connection.execute_batch(&sql).unwrap();
    last
}

fn count_again(connection: &Connection) {
    let sql = "UPDATE counters SET value = (SELECT count(*) FROM events) WHERE name = 'events';
         UPDATE instances SET backlog = (SELECT count(*) FROM deliveries
             WHERE instance_id = instances.id AND state <= 1)";
    connection.execute_batch(sql).unwrap();
}

fn assert_costs_no_more(beside: Beside) {
    let (least, more) = (steps(LEAST), steps(beside));
    assert!(least > 0);
    assert!(
        more <= least.saturating_add(least / 10),
        "{least} steps beside {LEAST:?}, {more} beside {beside:?}"
    );
}

#[test]
fn a_fetch_costs_no_more_beside_a_hundred_thousand_deliveries_of_a_thousand_instances() {
    assert_costs_no_more(Beside {
        instances: 1_000,
        each: 100,
        ..LEAST
    });
}

#[test]
fn a_fetch_costs_no_more_beside_a_hundred_thousand_deliveries_of_one_instance() {
    assert_costs_no_more(Beside {
        each: 100_000,
        ..LEAST
    });
}

#[test]
fn a_fetch_costs_no_more_with_a_hundred_thousand_deliveries_behind_a_failing_head() {
    assert_costs_no_more(Beside {
        blocked: 100_000,
        ..LEAST
    });
}
