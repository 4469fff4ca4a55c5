//! `send github`: one of our samples, or a file, under GitHub's headers and signature.

use std::path::PathBuf;

use clap::Args;

use super::{SendOptions, Signed, Target, headers, new_delivery_id, no_sample, post, read};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::paths::tidy_path;
use crate::cli::samples::github::{GITHUB, Scene};
use crate::cli::samples::{Sample, moment, new_id};
use crate::config::GatewayConfig;
use crate::domain::{Clock, Timestamp};
use crate::providers::RepositoryPattern;

const GITHUB_HOST: &str = "github.com";

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway send github issue_comment
  the-loop-gateway send github issue_comment --number 15 --actor octocat --text 'please start'
  the-loop-gateway send github check_run --repository octo/repo --number 20
  the-loop-gateway send github issues --file payload.json --delivery-id 72d3162e-cc78-11e3-81ab-4c9367dc0958
  the-loop-gateway send github ping --url http://127.0.0.1:8791 --secret-env MY_SECRET

Without --file, <EVENT> is one of:
";

fn after_help() -> String {
    format!("{EXAMPLES}{}", Sample::listed(GITHUB))
}

/// Send a GitHub event: a sample, or a file
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(super) struct SendGitHub {
    /// The event, as X-GitHub-Event names it
    event: String,
    /// A file with the payload in place of a sample, sent byte for byte
    #[arg(long, value_name = "FILE", value_parser = tidy_path())]
    file: Option<PathBuf>,
    /// The sample's repository: [host/]owner/repo [default: the first one of the config]
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryPattern::parse)]
    repository: Option<RepositoryPattern>,
    /// The sample's issue or pull request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    number: u64,
    /// The login of whoever does it in the sample
    #[arg(long, value_name = "LOGIN", default_value = "octocat")]
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

impl SendGitHub {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let loaded = context.load_with_warnings()?;
        let webhook = &loaded.config.github.webhook;
        let body = match &self.file {
            Some(path) => read(path)?,
            None => self.sample(&loaded.config, context)?,
        };
        let secret = self.options.secret(&loaded, &webhook.secret_env)?;
        let target = Target::of(&self.options, &loaded.config, &webhook.path)?;
        post(
            self.signed(&secret, body),
            &target,
            self.options.format,
            context,
        )
    }

    fn sample(&self, config: &GatewayConfig, context: &Context) -> Result<Vec<u8>, Failure> {
        let sample = Sample::of(GITHUB, &self.event);
        let sample = sample.ok_or_else(|| no_sample(GITHUB, &self.event))?;
        let scene = self.scene(config, context.clock.now());
        let is_declared = config
            .declared
            .has_repository(&scene.host, &scene.owner, &scene.repo);
        if self.options.url.is_none() && !is_declared {
            let Scene { owner, repo, .. } = &scene;
            context.output.note(&format!(
                "the config does not declare {owner}/{repo}, so the gateway will not store this"
            ));
        }
        Ok(sample.bytes(&scene))
    }

    fn scene(&self, config: &GatewayConfig, now: Timestamp) -> Scene {
        let pattern = self
            .repository
            .as_ref()
            .or(config.declared.repositories.first());
        let (host, owner, repo) = match pattern {
            Some(RepositoryPattern { host, owner, repo }) => {
                (host.as_str(), owner.as_str(), repo.as_deref())
            }
            None => (GITHUB_HOST, "octo", None),
        };
        Scene {
            host: host.to_owned(),
            owner: owner.to_owned(),
            repo: repo.unwrap_or("repo").to_owned(),
            number: self.number,
            actor: self.actor.clone(),
            text: self.text.clone(),
            now: moment(now),
            id: new_id(),
        }
    }

    fn signed(&self, secret: &str, body: Vec<u8>) -> Signed {
        let delivery_id = self.delivery_id.clone().unwrap_or_else(new_delivery_id);
        Signed {
            headers: headers(&self.event, &delivery_id, secret, &body),
            event: self.event.clone(),
            delivery_id,
            body,
        }
    }
}
