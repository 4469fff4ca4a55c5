//! `try`: one event goes through a gateway of its own, step by step, told as a story.
//!
//! The gateway is the real one on a scratch state root; everything is said to it over HTTP, as an
//! instance and as GitHub would; Slack is the fake of `devkit`. Nothing outside the scratch directory is read or written.

mod onward;
mod slack;
mod story;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use actix_rt::task::JoinHandle;
use awc::http::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use self::story::Story;
use super::api::{Api, ApiError};
use super::context::Context;
use super::failure::Failure;
use super::samples::github::{ISSUE_COMMENT, Scene};
use super::samples::{moment, new_id};
use super::send::{headers, new_delivery_id};
use super::serving::Serving;
use crate::app::Parts;
use crate::config::{ConfigFingerprint, Environment, GatewayConfig, LoadedConfig, new_secret};
use crate::domain::{Clock, WorkItemRef};
use crate::providers::RepositoryPattern;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway try          tell the story, then stay up and say how to go on
  the-loop-gateway try --once   tell the story and exit
  the-loop-gateway try --slack  the same for a Slack reply, over a socket to a fake Slack

Needs no configuration and leaves nothing behind: the state is in a temporary directory that is
removed at the end.";

const OWNER_ONLY: u32 = 0o700;
const INSTANCE: &str = "laptop";
const PEER: &str = "try-peer";
const RUN: &str = "try-run";
const ACTOR: &str = "octocat";
const OWNER: &str = "octo";
const REPO: &str = "repo";
const NUMBER: u64 = 15;

const WAIT_SECONDS: u64 = 20;
const LEASE_SECONDS: u64 = 60;
/// While a fetch is held its lease lasts to the end of the wait and then as long as it asked for;
/// a registration alone takes 60 s.
const HELD_LEASE_MIN: f64 = 70.0;
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LOOKS_MAX: u32 = 2000;
const NO_WAIT: Duration = Duration::ZERO;

/// Watch one event go through a gateway on a scratch directory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Try {
    /// Exit when the story is told
    #[arg(long)]
    once: bool,
    /// A reply in a Slack thread instead of a GitHub comment
    #[arg(long)]
    slack: bool,
}

/// A comment, ready to be posted.
struct Comment {
    text: &'static str,
    delivery_id: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// How a held fetch ended.
struct Held {
    answer: Result<Value, ApiError>,
    at: Instant,
}

/// The answer to a fetch, as far as the story reads it.
#[derive(Deserialize)]
struct Fetched {
    deliveries: Vec<Delivery>,
    cursor: u64,
}

#[derive(Deserialize)]
struct Delivery {
    seq: u64,
    attempt: u32,
    event: Envelope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    id: u64,
    delivery_id: String,
    work_item: String,
    kind: String,
    payload: CommentPayload,
}

#[derive(Deserialize)]
struct CommentPayload {
    comment: Said,
}

#[derive(Deserialize)]
struct Said {
    body: String,
}

impl Try {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let scratch = tempfile::Builder::new()
            .prefix("the-loop-gateway-try-")
            .permissions(Permissions::from_mode(OWNER_ONLY))
            .tempdir()
            .map_err(Failure::Scratch)?;
        let told = Context::wait_for(async {
            if self.slack {
                slack::tell(self.once, scratch.path(), context).await
            } else {
                self.tell(scratch.path(), context).await
            }
        });
        // Removed whatever happened; the first thing that went wrong is what counts.
        let removed = scratch.close().map_err(Failure::Scratch);
        told.and(removed)
    }

    async fn tell(&self, scratch: &Path, context: &Context) -> Result<(), Failure> {
        let secret = new_secret().map_err(Failure::NoRandomness)?;
        let secret = secret.expose().unwrap_or_default();
        let mut story = Story::begin(context, "one GitHub comment, from the webhook", scratch);
        let serving = Serving::start(&scratch_config(scratch, secret), &Parts::default())?;
        let api = Api::new(serving.api().clone())?;
        story.started(api.base());
        match follow(&api, secret, &mut story, context).await {
            Ok(_) if self.once => serving.stop("the story is told").await,
            Ok(cursor) => {
                let second = Comment::new("and one more thing", secret, context);
                onward::tell(&api, &second, cursor, scratch, context)?;
                serving.until_stopped().await
            }
            Err(failure) => {
                serving.stop("the story went wrong").await?;
                Err(failure)
            }
        }
    }
}

/// The configuration of the story: one repository, its webhook, a free port.
fn scratch_config(scratch: &Path, secret: &str) -> LoadedConfig {
    let mut loaded = own_gateway(scratch);
    let config = &mut loaded.config;
    config.github.webhook.enabled = true;
    config.declared.repositories.push(RepositoryPattern {
        host: "github.com".to_owned(),
        owner: OWNER.to_owned(),
        repo: Some(REPO.to_owned()),
    });
    let name = config.github.webhook.secret_env.as_str();
    loaded.environment = Environment::given([(name, secret)]);
    loaded
}

/// A gateway on a scratch directory and a free port.
fn own_gateway(scratch: &Path) -> LoadedConfig {
    let mut config = GatewayConfig::rooted_at(&scratch.join("state"));
    config.listen.address.port = 0;
    LoadedConfig {
        environment: Environment::given([]),
        config,
        fingerprint: ConfigFingerprint::look(None, None),
        warnings: Vec::new(),
    }
}

