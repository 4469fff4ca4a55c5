//! What the gateway says of itself: the event log for operators.

pub mod events;

pub use events::{EventFacts, GatewayEvent, Level, Stamped};
