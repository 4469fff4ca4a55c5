//! the-loop gateway: one ingress for a fleet of the-loop instances.
//!
//! It owns every inbound surface (webhooks, the Slack socket, the pollers), stores each event
//! durably before it acknowledges it, works out which work item it is about and which instances
//! consume it, and hands it out by fetch and commit. It judges nothing and posts nothing.
//!
//! The path of an event:
//!
//! ```text
//! arrival ─ verify ─ parse ─┬─ store: [ deduplicate → resolve → route → append ]  one savepoint
//! (http · socket · poll)    │                       COMMIT
//!                           └─ answer ◄─────────────┤─ records to the event log
//!                                                   └─ wake → queue → fetch → commit
//! ```
//!
//! Invariants:
//! - **I1** No provider is answered before the COMMIT that holds its event.
//! - **I2** All writes go through one connection, on one thread.
//! - **I3** A read that decides a write happens in the writer's transaction.
//! - **I4** Nothing but waiters, addresses and timers lives in memory.
//! - **I5** A record is written to the event log only after the fact it states is on disk.
//! - **I6** A payload is read only by [`providers`]; the consumer gets it byte for byte.
//! - **I7** Bytes reach a parser only as [`providers::Verified`].
//! - **I8** Every queue, batch, wait, body and loop has a named bound.
//! - **I9** Delivery is at least once, in order per work item.

pub mod actors;
pub mod app;
pub mod broken;
pub mod cli;
pub mod client;
pub mod config;
pub mod devkit;
pub mod digest;
pub mod domain;
pub mod http;
pub mod outbound;
pub mod providers;
pub mod store;
pub mod telemetry;
