mod catching_up;
mod events;
mod forms;
mod frames;

use serde_json::{Value, json};

use super::*;
use crate::domain::WorkItemRef;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json; charset=utf-8";

fn declared() -> Declared {
    let room = WorkItemRef::parse("github:octo/repo#1").unwrap();
    Declared {
        rooms: BTreeMap::from([("CROOM".to_owned(), room)]),
        ..Declared::default()
    }
}

fn parsed(body: &[u8], headers: &[(&str, &str)]) -> Result<SlackVerdict, Rejection> {
    let headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    parse(
        &headers,
        Verified::by_connection(body),
        &declared(),
        Timestamp(7),
    )
}

fn sent(body: &Value) -> SlackVerdict {
    parsed(body.to_string().as_bytes(), &[("content-type", JSON)]).unwrap()
}

fn posted(form: &str) -> Result<SlackVerdict, Rejection> {
    parsed(form.as_bytes(), &[("content-type", FORM)])
}

fn form_of(payload: &Value) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("payload", &payload.to_string()).finish()
}

fn framed(text: &str) -> Frame {
    read_frame(Verified::by_connection(text), &declared(), Timestamp(7))
}

fn envelope(body: &Value) -> Envelope {
    let Frame::Envelope(envelope) = framed(&body.to_string()) else {
        panic!("no envelope: {body}");
    };
    *envelope
}

fn arrival(verdict: SlackVerdict) -> Arrival {
    let SlackVerdict::Append(arrival) = verdict else {
        panic!("{verdict:?}");
    };
    *arrival
}

fn reason(verdict: SlackVerdict) -> DropReason {
    let SlackVerdict::Drop(dropped) = verdict else {
        panic!("{verdict:?}");
    };
    dropped.reason
}

fn keys(arrival: &Arrival) -> Vec<&str> {
    arrival
        .dedup_keys
        .iter()
        .map(|key| key.text.as_str())
        .collect()
}

fn references(arrival: &Arrival) -> Vec<String> {
    let name = |reference: &Reference| match reference {
        Reference::Bound { key, .. } => key.clone(),
        Reference::Room { channel } => format!("room {channel}"),
        Reference::DeclaredRoom(work_item) => format!("declared {work_item}"),
        Reference::Direct(_) | Reference::Commit { .. } => panic!("{reference:?}"),
    };
    arrival.keys.iter().map(name).collect()
}

/// An outer event; `event` is laid over a message.
fn outer(event: &Value) -> Value {
    let mut inner = json!({"type": "message", "channel": "C1", "user": "U1", "ts": "10.1"});
    inner
        .as_object_mut()
        .unwrap()
        .extend(event.as_object().unwrap().clone());
    json!({
        "type": "event_callback",
        "team_id": "T1",
        "api_app_id": "A1",
        "event_id": "Ev1",
        "event": inner,
    })
}
