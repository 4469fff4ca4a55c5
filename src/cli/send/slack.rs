//! `send slack`: one of our samples, or a file, under Slack's headers and signature.

use std::path::PathBuf;

use clap::Args;

use super::{SendOptions, Signed, Target, no_sample, post, read};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::paths::tidy_path;
use crate::cli::samples::slack::{Route, SLACK, Scene};
use crate::cli::samples::{Sample, new_id};
use crate::domain::{Clock, Timestamp};
use crate::providers::signature::sign_slack;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway send slack message --channel C0123 --thread 1792332000.000100
  the-loop-gateway send slack slash_command --user U0123 --text start
  the-loop-gateway send slack events --file event.json
  the-loop-gateway send slack interactions --file body.form

Slack posts to the gateway only when slack.http is enabled. With --file, <EVENT> is the route:
events (the file is JSON), interactions or commands (the file is the whole form body).
Without --file, <EVENT> is one of:
";

fn after_help() -> String {
    format!("{EXAMPLES}{}", Sample::listed(SLACK))
}

/// Send a Slack event, interaction or command: a sample, or a file
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(super) struct SendSlack {
    /// The sample, or the route of a file
    event: String,
    /// A file with the body in place of a sample, sent byte for byte
    #[arg(long, value_name = "FILE", value_parser = tidy_path())]
    file: Option<PathBuf>,
    /// The sample's channel
    #[arg(long, value_name = "ID", default_value = "C0123")]
    channel: String,
    /// The ts of the first message of the sample's thread [default: no thread]
    #[arg(long, value_name = "TS")]
    thread: Option<String>,
    /// The sample's workspace
    #[arg(long, value_name = "ID", default_value = "T0123")]
    team: String,
    /// Who does it in the sample
    #[arg(long, value_name = "ID", default_value = "U0123")]
    user: String,
    /// What the sample says
    #[arg(long, default_value = "please start")]
    text: String,
    #[command(flatten)]
    options: SendOptions,
}

impl SendSlack {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let loaded = context.load_with_warnings()?;
        let now = context.clock.now();
        let route = Route::of(&self.event);
        let body = match &self.file {
            Some(path) => read(path)?,
            None => {
                let sample = Sample::of(SLACK, &self.event);
                let sample = sample.ok_or_else(|| no_sample(SLACK, &self.event))?;
                route.body(&sample.payload(&self.scene(now)))
            }
        };
        let secret = self
            .options
            .secret(&loaded, &loaded.config.slack.http.signing_secret_env)?;
        let target = Target::of(&self.options, &loaded.config, route.path())?;
        let seconds = now.0.div_euclid(1000);
        let (timestamp, signature) = (seconds.to_string(), sign_slack(&secret, seconds, &body));
        let headers = [
            ("content-type", route.content_type()),
            ("x-slack-request-timestamp", &timestamp),
            ("x-slack-signature", &signature),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signed = Signed {
            event: self.event.clone(),
            delivery_id: format!("at {timestamp}"),
            headers: headers.into(),
            body,
        };
        post(signed, &target, self.options.format, context)
    }

    fn scene(&self, now: Timestamp) -> Scene {
        Scene {
            team: self.team.clone(),
            channel: self.channel.clone(),
            thread: self.thread.clone(),
            user: self.user.clone(),
            text: self.text.clone(),
            now,
            id: new_id(),
        }
    }
}
