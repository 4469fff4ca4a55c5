//! The tokens: whether their provider accepts them, and how many requests are left to the pollers.

use std::collections::BTreeSet;

use awc::Client;
use serde_json::Value;

use super::Patient;
use super::findings::Findings;
use super::machine::ProviderDate;
use super::provider::{self, Told};
use crate::cli::failure::Failure;
use crate::cli::lifecycle::Health;
use crate::cli::shown::{number, span};
use crate::config::{JiraDeployment, Secret};
use crate::domain::Timestamp;

/// Below a tenth of its budget a poller is about to be stopped by its provider.
const BUDGET_PARTS: u64 = 10;
const SOCKET: &str = "slack-socket";

/// What the checks of tokens work with.
struct Round<'a> {
    client: Client,
    findings: &'a mut Findings,
    dates: Vec<ProviderDate>,
}

/// Asks each provider; brings back what their clocks said.
pub(super) async fn examine(
    patient: &Patient<'_>,
    health: Option<&Health>,
    findings: &mut Findings,
) -> Result<Vec<ProviderDate>, Failure> {
    let mut round = Round {
        client: provider::client()?,
        findings,
        dates: Vec::new(),
    };
    round.github(patient).await?;
    round.jira(patient).await?;
    round.slack(patient, health).await?;
    Ok(round.dates)
}

impl Round<'_> {
    async fn github(&mut self, patient: &Patient<'_>) -> Result<(), Failure> {
        let poll = &patient.config().github.poll;
        let token = patient.loaded.environment.secret(&poll.token_env);
        let Some(token) = token.expose().filter(|_| poll.enabled) else {
            return Ok(());
        };
        let sources = poll.sources.iter();
        let bases: BTreeSet<&str> = sources.map(|source| source.api_base.as_str()).collect();
        for base in bases {
            let url = format!("{}/rate_limit", base.trim_end_matches('/'));
            let request = self.client.get(url).bearer_auth(token);
            let request = request.insert_header(("accept", "application/vnd.github+json"));
            let told = provider::ask(request, Vec::new()).await;
            let named = format!("{} at {base}", poll.token_env);
            match told {
                Ok(told) => {
                    self.note_date("GitHub", &told);
                    let (is_well, text) = github_budget(&told);
                    self.told(is_well, format!("{named}: {text}"))?;
                }
                Err(why) => self.told(Some(false), format!("{named}: {why}"))?,
            }
        }
        Ok(())
    }

    async fn jira(&mut self, patient: &Patient<'_>) -> Result<(), Failure> {
        let jira = &patient.config().jira;
        let poll = &jira.poll;
        let (Some(base), Some(token_env), true) = (&poll.api_base, &poll.token_env, poll.enabled)
        else {
            return Ok(());
        };
        let environment = &patient.loaded.environment;
        let token = environment.secret(token_env);
        let version = match jira.deployment {
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => 3,
            JiraDeployment::DataCenter => 2,
        };
        let url = format!("{}/rest/api/{version}/myself", base.trim_end_matches('/'));
        let request = self.client.get(url);
        let user = match jira.deployment {
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => poll.email_env.as_ref(),
            JiraDeployment::DataCenter => None,
        };
        let user = user.map(|name| environment.secret(name));
        let request = match (&user, token.expose()) {
            // What is not set was told before.
            (_, None) => return Ok(()),
            (Some(user), Some(token)) => match user.expose() {
                Some(user) => request.basic_auth(user, token),
                None => return Ok(()),
            },
            (None, Some(token)) => request.bearer_auth(token),
        };
        let request = request.insert_header(("accept", "application/json"));
        let named = format!("{token_env} at {base}");
        match provider::ask(request, Vec::new()).await {
            Ok(told) => {
                self.note_date("Jira", &told);
                let (is_well, text) = jira_budget(&told);
                self.told(is_well, format!("{named}: {text}"))
            }
            Err(why) => self.told(Some(false), format!("{named}: {why}")),
        }
    }

    async fn slack(
        &mut self,
        patient: &Patient<'_>,
        health: Option<&Health>,
    ) -> Result<(), Failure> {
        let slack = &patient.config().slack;
        if !slack.socket.enabled {
            return Ok(());
        }
        let environment = &patient.loaded.environment;
        // A socket that is up has proved its token.
        let is_up = health.is_some_and(|it| it.ingresses.get(SOCKET).is_some_and(|it| it == "up"));
        if !is_up {
            let (name, method) = (&slack.socket.app_token_env, "apps.connections.open");
            let token = environment.secret(name);
            let scope = "it needs to be an app-level token with connections:write";
            self.slack_token((name.as_str(), &token), &slack.api_base, (method, scope))
                .await?;
        }
        let (name, method) = (&slack.socket.bot_token_env, "auth.test");
        let token = environment.secret(name);
        let scope = "install the app again and copy its bot token";
        self.slack_token((name.as_str(), &token), &slack.api_base, (method, scope))
            .await
    }

    async fn slack_token(
        &mut self,
        (name, token): (&str, &Secret),
        base: &str,
        (method, advice): (&str, &str),
    ) -> Result<(), Failure> {
        let Some(token) = token.expose() else {
            return Ok(());
        };
        let url = format!("{}/{method}", base.trim_end_matches('/'));
        let request = self.client.post(url).bearer_auth(token);
        match provider::ask(request, Vec::new()).await {
            Ok(told) => {
                self.note_date("Slack", &told);
                let error = told.body.get("error").and_then(Value::as_str);
                let is_ok = told.body.get("ok") == Some(&Value::Bool(true));
                match (is_ok, error) {
                    (true, _) => self.told(Some(true), format!("{name} is accepted by Slack")),
                    (false, Some("ratelimited")) => {
                        self.told(None, format!("{name}: Slack asks for a pause; look again"))
                    }
                    (false, Some(error)) => {
                        self.told(Some(false), format!("{name}: Slack says {error}; {advice}"))
                    }
                    (false, None) => {
                        let status = told.status;
                        self.told(Some(false), format!("{name}: Slack answers {status}"))
                    }
                }
            }
            Err(why) => self.told(Some(false), format!("{name}: {why}")),
        }
    }

    fn told(&mut self, is_well: Option<bool>, text: String) -> Result<(), Failure> {
        match is_well {
            Some(true) => self.findings.ok("token", text),
            Some(false) => self.findings.wrong("token", text),
            None => self.findings.unsure("token", text),
        }
    }

    fn note_date(&mut self, provider: &'static str, told: &Told) {
        self.dates.extend(told.date.map(|date| ProviderDate {
            provider,
            told: date,
            ours: told.at,
        }));
    }
}

