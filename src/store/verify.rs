//! Everything that must hold of a store, checked on a connection that only reads.
//!
//! What the writes keep in two places is compared, what they derive is derived again, and every
//! payload is decompressed. Nothing is repaired.

use std::fmt;

use rusqlite::{Connection, params};
use serde::Serialize;

use super::error::{Doing, StoreError};
use super::routing;
use crate::domain::{Payload, Timestamp};

/// Problems of one kind that are told one by one.
const PROBLEMS_OF_A_KIND_MAX: usize = 20;

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What should hold.
    pub rule: &'static str,
    /// Where it does not.
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// A rule as a query for what breaks it; each row is one text that tells where.
struct Rule {
    holds: &'static str,
    broken: &'static str,
}

const fn rule(holds: &'static str, broken: &'static str) -> Rule {
    Rule { holds, broken }
}

/// Where a verification stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyStep {
    /// Pages and indexes of the file, all of them at once.
    File,
    /// What holds between rows.
    Rules {
        /// Rules that are checked.
        done: usize,
        /// All of them.
        of: usize,
    },
    /// Payloads, each decompressed.
    Payloads {
        /// Payloads that are checked.
        done: u64,
        /// All of them.
        of: u64,
    },
}

/// Checks a store; an empty list says that all is well.
///
/// # Errors
/// When the store cannot be read at all.
pub fn verify(connection: &Connection, now: Timestamp) -> Result<Vec<Problem>, StoreError> {
    verify_with(connection, now, &mut |_| {})
}

/// As [`verify`], telling how far it is. All of it sees one moment, also while a gateway writes.
///
/// # Errors
/// When the store cannot be read at all.
pub fn verify_with(
    connection: &Connection,
    now: Timestamp,
    progress: &mut dyn FnMut(VerifyStep),
) -> Result<Vec<Problem>, StoreError> {
    // Given up at the end: nothing is written.
    let moment = connection
        .unchecked_transaction()
        .doing("look at one moment")?;
    progress(VerifyStep::File);
    let mut problems = check_file(&moment)?;
    if !problems.is_empty() {
        // A damaged file answers the other questions wrongly.
        return Ok(problems);
    }
    let rules = || COUNTERS.iter().chain(EVENTS).chain(DELIVERIES).chain(NAMES);
    let of = rules().count();
    for (done, rule) in rules().enumerate() {
        progress(VerifyStep::Rules { done, of });
        check(&moment, rule, &mut problems)?;
    }
    progress(VerifyStep::Rules { done: of, of });
    check_lanes(&moment, now, &mut problems)?;
    check_work_items(&moment, &mut problems)?;
    check_payloads(&moment, &mut problems, progress)?;
    Ok(problems)
}

/// Whether the file is sound, as SQLite sees it: all of it is read.
///
/// # Errors
/// When the store cannot be read at all.
pub fn check_file(connection: &Connection) -> Result<Vec<Problem>, StoreError> {
    let doing = "check the file";
    let mut statement = connection.prepare("PRAGMA integrity_check").doing(doing)?;
    let lines = statement
        .query_map([], |row| row.get::<_, String>(0))
        .doing(doing)?;
    let mut problems = Vec::new();
    for line in lines {
        let detail = line.doing(doing)?;
        if detail != "ok" {
            let rule = "the file is sound";
            problems.push(Problem { rule, detail });
        }
    }
    Ok(problems)
}

fn check(
    connection: &Connection,
    rule: &Rule,
    problems: &mut Vec<Problem>,
) -> Result<(), StoreError> {
    let doing = "check a rule";
    let mut statement = connection.prepare(rule.broken).doing(doing)?;
    let places = statement
        .query_map([], |row| row.get::<_, String>(0))
        .doing(doing)?;
    for place in places.take(PROBLEMS_OF_A_KIND_MAX) {
        problems.push(Problem {
            rule: rule.holds,
            detail: place.doing(doing)?,
        });
    }
    Ok(())
}