/// The story itself: from the registration to the commit. Returns the cursor to go on with.
async fn follow(
    api: &Api,
    secret: &str,
    story: &mut Story<'_>,
    context: &Context,
) -> Result<u64, Failure> {
    let subject = subject().ok_or(Failure::Story("the sample names no work item"))?;
    register(api, story).await?;
    claim(api, &subject, story).await?;
    let held = hold_a_fetch(api, context);
    until_held(api).await?;
    story.held();
    let comment = Comment::new("please start", secret, context);
    let sent_at = context.clock.instant();
    let answer = api
        .post_raw("/gh-webhook", &comment.headers, comment.body.clone())
        .await?;
    if !answer.status.is_success() {
        return Err(Failure::Story("the gateway did not take the comment"));
    }
    story.sent(&comment, answer.status.as_u16());
    let held = held
        .await
        .map_err(|_lost| Failure::Story("the held fetch was lost"))?;
    let (delivery, cursor) = delivery_of(held.answer?, &comment).ok_or(Failure::Story(
        "the fetch brought something else than the comment",
    ))?;
    story.woken(&delivery, held.at.saturating_duration_since(sent_at));
    commit(api, delivery.seq, cursor, story).await?;
    story.end();
    Ok(cursor)
}

fn subject() -> Option<String> {
    let item = WorkItemRef::github(None, OWNER, REPO, NUMBER)?;
    Some(item.subject().to_string())
}

async fn register(api: &Api, story: &mut Story<'_>) -> Result<(), Failure> {
    let body = identified(json!({"actors": {"github": [ACTOR]}}));
    api.send(Method::PUT, "/api/v1/gateway/actors", &body, NO_WAIT)
        .await?;
    story.registered();
    Ok(())
}

async fn claim(api: &Api, subject: &str, story: &mut Story<'_>) -> Result<(), Failure> {
    let body = identified(json!({"subject": subject, "role": "driver"}));
    api.send(Method::PUT, "/api/v1/gateway/claims", &body, NO_WAIT)
        .await?;
    story.claimed(subject);
    Ok(())
}

/// Sends a fetch that waits, and notes when its answer comes.
fn hold_a_fetch(api: &Api, context: &Context) -> JoinHandle<Held> {
    let (api, clock) = (api.clone(), context.clock);
    actix_rt::spawn(async move {
        let ask = json!({"cursor": 0, "max": 1, "wait": WAIT_SECONDS, "lease": LEASE_SECONDS});
        let wait = Duration::from_secs(WAIT_SECONDS);
        let answer = api
            .send(
                Method::POST,
                "/api/v1/gateway/fetch",
                &identified(ask),
                wait,
            )
            .await;
        Held {
            answer,
            at: clock.instant(),
        }
    })
}

/// Waits until the gateway holds the fetch: while it does, the lease outlives what was asked for.
async fn until_held(api: &Api) -> Result<(), Failure> {
    for _ in 0..LOOKS_MAX {
        let rows = api
            .get_all("/api/v1/gateway/instances", "instances")
            .await?;
        let own = rows
            .iter()
            .find(|row| row.get("instance").is_some_and(|name| name == INSTANCE));
        let left = own.and_then(|row| row.pointer("/lease/expiresIn")?.as_f64());
        if left.is_some_and(|left| left > HELD_LEASE_MIN) {
            return Ok(());
        }
        actix_rt::time::sleep(LOOK_EVERY).await;
    }
    Err(Failure::Story("the gateway did not hold the fetch"))
}

/// The one delivery of an answer, and the answer's cursor.
fn delivery_of(fetched: Value, comment: &Comment) -> Option<(Delivery, u64)> {
    let Fetched { deliveries, cursor } = serde_json::from_value(fetched).ok()?;
    let mut deliveries = deliveries.into_iter();
    let delivery = deliveries.next()?;
    let is_ours = delivery.event.delivery_id == comment.delivery_id
        && delivery.event.payload.comment.body == comment.text
        && deliveries.next().is_none();
    is_ours.then_some((delivery, cursor))
}

async fn commit(api: &Api, seq: u64, cursor: u64, story: &mut Story<'_>) -> Result<(), Failure> {
    let outcomes = json!([{"seq": seq, "outcome": "delivered"}]);
    let body = identified(json!({"cursor": cursor, "commit": outcomes}));
    let answer = api
        .send(Method::POST, "/api/v1/gateway/commit", &body, NO_WAIT)
        .await?;
    story.committed(seq, &answer);
    Ok(())
}

/// The fields of a request, with those that say who asks.
fn identified(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        let who = [("instance", INSTANCE), ("peer", PEER), ("run", RUN)];
        fields.extend(who.map(|(key, value)| (key.to_owned(), value.into())));
    }
    fields
}

impl Comment {
    fn new(text: &'static str, secret: &str, context: &Context) -> Self {
        let scene = Scene {
            host: "github.com".to_owned(),
            owner: OWNER.to_owned(),
            repo: REPO.to_owned(),
            number: NUMBER,
            actor: ACTOR.to_owned(),
            text: text.to_owned(),
            now: moment(context.clock.now()),
            id: new_id(),
        };
        let body = ISSUE_COMMENT.bytes(&scene);
        let delivery_id = new_delivery_id();
        let headers = headers(ISSUE_COMMENT.name, &delivery_id, secret, &body);
        Self {
            text,
            delivery_id,
            headers,
            body,
        }
    }
}
