//! How SQLite finds what the store asks for: every statement by an index, none by reading a table
//! from end to end.

use std::path::Path;

use super::support::TestStore;

/// What stands in front of the text that a macro completes; enough of it for the plan.
const MACROS: [(&str, &str); 3] = [
    (
        "select_delivery!(",
        "SELECT d.seq FROM deliveries d JOIN events e ON e.id = d.event_id ",
    ),
    (
        "select_dead!(",
        "SELECT d.seq FROM deliveries d JOIN events e ON e.id = d.event_id
         WHERE d.state = 3 AND d.replaced = 0 AND (?1 = 0 OR e.subject_key = ?2)
             AND d.ended_at_ms >= ?3 AND d.ended_at_ms < ?4 AND (?5 = 0 OR d.instance_id = ?5)
             AND ",
    ),
    ("select_events!(", "SELECT e.id FROM events e WHERE "),
];

/// A statement as it stands in the sources, and how SQLite would run it.
struct Planned {
    sql: String,
    steps: Vec<String>,
}

/// Every statement of the store, tests left out, with its plan.
fn plans() -> Vec<Planned> {
    let store = TestStore::new();
    let mut found = Vec::new();
    collect_folder(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"),
        &mut found,
    );
    found
        .into_iter()
        .map(|sql| {
            let mut statement = store
                .connection()
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .unwrap_or_else(|error| panic!("{error}: {sql}"));
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                steps.push(row.get(3).unwrap());
            }
            Planned { sql, steps }
        })
        .collect()
}

fn collect_folder(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            collect_folder(&path, found);
        } else if is_shipped(name) {
            collect(&std::fs::read_to_string(&path).unwrap(), found);
        }
    }
}

/// Verification reads everything, and tests may.
fn is_shipped(name: &str) -> bool {
    let is_left_out = ["verify.rs", "testing.rs"].contains(&name) || name.ends_with("_tests.rs");
    name.ends_with(".rs") && !is_left_out
}

fn collect(source: &str, found: &mut Vec<String>) {
    for (position, _) in source.match_indices('"') {
        let (before, text) = source.split_at(position);
        let before = before.trim_end();
        let Some(text) = text.split('"').nth(1) else {
            continue;
        };
        let is_statement = ["SELECT ", "UPDATE ", "DELETE ", "INSERT ", "WITH "]
            .iter()
            .any(|word| text.starts_with(word));
        if let Some((_, prefix)) = MACROS.iter().find(|(name, _)| before.ends_with(name)) {
            found.push(format!("{prefix}{text}"));
        } else if is_statement && !before.ends_with("concat!(") {
            found.push(text.to_owned());
        }
    }
}

/// Scans of what is small, or of an index that holds little.
const SMALL: [&str; 19] = [
    // One row for each instance, counter, unfinished routing, or row of a page.
    "SCAN instances",
    "SCAN counters",
    "SCAN pending_routings",
    "SCAN pending_routings USING COVERING INDEX sqlite_autoindex_pending_routings_1",
    "SCAN page VIRTUAL TABLE INDEX 1:",
    "SCAN q",
    "SCAN step",
    "SCAN CONSTANT ROW",
    "SCAN sqlite_sequence",
    "SCAN sqlite_schema",
    // Subjects whose claimants are quiet; dead deliveries, which are looked at one by one anyway.
    "SCAN claims USING COVERING INDEX claims_unattended",
    "SCAN claims USING INDEX claims_unattended",
    "SCAN d USING INDEX deliveries_dead_of_queue",
    // The newest of something, read from the end of its index as far as LIMIT says.
    "SCAN rooms USING INDEX rooms_by_use",
    "SCAN bindings USING INDEX bindings_by_use",
    "SCAN slack_marks USING COVERING INDEX slack_marks_by_activity",
    // After the clock was set back: what waits, and what is in hand.
    "SCAN lanes USING INDEX lanes_waiting_by_due",
    "SCAN lanes USING INDEX lanes_open_by_event",
    "SCAN deliveries USING INDEX deliveries_in_hand",
];

