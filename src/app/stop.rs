//! Asking a gateway to stop: from within, or by a signal.

use std::time::Duration;

use actix::Addr;
use actix_web::dev::ServerHandle;
use actix_web::web::Data;
use futures_util::future::join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::StartError;
use crate::actors::{
    Close, ConfigWatchActor, Drain, IngressSupervisorActor, Liveness, LookNow, Queues,
    StopIngresses, Store,
};
use crate::http::{HttpState, Phase};
use crate::telemetry::{EventLog, GatewayEvent};

/// How long held polls may take to be answered.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How long the ingresses may take to stop: acks of what is in flight, and closing frames.
const INGRESSES_MAX: Duration = Duration::from_secs(3);
/// How long all of it may take: the process is gone within ten seconds, whatever hangs. What was
/// acknowledged is on disk before, so nothing is lost by not waiting longer.
const STOP_MAX: Duration = Duration::from_secs(9);
/// How long the event log may take to be written out.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything was finished.
    InOrder,
    /// It was asked twice, and what was left was not waited for.
    Cut,
    /// An actor that everything depends on is gone.
    Died(&'static str),
}

/// Asks a gateway to stop; may be sent to other threads.
#[derive(Debug, Clone)]
pub struct StopHandle(Sender<&'static str>);

impl StopHandle {
    /// Asks it to stop. Asking a gateway that stops already makes it hurry.
    pub fn stop(&self, reason: &'static str) {
        if self.0.try_send(reason).is_err() {
            tracing::debug!(reason, "the gateway was asked to stop often enough");
        }
    }
}

/// What a running gateway listens for.
#[derive(Debug)]
pub(super) struct Watch {
    sender: Sender<&'static str>,
    receiver: Receiver<&'static str>,
    liveness: Liveness,
}

/// What a running gateway heard.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    /// Somebody asks it to stop, and says why.
    Asked(&'static str),
    /// An actor is gone.
    Gone(&'static str),
}

impl Watch {
    pub(super) fn new(liveness: Liveness) -> Self {
        let (sender, receiver) = channel(2);
        Self {
            sender,
            receiver,
            liveness,
        }
    }

    pub(super) fn handle(&self) -> StopHandle {
        StopHandle(self.sender.clone())
    }

    pub(super) async fn hear(&mut self) -> Heard {
        tokio::select! {
            // Never ends by itself: a sender lives in `self`.
            asked = self.receiver.recv() => Heard::Asked(asked.unwrap_or("nobody")),
            gone = self.liveness.first_gone() => Heard::Gone(gone),
        }
    }
}

/// What is left to be done when the gateway stops.
pub(super) struct Ending {
    pub(super) http: Data<HttpState>,
    pub(super) supervisor: Addr<IngressSupervisorActor>,
    pub(super) queues: Queues,
    pub(super) handles: Vec<ServerHandle>,
    pub(super) store: Store,
}

impl Ending {
    /// Stops in order; false when that takes too long and what is left is not waited for.
    pub(super) async fn run_bounded(&self, reason: &'static str) -> bool {
        let is_in_time = timeout(STOP_MAX, self.run(reason)).await.is_ok();
        if !is_in_time {
            tracing::error!("the stop takes too long; what is left of it is not waited for");
        }
        is_in_time
    }

    /// Not ready; ingresses stopped and held polls answered; listeners closed, appends finished,
    /// checkpoint: in this order.
    async fn run(&self, reason: &'static str) {
        tracing::info!(reason, "stopping");
        self.http.enter(Phase::Draining);
        tokio::join!(self.stop_ingresses(), self.drain());
        join_all(self.handles.iter().map(|handle| handle.stop(true))).await;
        self.close_store().await;
    }

    async fn stop_ingresses(&self) {
        let stopped = timeout(INGRESSES_MAX, self.supervisor.send(StopIngresses));
        if stopped.await.is_err() {
            tracing::warn!("an ingress takes long to stop, and is not waited for");
        }
    }

    async fn drain(&self) {
        let drained = timeout(DRAIN_MAX, self.queues.send(Drain));
        if drained.await.is_err() {
            tracing::warn!("held polls are not all answered");
        }
    }

    async fn close_store(&self) {
        let problem = match self.store.send(Close).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(problem, "the store is closed without a checkpoint");
    }
}

/// Says that an actor is gone, as far as that is still possible.
pub(super) fn died(log: &EventLog, actor: &'static str) -> Stopped {
    tracing::error!(actor, "an actor that everything depends on is gone");
    log.record(GatewayEvent::Fault {
        doing: "keep the process going",
        error: format!("the actor {actor} is gone"),
    });
    log.flush();
    Stopped::Died(actor)
}

pub(super) async fn flush(log: EventLog) {
    let flushed = actix_rt::task::spawn_blocking(move || log.flush());
    if !matches!(timeout(FLUSH_MAX, flushed).await, Ok(Ok(()))) {
        tracing::error!("the event log is not flushed");
    }
}

/// Lets SIGINT and SIGTERM ask, from now on, as long as the calling thread's runtime runs.
pub(super) fn heed_signals(handle: &StopHandle) -> Result<(), StartError> {
    for (kind, name) in [
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::terminate(), "SIGTERM"),
    ] {
        let mut signals = signal(kind).map_err(StartError::Thread)?;
        let handle = handle.clone();
        actix_rt::spawn(async move {
            while signals.recv().await.is_some() {
                handle.stop(name);
            }
        });
    }
    Ok(())
}

/// Lets SIGHUP ask for a look at the configuration, as long as the calling thread's runtime runs.
pub(super) fn look_on_signal(watch: &Addr<ConfigWatchActor>) -> Result<(), StartError> {
    let mut signals = signal(SignalKind::hangup()).map_err(StartError::Thread)?;
    let watch = watch.clone();
    actix_rt::spawn(async move {
        while signals.recv().await.is_some() {
            if let Err(error) = watch.send(LookNow).await {
                tracing::debug!(%error, "nobody looks at the configuration any more");
            }
        }
    });
    Ok(())
}
