//! The actors: who runs where, who may send what to whom.

pub mod messages;

pub use messages::Submit;
