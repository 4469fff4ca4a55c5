//! What the socket did not bring is read from the conversations.

use super::live::message;
use super::store::{Be, Mood, bind, claim, events, marks, texts};
use super::*;
use crate::devkit::slack::{OpenAnswer, Post, Refused};

const MINUTE: Duration = Duration::from_secs(60);
const THREAD: &str = "1700000000.000100";

/// A world with a bot token, whose catch-up reads after connecting only.
fn world() -> World {
    let mut world = World::new();
    world.has_bot_token = true;
    world
}

/// A thread that was bound ten minutes ago and is in the conversation.
async fn bound_thread(world: &World) {
    world.slack.post(Post {
        ts: Some(THREAD.to_owned()),
        ..Post::top(CHANNEL, "root")
    });
    bind(
        &world.store,
        &format!("{CHANNEL}/{THREAD}"),
        WORK_ITEM,
        10 * MINUTE,
    )
    .await;
}

/// Waits until so many appends are committed.
async fn until_committed(world: &World, count: usize) {
    let committed = &world.log.committed;
    committed
        .until("they are stored", |all| (all.len() >= count).then_some(()))
        .await;
}

/// Waits until the catch-up has noted so many times how far it came.
async fn until_marked(world: &World, count: usize) {
    let marked = &world.log.marked;
    marked
        .until("the marks are noted", |all| {
            (all.len() >= count).then_some(())
        })
        .await;
}

/// Waits until the catch-up has asked for so many pages.
async fn until_read(world: &World, method: &'static str, pages: usize) {
    let read = move |seen: &Seen| (seen.calls_of(method) >= pages).then_some(());
    world.until("the pages are read", read).await;
}

#[actix::test]
async fn what_was_said_while_nobody_listened_is_read_in_order_and_before_the_next_time() {
    let world = world();
    bound_thread(&world).await;
    let ts: Vec<String> = ["one", "two", "three"]
        .into_iter()
        .map(|text| world.slack.post(Post::reply(CHANNEL, THREAD, text)))
        .collect();
    let actor = world.up(1).await;
    until_committed(&world, 3).await;
    assert_eq!(texts(&world.store).await, ["one", "two", "three"]);
    let expected: Vec<String> = ts
        .iter()
        .map(|ts| format!("poll poll-slack-{CHANNEL}-{ts}"))
        .collect();
    assert_eq!(events(&world.store).await, expected);
    stop(actor).await;
    assert_eq!(
        marks(&world.store).await,
        [format!("{CHANNEL}/{THREAD} {}", ts[2])]
    );
    // The next time goes on from there.
    world.slack.post(Post::reply(CHANNEL, THREAD, "four"));
    let actor = world.up(2).await;
    until_committed(&world, 4).await;
    assert_eq!(texts(&world.store).await, ["one", "two", "three", "four"]);
    let calls = world.slack.seen().calls;
    assert_eq!(calls.last().unwrap().arguments["oldest"], ts[2]);
    stop(actor).await;
    assert_eq!(
        world.log.arrived.all().len(),
        4,
        "nothing was offered twice"
    );
}

#[actix::test]
async fn what_came_live_is_not_offered_again() {
    let world = world();
    bound_thread(&world).await;
    let actor = world.up(1).await;
    until_marked(&world, 1).await;
    world.slack.say(Post::reply(CHANNEL, THREAD, "live"));
    until_committed(&world, 1).await;
    stop(actor).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    let actor = world.up(2).await;
    until_committed(&world, 2).await;
    stop(actor).await;
    assert_eq!(texts(&world.store).await, ["live", "missed"]);
    assert_eq!(world.log.arrived.all().len(), 2);
}

#[actix::test]
async fn what_the_socket_brings_after_all_is_a_duplicate() {
    let world = world();
    bound_thread(&world).await;
    let post = Post::reply(CHANNEL, THREAD, "missed");
    let ts = world.slack.post(post.clone());
    let _actor = world.up(1).await;
    until_committed(&world, 1).await;
    world.slack.say(Post {
        ts: Some(ts),
        ..post
    });
    world
        .until("it is acked", |seen| (seen.acks.len() == 1).then_some(()))
        .await;
    assert_eq!(texts(&world.store).await, ["missed"]);
}

