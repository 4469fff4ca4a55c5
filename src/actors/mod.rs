//! The actors: who runs where, who may send what to whom.

pub mod messages;
pub mod poller;

pub use messages::{IngressChanged, IngressState, Redeclare, StopIngress, Submit};
