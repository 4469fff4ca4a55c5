//! The story of one event in words: how it came, what it is about, who had it, what became of it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::waiting;
use crate::cli::output::{Mark, Output};
use crate::cli::shown::{NONE, Times, between, bytes, plain};

/// A story as the API tells it, as far as people read it.
#[derive(Debug, Deserialize)]
pub(super) struct Story {
    pub(super) event: Event,
    pub(super) deliveries: Vec<Delivery>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    id: i64,
    pub(super) subject: String,
    work_item: Option<String>,
    provider: String,
    source: String,
    delivery_id: String,
    kind: String,
    received_at: String,
    pub(super) state: String,
    pub(super) actor: Option<String>,
    payload_bytes: u64,
    headers: BTreeMap<String, String>,
    resolved_by: Option<String>,
    resolved_key: Option<String>,
    published_by: Option<String>,
    also_about: Vec<String>,
    pub(super) awaits: Vec<Awaited>,
    dedup_keys: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Awaited {
    pub(super) by: String,
    pub(super) key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery {
    pub(super) seq: i64,
    pub(super) instance: String,
    pub(super) state: String,
    why: String,
    pub(super) strikes: u64,
    pub(super) suspect: bool,
    pub(super) losses: u64,
    routed_at: String,
    pub(super) outcome: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) ended_at: Option<String>,
    pub(super) redrive_of: Option<i64>,
    pub(super) waits_for: Option<WaitsFor>,
    pub(super) hand_outs: Vec<HandOut>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitsFor {
    pub(super) what: String,
    pub(super) behind: Option<i64>,
    pub(super) behind_event: Option<i64>,
    pub(super) until: Option<String>,
    pub(super) ahead: u64,
    pub(super) last_fetch_at: Option<String>,
    pub(super) live: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HandOut {
    number: i64,
    pub(super) run: String,
    attempt: u64,
    pub(super) handed_at: String,
    ended_at: Option<String>,
    ended: Option<String>,
    detail: Option<String>,
}

impl Story {
    /// The whole story, a paragraph for the event and one for each delivery.
    pub(super) fn told(&self, times: Times, output: Output) -> String {
        let mut lines = vec![output.marked(&plain(&self.event.title()), Mark::Heading)];
        let standing = waiting::standing(self, times);
        let mark = if standing.needs_a_person {
            Mark::Alarm
        } else {
            Mark::None
        };
        for (number, sentence) in standing.sentences.iter().enumerate() {
            let word = if number == 0 { "now" } else { "" };
            lines.push(output.marked(&fact(word, sentence), mark));
        }
        lines.push(String::new());
        lines.extend(self.event.told(times));
        for delivery in &self.deliveries {
            lines.push(String::new());
            let title = format!("delivery {} to {}", delivery.seq, delivery.instance);
            lines.push(output.marked(&plain(&title), Mark::Heading));
            lines.extend(delivery.told(&self.event, &self.deliveries, times));
        }
        lines.join("\n")
    }

    /// The delivery that replaced another one.
    pub(super) fn replacement_of(&self, seq: i64) -> Option<&Delivery> {
        let mut deliveries = self.deliveries.iter();
        deliveries.find(|delivery| delivery.redrive_of == Some(seq))
    }
}

/// A fact under its word.
fn fact(word: &str, text: &str) -> String {
    format!("  {word:<11}{}", plain(text))
}

impl Event {
    fn title(&self) -> String {
        let by = self
            .actor
            .as_ref()
            .map_or(String::new(), |actor| format!(" by {actor}"));
        let about = self.work_item.as_deref().unwrap_or("no work item");
        format!("event {}: {}{by} on {about}", self.id, self.kind)
    }

    fn told(&self, times: Times) -> Vec<String> {
        let size = if self.payload_bytes == 0 {
            "its payload is gone".to_owned()
        } else {
            format!("{} of payload", bytes(self.payload_bytes))
        };
        let mut lines = vec![
            fact(
                "arrived",
                &format!(
                    "{}, {}, as delivery {}; {size}",
                    times.past(Some(&self.received_at)),
                    self.way(),
                    self.delivery_id
                ),
            ),
            fact("verified", self.verified()),
        ];
        lines.extend(self.headers.get("x-slack-retry-num").map(|number| {
            fact(
                "retry",
                &format!("number {number} of Slack, so it was sent before"),
            )
        }));
        for (number, key) in self.dedup_keys.iter().enumerate() {
            lines.push(fact(if number == 0 { "known by" } else { "" }, key));
        }
        lines.push(fact("about", &self.about()));
        if !self.also_about.is_empty() {
            lines.push(fact("and about", &self.also_about.join(", ")));
        }
        lines
    }

    fn way(&self) -> String {
        let provider = match self.provider.as_str() {
            "github" => "GitHub",
            "jira" => "Jira",
            "slack" => "Slack",
            other => other,
        };
        match self.source.as_str() {
            "webhook" => format!("sent by {provider} over HTTP"),
            "socket" => format!("sent by {provider} over the socket"),
            "poll" => format!("found by asking {provider}"),
            other => format!("from {provider} through {other}"),
        }
    }

    /// What made it trustworthy; nothing else reaches the store.
    fn verified(&self) -> &'static str {
        match (self.provider.as_str(), self.source.as_str()) {
            ("slack", "webhook") => {
                "by Slack's signature over its bytes and its time stamp, before it was read"
            }
            (_, "webhook") => {
                "by the HMAC-SHA256 signature over its bytes with the webhook's secret, before it \
                 was read"
            }
            (_, "socket") => {
                "it came over the connection that the app's token opened; Slack signs nothing there"
            }
            (_, "poll") => "the gateway read it from the provider's API itself, over TLS",
            _ => NONE,
        }
    }

    fn about(&self) -> String {
        let Some(work_item) = &self.work_item else {
            return match self.resolved_by.as_deref() {
                None if self.state == "grace" => "nothing names its work item yet".to_owned(),
                _ => "no work item; it goes to the instance that works for its author".to_owned(),
            };
        };
        let key = self.resolved_key.as_deref().unwrap_or("its own");
        let by = match self.resolved_by.as_deref() {
            Some("direct") => "named by the payload itself".to_owned(),
            Some("binding") => format!("named by the binding of {key}{}", self.publisher()),
            Some("commit") => format!("named by the pull request whose head is commit {key}"),
            Some("room") => format!("named by the room {key}{}", self.publisher()),
            Some("declared-room") => "named by a room that the config declares".to_owned(),
            _ => "named by something that is no longer known".to_owned(),
        };
        format!("{work_item}, {by}")
    }

    fn publisher(&self) -> String {
        match &self.published_by {
            Some(instance) => format!(", which {instance} published"),
            None => ", which is no longer published".to_owned(),
        }
    }
}

impl Delivery {
    fn told(&self, event: &Event, all: &[Self], times: Times) -> Vec<String> {
        let mut lines = vec![fact("because", &self.because(event))];
        if let Some(old) = self.redrive_of {
            lines.push(fact("instead of", &format!("delivery {old}")));
        }
        lines.push(fact("queued", &times.past(Some(&self.routed_at))));
        for hand_out in &self.hand_outs {
            let word = format!("attempt {}", hand_out.attempt);
            lines.push(fact(&word, &hand_out.told(times)));
        }
        if self.hand_outs.is_empty() {
            lines.push(fact("handed out", "never"));
        }
        let strikes = match self.strikes {
            0 => None,
            1 => Some("1 strike".to_owned()),
            many => Some(format!("{many} strikes")),
        };
        let suspect = self
            .suspect
            .then(|| "goes out alone: it was in hand when a process vanished".to_owned());
        let losses =
            (self.losses > 0).then(|| format!("{} answers in a row did not arrive", self.losses));
        let blame: Vec<String> = [strikes, suspect, losses].into_iter().flatten().collect();
        if !blame.is_empty() {
            lines.push(fact("blame", &blame.join("; ")));
        }
        if let Some(outcome) = &self.outcome
            && self.state == "settled"
        {
            let ended = times.past(self.ended_at.as_deref());
            lines.push(fact(
                "settled",
                &format!("{ended}, as {outcome}{}", said(self.detail.as_deref())),
            ));
        }
        let replaced = all.iter().find(|other| other.redrive_of == Some(self.seq));
        if let Some(other) = replaced {
            let by = format!("delivery {} to {}", other.seq, other.instance);
            lines.push(fact("replaced", &format!("by {by}")));
        }
        lines
    }

    /// Why this instance got it.
    fn because(&self, event: &Event) -> String {
        let as_what = |role: &str| match role {
            "driver" => "as its driver",
            "reviewer" => "as its reviewer",
            _ => "",
        };
        let instance = &self.instance;
        match self.why.split_once(':') {
            Some(("claim", role)) => {
                format!("{instance} claims {}, {}", event.subject, as_what(role))
            }
            Some(("link", link)) => {
                let (subject, role) = link.rsplit_once(':').unwrap_or((link, ""));
                format!(
                    "{instance} claims {subject}, {}, and a binding links it to this work item",
                    as_what(role)
                )
            }
            _ if self.why == "actor" => format!(
                "nobody claims the work item, and {instance} works for {}",
                event.actor.as_deref().unwrap_or("its author")
            ),
            _ if self.why == "replay" => format!("an operator replayed it onto {instance}"),
            _ => self.why.clone(),
        }
    }
}

impl HandOut {
    fn told(&self, times: Times) -> String {
        let Self {
            number,
            run,
            handed_at,
            ..
        } = self;
        let handed = format!(
            "{} to run {run}, in response {number}",
            times.past(Some(handed_at))
        );
        let (Some(ended), Some(ended_at)) = (&self.ended, &self.ended_at) else {
            return format!("{handed}; in hand");
        };
        let after = between(handed_at, ended_at).unwrap_or_default();
        let how = match ended.as_str() {
            "lost" => format!("lost: the answer did not arrive (known after {after})"),
            "vanished" => format!("vanished: that process was gone (known after {after})"),
            "overdue" => format!("overdue: no outcome within {after}"),
            "sent-back" => format!("sent back after {after}, behind an earlier one of its subject"),
            "expired" => format!("expired after {after}, without an outcome"),
            outcome => format!("{outcome} after {after}"),
        };
        format!("{handed}; {how}{}", said(self.detail.as_deref()))
    }
}

/// What an instance said, behind what happened.
pub(super) fn said(detail: Option<&str>) -> String {
    detail.map_or(String::new(), |detail| format!(": {detail:?}"))
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
