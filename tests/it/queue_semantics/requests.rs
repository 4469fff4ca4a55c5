//! What a fetch and a commit may say.

use serde_json::{Value, json};

use super::{gateway_claimed, gateway_with};
use crate::support::TestGateway;
use crate::support::consumer::{NONE, seqs};

#[track_caller]
fn assert_names(gateway: &TestGateway, path: &str, body: &Value, field: &str) {
    let reply = gateway.api("POST", path, body);
    reply.assert_error(422, "invalid-field");
    let fields = reply.json()["fields"].clone();
    let named: Vec<&str> = fields
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["field"].as_str().unwrap())
        .collect();
    assert_eq!(named, [field], "{body}");
}

fn with(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[field] = value;
    body
}

#[test]
fn a_fetch_says_no_more_than_its_peer() {
    let gateway = TestGateway::start();
    let answer = gateway.api("POST", "/fetch", &json!({"peer": "p"}));
    let answer = answer.assert(200);
    assert_eq!(answer["deliveries"], json!([]));
    assert_eq!(
        (&answer["cursor"], &answer["committed"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(answer["lease"], json!({"expiresIn": 60.0}));
    // Who names no instance is `default`, and asks for 64 at most.
    assert_eq!(gateway.texts("SELECT name FROM instances"), ["default"]);
    assert_names(&gateway, "/fetch", &json!({}), "peer");
}

#[test]
fn a_fetch_asks_for_64_at_most_unless_it_says_otherwise() {
    let (gateway, laptop) = gateway_claimed(1..=70);
    for number in 1..=70 {
        gateway.comment(number);
    }
    let body = json!({"instance": "laptop", "peer": laptop.peer});
    let answer = gateway.api("POST", "/fetch", &body).assert(200);
    assert_eq!(seqs(&answer).len(), 64);
}

#[test]
fn numbers_out_of_range_are_clamped() {
    let (gateway, laptop) = gateway_with(3);
    for (field, value) in [
        ("lease", json!(1e18)),
        ("lease", json!(0)),
        ("max", json!(0)),
        ("cursor", json!(9_007_199_254_740_991_i64)),
    ] {
        let call = laptop.fetch_call(&gateway, &json!({"max": 0, field: value}));
        call.send().assert(200);
    }
    let call = laptop.fetch_call(&gateway, &json!({"max": 1_000_000_000_000_i64}));
    assert_eq!(seqs(&call.send().assert(200)), [1, 2, 3]);
}

#[test]
fn decimals_are_allowed_in_spans() {
    let (gateway, laptop) = gateway_claimed([]);
    let more = json!({"wait": 0.05, "lease": 10.25});
    let answer = laptop.fetch_call(&gateway, &more).send().assert(200);
    assert_eq!(answer["lease"]["expiresIn"], 10.25);
    // The wait was granted, if only a short one.
    assert_eq!(answer["pollAfter"], 0.0);
}

#[test]
fn what_is_negative_or_not_a_number_is_refused_by_name() {
    let gateway = TestGateway::start();
    let body = json!({"instance": "laptop", "peer": "p"});
    for field in ["max", "wait", "lease", "cursor"] {
        for wrong in [json!(-1), json!("1"), json!([]), json!({}), json!(true)] {
            assert_names(&gateway, "/fetch", &with(&body, field, wrong), field);
        }
    }
    for field in ["max", "cursor"] {
        assert_names(&gateway, "/fetch", &with(&body, field, json!(1.5)), field);
    }
    assert_eq!(gateway.number("SELECT count(*) FROM instances"), 0);
}

#[test]
fn a_name_that_is_no_name_is_refused_by_name() {
    let gateway = TestGateway::start();
    let body = json!({"instance": "laptop", "peer": "p", "run": "r", "commit": []});
    let long = "a".repeat(129);
    for field in ["instance", "peer", "run"] {
        for wrong in ["", "-a", ".a", "a b", "a/b", "\u{e4}", "a\0", &long] {
            for path in ["/fetch", "/commit"] {
                assert_names(&gateway, path, &with(&body, field, json!(wrong)), field);
            }
        }
        let right = with(&body, field, json!("A1._-".repeat(25)));
        gateway.api("POST", "/commit", &right).assert(200);
    }
}

#[test]
fn an_outcome_that_is_none_is_refused_by_its_place() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let long_reason = format!("dropped:{}", "a".repeat(65));
    for wrong in [
        "",
        "done",
        "Delivered",
        "dropped",
        "dropped:",
        "dropped:-a",
        "dropped:A",
        "dropped:a b",
        &long_reason,
    ] {
        let commit = json!([{"seq": 1, "outcome": "delivered"}, {"seq": 1, "outcome": wrong}]);
        let body = laptop.body(&json!({"commit": commit}));
        assert_names(&gateway, "/commit", &body, "commit[1].outcome");
    }
    for (commit, field) in [
        (json!({}), "commit"),
        (json!(["delivered"]), "commit[0]"),
        (json!([{"outcome": "delivered"}]), "commit[0].seq"),
        (
            json!([{"seq": "1", "outcome": "delivered"}]),
            "commit[0].seq",
        ),
        (
            json!([{"seq": 1.5, "outcome": "delivered"}]),
            "commit[0].seq",
        ),
        (json!([{"seq": 1}]), "commit[0].outcome"),
        (
            json!([{"seq": 1, "outcome": "failed", "detail": "x".repeat(501)}]),
            "commit[0].detail",
        ),
        (
            json!([{"seq": 1, "outcome": "failed", "detail": 1}]),
            "commit[0].detail",
        ),
    ] {
        let body = laptop.body(&json!({"commit": commit}));
        assert_names(&gateway, "/fetch", &body, field);
    }
    assert_eq!(gateway.number("SELECT state FROM deliveries"), 1);
}

#[test]
fn ten_thousand_outcomes_fit_in_a_request_and_no_more() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let commits = |count| -> Value {
        let one = json!({"seq": 1, "outcome": "delivered"});
        std::iter::repeat_n(one, count).collect()
    };
    let body = laptop.body(&json!({"commit": commits(10_001)}));
    assert_names(&gateway, "/commit", &body, "commit");
    let body = laptop.body(&json!({"commit": commits(10_000)}));
    let answer = gateway.api("POST", "/commit", &body).assert(200);
    assert_eq!(answer["committed"], 1);
}

#[test]
fn fields_that_nobody_knows_are_ignored() {
    let (gateway, laptop) = gateway_with(1);
    let call = laptop.fetch_call(&gateway, &json!({"subject": 1, "Max": "a", "color": null}));
    assert_eq!(seqs(&call.send().assert(200)), [1]);
}

#[test]
fn max_0_commits_and_renews_and_hands_out_nothing_at_once() {
    let (gateway, mut laptop) = gateway_with(2);
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
    let more = json!({
        "max": 0,
        "wait": 25,
        "commit": [{"seq": 1, "outcome": "delivered"}],
    });
    let answer = laptop.fetch_call(&gateway, &more).send().assert(200);
    assert_eq!(seqs(&answer), NONE);
    assert_eq!(answer["committed"], 1);
    assert_eq!(answer["cursor"], laptop.cursor.unwrap());
    let poll_after = answer["pollAfter"].as_f64().unwrap();
    assert!((1.0..=5.0).contains(&poll_after), "{poll_after}");
}
