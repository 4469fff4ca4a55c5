//! `init`: the two files to start from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::Context;
use super::failure::Failure;
use super::paths::tidy_path;
use crate::config::{InitChoices, new_secret, render_config, render_env, tidied, write_new};
use crate::providers::RepositoryPattern;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway init                                  in ./.the-loop, where `run` looks first
  the-loop-gateway init ~/.the-loop                      where `run` looks next
  the-loop-gateway init --repository octo/repo --repository 'acme/*'
  the-loop-gateway --config /etc/gateway.yaml init       that file, and an env file beside it

Nothing is ever overwritten. Both files belong to their owner alone (mode 0600).";

const CONFIG_FILE: &str = "gateway-config.yaml";
const DEFAULT_DIRECTORY: &str = ".the-loop";

/// Write a commented config file and an env file with a new webhook secret
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Init {
    /// The directory to write to; made if it is missing [default: .the-loop]
    #[arg(value_name = "DIR", value_parser = tidy_path())]
    directory: Option<PathBuf>,
    /// A repository to take events from: owner/repo, owner/* or host/owner/repo; may be repeated
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryPattern::parse)]
    repository: Vec<RepositoryPattern>,
    /// The port of the API
    #[arg(long, default_value_t = InitChoices::default().port)]
    port: u16,
    /// The port that the providers' webhooks arrive at
    #[arg(long, default_value_t = InitChoices::default().ingress_port)]
    ingress_port: u16,
}

/// Where the two files go.
struct Places {
    config: PathBuf,
    env: PathBuf,
}

impl Init {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let choices = InitChoices {
            repositories: self.repository.clone(),
            port: self.port,
            ingress_port: self.ingress_port,
            ..InitChoices::default()
        };
        let places = self.places(context, &choices)?;
        let secret = new_secret().map_err(Failure::NoRandomness)?;
        places.write(&render_config(&choices), &render_env(&secret))?;
        context.output.data(&self.next_steps(&places, context))
    }

    fn places(&self, context: &Context, choices: &InitChoices) -> Result<Places, Failure> {
        let config = match (context.named_config(), &self.directory) {
            (Some(_), Some(_)) => return Err(Failure::ConfigAndDirectory),
            (Some(file), None) => tidied(file),
            (None, Some(directory)) => directory.join(CONFIG_FILE),
            (None, None) => Path::new(DEFAULT_DIRECTORY).join(CONFIG_FILE),
        };
        Ok(Places {
            env: config.with_file_name(&choices.env_file),
            config,
        })
    }

    fn next_steps(&self, places: &Places, context: &Context) -> String {
        let Places { config, env } = places;
        let (config, env) = (config.display(), env.display());
        let is_found = context.named_config().is_none() && self.directory.is_none();
        let program = if is_found {
            "the-loop-gateway".to_owned()
        } else {
            format!("the-loop-gateway --config {config}")
        };
        let mut steps = vec![
            format!("{program} check"),
            format!("{program} run"),
            format!("{program} send github issue_comment"),
        ];
        if self.repository.is_empty() {
            steps.insert(0, format!("name your repositories in {config}"));
        }
        steps.push(format!(
            "point a GitHub webhook (application/json) at /gh-webhook through a tunnel to port {}; \
             its secret is in {env}",
            self.ingress_port
        ));
        let numbered = steps
            .iter()
            .zip(1..)
            .map(|(step, n)| format!("  {n}. {step}"));
        let numbered = numbered.collect::<Vec<_>>().join("\n");
        format!("wrote {config}\nwrote {env}, with a new webhook secret\n\nNext:\n{numbered}")
    }
}

impl Places {
    /// Writes both files or none.
    fn write(&self, config: &str, env: &str) -> Result<(), Failure> {
        let directory = self
            .config
            .parent()
            .filter(|parent| *parent != Path::new(""));
        if let Some(directory) = directory {
            fs::create_dir_all(directory).map_err(|fault| write_fault(directory, fault))?;
        }
        for path in [&self.config, &self.env] {
            if path.symlink_metadata().is_ok() {
                return Err(Failure::Exists(path.clone()));
            }
        }
        create(&self.env, env)?;
        create(&self.config, config).inspect_err(|_| {
            // Written a moment ago, by this call: without the config it is of no use.
            drop(fs::remove_file(&self.env));
        })
    }
}

fn create(path: &Path, text: &str) -> Result<(), Failure> {
    write_new(path, text.as_bytes()).map_err(|fault| write_fault(path, fault))
}

fn write_fault(path: &Path, fault: io::Error) -> Failure {
    let path = path.to_owned();
    if fault.kind() == io::ErrorKind::AlreadyExists {
        Failure::Exists(path)
    } else {
        Failure::Write { path, fault }
    }
}
