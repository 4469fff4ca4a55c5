//! The gateway.
pub mod domain;
pub mod providers;
