//! What comes over the socket: stored first, then acked.

use serde_json::json;

use super::store::{Be, Die, Mood, events, texts};
use super::*;
use crate::devkit::slack::{Envelope, Post};
use crate::domain::DropReason;

pub(super) fn message(text: &str) -> Envelope {
    let ts = format!("1700000000.{:06}", text.len());
    Envelope::message(
        CHANNEL,
        &json!({"type": "message", "user": "U1", "text": text, "ts": ts}),
    )
}

pub(super) fn messages(count: usize) -> Vec<Envelope> {
    let message = |number: usize| {
        let ts = format!("1700000000.{number:06}");
        let text = number.to_string();
        let event = json!({"type": "message", "user": "U1", "text": text, "ts": ts});
        Envelope::message(CHANNEL, &event)
    };
    (0..count).map(message).collect()
}

fn event_id(envelope: &Envelope) -> String {
    let payload: serde_json::Value = serde_json::from_str(&envelope.payload).unwrap();
    payload["event_id"].as_str().unwrap().to_owned()
}

#[actix::test]
async fn no_envelope_is_acked_before_its_commit() {
    let world = World::with_room();
    world.up(1).await;
    let envelopes = messages(50);
    for envelope in &envelopes {
        world.slack.push(envelope);
    }
    world
        .until("all are acked", |seen| {
            (seen.acks.len() == 50).then_some(())
        })
        .await;
    let committed = world.log.committed.all();
    for ack in world.slack.seen().acks {
        let envelope = envelopes
            .iter()
            .find(|one| one.envelope_id == ack.envelope_id);
        let delivery_id = event_id(envelope.unwrap());
        let commit = committed
            .iter()
            .find(|commit| commit.delivery_id == delivery_id);
        assert!(
            commit.unwrap().at <= ack.at,
            "{delivery_id} acked before its commit"
        );
    }
}

#[actix::test]
async fn an_envelope_is_not_acked_while_the_store_has_not_answered() {
    let world = World::with_room();
    world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let held = message("held");
    world.slack.push(&held);
    world
        .log
        .arrived
        .until("the store has it", |all| all.first().cloned())
        .await;
    // Decided at once, and behind the other one: its ack shows that the other's is withheld.
    let suggestion = Envelope::suggestion();
    world.slack.push(&suggestion);
    world.until_acked(&suggestion).await;
    assert!(!world.slack.seen().is_acked(&held.envelope_id));
    world.store.send(Be(Mood::Willing)).await.unwrap();
    assert_eq!(world.until_acked(&held).await, 1);
}

#[actix::test]
async fn an_envelope_is_not_acked_when_the_store_dies() {
    let world = World::with_room();
    world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let held = message("held");
    world.slack.push(&held);
    world
        .log
        .arrived
        .until("the store has it", |all| all.first().cloned())
        .await;
    assert!(world.store.send(Die).await.is_ok() || !world.store.connected());
    let (late, suggestion) = (message("too late"), Envelope::suggestion());
    world.slack.push_all(&[late.clone(), suggestion.clone()]);
    world.until_acked(&suggestion).await;
    let acks = world.slack.seen().acks;
    assert_eq!(acks.len(), 1, "{acks:?}");
}

#[actix::test]
async fn what_a_failing_store_refused_is_stored_and_acked_as_a_retry_in_a_new_envelope() {
    let world = World::with_room();
    world.up(1).await;
    world.store.send(Be(Mood::Failing)).await.unwrap();
    let first = message("m");
    world.slack.push(&first);
    world
        .log
        .arrived
        .until("the store has it", |all| all.first().cloned())
        .await;
    world.store.send(Be(Mood::Willing)).await.unwrap();
    let retry = first.retried(1, "timeout");
    world.slack.push(&retry);
    world.until_acked(&retry).await;
    assert!(!world.slack.seen().is_acked(&first.envelope_id));
    assert_eq!(
        events(&world.store).await,
        [format!("socket {}", event_id(&first))]
    );
}

#[actix::test]
async fn a_retry_of_what_is_stored_is_acked_and_not_stored_again() {
    let world = World::with_room();
    world.up(1).await;
    let first = message("m");
    let retry = first.retried(1, "timeout");
    world.slack.push(&first);
    world.until_acked(&first).await;
    world.slack.push(&retry);
    world.until_acked(&retry).await;
    assert_eq!(events(&world.store).await.len(), 1);
}

