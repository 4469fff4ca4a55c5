//! The scenarios of the design, each under its own title.

mod delivery;
mod instances;
mod replies;

use serde_json::{Value, json};

use crate::support::TestGateway;

/// A reply in the thread of `octo/repo#15`, as Slack posts it.
fn slack_reply(event_id: &str, ts: &str, text: &str) -> String {
    json!({
        "type": "event_callback",
        "team_id": "T0123",
        "api_app_id": "A0123",
        "event_id": event_id,
        "event": {
            "type": "message",
            "channel": "C0123",
            "user": "U0123",
            "text": text,
            "ts": ts,
            "thread_ts": "1792332000.000100",
        },
    })
    .to_string()
}

/// Says that the thread belongs to `octo/repo#15`.
fn bind_thread(gateway: &TestGateway, instance: &str) -> Value {
    let binding = json!({
        "instance": instance,
        "peer": format!("peer-of-{instance}"),
        "ref": "github:octo/repo#15",
        "provider": "slack",
        "key": "C0123/1792332000.000100",
    });
    gateway.api("POST", "/bindings", &binding).assert(200)
}

/// A comment on an issue or, as a ticket's pull request, on `number`; by a person.
fn comment_by(login: &str, number: u64, id: u64, text: &str) -> String {
    crate::support::comment_on(number, id, text).replace("octocat", login)
}

/// What a member of each delivery's event is, in the order of the answer.
fn each_event<'a>(answer: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let deliveries = answer["deliveries"].as_array().unwrap().iter();
    deliveries
        .map(|delivery| delivery["event"].pointer(pointer).unwrap_or(&Value::Null))
        .collect()
}
