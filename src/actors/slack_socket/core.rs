//! What the tasks of one actor share. All of them run on the actor's thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::gate::Gate;
use super::parts::{Recorder, SocketParts, SocketSettings, SocketStore, Timing};
use super::reason::Reason;
use super::split_watch::SplitWatch;
use crate::actors::messages::{IngressChanged, IngressState};
use crate::config::Secret;
use crate::domain::{Clock, Provider, Source, Timestamp};
use crate::providers::{Declared, Dropped};
use crate::store::SlackConversation;
use crate::telemetry::{GatewayEvent, Metrics};

/// Appends in flight at once.
const APPENDS_MAX: usize = 256;
/// Bytes of compressed payloads in flight at once.
const BYTES_IN_FLIGHT_MAX: usize = 64 * 1024 * 1024;
/// Conversations remembered as active until the next note.
const ACTIVE_MAX: usize = 1_000;

pub(super) struct Core {
    name: String,
    pub(super) settings: SocketSettings,
    pub(super) app_token: Secret,
    pub(super) bot_token: Secret,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: SocketStore,
    pub(super) gate: Rc<Gate>,
    /// Rung when a round of the catch-up is due.
    pub(super) catch_up_due: Notify,
    declared: RefCell<Arc<Declared>>,
    status: actix::Recipient<IngressChanged>,
    recorder: Recorder,
    pub(super) metrics: Metrics,
    split: RefCell<SplitWatch>,
    active: RefCell<BTreeSet<SlackConversation>>,
    up_since: Cell<Option<Timestamp>>,
    connections: Cell<Option<u64>>,
    app: RefCell<Option<String>>,
}

impl Core {
    pub(super) fn new(parts: SocketParts) -> Self {
        let beats = usize::try_from(parts.settings.split_check_beats).unwrap_or(usize::MAX);
        let split = SplitWatch::new(beats, parts.bot_token.is_set());
        Self {
            name: parts.name,
            settings: parts.settings,
            app_token: parts.app_token,
            bot_token: parts.bot_token,
            clock: parts.clock,
            store: parts.store,
            gate: Rc::new(Gate::new(APPENDS_MAX, BYTES_IN_FLIGHT_MAX)),
            catch_up_due: Notify::new(),
            declared: RefCell::new(parts.declared),
            status: parts.status,
            recorder: parts.recorder,
            metrics: parts.metrics,
            split: RefCell::new(split),
            active: RefCell::default(),
            up_since: Cell::new(None),
            connections: Cell::new(None),
            app: RefCell::default(),
        }
    }

    pub(super) const fn timing(&self) -> &Timing {
        &self.settings.timing
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn declared(&self) -> Arc<Declared> {
        Arc::clone(&self.declared.borrow())
    }

    pub(super) fn redeclare(&self, declared: Arc<Declared>) {
        self.declared.replace(declared);
    }

    /// The app that the connection belongs to, once a `hello` told.
    pub(super) fn app(&self) -> Option<String> {
        self.app.borrow().clone()
    }

    // What is said to others.

    pub(super) fn record(&self, event: GatewayEvent) {
        self.recorder.record(event);
    }

    pub(super) fn record_dropped(&self, dropped: Dropped) {
        let some = |text: String| (!text.is_empty()).then_some(text);
        self.record(GatewayEvent::Dropped {
            provider: Provider::Slack,
            transport: Source::Socket,
            reason: dropped.reason,
            kind: some(dropped.kind),
            delivery_id: some(dropped.delivery_id),
            about: some(dropped.about),
            gateway_event_id: None,
            suppressed: None,
        });
    }

    /// Tells the supervisor. The message is queued at once, so states keep their order.
    pub(super) fn report(&self, state: IngressState, error: Option<&Reason>) {
        tracing::info!(ingress.name = self.name, %state, error = error.map(Reason::as_str), "socket");
        let told = self.status.clone().send(IngressChanged {
            name: self.name.clone(),
            state,
            since: self.now(),
            error: error.map(|reason| reason.as_str().to_owned()),
            variable: None,
            connections: self.connections.get().filter(|_| state == IngressState::Up),
        });
        actix_rt::spawn(async move {
            if let Err(error) = told.await {
                tracing::debug!(%error, "nobody hears of the socket's state");
            }
        });
    }

    // What is known of the connection.

    /// `hello` came, over one of `own` connections that are known to be ours.
    pub(super) fn is_up(&self, hello: &Hello, own: u64) {
        if self.up_since.get().is_none() {
            self.up_since.set(Some(self.now()));
        }
        if hello.app.is_some() {
            self.app.replace(hello.app.clone());
        }
        self.connections.set(hello.connections);
        let said = self.split.borrow_mut().connected(hello.connections, own);
        said.into_iter().for_each(|event| self.record(event));
        self.report(IngressState::Up, None);
        self.catch_up_due.notify_one();
    }

    /// No connection is up, so nothing can come over it.
    pub(super) fn is_down(&self) {
        self.up_since.set(None);
    }

    pub(super) fn up_since(&self) -> Option<Timestamp> {
        self.up_since.get()
    }

    // What is known of messages.

    pub(super) fn came_live(&self, message: &super::place::Message) {
        self.split.borrow_mut().came_live(&message.key);
    }

    pub(super) fn only_caught_up(&self, message: &super::place::Message) {
        let now = self.now();
        self.split
            .borrow_mut()
            .only_caught_up(message.key.clone(), now);
    }

    pub(super) fn round_over(&self, complete: bool) {
        let said = self.split.borrow_mut().round_over(complete, self.now());
        said.into_iter().for_each(|event| self.record(event));
    }

    pub(super) fn was_active(&self, conversation: SlackConversation) {
        let mut active = self.active.borrow_mut();
        if active.len() < ACTIVE_MAX {
            active.insert(conversation);
        }
    }

    /// The conversations that were active since this was last asked.
    pub(super) fn take_active(&self) -> BTreeSet<SlackConversation> {
        self.active.take()
    }
}

/// What `hello` says.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) connections: Option<u64>,
    pub(super) app: Option<String>,
}

/// A moment so far away that it does not come.
pub(super) const FAR: Duration = Duration::from_secs(365 * 24 * 3_600);