#[actix::test]
async fn a_restart_with_a_backlog_loses_nothing_and_doubles_nothing() {
    let world = world();
    bound_thread(&world).await;
    let actor = world.up(1).await;
    until_marked(&world, 1).await;
    world.slack.say(Post::reply(CHANNEL, THREAD, "before"));
    until_committed(&world, 1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    world.slack.say(Post::reply(CHANNEL, THREAD, "in flight"));
    let arrived = &world.log.arrived;
    arrived
        .until("it is held", |all| (all.len() == 2).then_some(()))
        .await;
    // Committed, but the process is gone before the ack could leave.
    assert!(actor.send(Kill).await.is_ok() || !actor.connected());
    world.store.send(Be(Mood::Willing)).await.unwrap();
    world
        .until("it is gone", |seen| seen.live.is_empty().then_some(()))
        .await;
    for text in ["while down 1", "while down 2"] {
        world.slack.post(Post::reply(CHANNEL, THREAD, text));
    }
    let _actor = world.connect();
    until_committed(&world, 4).await;
    world.slack.say(Post::reply(CHANNEL, THREAD, "after"));
    until_committed(&world, 5).await;
    let expected = [
        "before",
        "in flight",
        "while down 1",
        "while down 2",
        "after",
    ];
    assert_eq!(texts(&world.store).await, expected);
}

#[actix::test]
async fn threads_and_channels_are_read_page_by_page_oldest_first() {
    let mut world = world();
    let work_item = crate::domain::WorkItemRef::parse(WORK_ITEM).unwrap();
    world.declared.rooms.insert(CHANNEL.to_owned(), work_item);
    world.slack.page_size(2);
    world
        .slack
        .post(Post::top(CHANNEL, "before the first look"));
    let actor = world.up(1).await;
    until_marked(&world, 1).await;
    stop(actor).await;
    let root = world.slack.post(Post::top(CHANNEL, "top 0"));
    for number in 1..7 {
        world
            .slack
            .post(Post::top(CHANNEL, &format!("top {number}")));
    }
    bind(
        &world.store,
        &format!("T0FAKE/{CHANNEL}/{root}"),
        WORK_ITEM,
        MINUTE,
    )
    .await;
    for number in 0..7 {
        world
            .slack
            .post(Post::reply(CHANNEL, &root, &format!("reply {number}")));
    }
    let _actor = world.up(2).await;
    until_committed(&world, 14).await;
    let texts = texts(&world.store).await;
    let of = |word: &str| -> Vec<String> {
        let it = texts.iter().filter(|text| text.starts_with(word));
        it.cloned().collect()
    };
    let numbered =
        |word: &str| -> Vec<String> { (0..7).map(|number| format!("{word} {number}")).collect() };
    assert_eq!(of("top"), numbered("top"));
    assert_eq!(of("reply"), numbered("reply"));
    assert_eq!(texts.len(), 14);
}

#[actix::test]
async fn a_rate_limit_is_obeyed_and_the_round_goes_on() {
    let world = world();
    bound_thread(&world).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    let _actor = world.up(1).await;
    until_committed(&world, 1).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed too"));
    world.slack.answer_call(Refused::RateLimited(Some(1)));
    world.slack.disconnect("refresh_requested");
    until_committed(&world, 2).await;
    let calls = world.slack.seen().calls;
    let replies: Vec<_> = calls
        .iter()
        .filter(|call| call.method == "conversations.replies")
        .collect();
    assert_eq!(replies.len(), 3);
    let pause = replies[2].at.duration_since(replies[1].at);
    assert!(pause >= Duration::from_secs(1), "{pause:?}");
}

#[actix::test]
async fn what_the_store_refuses_is_read_again() {
    let world = world();
    bound_thread(&world).await;
    world.store.send(Be(Mood::Failing)).await.unwrap();
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    let _actor = world.up(1).await;
    let arrived = &world.log.arrived;
    arrived
        .until("it was refused", |all| (!all.is_empty()).then_some(()))
        .await;
    world.store.send(Be(Mood::Willing)).await.unwrap();
    until_committed(&world, 1).await;
    assert_eq!(texts(&world.store).await, ["missed"]);
    let record = world.until_recorded("gateway.error").await;
    assert!(format!("{record:?}").contains("the store is not available"));
}

#[actix::test]
async fn live_messages_go_first() {
    let world = world();
    bound_thread(&world).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    world.slack.greet(crate::devkit::slack::HelloPlan {
        at_once: false,
        ..Default::default()
    });
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let _actor = world.connect();
    world
        .until("it is connected", |seen| (seen.live == [1]).then_some(()))
        .await;
    world.slack.push(&message("live"));
    let arrived = &world.log.arrived;
    arrived
        .until("the live one is held", |all| (all.len() == 1).then_some(()))
        .await;
    world.slack.hello();
    until_read(&world, "conversations.replies", 1).await;
    assert_eq!(arrived.all().len(), 1);
    world.store.send(Be(Mood::Willing)).await.unwrap();
    until_committed(&world, 2).await;
    assert_eq!(texts(&world.store).await, ["live", "missed"]);
}

#[actix::test]
async fn one_conversation_that_cannot_be_read_does_not_keep_the_others_from_it() {
    let world = world();
    bind(&world.store, "C0GONE/1700000000.000100", WORK_ITEM, MINUTE).await;
    bound_thread(&world).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    let actor = world.up(1).await;
    until_committed(&world, 1).await;
    let record = world.until_recorded("gateway.error").await;
    assert!(
        format!("{record:?}").contains("thread_not_found of C0GONE"),
        "{record:?}"
    );
    stop(actor).await;
    assert_eq!(marks(&world.store).await.len(), 1);
}

#[actix::test]
async fn a_token_that_is_refused_is_said_once() {
    let mut world = world();
    world.settings.catch_up_every = Some(Duration::from_millis(5));
    for _ in 0..3 {
        world.slack.answer_call(Refused::Code("missing_scope"));
    }
    let _actor = world.up(1).await;
    until_read(&world, "auth.test", 4).await;
    let records = world.records.all();
    assert_eq!(records.len(), 1, "{records:?}");
}

#[actix::test]
async fn without_a_bot_token_nothing_is_read() {
    let mut world = world();
    world.has_bot_token = false;
    bound_thread(&world).await;
    let _actor = world.up(1).await;
    world.slack.disconnect("refresh_requested");
    world.until_up(2).await;
    let seen = world.slack.seen();
    assert_eq!(seen.calls.len(), seen.calls_of("apps.connections.open"));
}

#[actix::test]
async fn a_thread_bound_by_its_time_stamp_alone_is_read_once_a_live_message_told_its_channel() {
    let world = world();
    bind(&world.store, THREAD, WORK_ITEM, 10 * MINUTE).await;
    claim(&world.store, WORK_ITEM).await;
    world.slack.post(Post {
        ts: Some(THREAD.to_owned()),
        ..Post::top(CHANNEL, "root")
    });
    let actor = world.up(1).await;
    world.slack.say(Post::reply(CHANNEL, THREAD, "live"));
    until_committed(&world, 1).await;
    world
        .until("it is acked", |seen| (seen.acks.len() == 1).then_some(()))
        .await;
    stop(actor).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    let _actor = world.up(2).await;
    until_committed(&world, 2).await;
    assert_eq!(texts(&world.store).await, ["live", "missed"]);
}

#[actix::test]
async fn the_catch_up_goes_on_while_the_socket_is_down() {
    let mut world = world();
    world.settings.catch_up_every = Some(Duration::from_millis(5));
    world.settings.timing.slow_retry = Duration::from_secs(600);
    bound_thread(&world).await;
    world
        .slack
        .answer_open(OpenAnswer::Refused(Refused::Code("invalid_auth")));
    let _actor = world.connect();
    world.until_state(IngressState::Failed).await;
    world.slack.post(Post::reply(CHANNEL, THREAD, "missed"));
    until_committed(&world, 1).await;
    assert_eq!(texts(&world.store).await, ["missed"]);
}

#[actix::test]
async fn a_message_has_some_time_to_come_by_itself() {
    let mut world = world();
    world.settings.catch_up_every = Some(Duration::from_millis(5));
    world.settings.timing.settle = Duration::from_secs(600);
    bound_thread(&world).await;
    let missed = world
        .slack
        .post(Post::reply(CHANNEL, THREAD, "before the socket was up"));
    let _actor = world.up(1).await;
    until_committed(&world, 1).await;
    world
        .slack
        .post(Post::reply(CHANNEL, THREAD, "may still come"));
    let rounds = world.slack.seen().calls_of("conversations.replies");
    until_read(&world, "conversations.replies", rounds + 5).await;
    assert_eq!(texts(&world.store).await, ["before the socket was up"]);
    assert_eq!(
        marks(&world.store).await,
        [format!("{CHANNEL}/{THREAD} {missed}")]
    );
}