#[actix::test]
async fn ten_envelopes_in_one_read_are_stored_in_their_order_and_acked() {
    let world = World::with_room();
    world.up(1).await;
    let envelopes = messages(10);
    world.slack.push_all(&envelopes);
    world
        .until("all are acked", |seen| {
            (seen.acks.len() == 10).then_some(())
        })
        .await;
    let expected: Vec<String> = envelopes
        .iter()
        .map(|envelope| format!("socket {}", event_id(envelope)))
        .collect();
    assert_eq!(events(&world.store).await, expected);
}

#[actix::test]
async fn frames_over_64_kib_and_messages_in_pieces_arrive_whole() {
    let world = World::with_room();
    world.up(1).await;
    let large = message(&"x".repeat(300_000));
    let pieces = message(&"y".repeat(200_000));
    world.slack.push(&large);
    world.slack.push_in_pieces(&pieces, 10_000);
    world.until_acked(&large).await;
    world.until_acked(&pieces).await;
    let lengths: Vec<usize> = texts(&world.store).await.iter().map(String::len).collect();
    assert_eq!(lengths, [300_000, 200_000]);
    assert_eq!(world.slack.seen().opened, 1);
}

#[actix::test]
async fn what_is_no_envelope_is_skipped_and_never_acked() {
    let world = World::with_room();
    world.up(1).await;
    for text in [
        "",
        "hello",
        "null",
        "[1]",
        "{",
        "{}",
        "{\"type\":\"news\"}",
        "\u{0}",
    ] {
        world.slack.push_text(text);
    }
    world.slack.hello();
    let suggestion = Envelope::suggestion();
    world.slack.push(&suggestion);
    world.until_acked(&suggestion).await;
    let seen = world.slack.seen();
    assert_eq!(
        (seen.acks.len(), seen.strange_frames, seen.opened),
        (1, 0, 1)
    );
}

#[actix::test]
async fn what_is_not_stored_is_acked_too_and_recorded() {
    let world = World::new();
    world.up(1).await;
    let malformed = Envelope::new("events_api", "[]".to_owned());
    let unknown = Envelope::new("carrier_pigeon", "{}".to_owned());
    world.slack.push_all(&[malformed.clone(), unknown.clone()]);
    world.until_acked(&malformed).await;
    world.until_acked(&unknown).await;
    let reasons: Vec<DropReason> = world
        .records
        .all()
        .iter()
        .filter_map(|event| match event {
            GatewayEvent::Dropped { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons,
        [DropReason::InvalidPayload, DropReason::NoWorkItem]
    );
    assert!(world.log.arrived.all().is_empty());
}

#[actix::test]
async fn an_ack_is_bare_but_for_suggestions() {
    let world = World::with_room();
    world.up(1).await;
    let (button, suggestion) = (Envelope::button(CHANNEL, "1.2"), Envelope::suggestion());
    world.slack.push_all(&[button.clone(), suggestion.clone()]);
    world.until_acked(&button).await;
    world.until_acked(&suggestion).await;
    let payload = |envelope: &Envelope| {
        let acks = world.slack.seen().acks;
        let ack = acks
            .into_iter()
            .find(|ack| ack.envelope_id == envelope.envelope_id);
        ack.unwrap().payload
    };
    assert_eq!(payload(&button), None);
    assert_eq!(payload(&suggestion), Some(json!({"options": []})));
}

#[actix::test]
async fn a_heartbeat_is_recorded_and_acked_and_never_stored() {
    let world = World::with_room();
    world.up(1).await;
    let ts = world.slack.say(Post {
        bot_id: Some("B1".to_owned()),
        ..Post::top(CHANNEL, "the-loop doctor heartbeat 0123456789abcdef")
    });
    world
        .until("it is acked", |seen| (seen.acks.len() == 1).then_some(()))
        .await;
    match world.until_recorded("channel.heartbeat").await {
        GatewayEvent::Heartbeat {
            channel_id,
            ts: at,
            nonce,
        } => {
            assert_eq!(
                (channel_id.as_str(), at, nonce.as_str()),
                (CHANNEL, ts, "0123456789abcdef")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(world.log.arrived.all().is_empty());
}

#[actix::test]
async fn no_more_is_read_than_may_be_in_flight() {
    let world = World::with_room();
    world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    world.slack.push_all(&messages(300));
    let arrived = &world.log.arrived;
    arrived
        .until("the bound is reached", |all| {
            (all.len() == 256).then_some(())
        })
        .await;
    // A state that only moves when the actor runs: it had its turns, and read nothing more.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(arrived.all().len(), 256);
    world.store.send(Be(Mood::Willing)).await.unwrap();
    world
        .until("all are acked", |seen| {
            (seen.acks.len() == 300).then_some(())
        })
        .await;
    let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(texts(&world.store).await, expected);
}
