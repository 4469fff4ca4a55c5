//! Which gateway is meant, also while its config cannot be used: an operator who broke the config
//! must be able to stop what runs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Process;
use crate::cli::check::{SecretState, secrets_of};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::paths::tidy_path;
use crate::config::{ConfigError, ConfigWarning, Environment, GatewayConfig, tidied};

/// How a gateway that runs is found.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The state root of the gateway; the config is not read then
    #[arg(long, value_name = "DIR", value_parser = tidy_path())]
    state_root: Option<PathBuf>,
}

/// The gateway that is meant, as far as it is known.
#[derive(Debug)]
pub(super) struct Meant {
    /// Its config; without what is wrong in it, when something is.
    pub(super) config: GatewayConfig,
    /// Where its secrets are looked up; none unless the whole config was read.
    pub(super) environment: Option<Environment>,
    /// True when the config cannot be used; why is told.
    pub(super) is_config_wrong: bool,
    /// What is odd about a config that can be used.
    pub(super) warnings: Vec<ConfigWarning>,
}

impl Which {
    /// Finds it: by the state root that is named, else by the config, or by what can be read of it.
    ///
    /// # Errors
    /// When the config cannot be used and does not say where its state root is either.
    pub(super) fn meant(&self, context: &Context) -> Result<Meant, Failure> {
        if let Some(root) = &self.state_root {
            let root = std::path::absolute(root).map_err(Failure::Directory)?;
            return Ok(Meant {
                config: GatewayConfig::rooted_at(&tidied(&root)),
                environment: None,
                is_config_wrong: false,
                warnings: Vec::new(),
            });
        }
        let error = match context.load() {
            Ok(loaded) => {
                return Ok(Meant {
                    config: loaded.config,
                    environment: Some(loaded.environment),
                    is_config_wrong: false,
                    warnings: loaded.warnings,
                });
            }
            Err(Failure::Config(error)) => error,
            Err(failure) => return Err(failure),
        };
        match context.salvage()? {
            Some(config) => by_what_is_left(config, error, context),
            None => Err(unfound(error, context)),
        }
    }
}

/// The root may be the default one only because the place that named another is wrong: then a
/// gateway of another config runs there, and is not the one that is meant.
fn by_what_is_left(
    config: GatewayConfig,
    error: ConfigError,
    context: &Context,
) -> Result<Meant, Failure> {
    let root = &config.state_root;
    let process = Process::of(root)?;
    let note = process.as_ref().and_then(|process| process.note.as_ref());
    let theirs = note.and_then(|note| note.config.as_deref()).map(tidied);
    if theirs.is_some() && theirs != config.path {
        return Err(unfound(error, context));
    }
    context.output.note(&format!(
        "{error}\nits state root is still {}",
        root.display()
    ));
    Ok(Meant {
        config,
        environment: None,
        is_config_wrong: true,
        warnings: Vec::new(),
    })
}

fn unfound(error: ConfigError, context: &Context) -> Failure {
    context
        .output
        .note("the config does not say which gateway is meant; `--state-root DIR` does");
    Failure::Config(error)
}

impl Meant {
    /// Its secrets, and which are set.
    pub(super) fn secrets(&self) -> Vec<SecretState> {
        let environment = self.environment.as_ref();
        environment.map_or_else(Vec::new, |environment| {
            secrets_of(&self.config, environment)
        })
    }

    /// What is wrong with it before anybody looks at the process.
    pub(super) fn problems(&self) -> Vec<String> {
        let problem = "its config cannot be used any more, and `check` says why";
        Vec::from_iter(self.is_config_wrong.then(|| problem.to_owned()))
    }

    /// Where its process is looked for.
    pub(super) fn root(&self) -> &Path {
        &self.config.state_root
    }
}
