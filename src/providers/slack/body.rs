//! What the gateway reads of a Slack payload: one tree for events, interactions and commands,
//! because what a payload is shows only once it is read.

use std::borrow::Cow;

use crate::domain::{EventActor, Provider, Timestamp};
use crate::providers::lenient::{self, Node, NotJson, Want};

const MESSAGE: Want = Want::Object(&[("ts", Want::Leaf), ("thread_ts", Want::Leaf)]);

const ID: Want = Want::Object(&[("id", Want::Leaf)]);

/// An id here, an object with an id there.
const ID_OR_OBJECT: Want = Want::Whole(&[("id", Want::Leaf)]);

const EVENT: Want = Want::Object(&[
    ("type", Want::Leaf),
    ("subtype", Want::Leaf),
    ("channel", ID_OR_OBJECT),
    ("channel_id", Want::Leaf),
    (
        "item",
        Want::Object(&[("channel", Want::Leaf), ("ts", Want::Leaf)]),
    ),
    ("user", ID_OR_OBJECT),
    ("user_id", Want::Leaf),
    ("bot_id", Want::Leaf),
    ("text", Want::Leaf),
    ("ts", Want::Leaf),
    ("event_ts", Want::Leaf),
    ("thread_ts", Want::Leaf),
    ("message", MESSAGE),
    ("previous_message", MESSAGE),
    ("deleted_ts", Want::Leaf),
]);

const CONTAINER: Want = Want::Object(&[
    ("channel_id", Want::Leaf),
    ("message_ts", Want::Leaf),
    ("thread_ts", Want::Leaf),
    ("view_id", Want::Leaf),
]);

const ACTIONS: Want = Want::Items(&[
    ("action_id", Want::Leaf),
    ("block_id", Want::Leaf),
    ("action_ts", Want::Leaf),
]);

static PAYLOAD: Want = Want::Object(&[
    ("type", Want::Leaf),
    ("api_app_id", Want::Leaf),
    // Events and their connection test.
    ("event", EVENT),
    ("event_id", Want::Leaf),
    ("team_id", Want::Leaf),
    ("authorizations", Want::Items(&[("team_id", Want::Leaf)])),
    ("challenge", Want::Leaf),
    // Interactions.
    ("team", ID),
    ("channel", ID),
    (
        "user",
        Want::Object(&[("id", Want::Leaf), ("team_id", Want::Leaf)]),
    ),
    ("container", CONTAINER),
    ("message", MESSAGE),
    ("original_message", MESSAGE),
    ("message_ts", Want::Leaf),
    (
        "view",
        Want::Object(&[("id", Want::Leaf), ("hash", Want::Leaf)]),
    ),
    ("actions", ACTIONS),
    ("action_ts", Want::Leaf),
    ("trigger_id", Want::Leaf),
    // Commands.
    ("command", Want::Leaf),
    ("channel_id", Want::Leaf),
    ("user_id", Want::Leaf),
]);

/// A Slack payload: its exact text and what is read of it.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub(super) text: &'a str,
    pub(super) node: Node<'a>,
}

impl<'a> Body<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, NotJson> {
        let node = lenient::read(text, &PAYLOAD)?;
        Ok(Self { text, node })
    }

    pub(super) fn kind(&self) -> Option<Cow<'a, str>> {
        self.node.text("type")
    }

    /// When it happened, by the time stamp of the event or of the click.
    pub(super) fn happened_at(&self) -> Option<Timestamp> {
        let event = self.node.at("event");
        let ts = event.text("event_ts").or_else(|| event.text("ts"));
        moment(&ts.or_else(|| self.node.text("action_ts"))?)
    }

    pub(super) fn app(&self) -> Option<Cow<'a, str>> {
        self.node.text("api_app_id")
    }
}

/// The moment of Slack's `seconds.microseconds`.
fn moment(ts: &str) -> Option<Timestamp> {
    let (seconds, fraction) = ts.split_once('.')?;
    let seconds: i64 = seconds.parse().ok()?;
    let millis: i64 = fraction.get(..3)?.parse().ok()?;
    Some(Timestamp(seconds.checked_mul(1_000)?.checked_add(millis)?))
}

/// The id in a field that holds either an id or an object with one.
pub(super) fn id_in<'a>(node: &Node<'a>, field: &str) -> Option<Cow<'a, str>> {
    node.name(field).or_else(|| node.at(field).name("id"))
}

/// A Slack account as the one who did it.
pub(super) fn actor(user: Option<Cow<'_, str>>) -> Option<EventActor> {
    user.map(|name| EventActor {
        provider: Provider::Slack,
        name: name.into_owned(),
    })
}

/// A text as JSON.
pub(super) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
