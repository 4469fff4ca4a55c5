//! From one connection to the next: `hello`, refresh, order to stop; never two at once.

use super::live::{message, messages};
use super::store::{Be, Mood, events};
use super::*;
use crate::devkit::slack::{Envelope, HelloPlan};

/// Waits until the store has so many appends that it does not answer.
async fn until_held(world: &World, count: usize) {
    let arrived = &world.log.arrived;
    arrived
        .until("the store holds them", |all| {
            (all.len() == count).then_some(())
        })
        .await;
}

#[actix::test]
async fn up_means_that_hello_came() {
    let world = World::new();
    world.slack.greet(HelloPlan {
        at_once: false,
        ..HelloPlan::default()
    });
    world.connect();
    world
        .until("it is connected", |seen| (seen.live == [1]).then_some(()))
        .await;
    let states = |world: &World| -> Vec<IngressState> {
        world
            .states
            .all()
            .iter()
            .map(|change| change.state)
            .collect()
    };
    assert_eq!(states(&world), [IngressState::Connecting]);
    world.slack.hello();
    world.until_state(IngressState::Up).await;
    assert_eq!(states(&world), [IngressState::Connecting, IngressState::Up]);
}

#[actix::test]
async fn a_refresh_closes_the_old_connection_before_it_opens_the_next() {
    let world = World::new();
    let _actor = world.up(1).await;
    for (number, reason) in [(2, "refresh_requested"), (3, "warning")] {
        world.slack.disconnect(reason);
        world.until_up(number).await;
        let seen = world.slack.seen();
        assert_eq!((seen.live_max, seen.opened), (1, number), "{reason}");
        assert_eq!(seen.closed_well, usize::try_from(number).unwrap() - 1);
        assert_eq!(
            seen.calls_of("apps.connections.open"),
            usize::try_from(number).unwrap()
        );
    }
    let errors: Vec<_> = world
        .states
        .all()
        .into_iter()
        .filter_map(|change| change.error)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[actix::test]
async fn appends_in_flight_at_a_refresh_get_their_acks_on_the_old_connection() {
    let world = World::with_room();
    let _actor = world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let envelopes = messages(5);
    world.slack.push_all(&envelopes);
    until_held(&world, 5).await;
    world.slack.disconnect("refresh_requested");
    let fetched = |seen: &Seen| (seen.calls_of("apps.connections.open") == 2).then_some(());
    world.until("the next url is fetched", fetched).await;
    world.store.send(Be(Mood::Willing)).await.unwrap();
    for envelope in &envelopes {
        assert_eq!(world.until_acked(envelope).await, 1);
    }
    world.until_up(2).await;
    assert_eq!(world.slack.seen().live_max, 1);
}

#[actix::test]
async fn a_refresh_does_not_wait_forever_and_what_is_late_is_stored_but_not_acked() {
    let mut world = World::with_room();
    world.settings.timing.drain_max = Duration::from_millis(20);
    let _actor = world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let late = message("late");
    world.slack.push(&late);
    until_held(&world, 1).await;
    world.slack.disconnect("refresh_requested");
    world.until_up(2).await;
    world.store.send(Be(Mood::Willing)).await.unwrap();
    let suggestion = Envelope::suggestion();
    world.slack.push(&suggestion);
    assert_eq!(world.until_acked(&suggestion).await, 2);
    assert_eq!(events(&world.store).await.len(), 1);
    assert!(!world.slack.seen().is_acked(&late.envelope_id));
    assert_eq!(world.slack.seen().live_max, 1);
}

#[actix::test]
async fn the_old_connection_serves_until_the_next_url_is_there() {
    use crate::devkit::slack::{OpenAnswer, Refused};
    let mut world = World::with_room();
    world.settings.timing.backoff_max = Duration::from_secs(60);
    world.settings.timing.backoff_min = Duration::from_secs(60);
    let _actor = world.up(1).await;
    world
        .slack
        .answer_open(OpenAnswer::Refused(Refused::Status(503)));
    world.slack.disconnect("warning");
    let asked = |seen: &Seen| (seen.calls_of("apps.connections.open") == 2).then_some(());
    world.until("the url was asked for", asked).await;
    let envelope = message("still served");
    world.slack.push(&envelope);
    assert_eq!(world.until_acked(&envelope).await, 1);
}

#[actix::test]
async fn with_overlap_the_next_connection_opens_first_and_each_acks_its_own() {
    let mut world = World::with_room();
    world.settings.overlap_on_refresh = true;
    let _actor = world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let (old, new) = (message("old"), message("newer"));
    world.slack.push(&old);
    until_held(&world, 1).await;
    world.slack.disconnect("refresh_requested");
    world
        .until("both are open", |seen| (seen.live == [1, 2]).then_some(()))
        .await;
    world.slack.push_over(2, &new);
    until_held(&world, 2).await;
    world.store.send(Be(Mood::Willing)).await.unwrap();
    assert_eq!(world.until_acked(&old).await, 1);
    assert_eq!(world.until_acked(&new).await, 2);
    world.until_up(2).await;
    let seen = world.slack.seen();
    assert_eq!((seen.live_max, seen.closed_well), (2, 1));
}

#[actix::test]
async fn an_overlapped_refresh_is_no_sign_of_another_listener() {
    let mut world = World::new();
    world.settings.overlap_on_refresh = true;
    let _actor = world.up(1).await;
    world.slack.disconnect("refresh_requested");
    world.until_up(2).await;
    let names: Vec<_> = world.records.all().iter().map(GatewayEvent::name).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[actix::test]
async fn too_many_websockets_closes_first_and_comes_back_slowly() {
    let mut world = World::new();
    world.settings.timing.slow_retry = Duration::from_millis(300);
    world.settings.timing.backoff_max = Duration::from_millis(1);
    let _actor = world.up(1).await;
    world.slack.disconnect("too_many_websockets");
    let error = world.until_was(IngressState::BackingOff).await;
    assert_eq!(error.as_deref(), Some("disconnect: too_many_websockets"));
    let told = SystemClock.instant();
    world.until_up(2).await;
    assert!(told.elapsed() >= Duration::from_millis(100), "not slow");
    let seen = world.slack.seen();
    assert_eq!((seen.live_max, seen.closed_well), (1, 1));
}

#[actix::test]
async fn a_disabled_link_is_reported_as_failed_and_tried_slowly() {
    let mut world = World::new();
    world.settings.timing.slow_retry = Duration::from_millis(300);
    world.settings.timing.backoff_max = Duration::from_millis(1);
    let _actor = world.up(1).await;
    world.slack.disconnect("link_disabled");
    let error = world.until_was(IngressState::Failed).await;
    assert_eq!(error.as_deref(), Some("disconnect: link_disabled"));
    let told = SystemClock.instant();
    world.until_up(2).await;
    assert!(told.elapsed() >= Duration::from_millis(100), "not slow");
}

#[actix::test]
async fn an_order_to_stop_finishes_what_is_in_flight_and_closes() {
    let world = World::with_room();
    let actor = world.up(1).await;
    world.store.send(Be(Mood::Holding)).await.unwrap();
    let envelope = message("last");
    world.slack.push(&envelope);
    until_held(&world, 1).await;
    let stopping = actor.send(StopIngress);
    world.store.send(Be(Mood::Willing)).await.unwrap();
    stopping.await.unwrap();
    assert_eq!(world.until_acked(&envelope).await, 1);
    world
        .until("it is closed", |seen| seen.live.is_empty().then_some(()))
        .await;
    let seen = world.slack.seen();
    assert_eq!((seen.opened, seen.closed_well), (1, 1));
    assert!(!actor.connected());
}

#[actix::test]
async fn an_order_to_stop_is_obeyed_at_once_while_there_is_no_connection() {
    let mut world = World::new();
    world.settings.timing.backoff_min = Duration::from_secs(600);
    world.settings.timing.backoff_max = Duration::from_secs(600);
    world.slack.refuse_handshakes(Some(503));
    let waiting = world.connect();
    world.until_state(IngressState::BackingOff).await;
    stop(waiting).await;
    world.slack.refuse_handshakes(None);
    world.slack.greet(HelloPlan {
        at_once: false,
        ..HelloPlan::default()
    });
    let connecting = world.connect();
    world
        .until("it is connected", |seen| {
            (seen.live.len() == 1).then_some(())
        })
        .await;
    stop(connecting).await;
    world
        .until("it is closed", |seen| seen.live.is_empty().then_some(()))
        .await;
}

#[actix::test]
async fn other_rooms_are_in_force_for_what_arrives_next() {
    let world = World::new();
    let actor = world.up(1).await;
    let work_item = crate::domain::WorkItemRef::parse(WORK_ITEM).unwrap();
    let mut declared = Declared::default();
    declared.rooms.insert(CHANNEL.to_owned(), work_item);
    let redeclare = crate::actors::messages::Redeclare(Arc::new(declared));
    actor.send(redeclare).await.unwrap();
    let envelope = message("m");
    world.slack.push(&envelope);
    world.until_acked(&envelope).await;
    assert_eq!(store::resolutions(&world.store).await, ["declared-room"]);
}
