//! `replay`: stored events once more, onto the queue of one instance.

use clap::Args;
use serde_json::{Value, json};

use super::api::{ApiError, FieldError};
use super::context::Context;
use super::failure::Failure;
use super::intervening::{Appended, ChangeOptions, texts_of};
use super::selecting::Narrowed;
use super::trouble::Trouble;
use crate::domain::{Clock, InstanceName};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway replay --to laptop 199 208
  the-loop-gateway replay --to laptop --subject github:octo/repo#15
  the-loop-gateway replay --to laptop --since 2h --until 1h --dry-run

Each event becomes a new delivery on that queue, whoever works on the work item and whatever became
of the event before, in the order of the events. At most 500 at a time: narrow a longer selection
by time, which is that of the arrival. What waits on that queue already, and what has no payload any
more, is skipped. The instance must be known: it fetched or registered once, or `instances` of the
config lists it.";

/// Send stored events to one instance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// The numbers of events, as `events` shows them
    #[arg(value_name = "EVENT", num_args = 0..=500)]
    events: Vec<i64>,
    /// The instance that gets them
    #[arg(long, value_name = "NAME", value_parser = InstanceName::parse)]
    to: InstanceName,
    #[command(flatten)]
    narrowed: Narrowed,
    #[command(flatten)]
    options: ChangeOptions,
}

impl Replay {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let body = self.body(context)?;
        let answer = Context::wait_for(async {
            let api = self.options.gateway(context)?;
            self.options.ask(&api, "replay", &body).await
        })
        .map_err(in_options)?;
        let done: Appended = serde_json::from_value(answer).map_err(Failure::Rows)?;
        let past = format!("replayed onto {}", self.to);
        done.write(&past, "event", self.options.format, context)
    }

    fn body(&self, context: &Context) -> Result<Value, Failure> {
        let Narrowed { subject, since, .. } = &self.narrowed;
        if self.events.is_empty() && subject.is_none() && since.is_none() {
            let how = "numbers of events, --subject, or --since";
            return Err(Trouble::NothingSelected(how).into());
        }
        let narrowed = self.narrowed.texts(context.clock.now());
        let to = Some(self.to.to_string());
        let mut body = texts_of(narrowed.into_iter().chain([("instance", to)]));
        if !self.events.is_empty() {
            body.insert("events".to_owned(), json!(self.events));
        }
        Ok(Value::Object(body))
    }
}

/// What the gateway says of a field that stands for an option is said of the option.
fn in_options(failure: Failure) -> Failure {
    if let Failure::Api(ApiError::Refused { fields, .. }) = &failure
        && let [FieldError { field, message }] = fields.as_slice()
        && field == "instance"
    {
        return Trouble::Option {
            option: "--to",
            must: message.clone(),
        }
        .into();
    }
    failure
}
