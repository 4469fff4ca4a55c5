//! `redrive`: dead deliveries once more, to whoever consumes their work items today.

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::intervening::{Appended, ChangeOptions, texts_of};
use super::progress::Progress;
use super::selecting::Narrowed;
use super::shown::count;
use super::trouble::Trouble;
use crate::domain::{Clock, InstanceName};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway redrive 401
  the-loop-gateway redrive --subject github:octo/repo#15 --dry-run
  the-loop-gateway redrive --instance laptop --since 2h
  the-loop-gateway redrive --all

Each becomes a new delivery (attempt 1, no strikes) for those who consume its work item today. The
dead one stays as it is, and is never replaced twice. What is given narrows together; times are
those at which they died.";

/// Send dead deliveries again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Redrive {
    /// The numbers of dead deliveries, as `dead list` shows them
    #[arg(value_name = "SEQ", num_args = 0..=500)]
    seqs: Vec<i64>,
    #[command(flatten)]
    narrowed: Narrowed,
    /// Those that died on the queue of this instance
    #[arg(long, value_name = "NAME", value_parser = InstanceName::parse)]
    instance: Option<InstanceName>,
    /// All of them
    #[arg(long, conflicts_with_all = ["seqs", "subject", "instance", "since", "until"])]
    all: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

impl Redrive {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let body = self.body(context)?;
        let done = Context::wait_for(self.redrive(&body, context))?;
        done.write("redriven", "delivery", self.options.format, context)
    }

    /// A call replaces at most 500; the same call goes on.
    async fn redrive(&self, body: &Value, context: &Context) -> Result<Appended, Failure> {
        let api = self.options.gateway(context)?;
        let mut progress = Progress::begin(context);
        let mut done = Appended::default();
        loop {
            let answer = self.options.ask(&api, "redrive", body).await?;
            let part: Appended = serde_json::from_value(answer).map_err(Failure::Rows)?;
            let did_nothing = part.appended == 0;
            done.extend(part);
            if !done.more || did_nothing || self.options.dry_run {
                return Ok(done);
            }
            progress.tell(|| {
                format!(
                    "{} redriven",
                    count(done.appended, "delivery", "deliveries")
                )
            });
        }
    }

    fn body(&self, context: &Context) -> Result<Value, Failure> {
        let instance = self.instance.as_ref().map(ToString::to_string);
        let narrowed = self.narrowed.texts(context.clock.now());
        let mut body = texts_of(narrowed.into_iter().chain([("instance", instance)]));
        if !self.seqs.is_empty() {
            body.insert("seqs".to_owned(), json!(self.seqs));
        }
        if self.all {
            body.insert("all".to_owned(), json!(true));
        }
        if body.is_empty() {
            let how = "numbers, --subject, --instance, --since, --until, or --all";
            return Err(Trouble::NothingSelected(how).into());
        }
        Ok(Value::Object(body))
    }
}
