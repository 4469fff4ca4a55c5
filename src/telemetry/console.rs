//! What the process says on its console: for whoever watches it, not for machines that count.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How the console is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleFormat {
    /// Lines for people; colours only when asked for.
    Pretty {
        /// False on a pipe and under `NO_COLOR`.
        colors: bool,
    },
    /// One JSON object a line.
    Json,
}

/// Sends what is traced to standard error.
///
/// `filter` is in the syntax of `RUST_LOG`; one that cannot be read means `info`.
///
/// # Errors
/// When something else has already set up tracing for the process.
pub fn start_console(format: ConsoleFormat, filter: &str) -> Result<(), TryInitError> {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // Otherwise a line that cannot be written is reported on standard error by a macro that
        // panics when that cannot be written either: a full disk under the console would then cost
        // each request that has something to say its answer.
        .log_internal_errors(false)
        // A span tells how long it took when it is over; one that is off costs a look at a flag.
        .with_span_events(FmtSpan::CLOSE);
    match format {
        ConsoleFormat::Pretty { colors } => builder.with_ansi(colors).finish().try_init(),
        ConsoleFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
}
