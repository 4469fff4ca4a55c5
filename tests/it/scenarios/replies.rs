//! R12.3 and R12.4: replies reach the session of their work item, in order, once.

use serde_json::{Value, json};

use super::{bind_thread, each_event, slack_reply};
use crate::support::consumer::{NONE, all_with, seqs};
use crate::support::{Consumer, TestGateway, comment_on};

/// Fetches like an instance that has just started: commits what it got, until nothing is left.
fn drain(gateway: &TestGateway, laptop: &mut Consumer) -> Vec<Value> {
    let (mut got, mut done) = (Vec::new(), Vec::new());
    loop {
        let answer = laptop.fetch(gateway, 1, &done);
        done = all_with(&answer, "delivered");
        if done.is_empty() {
            return got;
        }
        got.extend(each_event(&answer, "/payload").into_iter().cloned());
    }
}

/// R12.4 with comments on GitHub: the instance is stopped, two replies are posted, each of them
/// twice, the instance is started again: both are delivered in order, once.
#[test]
fn two_comments_that_are_posted_while_the_instance_is_stopped_arrive_in_order_once() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let mut laptop = Consumer::new("laptop");
    assert_eq!(drain(&gateway, &mut laptop), Vec::<Value>::new());
    for (id, text) in [(1, "first"), (2, "second")] {
        let body = comment_on(15, id, text);
        let call = gateway.github("issue_comment", &format!("guid-{id}"), &body);
        call.send().assert(202);
        call.send().assert(202);
    }
    laptop = laptop.restarted("run-2");
    let texts: Vec<Value> = drain(&gateway, &mut laptop)
        .iter()
        .map(|payload| payload["comment"]["body"].clone())
        .collect();
    assert_eq!(texts, ["first", "second"]);
    laptop = laptop.restarted("run-3");
    assert_eq!(drain(&gateway, &mut laptop), Vec::<Value>::new());
}

/// R12.4 with replies in the Slack thread of the work item, over HTTP; Slack repeats each.
#[test]
fn two_slack_replies_that_are_posted_while_the_instance_is_stopped_arrive_in_order_once() {
    let mut gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    bind_thread(&gateway, "laptop");
    let mut laptop = Consumer::new("laptop");
    assert_eq!(drain(&gateway, &mut laptop), Vec::<Value>::new());
    for (number, text) in [(1, "first"), (2, "second")] {
        let ts = format!("1792332131.00000{number}");
        let body = slack_reply(&format!("Ev{number}"), &ts, text);
        for attempt in 0..3 {
            let call = gateway.slack("events", "application/json", &body);
            let call = if attempt == 0 {
                call
            } else {
                call.header("X-Slack-Retry-Num", attempt)
                    .header("X-Slack-Retry-Reason", "http_timeout")
            };
            let reply = call.send();
            assert_eq!((reply.status, reply.body.len()), (200, 0));
        }
    }
    gateway.restart();
    laptop = laptop.restarted("run-2");
    let texts: Vec<Value> = drain(&gateway, &mut laptop)
        .iter()
        .map(|payload| payload["event"]["text"].clone())
        .collect();
    assert_eq!(texts, ["first", "second"]);
    laptop = laptop.restarted("run-3");
    assert_eq!(drain(&gateway, &mut laptop), Vec::<Value>::new());
}

/// R12.4 with both at once: comments and thread replies about one work item are one stream.
#[test]
fn comments_and_slack_replies_about_one_work_item_are_one_stream() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    bind_thread(&gateway, "laptop");
    for number in 1..=4 {
        if number % 2 == 0 {
            gateway.comment(15);
            continue;
        }
        let ts = format!("1792332131.00000{number}");
        let body = slack_reply(&format!("Ev{number}"), &ts, "go on");
        gateway
            .slack("events", "application/json", &body)
            .send()
            .assert(200);
    }
    let mut laptop = Consumer::new("laptop");
    let answer = laptop.fetch(&gateway, 9, &[]);
    let providers = each_event(&answer, "/provider");
    assert_eq!(providers, ["slack", "github", "slack", "github"]);
    for subject in each_event(&answer, "/subject") {
        assert_eq!(subject, "loop-github-octo-repo-15");
    }
    // One fails: all that follows waits for it, whatever brought it.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "failed")])), NONE);
}

/// R12.3: a reply in the work item's thread reaches the instance's session. It may be faster than
/// the instance that binds the thread.
#[test]
fn a_slack_reply_that_beats_its_binding_is_delivered_once_it_is_bound() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let mut laptop = Consumer::new("laptop");
    let body = slack_reply("Ev1", "1792332131.000001", "first");
    gateway
        .slack("events", "application/json", &body)
        .send()
        .assert(200);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(bind_thread(&gateway, "laptop"), json!({"routed": 1}));
    let body = slack_reply("Ev2", "1792332131.000002", "second");
    gateway
        .slack("events", "application/json", &body)
        .send()
        .assert(200);
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(
        each_event(&answer, "/payload/event/text"),
        ["first", "second"]
    );
    assert_eq!(each_event(&answer, "/kind"), ["message", "message"]);
}

/// R12.3, where nobody binds the thread: dropped as unbound after its grace.
#[test]
fn a_slack_reply_that_nobody_binds_is_dropped_after_its_grace() {
    let gateway = TestGateway::start();
    gateway.clock.stop();
    let body = slack_reply("Ev1", "1792332131.000001", "first");
    gateway
        .slack("events", "application/json", &body)
        .send()
        .assert(200);
    assert_eq!(gateway.texts("SELECT state FROM events"), ["grace"]);
    gateway.clock.advance(120_001);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "unbound");
    assert_eq!(gateway.stored(), 0);
    // It forgets its keys: when Slack sends it again, it is new.
    gateway
        .slack("events", "application/json", &body)
        .send()
        .assert(200);
    assert_eq!(gateway.stored(), 1);
}
