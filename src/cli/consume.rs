//! `consume`: an instance as a command, which hands its deliveries on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::context::{Context, api_of};
use super::failure::Failure;
use super::output::Output;
use super::paths::tidy_path;
use crate::client::consume::{Exec, Forward, Print, Sink, StatusPage, Target, start};
use crate::client::{Client, ClientBuilder, End, GatewayUrl, Status};
use crate::config::{EnvName, LoadedConfig, Secret};
use crate::domain::{EventActor, InstanceName, ParseError, Provider, Role, Subject, WorkItemRef};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway consume --instance laptop --actor github=octocat \\
      --forward-github http://127.0.0.1:8787/gh-webhook --forward-github-secret-env MY_SECRET
  the-loop-gateway consume --claim github:octo/repo#15=driver --exec './handle-event'
  the-loop-gateway consume --url http://gateway.lan:8790 --actor slack=U0123 --print | jq .event.kind
  the-loop-gateway consume --print --status-listen 127.0.0.1:8791

A forwarded delivery is the provider's request again, byte for byte, signed with the target's own
secret, with X-The-Loop-Gateway-Event-Id. 2xx: delivered. 408, 425, 429, 5xx, no answer: failed, it
comes again. Another 4xx: dropped. Nothing listens, 3xx, 401, 403, 404, 405: the target is down,
nothing is settled, and it is tried until it takes the delivery.

A command gets the event as JSON on its standard input, and its ids as THE_LOOP_GATEWAY_SEQ,
_ATTEMPT, _EVENT_ID, _SUBJECT, _WORK_ITEM, _PROVIDER, _KIND, _DELIVERY_ID and _INSTANCE. Exit 0:
delivered. 65: dropped. 126, 127: the command is down. Anything else, and a signal: failed.

--actor and --claim replace what the instance published before. Deliveries of one work item go out
one after the other. SIGTERM or Ctrl-C stops: what is being worked on may finish for 30 s, the rest
is released; a second one stops at once.";

/// Fetch an instance's deliveries and hand them on
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("sink").required(true).multiple(true)
    .args(["forward_github", "forward_jira", "forward_slack", "exec", "print"]))]
pub(super) struct Consume {
    /// The gateway's API, as http://host:port [default: the address of the config]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The name whose queue is fetched
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = InstanceName::parse)]
    instance: InstanceName,
    /// Work for this account, such as github=octocat; may be repeated
    #[arg(long = "actor", value_name = "PROVIDER=NAME", value_parser = actor)]
    actors: Vec<EventActor>,
    /// Work on this subject or work item, as driver or reviewer; may be repeated
    #[arg(long = "claim", value_name = "SUBJECT=ROLE", value_parser = claim)]
    claims: Vec<(Subject, Role)>,
    /// Post GitHub's deliveries to this URL
    #[arg(long, value_name = "URL")]
    forward_github: Option<String>,
    /// The variable of the secret to sign them with
    #[arg(long, value_name = "NAME", requires = "forward_github", value_parser = EnvName::parse)]
    forward_github_secret_env: Option<EnvName>,
    /// Post Jira's deliveries to this URL
    #[arg(long, value_name = "URL")]
    forward_jira: Option<String>,
    /// The variable of the secret to sign them with
    #[arg(long, value_name = "NAME", requires = "forward_jira", value_parser = EnvName::parse)]
    forward_jira_secret_env: Option<EnvName>,
    /// Post Slack's deliveries to this URL
    #[arg(long, value_name = "URL")]
    forward_slack: Option<String>,
    /// The variable of the secret to sign them with
    #[arg(long, value_name = "NAME", requires = "forward_slack", value_parser = EnvName::parse)]
    forward_slack_secret_env: Option<EnvName>,
    /// Run this with `sh -c` for each delivery
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["forward_github", "forward_jira", "forward_slack", "print"])]
    exec: Option<String>,
    /// Write each delivery as a line of JSON to standard output
    #[arg(long, conflicts_with_all = ["forward_github", "forward_jira", "forward_slack"])]
    print: bool,
    /// Serve GET /api/v1/gateway there: how this instance stands towards the gateway
    #[arg(long, value_name = "ADDRESS")]
    status_listen: Option<SocketAddr>,
    /// Where the peer id is kept; each instance needs its own
    /// [default: ~/.the-loop/consume/`INSTANCE`]
    #[arg(long, value_name = "DIRECTORY", value_parser = tidy_path())]
    state_dir: Option<PathBuf>,
    /// Seconds that the gateway may hold a fetch; 0 polls
    #[arg(long, value_name = "SECONDS", default_value_t = 25)]
    wait: u32,
    /// Deliveries handed on at once, each of another work item
    #[arg(long, value_name = "N", default_value_t = 8)]
    concurrency: u16,
}

