//! Checking the file of a store, told as it goes: for `verify`, and after every copy.

use std::path::Path;

use super::context::Context;
use super::progress::{Progress, percent};
use super::shown::number;
use super::trouble::Trouble;
use crate::domain::Clock;
use crate::store::{
    Problem, ReadConnection, StoreSize, VerifyStep, open_reader, size_of, verify_with,
};

/// What a check found.
pub(super) struct Checked {
    /// What is in the store.
    pub(super) size: StoreSize,
    /// What does not hold.
    pub(super) problems: Vec<Problem>,
}

/// Checks a file that no gateway needs to have open, reading only.
///
/// # Errors
/// When it cannot be read as a store at all.
pub(super) fn check_file(path: &Path, context: &Context) -> Result<Checked, Trouble> {
    check(&open_reader(path)?, context)
}

/// Checks an open store.
///
/// # Errors
/// When it cannot be read.
pub(super) fn check(connection: &ReadConnection, context: &Context) -> Result<Checked, Trouble> {
    let mut progress = Progress::begin(context);
    let problems = verify_with(connection, context.clock.now(), &mut |step| {
        progress.tell(|| told(step));
    })?;
    Ok(Checked {
        size: size_of(connection)?,
        problems,
    })
}

/// As [`check_file`], for a copy that must be sound.
///
/// # Errors
/// [`Trouble::Unsound`] when something does not hold.
pub(super) fn must_be_sound(shown_as: &Path, checked: &Checked) -> Result<StoreSize, Trouble> {
    if checked.problems.is_empty() {
        return Ok(checked.size);
    }
    let problems: Vec<String> = checked.problems.iter().map(ToString::to_string).collect();
    Err(Trouble::Unsound {
        path: shown_as.to_owned(),
        problems: problems.join("; "),
    })
}

fn told(step: VerifyStep) -> String {
    match step {
        VerifyStep::File => "verifying: the pages of the file".to_owned(),
        VerifyStep::Rules { done, of } => format!("verifying: {done} of {of} rules"),
        VerifyStep::Payloads { done, of } => format!(
            "verifying: {} %, {} of {} payloads",
            percent(done, of),
            number(done),
            number(of)
        ),
    }
}
