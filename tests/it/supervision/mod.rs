//! Every ingress beside every other, from one file that is edited while the gateway runs.

mod edits;
mod once;
mod storm;
mod together;