fn actor(text: &str) -> Result<EventActor, ParseError> {
    let refused = ParseError("must be github=NAME, jira=NAME or slack=NAME");
    let (provider, name) = text.split_once('=').ok_or(refused.clone())?;
    let provider = Provider::from_word(provider).filter(|_| !name.is_empty());
    Ok(EventActor {
        provider: provider.ok_or(refused)?,
        name: name.to_owned(),
    })
}

/// `loop-…=role`, or a work item in place of its subject; without a role, driver.
fn claim(text: &str) -> Result<(Subject, Role), ParseError> {
    let (subject, role) = text.rsplit_once('=').unwrap_or((text, "driver"));
    let subject = if subject.starts_with("loop-") {
        Subject::parse(subject)?
    } else {
        WorkItemRef::parse(subject)?.subject()
    };
    Ok((subject, Role::parse(role)?))
}

impl Consume {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let loaded = context.load()?;
        let url = match &self.url {
            Some(text) => GatewayUrl::parse(text).or(Err(Failure::Url(text.clone())))?,
            None => {
                let base = api_of(&loaded.config)?.to_string();
                GatewayUrl::parse(&base).or(Err(Failure::Url(base)))?
            }
        };
        let (sink, gone) = self.sink(&loaded, context.output)?;
        let client = start(self.builder(url.clone(), context)?, sink)?;
        context
            .output
            .note(&format!("consuming as {} from {url}", self.instance));
        Context::wait_for(self.live(client, url, gone, context.output))
    }

    fn builder(&self, url: GatewayUrl, context: &Context) -> Result<ClientBuilder, Failure> {
        let output = context.output;
        let directory = self.state_dir.clone().or_else(|| {
            let home = context.home()?;
            Some(home.join(".the-loop/consume").join(self.instance.as_str()))
        });
        let directory = directory.ok_or(Failure::NoStateDirectory)?;
        let builder = Client::builder(url, &directory.join("gateway-peer.json"))
            .instance(self.instance.clone())
            .long_poll(Duration::from_secs(self.wait.into()))
            .concurrency(self.concurrency.into())
            .on_event(move |event| output.note(&event.to_string()));
        let builder = (self.actors.iter().cloned()).fold(builder, ClientBuilder::actor);
        let claims = self.claims.iter().cloned();
        Ok(claims.fold(builder, |builder, (subject, role)| {
            builder.claim(subject, role)
        }))
    }

    /// Where deliveries go, and, for standard output, whether anybody still reads it.
    fn sink(
        &self,
        loaded: &LoadedConfig,
        output: Output,
    ) -> Result<(Sink, Option<watch::Receiver<bool>>), Failure> {
        if let Some(command) = &self.exec {
            let exec = Exec::new(command.clone(), self.instance.clone());
            return Ok((Sink::Exec(exec), None));
        }
        if self.print {
            let (print, gone) = Print::new(output.stream());
            return Ok((Sink::Print(print), Some(gone)));
        }
        let forward = Forward::new(self.targets(loaded)?);
        for provider in forward.without_target() {
            output.note(&format!(
                "no --forward-{provider}: deliveries of {provider} are dropped as no-target"
            ));
        }
        Ok((Sink::Forward(forward), None))
    }

    fn targets(&self, loaded: &LoadedConfig) -> Result<BTreeMap<Provider, Target>, Failure> {
        let mut targets = BTreeMap::new();
        for (provider, url, variable) in [
            (
                Provider::GitHub,
                &self.forward_github,
                &self.forward_github_secret_env,
            ),
            (
                Provider::Jira,
                &self.forward_jira,
                &self.forward_jira_secret_env,
            ),
            (
                Provider::Slack,
                &self.forward_slack,
                &self.forward_slack_secret_env,
            ),
        ] {
            let Some(url) = url else {
                continue;
            };
            let secret = match variable {
                Some(name) => {
                    let secret = loaded.environment.secret(name);
                    if !secret.is_set() {
                        return Err(Failure::NoSecret(name.clone()));
                    }
                    secret
                }
                None => Secret::new(""),
            };
            let target = Target::new(url, secret).or(Err(Failure::TargetUrl(url.clone())))?;
            targets.insert(provider, target);
        }
        Ok(targets)
    }

    fn page(
        &self,
        client: &Client,
        url: GatewayUrl,
        output: Output,
    ) -> Result<Option<StatusPage>, Failure> {
        let Some(address) = self.status_listen else {
            return Ok(None);
        };
        let page = StatusPage::serve(address, client.clone(), url)
            .map_err(|fault| Failure::StatusListen { address, fault })?;
        let address = page.address();
        output.note(&format!("status at http://{address}/api/v1/gateway"));
        Ok(Some(page))
    }

    async fn live(
        &self,
        client: Client,
        url: GatewayUrl,
        gone: Option<watch::Receiver<bool>>,
        output: Output,
    ) -> Result<(), Failure> {
        let page = match self.page(&client, url, output) {
            Ok(page) => page,
            Err(failure) => {
                // It may have fetched already, and must not leave that in its hands.
                client.stop().await;
                return Err(failure);
            }
        };
        let ended = until_ended(&client, gone, output).await;
        if let Some(page) = page {
            page.stop().await;
        }
        output.note(&tally(&client.status()));
        match ended? {
            End::Stopped { .. } => Ok(()),
            other @ End::Superseded { .. } => Err(Failure::Ended(other)),
            End::Broken { why } => Err(Failure::Internal(why)),
        }
    }
}

