//! The queue as a client sees it, sentence by sentence: who may ask, what an outcome does, what
//! comes back, in which order things go out. What only the store can show has its tests there.

mod cursors;
mod leases;
mod losses;
mod order;
mod outcomes;
mod requests;
mod retention;
mod runs;
mod strikes;
mod waiting;

use crate::support::{Consumer, TestGateway};

/// A gateway on which so many work items are claimed by `laptop`, and one comment on each. Its
/// clock stands still.
fn gateway_with(count: u64) -> (TestGateway, Consumer) {
    let (gateway, laptop) = gateway_claimed(1..=count);
    for number in 1..=count {
        gateway.comment(number);
    }
    (gateway, laptop)
}

/// A gateway on which work items are claimed by `laptop`, without events. Its clock stands still.
fn gateway_claimed(numbers: impl IntoIterator<Item = u64>) -> (TestGateway, Consumer) {
    let gateway = TestGateway::start();
    gateway.clock.stop();
    for number in numbers {
        gateway.claim("laptop", number);
    }
    (gateway, Consumer::new("laptop"))
}
