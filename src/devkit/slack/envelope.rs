//! The frames that Slack sends, as text.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// The app of every payload.
pub(super) const APP: &str = "A0FAKE";
/// The workspace of every payload.
pub(super) const TEAM: &str = "T0FAKE";
/// The user that speaks when nobody else is named.
pub(super) const USER: &str = "U0FAKE";

/// One envelope; `payload` is the exact JSON text.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// What the ack names.
    pub envelope_id: String,
    /// `events_api`, `interactive`, `slash_commands`, or something else.
    pub kind: String,
    /// The JSON text of the payload.
    pub payload: String,
    /// Whether the ack may carry a payload.
    pub accepts_response_payload: bool,
    /// `retry_attempt` and `retry_reason`; only `events_api` has them.
    pub retry: Option<(u64, String)>,
}

/// A number that nothing else in this process has.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Envelope {
    /// An envelope of a kind around a payload.
    #[must_use]
    pub fn new(kind: &str, payload: String) -> Self {
        Self {
            envelope_id: format!("envelope-{}", unique()),
            kind: kind.to_owned(),
            payload,
            accepts_response_payload: kind != "events_api",
            retry: (kind == "events_api").then(|| (0, String::new())),
        }
    }

    /// The event of a message, with an `event_id` of its own.
    #[must_use]
    pub fn message(channel: &str, message: &Value) -> Self {
        let mut event = message.clone();
        if let Value::Object(fields) = &mut event {
            fields.insert("channel".to_owned(), json!(channel));
            fields.insert("channel_type".to_owned(), json!("channel"));
            fields.insert("event_ts".to_owned(), message["ts"].clone());
        }
        Self::event(&event)
    }

    /// An event of the Events API, with an `event_id` of its own.
    #[must_use]
    pub fn event(event: &Value) -> Self {
        let outer = json!({
            "token": "verification",
            "team_id": TEAM,
            "api_app_id": APP,
            "event": event,
            "type": "event_callback",
            "event_id": format!("Ev{:08}", unique()),
            "event_time": 1_700_000_000,
        });
        Self::new("events_api", outer.to_string())
    }

    /// A button that somebody pressed in a thread.
    #[must_use]
    pub fn button(channel: &str, thread_ts: &str) -> Self {
        let payload = json!({
            "type": "block_actions",
            "team": {"id": TEAM},
            "user": {"id": USER},
            "api_app_id": APP,
            "container": {"type": "message", "channel_id": channel, "message_ts": thread_ts,
                          "thread_ts": thread_ts},
            "channel": {"id": channel},
            "message": {"ts": thread_ts, "thread_ts": thread_ts},
            "trigger_id": format!("1.2.{:032x}", unique()),
            "actions": [{"action_id": "go", "block_id": "b", "action_ts": "1.1"}],
        });
        Self::new("interactive", payload.to_string())
    }

    /// A request for the options of a menu.
    #[must_use]
    pub fn suggestion() -> Self {
        let payload = json!({
            "type": "block_suggestion",
            "team": {"id": TEAM},
            "user": {"id": USER},
            "api_app_id": APP,
            "value": "abc",
        });
        Self::new("interactive", payload.to_string())
    }

    /// A slash command.
    #[must_use]
    pub fn command(channel: &str, command: &str, text: &str) -> Self {
        let payload = json!({
            "team_id": TEAM,
            "channel_id": channel,
            "user_id": USER,
            "command": command,
            "text": text,
            "api_app_id": APP,
            "is_enterprise_install": "false",
            "trigger_id": format!("3.4.{:032x}", unique()),
        });
        Self::new("slash_commands", payload.to_string())
    }

    /// The same payload as a retry, in a new envelope.
    #[must_use]
    pub fn retried(&self, attempt: u64, reason: &str) -> Self {
        Self {
            envelope_id: format!("envelope-{}", unique()),
            retry: Some((attempt, reason.to_owned())),
            ..self.clone()
        }
    }

    /// The text of the frame.
    #[must_use]
    pub fn text(&self) -> String {
        let retry = self.retry.as_ref().map(|(attempt, reason)| {
            format!(
                ",\"retry_attempt\":{attempt},\"retry_reason\":{}",
                json!(reason)
            )
        });
        format!(
            "{{\"envelope_id\":{},\"payload\":{},\"type\":{},\"accepts_response_payload\":{}{}}}",
            json!(self.envelope_id),
            self.payload,
            json!(self.kind),
            self.accepts_response_payload,
            retry.unwrap_or_default(),
        )
    }
}

pub(super) fn hello(num_connections: u64, approximate_connection_time: u64) -> String {
    json!({
        "type": "hello",
        "num_connections": num_connections,
        "debug_info": {
            "host": "loopback",
            "approximate_connection_time": approximate_connection_time,
        },
        "connection_info": {"app_id": APP},
    })
    .to_string()
}

pub(super) fn disconnect(reason: &str) -> String {
    json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "loopback"}}).to_string()
}
