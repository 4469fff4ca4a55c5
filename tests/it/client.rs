//! The instance's side against the production gateway: a provider's event on its whole way.

mod conformance;
mod consume;
mod python;
mod verbs;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use the_loop_gateway::client::{BackOff, Client, ClientBuilder, GatewayUrl};
use the_loop_gateway::domain::{InstanceName, Role, Subject};

use crate::support::TestGateway;
use crate::support::gateway::wait_until;

const FIFTEEN: &str = "loop-github-octo-repo-15";

/// A client named laptop that works on `octo/repo#15`.
fn laptop(gateway: &TestGateway, directory: &Path) -> ClientBuilder {
    let url = GatewayUrl::parse(&format!("http://127.0.0.1:{}", gateway.port)).unwrap();
    Client::builder(url, &directory.join("gateway-peer.json"))
        .instance(InstanceName::parse("laptop").unwrap())
        .claim(Subject::parse(FIFTEEN).unwrap(), Role::Driver)
        .back_off(BackOff {
            min: Duration::from_millis(20),
            max: Duration::from_millis(100),
        })
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let work = async { tokio::time::timeout(Duration::from_secs(30), work).await };
    actix_rt::System::new().block_on(work).unwrap()
}

/// The row of the queue of laptop.
fn queue(gateway: &TestGateway) -> Value {
    let answer = gateway.get("/queues").assert(200);
    let rows = answer["queues"].as_array().unwrap();
    let row = rows.iter().find(|row| row["instance"] == "laptop");
    row.cloned().unwrap_or_default()
}

/// The first delivery of an event, with all that happened to it.
fn story(gateway: &TestGateway, event: u64) -> Value {
    let story = gateway.get(&format!("/events/{event}")).assert(200);
    story["deliveries"][0].clone()
}

fn wait_for_outcome(gateway: &TestGateway, event: u64, outcome: &str) {
    wait_until(&format!("event {event} to be {outcome}"), || {
        story(gateway, event)["outcome"] == outcome
    });
}
