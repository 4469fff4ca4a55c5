//! A GitHub comment goes from its provider over the gateway and `consume` to the receiver of an
//! instance, and its outcome comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use the_loop_gateway::client::consume::{Forward, Sink, Target, start};
use the_loop_gateway::client::{Client, Delivery, Handled, State};
use the_loop_gateway::config::Secret;
use the_loop_gateway::devkit::fake_receiver::{FakeReceiver, Instead};
use the_loop_gateway::domain::Provider;
use the_loop_gateway::providers::signature::sign_github;

use super::{laptop, queue, story, wait, wait_for_outcome};
use crate::support::gateway::wait_until;
use crate::support::{TestGateway, comment_on};

const INSTANCE_SECRET: &str = "secret-of-the-instance";

fn to(receiver: &FakeReceiver) -> Sink {
    let target = Target::new(&receiver.url(), Secret::new(INSTANCE_SECRET)).unwrap();
    Sink::Forward(Forward::new(BTreeMap::from([(Provider::GitHub, target)])))
}

fn connected(client: &Client) {
    let status = wait(client.wait_for(|status| status.state == State::Connected));
    assert_eq!(status.state, State::Connected);
}

#[test]
fn a_github_comment_reaches_the_receiver_as_it_arrived_and_its_outcome_is_committed() {
    let gateway = TestGateway::start();
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let client = start(laptop(&gateway, directory.path()), to(&receiver)).unwrap();
    connected(&client);

    let body = format!(" {}\n", comment_on(15, 900, "please start"));
    gateway
        .github("issue_comment", "guid-900", &body)
        .send()
        .assert(202);
    let taken = receiver.wait_for(|taken| taken.len() == 1).unwrap();
    assert_eq!(taken[0].status, Some(202));
    let request = &taken[0].request;
    assert_eq!(request.body, body.trim().as_bytes());
    assert_eq!(request.header("x-github-event"), "issue_comment");
    assert_eq!(request.header("x-github-delivery"), "guid-900");
    assert_eq!(request.header("x-the-loop-gateway-event-id"), "1");
    let signature = sign_github(INSTANCE_SECRET, body.trim().as_bytes());
    assert_eq!(request.header("x-hub-signature-256"), signature);

    wait_for_outcome(&gateway, 1, "delivered");
    let queue = queue(&gateway);
    assert_eq!((&queue["backlog"], &queue["dead"]), (&json!(0), &json!(0)));
    assert_eq!(queue["committed"], story(&gateway, 1)["seq"]);
    wait(client.stop());
}

fn last_fetch(gateway: &TestGateway) -> Value {
    gateway.get("/instances").assert(200)["instances"][0]["lastFetchAt"].clone()
}

#[test]
fn over_a_receiver_that_was_down_for_a_while_nothing_is_lost_dead_or_out_of_order() {
    let gateway = TestGateway::start();
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    receiver.go_down().unwrap();
    let builder = laptop(&gateway, directory.path()).lease(Duration::from_secs(1));
    let client = start(builder, to(&receiver)).unwrap();
    for _ in 0..5 {
        gateway.comment(15);
    }
    let down = wait(client.wait_for(|status| !status.targets_down.is_empty()));
    assert_eq!(down.targets_down, [receiver.url()]);
    // A minute and more passes, during which the lease is kept.
    for _ in 0..3 {
        gateway.clock.advance(40_000);
        let before = last_fetch(&gateway);
        wait_until("a renewal", || last_fetch(&gateway) != before);
    }
    receiver.come_back().unwrap();
    let taken = receiver.wait_for(|taken| taken.len() == 5).unwrap();
    let ids: Vec<&str> = (taken.iter())
        .map(|taken| taken.request.header("x-github-delivery"))
        .collect();
    assert_eq!(ids, ["guid-1", "guid-2", "guid-3", "guid-4", "guid-5"]);
    for event in 1..=5 {
        wait_for_outcome(&gateway, event, "delivered");
        let story = story(&gateway, event);
        assert_eq!(
            (&story["attempt"], &story["strikes"]),
            (&json!(1), &json!(0))
        );
    }
    wait(client.stop());
}

