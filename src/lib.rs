//! The gateway.
pub mod domain;
