//! Posts each delivery again, as its provider would have.
//!
//! The body is what the gateway stored, byte for byte, with the provider's headers, signed with
//! the target's own secret. The answer's body is not read: the status says it all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use awc::ClientRequest;
use awc::error::SendRequestError;
use awc::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use super::form::Body;
use super::verdict::{dropped, of_status};
use crate::client::api::is_broken;
use crate::client::{Delivery, Envelope, GatewayUrl, Handled, Handler};
use crate::config::Secret;
use crate::domain::{Clock, ParseError, Provider, SystemClock};
use crate::outbound::{self, Limits};
use crate::providers::signature::{sign_github, sign_jira, sign_slack};

/// The reason for dropping what has no target.
const NO_TARGET: &str = "no-target";
/// A receiver may look things up elsewhere before it answers.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A receiver.
#[derive(Debug)]
pub struct Target {
    url: GatewayUrl,
    secret: Secret,
}

impl Target {
    /// A receiver at a URL, which names the whole path of its webhook; without a secret nothing
    /// is signed.
    ///
    /// # Errors
    /// When the URL is none.
    pub fn new(url: &str, secret: Secret) -> Result<Self, ParseError> {
        Ok(Self {
            url: GatewayUrl::parse(url)?,
            secret,
        })
    }
}

/// Where the deliveries of each provider go.
#[derive(Debug)]
pub struct Forward {
    targets: BTreeMap<Provider, Target>,
    answer_max: Duration,
}

impl Forward {
    /// Deliveries of a provider that is not there are dropped as `no-target`.
    #[must_use]
    pub const fn new(targets: BTreeMap<Provider, Target>) -> Self {
        Self {
            targets,
            answer_max: ANSWER_MAX,
        }
    }

    /// How long a receiver may take to answer. Default: 120 s.
    #[must_use]
    pub const fn answer_max(mut self, answer_max: Duration) -> Self {
        self.answer_max = answer_max;
        self
    }

    /// The providers whose deliveries are dropped.
    #[must_use]
    pub fn without_target(&self) -> Vec<Provider> {
        let has_none = |provider: &Provider| !self.targets.contains_key(provider);
        Provider::ALL.into_iter().filter(has_none).collect()
    }

    pub(super) fn into_handler(self) -> Forwarder {
        let limits = Limits {
            answer: self.answer_max,
            ..Limits::default()
        };
        Forwarder {
            client: outbound::client(limits).map_err(|error| error.to_string()),
            targets: self.targets,
            answer_max: self.answer_max,
        }
    }
}

/// Posts from the client's thread.
pub(super) struct Forwarder {
    client: Result<awc::Client, String>,
    targets: BTreeMap<Provider, Target>,
    answer_max: Duration,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder")
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl Handler for Forwarder {
    async fn handle(&self, delivery: Arc<Delivery>) -> Handled {
        let event = &delivery.event;
        let Some(target) = self.targets.get(&event.provider) else {
            return dropped(NO_TARGET);
        };
        let post = match target.post(event, SystemClock.now().0.div_euclid(1000)) {
            Ok(post) => post,
            Err(error) => {
                tracing::warn!(event.id = event.id.0, %error, "the payload is no command of Slack");
                return dropped("unreadable-command");
            }
        };
        match &self.client {
            Ok(client) => self.send(client, target, event.provider, post).await,
            Err(why) => Handled::failed(why),
        }
    }
}

impl Forwarder {
    async fn send(
        &self,
        client: &awc::Client,
        target: &Target,
        provider: Provider,
        post: Post,
    ) -> Handled {
        let option = format!("--forward-{provider}");
        // A connection that was kept could have been closed meanwhile, which would look like a
        // receiver that closes without an answer.
        let request = client.post(target.url.at("")).force_close();
        let request = post.headers.into_iter().fold(request, with_header);
        match request.send_body(post.body).await {
            Ok(answer) => of_status(answer.status().as_u16(), &target.name(), &option),
            Err(SendRequestError::Timeout) => {
                let seconds = self.answer_max.as_secs_f64();
                Handled::failed(&format!("no answer within {seconds} s"))
            }
            Err(error) if is_broken(&error) => {
                Handled::failed(&format!("closed without an answer: {error}"))
            }
            Err(error) => Handled::TargetDown {
                target: target.name(),
                advice: format!("{error}; start the receiver, or correct {option}"),
            },
        }
    }
}

fn with_header(request: ClientRequest, (name, value): (HeaderName, HeaderValue)) -> ClientRequest {
    request.insert_header((name, value))
}

/// A request to be sent.
#[derive(Debug)]
struct Post {
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl Target {
    fn name(&self) -> String {
        self.url.to_string()
    }

    /// The request of a provider, made again; `now` in seconds since the Unix epoch.
    fn post(&self, event: &Envelope, now: i64) -> serde_json::Result<Post> {
        let body = match event.provider {
            Provider::GitHub | Provider::Jira => Body::json(event),
            Provider::Slack => Body::slack(event)?,
        };
        let mut headers = event.headers.clone();
        let mut set = |name: &str, value: String| drop(headers.insert(name.to_owned(), value));
        set(CONTENT_TYPE.as_str(), body.content_type.to_owned());
        set("x-the-loop-gateway-event-id", event.id.to_string());
        match event.provider {
            // What a poller found came without headers of its own.
            Provider::GitHub => {
                set("x-github-event", event.kind.clone());
                set("x-github-delivery", event.delivery_id.clone());
            }
            Provider::Jira => set("x-atlassian-webhook-identifier", event.delivery_id.clone()),
            Provider::Slack => set("x-slack-request-timestamp", now.to_string()),
        }
        if let Some(secret) = self.secret.expose() {
            match event.provider {
                Provider::GitHub => set("x-hub-signature-256", sign_github(secret, &body.bytes)),
                Provider::Jira => set("x-hub-signature", sign_jira(secret, &body.bytes)),
                Provider::Slack => set("x-slack-signature", sign_slack(secret, now, &body.bytes)),
            }
        }
        Ok(Post {
            headers: headers.iter().filter_map(header).collect(),
            body: body.bytes,
        })
    }
}

/// A header as it can be sent; characters that no header may hold are left out.
fn header((name, value): (&String, &String)) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let value: String = value.chars().filter(|c| !c.is_control()).collect();
    Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::consume::tests::envelope;

