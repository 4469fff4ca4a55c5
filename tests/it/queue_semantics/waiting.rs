//! A fetch that finds nothing is held until something may be due.

use std::io::Write;
use std::net::TcpStream;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use the_loop_gateway::domain::{Clock, SystemClock};

use super::gateway_claimed;
use crate::support::clock::DAY_MS;
use crate::support::consumer::{NONE, seqs, shown};
use crate::support::{Consumer, Reply, TestGateway};

/// A fetch that is held by now.
fn hold(gateway: &TestGateway, laptop: &Consumer) -> JoinHandle<Reply> {
    let held = laptop.fetch_call(gateway, &json!({"wait": 25})).spawn();
    gateway.wait_for_held_poll("laptop");
    held
}

fn poll_after(answer: &Value) -> f64 {
    answer["pollAfter"].as_f64().unwrap()
}

#[test]
fn it_is_answered_when_an_event_is_routed() {
    let (gateway, laptop) = gateway_claimed([1]);
    let held = hold(&gateway, &laptop);
    gateway.comment(1);
    let answer = held.join().unwrap().assert(200);
    assert_eq!((seqs(&answer), poll_after(&answer)), (vec![1], 0.0));
}

#[test]
fn it_is_answered_when_a_held_event_is_routed_late() {
    let (gateway, laptop) = gateway_claimed([]);
    gateway.comment(1);
    let held = hold(&gateway, &laptop);
    gateway.claim("laptop", 1);
    assert_eq!(seqs(&held.join().unwrap().assert(200)), [1]);
}

#[test]
fn it_is_answered_when_a_retry_is_due() {
    let gateway = TestGateway::with(|config| config.store.retry_backoff_min_ms = 300);
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    let more = json!({"wait": 25, "commit": [{"seq": 1, "outcome": "failed"}]});
    let answer = laptop.fetch_call(&gateway, &more).send().assert(200);
    assert_eq!(shown(&answer), [(1, 2)]);
}

#[test]
fn it_is_answered_when_an_outcome_frees_the_next_of_a_subject() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    gateway.comment(1);
    gateway.comment(1);
    laptop.fetch(&gateway, 1, &[]);
    let held = hold(&gateway, &laptop);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    assert_eq!(seqs(&held.join().unwrap().assert(200)), [2]);
}

#[test]
fn it_is_answered_when_what_is_ahead_expires() {
    let gateway = TestGateway::with(|config| {
        config.store.retry_backoff_min_ms = 30 * DAY_MS;
        config.store.retry_backoff_max_ms = 30 * DAY_MS;
    });
    gateway.clock.stop();
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    gateway.clock.advance(4 * DAY_MS);
    gateway.comment(1);
    let held = hold(&gateway, &laptop);
    gateway.clock.advance(4 * DAY_MS);
    assert_eq!(seqs(&held.join().unwrap().assert(200)), [2]);
}

#[test]
fn it_is_answered_when_something_is_overdue() {
    let gateway = TestGateway::with(|config| config.consume.hand_timeout_ms = 300);
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    let call = laptop.fetch_call(&gateway, &json!({"wait": 25}));
    assert_eq!(shown(&call.send().assert(200)), [(1, 2)]);
}

#[test]
fn it_is_answered_empty_when_the_wait_ends() {
    let (gateway, laptop) = gateway_claimed([1]);
    let began = SystemClock.instant();
    let call = laptop.fetch_call(&gateway, &json!({"wait": 0.3}));
    let answer = call.send().assert(200);
    assert!(began.elapsed().as_millis() >= 300);
    assert_eq!((seqs(&answer), poll_after(&answer)), (vec![], 0.0));
}

#[test]
fn a_wait_is_no_longer_than_allowed() {
    let gateway = TestGateway::with(|config| {
        config.consume.wait_max = std::time::Duration::from_millis(200);
    });
    let laptop = Consumer::new("laptop");
    let began = SystemClock.instant();
    let call = laptop.fetch_call(&gateway, &json!({"wait": 1e9}));
    let answer = call.send().assert(200);
    assert_eq!(poll_after(&answer), 0.0);
    let waited = began.elapsed().as_millis();
    assert!((200..20_000).contains(&waited), "{waited}");
}

