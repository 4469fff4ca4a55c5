use super::*;
use crate::telemetry::EventLog;
use std::collections::BTreeMap;

use crate::domain::SystemClock;

fn text(metrics: &Metrics) -> String {
    let mut text = String::new();
    metrics.write(&mut text).unwrap();
    text
}

/// Asserts that a line is there.
#[track_caller]
fn assert_line(metrics: &Metrics, line: &str) {
    let text = text(metrics);
    assert!(text.lines().any(|found| found == line), "{line} in {text}");
}

fn dropped(reason: DropReason, gateway_event_id: Option<i64>) -> GatewayEvent {
    GatewayEvent::Dropped {
        provider: Provider::Slack,
        transport: Source::Socket,
        reason,
        kind: None,
        delivery_id: None,
        about: None,
        gateway_event_id,
        suppressed: None,
    }
}

fn redelivered(after: &'static str) -> GatewayEvent {
    GatewayEvent::Redelivered {
        subject: String::new(),
        instance: String::new(),
        seq: 1,
        attempt: 2,
        after,
        gateway_event_id: 1,
        delivery_id: String::new(),
    }
}

#[test]
fn an_arrival_is_counted_once_by_what_became_of_it() {
    let log = EventLog::silent(Arc::new(SystemClock));
    log.record_all(vec![
        GatewayEvent::Received {
            provider: Provider::Slack,
            transport: Source::Socket,
            kind: "message".to_owned(),
            delivery_id: "Ev1".to_owned(),
            gateway_event_id: 1,
            payload_bytes: 2,
            age_ms: Some(3_000),
        },
        dropped(DropReason::Duplicate, Some(1)),
        dropped(DropReason::Unbound, None),
        // It was stored first, and counted then.
        dropped(DropReason::Unbound, Some(2)),
    ]);
    let metrics = log.metrics();
    for (result, count) in [("stored", 1), ("duplicate", 1), ("unbound", 1)] {
        let labels = format!("provider=\"slack\",transport=\"socket\",result=\"{result}\"");
        let line = format!("the_loop_gateway_arrivals_total{{{labels}}} {count}");
        assert_line(metrics, &line);
    }
    assert_line(
        metrics,
        "the_loop_gateway_grace_expired_total{provider=\"slack\"} 1",
    );
    let labels = "provider=\"slack\",transport=\"socket\",le=\"5\"";
    let line = format!("the_loop_gateway_event_age_seconds_bucket{{{labels}}} 1");
    assert_line(metrics, &line);
}

#[test]
fn refusals_are_all_counted_though_few_are_recorded() {
    let log = EventLog::silent(Arc::new(SystemClock));
    for _ in 0..100 {
        log.refuse(Provider::GitHub, DropReason::BadSignature, "push", "");
    }
    log.flush();
    let labels = "provider=\"github\",transport=\"webhook\",result=\"bad-signature\"";
    assert_line(
        log.metrics(),
        &format!("the_loop_gateway_arrivals_total{{{labels}}} 100"),
    );
}

#[test]
fn what_instances_say_is_counted_by_its_word() {
    let metrics = Metrics::default();
    for outcome in [
        "delivered",
        "spawned",
        "dropped:no-target",
        "dropped:exit-65",
    ] {
        metrics.count(&GatewayEvent::Committed {
            subject: String::new(),
            instance: String::new(),
            seq: 1,
            outcome: outcome.to_owned(),
            gateway_event_id: 1,
            delivery_id: String::new(),
        });
    }
    metrics.count(&redelivered("failed"));
    metrics.count(&redelivered("lost"));
    metrics.queues(&QueueTally {
        handed_first: 4,
        handed_again: 2,
        strikes: 1,
        released: 3,
        polled_first: BTreeMap::from([(Provider::Jira, 5)]),
    });
    for line in [
        "the_loop_gateway_outcomes_total{outcome=\"delivered\"} 1",
        "the_loop_gateway_outcomes_total{outcome=\"spawned\"} 1",
        "the_loop_gateway_outcomes_total{outcome=\"dropped\"} 2",
        "the_loop_gateway_outcomes_total{outcome=\"failed\"} 1",
        "the_loop_gateway_outcomes_total{outcome=\"released\"} 3",
        "the_loop_gateway_redeliveries_total{after=\"failed\"} 1",
        "the_loop_gateway_redeliveries_total{after=\"lost\"} 1",
        "the_loop_gateway_hand_outs_total{attempt=\"first\"} 4",
        "the_loop_gateway_hand_outs_total{attempt=\"again\"} 2",
        "the_loop_gateway_strikes_total 1",
        "the_loop_gateway_polled_first_total{provider=\"jira\"} 5",
        "the_loop_gateway_polled_first_total{provider=\"github\"} 0",
    ] {
        assert_line(&metrics, line);
    }
}

#[test]
fn a_batch_is_counted_by_its_end_its_size_and_its_time() {
    let metrics = Metrics::default();
    metrics.batch("writes-max", 256, Duration::from_millis(3));
    for line in [
        "the_loop_gateway_store_batches_total{ended_by=\"writes-max\"} 1",
        "the_loop_gateway_store_batch_writes_bucket{le=\"128\"} 0",
        "the_loop_gateway_store_batch_writes_bucket{le=\"256\"} 1",
        "the_loop_gateway_store_batch_seconds_bucket{le=\"0.002\"} 0",
        "the_loop_gateway_store_batch_seconds_bucket{le=\"0.005\"} 1",
    ] {
        assert_line(&metrics, line);
    }
}
