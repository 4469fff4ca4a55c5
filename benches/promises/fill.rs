//! Large stores in little time: one event is stored by the real path, and SQL makes many of it.
//!
//! What the store keeps in two places is kept in both, so that `verify` finds nothing. The copies
//! have no seen keys: what is measured on these stores looks at none.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};
use the_loop_gateway::domain::{Clock, SystemClock};
use the_loop_gateway::store::{open_reader, open_writer, verify};

use super::support::stock::Stock;
use super::{Bench, say, store_of};

/// What the large store of several groups holds.
pub(crate) const MILLION: u64 = 1_000_000;

/// Subjects of a queue.
const SUBJECTS: u64 = 10;
/// The numbers of work items that copies are about begin here.
const FIRST_ITEM: u64 = 1_000_000;

/// Deliveries that wait on queues which nobody asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) instances: u64,
    pub(crate) events: u64,
    /// Each event is on every queue, instead of on one.
    pub(crate) is_shared: bool,
}

/// Makes the store with a million deliveries on the queues of a thousand absent instances, unless
/// a group before did; and lets `verify` look at it.
pub(crate) fn million(bench: &Bench, root: &Path) {
    if root.is_dir() {
        return;
    }
    let began = Instant::now();
    let events = bench.many(MILLION);
    let waiting = Waiting {
        instances: 1_000,
        events,
        is_shared: false,
    };
    std::fs::create_dir_all(root).expect("a folder");
    let store = store_of(root);
    queues(&store, waiting);
    let size = std::fs::metadata(&store).expect("a store").len();
    say(&format!(
        "{events} deliveries queued in {:.0} s: {:.0} MB",
        began.elapsed().as_secs_f64(),
        size as f64 / 1e6
    ));
    let began = Instant::now();
    let reader = open_reader(&store).expect("a store");
    let problems = verify(&reader, SystemClock.now()).expect("a store");
    assert!(problems.is_empty(), "{problems:?}");
    say(&format!(
        "verified in {:.0} s",
        began.elapsed().as_secs_f64()
    ));
}

/// Makes a store with such queues.
pub(crate) fn queues(store: &Path, waiting: Waiting) {
    let mut stock = Stock::open(store);
    // The one that the others are made from; its queue is not asked for either.
    stock.claim("template", FIRST_ITEM - 1);
    stock.append(FIRST_ITEM - 1, 1, 1024);
    drop(stock);
    in_bulk(store, |connection| {
        instances(connection, waiting.instances);
        let subjects = if waiting.is_shared {
            SUBJECTS
        } else {
            SUBJECTS * waiting.instances
        };
        copy_events(
            connection,
            1,
            waiting.events,
            &format!("{FIRST_ITEM} + i % {subjects}"),
        );
        lanes_and_deliveries(connection, waiting, subjects);
        count(connection);
    });
}

/// Puts more events behind one that is on a queue, on its subject.
pub(crate) fn behind(store: &Path, event: i64, events: u64) {
    in_bulk(store, |connection| {
        let first = highest_event(connection);
        let item = "substr(t.work_item, instr(t.work_item, '#') + 1)";
        copy_events(connection, event, events, item);
        let sql = "INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, why)
             SELECT d.instance_id, e.id, d.lane_id, d.routed_at_ms, d.why
             FROM deliveries d CROSS JOIN events e WHERE d.event_id = ?1 AND e.id > ?2";
        run(connection, sql, params![event, first]);
        count(connection);
    });
}

/// Repeats an event that nobody consumes.
pub(crate) fn held(store: &Path, event: i64, events: u64) {
    in_bulk(store, |connection| {
        let item = "substr(t.work_item, instr(t.work_item, '#') + 1)";
        copy_events(connection, event, events, item);
        count(connection);
    });
}

/// Runs statements on a store that nobody has open: all of them in one transaction, and durable
/// only at the end.
pub(crate) fn in_bulk(store: &Path, fill: impl FnOnce(&Connection)) {
    let connection = open_writer(store).expect("a store");
    let set = |name: &str, value: &str| {
        let sql = format!("PRAGMA {name} = {value}");
        let mut statement = connection.prepare(&sql).expect("a pragma");
        let mut rows = statement.query([]).expect("a pragma");
        while rows.next().expect("a pragma").is_some() {}
    };
    set("journal_mode", "OFF");
    set("synchronous", "OFF");
    set("cache_size", "-1000000");
    connection.execute_batch("BEGIN").expect("a store");
    fill(&connection);
    connection.execute_batch("COMMIT").expect("a store");
    set("journal_mode", "WAL");
}

