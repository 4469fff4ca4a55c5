//! What the gateway's answers mean for a session.

use std::time::Duration;

use tokio::time::Instant;

use super::Handler;
use super::api::Fault;
use super::registrations::{CallError, Sent};
use super::session::{ErrandEnd, FetchEnd, Session, later};
use super::status::{Event, Refusal};
use super::stop::StopReason;
use super::wire::{Fetched, Registration, Routed};

const RENEWALS_A_LEASE: u32 = 3;

impl<H: Handler> Session<H> {
    pub(super) fn take_errand(&mut self, end: ErrandEnd, now: Instant) {
        match end {
            ErrandEnd::Registered(sent, answer) => self.take_registered(&sent, answer, now),
            ErrandEnd::Committed(sent, Ok(committed)) => {
                self.desk.confirm(&sent);
                self.board.show_committed(committed.committed);
                self.renew_later(committed.lease.expires_in, now);
            }
            ErrandEnd::Committed(sent, Err(fault)) => {
                self.desk.keep(&sent);
                self.take_fault(fault, now);
            }
            // A renewal asked for nothing: the pause that it is told is not for fetching, and
            // would put the next fetch off for ever where renewals are frequent.
            ErrandEnd::Fetched(end) => {
                self.take_answer(end, now);
            }
        }
    }

    fn take_registered(&mut self, sent: &Sent, answer: Result<Routed, Fault>, now: Instant) {
        let is_actors = matches!(sent.registration, Registration::Actors(_));
        match answer {
            Ok(routed) => {
                self.registrations.asserted(sent, routed);
                if is_actors {
                    self.link.actors_accepted();
                }
            }
            Err(Fault::DuplicateActor(conflicts)) => {
                let error = CallError::DuplicateActor(conflicts.clone());
                self.registrations.rejected(sent, error, now);
                let told = self.link.actors_refused(conflicts);
                self.tell(told);
            }
            Err(Fault::Rejected { code, message }) if is_about_one_request(&code) => {
                let why = Refusal::Rejected {
                    code: code.clone(),
                    message: message.clone(),
                };
                let error = CallError::Rejected { code, message };
                self.registrations.rejected(sent, error, now);
                self.board.show_claims(self.registrations.claims());
                self.board.tell(&Event::Refused { why });
            }
            Err(fault) => self.take_fault(fault, now),
        }
    }

    pub(super) fn take_fetched(&mut self, end: FetchEnd, now: Instant) {
        if let Some(pause) = self.take_answer(end, now) {
            self.poll_at = later(now, pause);
        }
    }

    /// Takes in an answer; how long a fetch waits after it.
    fn take_answer(&mut self, end: FetchEnd, now: Instant) -> Option<Duration> {
        let fetched = match end.answer {
            Ok(fetched) => fetched,
            Err(fault) => {
                self.desk.keep(&end.sent);
                self.take_fault(fault, now);
                return None;
            }
        };
        self.desk.confirm(&end.sent);
        self.board.show_committed(fetched.committed);
        self.renew_later(fetched.lease.expires_in, now);
        let pause = self.pause(&fetched, end.began, now);
        if !fetched.deliveries.is_empty() {
            self.cursor = fetched.cursor;
            self.desk.accept(fetched.deliveries);
        }
        Some(pause)
    }

    /// How long to wait before the next fetch.
    fn pause(&self, fetched: &Fetched, began: Instant, now: Instant) -> Duration {
        let said = fetched.poll_after();
        if !fetched.deliveries.is_empty() {
            return said;
        }
        let interval = self.settings.poll_interval;
        let was_held = now.saturating_duration_since(began) >= interval;
        if self.settings.long_poll.is_zero() || !was_held {
            // Also when a wait was asked for and not granted: a gateway that says 0 is no reason
            // to spin.
            said.max(interval)
        } else {
            said
        }
    }

    fn renew_later(&mut self, expires_in: f64, now: Instant) {
        let granted = Duration::try_from_secs_f64(expires_in).unwrap_or(self.settings.lease);
        let lease = granted.min(self.settings.lease);
        self.renew_at = later(now, lease.checked_div(RENEWALS_A_LEASE).unwrap_or(lease));
    }

    pub(super) fn take_fault(&mut self, fault: Fault, now: Instant) {
        match fault {
            Fault::Unreachable { why, retry_after } => {
                let told = self.link.lost(why, retry_after, now);
                self.tell(told);
            }
            Fault::DuplicateInstance(holder) => {
                self.desk.drop_waiting();
                let told = self.link.refused(Refusal::DuplicateInstance(holder), now);
                self.tell(told);
            }
            Fault::Superseded(holder) => {
                let by = holder.clone();
                self.begin_stop(StopReason::Superseded(holder), now);
                return self.board.tell(&Event::Superseded { by });
            }
            Fault::CommitUndelivered(seqs) if self.desk.forget(&seqs) > 0 => {
                return self.board.tell(&Event::Forgotten { seqs });
            }
            Fault::CommitUndelivered(_) => {
                let why = "it refuses outcomes that were not sent".to_owned();
                let told = self.link.lost(why, None, now);
                self.tell(told);
            }
            Fault::DuplicateActor(conflicts) => {
                let told = self.link.refused(Refusal::DuplicateActor(conflicts), now);
                self.tell(told);
            }
            Fault::Rejected { code, message } => {
                let why = Refusal::Rejected { code, message };
                let told = self.link.refused(why, now);
                self.tell(told);
            }
        }
        self.give_up_if_reporting();
        self.disconnect();
    }

    fn tell(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            self.board.tell(&event);
        }
    }
}

/// True for a code that says no to one registration; others say no to the client.
fn is_about_one_request(code: &str) -> bool {
    matches!(code, "invalid-field" | "invalid-payload" | "body-too-large")
}