#[test]
fn a_receiver_that_breaks_gets_the_delivery_again_after_the_back_off() {
    let gateway = TestGateway::start();
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    receiver.next(Instead::Close);
    let client = start(laptop(&gateway, directory.path()), to(&receiver)).unwrap();
    connected(&client);
    gateway.comment(15);
    gateway.comment(15);
    wait_for_outcome(&gateway, 1, "failed");
    let first = story(&gateway, 1);
    assert_eq!(
        (&first["state"], &first["strikes"]),
        (&json!("ready"), &json!(1))
    );
    assert!(
        first["detail"]
            .as_str()
            .unwrap()
            .starts_with("closed without an answer")
    );
    // The second waits behind it.
    assert_eq!(receiver.taken().len(), 1);
    gateway.clock.advance(30_000);
    // Whatever wakes the queue makes it look again.
    gateway.claim("other", 16);
    gateway.comment(15);
    wait_for_outcome(&gateway, 3, "delivered");
    let ids: Vec<String> = (receiver.taken().iter())
        .map(|taken| taken.request.header("x-github-delivery").to_owned())
        .collect();
    assert_eq!(ids, ["guid-1", "guid-1", "guid-2", "guid-3"]);
    wait(client.stop());
}

#[test]
fn a_stop_releases_what_was_not_finished_and_the_next_process_gets_it_as_if_new() {
    let gateway = TestGateway::start();
    let directory = tempfile::tempdir().unwrap();
    let (begun, is_begun) = channel();
    let stuck = move |delivery: Arc<Delivery>| {
        begun.send(delivery.seq).unwrap();
        std::future::pending::<Handled>()
    };
    // Both are there before the claim, so they come in one answer.
    gateway.comment(15);
    gateway.comment(15);
    let builder = laptop(&gateway, directory.path()).stop_grace(Duration::ZERO);
    let client = builder.start(stuck).unwrap();
    is_begun.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(queue(&gateway)["inHand"], 2);
    wait(client.stop());
    assert_eq!(queue(&gateway)["inHand"], 0);
    assert_eq!(story(&gateway, 1)["outcome"], "released");
    // It went back with the first one, so there was nothing to release.
    assert_eq!(story(&gateway, 2)["handOuts"][0]["ended"], "sent-back");

    gateway.clock.advance(2_000);
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let next = start(laptop(&gateway, directory.path()), to(&receiver)).unwrap();
    for event in [1, 2] {
        wait_for_outcome(&gateway, event, "delivered");
        let story = story(&gateway, event);
        assert_eq!(
            (&story["attempt"], &story["strikes"]),
            (&json!(1), &json!(0))
        );
    }
    wait(next.stop());
}

#[test]
fn a_gateway_that_restarts_is_found_again_and_its_claims_with_it() {
    let mut gateway = TestGateway::start();
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let port = gateway.port;
    let client = start(laptop(&gateway, directory.path()), to(&receiver)).unwrap();
    connected(&client);
    gateway.keep_port();
    gateway.restart();
    assert_eq!(gateway.port, port);
    connected(&client);
    gateway.comment(15);
    wait_for_outcome(&gateway, 1, "delivered");
    wait(client.stop());
}

#[test]
fn a_newer_process_with_a_copy_of_the_peer_file_takes_over_and_the_older_stays_stopped() {
    let gateway = TestGateway::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let receiver = FakeReceiver::start(Some(INSTANCE_SECRET)).unwrap();
    let older = start(laptop(&gateway, first.path()), to(&receiver)).unwrap();
    connected(&older);
    let name = "gateway-peer.json";
    std::fs::copy(first.path().join(name), second.path().join(name)).unwrap();
    let newer = start(laptop(&gateway, second.path()), to(&receiver)).unwrap();
    connected(&newer);
    let end = wait(older.finished());
    assert!(
        end.to_string().contains("a newer process took over"),
        "{end}"
    );
    gateway.comment(15);
    wait_for_outcome(&gateway, 1, "delivered");
    wait(newer.stop());
}