fn run(connection: &Connection, sql: &str, params: impl rusqlite::Params) {
    connection.execute(sql, params).expect(sql);
}

fn instances(connection: &Connection, count: u64) {
    let sql = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
         INSERT INTO instances (name, created_at_ms) SELECT 'absent-' || i, 1 FROM n";
    run(connection, sql, [count as i64]);
}

fn highest_event(connection: &Connection) -> i64 {
    let sql = "SELECT max(id) FROM events";
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("events")
}

/// Copies of an event, the i-th of them about the work item of this number.
fn copy_events(connection: &Connection, event: i64, count: u64, item: &str) {
    let first = highest_event(connection);
    let mut statement = connection
        .prepare("SELECT name FROM pragma_table_info('events')")
        .expect("a table");
    let columns: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .expect("columns");
    let values = columns.iter().map(|column| match column.as_str() {
        "id" => "?1 + i".to_owned(),
        "delivery_id" => "'copy-' || (?1 + i)".to_owned(),
        "subject" | "subject_key" => format!("'loop-github-octo-repo-' || ({item})"),
        "work_item" => format!("'github:octo/repo#' || ({item})"),
        "dedup_keys" => "'[]'".to_owned(),
        same => format!("t.{same}"),
    });
    let sql = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
         INSERT INTO events ({}) SELECT {}
         FROM n CROSS JOIN (SELECT * FROM events WHERE id = ?3) t",
        columns.join(", "),
        values.collect::<Vec<_>>().join(", ")
    );
    run(connection, &sql, params![first, count as i64, event]);
}

/// A lane for each queue and subject that has events, and a delivery for each event and queue.
/// The template is event, instance and lane 1.
fn lanes_and_deliveries(connection: &Connection, waiting: Waiting, subjects: u64) {
    // `j` numbers subjects, `k` queues, `i` events.
    let (queues, lane, instance) = if waiting.is_shared {
        (waiting.instances, "k * ?1 + j", "k")
    } else {
        (1, "j", "j % ?2")
    };
    // The first event that is about the subject.
    let first = "(CASE j WHEN 0 THEN ?1 ELSE j END)";
    let numbers = format!(
        "WITH RECURSIVE s (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM s WHERE j + 1 < ?1),
         q (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM q WHERE k + 1 < {queues}),
         e (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM e WHERE i < ?3)"
    );
    let sql = format!(
        "{numbers}
         INSERT INTO lanes (id, instance_id, lane_key, state, head_event_id, head_due_at_ms)
         SELECT 2 + {lane}, 2 + {instance}, 'loop-github-octo-repo-' || ({FIRST_ITEM} + j), 0,
             1 + {first}, 0
         FROM q CROSS JOIN s WHERE {first} <= ?3"
    );
    let all = params![
        subjects as i64,
        waiting.instances as i64,
        waiting.events as i64
    ];
    run(connection, &sql, all);
    let (lane, instance) = (lane.replace('j', "(i % ?1)"), instance.replace('j', "i"));
    let sql = format!(
        "{numbers}
         INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, why)
         SELECT 2 + {instance}, 1 + i, 2 + {lane}, d.routed_at_ms, d.why
         FROM deliveries d CROSS JOIN q CROSS JOIN e WHERE d.seq = 1"
    );
    run(connection, &sql, all);
}

/// Counts again what is counted.
fn count(connection: &Connection) {
    for sql in [
        "UPDATE counters SET value = (SELECT count(*) FROM events) WHERE name = 'events'",
        "UPDATE counters SET value = (SELECT count(*) FROM events WHERE state IN ('held', 'grace'))
         WHERE name = 'held'",
        "UPDATE instances SET backlog = (SELECT count(*) FROM deliveries
             WHERE instance_id = instances.id AND state <= 1)",
    ] {
        run(connection, sql, []);
    }
}