/// Waits for the end of the client; a signal asks for it, and so does a reader who left.
async fn until_ended(
    client: &Client,
    gone: Option<watch::Receiver<bool>>,
    output: Output,
) -> Result<End, Failure> {
    let hear = |kind| signal(kind).map_err(Failure::Signals);
    let (mut interrupt, mut terminate) = (
        hear(SignalKind::interrupt())?,
        hear(SignalKind::terminate())?,
    );
    tokio::select! {
        end = client.finished() => return Ok(end),
        () = told(&mut interrupt, &mut terminate) => {}
        () = left(gone) => {}
    }
    output.note("stopping; again to stop at once");
    tokio::select! {
        end = client.stop() => Ok(end),
        () = told(&mut interrupt, &mut terminate) => Err(Failure::Hurried),
    }
}

async fn told(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Waits until nobody reads any more.
async fn left(gone: Option<watch::Receiver<bool>>) {
    if let Some(mut gone) = gone
        && gone.wait_for(|gone| *gone).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// What became of the deliveries of this process.
fn tally(status: &Status) -> String {
    let counts = status.outcomes.iter();
    let counts: Vec<String> = counts
        .map(|(outcome, count)| format!("{count} {outcome}"))
        .collect();
    if counts.is_empty() {
        return "no delivery was handed on".to_owned();
    }
    format!("outcomes: {}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_has_a_provider_and_a_name() {
        let octocat = actor("github=octocat").unwrap();
        assert_eq!(
            (octocat.provider, octocat.name.as_str()),
            (Provider::GitHub, "octocat")
        );
        assert_eq!(actor("jira=a=b").unwrap().name, "a=b");
        for bad in ["octocat", "gitlab=me", "github="] {
            assert!(actor(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_claim_names_a_subject_or_a_work_item_and_a_role() {
        for (text, subject, role) in [
            (
                "loop-github-o-r-1=reviewer",
                "loop-github-o-r-1",
                Role::Reviewer,
            ),
            ("github:o/r#1=driver", "loop-github-o-r-1", Role::Driver),
            ("github:o/r#1", "loop-github-o-r-1", Role::Driver),
        ] {
            let (claimed, as_role) = claim(text).unwrap();
            assert_eq!((claimed.as_str(), as_role), (subject, role));
        }
        for bad in [
            "",
            "=driver",
            "unassigned=driver",
            "loop-a=boss",
            "octo/repo",
        ] {
            assert!(claim(bad).is_err(), "{bad}");
        }
    }
}
