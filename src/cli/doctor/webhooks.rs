//! The webhooks, pinged as their providers would reach them, and what else is reached there.

use serde_json::{Value, json};

use super::findings::Findings;
use super::{Patient, Public};
use crate::cli::api::{Answer, Api, ApiError, BaseUrl};
use crate::cli::context::reached_at;
use crate::cli::failure::Failure;
use crate::cli::send::{headers, new_delivery_id};
use crate::config::{Environment, GatewayConfig};
use crate::domain::Clock;
use crate::providers::signature::{sign_jira, sign_slack};

const HEALTH: &str = "/api/v1/gateway/health";
const CHALLENGE: &str = "the-loop-gateway-doctor";

/// A webhook and what it is pinged with.
struct Ping {
    name: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// What the answer must be.
    is_answer: fn(&Answer) -> bool,
}

pub(super) async fn examine(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let config = patient.config();
    let seconds = patient.context.clock.now().0.div_euclid(1000);
    let pings = pings(config, &patient.loaded.environment, seconds);
    let is_any_on =
        config.github.webhook.enabled || config.jira.webhook.enabled || config.slack.http.enabled;
    if is_any_on {
        of_listeners(config, findings)?;
    }
    match (&patient.public, local(patient)?) {
        (Some(public), _) => {
            of_exposure(public, findings).await?;
            for ping in pings {
                of_public(ping, public, findings).await?;
            }
        }
        (None, Some(listener)) => {
            for ping in pings {
                of_listener(ping, &listener, findings).await?;
            }
        }
        (None, None) => {
            for ping in pings {
                let text = format!("{} is not asked: no gateway listens", ping.name);
                findings.unsure("webhook", text)?;
            }
        }
    }
    Ok(())
}

/// Where the webhooks of the running gateway answer.
fn local(patient: &Patient<'_>) -> Result<Option<BaseUrl>, Failure> {
    let process = patient.process.as_ref();
    let note = process.and_then(|process| process.note.as_ref());
    note.map(|note| reached_at(note.ingress.as_ref().unwrap_or(&note.api)))
        .transpose()
}

/// A tunnel to a listener publishes all that answers there.
fn of_listeners(config: &GatewayConfig, findings: &mut Findings) -> Result<(), Failure> {
    match &config.listen.ingress {
        Some(ingress) => {
            let text = format!("webhooks have one of their own, {ingress}");
            findings.ok("listener", text)
        }
        None => {
            let text = format!(
                "webhooks share the API's, {}: whatever leads providers there publishes the API, \
                 which has no authentication; set listen.ingress",
                config.listen.address
            );
            findings.wrong("listener", text)
        }
    }
}

/// Whether strangers reach the API where the providers reach the webhooks.
async fn of_exposure(public: &Public, findings: &mut Findings) -> Result<(), Failure> {
    let api = Api::new(public.base.clone())?;
    let answer = api.get(&format!("{}{HEALTH}", public.prefix)).await;
    let is_reached = match &answer {
        Ok(health) => health.get("ingresses").is_some(),
        // It answers, though it does not like the name that it was asked by.
        Err(ApiError::Refused { code, .. }) => code == "forbidden-origin",
        Err(_) => false,
    };
    if is_reached {
        let text = format!(
            "{} reaches the API, which has no authentication: lead it to listen.ingress",
            public.base
        );
        findings.wrong("exposure", text)
    } else {
        let text = format!("{} does not reach the API", public.base);
        findings.ok("exposure", text)
    }
}

async fn of_public(ping: Ping, public: &Public, findings: &mut Findings) -> Result<(), Failure> {
    let (name, path) = (ping.name, format!("{}{}", public.prefix, ping.path));
    let url = public.base.at(&path);
    match send(ping, &public.base, &path).await? {
        Ok(()) => findings.ok("webhook", format!("{name} takes a signed ping at {url}")),
        Err(why) => findings.wrong("webhook", format!("{name} at {url}: {why}")),
    }
}

