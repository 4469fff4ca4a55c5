//! From a provider to an instance.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use the_loop_gateway::domain::{Clock, SystemClock};

use super::{bind_thread, comment_by, each_event, slack_reply};
use crate::support::consumer::{NONE, all_with, seqs, shown};
use crate::support::{Consumer, TestGateway, comment_on};

/// Scenario: a Slack envelope is stored before it is acknowledged
///
/// Over HTTP; the socket has the same scenario of its own.
#[test]
fn a_slack_event_is_stored_before_it_is_acknowledged() {
    let gateway = TestGateway::start();
    bind_thread(&gateway, "laptop");
    for number in 1..=20 {
        let ts = format!("1792332131.{number:06}");
        let body = slack_reply(&format!("Ev{number}"), &ts, "go on");
        let reply = gateway.slack("events", "application/json", &body).send();
        assert_eq!((reply.status, reply.body.len()), (200, 0));
        // Somebody else who opens the file finds it there.
        assert_eq!(gateway.stored(), number);
    }
    let appended = gateway.wait_for_records("subject.appended", 20);
    assert_eq!(appended[0]["work_item"], "github:octo/repo#15");
    assert_eq!(appended[0]["resolved_by"], "binding");
}

/// Scenario: an issue comment through the gateway spawns on the instance with the gateway event
/// id in its dispatch record
///
/// The gateway's part of it: the id travels with the delivery, and every record of the event
/// carries it.
#[test]
fn an_issue_comment_reaches_the_instance_with_the_id_of_its_event() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let mut laptop = Consumer::new("laptop");
    let answer = laptop.fetch(&gateway, 9, &[]);
    let event = &answer["deliveries"][0]["event"];
    let seq = answer["deliveries"][0]["seq"].as_i64().unwrap();
    laptop.commit(&gateway, &[(seq, "spawned")]).assert(200);
    for name in [
        "gateway.received",
        "subject.appended",
        "subject.routed",
        "subject.committed",
    ] {
        let record = &gateway.wait_for_records(name, 1)[0];
        assert_eq!(record["gateway_event_id"], event["id"], "{name}");
        assert_eq!(record["delivery_id"], event["deliveryId"], "{name}");
    }
}

/// Scenario: a crash between dispatch and commit redelivers once and the dispatcher drops the
/// duplicate
#[test]
fn a_crash_between_dispatch_and_commit_redelivers_once() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let mut dispatched = BTreeSet::new();
    let mut dispatch = |answer: &Value| {
        let id = answer["deliveries"][0]["event"]["id"].as_i64().unwrap();
        if dispatched.insert(id) {
            "spawned"
        } else {
            "dropped:duplicate"
        }
    };

    let mut laptop = Consumer::new("laptop");
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(dispatch(&answer), "spawned");
    // It dies here, and starts again.
    laptop = laptop.restarted("run-2");
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(1, 2)]);
    let word = dispatch(&answer);
    assert_eq!(word, "dropped:duplicate");
    let answer = laptop.fetch(&gateway, 9, &[(1, word)]);
    assert_eq!((seqs(&answer), &answer["committed"]), (vec![], &json!(1)));
    laptop = laptop.restarted("run-3");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

/// Scenario: a stopped instance finds its backlog in order
#[test]
fn a_stopped_instance_finds_its_backlog_in_order() {
    let mut gateway = TestGateway::start();
    for number in [15, 16] {
        gateway.claim("laptop", number);
    }
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    // It is stopped; the gateway is even restarted meanwhile.
    for number in [15, 16, 15] {
        gateway.comment(number);
    }
    gateway.restart();
    for number in [16, 15] {
        gateway.comment(number);
    }
    laptop = laptop.restarted("run-2");
    let answer = laptop.fetch(&gateway, 64, &[]);
    let ids = each_event(&answer, "/deliveryId");
    assert_eq!(ids, ["guid-1", "guid-2", "guid-3", "guid-4", "guid-5"]);
    let done = all_with(&answer, "delivered");
    assert_eq!(seqs(&laptop.fetch(&gateway, 64, &done)), NONE);
}