#[test]
fn no_statement_reads_a_table_from_end_to_end() {
    let plans = plans();
    assert!(plans.len() > 150, "{} statements found", plans.len());
    for Planned { sql, steps } in plans {
        // The newest seen keys, by their numbers.
        let skips_a_few = sql.contains("OFFSET");
        // The first rows of an index, in its order.
        let sorts = steps.iter().any(|step| step.contains("TEMP B-TREE"));
        let ends_at_limit = sql.contains("LIMIT") && !sql.contains("WHERE") && !sorts;
        for step in steps.iter().filter(|step| step.starts_with("SCAN")) {
            let is_small = SMALL.contains(&step.as_str())
                || step.starts_with("SCAN pragma_")
                || step.starts_with("SCAN i USING COVERING INDEX sqlite_autoindex_instances_");
            assert!(is_small || skips_a_few || ends_at_limit, "{step}: {sql}");
        }
    }
}

/// A list of more than two values, in a CHECK too, is a table that is built for each row.
#[test]
fn what_an_event_writes_builds_no_table_to_check_it() {
    let store = TestStore::new();
    for sql in [
        "INSERT INTO events (state, state_at_ms, provider, transport, kind, delivery_id,
             received_at_ms, dedup_keys, headers, payload_bytes, payload)
         VALUES ('held', 1, '', '', '', '', 1, '', '', 0, x'')",
        "UPDATE events SET state = 'routed' WHERE id = 1",
        "INSERT INTO lanes (instance_id, lane_key, state, head_event_id, head_due_at_ms)
         VALUES (1, '', 0, 1, 0)",
        "UPDATE lanes SET state = 2 WHERE id = 1",
        "INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, why)
         VALUES (1, 1, 1, 1, '')",
        "UPDATE deliveries SET state = 1 WHERE seq = 1",
        "INSERT INTO event_references (event_id, position, kind, provider, key)
         VALUES (1, 1, 'room', '', '')",
        "INSERT INTO seen_keys (key, event_id, seen_at_ms) VALUES ('', 1, 1)",
    ] {
        let mut statement = store
            .connection()
            .prepare(&format!("EXPLAIN {sql}"))
            .unwrap();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(1).unwrap();
            assert_ne!(step, "OpenEphemeral", "{sql}");
        }
    }
}

#[test]
fn the_states_are_still_checked() {
    let store = TestStore::new();
    for sql in [
        "INSERT INTO events (state, state_at_ms, provider, transport, kind, delivery_id,
             received_at_ms, dedup_keys, headers, payload_bytes, payload)
         VALUES ('lost', 1, '', '', '', '', 1, '', '', 0, x'')",
        "INSERT INTO lanes (instance_id, lane_key, state, head_event_id, head_due_at_ms)
         VALUES (1, '', 3, 1, 0)",
        "INSERT INTO event_references (event_id, position, kind, provider, key)
         VALUES (1, 1, 'rumour', '', '')",
    ] {
        let refused = store.connection().execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("CHECK constraint failed"), "{refused}");
    }
}

