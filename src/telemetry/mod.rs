//! What the gateway says of itself: the event log for operators, the console, and the metrics.

#[cfg(test)]
mod catalogue_doc;
mod console;
pub mod events;
mod families;
mod log_file;
mod metrics;
mod refusals;
mod sink;
mod tally;

pub use console::{ConsoleFormat, start_console};
pub use events::{EventFacts, GatewayEvent, Level, Stamped};
pub use log_file::LogPlace;
pub use metrics::{Metrics, PREFIX, RequestEnd};
pub use sink::{EventLog, KeptRecords};
pub use tally::QueueTally;
