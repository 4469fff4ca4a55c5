//! The end of a client: nothing is left in its hands.
//!
//! First the open fetch is ended by a newer one, so that no answer is lost on its way. Then
//! handlers may finish. Then everything without an outcome is released, and all outcomes are
//! committed: once, without insisting, because a gateway that is not there will find out.

use std::time::Duration;

use tokio::time::Instant;

use super::Handler;
use super::link::Phase;
use super::session::{ErrandEnd, Session, later};
use super::status::{End, Holder};

/// Why a client stops.
#[derive(Debug, Clone)]
pub(super) enum StopReason {
    /// Somebody asked for it, or nobody holds it any more.
    Asked,
    /// A newer process took over.
    Superseded(Holder),
}

/// How far a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The open requests end; the newer fetch that ends a held one is still to be sent.
    Closing { is_to_supersede: bool },
    /// Handlers finish.
    Finishing,
    /// The last outcomes go out.
    Reporting,
    /// Over.
    Done,
}

/// A stop under way.
#[derive(Debug)]
pub(super) struct Stop {
    reason: StopReason,
    pub(super) stage: Stage,
    /// The gateway is waited for no longer than this.
    close_by: Instant,
    /// Handlers are waited for no longer than this.
    finish_by: Instant,
    /// The last outcomes are waited for no longer than this.
    report_by: Instant,
    has_failed: bool,
}

impl Stop {
    /// When it goes on although nothing happens.
    pub(super) fn next_moment(&self) -> Instant {
        match self.stage {
            Stage::Closing { .. } => self.close_by,
            Stage::Finishing => self.finish_by,
            Stage::Reporting | Stage::Done => self.report_by,
        }
    }

    const fn is_asked(&self) -> bool {
        matches!(self.reason, StopReason::Asked)
    }

    pub(super) fn end(&self, unconfirmed: usize) -> End {
        match &self.reason {
            StopReason::Asked => End::Stopped { unconfirmed },
            StopReason::Superseded(by) => End::Superseded { by: by.clone() },
        }
    }
}

impl<H: Handler> Session<H> {
    /// Begins to stop; a client that stops already goes on with that.
    pub(super) fn begin_stop(&mut self, reason: StopReason, now: Instant) {
        if let Some(stop) = &mut self.stop {
            stop.reason = reason;
            return;
        }
        let is_to_supersede = match reason {
            StopReason::Asked => !self.fetch.is_idle(),
            StopReason::Superseded(_) => {
                // A superseded run is handed nothing.
                self.fetch.clear();
                self.desk.keep_all();
                false
            }
        };
        self.stop = Some(Stop {
            reason,
            stage: Stage::Closing { is_to_supersede },
            close_by: later(now, self.settings.stop_patience),
            finish_by: later(now, self.settings.stop_grace),
            report_by: now,
            has_failed: false,
        });
    }

    pub(super) fn advance_stop(&mut self, now: Instant) {
        let Some(stop) = &self.stop else {
            return;
        };
        match stop.stage {
            Stage::Closing { is_to_supersede } => self.close(is_to_supersede, now),
            Stage::Finishing => self.finish(now),
            Stage::Reporting => self.report(now),
            Stage::Done => {}
        }
    }

    fn close(&mut self, is_to_supersede: bool, now: Instant) {
        let is_late = (self.stop.as_ref()).is_some_and(|stop| stop.close_by <= now);
        let is_online = self.link.phase(now) == Phase::Online;
        if is_late || !is_online {
            self.fetch.clear();
            self.errand.clear();
            self.desk.keep_all();
        } else if is_to_supersede && self.errand.is_idle() && !self.fetch.is_idle() {
            // It may bring one delivery, which is released with the others.
            let work = self.fetching(1, Duration::ZERO, now);
            self.errand
                .begin(async move { ErrandEnd::Fetched(work.await) });
            self.enter(Stage::Closing {
                is_to_supersede: false,
            });
        }
        if self.fetch.is_idle() && self.errand.is_idle() {
            self.enter(Stage::Finishing);
            self.finish(now);
        }
    }

    fn finish(&mut self, now: Instant) {
        let is_late = (self.stop.as_ref()).is_some_and(|stop| stop.finish_by <= now);
        if !self.working.is_empty() && !is_late {
            return;
        }
        self.working.clear();
        self.desk.release_waiting();
        self.desk.release_running();
        let report_by = later(now, self.settings.stop_patience);
        if let Some(stop) = &mut self.stop {
            stop.report_by = report_by;
        }
        self.enter(Stage::Reporting);
        self.report(now);
    }

    /// Sends the last outcomes, and the registrations that wait; one fault ends it.
    fn report(&mut self, now: Instant) {
        let is_over =
            (self.stop.as_ref()).is_some_and(|stop| stop.has_failed || stop.report_by <= now);
        if is_over {
            self.errand.clear();
            return self.enter(Stage::Done);
        }
        if !self.errand.is_idle() {
            return;
        }
        // A superseded run has nothing to publish any more.
        let may_publish = (self.stop.as_ref()).is_some_and(Stop::is_asked)
            && self.link.phase(now) == Phase::Online;
        if may_publish && self.begin_registration(now) {
            return;
        }
        if self.desk.has_unsent() {
            self.begin_commit();
        } else {
            self.enter(Stage::Done);
        }
    }

    fn enter(&mut self, stage: Stage) {
        if let Some(stop) = &mut self.stop {
            stop.stage = stage;
        }
    }

    /// True when only the stop itself sends anything.
    pub(super) fn is_final(&self) -> bool {
        (self.stop.as_ref()).is_some_and(|stop| match stop.stage {
            Stage::Closing { .. } | Stage::Reporting | Stage::Done => true,
            Stage::Finishing => false,
        })
    }

    /// What fails during the last report is not tried again.
    pub(super) fn give_up_if_reporting(&mut self) {
        if let Some(stop) = &mut self.stop {
            stop.has_failed |= stop.stage == Stage::Reporting;
        }
    }
}
