//! `events`: what arrived and was stored.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, ApiError};
use super::context::Context;
use super::failure::Failure;
use super::list::{Format, ListOptions};
use super::selecting::Narrowed;
use super::shown::{NONE, Times, bytes, plain};
use super::source::{Source, newer_path};
use super::table::{Column, TableRow, render};
use super::trouble::Trouble;
use crate::domain::{Clock, InstanceName, ParseError};
use crate::store::views::{EventFilter, EventState};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway events
  the-loop-gateway events --subject github:octo/repo#15 --since 2h
  the-loop-gateway events --state held --format json | jq -r '.events[].subject'
  the-loop-gateway events --kind issue_comment --follow
  the-loop-gateway events --since 2026-10-18T12:00:00Z --until 2026-10-18T13:00:00Z --limit 1000

Newest first; with --follow oldest first, and then each as it is stored, until Ctrl-C.
`explain` tells the story of one of them. Times are those at which they were received.

held     on no queue: nobody claims its work item or works for its actor
grace    nothing names its work item yet; a binding may, for a short time
routed   on at least one queue
expired  given up by retention; its payload is gone

When the gateway of the config is down, the rows come from its file, read only.";

const FOLLOW_EVERY: Duration = Duration::from_secs(1);
const FOLLOW_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// List stored events, or follow them as they come
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Events {
    #[command(flatten)]
    narrowed: Narrowed,
    /// Only of this kind, as the provider names it
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only those in this state: held, grace, routed or expired
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<EventState>,
    /// Only those that are or were on the queue of this instance
    #[arg(long, value_name = "NAME", value_parser = InstanceName::parse)]
    instance: Option<InstanceName>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Go on with what is stored from now on
    #[arg(long, conflicts_with = "until")]
    follow: bool,
    #[command(flatten)]
    options: ListOptions,
}