/// Part of a statement, and part of its plan.
const HOT: &[(&str, &str)] = &[
    // Append: seen keys, references, consumers.
    (
        "SELECT event_id, handled, orphan FROM seen_keys WHERE key",
        "seen_keys USING PRIMARY KEY (key=?)",
    ),
    (
        "SELECT work_item, used_at_ms FROM bindings",
        "bindings USING PRIMARY KEY (provider=? AND key=?)",
    ),
    (
        "SELECT work_item, used_at_ms FROM commits",
        "commits USING PRIMARY KEY (repository=? AND sha=?)",
    ),
    (
        "SELECT claims.instance_id, instances.name, min(claims.role)",
        "claims USING PRIMARY KEY (subject_key=?)",
    ),
    (
        "SELECT actors.instance_id, instances.name",
        "actors USING PRIMARY KEY (provider=? AND actor_key=?)",
    ),
    // Late routing: what waits, oldest first.
    (
        "SELECT id FROM events WHERE subject_key = ?1 AND state = 'held'",
        "events USING COVERING INDEX events_held_of_subject (subject_key=? AND id>?)",
    ),
    (
        "WHERE provider = ?1 AND actor_key = ?2 AND state = 'held'",
        "events USING COVERING INDEX events_held_of_actor (provider=? AND actor_key=? AND id>?)",
    ),
    (
        "SELECT event_links.event_id FROM event_links",
        "event_links USING COVERING INDEX event_links_of_subject (subject_key=? AND event_id>?)",
    ),
    (
        "SELECT event_id FROM event_references",
        "event_references_of_key (kind=? AND provider=? AND key=? AND event_id>?)",
    ),
    // Fetch and commit: the lanes, what waits in one, what is in hand.
    (
        "SELECT id, head_event_id FROM lanes",
        "lanes USING COVERING INDEX lanes_open_by_event (instance_id=?)",
    ),
    (
        "UPDATE lanes SET state = 0",
        "lanes USING INDEX lanes_waiting_by_due (instance_id=? AND head_due_at_ms<?)",
    ),
    (
        "SELECT d.event_id, d.seq, d.lane_id, d.due_at_ms",
        "d USING INDEX deliveries_ready_of_lane (lane_id=? AND event_id>?)",
    ),
    (
        "SELECT event_id, due_at_ms FROM deliveries WHERE lane_id",
        "deliveries USING INDEX deliveries_ready_of_lane (lane_id=?)",
    ),
    (
        "SELECT 1 FROM deliveries WHERE lane_id = ?1 AND state = 1",
        "deliveries USING COVERING INDEX deliveries_handed_of_lane (lane_id=?)",
    ),
    (
        "WHERE d.lane_id = ?1 AND d.state = 1",
        "deliveries_handed_of_lane (lane_id=?)",
    ),
    (
        "AND d.state = 1 AND d.handed_number > ?2",
        "deliveries_in_hand (instance_id=? AND handed_number>?)",
    ),
    (
        "WHERE d.redrive_of = ?1",
        "deliveries_replacing (redrive_of=?)",
    ),
    (
        "SELECT seq FROM deliveries WHERE instance_id = ?1 AND state <= 1 ORDER BY seq",
        "deliveries_live_of_queue (instance_id=?)",
    ),
    // Retention: the oldest of each kind.
    (
        "WHERE state = ?1 AND state >= 2 AND ended_at_ms < ?2",
        "deliveries USING INDEX deliveries_ended_by_age (state=? AND ended_at_ms<?)",
    ),
    (
        "SELECT seq, event_id, lane_id, state, routed_at_ms FROM deliveries",
        "deliveries USING INDEX deliveries_live_of_queue (instance_id=? AND seq>?)",
    ),
    (
        "SELECT id FROM events WHERE state = 'held' AND state <> 'routed' AND state_at_ms",
        "events_waiting_by_age (state=? AND state_at_ms<?)",
    ),
    (
        "SELECT id FROM events WHERE state = 'grace'",
        "events_waiting_by_age (state=? AND state_at_ms<?)",
    ),
    (
        "DELETE FROM seen_keys WHERE key IN",
        "seen_keys USING INDEX seen_keys_orphans_by_age (seen_at_ms<?)",
    ),
    // Lists.
    (
        "e.subject_key = ?8",
        "events_of_subject (subject_key=? AND id<?)",
    ),
    (
        "e.received_at_ms >= ?3 AND e.received_at_ms < ?4 AND (e.received_at_ms, e.id)",
        "events_by_arrival (received_at_ms>? AND received_at_ms<?)",
    ),
    (
        "d.state >= 2 AND d.ended_at_ms >= ?6",
        "deliveries_ended_by_age (state=? AND ended_at_ms>?",
    ),
];

#[test]
fn every_hot_query_uses_its_index() {
    let plans = plans();
    for (sql, step) in HOT {
        let mut found = plans.iter().filter(|planned| planned.sql.contains(sql));
        let planned = found
            .next()
            .unwrap_or_else(|| panic!("no statement: {sql}"));
        let steps = planned.steps.join("\n");
        assert!(steps.contains(step), "{}\n{steps}", planned.sql);
        // Only the few work items of one key are sorted.
        let sorts = steps.contains("USE TEMP B-TREE") && !sql.contains("FROM bindings");
        assert!(!sorts, "{}\n{steps}", planned.sql);
    }
}
