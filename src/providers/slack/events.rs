//! Events: what the Events API sends, over HTTP or in an envelope.

use std::borrow::Cow;

use super::body::{self, Body, id_in};
use super::place::Place;
use super::{Delivery, Facts, SlackVerdict, dedup, heartbeat};
use crate::domain::{DropReason, OnUnresolved};
use crate::providers::Rejection;
use crate::providers::lenient::Node;

/// Reads an event: a heartbeat is reported, what has no channel is about no work item, the rest
/// is appended.
pub(super) fn judge(body: &Body<'_>, delivery: Delivery<'_>) -> Result<SlackVerdict, Rejection> {
    let event = body.node.at("event");
    let kind = event
        .text("type")
        .or_else(|| body.kind())
        .unwrap_or_default();
    let event_id = body.node.text("event_id");
    if let Some(beat) = heartbeat::in_event(event) {
        return Ok(beat);
    }
    let place = place_of(body);
    if place.channel.is_none() {
        let id = event_id.unwrap_or_default();
        return Ok(super::dropped(DropReason::NoWorkItem, &kind, &id));
    }
    let facts = Facts {
        actor: body::actor(id_in(event, "user").or_else(|| event.name("user_id"))),
        keys: place.references(delivery.declared),
        dedup_keys: dedup::of_event(body, &place),
        on_unresolved: match &*kind {
            "message" | "app_mention" => OnUnresolved::Grace,
            _ => OnUnresolved::Drop(DropReason::Unbound),
        },
        id: event_id.map(Cow::into_owned),
        kind: kind.into_owned(),
    };
    super::append(body, facts, delivery)
}

/// A channel that two organisations share is named after the sender's team; the team that the
/// app is installed in is the one that bindings and the catch-up know.
fn place_of<'a>(body: &Body<'a>) -> Place<'a> {
    let mut teams: Vec<Cow<'a, str>> = body.node.name("team_id").into_iter().collect();
    let installed = body.node.items("authorizations").next();
    let installed = installed.and_then(|authorization| authorization.name("team_id"));
    teams.extend(installed.filter(|team| !teams.contains(team)));
    let event = body.node.at("event");
    let channel = id_in(event, "channel")
        .or_else(|| event.at("item").name("channel"))
        .or_else(|| event.name("channel_id"));
    Place {
        teams,
        channel,
        thread: thread_of(event),
    }
}

/// The thread that an event belongs to; an edit or a deletion belongs to that of its message.
fn thread_of<'a>(event: &Node<'a>) -> Option<Cow<'a, str>> {
    let of = |message: &Node<'a>| message.name("thread_ts").or_else(|| message.name("ts"));
    let before = || of(event.at("previous_message"));
    match event.text("subtype").as_deref() {
        Some("message_changed" | "message_replied") => of(event.at("message")).or_else(before),
        Some("message_deleted") => before().or_else(|| event.name("deleted_ts")),
        _ => event.at("item").name("ts").or_else(|| of(event)),
    }
}
