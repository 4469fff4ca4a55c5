//! Where an event stands now, in a sentence for each place: the answer to *where is my event?*

use super::story::{Delivery, Story, WaitsFor, said};
use crate::cli::shown::{Times, count};

/// Where an event stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// One for each delivery that nothing replaced; or one for the event.
    pub(super) sentences: Vec<String>,
    /// True when it does not go on by itself.
    pub(super) needs_a_person: bool,
}

/// Where an event stands now.
pub(super) fn standing(story: &Story, times: Times) -> Standing {
    let latest = story
        .deliveries
        .iter()
        .filter(|delivery| story.replacement_of(delivery.seq).is_none());
    let (mut sentences, mut needs_a_person) = (Vec::new(), false);
    match story.event.state.as_str() {
        "held" => {
            sentences.push(held(story));
            needs_a_person = true;
        }
        "grace" => sentences.push(in_grace(story)),
        "expired" => {
            let what = "expired: nobody settled it in time, and its payload is gone";
            sentences.push(what.to_owned());
            needs_a_person = true;
        }
        _ => {
            for delivery in latest {
                let (sentence, is_stuck) = stands(delivery, times);
                sentences.push(sentence);
                needs_a_person |= is_stuck;
            }
        }
    }
    Standing {
        sentences,
        needs_a_person,
    }
}

fn held(story: &Story) -> String {
    let actor = match &story.event.actor {
        Some(actor) => format!(", and no instance works for {actor}"),
        None => String::new(),
    };
    format!(
        "held: nobody claims {}{actor}; a claim or a registration brings it onto a queue",
        story.event.subject
    )
}

fn in_grace(story: &Story) -> String {
    let awaited: Vec<String> = story
        .event
        .awaits
        .iter()
        .map(|awaited| match awaited.by.as_str() {
            "commit" => format!("the pull request of commit {}", awaited.key),
            "room" => format!("a room {}", awaited.key),
            by => format!("a {by} of {}", awaited.key),
        })
        .collect();
    format!(
        "waits for a short time for what names its work item: {}; then it is dropped as unbound",
        awaited.join(", or ")
    )
}

/// Where a delivery stands, and whether it is stuck there.
fn stands(delivery: &Delivery, times: Times) -> (String, bool) {
    let Delivery {
        seq,
        instance,
        outcome,
        ..
    } = delivery;
    let ended = times.past(delivery.ended_at.as_deref());
    let outcome = outcome.as_deref().unwrap_or("an outcome");
    match delivery.state.as_str() {
        "settled" => (
            format!("settled by {instance} as {outcome}, {ended}"),
            false,
        ),
        "dead" => {
            let strikes = count(delivery.strikes, "strike", "strikes");
            let said = said(delivery.detail.as_deref());
            let mend = format!("mend the cause, then `redrive {seq}`");
            (
                format!("dead on {instance}'s queue after {strikes}, {ended}{said}; {mend}"),
                true,
            )
        }
        "expired" => (
            format!("expired on {instance}'s queue, {ended}: it was not settled in time"),
            true,
        ),
        _ => match &delivery.waits_for {
            Some(waits) => waits.told(delivery, times),
            None => (format!("on {instance}'s queue"), false),
        },
    }
}

impl WaitsFor {
    fn told(&self, delivery: &Delivery, times: Times) -> (String, bool) {
        let instance = &delivery.instance;
        let last = match &self.last_fetch_at {
            Some(moment) => format!("it fetched last {}", times.past(Some(moment))),
            None => "it never fetched".to_owned(),
        };
        let absent = format!("no process of {instance} is there ({last})");
        let waits = match self.what.as_str() {
            "outcome" => return self.in_hand(delivery, times, &absent),
            "fetch" => match self.ahead {
                0 => format!("goes out with the next fetch of {instance}"),
                ahead => format!(
                    "goes out to {instance} behind {}",
                    if ahead > 1_000 {
                        "more than 1,000 older events".to_owned()
                    } else {
                        count(ahead, "older event", "older events")
                    }
                ),
            },
            "retry" => format!(
                "waits for its next try by {instance}, {}",
                times.future(self.until.as_deref())
            ),
            "earlier" => format!(
                "waits for {}, which goes first in its subject{}",
                self.obstacle(),
                self.due(times)
            ),
            "suspect" => format!(
                "waits for {}, which goes out alone because a process vanished with it",
                self.obstacle()
            ),
            "alone" => format!(
                "goes out alone, once {} is no longer in hand",
                self.obstacle()
            ),
            other => format!("waits on {instance}'s queue: {other}"),
        };
        if self.live {
            (waits, false)
        } else {
            (format!("{waits}; but {absent}"), true)
        }
    }

    fn in_hand(&self, delivery: &Delivery, times: Times, absent: &str) -> (String, bool) {
        let instance = &delivery.instance;
        let hand_out = delivery.hand_outs.last();
        let run = hand_out.map_or("?", |hand_out| hand_out.run.as_str());
        let since = times.past(hand_out.map(|hand_out| hand_out.handed_at.as_str()));
        let waits =
            format!("in the hands of {instance}, run {run}, since {since}, without an outcome");
        if self.live {
            (waits, false)
        } else {
            let back = "it is taken back when the next one fetches";
            (format!("{waits}; but {absent}: {back}"), true)
        }
    }

    fn obstacle(&self) -> String {
        match (self.behind, self.behind_event) {
            (Some(seq), Some(event)) => format!("delivery {seq} (event {event})"),
            _ => "another one".to_owned(),
        }
    }

    fn due(&self, times: Times) -> String {
        match &self.until {
            Some(until) => format!(" and is due {}", times.future(Some(until))),
            None => String::new(),
        }
    }
}