const COUNTERS: &[Rule] = &[
    rule(
        "the counter of events is their number",
        "SELECT value || ' counted, ' || n || ' stored'
         FROM counters, (SELECT count(*) AS n FROM events) WHERE name = 'events' AND value <> n",
    ),
    rule(
        "the counter of held events is their number",
        "SELECT value || ' counted, ' || n || ' stored'
         FROM counters, (SELECT count(*) AS n FROM events WHERE state IN ('held', 'grace'))
         WHERE name = 'held' AND value <> n",
    ),
    rule(
        "a backlog is the number of live deliveries",
        "SELECT name || ': ' || backlog || ' counted, ' || n || ' stored'
         FROM (SELECT i.name, i.backlog, (SELECT count(*) FROM deliveries
                                          WHERE instance_id = i.id AND state <= 1) AS n
               FROM instances i)
         WHERE backlog <> n",
    ),
    rule(
        "numbers are never used again",
        "SELECT 'deliveries up to ' || max(seq) FROM deliveries
         HAVING max(seq) > (SELECT seq FROM sqlite_sequence WHERE name = 'deliveries')",
    ),
    rule(
        "numbers of events are never used again",
        "SELECT 'events up to ' || max(id) FROM events
         HAVING max(id) > (SELECT seq FROM sqlite_sequence WHERE name = 'events')",
    ),
];

const EVENTS: &[Rule] = &[
    rule(
        "a routed event has a delivery",
        "SELECT 'event ' || id FROM events
         WHERE state = 'routed' AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = events.id)",
    ),
    rule(
        "only a routed event has live deliveries",
        "SELECT 'event ' || e.id || ' is ' || e.state || ', delivery ' || d.seq || ' is live'
         FROM deliveries d JOIN events e ON e.id = d.event_id
         WHERE d.state <= 1 AND e.state <> 'routed'",
    ),
    rule(
        "an event in grace has references and no subject",
        "SELECT 'event ' || id FROM events
         WHERE state = 'grace' AND (subject_key <> '' OR NOT EXISTS (
             SELECT 1 FROM event_references WHERE event_id = events.id))",
    ),
    rule(
        "only an event in grace has references",
        "SELECT 'event ' || r.event_id FROM event_references r
         WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = r.event_id AND state = 'grace')",
    ),
    rule(
        "a payload is there until its event expires",
        "SELECT 'event ' || id || ' is ' || state || ' with ' || length(payload) || ' bytes'
         FROM events WHERE (state = 'expired') <> (length(payload) = 0)",
    ),
    rule(
        "a key is its subject in lower case",
        "SELECT 'event ' || id FROM events WHERE subject_key <> lower(subject)",
    ),
    rule(
        "a link has an event",
        "SELECT 'event ' || event_id FROM event_links
         WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = event_id)",
    ),
    rule(
        "a seen key is an orphan when its event is gone, and only then",
        "SELECT 'key ' || key FROM seen_keys
         WHERE orphan = EXISTS (SELECT 1 FROM events WHERE id = event_id)",
    ),
    rule(
        "the keys of an event count as seen",
        "SELECT 'event ' || e.id || ': ' || own.value FROM events e, json_each(e.dedup_keys) AS own
         WHERE NOT EXISTS (SELECT 1 FROM seen_keys WHERE key = own.value AND event_id = e.id)",
    ),
    rule(
        "headers are a JSON object",
        "SELECT 'event ' || id FROM events
         WHERE NOT json_valid(headers) OR json_type(headers) <> 'object'",
    ),
];

