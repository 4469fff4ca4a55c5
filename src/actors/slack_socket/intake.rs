//! From an arrival to the store and back: the ack follows the COMMIT.

use std::rc::Rc;

use super::core::Core;
use super::place;
use crate::actors::messages::Submit;
use crate::domain::{Arrival, CallerToken};
use crate::store::{Append, Appended};

/// Hands an arrival to the store, in the order of the calls, and says later whether it is
/// decided. The append goes on even if the connection that brought it is lost meanwhile: Slack
/// sends an interaction only once.
pub(super) fn append(core: &Rc<Core>, arrival: Box<Arrival>, decided: impl FnOnce(bool) + 'static) {
    let in_flight = core.gate.enter(arrival.payload.compressed().len());
    let message = place::message_of(&arrival);
    let (transport, began) = (arrival.source, core.clock.instant());
    // A door of its own for each message: a shared one makes the second wait at a full mailbox
    // and be overtaken there.
    let request = core.store.append.clone().send(Submit(Append {
        arrival,
        caller: CallerToken::always(),
    }));
    let core = Rc::clone(core);
    actix_rt::spawn(async move {
        let appended = match request.await {
            Ok(Ok(appended)) => {
                let took = core.clock.instant().saturating_duration_since(began);
                core.metrics.appended(transport, took);
                Some(appended)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "not stored, not acked");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the store is gone, not acked");
                None
            }
        };
        if let (Some(appended), Some(message)) = (&appended, message) {
            core.came_live(&message);
            if has_consumer(appended) {
                core.was_active(message.conversation);
            }
        }
        decided(appended.is_some());
        drop(in_flight);
    });
}

/// True when the conversation is somebody's: only those are worth reading again.
fn has_consumer(appended: &Appended) -> bool {
    match appended {
        Appended::Stored { to, .. } | Appended::Revived { to, .. } => !to.is_empty(),
        Appended::Duplicate { .. } | Appended::Dropped { .. } => false,
    }
}