#[test]
fn it_is_answered_empty_when_a_newer_fetch_of_the_same_run_comes() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    let older = hold(&gateway, &laptop);
    let newer = laptop.fetch_call(&gateway, &json!({"wait": 20})).spawn();
    let answer = older.join().unwrap().assert(200);
    assert_eq!(seqs(&answer), NONE);
    // The newer one is held in its place.
    gateway.comment(1);
    assert_eq!(seqs(&newer.join().unwrap().assert(200)), [1]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
}

#[test]
fn a_rival_that_is_refused_disturbs_no_held_poll() {
    let (gateway, laptop) = gateway_claimed([1]);
    let held = hold(&gateway, &laptop);
    for _ in 0..3 {
        let refused = laptop.rival().ask(&gateway, 9, &[]);
        refused.assert_error(409, "duplicate-instance");
    }
    gateway.wait_for_held(1);
    gateway.comment(1);
    assert_eq!(seqs(&held.join().unwrap().assert(200)), [1]);
}

#[test]
fn a_fetch_that_does_not_wait_is_told_to_come_back_in_a_while() {
    let (gateway, laptop) = gateway_claimed([1]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = laptop.lose(&gateway, 9, &[]);
        let seconds = poll_after(&answer);
        assert!((1.0..=5.0).contains(&seconds), "{seconds}");
        seen.insert(seconds.to_string());
    }
    assert!(seen.len() > 1, "{seen:?}");
    gateway.comment(1);
    assert_eq!(poll_after(&laptop.lose(&gateway, 9, &[])), 0.0);
}

#[test]
fn above_the_budget_of_held_polls_a_fetch_is_answered_at_once() {
    let gateway = TestGateway::with(|config| config.consume.long_polls_max = 1);
    gateway.claim("laptop", 1);
    let held = hold(&gateway, &Consumer::new("laptop"));
    let server = Consumer::new("server");
    let call = server.fetch_call(&gateway, &json!({"wait": 25}));
    let answer = call.send().assert(200);
    assert!(poll_after(&answer) >= 1.0);
    gateway.comment(1);
    assert_eq!(seqs(&held.join().unwrap().assert(200)), [1]);
    gateway.wait_for_held(0);
    let call = server.fetch_call(&gateway, &json!({"wait": 0.1}));
    assert_eq!(poll_after(&call.send().assert(200)), 0.0);
}

/// Opens a held poll of each of so many instances.
fn park(gateway: &TestGateway, names: &[String]) -> Vec<TcpStream> {
    let parked: Vec<TcpStream> = names
        .iter()
        .map(|name| {
            let call = Consumer::new(name).fetch_call(gateway, &json!({"wait": 30}));
            let mut stream = call.open();
            stream.write_all(call.sent_body()).unwrap();
            stream
        })
        .collect();
    gateway.wait_for_held(u64::try_from(names.len()).unwrap());
    parked
}

#[test]
fn one_event_for_each_of_1000_held_polls_answers_each_with_its_own() {
    let gateway = TestGateway::start();
    let names: Vec<String> = (1..=1_000).map(|number| format!("i-{number}")).collect();
    let each = |work: &(dyn Fn(u64, &str) + Sync)| {
        std::thread::scope(|scope| {
            for part in 0..8 {
                let names = &names;
                scope.spawn(move || {
                    for (number, name) in (1..).zip(names).skip(part).step_by(8) {
                        work(number, name);
                    }
                });
            }
        });
    };
    each(&|number, name| {
        gateway.claim(name, number);
    });
    let mut parked = park(&gateway, &names);
    each(&|number, _| {
        let body = crate::support::comment_on(number, number, "a");
        let call = gateway.github("issue_comment", &format!("guid-{number}"), &body);
        call.send().assert(202);
    });
    for (number, stream) in (1..).zip(&mut parked) {
        let answer = Reply::read(stream).assert(200);
        assert_eq!(seqs(&answer).len(), 1, "{number}");
        let event = &answer["deliveries"][0]["event"];
        assert_eq!(event["workItem"], format!("github:octo/repo#{number}"));
    }
}

#[test]
fn a_stop_answers_all_held_polls_within_two_seconds() {
    let mut gateway = TestGateway::start();
    let names: Vec<String> = (1..=200).map(|number| format!("i-{number}")).collect();
    let mut parked = park(&gateway, &names);
    let began = SystemClock.instant();
    gateway.ask_to_stop();
    for stream in &mut parked {
        let reply = Reply::read(stream);
        assert_eq!(seqs(&reply.assert(200)), NONE);
        assert_eq!(reply.header("connection"), Some("close"));
    }
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    gateway.wait_for_stop();
}
