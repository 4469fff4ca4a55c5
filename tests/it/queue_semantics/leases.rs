//! An instance name belongs to one peer while its lease is live.

use serde_json::{Value, json};

use super::{gateway_claimed, gateway_with};
use crate::support::consumer::{NONE, seqs, shown};
use crate::support::{Consumer, Reply, TestGateway};

/// Every request that is made under a name, but a fetch.
fn registrations(gateway: &TestGateway, who: &Value) -> Vec<Reply> {
    let with = |more: Value| {
        let mut body = who.clone();
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        body
    };
    let claim = with(json!({"subject": "loop-github-octo-repo-9", "role": "reviewer"}));
    let binding = json!({"ref": "github:octo/repo#9", "provider": "github", "key": "octo/repo#10"});
    let binding = with(binding);
    vec![
        gateway.api("PUT", "/claims", &claim),
        gateway.api("DELETE", "/claims", &claim),
        gateway.api(
            "PUT",
            "/actors",
            &with(json!({"actors": {"github": ["a"]}})),
        ),
        gateway.api("POST", "/bindings", &binding),
        gateway.api("DELETE", "/bindings", &binding),
        gateway.api("PUT", "/rooms", &with(json!({"rooms": []}))),
    ]
}

#[test]
fn another_peer_is_told_who_holds_the_name_and_when_to_come_back() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 0, &[]);
    let reply = laptop.rival().ask(&gateway, 9, &[]);
    reply.assert_error(409, "duplicate-instance");
    let body = reply.json();
    assert_eq!(body["holder"], "laptop");
    assert_eq!(body["retryAfter"], 60);
    assert_eq!(reply.header("retry-after"), Some("60"));
    assert_eq!(body["reason"], Value::Null);
    assert!(body["since"].as_str().unwrap().ends_with('Z'));
    let fingerprint = body["fingerprint"].as_str().unwrap();
    assert!(!laptop.peer.contains(fingerprint));
    assert!(!reply.text().contains(&laptop.peer));
    // The holder is not disturbed.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
}

#[test]
fn two_peers_never_share_a_queue() {
    let (gateway, mut first) = gateway_with(4);
    let mut second = first.rival();
    let mut handed = Vec::new();
    for _ in 0..4 {
        handed.extend(seqs(&first.fetch(&gateway, 1, &[])));
        second
            .ask(&gateway, 9, &[])
            .assert_error(409, "duplicate-instance");
    }
    assert_eq!(handed, [1, 2, 3, 4]);
    // The first is gone for good: the second gets what it had in hand.
    gateway.clock.advance(61_000);
    let taken = second.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&taken), [(1, 2)]);
    first
        .ask(&gateway, 9, &[])
        .assert_error(409, "duplicate-instance");
}

#[test]
fn a_lease_is_renewed_by_each_fetch_and_each_commit() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    let rival = laptop.rival();
    laptop.fetch(&gateway, 0, &[]);
    for _ in 0..3 {
        gateway.clock.advance(50_000);
        laptop.fetch(&gateway, 0, &[]);
        gateway.clock.advance(50_000);
        laptop.commit(&gateway, &[]).assert(200);
        let refused = rival.ask(&gateway, 9, &[]);
        refused.assert_error(409, "duplicate-instance");
    }
    gateway.clock.advance(60_000);
    rival.ask(&gateway, 9, &[]).assert(200);
}

#[test]
fn a_lease_is_as_long_as_asked_within_its_bounds() {
    let (gateway, laptop) = gateway_claimed([]);
    for (asked, granted) in [(0.0, 10.0), (12.5, 12.5), (60.0, 60.0), (1e9, 300.0)] {
        let call = laptop.fetch_call(&gateway, &json!({"lease": asked}));
        let answer = call.send().assert(200);
        assert_eq!(answer["lease"]["expiresIn"], granted, "{asked}");
        let rival = laptop.rival().ask(&gateway, 9, &[]);
        let seconds = rival.json()["retryAfter"].as_f64().unwrap();
        assert_eq!(seconds, f64::ceil(granted));
    }
}

