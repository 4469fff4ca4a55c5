//! What the socket did not bring: read from the conversations themselves.
//!
//! Invariant: never ahead of live appends, one conversation and one message at a time; a mark
//! moves only past messages that are in the store or that do not belong there. A message that was
//! posted while the socket is up gets some time to come over it first.

use std::rc::Rc;

use super::api::{CallError, SlackApi};
use super::backoff::Backoff;
use super::core::Core;
use super::pages::{Message, Reader};
use super::place;
use super::reason::Reason;
use crate::actors::messages::Submit;
use crate::domain::{Arrival, CallerToken, Millis, Timestamp};
use crate::providers::Verified;
use crate::providers::slack::{self, Found, SlackVerdict};
use crate::store::{
    Append, Appended, FindUnseen, ListSlackReadings, NoteSlackMark, SlackReading, Write,
};
use crate::telemetry::GatewayEvent;

/// What the record of a failing round says was being done.
const DOING: &str = "catch up on Slack conversations";

/// Codes that concern one conversation; others concern all of them.
const OF_ONE_CONVERSATION: [&str; 6] = [
    "channel_not_found",
    "thread_not_found",
    "not_in_channel",
    "is_archived",
    "invalid_ts_latest",
    "invalid_ts_oldest",
];

/// Why a round stops early.
enum Trouble {
    /// The store did not take something; nothing is lost, the marks stay.
    Store,
    /// Slack did not answer what was asked.
    Slack(CallError),
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Self {
        Self::Slack(error)
    }
}

/// A message that may be missing in the store.
struct Candidate {
    ts: String,
    arrival: Box<Arrival>,
}

pub(super) struct CatchUp {
    core: Rc<Core>,
    api: Rc<SlackApi>,
    reader: Reader,
    team: Option<String>,
    /// The last trouble recorded; the same one is not recorded twice in a row.
    told: Option<Reason>,
}

impl CatchUp {
    pub(super) fn new(core: Rc<Core>, api: Rc<SlackApi>) -> Self {
        Self {
            reader: Reader {
                core: Rc::clone(&core),
                api: Rc::clone(&api),
            },
            core,
            api,
            team: None,
            told: None,
        }
    }

