//! The gateway.
pub mod actors;
pub mod config;
pub mod digest;
pub mod domain;
pub mod providers;
pub mod store;
pub mod telemetry;
