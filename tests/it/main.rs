//! The gateway as a whole, over HTTP and real files. One executable: linking it many times would
//! take longer than all its tests.

// Clippy lets helpers unwrap only where it sees that they are tests' own.
#![cfg(test)]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that fails here says where; the exemptions of clippy.toml stop at helpers"
)]

mod abuse;
mod api_edges;
mod architecture;
mod bad_input;
mod cli;
mod client;
mod contract;
mod corpus;
mod dashboard;
mod documents;
mod faults;
mod http_edges;
mod metrics;
mod polling;
mod providers;
mod queue_semantics;
mod scenarios;
mod secrets;
mod slack_socket;
mod spans;
mod store_patience;
mod supervision;
mod support;
mod views;
mod walk;
