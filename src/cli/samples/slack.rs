//! Samples of what Slack posts: events, an interaction, a command.

use serde_json::{Value, json};

use super::Sample;
use crate::domain::Timestamp;

/// What a sample is about.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Scene {
    /// The workspace.
    pub(in crate::cli) team: String,
    /// The channel.
    pub(in crate::cli) channel: String,
    /// The `ts` of the thread's first message; none: a message of its own.
    pub(in crate::cli) thread: Option<String>,
    /// Who does it.
    pub(in crate::cli) user: String,
    /// What it says.
    pub(in crate::cli) text: String,
    /// When it happens.
    pub(in crate::cli) now: Timestamp,
    /// What tells it from other events.
    pub(in crate::cli) id: u64,
}

const APP: &str = "A0123";

impl Scene {
    /// A moment as Slack writes it: seconds and six decimals, unique within a channel.
    fn ts(&self) -> String {
        let seconds = self.now.0.div_euclid(1000);
        let unique = self.id.checked_rem(1_000_000).unwrap_or_default();
        format!("{seconds}.{unique:06}")
    }

    fn trigger(&self) -> String {
        format!("{}.{}", self.id, self.now.0)
    }

    fn event(&self, mut event: Value) -> Value {
        if let (Some(event), Some(thread)) = (event.as_object_mut(), &self.thread) {
            event.insert("thread_ts".to_owned(), thread.as_str().into());
        }
        json!({
            "type": "event_callback",
            "team_id": self.team,
            "api_app_id": APP,
            "event_id": format!("Ev{:X}", self.id),
            "event_time": self.now.0.div_euclid(1000),
            "authorizations": [{"team_id": self.team, "is_bot": true}],
            "event": event,
        })
    }

    fn said(&self, kind: &str) -> Value {
        self.event(json!({
            "type": kind,
            "channel": self.channel,
            "user": self.user,
            "text": self.text,
            "ts": self.ts(),
        }))
    }
}

/// The route that Slack posts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Route {
    /// JSON.
    Events,
    /// A form with JSON in its `payload`.
    Interactions,
    /// A form of texts.
    Commands,
}

impl Route {
    /// The route of a sample, or the one that is named itself.
    pub(in crate::cli) fn of(name: &str) -> Self {
        match name {
            "block_actions" | "interactions" => Self::Interactions,
            "slash_command" | "commands" => Self::Commands,
            _ => Self::Events,
        }
    }

    /// Its path.
    pub(in crate::cli) const fn path(self) -> &'static str {
        match self {
            Self::Events => "/slack/events",
            Self::Interactions => "/slack/interactions",
            Self::Commands => "/slack/commands",
        }
    }

    /// The content type of its bodies.
    pub(in crate::cli) const fn content_type(self) -> &'static str {
        match self {
            Self::Events => "application/json",
            Self::Interactions | Self::Commands => "application/x-www-form-urlencoded",
        }
    }

    /// The body in which Slack posts a payload.
    pub(in crate::cli) fn body(self, payload: &Value) -> Vec<u8> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        match self {
            Self::Events => return payload.to_string().into_bytes(),
            Self::Interactions => {
                form.append_pair("payload", &payload.to_string());
            }
            Self::Commands => {
                let fields = payload.as_object().into_iter().flatten();
                form.extend_pairs(fields.filter_map(|(name, value)| Some((name, value.as_str()?))));
            }
        }
        form.finish().into_bytes()
    }
}

