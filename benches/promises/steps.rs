//! What a fetch costs whatever waits beside it, in steps of SQLite's virtual machine: a number
//! that no other work on the machine changes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use rusqlite::StatementStatus;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use the_loop_gateway::domain::{CommitItem, Outcome};

use super::fill::{self, Waiting};
use super::support::stock::{Stock, all};
use super::table::Table;
use super::{Bench, say};

const INSTANCE: &str = "mine";
const SUBJECTS: u64 = 16;
const DELIVERIES: u64 = 512;
/// The work item whose oldest delivery failed.
const FAILING: u64 = 17;

/// What is in a store beside what is fetched.
#[derive(Debug, Clone, Copy)]
struct Beside {
    instances: u64,
    /// Deliveries of each of them.
    each: u64,
    /// Deliveries that wait behind a failing one of the same queue.
    blocked: u64,
}

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let least = Beside {
        instances: 1,
        each: 1_000,
        blocked: 1,
    };
    let many = bench.many(10_000);
    let more = [
        (
            format!("{} deliveries of others", 1_000 * many),
            Beside {
                instances: 1_000,
                each: many,
                ..least
            },
        ),
        (
            "1,000 instances".to_owned(),
            Beside {
                instances: 1_000,
                each: 1,
                ..least
            },
        ),
        (
            "100,000 behind a failing head".to_owned(),
            Beside {
                blocked: 100_000,
                ..least
            },
        ),
    ];
    let base = steps(bench, "least", least);
    for (name, beside) in more {
        let ratio = steps(bench, &name, beside) / base;
        table.at_most(
            &format!("steps of fetch + commit, {name}"),
            ratio.max(ratio.recip()),
            1.1,
            "×",
        );
    }
}

/// Steps of a fetch of 256, of the next that commits them, and of the commit of those.
fn steps(bench: &Bench, name: &str, beside: Beside) -> f64 {
    let began = Instant::now();
    let store = bench.root(&format!("steps-{name}.db"));
    fill::queues(
        &store,
        Waiting {
            instances: beside.instances,
            events: beside.each,
            is_shared: true,
        },
    );
    let mut stock = Stock::open(&store);
    for number in 1..=FAILING {
        stock.claim(INSTANCE, number);
    }
    stock.append(FAILING, 2, 1024);
    let failing = stock.fetch(INSTANCE, 0, Vec::new());
    let event = failing.deliveries[0].event.id.0;
    stock.commit(INSTANCE, failing.cursor, all(&failing, "failed"));
    drop(stock);
    fill::behind(&store, event, beside.blocked);
    let mut stock = Stock::open(&store);
    for id in 0..DELIVERIES {
        stock.append(id % SUBJECTS + 1, 3 + id, 1024);
    }
    let filled = began.elapsed();
    let counted = counted(stock, failing.cursor);
    std::fs::remove_file(&store).expect("a store");
    say(&format!(
        "{beside:?}: {counted} steps (filled in {:.0} s)",
        filled.as_secs_f64()
    ));
    counted as f64
}

fn counted(mut stock: Stock, cursor: i64) -> u64 {
    begin_to_count(&mut stock);
    let delivered = Outcome::parse("delivered").expect("an outcome");
    let first = stock.fetch(INSTANCE, cursor, Vec::new());
    let outcomes: Vec<CommitItem> = all(&first, "delivered");
    let second = stock.fetch(INSTANCE, first.cursor, outcomes);
    assert_eq!(first.deliveries.len() + second.deliveries.len(), 512);
    let outcomes = all(&second, "delivered");
    assert!(outcomes.iter().all(|item| item.outcome == delivered));
    stock.commit(INSTANCE, second.cursor, outcomes);
    STEPS.with_borrow(|steps| steps.values().sum())
}

thread_local! {
    /// Steps of each statement on this thread since its preparation.
    static STEPS: RefCell<HashMap<String, u64>> = RefCell::default();
}

fn begin_to_count(stock: &mut Stock) {
    STEPS.with_borrow_mut(HashMap::clear);
    stock
        .writer
        .connection()
        .trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(note));
}

/// A statement ended: SQLite counts its steps since it was prepared.
fn note(event: TraceEvent<'_>) {
    if let TraceEvent::Profile(statement, _) = event {
        let steps = statement.get_status(StatementStatus::VmStep);
        let sql = statement.sql().into_owned();
        STEPS.with_borrow_mut(|all| all.insert(sql, steps.unsigned_abs().into()));
    }
}
