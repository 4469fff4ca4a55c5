//! The file: what reads it, whether it is sound, and what has not been moved into it yet.

use super::Patient;
use super::findings::Findings;
use crate::cli::failure::Failure;
use crate::cli::lifecycle::{length_of, wal_of};
use crate::cli::size::size;
use crate::store;

/// A file that takes a while to be read through.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;
/// A checkpoint cuts the WAL to 64 MiB; much more says that none gets through.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Problems that are told one by one.
const TOLD_MAX: usize = 5;

pub(super) fn examine(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let (version, is_recent) = store::sqlite_version();
    if is_recent {
        findings.ok("sqlite", format!("{version}, built in"))?;
    } else {
        let text = format!("{version} can lose commits: this program was built with an old one");
        findings.wrong("sqlite", text)?;
    }
    let path = &patient.config().store_path;
    let Some(bytes) = length_of(path) else {
        let text = format!(
            "{} is not there yet; the first start makes it",
            path.display()
        );
        return findings.unsure("store", text);
    };
    if bytes > LARGE_BYTES {
        let text = format!("reading all of {}, {}", path.display(), size(bytes));
        patient.context.output.note(&text);
    }
    let checked = store::open_reader(path)
        .map_err(|error| error.to_string())
        .and_then(|reader| store::check_file(&reader).map_err(|error| error.to_string()));
    match checked {
        Ok(problems) if problems.is_empty() => {
            let text = format!("{} is sound, {}", path.display(), size(bytes));
            findings.ok("store", text)?;
        }
        Ok(problems) => {
            for problem in problems.iter().take(TOLD_MAX) {
                findings.wrong("store", format!("{}: {}", path.display(), problem.detail))?;
            }
        }
        Err(error) => findings.wrong("store", error)?,
    }
    of_wal(patient, findings)
}

fn of_wal(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let bytes = length_of(&wal_of(&patient.config().store_path)).unwrap_or_default();
    let shown = size(bytes);
    if bytes > WAL_BYTES_MAX {
        let text = format!(
            "{shown}: a reader keeps the gateway from emptying it; look who has the file open \
             (`fuser`), a copy or a shell"
        );
        findings.wrong("wal", text)
    } else {
        findings.ok("wal", shown)
    }
}