fn state(word: &str) -> Result<EventState, ParseError> {
    EventState::from_word(word).ok_or(ParseError("must be held, grace, routed or expired"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: i64,
    subject: String,
    work_item: Option<String>,
    provider: String,
    source: String,
    kind: String,
    received_at: String,
    state: String,
    actor: Option<String>,
    payload_bytes: u64,
}

const COLUMNS: &[Column] = &[
    Column::Number("event"),
    Column::Text("received"),
    Column::Text("kind"),
    Column::Text("work item"),
    Column::Text("by"),
    Column::Text("through"),
    Column::Number("payload"),
    Column::Text("state"),
];

impl Events {
    pub(super) fn perform(self, context: &Context) -> Result<(), Failure> {
        let filter = EventFilter {
            received: self.narrowed.period(context.clock.now()),
            subject: self.narrowed.subject.unwrap_or_default(),
            kind: self.kind,
            state: self.state,
            instance: self.instance,
            named: None,
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (follow, options) = (self.follow, self.options);
        Context::wait_for(async {
            let source = Source::find(options.url.as_deref(), context).await?;
            if !follow {
                let found = source.events(&filter, limit).await?;
                return list(found, &options, context);
            }
            match source {
                Source::Running(api) => {
                    let follower = Follower { api, filter, limit };
                    follower.run(&options, context).await
                }
                Source::File(..) => Err(Trouble::FollowsTheRunning.into()),
            }
        })
    }
}

fn list(
    (rows, is_cut): (Vec<Value>, bool),
    options: &ListOptions,
    context: &Context,
) -> Result<(), Failure> {
    let shown = match options.format {
        Format::Json => {
            serde_json::to_string_pretty(&json!({ "events": rows })).map_err(Failure::Rows)?
        }
        Format::Table => table(&parse(rows)?, is_cut, options, context),
    };
    context.output.data(&shown)
}

fn parse(rows: Vec<Value>) -> Result<Vec<Row>, Failure> {
    serde_json::from_value(Value::Array(rows)).map_err(Failure::Rows)
}

fn table(rows: &[Row], is_cut: bool, options: &ListOptions, context: &Context) -> String {
    if rows.is_empty() {
        return "no such event is stored".to_owned();
    }
    let times = options.times(context.clock.now());
    let shown: Vec<TableRow> = rows.iter().map(|row| row.shown(times)).collect();
    let found = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    let summary = super::shown::count(found, "event", "events");
    let more = if is_cut {
        "; older ones with --limit"
    } else {
        ""
    };
    format!(
        "{}\n\n{summary}{more}",
        render(COLUMNS, &shown, context.output)
    )
}

impl Row {
    fn shown(&self, times: Times) -> TableRow {
        TableRow {
            cells: vec![
                self.id.to_string(),
                times.past(Some(&self.received_at)),
                plain(&self.kind),
                plain(self.about()),
                plain(self.actor.as_deref().unwrap_or(NONE)),
                self.through(),
                bytes(self.payload_bytes),
                plain(&self.state),
            ],
            alarming: self.state == "expired",
        }
    }

    fn about(&self) -> &str {
        self.work_item.as_deref().unwrap_or(&self.subject)
    }

    fn through(&self) -> String {
        plain(&format!("{} {}", self.provider, self.source))
    }

    /// One line of a story that goes on: with the time, because its distance would not stay true.
    fn line(&self) -> String {
        let by = self.actor.as_deref().unwrap_or(NONE);
        plain(&format!(
            "{}  {:>8}  {:8}  {} on {} by {by}, {}",
            self.received_at,
            self.id,
            self.state,
            self.kind,
            self.about(),
            self.through(),
        ))
    }
}

/// Tells events as they are stored.
struct Follower {
    api: Api,
    filter: EventFilter,
    limit: usize,
}

impl Follower {
    async fn run(self, options: &ListOptions, context: &Context) -> Result<(), Failure> {
        // Where to go on is asked first: what is stored in between is met twice, not lost.
        let mut than = self.newest().await?;
        let source = Source::Running(self.api.clone());
        let (mut rows, _) = source.events(&self.filter, self.limit).await?;
        rows.reverse();
        let mut told: BTreeSet<i64> = rows.iter().filter_map(id_of).collect();
        if !tell(&rows, options, context)? {
            return Ok(());
        }
        let mut is_away = false;
        loop {
            tokio::time::sleep(if is_away {
                FOLLOW_AGAIN_AFTER
            } else {
                FOLLOW_EVERY
            })
            .await;
            let found = match self.newer(than).await {
                Ok(found) => found,
                Err(
                    error @ (ApiError::Down { .. }
                    | ApiError::Slow { .. }
                    | ApiError::Broken { .. }),
                ) => {
                    if !is_away {
                        context.output.note(&format!("{error}; trying again"));
                    }
                    is_away = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if is_away {
                context.output.note("the gateway answers again");
                is_away = false;
            }
            let (rows, up_to) = found;
            let new: Vec<Value> = rows
                .into_iter()
                .filter(|row| id_of(row).is_none_or(|id| !told.contains(&id)))
                .collect();
            told.retain(|id| *id > up_to);
            than = up_to;
            if !tell(&new, options, context)? {
                return Ok(());
            }
        }
    }

    /// A number from which on everything that comes later is found.
    async fn newest(&self) -> Result<i64, Failure> {
        let source = Source::Running(self.api.clone());
        let (rows, _) = source.events(&EventFilter::default(), 100).await?;
        Ok(rows.iter().filter_map(id_of).max().unwrap_or(0))
    }

    async fn newer(&self, than: i64) -> Result<(Vec<Value>, i64), ApiError> {
        let mut page = self.api.get(&newer_path(&self.filter, than)).await?;
        let rows = page.get_mut("events").map(Value::take);
        let up_to = page.get("upTo").and_then(Value::as_i64);
        match (rows, up_to) {
            (Some(Value::Array(rows)), Some(up_to)) => Ok((rows, up_to)),
            _ => Err(self.api.not_ours()),
        }
    }
}

fn id_of(row: &Value) -> Option<i64> {
    row.get("id").and_then(Value::as_i64)
}

/// False when nobody listens any more.
fn tell(rows: &[Value], options: &ListOptions, context: &Context) -> Result<bool, Failure> {
    for row in rows {
        let line = match options.format {
            Format::Json => row.to_string(),
            Format::Table => {
                let row: Row = serde_json::from_value(row.clone()).map_err(Failure::Rows)?;
                row.line()
            }
        };
        if !context.output.tell(&line) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn row() -> Row {
        serde_json::from_value(json!({
            "id": 208, "subject": "loop-github-octo-repo-15", "workItem": "github:octo/repo#15",
            "provider": "github", "source": "webhook", "deliveryId": "g1",
            "kind": "issue_comment", "receivedAt": "1970-01-01T00:00:10.000Z", "state": "held",
            "actor": null, "payloadBytes": 13_044,
        }))
        .unwrap()
    }

    #[test]
    fn an_event_is_one_row_or_one_line() {
        let shown = row().shown(Times::RelativeTo(Timestamp(70_000)));
        assert_eq!(
            shown.cells.join(" | "),
            "208 | 1 min ago | issue_comment | github:octo/repo#15 | - | github webhook | \
             12.7 KiB | held"
        );
        assert_eq!(
            row().line(),
            "1970-01-01T00:00:10.000Z       208  held      issue_comment on github:octo/repo#15 \
             by -, github webhook"
        );
    }
}
