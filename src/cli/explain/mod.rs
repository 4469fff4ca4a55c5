//! `explain`: where is my event?

mod log;
mod names;
mod story;
mod waiting;

use clap::Args;
use serde_json::{Value, json};

use self::names::Asked;
use self::story::Story;
use super::context::Context;
use super::failure::Failure;
use super::list::{Format, ListOptions};
use super::source::Source;
use super::trouble::Trouble;
use crate::domain::Clock;
use crate::store::views::EventFilter;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway explain 208
  the-loop-gateway explain 72d3162e-cc78-11e3-81ab-4c9367dc0958
  the-loop-gateway explain 'https://github.com/octo/repo/issues/15#issuecomment-9001'
  the-loop-gateway explain 'https://acme.slack.com/archives/C0123/p1700000000123456'
  the-loop-gateway explain Ev0123ABCD
  the-loop-gateway explain 208 --format json | jq '.deliveries[].handOuts'

EVENT is the event's number; or the provider's id of the delivery (GitHub's GUID of Recent
Deliveries, Slack's event_id, Jira's X-Atlassian-Webhook-Identifier); or the URL of a comment or
a message; or one of the keys that `explain` shows.

What the store does not know is looked for in the event log of this machine, which says why it
was dropped. When the gateway of the config is down, the story comes from its file, read only.";

/// More of one name than anybody reads.
const OF_ONE_NAME_MAX: usize = 20;

/// Tell the story of one event: what it waits for, who had it, what they said
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    /// Which event: its number, an id of the provider, a URL, or a key
    #[arg(value_name = "EVENT")]
    event: String,
    #[command(flatten)]
    options: ListOptions,
}

impl Explain {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let name = match Asked::parse(&self.event) {
            Asked::WorkItem => return Err(Trouble::WorkItem(self.event.clone()).into()),
            Asked::Number(_) => self.event.clone(),
            Asked::Name(name) => name,
        };
        let found = Context::wait_for(self.find(&name, context))?;
        let Some((story, others)) = found else {
            return self.explain_from_log(&name, context);
        };
        show(&story, &self.options, context)?;
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            context.output.note(&format!(
                "this is the newest of several; the others are events {}",
                others.join(", ")
            ));
        }
        Ok(())
    }

    /// The story, and the numbers of further events of that name.
    async fn find(
        &self,
        name: &str,
        context: &Context,
    ) -> Result<Option<(Value, Vec<i64>)>, Failure> {
        let source = Source::find(self.options.url.as_deref(), context).await?;
        if let Asked::Number(id) = Asked::parse(&self.event)
            && let Some(story) = source.story(id).await?
        {
            return Ok(Some((story, Vec::new())));
        }
        let filter = EventFilter {
            named: Some(name.to_owned()),
            ..EventFilter::default()
        };
        let (rows, _) = source.events(&filter, OF_ONE_NAME_MAX).await?;
        let mut ids = rows
            .iter()
            .filter_map(|row| row.get("id").and_then(Value::as_i64));
        let Some(newest) = ids.next() else {
            return Ok(None);
        };
        let story = source.story(newest).await?;
        Ok(story.map(|story| (story, ids.collect())))
    }

    fn explain_from_log(&self, name: &str, context: &Context) -> Result<(), Failure> {
        let unknown = |where_looked| Trouble::Unknown {
            name: self.event.clone(),
            where_looked,
        };
        if self.options.url.is_some() {
            return Err(unknown("that gateway has not stored it; its event log says more").into());
        }
        let places = context.load()?.config.observability;
        let records = log::records(&places.event_log_path, places.event_logs_kept, name)
            .map_err(Trouble::files(places.event_log_path))?;
        if records.is_empty() {
            return Err(unknown("it is neither in the store nor in the event log").into());
        }
        let shown = match self.options.format {
            Format::Json => {
                let answer = json!({ "event": null, "records": records });
                serde_json::to_string_pretty(&answer).map_err(Failure::Rows)?
            }
            Format::Table => {
                let times = self.options.times(context.clock.now());
                let mut lines = vec![format!(
                    "{} is not in the store; the event log says of it:\n",
                    super::shown::plain(name)
                )];
                lines.extend(records.iter().map(|record| log::shown(record, times)));
                lines.push(
                    "\nWhat `reason` means, and what to do: docs/OPERATIONS.md, \
                     \"The event log, record by record\"."
                        .to_owned(),
                );
                lines.join("\n")
            }
        };
        context.output.data(&shown)
    }
}

/// Writes a story as the API gave it.
///
/// # Errors
/// When it is not one, or the output cannot be written.
pub(super) fn show(story: &Value, options: &ListOptions, context: &Context) -> Result<(), Failure> {
    let shown = match options.format {
        Format::Json => serde_json::to_string_pretty(story).map_err(Failure::Rows)?,
        Format::Table => {
            let story: Story = serde_json::from_value(story.clone()).map_err(Failure::Rows)?;
            story.told(options.times(context.clock.now()), context.output)
        }
    };
    context.output.data(&shown)
}
