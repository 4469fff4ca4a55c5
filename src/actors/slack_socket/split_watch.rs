//! Whether somebody else takes messages of this app.
//!
//! Slack gives each message to one of an app's connections. Two signs point to another listener:
//! Slack counts more connections than we have (a hint: it counts dead ones for hours), and
//! messages that only a catch-up brought although the socket was up.

use std::collections::BTreeMap;

use crate::domain::{Millis, Timestamp};
use crate::telemetry::GatewayEvent;

/// Missed messages count for this long.
const WINDOW_MS: Millis = 3_600_000;
/// Rounds without a sign after which a suspicion ends.
const CLEAN_ROUNDS: u64 = 6;
/// Missed messages remembered; more would not make it more certain.
const MISSED_MAX: usize = 1_000;

/// What a suspicion rests on; the later, the stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Connections,
    MissedMessages,
}

impl Sign {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::MissedMessages => "missed-messages",
        }
    }
}

/// The evidence so far.
#[derive(Debug)]
pub(super) struct SplitWatch {
    /// Missed messages that make a suspicion; 0: never.
    beats: usize,
    /// Whether there are rounds that could clear a suspicion.
    has_rounds: bool,
    /// Message key → when the catch-up brought it.
    missed: BTreeMap<String, Timestamp>,
    /// Of these, the ones of the present round.
    missed_in_round: usize,
    suspected: Option<Sign>,
    clean_rounds: u64,
}

impl SplitWatch {
    pub(super) const fn new(beats: usize, has_rounds: bool) -> Self {
        Self {
            beats,
            has_rounds,
            missed: BTreeMap::new(),
            missed_in_round: 0,
            suspected: None,
            clean_rounds: 0,
        }
    }

    /// Slack counts so many connections, and `own` of them are known to be ours.
    pub(super) fn connected(&mut self, counted: Option<u64>, own: u64) -> Option<GatewayEvent> {
        match counted {
            Some(counted) if counted > own => self.suspect(Sign::Connections, counted),
            Some(_) if !self.has_rounds => self.clear(),
            Some(_) | None => None,
        }
    }

    /// Only a catch-up brought this message, although the socket was up.
    pub(super) fn only_caught_up(&mut self, message: String, now: Timestamp) {
        self.missed_in_round = self.missed_in_round.saturating_add(1);
        if self.missed.len() < MISSED_MAX {
            self.missed.insert(message, now);
        }
    }

    /// The socket brought this message: if a catch-up was faster, it was no sign.
    pub(super) fn came_live(&mut self, message: &str) {
        if self.missed.remove(message).is_some() {
            self.missed_in_round = self.missed_in_round.saturating_sub(1);
        }
    }

    /// A round of the catch-up is over; `complete` when it read all that it wanted to.
    pub(super) fn round_over(&mut self, complete: bool, now: Timestamp) -> Option<GatewayEvent> {
        let missed_in_round = std::mem::take(&mut self.missed_in_round);
        self.missed.retain(|_, found| now.since(*found) < WINDOW_MS);
        if missed_in_round > 0 {
            self.clean_rounds = 0;
        } else if complete {
            self.clean_rounds = self.clean_rounds.saturating_add(1);
        }
        if self.beats > 0 && missed_in_round > 0 && self.missed.len() >= self.beats {
            let missed = u64::try_from(self.missed.len()).unwrap_or(u64::MAX);
            return self.suspect(Sign::MissedMessages, missed);
        }
        if self.clean_rounds >= CLEAN_ROUNDS {
            return self.clear();
        }
        None
    }

    /// Said once for each sign, and again only after it was cleared.
    fn suspect(&mut self, sign: Sign, count: u64) -> Option<GatewayEvent> {
        self.clean_rounds = 0;
        if self.suspected >= Some(sign) {
            return None;
        }
        self.suspected = Some(sign);
        Some(GatewayEvent::SplitSuspected {
            reason: sign.as_str(),
            count,
        })
    }

