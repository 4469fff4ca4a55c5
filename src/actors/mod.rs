//! The actors: who runs where, who may send what to whom.

pub mod messages;
pub mod slack_socket;

pub use messages::{IngressChanged, IngressState, Redeclare, StopIngress, Submit};
