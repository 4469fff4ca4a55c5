//! `send jira`: one of our samples, or a file, under Jira's headers and signature.

use std::path::PathBuf;

use clap::Args;

use super::{SendOptions, Signed, Target, new_delivery_id, no_sample, post, read};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::paths::tidy_path;
use crate::cli::samples::jira::{JIRA, Scene};
use crate::cli::samples::{Sample, new_id};
use crate::config::GatewayConfig;
use crate::domain::{Clock, Timestamp};
use crate::providers::signature::sign_jira;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway send jira comment_created --issue PROJ-123
  the-loop-gateway send jira --file payload.json
  the-loop-gateway send jira jira:issue_updated --url http://127.0.0.1:8791 --secret-env MY_SECRET

Without --file, <EVENT> is one of:
";

fn after_help() -> String {
    format!("{EXAMPLES}{}", Sample::listed(JIRA))
}

/// Send a Jira event: a sample, or a file
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(super) struct SendJira {
    /// The event, as webhookEvent names it
    #[arg(required_unless_present = "file")]
    event: Option<String>,
    /// A file with the payload in place of a sample, sent byte for byte
    #[arg(long, value_name = "FILE", value_parser = tidy_path())]
    file: Option<PathBuf>,
    /// The sample's issue [default: the first project's number 1]
    #[arg(long, value_name = "KEY-N")]
    issue: Option<String>,
    /// The account id of whoever does it in the sample
    #[arg(
        long,
        value_name = "ACCOUNT",
        default_value = "5b10a2844c20165700ede21g"
    )]
    actor: String,
    /// What the sample's comment says
    #[arg(long, default_value = "please start")]
    text: String,
    /// The id of the delivery [default: a new one]
    #[arg(long, value_name = "ID")]
    delivery_id: Option<String>,
    #[command(flatten)]
    options: SendOptions,
}

impl SendJira {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let loaded = context.load_with_warnings()?;
        let webhook = &loaded.config.jira.webhook;
        let event = self.event.as_deref().unwrap_or("a file");
        let body = match &self.file {
            Some(path) => read(path)?,
            None => {
                let sample = Sample::of(JIRA, event).ok_or_else(|| no_sample(JIRA, event))?;
                sample.bytes(&self.scene(&loaded.config, context.clock.now()))
            }
        };
        let secret = self.options.secret(&loaded, &webhook.secret_env)?;
        let target = Target::of(&self.options, &loaded.config, &webhook.path)?;
        let delivery_id = self.delivery_id.clone().unwrap_or_else(new_delivery_id);
        let signature = sign_jira(&secret, &body);
        let headers = [
            ("content-type", "application/json"),
            ("x-atlassian-webhook-identifier", &delivery_id),
            ("x-hub-signature", &signature),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signed = Signed {
            event: event.to_owned(),
            delivery_id,
            headers: headers.into(),
            body,
        };
        post(signed, &target, self.options.format, context)
    }

    fn scene(&self, config: &GatewayConfig, now: Timestamp) -> Scene {
        let site = config
            .declared
            .jira_site
            .as_deref()
            .unwrap_or("acme.atlassian.net");
        let project = config
            .declared
            .jira_projects
            .first()
            .map_or("PROJ", String::as_str);
        Scene {
            site: site.to_owned(),
            issue: self.issue.clone().unwrap_or_else(|| format!("{project}-1")),
            actor: self.actor.clone(),
            text: self.text.clone(),
            now,
            id: new_id(),
        }
    }
}
