//! What the file says, read beside the gateway.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use the_loop_gateway::domain::Timestamp;
use the_loop_gateway::store::verify;

use crate::arrivals::Sent;
use crate::ledger::{Broken, Checked, Ledger, index_of, require};

/// A delivery in somebody's hands.
#[derive(Debug, Clone)]
pub struct InHand {
    /// The name, as an index.
    pub instance: usize,
    /// Whose hands.
    pub hands: String,
    /// Since when.
    pub since: Timestamp,
    /// Its strikes.
    pub strikes: u32,
}

fn rows<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Checked<Vec<T>> {
    let broken = |error: rusqlite::Error| Broken(format!("the store cannot be read: {error}"));
    let mut statement = connection.prepare_cached(sql).map_err(broken)?;
    let found = statement.query_map(parameters, read).map_err(broken)?;
    found.collect::<rusqlite::Result<_>>().map_err(broken)
}

/// Everything that is in hand, by number.
///
/// # Errors
/// When the store cannot be read.
pub fn in_hand(connection: &Connection) -> Checked<BTreeMap<i64, InHand>> {
    let found = rows(
        connection,
        "SELECT d.seq, i.name, d.handed_run, d.handed_at_ms, d.strikes
         FROM deliveries d JOIN instances i ON i.id = d.instance_id WHERE d.state = 1",
        [],
        |row| {
            let name: String = row.get(1)?;
            let in_hand = InHand {
                instance: index_of(&name).unwrap_or(usize::MAX),
                hands: row.get(2)?,
                since: Timestamp(row.get(3)?),
                strikes: row.get(4)?,
            };
            Ok((row.get(0)?, in_hand))
        },
    )?;
    Ok(found.into_iter().collect())
}

/// The strikes of a delivery, unless it is gone.
///
/// # Errors
/// When the store cannot be read.
pub fn strikes(connection: &Connection, seq: i64) -> Checked<Option<u32>> {
    let sql = "SELECT strikes FROM deliveries WHERE seq = ?1";
    Ok(rows(connection, sql, params![seq], |row| row.get(0))?.pop())
}

/// True when a delivery expired.
///
/// # Errors
/// When the store cannot be read.
pub fn is_expired(connection: &Connection, seq: i64) -> Checked<bool> {
    let sql = "SELECT 1 FROM deliveries WHERE seq = ?1 AND state = 4";
    Ok(!rows(connection, sql, params![seq], |_| Ok(()))?.is_empty())
}

/// Checks that nothing of a delivery's subject was before it when it was handed out.
///
/// # Errors
/// When something was.
pub fn check_order(connection: &Connection, seq: i64, number: i64) -> Checked {
    let before = rows(
        connection,
        "SELECT 'delivery ' || d.seq || ', event ' || d.event_id || ', state ' || d.state
             || ', due ' || d.due_at_ms || ', handed with ' || d.handed_number
         FROM deliveries d, deliveries this
         WHERE this.seq = ?1 AND d.lane_id = this.lane_id AND d.event_id < this.event_id
             AND d.seq < ?2 AND d.state <= 1 AND d.handed_number < ?2 LIMIT 1",
        params![seq, number],
        |row| row.get::<_, String>(0),
    )?;
    require(before.is_empty(), || {
        format!("delivery {seq} goes out with {number} before {before:?} of its subject")
    })
}

/// How many deliveries wait or are in hand.
///
/// # Errors
/// When the store cannot be read.
pub fn live(connection: &Connection) -> Checked<i64> {
    let sql = "SELECT count(*) FROM deliveries WHERE state <= 1";
    Ok(rows(connection, sql, [], |row| row.get(0))?
        .pop()
        .unwrap_or(0))
}

/// What the grace of an event comes to at most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The latest moment that the wall clock has shown.
    pub latest: Timestamp,
    /// Strikes after which a delivery is dead.
    pub strikes_max: u32,
}

/// Compares the whole file with what was promised; what nobody was told of is adopted.
///
/// # Errors
/// When a promise is broken.
pub fn audit(
    connection: &Connection,
    ledger: &mut Ledger,
    sent: &[Sent],
    bounds: Bounds,
) -> Checked {
    let problems = verify(connection, bounds.latest)
        .map_err(|error| Broken(format!("the store cannot be verified: {error}")))?;
    require(problems.is_empty(), || {
        format!("the store does not verify: {problems:?}")
    })?;
    check_strikes(connection, bounds.strikes_max)?;
    check_events(connection, ledger, sent)?;
    check_deliveries(connection, ledger)
}

