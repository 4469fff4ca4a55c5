use std::time::Duration;

use super::*;
use crate::actors::test_support::{fetch, start};

#[actix::test]
async fn queues_that_nobody_uses_are_given_up() {
    let parts = start(|_| {});
    let held = actix_rt::spawn(parts.registry.send(fetch("held", Duration::from_secs(25))));
    for number in 0..QUEUES_KEPT * 2 {
        let fetch = fetch(&format!("i-{number}"), Duration::ZERO);
        parts.registry.send(fetch).await.unwrap().unwrap();
    }
    let count = parts.registry.send(CountQueues).await.unwrap();
    assert!(count <= QUEUES_KEPT, "{count}");
    assert!(!held.is_finished());
    parts.registry.send(Drain).await.unwrap();
    held.await.unwrap().unwrap().unwrap();
}

struct CountQueues;

impl Message for CountQueues {
    type Result = usize;
}

impl Handler<CountQueues> for QueueRegistryActor {
    type Result = usize;

    fn handle(&mut self, _: CountQueues, _: &mut Self::Context) -> usize {
        self.queues.len()
    }
}
