//! `release`: what an instance that is gone still holds.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::intervening::ChangeOptions;
use super::list::Format;
use super::selecting::subject;
use super::shown::count;
use super::trouble::Trouble;
use crate::domain::{InstanceName, Subject};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway release laptop --claim github:octo/repo#15
  the-loop-gateway release laptop --claims --actors --lease
  the-loop-gateway release laptop --claims --dry-run

For an instance that will not come back. What is on its queue stays there: `replay` sends it to
another one. An instance that is alive takes its lease again with its next fetch, and what it
claimed and registered when it starts again. An instance or a claim that is not there ends with 1.";

/// Take from an instance what it holds: claims, actors, its name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Release {
    /// The instance that holds it
    #[arg(value_name = "INSTANCE", value_parser = InstanceName::parse)]
    instance: InstanceName,
    /// Its claims on this subject or work item
    #[arg(long, value_name = "SUBJECT", value_parser = subject)]
    claim: Option<Subject>,
    /// All its claims
    #[arg(long, conflicts_with = "claim")]
    claims: bool,
    /// The actors that it registered
    #[arg(long)]
    actors: bool,
    /// The lease of its name, so that another peer can take it at once
    #[arg(long)]
    lease: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Released {
    dry_run: bool,
    #[serde(default = "is_known_to_older_gateways")]
    known: bool,
    lease: bool,
    claims: u64,
    actors: u64,
}

/// They do not say.
const fn is_known_to_older_gateways() -> bool {
    true
}

impl Release {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let body = self.body()?;
        let answer = Context::wait_for(async {
            let api = self.options.gateway(context)?;
            self.options.ask(&api, "release", &body).await
        })?;
        let json = serde_json::to_string_pretty(&answer).map_err(Failure::Rows)?;
        let released: Released = serde_json::from_value(answer).map_err(Failure::Rows)?;
        match self.options.format {
            Format::Json => context.output.data(&json)?,
            Format::Table if released.known => context.output.data(&released.told(self))?,
            Format::Table => {}
        }
        self.found(&released)
    }

    /// Fails when what was named is not there.
    fn found(&self, released: &Released) -> Result<(), Failure> {
        let instance = self.instance.to_string();
        if !released.known {
            return Err(Trouble::NoInstance(instance).into());
        }
        match &self.claim {
            Some(subject) if released.claims == 0 => {
                let subject = subject.to_string();
                Err(Trouble::NoClaim { instance, subject }.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    const fn takes_claims(&self) -> bool {
        self.claims || self.claim.is_some()
    }

    fn body(&self) -> Result<Value, Failure> {
        let what = [
            (self.lease, "lease"),
            (self.takes_claims(), "claims"),
            (self.actors, "actors"),
        ];
        let what: Vec<&str> = what
            .into_iter()
            .filter_map(|(is_meant, word)| is_meant.then_some(word))
            .collect();
        if what.is_empty() {
            let how = "--claim SUBJECT, --claims, --actors, or --lease";
            return Err(Trouble::NothingSelected(how).into());
        }
        let mut body = json!({ "instance": self.instance.as_str(), "what": what });
        if let (Some(subject), Some(body)) = (&self.claim, body.as_object_mut()) {
            body.insert("subject".to_owned(), json!(subject.as_str()));
        }
        Ok(body)
    }
}

impl Released {
    /// In words, of what was asked for.
    fn told(&self, asked: &Release) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let lease = if self.lease {
            "its lease"
        } else {
            "no live lease"
        };
        let parts = [
            (asked.takes_claims(), count(self.claims, "claim", "claims")),
            (asked.actors, count(self.actors, "actor", "actors")),
            (asked.lease, lease.to_owned()),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter_map(|(is_asked, part)| is_asked.then_some(part))
            .collect();
        format!("{would}taken from {}: {}", asked.instance, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        release: Release,
    }

    #[test]
    fn what_was_asked_for_is_counted() {
        for (arguments, told) in [
            (&["--claims"][..], "2 claims"),
            (
                &["--claim", "github:octo/repo#15", "--actors"],
                "2 claims, 1 actor",
            ),
            (&["--lease"], "no live lease"),
        ] {
            let line = [&["release", "laptop"], arguments].concat();
            let asked = Line::parse_from(line).release;
            let released = Released {
                dry_run: true,
                known: true,
                lease: false,
                claims: 2,
                actors: 1,
            };
            let told = format!("would be taken from laptop: {told}");
            assert_eq!(released.told(&asked), told);
        }
    }
}
