//! Slash commands: a form over HTTP, the same fields as JSON in an envelope.

use std::borrow::Cow;

use super::body::{self, Body, json_text};
use super::place::Place;
use super::{Delivery, Facts, SlackVerdict, dedup};
use crate::domain::OnUnresolved;
use crate::providers::Rejection;

const KIND: &str = "slash_command";

/// Reads a command: a room's channel names its work item, else it is for whoever works for its
/// user.
pub(super) fn judge(body: &Body<'_>, delivery: Delivery<'_>) -> Result<SlackVerdict, Rejection> {
    let place = Place {
        teams: body.node.name("team_id").into_iter().collect(),
        channel: body.node.name("channel_id"),
        thread: None,
    };
    let trigger = body.node.text("trigger_id");
    let facts = Facts {
        keys: place.references(delivery.declared),
        dedup_keys: dedup::of_command(body, &place),
        actor: body::actor(body.node.name("user_id")),
        on_unresolved: OnUnresolved::ToActor,
        id: trigger.map(Cow::into_owned),
        kind: KIND.to_owned(),
    };
    super::append_for_somebody(body, facts, delivery)
}

/// The fields of a command's form as the JSON object that Socket Mode would send.
pub(super) fn as_json(fields: &[(String, String)]) -> String {
    let members: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{}", json_text(name), json_text(value)))
        .collect();
    format!("{{{}}}", members.join(","))
}