/// Scenario: a start by a registered actor lands on that actor's instance only
#[test]
fn a_start_by_a_registered_actor_lands_on_that_actors_instance_only() {
    let gateway = TestGateway::start();
    let (mut ada, mut grace) = (Consumer::new("ada-laptop"), Consumer::new("grace-laptop"));
    for (who, login) in [(&ada, "Ada"), (&grace, "grace")] {
        let actors = json!({"actors": {"github": [login]}});
        who.put(&gateway, "/actors", &actors).assert(200);
    }
    let labelled = json!({
        "action": "labeled",
        "label": {"name": "the-loop: auto-execute"},
        "issue": {"number": 15, "updated_at": "2026-10-18T14:02:11Z"},
        "repository": {"id": 77, "full_name": "octo/repo", "html_url": "https://github.com/octo/repo"},
        "sender": {"login": "ada"},
    });
    let call = gateway.github("issues", "guid-a", &labelled.to_string());
    call.send().assert(202);
    let body = comment_by("grace", 16, 1, "start");
    gateway
        .github("issue_comment", "guid-g", &body)
        .send()
        .assert(202);
    assert_eq!(
        each_event(&ada.fetch(&gateway, 9, &[]), "/deliveryId"),
        ["guid-a"]
    );
    assert_eq!(
        each_event(&grace.fetch(&gateway, 9, &[]), "/deliveryId"),
        ["guid-g"]
    );
    // Once the work item has a claimant, the actor does not matter any more.
    gateway.claim("ada-laptop", 15);
    let body = comment_by("grace", 15, 2, "go on");
    gateway
        .github("issue_comment", "guid-c", &body)
        .send()
        .assert(202);
    assert_eq!(seqs(&grace.fetch(&gateway, 9, &[])), NONE);
    let answer = ada.fetch(&gateway, 9, &[(1, "spawned")]);
    assert_eq!(each_event(&answer, "/deliveryId"), ["guid-c"]);
}

/// Scenario: an event with no consumer waits on unassigned until a claim routes it
#[test]
fn an_event_with_no_consumer_waits_until_a_claim_routes_it() {
    let mut gateway = TestGateway::start();
    gateway.comment(15);
    gateway.comment(16);
    let routed = gateway.wait_for_records("subject.routed", 2);
    assert_eq!(routed[0]["to"], json!(["unassigned"]));
    gateway.restart();
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(gateway.claim("laptop", 15), json!({"routed": 1}));
    assert_eq!(gateway.claim("laptop", 15), json!({"routed": 0}));
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(each_event(&answer, "/workItem"), ["github:octo/repo#15"]);
    let routed = gateway.wait_for_records("subject.routed", 3);
    assert_eq!(routed[2]["to"], json!(["laptop"]));
    assert_eq!(routed[2]["late"], true);
}

/// Scenario: a long-poll returns within a second of an append
#[test]
fn a_long_poll_returns_within_a_second_of_an_append() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let mut laptop = Consumer::new("laptop");
    for number in 1..=5 {
        let held = laptop.fetch_call(&gateway, &json!({"wait": 25})).spawn();
        gateway.wait_for_held(1);
        let began = SystemClock.instant();
        gateway.comment(15);
        let answer = held.join().unwrap().assert(200);
        assert!(began.elapsed().as_millis() < 1_000, "{:?}", began.elapsed());
        assert_eq!(seqs(&answer), [number]);
        laptop.cursor = answer["cursor"].as_i64();
        laptop
            .commit(&gateway, &[(number, "delivered")])
            .assert(200);
    }
}

/// Scenario: a webhook and a poll of the same comment store one row
///
/// Two hooks of one repository here; the poller has the scenario of its own.
#[test]
fn two_hooks_with_the_same_comment_store_one_row() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let body = comment_on(15, 9001, "please start");
    for guid in ["guid-of-one-hook", "guid-of-another"] {
        gateway
            .github("issue_comment", guid, &body)
            .send()
            .assert(202);
    }
    assert_eq!(gateway.stored(), 1);
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "duplicate");
    assert_eq!(dropped[0]["gateway_event_id"], 1);
}
