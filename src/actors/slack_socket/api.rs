//! Calls of Slack's Web API.

use std::time::Duration;

use actix_web::web::Bytes;
use awc::http::StatusCode;
use awc::http::header::RETRY_AFTER;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::Timing;
use super::reason::{self, Reason};
use crate::config::Secret;

/// The largest answer read: a page of messages with everything in them.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallError {
    /// Slack asks for a pause.
    RateLimited(Duration),
    /// Slack says no; its code for it.
    Refused(Reason),
    /// No answer, or one that makes no sense.
    Unreachable(Reason),
}

/// The Web API of one workspace.
pub(super) struct SlackApi {
    client: awc::Client,
    base: String,
    call_max: Duration,
    rate_limit_default: Duration,
}

/// What every answer says, and what some do.
#[derive(Debug, Deserialize)]
struct Answer<'a> {
    ok: bool,
    error: Option<String>,
    url: Option<String>,
    team_id: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    response_metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    next_cursor: Option<String>,
}

/// A page of a conversation; each message as its exact JSON text.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) messages: Vec<String>,
    pub(super) next_cursor: Option<String>,
}

impl SlackApi {
    pub(super) fn new(client: awc::Client, base: &str, timing: &Timing) -> Self {
        Self {
            client,
            base: base.trim_end_matches('/').to_owned(),
            call_max: timing.call,
            rate_limit_default: timing.rate_limit_default,
        }
    }

    /// The URL of a new connection; it serves once, and soon.
    pub(super) async fn open_connection(&self, token: &Secret) -> Result<String, CallError> {
        let body = self.call("apps.connections.open", token, &[]).await?;
        let url = self.read(&body)?.url;
        url.ok_or_else(|| CallError::Unreachable(Reason::new("the answer has no url")))
    }

    /// The workspace that a token belongs to.
    pub(super) async fn team_of(&self, token: &Secret) -> Result<String, CallError> {
        let body = self.call("auth.test", token, &[]).await?;
        let team = self.read(&body)?.team_id;
        team.ok_or_else(|| CallError::Unreachable(Reason::new("the answer has no team_id")))
    }

    /// A page of `conversations.history` or `conversations.replies`.
    pub(super) async fn page(
        &self,
        method: &'static str,
        token: &Secret,
        arguments: &[(&str, &str)],
    ) -> Result<Page, CallError> {
        let body = self.call(method, token, arguments).await?;
        let answer = self.read(&body)?;
        let cursor = answer
            .response_metadata
            .and_then(|metadata| metadata.next_cursor);
        let messages = answer.messages.unwrap_or_default();
        Ok(Page {
            messages: messages
                .into_iter()
                .map(|message| message.get().to_owned())
                .collect(),
            next_cursor: cursor.filter(|cursor| !cursor.is_empty()),
        })
    }

    async fn call(
        &self,
        method: &'static str,
        token: &Secret,
        arguments: &[(&str, &str)],
    ) -> Result<Bytes, CallError> {
        let call = self.call_without_limit(method, token, arguments);
        match tokio::time::timeout(self.call_max, call).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Unreachable(Reason::new("no answer in time"))),
        }
    }

    async fn call_without_limit(
        &self,
        method: &'static str,
        token: &Secret,
        arguments: &[(&str, &str)],
    ) -> Result<Bytes, CallError> {
        let Some(token) = token.expose() else {
            return Err(CallError::Refused(Reason::new("not_authed")));
        };
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(arguments)
            .finish();
        let answer = self
            .client
            .post(format!("{}/{method}", self.base))
            .bearer_auth(token)
            .content_type("application/x-www-form-urlencoded")
            .send_body(form)
            .await
            .map_err(|error| CallError::Unreachable(reason::of_request(&error)))?;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            let header = answer.headers().get(RETRY_AFTER);
            let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let pause = seconds.map_or(self.rate_limit_default, Duration::from_secs);
            return Err(CallError::RateLimited(pause));
        }
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            return Err(CallError::Unreachable(Reason::new(&format!(
                "HTTP status {status}"
            ))));
        }
        let mut answer = answer.timeout(self.call_max);
        let body = answer.body().limit(ANSWER_BYTES_MAX).await;
        body.map_err(|error| CallError::Unreachable(Reason::new(&error.to_string())))
    }

    fn read<'a>(&self, body: &'a [u8]) -> Result<Answer<'a>, CallError> {
        let Ok(answer) = serde_json::from_slice::<Answer<'a>>(body) else {
            return Err(CallError::Unreachable(Reason::new(
                "the answer is not Slack's",
            )));
        };
        if answer.ok {
            return Ok(answer);
        }
        match answer.error.as_deref().unwrap_or("unknown_error") {
            "ratelimited" => Err(CallError::RateLimited(self.rate_limit_default)),
            code => Err(CallError::Refused(Reason::new(code))),
        }
    }
}
