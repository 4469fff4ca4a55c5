//! `send`: posts an event as its provider would, signed.

mod github;
mod jira;
mod slack;

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::{Api, BaseUrl};
use super::context::{Context, webhooks_of};
use super::failure::Failure;
use super::list::Format;
use super::samples::Sample;
use super::shown::{count, plain, span};
use crate::config::{EnvName, GatewayConfig, LoadedConfig};
use crate::domain::Clock;
use crate::providers::signature::sign_github;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway send github issue_comment
  the-loop-gateway send github pull_request --repository octo/repo --number 20
  the-loop-gateway send github issues --file payload.json
  the-loop-gateway send jira comment_created --issue PROJ-123
  the-loop-gateway send slack message --channel C0123
  the-loop-gateway send github --help        all its samples";

/// Send a signed event to the gateway, as its provider would
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Send {
    #[command(subcommand)]
    provider: Provider,
}

#[derive(Debug, Subcommand)]
enum Provider {
    Github(github::SendGitHub),
    Jira(jira::SendJira),
    Slack(slack::SendSlack),
}

impl Send {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        match &self.provider {
            Provider::Github(send) => send.perform(context),
            Provider::Jira(send) => send.perform(context),
            Provider::Slack(send) => send.perform(context),
        }
    }
}

/// The options that every provider has.
#[derive(Debug, Args)]
struct SendOptions {
    /// Where to post: http://host:port, or with a path that is not the configured one
    /// [default: the webhook of the config]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The variable of the secret to sign with [default: the one of the config]
    #[arg(long, value_name = "NAME", value_parser = EnvName::parse)]
    secret_env: Option<EnvName>,
    /// How to write what was answered
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is posted, signature included.
struct Signed {
    event: String,
    delivery_id: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Where it is posted.
struct Target {
    base: BaseUrl,
    path: String,
}

impl Target {
    /// The URL that was given, else the provider's route of the configuration.
    fn of(options: &SendOptions, config: &GatewayConfig, path: &str) -> Result<Self, Failure> {
        let Some(url) = &options.url else {
            return Ok(Self {
                base: webhooks_of(config)?,
                path: path.to_owned(),
            });
        };
        let (base, given) = BaseUrl::parse(url).ok_or_else(|| Failure::Url(url.clone()))?;
        Ok(Self {
            base,
            path: given.unwrap_or_else(|| path.to_owned()),
        })
    }
}

impl SendOptions {
    /// The value to sign with.
    fn secret(&self, loaded: &LoadedConfig, configured: &EnvName) -> Result<String, Failure> {
        let name = self.secret_env.as_ref().unwrap_or(configured);
        let secret = loaded.environment.secret(name);
        let value = secret.expose().map(str::to_owned);
        value.ok_or_else(|| Failure::NoSecret(name.clone()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|fault| Failure::Read {
        path: path.to_owned(),
        fault,
    })
}

fn no_sample<S>(samples: &[Sample<S>], event: &str) -> Failure {
    Failure::NoSample {
        event: event.to_owned(),
        known: Sample::names(samples),
    }
}

/// Posts it, and shows what was answered.
fn post(signed: Signed, target: &Target, format: Format, context: &Context) -> Result<(), Failure> {
    let Signed {
        event,
        delivery_id,
        headers,
        body,
    } = signed;
    let url = target.base.at(&target.path);
    let size = count(
        u64::try_from(body.len()).unwrap_or(u64::MAX),
        "byte",
        "bytes",
    );
    let began = context.clock.instant();
    let posted = async {
        let api = Api::new(target.base.clone())?;
        api.post_raw(&target.path, &headers, body).await
    };
    let answer = Context::wait_for(posted)?;
    let took = context.clock.instant().saturating_duration_since(began);
    let text = plain(&String::from_utf8_lossy(&answer.body));
    let status = answer.status.as_u16();
    let shown = match format {
        Format::Table => {
            let took = span(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            let answered = format!("{status} {text}");
            format!(
                "sent      {event} {delivery_id} ({size}, signed) to {url}\n\
                 answered  {} after {took}",
                answered.trim_end()
            )
        }
        Format::Json => {
            let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let answer = json!({"event": event, "deliveryId": delivery_id, "url": url,
                "status": status, "answer": body});
            serde_json::to_string_pretty(&answer).map_err(Failure::Rows)?
        }
    };
    context.output.data(&shown)?;
    if answer.status.is_success() {
        return Ok(());
    }
    Err(Failure::NotTaken {
        status,
        advice: advice(status),
    })
}

const fn advice(status: u16) -> &'static str {
    match status {
        401 => "sign with the secret that the gateway has; --secret-env names another variable",
        404 => {
            "enable the webhook and set its secret, or send to the listener and path that it \
             answers on"
        }
        400 => "the file must hold one JSON object in UTF-8",
        413 => "the payload is too large",
        500 | 503 => "the gateway is busy or its disk is full; try again",
        _ => "see the answer above",
    }
}

/// The headers under which GitHub posts a body.
pub(super) fn headers(
    event: &str,
    delivery_id: &str,
    secret: &str,
    body: &[u8],
) -> Vec<(String, String)> {
    [
        ("content-type", "application/json"),
        ("x-github-event", event),
        ("x-github-delivery", delivery_id),
        ("x-hub-signature-256", &sign_github(secret, body)),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// A new id in the form of GitHub's: 32 hexadecimal digits in five groups.
pub(super) fn new_delivery_id() -> String {
    let digits = format!("{:032x}", fastrand::u128(..));
    let group = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        group(0, 8),
        group(8, 12),
        group(12, 16),
        group(16, 20),
        group(20, 32)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_id_has_the_form_of_githubs_and_is_new_each_time() {
        let id = new_delivery_id();
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_ne!(id, new_delivery_id());
    }

    #[test]
    fn a_url_with_a_path_replaces_the_configured_one() {
        let config = GatewayConfig::rooted_at(Path::new("/nowhere"));
        let target = |url: Option<&str>| {
            let options = SendOptions {
                url: url.map(str::to_owned),
                secret_env: None,
                format: Format::Table,
            };
            let target = Target::of(&options, &config, "/gh-webhook").unwrap();
            target.base.at(&target.path)
        };
        assert_eq!(target(None), "http://127.0.0.1:8790/gh-webhook");
        assert_eq!(target(Some("http://host:1")), "http://host:1/gh-webhook");
        assert_eq!(target(Some("http://host:1/hook")), "http://host:1/hook");
    }
}
