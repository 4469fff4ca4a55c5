//! What the gateway says of itself: the event log for operators, and the console.

#[cfg(test)]
mod catalogue_doc;
mod console;
pub mod events;
mod log_file;
mod refusals;
mod sink;

pub use console::{ConsoleFormat, start_console};
pub use events::{EventFacts, GatewayEvent, Level, Stamped};
pub use log_file::LogPlace;
pub use sink::{EventLog, KeptRecords};
