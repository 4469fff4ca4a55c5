//! Whether somebody else listens too.

use super::store::{bind, texts};
use super::*;
use crate::devkit::slack::{HelloPlan, Post};

const THREAD: &str = "1700000000.000100";

/// Rounds follow each other quickly; a thread is bound.
async fn world() -> World {
    let mut world = World::new();
    world.has_bot_token = true;
    world.settings.catch_up_every = Some(Duration::from_millis(10));
    world.slack.post(Post {
        ts: Some(THREAD.to_owned()),
        ..Post::top(CHANNEL, "root")
    });
    let ago = Duration::from_secs(600);
    bind(&world.store, &format!("{CHANNEL}/{THREAD}"), WORK_ITEM, ago).await;
    world
}

fn named(world: &World, name: &str) -> usize {
    world
        .records
        .all()
        .iter()
        .filter(|event| event.name() == name)
        .count()
}

async fn until_rounds(world: &World, more: usize) {
    let now = world.slack.seen().calls_of("conversations.replies");
    let passed =
        move |seen: &Seen| (seen.calls_of("conversations.replies") >= now + more).then_some(());
    world.until("rounds passed", passed).await;
}

#[actix::test]
async fn messages_that_another_listener_took_are_caught_up_suspected_and_later_cleared() {
    let world = world().await;
    let _actor = world.up(1).await;
    until_rounds(&world, 1).await;
    for text in ["taken 1", "taken 2"] {
        world.slack.post(Post::reply(CHANNEL, THREAD, text));
        until_rounds(&world, 2).await;
    }
    assert_eq!(
        named(&world, "channel.split_suspected"),
        0,
        "two are too few"
    );
    world.slack.post(Post::reply(CHANNEL, THREAD, "taken 3"));
    match world.until_recorded("channel.split_suspected").await {
        GatewayEvent::SplitSuspected { reason, count } => {
            assert_eq!((reason, count), ("missed-messages", 3));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(texts(&world.store).await, ["taken 1", "taken 2", "taken 3"]);
    match world.until_recorded("channel.split_cleared").await {
        GatewayEvent::SplitCleared { rounds } => assert_eq!(rounds, 6),
        other => panic!("{other:?}"),
    }
    assert_eq!(named(&world, "channel.split_suspected"), 1);
}

#[actix::test]
async fn messages_of_a_time_without_a_connection_are_no_sign() {
    let world = world().await;
    for number in 0..5 {
        world
            .slack
            .post(Post::reply(CHANNEL, THREAD, &number.to_string()));
    }
    let _actor = world.up(1).await;
    let committed = &world.log.committed;
    committed
        .until("they are stored", |all| (all.len() == 5).then_some(()))
        .await;
    until_rounds(&world, 3).await;
    assert_eq!(named(&world, "channel.split_suspected"), 0);
}

#[actix::test]
async fn messages_that_come_live_are_no_sign() {
    let mut world = world().await;
    world.settings.split_check_beats = 2;
    world.settings.timing.settle = Duration::from_millis(500);
    let _actor = world.up(1).await;
    for number in 0..5 {
        let text = number.to_string();
        world.slack.say(Post::reply(CHANNEL, THREAD, &text));
    }
    // By the time that the catch-up takes this one, it has looked at all of them.
    world.slack.post(Post::reply(CHANNEL, THREAD, "taken"));
    let committed = &world.log.committed;
    let six = |all: &[store::Committed]| (all.len() == 6).then_some(());
    committed.until("they are stored", six).await;
    until_rounds(&world, 3).await;
    assert_eq!(named(&world, "channel.split_suspected"), 0);
    assert_eq!(world.log.arrived.all().len(), 6);
}

#[actix::test]
async fn more_connections_than_ours_are_suspected_and_later_cleared() {
    let world = world().await;
    world.slack.greet(HelloPlan {
        num_connections: Some(3),
        ..HelloPlan::default()
    });
    let _actor = world.up(1).await;
    match world.until_recorded("channel.split_suspected").await {
        GatewayEvent::SplitSuspected { reason, count } => {
            assert_eq!((reason, count), ("connections", 3));
        }
        other => panic!("{other:?}"),
    }
    world.until_recorded("channel.split_cleared").await;
}
