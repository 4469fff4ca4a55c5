//! Jira comments that came without their issue's key, and whose twin did not come.
//!
//! Data Center tells of a comment twice, once without the key. Where the other half is not
//! subscribed, every comment is lost, and nothing but the event log shows it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use super::Patient;
use super::findings::Findings;
use crate::cli::failure::Failure;
use crate::cli::shown::count;
use crate::domain::{Clock, Millis, Timestamp};

/// As much of the end of the event log as is read.
const READ_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How far back it is looked.
const BACK_MS: Millis = 7 * 86_400_000;
/// A twin comes a moment before or after; a poll brings the comment some minutes later.
const TWIN_BEFORE_MS: Millis = 60_000;
const TWIN_AFTER_MS: Millis = 10 * 60_000;

/// A record, as far as this check reads it.
#[derive(Debug, Deserialize)]
struct Record {
    ts: String,
    event: String,
    provider: Option<String>,
    reason: Option<String>,
    kind: Option<String>,
    transport: Option<String>,
}

pub(super) fn examine(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let config = patient.config();
    if !config.jira.webhook.enabled {
        return Ok(());
    }
    let path = &config.observability.event_log_path;
    let now = patient.context.clock.now();
    let seen = match read(path, now) {
        Ok(seen) => seen,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Seen::nothing(now),
        Err(error) => {
            let text = format!("{} cannot be read: {error}", path.display());
            return findings.unsure("jira comments", text);
        }
    };
    let all = u64::try_from(seen.keyless.len()).unwrap_or(u64::MAX);
    let alone = seen.without_twin();
    if alone == 0 {
        let text = match all {
            0 => "none came without its issue's key in the last 7 days".to_owned(),
            _ => format!(
                "{} without its issue's key in the last 7 days, each with its twin",
                count(all, "came", "came")
            ),
        };
        return findings.ok("jira comments", text);
    }
    let text = format!(
        "{} of the last 7 days came without the issue's key, and {alone} of them without a twin \
         that has it: tick `Issue: updated` in Jira's webhook, or these comments are lost",
        count(all, "comment", "comments")
    );
    findings.wrong("jira comments", text)
}

/// When comments came, without their key and with it, until now.
#[derive(Debug)]
struct Seen {
    keyless: Vec<Timestamp>,
    with_key: Vec<Timestamp>,
    until: Timestamp,
}

impl Seen {
    const fn nothing(until: Timestamp) -> Self {
        Self {
            keyless: Vec::new(),
            with_key: Vec::new(),
            until,
        }
    }

    /// Each twin counts once. What is so young that its twin may still come is left out.
    fn without_twin(&self) -> u64 {
        let mut twins = self.with_key.clone();
        let mut alone = 0_u64;
        for came in &self.keyless {
            let is_twin = |twin: &Timestamp| {
                let after = twin.since(*came);
                (TWIN_BEFORE_MS.saturating_neg()..=TWIN_AFTER_MS).contains(&after)
            };
            match twins.iter().position(is_twin) {
                Some(index) => drop(twins.remove(index)),
                None if self.until.since(*came) > TWIN_AFTER_MS => {
                    alone = alone.saturating_add(1);
                }
                None => {}
            }
        }
        alone
    }

    fn take(&mut self, record: &Record) {
        let moment = record.ts.parse::<jiff::Timestamp>();
        let Ok(moment) = moment.map(|moment| Timestamp(moment.as_millisecond())) else {
            return;
        };
        if record.provider.as_deref() != Some("jira") || self.until.since(moment) > BACK_MS {
            return;
        }
        let kind = record.kind.as_deref().unwrap_or_default();
        let has_key = kind == "jira:issue_updated"
            || record.transport.as_deref() == Some("poll") && kind.starts_with("comment_");
        match (record.event.as_str(), record.reason.as_deref()) {
            ("gateway.dropped", Some("keyless")) => self.keyless.push(moment),
            ("gateway.received", _) | ("gateway.dropped", Some("duplicate")) if has_key => {
                self.with_key.push(moment);
            }
            _ => {}
        }
    }
}

fn read(path: &Path, now: Timestamp) -> io::Result<Seen> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(READ_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut seen = Seen::nothing(now);
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        // Most records are of others; a first line that is cut is none.
        let is_jira = line.windows(6).any(|part| part == b"\"jira\"");
        if is_jira && let Ok(record) = serde_json::from_slice(&line) {
            seen.take(&record);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: Millis = 3_600_000;
    const NOW: Timestamp = Timestamp(1_792_332_131_120);

    fn line(ago_ms: Millis, event: &str, more: &str) -> String {
        let ts = NOW.plus(ago_ms.saturating_neg());
        format!("{{\"ts\":\"{ts}\",\"event\":\"{event}\",\"provider\":\"jira\",{more}}}\n")
    }

    fn keyless(ago_ms: Millis) -> String {
        let more = r#""transport":"webhook","reason":"keyless","kind":"comment_created""#;
        line(ago_ms, "gateway.dropped", more)
    }

    fn alone_in(lines: &[String]) -> (usize, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        std::fs::write(&path, lines.concat()).unwrap();
        let seen = read(&path, NOW).unwrap();
        (seen.keyless.len(), seen.without_twin())
    }

    #[test]
    fn a_keyless_comment_needs_a_twin_of_its_own() {
        let twin = |ago_ms| {
            let more = r#""transport":"webhook","kind":"jira:issue_updated""#;
            line(ago_ms, "gateway.received", more)
        };
        let polled = |ago_ms| {
            let more = r#""transport":"poll","kind":"comment_created""#;
            line(ago_ms, "gateway.received", more)
        };
        let again = |ago_ms| {
            let more = r#""transport":"webhook","reason":"duplicate","kind":"jira:issue_updated""#;
            line(ago_ms, "gateway.dropped", more)
        };
        assert_eq!(alone_in(&["no record\n".to_owned()]), (0, 0));
        assert_eq!(alone_in(&[keyless(HOUR_MS)]), (1, 1));
        for other in [twin, polled, again] {
            assert_eq!(alone_in(&[keyless(HOUR_MS), other(HOUR_MS - 200)]), (1, 0));
            assert_eq!(alone_in(&[other(HOUR_MS + 200), keyless(HOUR_MS)]), (1, 0));
        }
        let far = [keyless(HOUR_MS), twin(HOUR_MS * 2)];
        assert_eq!(alone_in(&far), (1, 1));
        let two = [keyless(HOUR_MS), keyless(HOUR_MS), twin(HOUR_MS)];
        assert_eq!(alone_in(&two), (2, 1));
    }

    #[test]
    fn what_is_old_does_not_count_and_what_is_young_may_still_get_its_twin() {
        assert_eq!(alone_in(&[keyless(8 * 24 * HOUR_MS)]), (0, 0));
        assert_eq!(alone_in(&[keyless(5_000)]), (1, 0));
        let created = r#""transport":"webhook","kind":"comment_created""#;
        let not_a_twin = line(HOUR_MS, "gateway.received", created);
        assert_eq!(alone_in(&[keyless(HOUR_MS), not_a_twin]), (1, 1));
    }
}