    fn clear(&mut self) -> Option<GatewayEvent> {
        self.suspected.take()?;
        self.missed.clear();
        Some(GatewayEvent::SplitCleared {
            rounds: self.clean_rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    fn said(event: Option<GatewayEvent>) -> String {
        match event {
            Some(GatewayEvent::SplitSuspected { reason, count }) => format!("{reason} {count}"),
            Some(GatewayEvent::SplitCleared { rounds }) => format!("cleared {rounds}"),
            Some(other) => panic!("{other:?}"),
            None => String::new(),
        }
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp(0).plus(minutes.saturating_mul(MINUTE))
    }

    #[test]
    fn more_connections_than_our_own_are_suspect_and_said_once() {
        let mut watch = SplitWatch::new(3, true);
        assert_eq!(said(watch.connected(Some(1), 1)), "");
        assert_eq!(said(watch.connected(None, 1)), "");
        assert_eq!(said(watch.connected(Some(2), 2)), "");
        assert_eq!(said(watch.connected(Some(2), 1)), "connections 2");
        assert_eq!(said(watch.connected(Some(3), 1)), "");
    }

    #[test]
    fn missed_messages_within_an_hour_are_suspect() {
        let mut watch = SplitWatch::new(3, true);
        for (number, minute) in [0, 15, 30].into_iter().enumerate() {
            watch.only_caught_up(format!("m{number}"), at(minute));
            let expected = if minute == 30 {
                "missed-messages 3"
            } else {
                ""
            };
            assert_eq!(said(watch.round_over(true, at(minute))), expected);
        }
    }

    #[test]
    fn missed_messages_of_more_than_an_hour_ago_do_not_count() {
        let mut watch = SplitWatch::new(3, true);
        for (number, minute) in [0, 30, 61, 92].into_iter().enumerate() {
            watch.only_caught_up(format!("m{number}"), at(minute));
            assert_eq!(said(watch.round_over(true, at(minute))), "");
        }
    }

    #[test]
    fn a_message_that_comes_live_after_all_was_not_missed() {
        let mut watch = SplitWatch::new(1, true);
        watch.only_caught_up("m".to_owned(), at(0));
        watch.came_live("m");
        watch.came_live("another");
        assert_eq!(said(watch.round_over(true, at(0))), "");
    }

    #[test]
    fn a_suspicion_ends_after_six_clean_rounds_and_can_come_back() {
        let mut watch = SplitWatch::new(1, true);
        watch.only_caught_up("m".to_owned(), at(0));
        assert_eq!(said(watch.round_over(true, at(0))), "missed-messages 1");
        for round in 1..=5 {
            assert_eq!(said(watch.round_over(true, at(round))), "");
        }
        assert_eq!(said(watch.round_over(false, at(6))), "", "not complete");
        assert_eq!(said(watch.round_over(true, at(7))), "cleared 6");
        assert_eq!(said(watch.round_over(true, at(8))), "");
        watch.only_caught_up("n".to_owned(), at(9));
        assert_eq!(said(watch.round_over(true, at(9))), "missed-messages 1");
    }

    #[test]
    fn a_round_with_a_missed_message_is_not_clean() {
        let mut watch = SplitWatch::new(2, true);
        assert_eq!(said(watch.connected(Some(2), 1)), "connections 2");
        for round in 1..=5 {
            assert_eq!(said(watch.round_over(true, at(round))), "");
        }
        watch.only_caught_up("m".to_owned(), at(6));
        assert_eq!(said(watch.round_over(true, at(6))), "");
        for round in 7..=11 {
            assert_eq!(said(watch.round_over(true, at(round))), "");
        }
        assert_eq!(said(watch.round_over(true, at(12))), "cleared 6");
    }

    #[test]
    fn missed_messages_are_said_even_when_connections_were_suspect_already() {
        let mut watch = SplitWatch::new(1, true);
        assert_eq!(said(watch.connected(Some(2), 1)), "connections 2");
        watch.only_caught_up("m".to_owned(), at(0));
        assert_eq!(said(watch.round_over(true, at(0))), "missed-messages 1");
        assert_eq!(
            said(watch.connected(Some(2), 1)),
            "",
            "weaker than what is known"
        );
    }

    #[test]
    fn without_rounds_the_next_true_count_clears() {
        let mut watch = SplitWatch::new(3, false);
        assert_eq!(said(watch.connected(Some(2), 1)), "connections 2");
        assert_eq!(said(watch.connected(Some(1), 1)), "cleared 0");
    }

    #[test]
    fn zero_beats_turn_the_watch_for_missed_messages_off() {
        let mut watch = SplitWatch::new(0, true);
        watch.only_caught_up("m".to_owned(), at(0));
        assert_eq!(said(watch.round_over(true, at(0))), "");
    }
}
