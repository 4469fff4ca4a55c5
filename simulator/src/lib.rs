//! Crash simulation of the-loop gateway.
//!
//! The gateway's real store and actors run on one thread, over a disk in memory that loses what
//! was not synced, tears pages, refuses operations and is cut off at any write. A random history
//! drives them: arrivals and their repeats, registrations, fetches of several installations and
//! processes, outcomes, lost answers, held fetches, clocks that are set, retention, reloads. What
//! the gateway promised is kept in a ledger outside it and compared with what it does and with
//! what a crash leaves. The same seed gives the same history.

pub mod arrivals;
pub mod client;
pub mod disk;
pub mod gateway;
pub mod history;
mod judging;
pub mod ledger;
mod life;
pub mod look;
mod registering;
pub mod requests;
pub mod time;
pub mod vfs;
mod world;

pub use world::{Counts, Plan, Report, play};
