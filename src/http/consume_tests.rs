use serde_json::json;

use super::*;
use crate::domain::OutcomeReason;

fn fields(body: &serde_json::Value) -> Fields {
    Fields::of_json(body.to_string().as_bytes()).unwrap()
}

#[test]
fn the_least_that_a_client_has_to_send_is_its_peer() {
    let (fetch, wait_ms) = fetch_of(fields(&json!({"peer": "p"}))).unwrap();
    assert_eq!(fetch.identity.instance.as_str(), "default");
    assert_eq!((fetch.cursor, fetch.limit), (None, 64));
    assert_eq!((fetch.lease_ms, wait_ms), (60_000, 0));
    assert!(fetch.commit.is_empty());
}

#[test]
fn spans_may_have_decimals() {
    let body = json!({"peer": "p", "wait": 0.25, "lease": 12.5});
    let (fetch, wait_ms) = fetch_of(fields(&body)).unwrap();
    assert_eq!((fetch.lease_ms, wait_ms), (12_500, 250));
}

#[test]
fn outcomes_are_read_in_their_order() {
    let body = json!({"commit": [
        {"seq": 2, "outcome": "dropped:awaiting-start", "detail": "ä".repeat(250)},
        {"seq": 1, "outcome": "released"},
    ]});
    let mut fields = fields(&body);
    let commit = commit_list(&mut fields);
    let commit = fields.finish(commit).unwrap();
    let reason = OutcomeReason::parse("awaiting-start").unwrap();
    assert_eq!(commit[0].outcome, Outcome::Dropped(reason));
    assert_eq!(commit[0].detail.as_ref().unwrap().len(), 500);
    assert_eq!((commit[1].seq, commit[1].detail.clone()), (Seq(1), None));
}

fn answer(ended: PollEnd) -> FetchAnswer {
    let fetched = Fetched {
        deliveries: Vec::new(),
        cursor: 0,
        committed: Seq(0),
        lease_ms: 60_000,
        next_due_at: None,
    };
    FetchAnswer { fetched, ended }
}

#[test]
fn only_a_wait_that_was_granted_may_be_repeated_at_once() {
    assert!(poll_after(&answer(PollEnd::WaitElapsed)) < f64::EPSILON);
    for ended in [PollEnd::Answered, PollEnd::Superseded, PollEnd::Drained] {
        let pauses: Vec<f64> = (0..100).map(|_| poll_after(&answer(ended))).collect();
        assert!(pauses.iter().all(|pause| (1.0..=5.0).contains(pause)));
        assert!(pauses.iter().any(|pause| (pause - pauses[0]).abs() > 0.1));
    }
}
