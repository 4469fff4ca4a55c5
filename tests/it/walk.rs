//! One event through the whole gateway: signed, stored, fetched, committed.

use serde_json::{Value, json};

use crate::support::{TestGateway, comment_on};

#[test]
fn a_signed_delivery_reaches_its_claimant_byte_for_byte() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let body = comment_on(15, 9001, "please start");
    let reply = gateway.github("issue_comment", "guid-1", &body).send();
    assert_eq!(reply.assert(202), json!({"status": "accepted"}));

    let reply = gateway.fetch_call("laptop", &json!({})).send();
    let answer = reply.assert(200);
    let event = &answer["deliveries"][0]["event"];
    assert_eq!(event["workItem"], "github:octo/repo#15");
    assert_eq!(event["deliveryId"], "guid-1");
    assert_eq!(event["kind"], "issue_comment");
    assert!(
        reply
            .text()
            .contains(&format!("\"payload\":{body},\"attempt\":1"))
    );
    assert_eq!(answer["pollAfter"], 0.0);

    let seq = &answer["deliveries"][0]["seq"];
    let next = json!({
        "cursor": answer["cursor"],
        "commit": [{"seq": seq, "outcome": "delivered"}],
    });
    let answer = gateway.fetch("laptop", &next);
    assert_eq!(answer["deliveries"], json!([]));
    assert_eq!(&answer["committed"], seq);
    let committed = gateway.wait_for_records("subject.committed", 1);
    assert_eq!(committed[0]["delivery_id"], "guid-1");
}

#[test]
fn a_held_fetch_is_answered_by_the_webhook() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let held = gateway.fetch_call("laptop", &json!({"wait": 20})).spawn();
    gateway
        .github("issue_comment", "guid-1", &comment_on(15, 1, "a"))
        .send()
        .assert(202);
    let answer: Value = held.join().unwrap().assert(200);
    assert_eq!(answer["deliveries"].as_array().unwrap().len(), 1);
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let mut gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway
        .github("issue_comment", "guid-1", &comment_on(15, 1, "a"))
        .send()
        .assert(202);
    gateway.restart();
    let answer = gateway.fetch("laptop", &json!({}));
    assert_eq!(answer["deliveries"].as_array().unwrap().len(), 1);
    let again = gateway.github("issue_comment", "guid-1", &comment_on(15, 1, "a"));
    again.send().assert(202);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "duplicate");
}

#[test]
fn stopping_answers_a_held_fetch() {
    let mut gateway = TestGateway::start();
    let held = gateway.fetch_call("laptop", &json!({"wait": 25})).spawn();
    gateway.wait_for_lease("laptop");
    gateway.stop();
    let answer = held.join().unwrap();
    assert_eq!(answer.assert(200)["deliveries"], json!([]));
    assert_eq!(answer.header("connection"), Some("close"));
}

#[test]
fn a_second_gateway_on_the_same_root_is_refused_by_name() {
    let gateway = TestGateway::start();
    let error = gateway.second().unwrap().to_string();
    let pid = format!("(process {})", std::process::id());
    assert!(error.contains(&pid), "{error}");
    gateway.claim("laptop", 1);
}
