//! The gateway.
pub mod config;
pub mod domain;
pub mod providers;