    /// A round after every `hello`, and from time to time; after a failure sooner.
    pub(super) async fn run(mut self) {
        let timing = self.core.timing();
        let mut backoff = Backoff::new(timing.backoff_min, timing.slow_retry);
        let mut wait = self.core.settings.catch_up_every;
        loop {
            let wait_over = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                () = self.core.catch_up_due.notified() => {}
                () = wait_over => {}
            }
            wait = if self.round().await {
                backoff.reset();
                self.core.settings.catch_up_every
            } else {
                Some(backoff.after_failure())
            };
        }
    }

    /// Reads everything once; false when it is worth trying again soon.
    async fn round(&mut self) -> bool {
        let mut skipped = None;
        let result = self.read_all(&mut skipped).await;
        self.core.round_over(result.is_ok());
        let (trouble, is_worth_it) = match result {
            Ok(()) => (skipped, false),
            Err(Trouble::Store) => (Some(Reason::new("the store is not available")), true),
            Err(Trouble::Slack(CallError::RateLimited(_))) => {
                (Some(Reason::new("ratelimited")), true)
            }
            Err(Trouble::Slack(CallError::Unreachable(reason))) => (Some(reason), true),
            Err(Trouble::Slack(CallError::Refused(reason))) => (Some(reason), false),
        };
        self.tell(trouble);
        !is_worth_it
    }

    fn tell(&mut self, trouble: Option<Reason>) {
        if let Some(reason) = trouble.as_ref().filter(|_| trouble != self.told) {
            self.core.record(GatewayEvent::Fault {
                doing: DOING,
                error: reason.to_string(),
            });
        }
        self.told = trouble;
    }

    async fn read_all(&mut self, skipped: &mut Option<Reason>) -> Result<(), Trouble> {
        let team = self.team().await?;
        let declared_rooms = self.core.declared().rooms.keys().cloned().collect();
        let readings = self
            .ask(
                &self.core.store.readings,
                ListSlackReadings { declared_rooms },
            )
            .await?;
        for reading in readings {
            match self.read(&team, &reading).await {
                Ok(()) => {}
                Err(Trouble::Slack(CallError::Refused(code)))
                    if OF_ONE_CONVERSATION.contains(&code.as_str()) =>
                {
                    let channel = &reading.conversation.channel;
                    *skipped = Some(Reason::new(&format!("{code} of {channel}")));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    async fn team(&mut self) -> Result<String, Trouble> {
        if let Some(team) = &self.team {
            return Ok(team.clone());
        }
        let team = self.api.team_of(&self.core.bot_token).await?;
        self.team = Some(team.clone());
        Ok(team)
    }

    /// Reads one conversation to its end, oldest message first.
    async fn read(&self, team: &str, reading: &SlackReading) -> Result<(), Trouble> {
        let mut mark = reading.after.clone();
        loop {
            let batch = self.reader.oldest(reading, &mark).await?;
            let before = mark.clone();
            let is_settled = self.take(team, reading, batch.messages, &mut mark).await;
            if mark != before || reading.is_first && before == reading.after {
                let note = NoteSlackMark {
                    conversation: reading.conversation.clone(),
                    last_ts: mark.clone(),
                };
                self.ask(&self.core.store.mark, note).await?;
            }
            if !is_settled? || !batch.has_more || mark == before {
                return Ok(());
            }
        }
    }

    /// Appends what is missing of some messages and moves the mark past them; false when the rest
    /// is so new that it may still come by itself.
    async fn take(
        &self,
        team: &str,
        reading: &SlackReading,
        messages: Vec<Message>,
        mark: &mut String,
    ) -> Result<bool, Trouble> {
        let (settled, is_all) = self.settled(messages);
        let Some(last) = settled.last().map(|message| message.ts.clone()) else {
            return Ok(is_all);
        };
        let candidates = self.read_as_events(team, reading, &settled);
        for missing in self.missing(candidates).await? {
            self.append(missing.arrival).await?;
            *mark = missing.ts;
        }
        *mark = last;
        Ok(is_all)
    }

    /// The messages that had their time to come over the socket; false when some had not.
    fn settled(&self, mut messages: Vec<Message>) -> (Vec<Message>, bool) {
        let all = messages.len();
        if let Some(up_since) = self.core.up_since() {
            let settled_before = self.core.now().plus(self.settle_ms().saturating_neg());
            messages.retain(|message| {
                let at = Timestamp::from_slack(&message.ts).unwrap_or(up_since);
                at < up_since || at <= settled_before
            });
        }
        let is_all = messages.len() == all;
        (messages, is_all)
    }

    fn settle_ms(&self) -> Millis {
        Millis::try_from(self.core.timing().settle.as_millis()).unwrap_or(Millis::MAX)
    }

    fn read_as_events(
        &self,
        team: &str,
        reading: &SlackReading,
        messages: &[Message],
    ) -> Vec<Candidate> {
        let app = self.core.app();
        let declared = self.core.declared();
        let now = self.core.now();
        let as_event = |message: &Message| {
            let found = Found {
                team,
                app: app.as_deref(),
                channel: &reading.conversation.channel,
                message: Verified::by_connection(message.text.as_str()),
            };
            match slack::caught_up(found, &declared, now) {
                Ok(SlackVerdict::Append(arrival)) => Some(Candidate {
                    ts: message.ts.clone(),
                    arrival,
                }),
                // A heartbeat asks whether the socket brings it: found here, it is no answer.
                Ok(
                    SlackVerdict::Heartbeat { .. }
                    | SlackVerdict::Drop(_)
                    | SlackVerdict::Options
                    | SlackVerdict::Challenge(_)
                    | SlackVerdict::SslCheck,
                )
                | Err(_) => None,
            }
        };
        messages.iter().filter_map(as_event).collect()
    }

    /// Those that the store does not have.
    async fn missing(&self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Trouble> {
        let keys = |candidate: &Candidate| {
            let keys = candidate.arrival.dedup_keys.iter();
            keys.map(|key| key.text.clone()).collect()
        };
        let events = candidates.iter().map(keys).collect();
        let unseen = self
            .ask(&self.core.store.unseen, FindUnseen { events })
            .await?;
        let pairs = candidates.into_iter().zip(unseen);
        Ok(pairs
            .filter_map(|(candidate, is_unseen)| is_unseen.then_some(candidate))
            .collect())
    }

    async fn append(&self, arrival: Box<Arrival>) -> Result<(), Trouble> {
        // Live first.
        self.core.gate.idle().await;
        let message = place::message_of(&arrival);
        let append = Append {
            arrival,
            caller: CallerToken::always(),
        };
        let appended = self.ask(&self.core.store.append, append).await?;
        if let (Appended::Stored { .. }, Some(message)) = (appended, message)
            && self.was_up_for(&message.ts)
        {
            self.core.only_caught_up(&message);
        }
        Ok(())
    }

    /// True when the socket was up from well before a message was posted until now.
    fn was_up_for(&self, ts: &str) -> bool {
        let posted = Timestamp::from_slack(ts);
        let is_after = |up: Timestamp| posted.is_some_and(|at| at.since(up) >= self.settle_ms());
        self.core.up_since().is_some_and(is_after)
    }

    async fn ask<W: Write>(
        &self,
        door: &actix::Recipient<Submit<W>>,
        write: W,
    ) -> Result<W::Reply, Trouble> {
        match door.send(Submit(write)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the catch-up cannot use the store");
                Err(Trouble::Store)
            }
            Err(error) => {
                tracing::warn!(%error, "the store is gone");
                Err(Trouble::Store)
            }
        }
    }
}
