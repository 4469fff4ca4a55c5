//! `doctor`: looks at everything that can be wrong, and says what to do about it.
//!
//! Each check adds its findings and never ends the examination. What cannot be told from here is
//! marked so, and does not count as wrong. Nothing is changed or repaired; the pings that it sends
//! are recorded as dropped, and never stored.

mod findings;
mod gateway;
mod keyless;
mod machine;
mod provider;
mod store;
mod tokens;
mod webhooks;

use clap::Args;

use self::findings::Findings;
use super::api::{Api, BaseUrl};
use super::check::{SecretState, secrets_of};
use super::context::{Context, reached_at};
use super::failure::Failure;
use super::lifecycle::{Fault, Process};
use super::list::Format;
use crate::config::{ConfigError, ConfigWarning, GatewayConfig, LoadedConfig};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway doctor
  the-loop-gateway doctor --public-url https://hooks.example.net
  the-loop-gateway --config /etc/gateway.yaml doctor --format json | jq '.checks[] | select(.mark == \"wrong\")'

[ok] is well, [!] is wrong, [?] cannot be told from here. With --public-url the webhooks are pinged
as their providers reach them, signed; without it, at the listener. The providers are asked with
the tokens of the config whether they accept them, and what is left of their budget.

Exit codes: 0 nothing is wrong, 1 something is.";

/// Find what is wrong, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// Where the providers reach the webhooks, with the path that a proxy puts in front, if any
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// How to write what was found
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where the providers' routes are asked for.
#[derive(Debug, Clone)]
pub(super) struct Public {
    base: BaseUrl,
    prefix: String,
}

/// What the checks look at.
struct Patient<'a> {
    loaded: &'a LoadedConfig,
    context: &'a Context,
    process: Option<Process>,
    api: Option<Api>,
    public: Option<Public>,
}

impl Patient<'_> {
    const fn config(&self) -> &GatewayConfig {
        &self.loaded.config
    }
}

impl Doctor {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let public = self.public()?;
        let mut findings = Findings::new(self.format, context.output);
        match context.load() {
            Ok(loaded) => {
                of_config(&loaded, &mut findings)?;
                of_secrets(&loaded, &mut findings)?;
                Context::wait_for(examine(&loaded, public, context, &mut findings))?;
            }
            Err(Failure::Config(error)) => of_config_error(&error, &mut findings)?,
            Err(failure) => return Err(failure),
        }
        findings.finish()
    }

    fn public(&self) -> Result<Option<Public>, Failure> {
        let Some(url) = &self.public_url else {
            return Ok(None);
        };
        let (base, path) = BaseUrl::parse(url).ok_or_else(|| Failure::Url(url.clone()))?;
        let prefix = path.unwrap_or_default().trim_end_matches('/').to_owned();
        Ok(Some(Public { base, prefix }))
    }
}

async fn examine(
    loaded: &LoadedConfig,
    public: Option<Public>,
    context: &Context,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let process = machine::of_lock(&loaded.config, findings)?;
    let note = process.as_ref().and_then(|process| process.note.as_ref());
    let base = note.map(|note| reached_at(&note.api)).transpose()?;
    let patient = Patient {
        loaded,
        context,
        api: base.map(Api::new).transpose()?,
        process,
        public,
    };
    machine::of_disk(&patient, findings)?;
    machine::of_descriptors(&patient, findings)?;
    store::examine(&patient, findings)?;
    let health = gateway::examine(&patient, findings).await?;
    webhooks::examine(&patient, findings).await?;
    let dates = tokens::examine(&patient, health.as_ref(), findings).await?;
    machine::of_clock(&dates, findings)?;
    keyless::examine(&patient, findings)
}

fn of_config(loaded: &LoadedConfig, findings: &mut Findings) -> Result<(), Failure> {
    if let Some(path) = &loaded.config.path {
        findings.ok("config", format!("{} is valid", path.display()))?;
    }
    for warning in &loaded.warnings {
        let text = warning.to_string();
        if matches!(warning, ConfigWarning::NoFile { .. }) {
            findings.unsure("config", text)?;
        } else {
            findings.wrong("config", text)?;
        }
    }
    Ok(())
}

fn of_config_error(error: &ConfigError, findings: &mut Findings) -> Result<(), Failure> {
    match error {
        ConfigError::Invalid { path, problems } | ConfigError::Exposed { path, problems } => {
            for problem in problems {
                let place = format!("{}: {}", path.display(), problem.path);
                findings.wrong("config", format!("{place}: {}", problem.message))?;
            }
        }
        ConfigError::Unreadable { path, fault } => {
            let text = format!("{} cannot be read: {fault}", path.display());
            findings.wrong("config", text)?;
        }
    }
    findings.unsure("the rest", "waits for a config that can be used".to_owned())
}

/// Each is named; what its absence means differs.
fn of_secrets(loaded: &LoadedConfig, findings: &mut Findings) -> Result<(), Failure> {
    let secrets = secrets_of(&loaded.config, &loaded.environment);
    if secrets.is_empty() {
        let text = "none is needed: no transport is enabled".to_owned();
        return findings.unsure("secrets", text);
    }
    for SecretState { name, set, used_by } in secrets {
        if set {
            findings.ok("secrets", format!("{name} is set ({used_by})"))?;
        } else if used_by.contains("previous") {
            let text = format!("{name} is not set ({used_by}): only the current secret is taken");
            findings.ok("secrets", text)?;
        } else if used_by == "slack.socket.botTokenEnv" {
            let text =
                format!("{name} is not set ({used_by}): nothing catches up what the socket missed");
            findings.unsure("secrets", text)?;
        } else {
            let file = match &loaded.config.env_file {
                Some(file) => format!("{} or the environment", file.display()),
                None => "the environment".to_owned(),
            };
            let text = format!("{name} is not set ({used_by}): set it in {file}");
            findings.wrong("secrets", text)?;
        }
    }
    Ok(())
}

/// The end of an examination that found something.
const fn verdict(found: usize, made: usize) -> Result<(), Fault> {
    if found == 0 {
        Ok(())
    } else {
        Err(Fault::Findings { found, made })
    }
}
