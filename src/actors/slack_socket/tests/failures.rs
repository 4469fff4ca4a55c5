//! Every way in which a connection fails leads to the next one.

use super::live::{message, messages};
use super::store::{events, texts};
use super::*;
use crate::devkit::slack::{Envelope, HelloPlan, OpenAnswer, Refused};

fn gaps(seen: &Seen) -> Vec<Duration> {
    let calls = seen.calls.windows(2);
    calls
        .map(|pair| pair[1].at.duration_since(pair[0].at))
        .collect()
}

#[actix::test]
async fn a_half_open_connection_is_left_after_a_silence() {
    let mut world = World::with_room();
    world.settings.timing.ping_every = Duration::from_millis(30);
    world.settings.timing.silence_max = Duration::from_millis(200);
    let _actor = world.up(1).await;
    world.slack.go_half_open();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(
        reason.as_deref(),
        Some("the connection was silent for too long")
    );
    world.until_up(2).await;
    let envelope = message("m");
    world.slack.push(&envelope);
    assert_eq!(world.until_acked(&envelope).await, 2);
}

#[actix::test]
async fn pongs_count_as_life() {
    let mut world = World::new();
    world.settings.timing.ping_every = Duration::from_millis(20);
    world.settings.timing.silence_max = Duration::from_secs(1);
    let _actor = world.up(1).await;
    let started = SystemClock.instant();
    let long_enough = |_: &Seen| (started.elapsed() > Duration::from_millis(1_500)).then_some(());
    world
        .until("it outlives the silence that would end it", long_enough)
        .await;
    assert_eq!(world.slack.seen().opened, 1);
}

#[actix::test]
async fn a_server_that_never_says_hello_is_left() {
    let mut world = World::new();
    world.settings.timing.hello = Duration::from_millis(50);
    world.slack.greet(HelloPlan {
        at_once: false,
        ..HelloPlan::default()
    });
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(reason.as_deref(), Some("no hello in time"));
    world
        .until("it tries again", |seen| (seen.opened >= 3).then_some(()))
        .await;
    world.slack.greet(HelloPlan::default());
    world.until_state(IngressState::Up).await;
    let seen = world.slack.seen();
    assert_eq!(seen.live_max, 1);
    assert_eq!(
        u64::try_from(seen.calls.len()).unwrap(),
        seen.opened,
        "each try has a new url"
    );
}

#[actix::test]
async fn a_name_that_cannot_be_resolved_is_a_reason_to_try_again() {
    let world = World::new();
    let nowhere = "ws://no-such-host.invalid/link/?ticket=secret";
    world.slack.answer_open(OpenAnswer::Url(nowhere.to_owned()));
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await.unwrap();
    assert!(
        reason.starts_with("the host's name cannot be resolved"),
        "{reason}"
    );
    assert!(!reason.contains("secret"), "{reason}");
    world.until_up(1).await;
}

#[actix::test]
async fn a_tls_handshake_that_fails_is_a_reason_to_try_again() {
    let world = World::new();
    let plain = format!("wss://{}/link/?ticket=secret", world.slack.address());
    world.slack.answer_open(OpenAnswer::Url(plain));
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await.unwrap();
    assert!(reason.starts_with("TLS: "), "{reason}");
    world.until_up(1).await;
}

#[actix::test]
async fn an_api_that_cannot_be_reached_is_a_reason_to_try_again() {
    let mut world = World::new();
    world.slack.stop().await;
    world.settings.timing.backoff_max = Duration::from_secs(600);
    world.settings.timing.backoff_min = Duration::from_secs(600);
    let _actor = world.connect();
    let reason = world.until_state(IngressState::BackingOff).await.unwrap();
    assert!(reason.starts_with("no connection: "), "{reason}");
}

#[actix::test]
async fn a_secure_api_cannot_send_us_to_an_insecure_socket() {
    let mut world = World::new();
    world.settings.api_base = format!("https://{}/api", world.slack.address());
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await.unwrap();
    assert!(reason.starts_with("TLS: "), "{reason}");
    assert!(world.slack.seen().calls.is_empty());
}

#[actix::test]
async fn a_frame_cut_in_the_middle_leaves_nothing_behind_and_leads_to_the_next_connection() {
    let world = World::with_room();
    let _actor = world.up(1).await;
    let envelope = message("cut");
    world.slack.cut_in_mid_frame(&envelope);
    world.until_up(2).await;
    let retry = envelope.retried(1, "timeout");
    world.slack.push(&retry);
    assert_eq!(world.until_acked(&retry).await, 2);
    assert_eq!(texts(&world.store).await, ["cut"]);
    let seen = world.slack.seen();
    assert_eq!((seen.live_max, seen.acks.len()), (1, 1));
}

#[actix::test]
async fn a_connection_that_slack_closes_is_replaced() {
    let world = World::new();
    let _actor = world.up(1).await;
    world.slack.close();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(reason.as_deref(), Some("Slack closed the connection"));
    world.until_up(2).await;
    assert_eq!(world.slack.seen().live_max, 1);
}

#[actix::test]
async fn an_unknown_disconnect_leads_to_the_next_connection() {
    let world = World::new();
    let _actor = world.up(1).await;
    world.slack.disconnect("maintenance");
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(reason.as_deref(), Some("disconnect: maintenance"));
    world.until_up(2).await;
}