const DELIVERIES: &[Rule] = &[
    rule(
        "a delivery has an event",
        "SELECT 'delivery ' || seq FROM deliveries
         WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = event_id)",
    ),
    rule(
        "a delivery has an instance",
        "SELECT 'delivery ' || seq FROM deliveries
         WHERE NOT EXISTS (SELECT 1 FROM instances WHERE id = instance_id)",
    ),
    rule(
        "a live delivery is in a lane of its queue and subject",
        "SELECT 'delivery ' || d.seq
         FROM deliveries d
             JOIN events e ON e.id = d.event_id
             LEFT JOIN lanes l ON l.id = d.lane_id
         WHERE d.state <= 1 AND (l.id IS NULL OR l.instance_id <> d.instance_id OR l.lane_key <>
             CASE e.subject_key WHEN '' THEN 'event:' || e.id ELSE e.subject_key END)",
    ),
    rule(
        "an event waits once on a queue",
        "SELECT 'event ' || event_id || ' waits ' || count(*) || ' times' FROM deliveries
         WHERE state <= 1 GROUP BY event_id, instance_id HAVING count(*) > 1",
    ),
    rule(
        "a delivery has an end when it is over, and only then",
        "SELECT 'delivery ' || seq FROM deliveries WHERE (state >= 2) <> (ended_at_ms > 0)",
    ),
    rule(
        "only a live delivery is a suspect",
        "SELECT 'delivery ' || seq FROM deliveries WHERE suspect = 1 AND state >= 2",
    ),
    rule(
        "what is in hand was handed out with a number of its queue",
        "SELECT 'delivery ' || d.seq FROM deliveries d JOIN instances i ON i.id = d.instance_id
         WHERE d.state = 1 AND (d.ever_handed = 0
             OR d.handed_number < 1 OR d.handed_number > i.last_number)",
    ),
    rule(
        "a delivery replaces an older one of its event, which is marked",
        "SELECT 'delivery ' || d.seq FROM deliveries d JOIN deliveries old ON old.seq = d.redrive_of
         WHERE d.redrive_of > 0
             AND (old.seq >= d.seq OR old.replaced = 0 OR old.event_id <> d.event_id)",
    ),
    rule(
        "a delivery is replaced once",
        "SELECT 'delivery ' || redrive_of FROM deliveries WHERE redrive_of > 0
         GROUP BY redrive_of HAVING count(*) > 1",
    ),
    rule(
        "a hand-out belongs to a delivery",
        "SELECT 'delivery ' || seq FROM hand_outs h
         WHERE NOT EXISTS (SELECT 1 FROM deliveries WHERE seq = h.seq)",
    ),
    rule(
        "a number of a response is not above the last one",
        "SELECT i.name || ': ' || r.number FROM response_numbers r
             JOIN instances i ON i.id = r.instance_id
         WHERE r.number > i.last_number",
    ),
];

const NAMES: &[Rule] = &[
    rule(
        "a claim belongs to an instance that is known",
        "SELECT c.subject || ' (' || c.role || ')' FROM claims c
         WHERE NOT EXISTS (SELECT 1 FROM instances
                           WHERE id = c.instance_id AND forgotten_at_ms = 0)",
    ),
    rule(
        "an actor belongs to an instance that is known",
        "SELECT a.provider || ':' || a.actor FROM actors a
         WHERE NOT EXISTS (SELECT 1 FROM instances
                           WHERE id = a.instance_id AND forgotten_at_ms = 0)",
    ),
    rule(
        "the present run is not superseded",
        "SELECT i.name FROM instances i JOIN superseded_runs s
             ON s.instance_id = i.id AND s.run = i.run
         WHERE i.run_is_made_up = 0",
    ),
    rule(
        "a Slack key is bound to one work item",
        "SELECT key FROM bindings WHERE provider = 'slack' GROUP BY key HAVING count(*) > 1",
    ),
];

