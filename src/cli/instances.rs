//! `instances`: who fetches, who holds which name, and for whom.

use clap::Args;
use serde::Deserialize;

use super::context::Context;
use super::failure::Failure;
use super::file::Rows;
use super::list::{List, ListOptions};
use super::shown::{NONE, Times, count, number, plain, seconds};
use super::table::{Column, TableRow};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway instances
  the-loop-gateway instances --format json | jq -r '.instances[].instance'
  the-loop-gateway instances --absolute

The lease says whether a process holds the name now. The peer is a fingerprint of the installation
that holds or held it last: two installations under one name show as two fingerprints.

When the gateway of the config is down, the rows come from its file, read only.";

/// List the instances: who fetches, and for whom each works
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Instances {
    #[command(flatten)]
    options: ListOptions,
}

/// An instance, as the API lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// Its name.
    pub(super) instance: String,
    last_fetch_at: Option<String>,
    /// Whether somebody has the name.
    pub(super) lease: Lease,
    peer_fingerprint: Option<String>,
    actors: Actors,
    /// What waits on its queue.
    pub(super) backlog: u64,
}

/// The hold on a name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    /// True while it lasts.
    pub(super) live: bool,
    /// The seconds that are left of it.
    pub(super) expires_in: f64,
}

/// What is left of a lease.
pub(super) fn left(expires_in: f64) -> String {
    format!("{} left", seconds(expires_in))
}

#[derive(Debug, Deserialize)]
struct Actors {
    github: Vec<String>,
    slack: Vec<String>,
    jira: Vec<String>,
}

const LIST: List<Row> = List {
    name: "instances",
    file: Rows::Instances,
    columns: &[
        Column::Text("instance"),
        Column::Text("last fetch"),
        Column::Text("lease"),
        Column::Number("backlog"),
        Column::Text("peer"),
        Column::Text("works for"),
    ],
    row: Row::shown,
    summary,
};

impl Instances {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        LIST.perform(&self.options, context)
    }
}

impl Row {
    fn shown(&self, times: Times) -> TableRow {
        TableRow {
            cells: vec![
                plain(&self.instance),
                times.past(self.last_fetch_at.as_deref()),
                self.lease.shown(),
                number(self.backlog),
                plain(self.peer_fingerprint.as_deref().unwrap_or(NONE)),
                self.actors.shown(),
            ],
            alarming: self.backlog > 0 && !self.lease.live,
        }
    }
}

impl Lease {
    fn shown(&self) -> String {
        if self.live {
            format!("live, {}", left(self.expires_in))
        } else {
            NONE.to_owned()
        }
    }
}

impl Actors {
    fn shown(&self) -> String {
        let Self {
            github,
            slack,
            jira,
        } = self;
        let shown: Vec<String> = [("github", github), ("slack", slack), ("jira", jira)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(provider, names)| format!("{provider} {}", names.join(" ")))
            .collect();
        if shown.is_empty() {
            NONE.to_owned()
        } else {
            plain(&shown.join(", "))
        }
    }
}

fn summary(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no instance yet: none has fetched or registered".to_owned();
    }
    let counted =
        |of: fn(&&Row) -> bool| u64::try_from(rows.iter().filter(of).count()).unwrap_or(u64::MAX);
    format!(
        "{}, {} live, {} with a backlog",
        count(counted(|_| true), "instance", "instances"),
        number(counted(|row| row.lease.live)),
        number(counted(|row| row.backlog > 0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn rows() -> Vec<Row> {
        serde_json::from_str(
            r#"[
            {"instance": "laptop", "lastFetchAt": "1970-01-01T00:00:10.000Z",
             "lease": {"live": true, "expiresIn": 57.3}, "peerFingerprint": "9f86d081884c7d65",
             "actors": {"github": ["octocat", "hubot"], "slack": ["U0123"], "jira": []},
             "backlog": 12},
            {"instance": "spare", "lastFetchAt": null, "lease": {"live": false, "expiresIn": 0},
             "peerFingerprint": null, "actors": {"github": [], "slack": [], "jira": []},
             "backlog": 3}]"#,
        )
        .unwrap()
    }

    #[test]
    fn an_instance_says_when_it_fetched_and_for_whom_it_works() {
        let rows = rows();
        let times = Times::RelativeTo(Timestamp(70_000));
        let shown = rows[0].shown(times);
        assert_eq!(
            shown.cells.join(" | "),
            "laptop | 1 min ago | live, 57 s left | 12 | 9f86d081884c7d65 | \
             github octocat hubot, slack U0123"
        );
        assert!(!shown.alarming);
        let shown = rows[1].shown(times);
        assert_eq!(shown.cells.join(" | "), "spare | - | - | 3 | - | -");
        assert!(shown.alarming);
    }

    #[test]
    fn the_summary_counts_who_is_live() {
        assert_eq!(summary(&rows()), "2 instances, 1 live, 2 with a backlog");
        assert!(summary(&[]).starts_with("no instance yet"));
    }
}