#[actix::test]
async fn a_message_larger_than_4_mib_ends_the_connection_and_not_the_actor() {
    let world = World::with_room();
    let _actor = world.up(1).await;
    world.slack.push(&message(&"x".repeat(5 * 1024 * 1024)));
    let reason = world.until_was(IngressState::BackingOff).await.unwrap();
    assert!(reason.starts_with("cannot read: "), "{reason}");
    world.until_up(2).await;
    world
        .slack
        .push_in_pieces(&message(&"x".repeat(5 * 1024 * 1024)), 1024 * 1024);
    world.until_up(3).await;
    assert!(events(&world.store).await.is_empty());
}

#[actix::test]
async fn waits_grow_while_handshakes_fail_and_start_over_only_at_hello() {
    let mut world = World::new();
    world.settings.timing.backoff_min = Duration::from_millis(20);
    world.settings.timing.backoff_max = Duration::from_secs(10);
    world.slack.refuse_handshakes(Some(408));
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(
        reason.as_deref(),
        Some("HTTP status 408 instead of a WebSocket")
    );
    let seen = world.until("it tried five times", |seen| {
        (seen.calls.len() == 5).then(|| seen.clone())
    });
    let seen = seen.await;
    // Every one of these calls succeeded, and none of them is a reason to hurry.
    for (gap, full) in gaps(&seen).into_iter().zip([20, 40, 80, 160]) {
        assert!(
            gap >= Duration::from_millis(full) / 2,
            "{gap:?} of {full} ms"
        );
    }
    world.slack.refuse_handshakes(None);
    world.until_up(1).await;
    let calls = world.slack.seen().calls.len();
    world.slack.close();
    let again = world.until("it comes back", |seen| {
        (seen.calls.len() > calls).then(|| seen.clone())
    });
    let gap = gaps(&again.await).pop().unwrap();
    assert!(gap < Duration::from_secs(5), "{gap:?}");
}

#[actix::test]
async fn a_rate_limit_is_obeyed() {
    let world = World::new();
    let limited = OpenAnswer::Refused(Refused::RateLimited(Some(1)));
    world.slack.answer_open(limited);
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(reason.as_deref(), Some("ratelimited"));
    world.until_up(1).await;
    assert!(gaps(&world.slack.seen())[0] >= Duration::from_secs(1));
}

#[actix::test]
async fn a_code_that_somebody_has_to_mend_is_reported_as_failed_and_tried_slowly() {
    for code in ["invalid_auth", "not_allowed_token_type", "account_inactive"] {
        let mut world = World::new();
        world.settings.timing.slow_retry = Duration::from_millis(200);
        world.settings.timing.backoff_max = Duration::from_millis(1);
        world
            .slack
            .answer_open(OpenAnswer::Refused(Refused::Code(code)));
        let _actor = world.connect();
        assert_eq!(
            world.until_was(IngressState::Failed).await.as_deref(),
            Some(code)
        );
        world.until_up(1).await;
        assert!(
            gaps(&world.slack.seen())[0] >= Duration::from_millis(100),
            "{code}"
        );
    }
}

#[actix::test]
async fn other_codes_pass() {
    let world = World::new();
    world
        .slack
        .answer_open(OpenAnswer::Refused(Refused::Code("internal_error")));
    world
        .slack
        .answer_open(OpenAnswer::Refused(Refused::Status(500)));
    world
        .slack
        .answer_open(OpenAnswer::Url("http://127.0.0.1:1/".to_owned()));
    let _actor = world.connect();
    let reason = world.until_was(IngressState::BackingOff).await;
    assert_eq!(reason.as_deref(), Some("internal_error"));
    world.until_up(1).await;
    let errors: Vec<_> = world
        .states
        .all()
        .into_iter()
        .filter_map(|change| change.error)
        .collect();
    let expected = [
        "internal_error",
        "HTTP status 500",
        "the url is no secure WebSocket",
    ];
    assert_eq!(errors, expected);
}

#[actix::test]
async fn through_all_of_it_there_is_never_a_second_connection_and_nothing_is_lost() {
    let world = World::with_room();
    let _actor = world.up(1).await;
    let mut expected = Vec::new();
    for (round, envelope) in (1..).zip(messages(12)) {
        world.slack.push(&envelope);
        world.until_acked(&envelope).await;
        expected.push(round.to_string());
        match round % 4 {
            0 => world.slack.disconnect("refresh_requested"),
            1 => world.slack.close(),
            2 => world.slack.cut_in_mid_frame(&Envelope::suggestion()),
            _ => world.slack.disconnect("warning"),
        };
        world.until_up(round + 1).await;
    }
    assert_eq!(events(&world.store).await.len(), expected.len());
    assert_eq!(world.slack.seen().live_max, 1);
}

#[actix::test]
async fn no_token_is_in_any_text() {
    let mut world = World::new();
    world.has_bot_token = true;
    world
        .slack
        .answer_open(OpenAnswer::Refused(Refused::Code(APP_TOKEN)));
    world.slack.answer_call(Refused::Code(BOT_TOKEN));
    let actor = world.up(1).await;
    let record = world.until_recorded("gateway.error").await;
    let texts = format!("{:?} {record:?} {actor:?}", world.states.all());
    assert!(!texts.contains("secret"), "{texts}");
}
