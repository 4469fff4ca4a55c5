//! Sample deliveries, written for this program: small, but shaped as the providers shape them, so
//! that they are stored, routed and recognised as the real ones are.

pub(super) mod github;
pub(super) mod jira;
pub(super) mod slack;

use serde_json::Value;

use crate::domain::Timestamp;

/// One kind of event; `S` is what it is about.
#[derive(Debug)]
pub(super) struct Sample<S: 'static> {
    /// Its name on the command line: as the provider names the event.
    pub(super) name: &'static str,
    /// What happens in it.
    pub(super) about: &'static str,
    payload: fn(&S) -> Value,
}

impl<S> Sample<S> {
    /// The sample of that name.
    pub(super) fn of(samples: &'static [Self], name: &str) -> Option<&'static Self> {
        samples.iter().find(|sample| sample.name == name)
    }

    /// The payload of the event.
    pub(super) fn payload(&self, scene: &S) -> Value {
        (self.payload)(scene)
    }

    /// The payload's bytes.
    pub(super) fn bytes(&self, scene: &S) -> Vec<u8> {
        self.payload(scene).to_string().into_bytes()
    }

    /// The names, for an error.
    pub(super) fn names(samples: &[Self]) -> String {
        samples
            .iter()
            .map(|sample| sample.name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The names and what happens, a line each, for a help text.
    pub(super) fn listed(samples: &[Self]) -> String {
        let width = samples
            .iter()
            .map(|sample| sample.name.len())
            .max()
            .unwrap_or_default();
        let lines = samples
            .iter()
            .map(|Self { name, about, .. }| format!("  {name:<width$}  {about}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A number from so large a range that two samples do not meet.
pub(super) fn new_id() -> u64 {
    fastrand::u64(1..1 << 48)
}

/// A moment in whole seconds, as GitHub writes it.
pub(super) fn moment(now: Timestamp) -> String {
    let now = now.to_string();
    let seconds = now
        .split_once('.')
        .map_or(now.as_str(), |(seconds, _)| seconds);
    format!("{seconds}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_whole_seconds() {
        assert_eq!(moment(Timestamp(1_792_332_131_120)), "2026-10-18T14:02:11Z");
    }

    #[test]
    fn the_samples_are_listed_in_columns() {
        let listed = Sample::listed(jira::JIRA);
        assert!(listed.starts_with(
            "  comment_created     somebody comments on an issue\n  comment_updated     a comment"
        ));
        assert!(Sample::names(jira::JIRA).starts_with("comment_created, "));
    }
}
