//! A burst over one Slack socket, and the same payloads over the events route, each through the
//! whole gateway, as a ratio of the same run.
//!
//! The time of an envelope runs from the moment that the fake Slack is told to send the burst to
//! the moment that its ack is back: no envelope can be received before the first of the two.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a benchmark that fails has nothing to print"
)]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use actix_rt::System;
use serde_json::json;
use support::gateway::Running;
use support::{Samples, load};
use the_loop_gateway::config::GatewayConfig;
use the_loop_gateway::devkit::slack::{Envelope, FakeSlack};
use the_loop_gateway::domain::WorkItemRef;
use the_loop_gateway::providers::signature::sign_slack;

const BURST: usize = 1_000;
const BURSTS: usize = 5;
const CONNECTIONS: usize = 16;
const CHANNEL: &str = "C0BENCH";
const SIGNING_SECRET: &str = "a signing secret for measuring";
/// What an ack may take at the 99th percentile.
const BOUND_MS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(60);

/// The numbers of one burst.
struct Burst {
    /// Acks or answers a second.
    rate: f64,
    latency: Samples,
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = support::fdatasync(folder.path(), 300);
    println!(
        "fdatasync of 4 KiB: p50 {:.3} ms, p99 {:.3} ms",
        disk.ms(0.5),
        disk.ms(0.99)
    );
    let slack = fake_slack();
    let by_socket = Running::with(
        &folder.path().join("socket"),
        |config| {
            config.slack.socket.enabled = true;
            config.slack.socket.catch_up_interval = None;
            config.slack.api_base = slack.api_base();
            declare_room(config);
        },
        &[("THE_LOOP_SLACK_APP_TOKEN", "xapp-for-measuring")],
    );
    let by_webhook = Running::with(
        &folder.path().join("webhook"),
        |config| {
            config.slack.http.enabled = true;
            declare_room(config);
        },
        &[("SLACK_SIGNING_SECRET", SIGNING_SECRET)],
    );
    wait("it is connected", || slack.seen().live.len() == 1);
    let mut pairs = Vec::new();
    // In turn, so that a machine that slows down slows both.
    for number in 0..BURSTS {
        let envelopes: Vec<Envelope> = (0..BURST).map(|at| envelope(number * BURST + at)).collect();
        let socket = burst(&slack, &envelopes);
        let webhook = post(&by_webhook, &envelopes);
        pairs.push((socket, webhook));
    }
    report(&mut pairs);
    check_stored(&folder.path().join("socket"));
    check_stored(&folder.path().join("webhook"));
    drop((by_socket, by_webhook));
    assert_eq!(slack.seen().opened, 1, "one socket all along");
}

fn declare_room(config: &mut GatewayConfig) {
    let work_item = WorkItemRef::parse("github:octo/repo#1").expect("a work item");
    config.declared.rooms.insert(CHANNEL.to_owned(), work_item);
}

/// A fake Slack on a thread of its own.
fn fake_slack() -> FakeSlack {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let system = System::new();
        system.block_on(async {
            sender
                .send(FakeSlack::start().expect("a port"))
                .expect("a listener");
        });
        system.run().expect("a system");
    });
    receiver.recv().expect("a fake")
}

fn wait(wanted: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {wanted}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A message with an event id of its own; about as large as Slack's are with their blocks.
fn envelope(number: usize) -> Envelope {
    let text = format!("{number}: please look at the branch again, the review is done. ").repeat(6);
    let message = json!({
        "type": "message", "user": "U0BENCH", "ts": format!("1700000000.{number:06}"),
        "client_msg_id": format!("00000000-0000-4000-8000-{number:012}"),
        "text": text, "team": "T0FAKE",
        "blocks": [{"type": "rich_text", "block_id": "b1", "elements": [
            {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}]}],
    });
    Envelope::message(CHANNEL, &message)
}

/// Sends all at once over the socket and waits for every ack.
fn burst(slack: &FakeSlack, envelopes: &[Envelope]) -> Burst {
    let ids: BTreeSet<&str> = envelopes
        .iter()
        .map(|one| one.envelope_id.as_str())
        .collect();
    let before = slack.ack_count();
    let began = Instant::now();
    assert!(slack.push_all(envelopes), "there is no socket");
    wait("all are acked", || {
        slack.ack_count() >= before + envelopes.len()
    });
    let seen = slack.seen();
    let acks = &seen.acks[before..];
    let acked: BTreeSet<&str> = acks.iter().map(|ack| ack.envelope_id.as_str()).collect();
    assert_eq!(acked, ids, "each is acked once");
    measured(acks.iter().map(|ack| ack.at - began).collect())
}

fn measured(samples: Vec<Duration>) -> Burst {
    let (count, latency) = (samples.len(), Samples::new(samples));
    Burst {
        rate: count as f64 / latency.at(1.0).as_secs_f64(),
        latency,
    }
}

/// Posts the same payloads to the events route.
fn post(gateway: &Running, envelopes: &[Envelope]) -> Burst {
    let now = jiff::Timestamp::now().as_second();
    let requests = envelopes.iter().map(|envelope| {
        let body = envelope.payload.as_bytes();
        let head = format!(
            "POST /slack/events HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             X-Slack-Request-Timestamp: {now}\r\nX-Slack-Signature: {}\r\n\
             Content-Length: {}\r\n\r\n",
            gateway.address,
            sign_slack(SIGNING_SECRET, now, body),
            body.len()
        );
        [head.as_bytes(), body].concat()
    });
    let outcome = load::run(gateway.address, requests.collect(), CONNECTIONS);
    Burst {
        rate: outcome.rate,
        latency: outcome.latency,
    }
}

fn report(pairs: &mut [(Burst, Burst)]) {
    println!("\n{BURST} envelopes in one write, {BURSTS} times:");
    println!("        socket   p50 ms   p99 ms      webhook   p50 ms   p99 ms    ratio");
    for (socket, webhook) in pairs.iter() {
        println!(
            "  {:>10.0}/s {:>8.2} {:>8.2} {:>10.0}/s {:>8.2} {:>8.2} {:>8.2}",
            socket.rate,
            socket.latency.ms(0.5),
            socket.latency.ms(0.99),
            webhook.rate,
            webhook.latency.ms(0.5),
            webhook.latency.ms(0.99),
            socket.rate / webhook.rate,
        );
    }
    pairs.sort_by(|one, other| (one.0.rate / one.1.rate).total_cmp(&(other.0.rate / other.1.rate)));
    let median = &pairs[pairs.len() / 2];
    let mut p99: Vec<f64> = pairs
        .iter()
        .map(|(socket, _)| socket.latency.ms(0.99))
        .collect();
    p99.sort_by(f64::total_cmp);
    println!(
        "\nall acked; receive → ack p99 {:.2} ms (median burst), worst {:.2} ms; bound {BOUND_MS} ms",
        p99[p99.len() / 2],
        p99[p99.len() - 1],
    );
    println!(
        "socket ÷ webhook, the same payloads over {CONNECTIONS} connections: {:.2}",
        median.0.rate / median.1.rate
    );
}

/// What was acked is in the file.
fn check_stored(root: &Path) {
    let path = root.join("gateway.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(path, flags).expect("a store");
    let count: usize = connection
        .query_row("SELECT count(*) FROM events", [], |row| {
            row.get::<_, i64>(0)
        })
        .map(|count| usize::try_from(count).expect("a count"))
        .expect("the events");
    assert_eq!(count, BURST * BURSTS);
}