    fn target(secret: &str) -> Target {
        Target::new("http://127.0.0.1:1/gh-webhook", Secret::new(secret)).unwrap()
    }

    fn shown(post: &Post) -> BTreeMap<&str, &str> {
        let shown = post
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        shown.collect()
    }

    #[test]
    fn a_github_delivery_is_signed_over_its_exact_bytes_and_names_the_event() {
        let payload = "{ \"a\" : 1.0 }";
        let post = target("s3cret")
            .post(&envelope("github", "issues", payload), 0)
            .unwrap();
        assert_eq!(post.body, payload.as_bytes());
        let headers = shown(&post);
        assert_eq!(
            headers["x-hub-signature-256"],
            sign_github("s3cret", payload.as_bytes())
        );
        assert_eq!(headers["x-github-event"], "issues");
        assert_eq!(headers["x-github-delivery"], "d-1");
        assert_eq!(headers["x-the-loop-gateway-event-id"], "208");
        assert_eq!(headers["content-type"], "application/json");
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        let post = target("")
            .post(&envelope("github", "issues", "{}"), 0)
            .unwrap();
        assert!(!shown(&post).contains_key("x-hub-signature-256"));
    }

    #[test]
    fn a_jira_delivery_has_its_own_headers() {
        let mut event = envelope("jira", "comment_created", "{}");
        let retry = ("x-atlassian-webhook-retry".to_owned(), "1".to_owned());
        event.headers.extend([retry]);
        let post = target("s").post(&event, 0).unwrap();
        let headers = shown(&post);
        assert_eq!(headers["x-hub-signature"], sign_jira("s", b"{}"));
        assert_eq!(headers["x-atlassian-webhook-identifier"], "d-1");
        assert_eq!(headers["x-atlassian-webhook-retry"], "1");
    }

    #[test]
    fn a_slack_delivery_gets_a_fresh_timestamp_and_a_signature_over_its_form() {
        let mut event = envelope("slack", "block_actions", r#"{"type":"block_actions"}"#);
        let stale = ("x-slack-request-timestamp".to_owned(), "1".to_owned());
        event.headers.extend([stale]);
        let post = target("s").post(&event, 1_792_332_131).unwrap();
        let headers = shown(&post);
        assert_eq!(headers["x-slack-request-timestamp"], "1792332131");
        assert!(post.body.starts_with(b"payload="));
        assert_eq!(
            headers["x-slack-signature"],
            sign_slack("s", 1_792_332_131, &post.body)
        );
    }

    #[test]
    fn what_no_header_may_hold_is_left_out() {
        let mut event = envelope("github", "issues", "{}");
        event.delivery_id = "poll-\u{0}presence\r\n-é#1".to_owned();
        let post = target("").post(&event, 0).unwrap();
        let sent = (post.headers.iter()).find(|(name, _)| *name == "x-github-delivery");
        assert_eq!(sent.unwrap().1.as_bytes(), "poll-presence-é#1".as_bytes());
    }
}
