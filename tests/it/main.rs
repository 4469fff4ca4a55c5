//! The integration tests: one executable, because each one more would link everything again.

// `cfg(test)` tells the linter that a helper may panic as a test may.
#[cfg(test)]
mod cli;
