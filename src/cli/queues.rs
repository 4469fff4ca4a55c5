//! `queues`: what waits for whom.

use clap::Args;
use serde::Deserialize;

use super::context::Context;
use super::failure::Failure;
use super::file::Rows;
use super::list::{List, ListOptions};
use super::shown::{Times, count, number, plain};
use super::table::{Column, TableRow};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway queues
  the-loop-gateway queues --format json | jq '.queues[] | select(.dead > 0)'
  the-loop-gateway queues --url http://127.0.0.1:8790 --absolute

backlog   deliveries that are ready or in hand
in hand   handed out, without an outcome so far
retry     waiting for their next try after a failure
suspects  going out alone, because they were in hand when a process vanished
dead      given up after too many strikes, kept for inspection
committed everything up to this number is settled

When the gateway of the config is down, the rows come from its file, read only.";

/// List the queue of each instance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Queues {
    #[command(flatten)]
    options: ListOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    instance: String,
    committed: u64,
    backlog: u64,
    in_hand: u64,
    waiting_retry: u64,
    suspects: u64,
    dead: u64,
    oldest_received_at: Option<String>,
    oldest_age_seconds: Option<f64>,
}

const LIST: List<Row> = List {
    name: "queues",
    file: Rows::Queues,
    columns: &[
        Column::Text("instance"),
        Column::Number("backlog"),
        Column::Number("in hand"),
        Column::Number("retry"),
        Column::Number("suspects"),
        Column::Number("dead"),
        Column::Text("oldest"),
        Column::Number("committed"),
    ],
    row: Row::shown,
    summary,
};

impl Queues {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        LIST.perform(&self.options, context)
    }
}

impl Row {
    fn shown(&self, times: Times) -> TableRow {
        TableRow {
            cells: vec![
                plain(&self.instance),
                number(self.backlog),
                number(self.in_hand),
                number(self.waiting_retry),
                number(self.suspects),
                number(self.dead),
                times.aged(self.oldest_received_at.as_deref(), self.oldest_age_seconds),
                number(self.committed),
            ],
            alarming: self.dead > 0,
        }
    }
}

fn summary(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no queue yet: no instance has fetched or registered".to_owned();
    }
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let queues = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    format!(
        "{}, {} waiting, {} in hand, {} dead",
        count(queues, "queue", "queues"),
        count(sum(|row| row.backlog), "delivery", "deliveries"),
        number(sum(|row| row.in_hand)),
        number(sum(|row| row.dead)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        serde_json::from_str(
            r#"[
            {"instance": "default", "committed": 431, "backlog": 0, "inHand": 0, "waitingRetry": 0,
             "suspects": 0, "dead": 0, "oldestReceivedAt": null, "oldestAgeSeconds": null},
            {"instance": "laptop", "committed": 412, "backlog": 1200, "inHand": 1, "waitingRetry": 1,
             "suspects": 0, "dead": 1, "oldestReceivedAt": "2026-10-18T14:02:11.120Z",
             "oldestAgeSeconds": 42.5}]"#,
        )
        .unwrap()
    }

    #[test]
    fn a_queue_is_one_row_with_its_age_in_words() {
        let rows = rows();
        let shown = rows[1].shown(Times::RelativeTo(crate::domain::Timestamp(0)));
        assert_eq!(
            shown.cells.join(" | "),
            "laptop | 1,200 | 1 | 1 | 0 | 1 | 42 s ago | 412"
        );
        assert!(shown.alarming);
        let shown = rows[0].shown(Times::Absolute);
        assert_eq!(
            shown.cells.join(" | "),
            "default | 0 | 0 | 0 | 0 | 0 | - | 431"
        );
        assert!(!shown.alarming);
        assert_eq!(
            rows[1].shown(Times::Absolute).cells[6],
            "2026-10-18T14:02:11.120Z"
        );
    }

    #[test]
    fn the_summary_counts_over_all_queues() {
        assert_eq!(
            summary(&rows()),
            "2 queues, 1,200 deliveries waiting, 1 in hand, 1 dead"
        );
        assert!(summary(&[]).starts_with("no queue yet"));
    }
}
