//! `conformance`: which promises of the contract a server keeps.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, api_of, webhooks_of};
use super::failure::Failure;
use super::list::Format;
use super::output::Mark;
use crate::client::GatewayUrl;
use crate::client::conformance::{Finding, Ingress, Options, Verdict, run};
use crate::config::{EnvName, LoadedConfig};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway conformance --secret-env THE_LOOP_GH_WEBHOOK_SECRET
  the-loop-gateway conformance --url http://127.0.0.1:8790 --repository octo/repo \\
      --secret-env THE_LOOP_GH_WEBHOOK_SECRET --patience 120
  the-loop-gateway conformance --format json | jq '.findings[] | select(.verdict == \"fail\")'

Plays clients, with instance names and work items of its own, and says of each promise whether it
was kept. Events are made through the GitHub webhook; without its secret what needs events is
skipped. Leaves behind events of issues that do not exist and a few dead deliveries: better not
at a gateway that people rely on. Exit 1 when a promise is broken.";

/// Check a server of this API for the promises of the contract
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Conformance {
    /// The server's API, as http://host:port [default: the address of the config]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The server's GitHub webhook, with its path [default: the API's address and the config's path]
    #[arg(long, value_name = "URL")]
    ingress_url: Option<String>,
    /// The variable of the GitHub webhook's secret
    #[arg(long, value_name = "NAME", value_parser = EnvName::parse)]
    secret_env: Option<EnvName>,
    /// A repository that the server takes events of
    #[arg(long, value_name = "OWNER/REPO", default_value = "octo/repo")]
    repository: String,
    /// Seconds that one check may wait for something to be due
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u32,
    /// Check only the promises that hold this text
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// How to write the findings
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Conformance {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let options = self.options(&context.load()?)?;
        context.output.note(&format!(
            "checking {}; a check waits at most {} s for something to be due",
            options.url, self.patience
        ));
        let findings = Context::wait_for(run(options, |_| {}))?;
        let shown = match self.format {
            Format::Json => as_json(&findings)?,
            Format::Table => as_text(&findings, context),
        };
        context.output.data(&shown)?;
        let (kept, broken, _) = counts(&findings);
        if broken == 0 {
            return Ok(());
        }
        let made = kept.saturating_add(broken);
        Err(Failure::Broken { broken, made })
    }

    fn options(&self, loaded: &LoadedConfig) -> Result<Options, Failure> {
        let parse = |text: &str| GatewayUrl::parse(text).or(Err(Failure::Url(text.to_owned())));
        let config = &loaded.config;
        let url = match &self.url {
            Some(text) => parse(text)?,
            None => parse(&api_of(config)?.to_string())?,
        };
        let ingress = match &self.secret_env {
            Some(name) => Some(Ingress {
                secret: secret(loaded, name)?,
                url: match (&self.ingress_url, &config.listen.ingress) {
                    (Some(text), _) => parse(text)?,
                    (None, Some(_)) if self.url.is_none() => {
                        let base = webhooks_of(config)?;
                        parse(&base.at(&config.github.webhook.path))?
                    }
                    (None, Some(_) | None) => parse(&url.at(&config.github.webhook.path))?,
                },
            }),
            None => None,
        };
        Ok(Options {
            url,
            ingress,
            repository: self.repository.clone(),
            patience: Duration::from_secs(self.patience.into()),
            only: self.only.clone(),
        })
    }
}

fn secret(loaded: &LoadedConfig, name: &EnvName) -> Result<String, Failure> {
    let secret = loaded.environment.secret(name);
    let value = secret.expose().map(str::to_owned);
    value.ok_or_else(|| Failure::NoSecret(name.clone()))
}

/// How many promises were kept, broken and not told.
fn counts(findings: &[Finding]) -> (usize, usize, usize) {
    let count =
        |is: fn(&Verdict) -> bool| findings.iter().filter(|found| is(&found.verdict)).count();
    (
        count(|verdict| matches!(verdict, Verdict::Pass)),
        count(|verdict| matches!(verdict, Verdict::Fail(_))),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
    )
}

fn as_json(findings: &[Finding]) -> Result<String, Failure> {
    let rows: Vec<Value> = findings
        .iter()
        .map(
            |Finding {
                 chapter,
                 promise,
                 verdict,
             }| {
                let (word, why) = words(verdict);
                json!({"chapter": chapter, "promise": promise, "verdict": word, "why": why})
            },
        )
        .collect();
    let (kept, broken, skipped) = counts(findings);
    let report = json!({"findings": rows, "passed": kept, "failed": broken, "skipped": skipped});
    serde_json::to_string_pretty(&report).map_err(Failure::Rows)
}

const fn words(verdict: &Verdict) -> (&'static str, Option<&String>) {
    match verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Fail(how) => ("fail", Some(how)),
        Verdict::Skipped(why) => ("skipped", Some(why)),
    }
}

fn as_text(findings: &[Finding], context: &Context) -> String {
    let mut lines = Vec::new();
    let mut chapter = "";
    for finding in findings {
        if finding.chapter != chapter {
            chapter = finding.chapter;
            lines.push(context.output.marked(chapter, Mark::Heading));
        }
        let (word, why) = words(&finding.verdict);
        let mark = if word == "fail" {
            Mark::Alarm
        } else {
            Mark::None
        };
        lines.push(
            context
                .output
                .marked(&format!("  {word:7}  {}", finding.promise), mark),
        );
        lines.extend(why.map(|why| format!("           {}", super::shown::plain(why))));
    }
    let (kept, broken, skipped) = counts(findings);
    lines.push(format!("\n{kept} kept, {broken} broken, {skipped} skipped"));
    lines.join("\n")
}
