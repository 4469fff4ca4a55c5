//! The same story for Slack: a reply in a thread, from the socket to the commit. Slack is the
//! fake of `devkit`, on the loopback address; the gateway and the WebSocket are real.

use std::path::Path;
use std::time::{Duration, Instant};

use awc::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::story::Story;
use super::{
    INSTANCE, NO_WAIT, NUMBER, OWNER, REPO, claim, commit, hold_a_fetch, identified, own_gateway,
    subject, until_held,
};
use crate::app::Parts;
use crate::cli::api::Api;
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::serving::Serving;
use crate::cli::shown::plain;
use crate::config::{Environment, LoadedConfig, new_secret};
use crate::devkit::slack::{FakeSlack, Post};
use crate::domain::Clock;

const CHANNEL: &str = "C0TRY";
const USER: &str = "U0TRY";
const TEXT: &str = "please start";

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
    work_item: String,
    kind: String,
    payload: Value,
}

impl Delivery {
    fn text(&self) -> Option<&str> {
        self.event.payload.pointer("/event/text")?.as_str()
    }
}

/// Starts both, tells the story, and stays up unless it is told once.
pub(super) async fn tell(once: bool, scratch: &Path, context: &Context) -> Result<(), Failure> {
    let mut story = Story::begin(context, "one Slack reply, from the socket", scratch);
    let fake = FakeSlack::start().map_err(Failure::Scratch)?;
    let serving = Serving::start(&config(scratch, &fake)?, &Parts::default())?;
    let api = Api::new(serving.api().clone())?;
    story.step(&format!(
        "started    a gateway on {}, and a fake Slack on {}",
        api.base(),
        fake.address()
    ));
    let told = match follow(&api, &fake, &mut story, context).await {
        Ok(()) if once => serving.stop("the story is told").await,
        Ok(()) => {
            context.output.say(&format!(
                "\nIt stays up; Ctrl-C ends it and removes its state. Look around:\n  curl -sS {}\n  \
                 the-loop-gateway queues --url {}",
                api.base().at("/api/v1/gateway/subjects"),
                api.base(),
            ));
            serving.until_stopped().await
        }
        Err(failure) => {
            serving.stop("the story went wrong").await?;
            Err(failure)
        }
    };
    fake.stop().await;
    told
}

/// The configuration of the story: the socket, and a token that only the fake would take.
fn config(scratch: &Path, fake: &FakeSlack) -> Result<LoadedConfig, Failure> {
    let token = new_secret().map_err(Failure::NoRandomness)?;
    let mut loaded = own_gateway(scratch);
    let slack = &mut loaded.config.slack;
    slack.api_base = fake.api_base();
    slack.socket.enabled = true;
    let name = slack.socket.app_token_env.as_str().to_owned();
    // Slack tells the kinds of its tokens apart by how they begin.
    let token = format!("xapp-{}", token.expose().unwrap_or_default());
    loaded.environment = Environment::given([(name.as_str(), token.as_str())]);
    Ok(loaded)
}

async fn follow(
    api: &Api,
    fake: &FakeSlack,
    story: &mut Story<'_>,
    context: &Context,
) -> Result<(), Failure> {
    connected(api).await?;
    story.step("connected  Slack said hello: the socket is up");
    let subject = subject().ok_or(Failure::Story("the sample names no work item"))?;
    register(api, story).await?;
    claim(api, &subject, story).await?;
    let thread = fake.post(Post::top(CHANNEL, "Sort the list"));
    bind(api, &thread, story).await?;
    let held = hold_a_fetch(api, context);
    until_held(api).await?;
    story.held();
    let sent_at = context.clock.instant();
    fake.say(Post {
        user: USER.to_owned(),
        ..Post::reply(CHANNEL, &thread, TEXT)
    });
    acked(api, fake, story, sent_at).await?;
    let held = held
        .await
        .map_err(|_lost| Failure::Story("the held fetch was lost"))?;
    let (delivery, cursor) = delivery_of(held.answer?).ok_or(Failure::Story(
        "the fetch brought something else than the reply",
    ))?;
    let after = held.at.saturating_duration_since(sent_at);
    woken(&delivery, after, story);
    commit(api, delivery.seq, cursor, story).await?;
    story.end();
    Ok(())
}

/// Waits until health says that the socket is up.
async fn connected(api: &Api) -> Result<(), Failure> {
    for _ in 0..super::LOOKS_MAX {
        if health(api).await?.pointer("/slack/socket") == Some(&json!("up")) {
            return Ok(());
        }
        actix_rt::time::sleep(super::LOOK_EVERY).await;
    }
    Err(Failure::Story("the socket did not come up"))
}

async fn health(api: &Api) -> Result<Value, Failure> {
    Ok(api.get("/api/v1/gateway/health").await?)
}

async fn register(api: &Api, story: &mut Story<'_>) -> Result<(), Failure> {
    let body = identified(json!({"actors": {"slack": [USER]}}));
    api.send(Method::PUT, "/api/v1/gateway/actors", &body, NO_WAIT)
        .await?;
    story.step(&format!(
        "registered instance {INSTANCE}: it works for the Slack user {USER}"
    ));
    Ok(())
}

async fn bind(api: &Api, thread: &str, story: &mut Story<'_>) -> Result<(), Failure> {
    let (key, work_item) = (
        format!("{CHANNEL}/{thread}"),
        format!("github:{OWNER}/{REPO}#{NUMBER}"),
    );
    let body = identified(json!({"ref": work_item, "provider": "slack", "key": key}));
    api.send(Method::POST, "/api/v1/gateway/bindings", &body, NO_WAIT)
        .await?;
    story.step(&format!("bound      the Slack thread {key} to {work_item}"));
    Ok(())
}

/// Waits for the ack, and then makes sure that the reply is stored.
async fn acked(
    api: &Api,
    fake: &FakeSlack,
    story: &mut Story<'_>,
    sent_at: Instant,
) -> Result<(), Failure> {
    let ack = fake.until("the reply is acked", |seen| seen.acks.first().cloned());
    let ack = ack
        .await
        .map_err(|_in_vain| Failure::Story("the gateway did not acknowledge the reply"))?;
    let took = ack.at.saturating_duration_since(sent_at);
    if health(api).await?.pointer("/store/events") != Some(&json!(1)) {
        return Err(Failure::Story("the reply is acknowledged and not stored"));
    }
    story.tell(
        took,
        &format!(
            "replied    {TEXT:?} by {USER} in the thread: envelope {} went over the socket, was \
             acked once it was on disk",
            ack.envelope_id
        ),
    );
    Ok(())
}

/// The one delivery of an answer, and the answer's cursor.
fn delivery_of(fetched: Value) -> Option<(Delivery, u64)> {
    let Fetched { deliveries, cursor } = serde_json::from_value(fetched).ok()?;
    let mut deliveries = deliveries.into_iter();
    let delivery = deliveries.next()?;
    let is_ours = delivery.text() == Some(TEXT) && deliveries.next().is_none();
    is_ours.then_some((delivery, cursor))
}

fn woken(delivery: &Delivery, after: Duration, story: &mut Story<'_>) {
    let Delivery {
        seq,
        attempt,
        event,
    } = delivery;
    let (id, kind, work_item) = (event.id, plain(&event.kind), plain(&event.work_item));
    story.tell(
        after,
        &format!(
            "woken      (since the sending) the held request got delivery {seq}: event {id}, \
             {kind} {TEXT:?} on {work_item}, attempt {attempt}"
        ),
    );
}
