//! A disk that fills while deliveries arrive, and is freed again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use the_loop_gateway::store::PageLimit;

use crate::support::consumer::{NONE, all_with, seqs};
use crate::support::gateway::wait_until;
use crate::support::{Consumer, TestGateway, comment_on};

/// A gateway whose disk can be filled.
fn gateway() -> (TestGateway, PageLimit) {
    let disk = PageLimit::default();
    let of_gateway = disk.clone();
    let gateway = TestGateway::built(|_| {}, |parts| parts.page_limit = of_gateway);
    (gateway, disk)
}

/// A comment that takes some pages.
fn large_comment(id: u64) -> String {
    let text: String = (0..2_000)
        .map(|part| format!("{:x} ", part * id * 7_919))
        .collect();
    comment_on(15, id, &text)
}

/// What was answered to each comment.
#[derive(Default)]
struct Answers(Mutex<BTreeMap<u64, u16>>);

impl Answers {
    fn note(&self, id: u64, status: u16) {
        self.0.lock().unwrap().insert(id, status);
    }

    fn count(&self, is_counted: impl Fn(u16) -> bool) -> usize {
        let answers = self.0.lock().unwrap();
        answers
            .values()
            .filter(|status| is_counted(**status))
            .count()
    }

    fn acked(&self) -> usize {
        self.count(|status| status == 202)
    }

    fn failed(&self) -> usize {
        self.count(|status| status >= 500)
    }
}

/// Ends what goes on until then.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn send(gateway: &TestGateway, id: u64) -> u16 {
    let call = gateway.github("issue_comment", &format!("guid-{id}"), &large_comment(id));
    call.send().status
}

#[test]
fn a_disk_that_fills_and_is_freed_loses_nothing_that_was_acknowledged() {
    let (mut gateway, disk) = gateway();
    gateway.claim("laptop", 15);
    let (answers, next) = (Answers::default(), AtomicU64::new(1));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when something fails below, or the others would go on for ever.
        let _over = Over(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    answers.note(id, send(&gateway, id));
                }
            });
        }
        wait_until("deliveries to be acknowledged", || answers.acked() >= 40);
        disk.fill();
        wait_until("deliveries to fail", || answers.failed() >= 20);
        let acked = answers.acked();
        check_trouble(&gateway);
        disk.free();
        wait_until("deliveries to be acknowledged again", || {
            answers.acked() >= acked + 40
        });
    });
    wait_until("readiness", || gateway.get("/ready").status == 200);
    assert_eq!(gateway.get("/health").assert(200)["store"]["ok"], true);
    assert_eq!(gateway.wait_for_records("gateway.recovered", 1).len(), 1);
    assert_eq!(gateway.records("gateway.error").len(), 1, "one alarm");

    let answers = answers.0.into_inner().unwrap();
    let stored = gateway.texts("SELECT delivery_id FROM events");
    for (id, status) in &answers {
        let is_stored = stored.contains(&format!("guid-{id}"));
        match status {
            202 => assert!(is_stored, "{id} was acknowledged"),
            500 => assert!(!is_stored, "{id} was refused"),
            // The answer was not waited for.
            503 => {}
            other => panic!("{id}: {other}"),
        }
        // The provider, or a person, sends again what failed.
        if *status != 202 {
            assert_eq!(send(&gateway, *id), 202);
        }
    }
    gateway.restart();
    let mut laptop = Consumer::new("laptop");
    let (mut got, mut done) = (0, Vec::new());
    loop {
        let answer = laptop.fetch(&gateway, 64, &done);
        done = all_with(&answer, "delivered");
        if done.is_empty() {
            break;
        }
        got += done.len();
    }
    assert_eq!(got, answers.len());
}

/// What a person and a load balancer see of a full disk.
fn check_trouble(gateway: &TestGateway) {
    let ready = gateway.get("/ready");
    ready.assert_error(503, "not-ready");
    let health = gateway.get("/health").assert(200);
    assert_eq!(
        (&health["ok"], &health["store"]["ok"]),
        (&json!(false), &json!(false))
    );
    let alarm = gateway.wait_for_records("gateway.error", 1);
    assert_eq!(alarm[0]["level"], "error");
}

#[test]
fn there_is_one_alarm_however_long_the_disk_is_full_and_whatever_still_succeeds() {
    let (gateway, disk) = gateway();
    gateway.claim("laptop", 15);
    let laptop = Consumer::new("laptop");
    let mut id = 0;
    let mut fail = || {
        // What is free within the file is used up first.
        wait_until("a delivery to fail", || {
            id += 1;
            send(&gateway, id) == 500
        });
    };
    disk.fill();
    for _ in 0..20 {
        fail();
        // These need no room, so they may succeed all the while.
        let status = laptop.ask(&gateway, 0, &[]).status;
        assert!(status == 200 || status == 500, "{status}");
        gateway.get("/ready").assert_error(503, "not-ready");
    }
    assert_eq!(gateway.records("gateway.recovered"), Vec::<Value>::new());
    assert_eq!(gateway.records("gateway.error").len(), 1);
    disk.free();
    // Nobody sends anything, and it heals.
    wait_until("readiness", || gateway.get("/ready").status == 200);
    gateway.wait_for_records("gateway.recovered", 1);
    disk.fill();
    fail();
    gateway.wait_for_records("gateway.error", 2);
    disk.free();
    wait_until("readiness", || gateway.get("/ready").status == 200);
}

#[test]
fn a_consumer_on_a_full_disk_is_told_so_and_loses_nothing() {
    let (gateway, disk) = gateway();
    gateway.claim("laptop", 15);
    for id in 1..=5 {
        assert_eq!(send(&gateway, id), 202);
    }
    let mut laptop = Consumer::new("laptop");
    disk.fill();
    let mut id = 5;
    wait_until("a delivery to fail", || {
        id += 1;
        send(&gateway, id) == 500
    });
    let mut done = Vec::new();
    for _ in 0..30 {
        let reply = laptop.ask(&gateway, 1, &done);
        if reply.status != 200 {
            reply.assert_error(500, "store-unavailable");
            continue;
        }
        let answer = reply.json();
        laptop.cursor = answer["cursor"].as_i64();
        done = all_with(&answer, "delivered");
    }
    disk.free();
    wait_until("readiness", || gateway.get("/ready").status == 200);
    loop {
        let answer = laptop.fetch(&gateway, 1, &done);
        done = all_with(&answer, "delivered");
        if done.is_empty() {
            break;
        }
    }
    let stored = gateway.stored();
    assert!(stored >= 5);
    let handled = "SELECT count(*) FROM deliveries WHERE state = 2 AND attempt = 1";
    assert_eq!(gateway.number(handled), stored);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

#[test]
fn an_event_log_that_cannot_be_written_keeps_nobody_from_anything() {
    let gateway = TestGateway::with(|config| {
        config.observability.event_log_path = PathBuf::from("/dev/full");
    });
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
    wait_until("health to say so", || {
        let health = gateway.get("/health").assert(200);
        health["eventLog"]["ok"] == false && health["ok"] == false
    });
    gateway.get("/ready").assert(200);
}
