//! The lock, the directory and its disk, descriptors, the clock.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Patient;
use super::findings::Findings;
use crate::app::{self, Filesystem};
use crate::cli::failure::Failure;
use crate::cli::lifecycle::{Fault, Process, length_of};
use crate::cli::shown::{number, span};
use crate::cli::size::size;
use crate::config::GatewayConfig;
use crate::domain::{Millis, Timestamp};

/// Less than this, and the next burst does not fit.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
/// Files, listeners, threads' pipes and connections to providers.
const DESCRIPTORS_BESIDES: u64 = 128;
/// Slack's signatures hold for 300 s around the clock; a tenth of that is much already.
const SKEW_MS_MAX: Millis = 30_000;
const OTHERS: u32 = 0o077;

/// The clock of a provider, compared with ours when it answered.
#[derive(Debug, Clone)]
pub(super) struct ProviderDate {
    pub(super) provider: &'static str,
    pub(super) told: Timestamp,
    pub(super) ours: Timestamp,
}

/// Who has the lock, if somebody does.
pub(super) fn of_lock(
    config: &GatewayConfig,
    findings: &mut Findings,
) -> Result<Option<Process>, Failure> {
    let path = app::pid_file(&config.state_root);
    match Process::of(&config.state_root) {
        Ok(Some(process)) => {
            let text = format!("process {} holds {}", process.pid, path.display());
            findings.ok("lock", text)?;
            Ok(Some(process))
        }
        Ok(None) => {
            findings.ok("lock", format!("nobody holds {}", path.display()))?;
            Ok(None)
        }
        Err(failure @ (Failure::Lifecycle(Fault::Nameless(_)) | Failure::Read { .. })) => {
            findings.wrong("lock", failure.to_string())?;
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The state root: whose it is, on what it lies, and how much room there is.
pub(super) fn of_disk(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let config = patient.config();
    let root = &config.state_root;
    let shown = root.display();
    if let Some(why) = obstacle(root) {
        let text = format!(
            "{shown} cannot hold a store: {why}; set state.root to a directory that the gateway's \
             user can make and write"
        );
        return findings.wrong("state root", text);
    }
    let found = match std::fs::metadata(root) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("{shown} is not there yet; the first start makes it");
            return findings.unsure("state root", text);
        }
        Err(error) => {
            return findings.wrong("state root", format!("{shown} cannot be used: {error}"));
        }
    };
    let mode = found.permissions().mode();
    if mode & OTHERS == 0 {
        findings.ok("state root", format!("{shown} is its owner's alone"))?;
    } else {
        let text = format!(
            "{shown} is open to others (mode {:03o}): chmod 700 it, for it holds every payload",
            mode & 0o777
        );
        findings.wrong("state root", text)?;
    }
    of_filesystem(root, findings)?;
    of_free_space(config, findings)
}

/// What keeps the state root from being used, or from being made where it is not there yet.
fn obstacle(root: &Path) -> Option<String> {
    root.ancestors().find_map(at_place)?.err()
}

/// What is at a place: an obstacle, a directory that can be written, or nothing.
fn at_place(place: &Path) -> Option<Result<(), String>> {
    let shown = place.display();
    match std::fs::metadata(place) {
        Ok(found) if found.is_dir() => {
            let allowed = access(place, Access::WRITE_OK | Access::EXEC_OK);
            Some(allowed.map_err(|error| format!("{shown} cannot be written ({error})")))
        }
        Ok(_) => Some(Err(format!("{shown} is no directory"))),
        Err(error) if error.kind() == ErrorKind::NotFound && place.is_symlink() => {
            Some(Err(format!("{shown} is a link to nothing")))
        }
        // What is in its way is found above it.
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            None
        }
        Err(error) => Some(Err(format!("{shown} cannot be looked at ({error})"))),
    }
}

fn of_filesystem(root: &Path, findings: &mut Findings) -> Result<(), Failure> {
    match app::kind_of(root) {
        Ok(Filesystem::Fine) => {
            let text = "local, as far as this system tells".to_owned();
            findings.ok("filesystem", text)
        }
        Ok(Filesystem::Refused(name)) => {
            let text = format!(
                "{name} is a network filesystem and loses what was acknowledged: set state.root \
                 to a local directory"
            );
            findings.wrong("filesystem", text)
        }
        Ok(Filesystem::Doubtful(name)) => {
            let text = format!("{name} is as good as the program behind it; a local one is better");
            findings.unsure("filesystem", text)
        }
        Err(error) => findings.wrong("filesystem", error.to_string()),
    }
}