/// What `GET /rate_limit` says; asking costs nothing.
fn github_budget(told: &Told) -> (Option<bool>, String) {
    match told.status {
        200 => {}
        401 => return (Some(false), "it is refused: make a new one".to_owned()),
        404 => {
            return (
                Some(true),
                "it is accepted; requests are not limited".to_owned(),
            );
        }
        status => return (Some(false), format!("GitHub answers {status}")),
    }
    let core = told.body.pointer("/resources/core");
    let field = |name| core.and_then(|core| core.get(name)).and_then(Value::as_u64);
    let (Some(limit), Some(remaining)) = (field("limit"), field("remaining")) else {
        return (
            None,
            "it is accepted; what is left of its budget is not told".to_owned(),
        );
    };
    let now = told.date.unwrap_or(told.at);
    let until = field("reset").and_then(|seconds| i64::try_from(seconds).ok());
    let until = until.map(|seconds| Timestamp(seconds.saturating_mul(1000)).since(now));
    let again = until.and_then(|until| u64::try_from(until).ok());
    let again = again.map(|until| format!(", all of them again in {}", span(until)));
    let text = format!(
        "{} of {} requests are left{}",
        number(remaining),
        number(limit),
        again.unwrap_or_default()
    );
    if remaining < limit.checked_div(BUDGET_PARTS).unwrap_or_default() {
        let advice = "raise github.poll.intervalSeconds, or poll less";
        (Some(false), format!("{text}: {advice}"))
    } else {
        (Some(true), text)
    }
}

/// Jira tells a budget only where it enforces one.
fn jira_budget(told: &Told) -> (Option<bool>, String) {
    match told.status {
        200 => {}
        401 | 403 => {
            let text = "it is refused: make a new one, and look at jira.poll.emailEnv";
            return (Some(false), text.to_owned());
        }
        status => return (Some(false), format!("Jira answers {status}")),
    }
    let header = |name| told.headers.get(name).and_then(|value| value.to_str().ok());
    let counted = |name| header(name).and_then(|text| text.trim().parse::<u64>().ok());
    match (
        counted("x-ratelimit-remaining"),
        counted("x-ratelimit-limit"),
    ) {
        (Some(0), _) => {
            let text = "no request is left: raise jira.poll.intervalSeconds";
            (Some(false), text.to_owned())
        }
        (Some(left), Some(limit)) => {
            let text = format!("{} of {} requests are left", number(left), number(limit));
            (Some(true), text)
        }
        (Some(left), None) => (Some(true), format!("{} requests are left", number(left))),
        (None, _) => (
            Some(true),
            "it is accepted; Jira tells no budget".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use awc::http::header::{HeaderMap, HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn told(status: u16, body: Value) -> Told {
        Told {
            status,
            headers: HeaderMap::new(),
            body,
            date: Some(Timestamp(1_000_000)),
            at: Timestamp(999_000),
        }
    }

    fn core(limit: u64, remaining: u64) -> Value {
        json!({"resources": {"core": {"limit": limit, "remaining": remaining, "reset": 1_600}}})
    }

    #[test]
    fn a_github_budget_that_runs_out_is_wrong() {
        assert_eq!(
            github_budget(&told(200, core(5000, 4321))),
            (
                Some(true),
                "4,321 of 5,000 requests are left, all of them again in 10 min".to_owned()
            )
        );
        let (is_well, text) = github_budget(&told(200, core(5000, 499)));
        assert_eq!(is_well, Some(false));
        assert!(text.contains("github.poll.intervalSeconds"), "{text}");
        for (status, is_well) in [(401, Some(false)), (404, Some(true)), (502, Some(false))] {
            assert_eq!(github_budget(&told(status, Value::Null)).0, is_well);
        }
        assert_eq!(github_budget(&told(200, Value::Null)).0, None);
    }

    #[test]
    fn a_jira_budget_is_told_where_there_is_one() {
        let mut answer = told(200, Value::Null);
        assert_eq!(
            jira_budget(&answer),
            (
                Some(true),
                "it is accepted; Jira tells no budget".to_owned()
            )
        );
        let mut set = |name: &'static str, value: &'static str| {
            let name = HeaderName::from_static(name);
            answer.headers.insert(name, HeaderValue::from_static(value));
        };
        set("x-ratelimit-remaining", "12");
        set("x-ratelimit-limit", "350");
        assert_eq!(
            jira_budget(&answer),
            (Some(true), "12 of 350 requests are left".to_owned())
        );
        let name = HeaderName::from_static("x-ratelimit-remaining");
        answer.headers.insert(name, HeaderValue::from_static("0"));
        assert_eq!(jira_budget(&answer).0, Some(false));
        assert_eq!(jira_budget(&told(401, Value::Null)).0, Some(false));
    }
}
