//! The gateway.
pub mod domain;
pub mod providers;
pub mod store;
pub mod telemetry;