fn of_free_space(config: &GatewayConfig, findings: &mut Findings) -> Result<(), Failure> {
    let free = match statvfs(&config.state_root) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let text = format!("its free space cannot be told: {error}");
            return findings.unsure("disk", text);
        }
    };
    let used = length_of(&config.store_path).unwrap_or_default();
    let bound = config.store.bytes_max;
    let shown = format!("{} free", size(free));
    if free < FREE_BYTES_MIN {
        let text = format!("{shown}: make room, or providers soon get errors instead of answers");
        findings.wrong("disk", text)
    } else if free.saturating_add(used) < bound {
        let text = format!(
            "{shown}, less than the store may grow to: lower store.maxBytes ({}), or watch it",
            size(bound)
        );
        findings.unsure("disk", text)
    } else {
        findings.ok("disk", shown)
    }
}

/// Each held poll and each request is an open file.
pub(super) fn of_descriptors(
    patient: &Patient<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let config = patient.config();
    let asked_for = [
        config.consume.long_polls_max,
        config.listen.open_requests_max,
    ];
    let needed = asked_for
        .into_iter()
        .filter_map(|max| u64::try_from(max).ok())
        .fold(DESCRIPTORS_BESIDES, u64::saturating_add);
    let of_process = patient.process.as_ref().and_then(|it| limit_of(it.pid));
    let limit = match of_process {
        Some(limit) => limit,
        // A gateway raises its limit to what it may have.
        None => getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
    };
    let allowed = if limit == u64::MAX {
        "any number of open files".to_owned()
    } else {
        format!("{} open files", number(limit))
    };
    let needed_text = format!(
        "consume.maxLongPolls and listen.maxOpenRequests ask for {}",
        number(needed)
    );
    if limit < needed {
        let text = format!("{allowed} are allowed, and {needed_text}: raise LimitNOFILE or ulimit");
        findings.wrong("descriptors", text)
    } else {
        findings.ok("descriptors", format!("{allowed} allowed; {needed_text}"))
    }
}

/// The limit of a running process, where the system tells.
fn limit_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    parse_limits(&text)
}

fn parse_limits(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        soft => soft.parse().ok(),
    }
}

/// Whether our clock is right, as those see it who were asked anyway.
pub(super) fn of_clock(dates: &[ProviderDate], findings: &mut Findings) -> Result<(), Failure> {
    let Some(worst) = dates.iter().max_by_key(|date| date.skew().abs()) else {
        let text = "no provider was asked that could tell; `timedatectl` says whether it is set";
        return findings.unsure("clock", text.to_owned());
    };
    let skew = worst.skew();
    let shown = span(skew.unsigned_abs());
    let provider = worst.provider;
    if skew.abs() > SKEW_MS_MAX {
        let side = if skew > 0 { "behind" } else { "ahead of" };
        let text = format!(
            "{shown} {side} {provider}'s: set it, or Slack's signatures are refused and leases \
             are wrong"
        );
        findings.wrong("clock", text)
    } else {
        findings.ok("clock", format!("within {shown} of {provider}'s"))
    }
}

impl ProviderDate {
    /// How far theirs is ahead of ours. Theirs has whole seconds.
    fn skew(&self) -> Millis {
        let skew = self.told.since(self.ours);
        if (-1_000..=0).contains(&skew) {
            0
        } else {
            skew
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_root_that_cannot_be_is_found_by_what_is_in_its_way() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        for (root, why) in [
            ("file", "file is no directory"),
            ("file/below/it", "file is no directory"),
            ("link", "link is a link to nothing"),
            ("link/below", "link is a link to nothing"),
        ] {
            let told = obstacle(&at(root)).unwrap();
            assert!(told.ends_with(why), "{root}: {told}");
        }
        for root in ["", "not/there/yet"] {
            assert_eq!(obstacle(&at(root)), None, "{root}");
        }
        // Nothing is closed to root.
        if !rustix::process::geteuid().is_root() {
            std::fs::create_dir(at("closed")).unwrap();
            let mode = std::fs::Permissions::from_mode(0o500);
            std::fs::set_permissions(at("closed"), mode).unwrap();
            for root in ["closed", "closed/below"] {
                let told = obstacle(&at(root)).unwrap();
                assert!(told.contains("closed cannot be written ("), "{told}");
            }
        }
    }

    #[test]
    fn the_limit_of_a_process_is_read_from_its_line() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             1024                 2048                 processes \n\
                    Max open files            65536                524288               files     \n";
        assert_eq!(parse_limits(text), Some(65_536));
        assert_eq!(
            parse_limits("Max open files  unlimited  unlimited  files"),
            Some(u64::MAX)
        );
        assert_eq!(parse_limits(""), None);
        #[cfg(target_os = "linux")]
        assert!(limit_of(std::process::id()).is_some());
    }

    #[test]
    fn a_whole_second_that_has_begun_is_no_skew() {
        let date = |told, ours| ProviderDate {
            provider: "GitHub",
            told: Timestamp(told),
            ours: Timestamp(ours),
        };
        assert_eq!(date(5_000, 5_999).skew(), 0);
        assert_eq!(date(5_000, 7_000).skew(), -2_000);
        assert_eq!(date(90_000, 5_000).skew(), 85_000);
    }
}
