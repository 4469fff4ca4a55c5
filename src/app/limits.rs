//! How many files the process may have open: every held poll is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what the system allows this process; a refusal is said and survived.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(open_files = limit.maximum, "raised the limit of open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}
