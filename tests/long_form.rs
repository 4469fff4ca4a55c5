//! How long the long form of a test runs.

/// A number that the environment gives, else a usual one.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a long form runs is said in the environment"
)]
pub(crate) fn number_of(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => usual,
    }
}
