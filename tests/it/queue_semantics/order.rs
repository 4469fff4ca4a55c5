//! In which order things go out, and what holds up what.

use serde_json::{Value, json};

use super::{gateway_claimed, gateway_with};
use crate::support::consumer::{NONE, all_with, seqs, shown};
use crate::support::{Consumer, TestGateway, comment_on};

/// The delivery ids of an answer, in its order.
fn ids(answer: &Value) -> Vec<String> {
    let deliveries = answer["deliveries"].as_array().unwrap().iter();
    deliveries
        .map(|delivery| delivery["event"]["deliveryId"].as_str().unwrap().to_owned())
        .collect()
}

/// A comment by somebody, as `guid-<n>`.
#[track_caller]
fn comment_by(gateway: &TestGateway, login: &str, number: u64, id: u64) {
    let body = comment_on(number, id, "go on").replace("octocat", login);
    let call = gateway.github("issue_comment", &format!("guid-{id}"), &body);
    call.send().assert(202);
}

#[test]
fn the_oldest_event_goes_out_first_and_a_subject_keeps_its_order() {
    let (gateway, mut laptop) = gateway_claimed([1, 2, 3]);
    for number in [3, 1, 3, 2, 1] {
        gateway.comment(number);
    }
    let answer = laptop.fetch(&gateway, 3, &[]);
    assert_eq!(ids(&answer), ["guid-1", "guid-2", "guid-3"]);
    // What is behind something in hand of its subject is passed over: 5 is behind 2.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [4]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(2, "delivered")])), [5]);
}

#[test]
fn a_failing_head_holds_up_its_subject_and_no_other() {
    let (gateway, mut laptop) = gateway_claimed([1, 2]);
    for number in [1, 1, 2, 1, 2] {
        gateway.comment(number);
    }
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
    let answer = laptop.fetch(&gateway, 9, &[(1, "failed")]);
    assert_eq!(seqs(&answer), [3, 5]);
    gateway.comment(1);
    gateway.comment(2);
    let next = laptop.fetch(&gateway, 9, &all_with(&answer, "delivered"));
    assert_eq!(seqs(&next), [7]);
    gateway.clock.advance(30_000);
    let again = laptop.fetch(&gateway, 9, &[(7, "delivered")]);
    assert_eq!(shown(&again), [(1, 2), (2, 1), (4, 1), (6, 1)]);
}

#[test]
fn a_dead_head_lets_its_subject_move_on_in_order() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    for _ in 0..3 {
        gateway.comment(1);
    }
    for _ in 0..3 {
        assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
        laptop.commit(&gateway, &[(1, "failed")]).assert(200);
        gateway.clock.advance(120_000);
    }
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [2, 3]);
}

#[test]
fn subjects_are_one_whatever_the_case_of_their_letters() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    gateway.comment(1);
    let body = comment_on(1, 99, "a").replace("octo/repo", "Octo/Repo");
    gateway
        .github("issue_comment", "guid-99", &body)
        .send()
        .assert(202);
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "delivered")])), [2]);
}

#[test]
fn a_batch_ends_at_the_first_delivery_that_does_not_fit() {
    let gateway = TestGateway::with(|config| config.consume.batch_bytes_max = 2_000);
    gateway.claim("laptop", 1);
    gateway.claim("laptop", 2);
    let text = |length| "x".repeat(length);
    for (id, number, length) in [(1, 1, 100), (2, 2, 5_000), (3, 1, 100), (4, 1, 100)] {
        let body = comment_on(number, id, &text(length));
        let call = gateway.github("issue_comment", &format!("guid-{id}"), &body);
        call.send().assert(202);
    }
    let mut laptop = Consumer::new("laptop");
    // The second does not fit, and nothing overtakes it.
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(seqs(&answer), [1]);
    // The first of a response always fits.
    let answer = laptop.fetch(&gateway, 9, &all_with(&answer, "delivered"));
    assert_eq!(seqs(&answer), [2]);
    let answer = laptop.fetch(&gateway, 9, &all_with(&answer, "delivered"));
    assert_eq!(seqs(&answer), [3, 4]);
}

#[test]
fn a_response_holds_at_most_what_was_asked_for_and_what_is_allowed() {
    let gateway = TestGateway::with(|config| config.consume.batch_max = 3);
    for number in 1..=8 {
        gateway.claim("laptop", number);
        gateway.comment(number);
    }
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 2, &[])), [1, 2]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 1_000, &[])), [3, 4, 5]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 0, &[])), NONE);
    assert_eq!(seqs(&laptop.fetch(&gateway, 3, &[])), [6, 7, 8]);
}

