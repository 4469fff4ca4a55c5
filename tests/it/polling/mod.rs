//! The pollers as the gateway runs them: its own composition, its real routes beside them, and
//! the fakes of the APIs.

mod github;
mod jira;
mod tokens;

use serde_json::Value;

use crate::support::gateway::wait_until;
use crate::support::live::LiveGateway;

/// The records of duplicates that came by a transport.
fn duplicates(gateway: &LiveGateway, transport: &str) -> usize {
    let records = gateway.records("gateway.dropped");
    let is_it =
        |record: &&Value| record["reason"] == "duplicate" && record["transport"] == transport;
    records.iter().filter(is_it).count()
}

/// Waits until so many duplicates came by a transport.
#[track_caller]
fn wait_for_duplicates(gateway: &LiveGateway, transport: &str, count: usize) {
    let known = || format!("{:?}", events(gateway));
    wait_until(
        &format!("{count} duplicates by {transport}: {}", known()),
        || duplicates(gateway, transport) >= count,
    );
}

/// The transport, kind and work item of each stored event, in order.
fn events(gateway: &LiveGateway) -> Vec<String> {
    gateway.texts("SELECT transport || ' ' || kind || ' ' || work_item FROM events ORDER BY id")
}

/// Waits until exactly so many events are stored.
#[track_caller]
fn wait_for_events(gateway: &LiveGateway, count: usize) {
    wait_until(&format!("{count} events"), || {
        gateway.stored().len() >= count
    });
    assert_eq!(gateway.stored().len(), count, "{:?}", events(gateway));
}
