//! The app's one Socket Mode connection.
//!
//! Role: keep exactly one connection open, hand what comes over it to the store, and ack it after
//! the COMMIT; read up on what it did not bring; notice when somebody else listens too.
//!
//! The parts, each in a file of its own: `session` decides when to connect, `link` is one
//! connection, `intake` the way to the store, `catch_up` the way around the socket, and
//! `split_watch` the evidence for a second listener.
//!
//! Invariant: no ack before the COMMIT, no ack on another connection, no second connection. Must
//! not post anything, and must not let a token into any text.

mod api;
mod backoff;
mod catch_up;
mod connect;
mod core;
mod gate;
mod intake;
mod joiner;
mod link;
mod outbox;
mod pages;
mod parts;
mod place;
mod reason;
mod session;
mod split_watch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, ResponseActFuture,
    WrapFuture,
};
use tokio::sync::watch;

use self::api::SlackApi;
use self::catch_up::CatchUp;
use self::connect::Connector;
use self::core::Core;
use self::reason::Reason;
use self::session::Session;
use crate::actors::messages::{IngressState, Redeclare, StopIngress, Submit};
use crate::outbound::{self, NoTls};
use crate::store::NoteSlackActivity;

pub use self::parts::{Recorder, SocketParts, SocketSettings, SocketStore, Timing};

/// Keeps the connection. Needs a thread with a running arbiter; everything it starts lives there.
pub struct SlackSocketActor {
    parts: Option<SocketParts>,
    core: Option<Rc<Core>>,
    stop: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

impl fmt::Debug for SlackSocketActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlackSocketActor").finish_non_exhaustive()
    }
}

impl SlackSocketActor {
    /// An actor that connects once it is started.
    #[must_use]
    pub fn new(parts: SocketParts) -> Self {
        Self {
            parts: Some(parts),
            core: None,
            stop: watch::Sender::new(false),
            is_over: watch::Sender::new(false),
        }
    }

    fn start_tasks(&self, core: &Rc<Core>, ctx: &mut Context<Self>) -> Result<(), NoTls> {
        let timing = core.timing();
        let client = outbound::client(timing.limits)?;
        let api = SlackApi::new(client.clone(), &core.settings.api_base, timing);
        let api = Rc::new(api);
        let connector = Connector::new(Rc::clone(core), Rc::clone(&api), client);
        let session = Session::new(Rc::clone(core), connector, self.stop.subscribe());
        let is_over = self.is_over.clone();
        let session = async move {
            session.run().await;
            is_over.send_replace(true);
        };
        ctx.spawn(session.into_actor(self));
        ctx.spawn(note_activity(Rc::clone(core)).into_actor(self));
        if core.bot_token.is_set() {
            let catch_up = CatchUp::new(Rc::clone(core), api);
            ctx.spawn(catch_up.run().into_actor(self));
        }
        Ok(())
    }
}

impl Actor for SlackSocketActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(parts) = self.parts.take() else {
            return;
        };
        let core = Rc::new(Core::new(parts));
        if let Err(error) = self.start_tasks(&core, ctx) {
            core.report(IngressState::Failed, Some(&Reason::new(&error.to_string())));
            self.is_over.send_replace(true);
        }
        self.core = Some(core);
    }
}

impl Handler<Redeclare> for SlackSocketActor {
    type Result = ();

    fn handle(&mut self, Redeclare(declared): Redeclare, _: &mut Self::Context) {
        if let Some(core) = &self.core {
            core.redeclare(declared);
        }
    }
}

impl Handler<StopIngress> for SlackSocketActor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: StopIngress, _: &mut Self::Context) -> Self::Result {
        self.stop.send_replace(true);
        let core = self.core.clone();
        let mut over = self.is_over.subscribe();
        let ending = async move {
            if over.wait_for(|is_over| *is_over).await.is_err() {
                tracing::debug!("the session ended before it was told to");
            }
            if let Some(core) = core {
                note_what_was_active(&core).await;
            }
        };
        Box::pin(ending.into_actor(self).map(|(), _, ctx| ctx.stop()))
    }
}

/// From time to time, tells the store which conversations were active.
async fn note_activity(core: Rc<Core>) {
    loop {
        tokio::time::sleep(core.timing().activity_every).await;
        note_what_was_active(&core).await;
    }
}

async fn note_what_was_active(core: &Core) {
    let conversations = core.take_active();
    if conversations.is_empty() {
        return;
    }
    let note = Submit(NoteSlackActivity { conversations });
    // Only an order of reading is lost with it.
    if !matches!(core.store.activity.send(note).await, Ok(Ok(()))) {
        tracing::warn!("the store did not note which Slack conversations were active");
    }
}
