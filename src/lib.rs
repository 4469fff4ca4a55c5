//! The gateway.
pub mod actors;
pub mod devkit;
pub mod domain;
pub mod outbound;
pub mod providers;
pub mod store;
pub mod telemetry;
