//! `subjects`: the work items, who works on them, and what waits.

use clap::Args;
use serde::Deserialize;

use super::context::Context;
use super::failure::Failure;
use super::file::Rows;
use super::list::{List, ListOptions};
use super::shown::{NONE, Times, count, number, plain};
use super::table::{Column, TableRow};
use crate::domain::Subject;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway subjects
  the-loop-gateway subjects --format json | jq '.subjects[] | select(.unattended)'
  the-loop-gateway subjects --url http://127.0.0.1:8790

A subject is listed while it has a claimant, a backlog, a dead delivery or a held event. It is
unattended when it is claimed and has a backlog, and none of its instances fetched for an hour.
Held events wait for somebody to claim the subject or to register their actor. The row
`unassigned` counts all of them, and what waits without a work item.

When the gateway of the config is down, the rows come from its file, read only.";

/// List the subjects: work items, who claims them, and what waits
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Subjects {
    #[command(flatten)]
    options: ListOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    subject: String,
    work_item: Option<String>,
    claimants: Vec<Claimant>,
    queues: Vec<Queue>,
    dead: u64,
    held: u64,
    unattended: bool,
}

#[derive(Debug, Deserialize)]
struct Claimant {
    instance: String,
    role: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    instance: String,
    depth: u64,
    oldest_received_at: String,
    oldest_age_seconds: f64,
}

const LIST: List<Row> = List {
    name: "subjects",
    file: Rows::Subjects,
    columns: &[
        Column::Text("subject"),
        Column::Text("work item"),
        Column::Text("claimed by"),
        Column::Text("waiting"),
        Column::Text("oldest"),
        Column::Number("held"),
        Column::Number("dead"),
        Column::Text("state"),
    ],
    row: Row::shown,
    summary,
};

impl Subjects {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        LIST.perform(&self.options, context)
    }
}

impl Row {
    fn shown(&self, times: Times) -> TableRow {
        let claimants = self
            .claimants
            .iter()
            .map(|claimant| format!("{} ({})", claimant.instance, claimant.role));
        let waiting = self
            .queues
            .iter()
            .map(|queue| format!("{} for {}", number(queue.depth), queue.instance));
        TableRow {
            cells: vec![
                plain(&self.subject),
                plain(self.work_item.as_deref().unwrap_or(NONE)),
                listed(claimants),
                listed(waiting),
                self.oldest(times),
                number(self.held),
                number(self.dead),
                self.state().to_owned(),
            ],
            alarming: self.unattended || self.dead > 0,
        }
    }

    fn oldest(&self, times: Times) -> String {
        let by_age = |one: &&Queue, other: &&Queue| {
            one.oldest_age_seconds.total_cmp(&other.oldest_age_seconds)
        };
        let oldest = self.queues.iter().max_by(by_age);
        times.aged(
            oldest.map(|queue| queue.oldest_received_at.as_str()),
            oldest.map(|queue| queue.oldest_age_seconds),
        )
    }

    const fn state(&self) -> &'static str {
        if self.unattended {
            "unattended"
        } else if !self.queues.is_empty() {
            "waiting"
        } else if self.held > 0 {
            "held"
        } else {
            "quiet"
        }
    }

    fn depth(&self) -> u64 {
        let depths = self.queues.iter().map(|queue| queue.depth);
        depths.fold(0, u64::saturating_add)
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let listed = items.collect::<Vec<_>>().join(", ");
    if listed.is_empty() {
        NONE.to_owned()
    } else {
        plain(&listed)
    }
}

fn summary(rows: &[Row]) -> String {
    let named = || rows.iter().filter(|row| row.subject != Subject::UNASSIGNED);
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    // The row `unassigned` counts every held event, also those that are in the row of a subject.
    let held_by_name = named().fold(0, |sum: u64, row| sum.saturating_add(row.held));
    let held = rows
        .iter()
        .fold(held_by_name, |most, row| most.max(row.held));
    let subjects = u64::try_from(named().count()).unwrap_or(u64::MAX);
    let (waiting, dead) = (sum(Row::depth), sum(|row| row.dead));
    if subjects == 0 && [waiting, held, dead] == [0, 0, 0] {
        return "no subject: nothing is claimed, and nothing waits".to_owned();
    }
    let of_all = format!(
        "{}, {} waiting, {} held, {} dead",
        count(subjects, "subject", "subjects"),
        count(waiting, "delivery", "deliveries"),
        count(held, "event", "events"),
        number(dead),
    );
    let unattended = sum(|row| u64::from(row.unattended));
    if unattended == 0 {
        return of_all;
    }
    let unattended = count(unattended, "subject is", "subjects are");
    format!("{of_all}\n{unattended} unattended: none of the claiming instances fetched for an hour")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn rows() -> Vec<Row> {
        serde_json::from_str(
            r#"[
            {"subject": "loop-github-octo-repo-15", "workItem": "github:octo/repo#15",
             "claimants": [
               {"instance": "laptop", "role": "driver", "claimedAt": "2026-10-18T13:58:00.004Z"},
               {"instance": "spare", "role": "reviewer", "claimedAt": "2026-10-18T13:58:00.004Z"}],
             "queues": [
               {"instance": "laptop", "depth": 2, "oldestReceivedAt": "2026-10-18T14:02:11.120Z",
                "oldestAgeSeconds": 4000},
               {"instance": "spare", "depth": 1, "oldestReceivedAt": "2026-10-18T15:00:00.000Z",
                "oldestAgeSeconds": 42.5}],
             "dead": 1, "held": 1, "unattended": true},
            {"subject": "unassigned", "workItem": null, "claimants": [], "queues": [],
             "dead": 0, "held": 3, "unattended": false}]"#,
        )
        .unwrap()
    }

    #[test]
    fn a_subject_says_who_works_on_it_and_what_waits_for_whom() {
        let rows = rows();
        let times = Times::RelativeTo(Timestamp(0));
        let shown = rows[0].shown(times);
        assert_eq!(
            shown.cells.join(" | "),
            "loop-github-octo-repo-15 | github:octo/repo#15 | laptop (driver), spare (reviewer) | \
             2 for laptop, 1 for spare | 1 h ago | 1 | 1 | unattended"
        );
        assert!(shown.alarming);
        let shown = rows[1].shown(times);
        assert_eq!(
            shown.cells.join(" | "),
            "unassigned | - | - | - | - | 3 | 0 | held"
        );
        assert!(!shown.alarming);
    }

    #[test]
    fn the_summary_says_in_words_that_a_subject_is_unattended() {
        assert_eq!(
            summary(&rows()),
            "1 subject, 3 deliveries waiting, 3 events held, 1 dead\n\
             1 subject is unattended: none of the claiming instances fetched for an hour"
        );
        assert!(summary(&[]).starts_with("no subject"));
        let mut rest = rows().split_off(1);
        rest[0].held = 0;
        assert!(summary(&rest).starts_with("no subject"));
    }
}
