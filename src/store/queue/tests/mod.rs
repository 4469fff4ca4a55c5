//! The queue's rules, one sentence a test, against a real store.

mod cost;
mod cursors;
mod leases;
mod model;
mod order;
mod outcomes;
mod strikes;
