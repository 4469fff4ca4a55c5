//! A client of the server under test: it sends what a check says, mistakes included.

use std::time::Duration;

use awc::http::Method;
use serde_json::{Value, json};

use super::lab::{Answer, Checked, Lab, Stop, require};
use crate::client::Delivery;

/// More than the 2 s after which what was released is due.
const SOON: Duration = Duration::from_secs(5);
/// A fetch is held no longer than this, whatever the server would grant.
const HELD_SECONDS_MAX: f64 = 20.0;

/// One process of an installation.
#[derive(Clone)]
pub(super) struct Player {
    pub(super) lab: Lab,
    pub(super) instance: String,
    pub(super) peer: Option<String>,
    pub(super) run: Option<String>,
    /// The last answer that it received; `None` sends no cursor at all.
    pub(super) cursor: Option<i64>,
}

/// What a fetch brought.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) deliveries: Vec<Handed>,
    pub(super) cursor: i64,
    pub(super) committed: i64,
    pub(super) expires_in: f64,
    pub(super) poll_after: f64,
}

/// One delivery of an answer.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) seq: i64,
    pub(super) attempt: u32,
    /// The number of the event, in the order in which the check made them.
    pub(super) event: u64,
    pub(super) id: i64,
    pub(super) redrive_of: Option<i64>,
}

impl Fetched {
    /// The events, in the order of the answer.
    pub(super) fn events(&self) -> Vec<u64> {
        self.deliveries.iter().map(|handed| handed.event).collect()
    }

    /// The events with their attempts.
    pub(super) fn attempts(&self) -> Vec<(u64, u32)> {
        let handed = self.deliveries.iter();
        handed
            .map(|handed| (handed.event, handed.attempt))
            .collect()
    }

    /// The delivery of an event.
    pub(super) fn of(&self, event: u64) -> Checked<&Handed> {
        let found = self.deliveries.iter().find(|handed| handed.event == event);
        found.ok_or_else(|| {
            let events = self.events();
            Stop::Broken(format!(
                "event {event} should be handed out, and {events:?} are"
            ))
        })
    }

    /// The number of an event's delivery.
    pub(super) fn seq(&self, event: u64) -> Checked<i64> {
        self.of(event).map(|handed| handed.seq)
    }

    /// All deliveries with one outcome.
    pub(super) fn all(&self, outcome: &'static str) -> Vec<(i64, &'static str)> {
        let handed = self.deliveries.iter();
        handed.map(|handed| (handed.seq, outcome)).collect()
    }
}

impl Player {
    /// The first run of the installation that holds a name of the check.
    pub(super) fn new(lab: &Lab, suffix: &str) -> Self {
        Self {
            lab: lab.clone(),
            instance: lab.instance(suffix),
            peer: Some(format!("peer-{:016x}", fastrand::u64(..))),
            run: Some("run-1".to_owned()),
            cursor: Some(0),
        }
    }

    /// The same installation, started again.
    pub(super) fn restarted(&self, run: &str) -> Self {
        Self {
            run: Some(run.to_owned()),
            cursor: Some(0),
            ..self.clone()
        }
    }

    /// Another installation under the same name.
    pub(super) fn rival(&self) -> Self {
        Self {
            peer: Some(format!("peer-{:016x}", fastrand::u64(..))),
            ..self.restarted("run-of-a-rival")
        }
    }

