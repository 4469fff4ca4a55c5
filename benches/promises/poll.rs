//! From the first byte of a delivery to the answer of the poll that waited for it.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;
use super::support::api::Api;
use super::support::gateway::Running;
use super::support::{Samples, load, payloads};
use super::table::Table;

const POLLS: u64 = 300;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let gateway = Running::start(&bench.root("poll"));
    let samples = held_polls(&gateway, bench.many(POLLS));
    let bound = 2.0 * bench.fdatasync().ms(0.5) + 1.0;
    let name = "delivery → answer of a held poll";
    table.at_most(&format!("{name}, p50"), samples.ms(0.5), bound, "ms");
    table.at_most(&format!("{name}, p99"), samples.ms(0.99), 4.0 * bound, "ms");
}

fn held_polls(gateway: &Running, polls: u64) -> Samples {
    Api::new(gateway.address).claim("held", 1_000);
    let host = gateway.address.to_string();
    let (began_sender, began) = channel::<Instant>();
    let (ready, is_ready) = channel::<()>();
    let address = gateway.address;
    let poller = std::thread::spawn(move || {
        let mut api = Api::new(address);
        let (mut cursor, mut commit) = (0, json!([]));
        let mut samples = Vec::new();
        for _ in 0..polls {
            ready.send(()).expect("a sender");
            let answer = api.fetch("held", cursor, &json!({"wait": 20, "commit": commit}));
            let ended = Instant::now();
            samples.push(ended - began.recv().expect("a start"));
            cursor = answer["cursor"].as_i64().expect("a cursor");
            commit = json!([{"seq": answer["deliveries"][0]["seq"], "outcome": "delivered"}]);
        }
        samples
    });
    let requests: Vec<_> = (1..=polls)
        .map(|id| payloads::request(&host, id, 1_000, 4 * 1024))
        .collect();
    let mut sender = load::Lone::new(address);
    for request in requests {
        is_ready.recv().expect("a poller");
        // The poll commits the last delivery and is parked: give it the time of a few syncs.
        std::thread::park_timeout(Duration::from_millis(15));
        began_sender.send(Instant::now()).expect("a poller");
        sender.send(&request);
    }
    Samples::new(poller.join().expect("a poller"))
}
