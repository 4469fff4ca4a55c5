//! The keys by which one Slack event is recognised, whichever way it arrives.
//!
//! None depends on an envelope: a retry comes in a new one.

use super::body::Body;
use super::place::Place;
use crate::domain::DedupKey;
use crate::providers::digest;

/// Messages that report on another message; they share its channel, not its `ts`.
const REPORTS: [&str; 3] = ["message_changed", "message_deleted", "message_replied"];

/// The key of the event's id, and for a new message that of its place, which the catch-up knows
/// too. An `app_mention` never has the latter: it would swallow the message that it is about.
pub(super) fn of_event(body: &Body<'_>, place: &Place<'_>) -> Vec<DedupKey> {
    let app = app_or_team(body, place);
    let id = body
        .node
        .text("event_id")
        .map(|id| DedupKey::delivery(format!("slack:{app}:{id}")));
    let mut keys: Vec<DedupKey> = id.into_iter().collect();
    keys.extend(new_message(body, place));
    or_hash(keys, body, place)
}

fn new_message(body: &Body<'_>, place: &Place<'_>) -> Vec<DedupKey> {
    let event = body.node.at("event");
    let is_message = event.text("type").is_some_and(|kind| kind == "message");
    let is_report = event
        .text("subtype")
        .is_some_and(|subtype| REPORTS.contains(&&*subtype));
    let (Some(channel), Some(ts)) = (&place.channel, event.text("ts")) else {
        return Vec::new();
    };
    if !is_message || is_report {
        return Vec::new();
    }
    let key = |team: &str| DedupKey::object(format!("slack:{team}:msg:{channel}:{ts}"));
    if place.teams.is_empty() {
        return vec![key(place.team())];
    }
    place.teams.iter().map(|team| key(team)).collect()
}

/// The key of the gesture; where Slack names none, what the type of interaction has instead.
pub(super) fn of_interaction(
    body: &Body<'_>,
    place: &Place<'_>,
    kind: &str,
    user: Option<&str>,
) -> Vec<DedupKey> {
    let gesture = gesture(body, place).or_else(|| {
        let parts = parts_of(body, kind)?.join(":");
        let text = format!("slack:{}:{kind}:{}:{parts}", place.team(), user?);
        Some(DedupKey::object(text))
    });
    or_hash(gesture.into_iter().collect(), body, place)
}

/// The key of the gesture.
pub(super) fn of_command(body: &Body<'_>, place: &Place<'_>) -> Vec<DedupKey> {
    or_hash(gesture(body, place).into_iter().collect(), body, place)
}

fn gesture(body: &Body<'_>, place: &Place<'_>) -> Option<DedupKey> {
    let trigger = body.node.text("trigger_id")?;
    Some(DedupKey::object(format!(
        "slack:{}:{trigger}",
        place.team()
    )))
}

/// What tells two interactions of one type and user apart; `None` when a part is missing.
fn parts_of(body: &Body<'_>, kind: &str) -> Option<Vec<String>> {
    let node = &body.node;
    let view = node.at("view");
    let parts = match kind {
        "block_actions" => {
            let container = node.at("container");
            let action = node.items("actions").next()?;
            let target = container
                .text("message_ts")
                .or_else(|| node.at("message").text("ts"))
                .or_else(|| container.text("view_id"))
                .or_else(|| view.text("id"));
            let mut parts = vec![target];
            parts.extend(["action_id", "block_id", "action_ts"].map(|part| action.text(part)));
            parts
        }
        "view_submission" | "view_closed" => vec![view.text("id"), view.text("hash")],
        _ => vec![node.text("action_ts")],
    };
    parts
        .into_iter()
        .map(|part| part.map(|text| text.into_owned()))
        .collect()
}

fn or_hash(keys: Vec<DedupKey>, body: &Body<'_>, place: &Place<'_>) -> Vec<DedupKey> {
    if !keys.is_empty() {
        return keys;
    }
    let sha256 = digest::sha256(body.text.as_bytes());
    let app = app_or_team(body, place);
    vec![DedupKey::object(format!("slack:{app}:sha256:{sha256}"))]
}

fn app_or_team(body: &Body<'_>, place: &Place<'_>) -> String {
    body.app()
        .map_or_else(|| place.team().to_owned(), |app| app.into_owned())
}
