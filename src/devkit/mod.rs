//! Stand-ins for the providers, for trying the gateway out and for its tests.
//!
//! Invariant: everything here listens on the loopback address and nowhere else, and asks nobody
//! anything. Must not be used by the gateway itself.

pub mod fake_gateway;
pub mod fake_github;
pub mod fake_jira;
pub mod fake_receiver;
mod http_fake;
pub mod slack;
pub mod wire;
