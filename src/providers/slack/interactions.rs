//! Interactions: buttons, menus, shortcuts and modals.

use std::borrow::Cow;

use super::body::{self, Body};
use super::place::Place;
use super::{Delivery, Facts, SlackVerdict, dedup};
use crate::domain::OnUnresolved;
use crate::providers::Rejection;

/// The types of interactions that Slack sends.
const TYPES: [&str; 11] = [
    "block_actions",
    "block_suggestion",
    "dialog_cancellation",
    "dialog_submission",
    "dialog_suggestion",
    "interactive_message",
    "message_action",
    "shortcut",
    "view_closed",
    "view_submission",
    "workflow_step_edit",
];

pub(super) fn is_type(kind: &str) -> bool {
    TYPES.contains(&kind)
}

/// Reads an interaction: a suggestion wants options, the rest is appended, for whoever works for
/// its user where it names no work item.
pub(super) fn judge(body: &Body<'_>, delivery: Delivery<'_>) -> Result<SlackVerdict, Rejection> {
    let kind = body.kind().unwrap_or_default();
    if matches!(&*kind, "block_suggestion" | "dialog_suggestion") {
        return Ok(SlackVerdict::Options);
    }
    let place = place_of(body);
    let user = body.node.at("user").name("id");
    let trigger = body.node.text("trigger_id");
    let facts = Facts {
        keys: place.references(delivery.declared),
        dedup_keys: dedup::of_interaction(body, &place, &kind, user.as_deref()),
        actor: body::actor(user),
        on_unresolved: OnUnresolved::ToActor,
        id: trigger.map(Cow::into_owned),
        kind: kind.into_owned(),
    };
    super::append_for_somebody(body, facts, delivery)
}

/// An app installed in a whole organisation gets no team, but a user with one.
fn place_of<'a>(body: &Body<'a>) -> Place<'a> {
    let node = &body.node;
    let team = node
        .at("team")
        .name("id")
        .or_else(|| node.at("user").name("team_id"));
    let container = node.at("container");
    let channel = container
        .name("channel_id")
        .or_else(|| node.at("channel").name("id"));
    let messages = [node.at("message"), node.at("original_message")];
    let thread = container
        .name("thread_ts")
        .or_else(|| {
            messages
                .iter()
                .find_map(|message| message.name("thread_ts"))
        })
        .or_else(|| container.name("message_ts"))
        .or_else(|| messages.iter().find_map(|message| message.name("ts")))
        .or_else(|| node.name("message_ts"));
    Place {
        teams: team.into_iter().collect(),
        channel,
        thread,
    }
}