async fn of_listener(ping: Ping, base: &BaseUrl, findings: &mut Findings) -> Result<(), Failure> {
    let (name, path) = (ping.name, ping.path.clone());
    let url = base.at(&path);
    match send(ping, base, &path).await? {
        Ok(()) => {
            let text = format!(
                "{name} takes a signed ping at {url}; --public-url tells whether its provider \
                 reaches it"
            );
            findings.unsure("webhook", text)
        }
        Err(why) => findings.wrong("webhook", format!("{name} at {url}: {why}")),
    }
}

/// Sends a ping; the inner error says what is wrong with the answer.
async fn send(ping: Ping, base: &BaseUrl, path: &str) -> Result<Result<(), String>, Failure> {
    let api = Api::new(base.clone())?;
    let answer = match api.post_raw(path, &ping.headers, ping.body).await {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if (ping.is_answer)(&answer) {
        return Ok(Ok(()));
    }
    let status = answer.status.as_u16();
    let advice = match status {
        401 => "it has another secret: does it run with this config and environment?",
        404 => "nothing answers there: its path, or where the tunnel or proxy leads",
        200..=299 => "something else answers there",
        500..=599 => "it is busy, its disk is full, or a proxy does not reach it",
        _ => "this is not how it answers: does a proxy change the request?",
    };
    Ok(Err(format!("answers {status}; {advice}")))
}

/// One for each webhook that is enabled and has its secret.
fn pings(config: &GatewayConfig, environment: &Environment, seconds: i64) -> Vec<Ping> {
    let github = config.github.webhook.enabled.then(|| {
        let secret = environment.secret(&config.github.webhook.secret_env);
        Some(github(&config.github.webhook.path, secret.expose()?))
    });
    let jira = config.jira.webhook.enabled.then(|| {
        let secret = environment.secret(&config.jira.webhook.secret_env);
        Some(jira(&config.jira.webhook.path, secret.expose()?))
    });
    let slack = config.slack.http.enabled.then(|| {
        let secret = environment.secret(&config.slack.http.signing_secret_env);
        Some(slack(secret.expose()?, seconds))
    });
    [github, jira, slack]
        .into_iter()
        .flatten()
        .flatten()
        .collect()
}

fn is_accepted(answer: &Answer) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status == 202
        && body
            .get("status")
            .is_some_and(|status| status == "accepted")
}

fn is_challenge(answer: &Answer) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status == 200 && body.get("challenge").is_some_and(|it| it == CHALLENGE)
}

/// What GitHub sends when a webhook is made; it names no work item and is dropped.
fn github(path: &str, secret: &str) -> Ping {
    let body = json!({"zen": "Are you well?", "hook_id": 0, "hook": {"type": "Repository"}});
    let body = body.to_string().into_bytes();
    Ping {
        name: "github-webhook",
        path: path.to_owned(),
        headers: headers("ping", &new_delivery_id(), secret, &body),
        body,
        is_answer: is_accepted,
    }
}

/// Jira has no ping; an event without an issue is dropped.
fn jira(path: &str, secret: &str) -> Ping {
    let body = json!({"webhookEvent": "the-loop-gateway:doctor"});
    let body = body.to_string().into_bytes();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("x-atlassian-webhook-identifier", new_delivery_id()),
        ("x-hub-signature", sign_jira(secret, &body)),
    ];
    Ping {
        name: "jira-webhook",
        path: path.to_owned(),
        headers: owned(headers),
        body,
        is_answer: is_accepted,
    }
}

/// What Slack sends when a URL is entered; it is answered and never stored.
fn slack(secret: &str, seconds: i64) -> Ping {
    let body = json!({"type": "url_verification", "challenge": CHALLENGE});
    let body = body.to_string().into_bytes();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("x-slack-request-timestamp", seconds.to_string()),
        ("x-slack-signature", sign_slack(secret, seconds, &body)),
    ];
    Ping {
        name: "slack-http",
        path: "/slack/events".to_owned(),
        headers: owned(headers),
        body,
        is_answer: is_challenge,
    }
}

fn owned<const N: usize>(headers: [(&str, String); N]) -> Vec<(String, String)> {
    headers.map(|(name, value)| (name.to_owned(), value)).into()
}
