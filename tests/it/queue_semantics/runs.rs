//! Of one peer the newest process holds the name, and the older one is told.

use serde_json::json;

use super::{gateway_claimed, gateway_with};
use crate::support::consumer::{NONE, seqs, shown};
use crate::support::{Consumer, Reply};

#[track_caller]
fn assert_superseded(reply: &Reply) {
    reply.assert_error(409, "duplicate-instance");
    assert_eq!(reply.json()["reason"], "superseded", "{}", reply.text());
}

#[test]
fn a_restart_is_never_refused() {
    let (gateway, mut laptop) = gateway_with(1);
    for run in ["a", "b", "c"] {
        laptop = laptop.restarted(run);
        laptop.fetch(&gateway, 0, &[]);
    }
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
}

#[test]
fn two_processes_with_one_peer_file_show_at_once() {
    let (gateway, mut first) = gateway_with(2);
    assert_eq!(seqs(&first.fetch(&gateway, 1, &[])), [1]);
    let mut second = first.restarted("run-2");
    // What the first has in hand is taken back at once: alone in its hands, so it is a strike.
    assert_eq!(shown(&second.fetch(&gateway, 9, &[])), [(1, 2), (2, 1)]);
    for _ in 0..3 {
        assert_superseded(&first.ask(&gateway, 9, &[]));
        second.fetch(&gateway, 0, &[]);
    }
    assert_eq!(gateway.number("SELECT count(*) FROM superseded_runs"), 1);
}

#[test]
fn a_poll_of_a_run_that_is_taken_over_is_answered_superseded() {
    let (gateway, old) = gateway_claimed([1]);
    let held = old.fetch_call(&gateway, &json!({"wait": 25})).spawn();
    gateway.wait_for_held_poll("laptop");
    let mut new = old.restarted("run-2");
    new.fetch(&gateway, 9, &[]);
    assert_superseded(&held.join().unwrap());
    gateway.comment(1);
    assert_eq!(seqs(&new.fetch(&gateway, 9, &[])), [1]);
}

#[test]
fn outcomes_of_a_superseded_run_count_and_renew_nothing() {
    let (gateway, mut old) = gateway_with(2);
    old.fetch(&gateway, 9, &[]);
    let mut new = old.restarted("run-2");
    assert_eq!(shown(&new.fetch(&gateway, 9, &[])), [(1, 2)]);
    gateway.clock.advance(20_000);
    let answer = old.commit(&gateway, &[(1, "delivered"), (2, "spawned")]);
    assert_eq!(answer.assert(200)["committed"], 2);
    assert_eq!(seqs(&new.fetch(&gateway, 9, &[])), NONE);
    gateway.clock.advance(50_000);
    old.commit(&gateway, &[]).assert(200);
    gateway.clock.advance(10_001);
    new.rival().ask(&gateway, 9, &[]).assert(200);
}

#[test]
fn nothing_but_outcomes_counts_of_a_superseded_run() {
    let (gateway, mut old) = gateway_claimed([]);
    old.fetch(&gateway, 0, &[]);
    let mut new = old.restarted("run-2");
    new.fetch(&gateway, 0, &[]);
    let claim = json!({"subject": "loop-github-octo-repo-1", "role": "driver"});
    assert_superseded(&old.put(&gateway, "/claims", &claim));
    assert_superseded(&old.put(&gateway, "/actors", &json!({"actors": {}})));
    assert_superseded(&old.put(&gateway, "/rooms", &json!({"rooms": []})));
    let binding = json!({"ref": "github:octo/repo#1", "provider": "github", "key": "octo/repo#2"});
    let binding = old.body(&binding);
    assert_superseded(&gateway.api("POST", "/bindings", &binding));
    assert_superseded(&gateway.api("DELETE", "/bindings", &binding));
    assert_superseded(&gateway.api("DELETE", "/claims", &old.body(&claim)));
    // A fetch of it carries outcomes too, and is refused whole.
    assert_superseded(&old.ask(&gateway, 9, &[(1, "delivered")]));
}

#[test]
fn a_failure_of_a_superseded_run_does_not_touch_what_the_new_one_has_in_hand() {
    let (gateway, mut old) = gateway_with(1);
    old.fetch(&gateway, 9, &[]);
    let mut new = old.restarted("run-2");
    assert_eq!(shown(&new.fetch(&gateway, 9, &[])), [(1, 2)]);
    old.commit(&gateway, &[(1, "failed")]).assert(200);
    let settled = new.commit(&gateway, &[(1, "delivered")]);
    assert_eq!(settled.assert(200)["committed"], 1);
    assert_eq!(
        gateway.texts("SELECT outcome FROM deliveries"),
        ["delivered"]
    );
}

