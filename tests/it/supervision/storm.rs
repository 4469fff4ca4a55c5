//! Reloads in the middle of everything.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use the_loop_gateway::devkit::slack::Envelope;

use crate::support::comment_on;
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, LiveGateway, env, secret};

const CHANNEL: &str = "C0ROOM";
const ENVELOPES: u64 = 1_000;
const SENDERS: u64 = 64;
const ROUNDS: u64 = 6;
const ON: [&str; 2] = ["github-webhook", "slack-socket"];

/// Scenario: 1,000 envelopes and 64 webhook senders while the file changes all the time, now and
/// then so that the socket is replaced.
#[test]
fn what_is_acked_is_stored_whatever_is_edited_meanwhile() {
    let fakes = Fakes::start();
    let gateway = LiveGateway::start(&config(&fakes, 0), &env(&[]));
    gateway.wait_for_exactly(&ON);
    let is_over = AtomicBool::new(false);
    let envelopes: Vec<Envelope> = (0..ENVELOPES).map(envelope).collect();
    let accepted: BTreeSet<String> = std::thread::scope(|scope| {
        let editor = scope.spawn(|| edit(&gateway, &fakes, &is_over));
        let talker = scope.spawn(|| talk(&fakes, &envelopes));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                scope.spawn({
                    let gateway = &gateway;
                    move || send(gateway, sender)
                })
            })
            .collect();
        let accepted = senders
            .into_iter()
            .flat_map(|sender| sender.join().unwrap());
        let accepted: BTreeSet<String> = accepted.collect();
        talker.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert!(editor.join().unwrap() > 10);
        accepted
    });
    let seen = fakes.assert_never_two();
    let acked: BTreeSet<String> = seen.acks.into_iter().map(|ack| ack.envelope_id).collect();
    assert!(envelopes.iter().all(|one| acked.contains(&one.envelope_id)));
    let stored = gateway.stored();
    let distinct: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(stored.len(), distinct.len());
    assert_eq!(u64::try_from(accepted.len()).unwrap(), SENDERS * ROUNDS);
    assert!(accepted.is_subset(&distinct));
    let by_socket = gateway.texts("SELECT delivery_id FROM events WHERE provider = 'slack'");
    assert_eq!(u64::try_from(by_socket.len()).unwrap(), ENVELOPES);
    assert_eq!(stored.len(), by_socket.len() + accepted.len());
}

/// Each edit differs from the last; every eighth replaces the socket, every third declares another
/// room.
fn config(fakes: &Fakes, edit: u64) -> String {
    let more = format!(
        "  rooms: [{{channel: {CHANNEL}, ref: 'github:octo/repo#1'}}, {{channel: C{}, ref: 'standing:a'}}]
instances: []
store: {{maxAttempts: {}}}",
        edit / 3,
        3 + edit % 2,
    );
    let socket = format!("catchUpSeconds: 0, splitCheckBeats: {}", 3 + (edit / 8) % 2);
    fakes
        .config(&ON, &more)
        .replace("catchUpSeconds: 0", &socket)
}

fn edit(gateway: &LiveGateway, fakes: &Fakes, is_over: &AtomicBool) -> u64 {
    let edits = AtomicU64::new(0);
    while !is_over.load(Ordering::Relaxed) {
        let edit = edits.fetch_add(1, Ordering::Relaxed) + 1;
        gateway.edit(&config(fakes, edit));
        std::thread::park_timeout(Duration::from_millis(50));
    }
    wait_until("the last edit", || {
        gateway.records("config.reloaded").len() > 10
    });
    edits.into_inner()
}

fn envelope(number: u64) -> Envelope {
    let ts = format!("1700000000.{number:06}");
    let message = serde_json::json!({
        "type": "message", "user": "U0FAKE", "text": number.to_string(), "ts": ts,
    });
    Envelope::message(CHANNEL, &message)
}

/// Sends every envelope until it is acked, as Slack does.
fn talk(fakes: &Fakes, envelopes: &[Envelope]) {
    for some in envelopes.chunks(20) {
        fakes.slack.push_all(some);
        std::thread::park_timeout(Duration::from_millis(40));
    }
    wait_until("all acks", || {
        let seen = fakes.slack.seen();
        let acked: BTreeSet<&str> = seen
            .acks
            .iter()
            .map(|ack| ack.envelope_id.as_str())
            .collect();
        let missing: Vec<Envelope> = envelopes
            .iter()
            .filter(|one| !acked.contains(one.envelope_id.as_str()))
            .cloned()
            .collect();
        if !missing.is_empty() {
            fakes.slack.push_all(&missing);
            std::thread::park_timeout(Duration::from_millis(200));
        }
        missing.is_empty()
    });
}

/// Sends some comments; returns the ids of those that were accepted.
fn send(gateway: &LiveGateway, sender: u64) -> Vec<String> {
    let secret = secret("THE_LOOP_GH_WEBHOOK_SECRET");
    let send = |round| {
        let id = sender * ROUNDS + round + 1;
        let guid = format!("guid-{id}");
        let call = gateway.github(secret, &guid, &comment_on(sender + 1, id, "hello"));
        let is_accepted = call.send().status == 202;
        std::thread::park_timeout(Duration::from_millis(200));
        is_accepted.then_some(guid)
    };
    (0..ROUNDS).filter_map(send).collect()
}