/// All Slack samples.
pub(in crate::cli) const SLACK: &[Sample<Scene>] = &[
    Sample {
        name: "message",
        about: "a message, in a thread with --thread",
        payload: |scene| scene.said("message"),
    },
    Sample {
        name: "app_mention",
        about: "the app is mentioned",
        payload: |scene| scene.said("app_mention"),
    },
    Sample {
        name: "reaction_added",
        about: "a reaction to the message that --thread names",
        payload: |scene| {
            let ts = scene.thread.clone().unwrap_or_else(|| scene.ts());
            scene.event(json!({
                "type": "reaction_added",
                "user": scene.user,
                "reaction": "eyes",
                "item": {"type": "message", "channel": scene.channel, "ts": ts},
                "event_ts": scene.ts(),
            }))
        },
    },
    Sample {
        name: "block_actions",
        about: "a button is pressed under a message",
        payload: |scene| {
            let message = scene.thread.clone().unwrap_or_else(|| scene.ts());
            json!({
                "type": "block_actions",
                "team": {"id": scene.team},
                "api_app_id": APP,
                "user": {"id": scene.user, "team_id": scene.team},
                "trigger_id": scene.trigger(),
                "channel": {"id": scene.channel},
                "container": {
                    "type": "message",
                    "channel_id": scene.channel,
                    "message_ts": scene.ts(),
                    "thread_ts": message,
                },
                "actions": [{"action_id": "approve", "block_id": "b1", "action_ts": scene.ts()}],
            })
        },
    },
    Sample {
        name: "slash_command",
        about: "a command is given in the channel",
        payload: |scene| {
            json!({
                "command": "/the-loop",
                "text": scene.text,
                "team_id": scene.team,
                "channel_id": scene.channel,
                "user_id": scene.user,
                "api_app_id": APP,
                "trigger_id": scene.trigger(),
            })
        },
    },
    Sample {
        name: "url_verification",
        about: "Slack asks whether the URL is ours: answered, not stored",
        payload: |scene| json!({"type": "url_verification", "challenge": scene.trigger()}),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::Reference;
    use crate::providers::signature::{SlackProof, sign_slack, verify_slack};
    use crate::providers::slack::SlackVerdict;
    use crate::providers::{Declared, Secrets, slack};

    const NOW: Timestamp = Timestamp(1_792_332_131_120);

    fn scene() -> Scene {
        Scene {
            team: "T0123".to_owned(),
            channel: "C0123".to_owned(),
            thread: Some("1792332000.000100".to_owned()),
            user: "U0123".to_owned(),
            text: "go on".to_owned(),
            now: NOW,
            id: 77,
        }
    }

    fn parsed(sample: &Sample<Scene>) -> SlackVerdict {
        let route = Route::of(sample.name);
        let body = route.body(&sample.payload(&scene()));
        let secrets = Secrets::new("secret".to_owned(), None).unwrap();
        let seconds = NOW.0 / 1000;
        let (signature, timestamp) = (sign_slack("secret", seconds, &body), seconds.to_string());
        let proof = SlackProof {
            signature: Some(signature.as_bytes()),
            timestamp: Some(timestamp.as_bytes()),
        };
        let (verified, _) = verify_slack(&secrets, proof, body, NOW).unwrap();
        let content_type = ("content-type".to_owned(), route.content_type().to_owned());
        let headers = BTreeMap::from([content_type]);
        slack::parse(&headers, verified.as_bytes(), &Declared::default(), NOW).unwrap()
    }

    #[test]
    fn each_sample_names_its_thread_or_channel_and_who_did_it() {
        for sample in SLACK {
            let arrival = match parsed(sample) {
                SlackVerdict::Append(arrival) => arrival,
                SlackVerdict::Challenge(text) => {
                    assert_eq!((sample.name, text), ("url_verification", scene().trigger()));
                    continue;
                }
                other @ (SlackVerdict::Drop(_)
                | SlackVerdict::Options
                | SlackVerdict::SslCheck
                | SlackVerdict::Heartbeat { .. }) => panic!("{}: {other:?}", sample.name),
            };
            let is_named = arrival.keys.iter().any(|key| match key {
                Reference::Bound { key, .. } => key == "C0123/1792332000.000100",
                Reference::Room { channel } => sample.name == "slash_command" && channel == "C0123",
                Reference::Direct(_) | Reference::Commit { .. } | Reference::DeclaredRoom(_) => {
                    false
                }
            });
            assert!(is_named, "{}: {:?}", sample.name, arrival.keys);
            assert_eq!(arrival.kind, sample.name);
            assert_eq!(arrival.actor.unwrap().name, "U0123");
        }
    }
}