    /// Who it is, with more fields.
    pub(super) fn body(&self, more: &Value) -> Value {
        let mut body = json!({"instance": self.instance, "peer": self.peer, "run": self.run});
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.retain(|_, value| !value.is_null());
            body.extend(more.clone());
        }
        body
    }

    /// A fetch with these fields, whatever is answered.
    pub(super) async fn ask(&self, more: &Value) -> Checked<Answer> {
        let mut body = self.body(&json!({"cursor": self.cursor}));
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.retain(|_, value| !value.is_null());
            body.extend(more.clone());
        }
        let wait = more.get("wait").and_then(Value::as_f64).unwrap_or(0.0);
        let wait = Duration::try_from_secs_f64(wait.clamp(0.0, 600.0)).unwrap_or_default();
        self.lab.call(Method::POST, "fetch", &body, wait).await
    }

    /// A fetch with these fields, which must succeed; its cursor is kept.
    pub(super) async fn fetch_with(&mut self, more: &Value) -> Checked<Fetched> {
        let fetched = self.lose_with(more).await?;
        self.cursor = Some(fetched.cursor);
        Ok(fetched)
    }

    /// As [`Player::fetch_with`], but the answer never arrives.
    pub(super) async fn lose_with(&self, more: &Value) -> Checked<Fetched> {
        let answer = self.ask(more).await?.success("a fetch")?;
        self.read(&answer)
    }

    /// Fetches at most so many, with outcomes.
    pub(super) async fn fetch(&mut self, max: u32, outcomes: &[(i64, &str)]) -> Checked<Fetched> {
        let more = json!({"max": max, "commit": items(outcomes)});
        self.fetch_with(&more).await
    }

    /// Fetches, but the answer never arrives.
    pub(super) async fn lose(&self, max: u32) -> Checked<Fetched> {
        self.lose_with(&json!({"max": max})).await
    }

    /// Fetches until what is due within seconds has come.
    pub(super) async fn fetch_soon(&mut self) -> Checked<Fetched> {
        self.lab.may_wait(SOON)?;
        self.fetch_within(SOON).await
    }

    /// Fetches until something comes, or the time is over.
    pub(super) async fn fetch_within(&mut self, wait: Duration) -> Checked<Fetched> {
        let began = tokio::time::Instant::now();
        loop {
            let left = wait.saturating_sub(began.elapsed()).as_secs_f64();
            let more = json!({"wait": left.min(HELD_SECONDS_MAX)});
            let fetched = self.fetch_with(&more).await?;
            if !fetched.deliveries.is_empty() || left <= 0.0 {
                return Ok(fetched);
            }
        }
    }

    /// Sends outcomes, whatever is answered.
    pub(super) async fn try_commit(&self, outcomes: &[(i64, &str)]) -> Checked<Answer> {
        let body = self.body(&json!({"cursor": self.cursor, "commit": items(outcomes)}));
        self.lab.post("commit", &body).await
    }

    /// Sends outcomes, which must succeed; returns how far the queue is settled.
    pub(super) async fn commit(&self, outcomes: &[(i64, &str)]) -> Checked<i64> {
        let answer = self.try_commit(outcomes).await?.success("a commit")?;
        number(&answer, "committed")
    }

    /// Claims a work item of the check.
    pub(super) async fn claim(&self, item: u64) -> Checked {
        let claim = json!({"subject": self.lab.subject(item), "role": "driver"});
        let body = self.body(&claim);
        self.lab.note_claim(body.clone());
        let answer = self.lab.call(Method::PUT, "claims", &body, Duration::ZERO);
        answer.await?.success("a claim").map(drop)
    }

    fn read(&self, answer: &Value) -> Checked<Fetched> {
        let deliveries = answer.get("deliveries").and_then(Value::as_array);
        let malformed = || Stop::Broken("the answer of a fetch has no deliveries".to_owned());
        let deliveries = deliveries.ok_or_else(malformed)?;
        let handed: Checked<Vec<Handed>> =
            deliveries.iter().map(|text| self.handed(text)).collect();
        let handed = handed?;
        for delivery in &handed {
            self.lab.note_delivery(self, delivery.seq);
        }
        Ok(Fetched {
            deliveries: handed,
            cursor: number(answer, "cursor")?,
            committed: number(answer, "committed")?,
            expires_in: decimal(answer, "/lease/expiresIn")?,
            poll_after: decimal(answer, "/pollAfter")?,
        })
    }

    fn handed(&self, text: &Value) -> Checked<Handed> {
        let read = serde_json::from_str::<Delivery>(&text.to_string());
        let delivery =
            read.map_err(|error| Stop::Broken(format!("a delivery is malformed: {error}")))?;
        require(
            delivery.attempt == delivery.event.attempt,
            "the attempt of a delivery differs from that of its event",
        )?;
        Ok(Handed {
            seq: delivery.seq.0,
            attempt: delivery.attempt,
            event: self.lab.number_of(&delivery.event.delivery_id),
            id: delivery.event.id.0,
            redrive_of: delivery.redrive_of.map(|seq| seq.0),
        })
    }
}

/// A commit list.
pub(super) fn items(outcomes: &[(i64, &str)]) -> Value {
    let items = outcomes.iter();
    items
        .map(|(seq, outcome)| json!({"seq": seq, "outcome": outcome}))
        .collect()
}

/// A whole number of an answer.
pub(super) fn number(answer: &Value, name: &str) -> Checked<i64> {
    let found = answer.get(name).and_then(Value::as_i64);
    found.ok_or_else(|| Stop::Broken(format!("the answer has no number {name}")))
}

fn decimal(answer: &Value, pointer: &str) -> Checked<f64> {
    let found = answer.pointer(pointer).and_then(Value::as_f64);
    found.ok_or_else(|| Stop::Broken(format!("the answer has no number {pointer}")))
}
