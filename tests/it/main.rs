//! The gateway as a whole, over HTTP and real files. One executable: linking it many times would
//! take longer than all its tests.
// Clippy lets helpers unwrap only where it sees that they are tests' own.
#![cfg(test)]

mod abuse;
mod cli;
mod http_edges;
mod slack_socket;
mod support;
mod walk;
