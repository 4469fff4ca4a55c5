//! `dead`: what was given up after too many strikes.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::explain;
use super::failure::Failure;
use super::list::{Format, ListOptions};
use super::selecting::Narrowed;
use super::shown::{NONE, Times, count, plain};
use super::source::Source;
use super::table::{Column, TableRow, render};
use super::trouble::Trouble;
use crate::domain::{Clock, InstanceName, Subject, Timestamp};
use crate::store::{Period, SubjectFilter};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway dead list
  the-loop-gateway dead list --instance laptop --since 1d
  the-loop-gateway dead show 401

A delivery is dead after `store.maxAttempts` strikes and is kept for twice the retention. It leaves
the list when something replaces it: `redrive` sends it again.";

const LIST_EXAMPLES: &str = "\
Examples:
  the-loop-gateway dead list
  the-loop-gateway dead list --subject github:octo/repo#15
  the-loop-gateway dead list --instance laptop --since 1d --format json | jq '.dead[].seq'

Newest first; times are those at which they died. When the gateway of the config is down, the rows
come from its file, read only.";

const SHOW_EXAMPLES: &str = "\
Examples:
  the-loop-gateway dead show 401
  the-loop-gateway dead show 401 --format json | jq '.deliveries[].handOuts'";

/// List dead deliveries, or show how one died
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Dead {
    #[command(subcommand)]
    verb: DeadVerb,
}

#[derive(Debug, Subcommand)]
enum DeadVerb {
    List(DeadList),
    Show(DeadShow),
}

/// List dead deliveries that nothing replaced yet
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
struct DeadList {
    #[command(flatten)]
    narrowed: Narrowed,
    /// Only those that died on the queue of this instance
    #[arg(long, value_name = "NAME", value_parser = InstanceName::parse)]
    instance: Option<InstanceName>,
    #[command(flatten)]
    options: ListOptions,
}

/// Show the story of a dead delivery's event
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct DeadShow {
    /// The number of the delivery
    #[arg(value_name = "SEQ")]
    seq: i64,
    #[command(flatten)]
    options: ListOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    seq: i64,
    instance: String,
    event: EventFields,
    strikes: u64,
    last_outcome: Option<String>,
    detail: Option<String>,
    dead_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventFields {
    id: i64,
    subject: String,
    work_item: Option<String>,
    kind: String,
}

const COLUMNS: &[Column] = &[
    Column::Number("delivery"),
    Column::Text("instance"),
    Column::Text("died"),
    Column::Number("strikes"),
    Column::Number("event"),
    Column::Text("kind"),
    Column::Text("work item"),
    Column::Text("last outcome"),
];

impl Dead {
    pub(super) fn perform(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            DeadVerb::List(list) => list.perform(context),
            DeadVerb::Show(show) => show.perform(context),
        }
    }
}

impl DeadList {
    fn perform(self, context: &Context) -> Result<(), Failure> {
        let now = context.clock.now();
        let died = self.narrowed.period(now);
        let rows = dead_rows(&self.options, context)?;
        let mut meant = Vec::new();
        for value in rows {
            let row: Row = serde_json::from_value(value.clone()).map_err(Failure::Rows)?;
            if self.is_meant(&row, died) {
                meant.push((value, row));
            }
        }
        let shown = match self.options.format {
            Format::Json => {
                let rows: Vec<Value> = meant.into_iter().map(|(value, _)| value).collect();
                serde_json::to_string_pretty(&json!({ "dead": rows })).map_err(Failure::Rows)?
            }
            Format::Table if meant.is_empty() => "no such delivery is dead".to_owned(),
            Format::Table => {
                let times = self.options.times(now);
                let rows: Vec<TableRow> = meant.iter().map(|(_, row)| row.shown(times)).collect();
                let found = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                format!(
                    "{}\n\n{}; `dead show <delivery>` tells why, `redrive` sends them again",
                    render(COLUMNS, &rows, context.output),
                    count(found, "dead delivery", "dead deliveries")
                )
            }
        };
        context.output.data(&shown)
    }