#[test]
fn a_held_poll_holds_the_name_for_the_wait_and_the_lease() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    let held = laptop.fetch_call(&gateway, &json!({"wait": 20})).spawn();
    gateway.wait_for_held_poll("laptop");
    let refused = laptop.rival().ask(&gateway, 9, &[]);
    refused.assert_error(409, "duplicate-instance");
    let seconds = refused.json()["retryAfter"].as_i64().unwrap();
    assert!((78..=80).contains(&seconds), "{seconds}");
    // Its answer writes the lease anew.
    gateway.comment(1);
    let answer = held.join().unwrap().assert(200);
    assert_eq!(answer["lease"]["expiresIn"], 60.0);
    laptop.cursor = answer["cursor"].as_i64();
    let refused = laptop.rival().ask(&gateway, 9, &[]);
    assert_eq!(refused.json()["retryAfter"], 60);
}

#[test]
fn a_lease_outlives_a_restart_of_the_gateway() {
    let (mut gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    gateway.restart();
    let refused = laptop.rival().ask(&gateway, 9, &[]);
    refused.assert_error(409, "duplicate-instance");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
}

#[test]
fn what_is_registered_under_a_name_that_another_peer_holds_is_refused() {
    let (gateway, mut laptop) = gateway_claimed([]);
    laptop.fetch(&gateway, 0, &[]);
    let rival = json!({"instance": "laptop", "peer": "rival"});
    for reply in registrations(&gateway, &rival) {
        reply.assert_error(409, "duplicate-instance");
    }
    // A live lease and a request without `peer`: nobody knows whose it is.
    for reply in registrations(&gateway, &json!({"instance": "laptop"})) {
        reply.assert_error(409, "duplicate-instance");
    }
    laptop
        .rival()
        .commit(&gateway, &[])
        .assert_error(409, "duplicate-instance");
    for reply in registrations(&gateway, &laptop.body(&json!({}))) {
        reply.assert(200);
    }
}

#[test]
fn a_name_without_a_live_lease_takes_registrations_from_anybody() {
    let (gateway, _) = gateway_claimed([]);
    for reply in registrations(&gateway, &json!({"instance": "laptop"})) {
        reply.assert(200);
    }
    // No peer, no lease: the next one who comes is the first.
    Consumer::new("laptop").ask(&gateway, 9, &[]).assert(200);
}

#[test]
fn registering_actors_with_a_peer_takes_the_lease() {
    let (gateway, laptop) = gateway_claimed([]);
    let actors = json!({"actors": {"github": ["octocat"]}});
    laptop.put(&gateway, "/actors", &actors).assert(200);
    let rival = laptop.rival();
    let refused = rival.put(&gateway, "/actors", &actors);
    refused.assert_error(409, "duplicate-instance");
    assert_eq!(refused.json()["retryAfter"], 60);
    let refused = rival.ask(&gateway, 9, &[]);
    refused.assert_error(409, "duplicate-instance");
}

#[test]
fn only_listed_names_may_ask_for_anything() {
    let gateway = TestGateway::with(|config| {
        let name = the_loop_gateway::domain::InstanceName::parse("laptop").unwrap();
        config.instances.0.insert(name);
    });
    let stranger = Consumer::new("stranger");
    for reply in registrations(&gateway, &stranger.body(&json!({}))) {
        reply.assert_error(403, "unknown-instance");
    }
    let fetch = stranger.ask(&gateway, 9, &[]);
    fetch.assert_error(403, "unknown-instance");
    let commit = stranger.commit(&gateway, &[]);
    commit.assert_error(403, "unknown-instance");
    assert_eq!(gateway.number("SELECT count(*) FROM instances"), 0);
    Consumer::new("laptop").ask(&gateway, 9, &[]).assert(200);
}
