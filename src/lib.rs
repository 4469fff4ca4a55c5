//! The gateway.
pub mod actors;
pub mod domain;
pub mod outbound;
pub mod providers;
pub mod store;
pub mod telemetry;