#[test]
fn registering_actors_with_a_new_run_takes_over_and_the_next_fetch_takes_back() {
    let (gateway, mut old) = gateway_with(1);
    old.fetch(&gateway, 9, &[]);
    let mut new = old.restarted("run-2");
    let actors = json!({"actors": {"github": ["octocat"]}});
    new.put(&gateway, "/actors", &actors).assert(200);
    assert_eq!(gateway.number("SELECT state FROM deliveries"), 1);
    assert_superseded(&old.ask(&gateway, 9, &[]));
    assert_eq!(shown(&new.fetch(&gateway, 9, &[])), [(1, 2)]);
}

#[test]
fn the_last_sixteen_runs_that_were_taken_over_are_remembered() {
    let (gateway, first) = gateway_claimed([]);
    let names: Vec<String> = (0..18).map(|number| format!("run-{number}")).collect();
    for name in &names {
        first.restarted(name).fetch(&gateway, 0, &[]);
    }
    for name in &names[1..17] {
        assert_superseded(&first.restarted(name).ask(&gateway, 0, &[]));
    }
    // Nobody remembers the very first, so it looks like a restart.
    first.restarted(&names[0]).ask(&gateway, 0, &[]).assert(200);
}

#[test]
fn a_lapsed_lease_alone_changes_nothing_for_the_same_run() {
    let (gateway, mut laptop) = gateway_with(2);
    assert_eq!(seqs(&laptop.fetch(&gateway, 1, &[])), [1]);
    gateway.clock.advance(3_000_000);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [2]);
    let answer = laptop.fetch(&gateway, 9, &[(1, "delivered"), (2, "delivered")]);
    assert_eq!(answer["committed"], 2);
}

#[test]
fn a_run_that_was_taken_over_may_come_back_once_the_lease_of_the_newer_one_has_lapsed() {
    let (gateway, mut old) = gateway_with(1);
    old.fetch(&gateway, 0, &[]);
    old.restarted("run-2").fetch(&gateway, 0, &[]);
    assert_superseded(&old.ask(&gateway, 9, &[]));
    gateway.clock.advance(61_000);
    assert_eq!(seqs(&old.fetch(&gateway, 9, &[])), [1]);
}

#[test]
fn a_client_without_a_run_gets_back_what_it_did_not_commit() {
    let (gateway, _) = gateway_with(2);
    let plain = Consumer::plain("laptop");
    assert_eq!(shown(&plain.lose(&gateway, 1, &[])), [(1, 1)]);
    assert_eq!(shown(&plain.lose(&gateway, 9, &[])), [(1, 2), (2, 1)]);
    let answer = plain.lose(&gateway, 9, &[(1, "delivered"), (2, "delivered")]);
    assert_eq!(seqs(&answer), NONE);
    assert_eq!(answer["committed"], 2);
}

#[test]
fn a_client_without_a_run_that_echoes_its_cursor_keeps_what_it_has_in_hand() {
    let (gateway, _) = gateway_with(3);
    let mut plain = Consumer::plain("laptop");
    assert_eq!(shown(&plain.fetch(&gateway, 1, &[])), [(1, 1)]);
    assert_eq!(shown(&plain.fetch(&gateway, 1, &[])), [(2, 1)]);
    assert_eq!(
        shown(&plain.fetch(&gateway, 1, &[(1, "spawned")])),
        [(3, 1)]
    );
    // A cursor of 0 says that it has started again.
    plain.cursor = Some(0);
    assert_eq!(shown(&plain.fetch(&gateway, 9, &[])), [(2, 2)]);
}

#[test]
fn a_client_without_a_run_that_goes_back_to_an_older_cursor_has_started_again() {
    let (gateway, _) = gateway_with(3);
    let mut plain = Consumer::plain("laptop");
    plain.fetch(&gateway, 1, &[]);
    let older = plain.clone();
    plain.fetch(&gateway, 1, &[]);
    plain.fetch(&gateway, 0, &[]);
    let again = older.lose(&gateway, 9, &[]);
    assert_eq!(shown(&again), [(1, 2)]);
}

#[test]
fn outside_fetch_no_run_means_the_present_one() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let plain = Consumer::plain("laptop");
    plain.commit(&gateway, &[(1, "failed")]).assert(200);
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 1);
    plain
        .put(&gateway, "/rooms", &json!({"rooms": []}))
        .assert(200);
    // It took nothing over.
    laptop.ask(&gateway, 9, &[]).assert(200);
}
