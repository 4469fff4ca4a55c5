//! Pollers from end to end: a fake provider, a real store, intervals of milliseconds.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "these tests count to a hundred"
)]

mod github_limits;
mod github_lists;
mod github_presence;
mod github_twins;
mod jira;
mod jira_lists;
mod support;