/// A lane must say what its deliveries say: something in hand makes it busy, else it stands at
/// its oldest delivery and waits exactly while that one is due later.
fn check_lanes(
    connection: &Connection,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Result<(), StoreError> {
    let doing = "check the lanes";
    let mut statement = connection
        .prepare(
            "SELECT l.id, l.lane_key, l.state, l.head_event_id, l.head_due_at_ms,
                 EXISTS (SELECT 1 FROM deliveries WHERE lane_id = l.id AND state = 1),
                 (SELECT event_id FROM deliveries WHERE lane_id = l.id AND state = 0
                  ORDER BY event_id, seq LIMIT 1),
                 (SELECT due_at_ms FROM deliveries WHERE lane_id = l.id AND state = 0
                  ORDER BY event_id, seq LIMIT 1)
             FROM lanes l",
        )
        .doing(doing)?;
    let found =
        statement
            .query_map([], |row| {
                let lane = format!(
                    "lane {} ({})",
                    row.get::<_, i64>(0)?,
                    row.get::<_, String>(1)?
                );
                let state: i64 = row.get(2)?;
                let stored = (row.get::<_, i64>(3)?, row.get::<_, i64>(4)?);
                let is_busy: bool = row.get(5)?;
                let head = row.get::<_, Option<i64>>(6)?.zip(row.get(7)?);
                Ok(lane_problem(now, state, stored, is_busy, head)
                    .map(|what| format!("{lane} {what}")))
            })
            .doing(doing)?;
    for problem in found
        .filter_map(Result::transpose)
        .take(PROBLEMS_OF_A_KIND_MAX)
    {
        problems.push(Problem {
            rule: "a lane says what its deliveries say",
            detail: problem.doing(doing)?,
        });
    }
    Ok(())
}

fn lane_problem(
    now: Timestamp,
    state: i64,
    (head_event, head_due): (i64, i64),
    is_busy: bool,
    head: Option<(i64, i64)>,
) -> Option<&'static str> {
    match (is_busy, head) {
        (true, _) if state != 2 => Some("is not busy, though something of it is in hand"),
        (true, _) => None,
        (false, None) => Some("has no live delivery"),
        (false, Some(_)) if state == 2 => Some("is busy, though nothing of it is in hand"),
        (false, Some((event, _))) if event != head_event => Some("stands at another event"),
        (false, Some((_, due))) if due != head_due => Some("has another due time"),
        // One that has become due opens with the next fetch.
        (false, Some((_, due))) if state == 0 && due > now.0 => Some("is open too early"),
        (false, Some((_, 0))) if state == 1 => Some("waits for nothing"),
        (false, Some(_)) => None,
    }
}

fn check_payloads(
    connection: &Connection,
    problems: &mut Vec<Problem>,
    progress: &mut dyn FnMut(VerifyStep),
) -> Result<(), StoreError> {
    let doing = "check the payloads";
    let of: i64 = connection
        .query_row(
            "SELECT count(*) FROM events WHERE state <> 'expired'",
            [],
            |row| row.get(0),
        )
        .doing(doing)?;
    let (of, mut done) = (of.unsigned_abs(), 0_u64);
    let mut statement = connection
        .prepare("SELECT id, payload, payload_bytes FROM events WHERE state <> 'expired'")
        .doing(doing)?;
    let mut rows = statement.query(params![]).doing(doing)?;
    let (mut text, mut found) = (Vec::new(), 0_usize);
    while let Some(row) = rows.next().doing(doing)? {
        progress(VerifyStep::Payloads { done, of });
        done = done.saturating_add(1);
        let read = || -> rusqlite::Result<(i64, Vec<u8>, i64)> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        };
        let (id, compressed, bytes) = read().doing(doing)?;
        text.clear();
        let payload = Payload::from_stored(compressed, bytes.unsigned_abs());
        if let Err(error) = payload.decompress_into(&mut text)
            && found < PROBLEMS_OF_A_KIND_MAX
        {
            found = found.saturating_add(1);
            problems.push(Problem {
                rule: "a payload is what was stored",
                detail: format!("event {id}: {error}"),
            });
        }
    }
    Ok(())
}

/// A subject is derived from its work item: the two must agree wherever both are stored.
fn check_work_items(
    connection: &Connection,
    problems: &mut Vec<Problem>,
) -> Result<(), StoreError> {
    let doing = "check the work items";
    let mut statement = connection
        .prepare(
            "SELECT DISTINCT work_item, subject_key FROM events WHERE work_item <> ''
             UNION SELECT work_item, subject_key FROM event_links
             UNION SELECT work_item, subject_key FROM bindings",
        )
        .doing(doing)?;
    let pairs = statement
        .query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })
        .doing(doing)?;
    let mut found = 0_usize;
    for pair in pairs {
        let (work_item, subject_key) = pair.doing(doing)?;
        let agrees = routing::parse_stored(&work_item)
            .is_ok_and(|parsed| parsed.subject().key() == subject_key);
        if !agrees && found < PROBLEMS_OF_A_KIND_MAX {
            found = found.saturating_add(1);
            problems.push(Problem {
                rule: "a subject is that of its work item",
                detail: format!("{work_item} on {subject_key}"),
            });
        }
    }
    Ok(())
}