fn check_strikes(connection: &Connection, max: u32) -> Checked {
    let sql = "SELECT seq FROM deliveries
               WHERE strikes > ?1 OR (strikes = ?1 AND state <= 1) OR (strikes < ?1 AND state = 3)";
    let wrong = rows(connection, sql, params![max], |row| row.get::<_, i64>(0))?;
    require(wrong.is_empty(), || {
        format!("not dead at {max} strikes: {wrong:?}")
    })
}

fn check_events(connection: &Connection, ledger: &mut Ledger, sent: &[Sent]) -> Checked {
    let mut stored = BTreeMap::new();
    let sql = "SELECT id, delivery_id, payload, state FROM events";
    for (event, id, payload, state) in rows(connection, sql, [], |row| {
        let text: String = row.get(1)?;
        let state: String = row.get(3)?;
        Ok((
            row.get::<_, i64>(0)?,
            text,
            row.get::<_, Vec<u8>>(2)?,
            state,
        ))
    })? {
        let number = id
            .strip_prefix("arrival-")
            .and_then(|number| number.parse().ok());
        let Some((number, of)) = number.and_then(|n: usize| Some((n, sent.get(n)?))) else {
            return Err(Broken(format!(
                "event {event} is nothing that was sent: {id}"
            )));
        };
        require(
            state == "expired" || payload == of.arrival.payload.compressed(),
            || format!("the payload of event {event} is another one"),
        )?;
        if !ledger.events.contains_key(&event) {
            ledger.take(event, number);
        }
        if state == "expired"
            && let Some(taken) = ledger.events.get_mut(&event)
        {
            taken.is_over = true;
        }
        stored.insert(event, ());
    }
    let known: Vec<(i64, usize)> = ledger
        .events
        .iter()
        .map(|(id, of)| (*id, of.sent))
        .collect();
    for (event, number) in known {
        if stored.contains_key(&event) {
            continue;
        }
        // Nothing is kept of what was dropped as unbound, so its record can get lost in a crash.
        let has_no_queue = ledger
            .pairs
            .range((event, 0)..(event + 1, 0))
            .next()
            .is_none();
        let was_unbound = sent[number].may_be_dropped && has_no_queue;
        require(ledger.is_over(event) || was_unbound, || {
            format!("event {event} was acknowledged and is lost")
        })?;
        ledger.forget(event);
    }
    Ok(())
}

fn check_deliveries(connection: &Connection, ledger: &mut Ledger) -> Checked {
    let sql = "SELECT d.seq, d.event_id, i.name, d.state
               FROM deliveries d JOIN instances i ON i.id = d.instance_id ORDER BY d.seq";
    let found = rows(connection, sql, [], |row| {
        let name: String = row.get(2)?;
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i64>(1)?,
            name,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let mut stored = BTreeMap::new();
    let mut settled = Vec::new();
    for (seq, event, name, state) in found {
        let Some(instance) = index_of(&name) else {
            return Err(Broken(format!("delivery {seq} is on the queue {name}")));
        };
        let was_settled = ledger.settled.contains(&seq);
        require(!was_settled || state == 2, || {
            format!("the outcome of delivery {seq} was confirmed and is lost")
        })?;
        if was_settled {
            settled.push(seq);
        }
        require(
            state != 2 || was_settled || ledger.tried.contains(&seq),
            || format!("delivery {seq} is settled, and nobody said so"),
        )?;
        // The last one of an event on a queue says how it stands there.
        stored.insert((event, instance), state >= 2);
    }
    // What is gone has been kept for its time.
    ledger.settled = settled.into_iter().collect();
    let promised: Vec<_> = ledger
        .pairs
        .iter()
        .map(|(pair, over)| (*pair, *over))
        .collect();
    for (pair, was_over) in promised {
        match stored.get(&pair) {
            Some(_) => {}
            None if was_over => {}
            None => {
                return Err(Broken(format!(
                    "event {} was acknowledged for a queue and is lost there",
                    pair.0
                )));
            }
        }
    }
    ledger.pairs.extend(stored);
    Ok(())
}