    fn is_meant(&self, row: &Row, died: Period) -> bool {
        let subject = row.event.subject.as_str();
        let is_of_subject = match &self.narrowed.subject {
            None | Some(SubjectFilter::Any) => true,
            Some(SubjectFilter::Unassigned) => subject == Subject::UNASSIGNED,
            Some(SubjectFilter::Is(wanted)) => subject.eq_ignore_ascii_case(wanted.as_str()),
        };
        let is_of_instance = self
            .instance
            .as_ref()
            .is_none_or(|instance| instance.as_str() == row.instance);
        let died_then =
            moment(&row.dead_at).is_none_or(|moment| died.since <= moment && moment < died.until);
        is_of_subject && is_of_instance && died_then
    }
}

fn moment(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

fn dead_rows(options: &ListOptions, context: &Context) -> Result<Vec<Value>, Failure> {
    Context::wait_for(async {
        let source = Source::find(options.url.as_deref(), context).await?;
        source.dead().await
    })
}

impl DeadShow {
    fn perform(&self, context: &Context) -> Result<(), Failure> {
        let story = Context::wait_for(async {
            let source = Source::find(self.options.url.as_deref(), context).await?;
            let rows = source.dead().await?;
            let is_it = |row: &&Value| row.get("seq").and_then(Value::as_i64) == Some(self.seq);
            let event = rows
                .iter()
                .find(is_it)
                .and_then(|row| row.pointer("/event/id"));
            match event.and_then(Value::as_i64) {
                Some(event) => source.story(event).await,
                None => Ok(None),
            }
        })?;
        let story = story.ok_or(Trouble::NotDead(self.seq))?;
        explain::show(&story, &self.options, context)
    }
}

impl Row {
    fn shown(&self, times: Times) -> TableRow {
        let about = self.event.work_item.as_ref().unwrap_or(&self.event.subject);
        TableRow {
            cells: vec![
                self.seq.to_string(),
                plain(&self.instance),
                times.past(Some(&self.dead_at)),
                self.strikes.to_string(),
                self.event.id.to_string(),
                plain(&self.event.kind),
                plain(about),
                self.last(),
            ],
            alarming: false,
        }
    }

    fn last(&self) -> String {
        match (&self.last_outcome, &self.detail) {
            (Some(outcome), Some(detail)) => plain(&format!("{outcome}: {detail}")),
            (Some(outcome), None) => plain(outcome),
            (None, _) => NONE.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::selecting::subject_filter;

    fn row() -> Row {
        serde_json::from_value(json!({
            "seq": 401, "instance": "laptop", "strikes": 3, "lastOutcome": "failed",
            "detail": "no room", "deadAt": "1970-01-01T00:01:00.000Z",
            "event": {"id": 199, "subject": "loop-github-octo-repo-15", "kind": "issue_comment",
                      "workItem": "github:octo/repo#15"},
        }))
        .unwrap()
    }

    #[test]
    fn a_dead_delivery_is_one_row() {
        let shown = row().shown(Times::RelativeTo(Timestamp(120_000)));
        assert_eq!(
            shown.cells.join(" | "),
            "401 | laptop | 1 min ago | 3 | 199 | issue_comment | github:octo/repo#15 | \
             failed: no room"
        );
    }

    #[test]
    fn the_filters_narrow_together() {
        let list = |subject: Option<&str>, instance: Option<&str>| DeadList {
            narrowed: Narrowed {
                subject: subject.map(|text| subject_filter(text).unwrap()),
                ..Narrowed::default()
            },
            instance: instance.map(|name| InstanceName::parse(name).unwrap()),
            options: ListOptions::default(),
        };
        let all = Period::default();
        for (subject, instance, died, is_meant) in [
            (None, None, all, true),
            (Some("github:OCTO/repo#15"), Some("laptop"), all, true),
            (Some("github:octo/repo#16"), None, all, false),
            (Some("unassigned"), None, all, false),
            (None, Some("desktop"), all, false),
            (
                None,
                None,
                Period {
                    since: Timestamp(60_000),
                    ..all
                },
                true,
            ),
            (
                None,
                None,
                Period {
                    since: Timestamp(60_001),
                    ..all
                },
                false,
            ),
            (
                None,
                None,
                Period {
                    until: Timestamp(60_000),
                    ..all
                },
                false,
            ),
        ] {
            let list = list(subject, instance);
            assert_eq!(list.is_meant(&row(), died), is_meant, "{list:?} {died:?}");
        }
    }
}