#[test]
fn deliveries_without_a_work_item_have_no_order_among_themselves() {
    let (gateway, mut laptop) = gateway_claimed([]);
    let actors = json!({"actors": {"slack": ["U0123"]}});
    laptop.put(&gateway, "/actors", &actors).assert(200);
    for number in 1..=3 {
        let payload = json!({
            "type": "view_submission",
            "team": {"id": "T0123"},
            "user": {"id": "U0123"},
            "trigger_id": format!("{number}.2.a0"),
            "view": {"id": "V1"},
        });
        let body = format!(
            "payload={}",
            form_urlencoded::byte_serialize(payload.to_string().as_bytes()).collect::<String>()
        );
        let form = "application/x-www-form-urlencoded";
        let reply = gateway.slack("interactions", form, &body).send();
        assert_eq!((reply.status, reply.body.len()), (200, 0));
    }
    let answer = laptop.fetch(&gateway, 1, &[]);
    assert_eq!(seqs(&answer), [1]);
    assert_eq!(answer["deliveries"][0]["event"]["workItem"], Value::Null);
    assert_eq!(answer["deliveries"][0]["event"]["subject"], "unassigned");
    // Neither one in hand nor one that waits for its retry holds up the others.
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [2]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "failed")])), [3]);
}

#[test]
fn an_event_that_is_routed_late_takes_its_place_among_what_is_not_handed_out_yet() {
    let (gateway, mut laptop) = gateway_claimed([]);
    let register = |who: Value| {
        let actors = json!({"actors": {"github": who}});
        laptop.put(&gateway, "/actors", &actors).assert(200)
    };
    register(json!(["ada"]));
    comment_by(&gateway, "grace", 1, 1);
    comment_by(&gateway, "ada", 1, 2);
    comment_by(&gateway, "grace", 1, 3);
    comment_by(&gateway, "ada", 1, 4);
    assert_eq!(register(json!(["ada", "grace"]))["routed"], 2);
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(ids(&answer), ["guid-1", "guid-2", "guid-3", "guid-4"]);
    assert_eq!(seqs(&answer), [3, 1, 4, 2]);
}

#[test]
fn what_was_handed_out_already_is_not_overtaken_by_a_late_one() {
    let (gateway, mut laptop) = gateway_claimed([]);
    let put = |who: Value| json!({"actors": {"github": who}});
    laptop
        .put(&gateway, "/actors", &put(json!(["ada"])))
        .assert(200);
    comment_by(&gateway, "grace", 1, 1);
    comment_by(&gateway, "ada", 1, 2);
    let first = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(ids(&first), ["guid-2"]);
    let both = put(json!(["ada", "grace"]));
    laptop.put(&gateway, "/actors", &both).assert(200);
    // Something of the subject is in hand.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    let next = laptop.fetch(&gateway, 9, &all_with(&first, "delivered"));
    assert_eq!(ids(&next), ["guid-1"]);
}

#[test]
fn a_claim_that_covers_more_than_one_piece_of_held_events_routes_them_all_in_order() {
    const HELD: u64 = 620;
    let (gateway, mut laptop) = gateway_claimed([]);
    for _ in 0..HELD {
        gateway.comment(1);
    }
    let routed = gateway.claim("laptop", 1);
    let at_once = routed["routed"].as_u64().unwrap();
    assert!((1..=500).contains(&at_once), "{at_once}");
    assert_eq!(routed["more"], true);
    // A new one takes its place behind those that are still to be routed.
    gateway.comment(1);
    let (mut got, mut done) = (Vec::new(), Vec::new());
    crate::support::gateway::wait_until("all deliveries", || {
        let answer = laptop.fetch(&gateway, 256, &done);
        done = all_with(&answer, "delivered");
        got.extend(ids(&answer));
        got.len() > usize::try_from(HELD).unwrap()
    });
    let expected: Vec<String> = (1..=HELD + 1).map(|id| format!("guid-{id}")).collect();
    assert_eq!(got, expected);
}

#[test]
fn a_retry_that_is_due_goes_before_younger_events_of_other_subjects() {
    let (gateway, mut laptop) = gateway_with(2);
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
    laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    gateway.clock.advance(30_000);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2), (2, 1)]);
}
