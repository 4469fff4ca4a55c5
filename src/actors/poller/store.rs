//! The store as a poller sees it.

use std::fmt;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, MailboxError, Recipient};

use crate::actors::messages::Submit;
use crate::store::{
    Append, AppendPresence, ClaimedPullRequests, DuePresences, FindItems, LoadPoll, SavePoll,
    StoreError, Write,
};

/// The doors of the store that a poller uses.
#[derive(Clone)]
pub struct PollStore {
    append: Recipient<Submit<Append>>,
    load: Recipient<Submit<LoadPoll>>,
    save: Recipient<Submit<SavePoll>>,
    find: Recipient<Submit<FindItems>>,
    claimed: Recipient<Submit<ClaimedPullRequests>>,
    due: Recipient<Submit<DuePresences>>,
    presence: Recipient<Submit<AppendPresence>>,
}

/// The writes that a poller submits.
pub(super) trait Submitted: Write + Sized {
    /// The door that takes it.
    fn door(store: &PollStore) -> &Recipient<Submit<Self>>;
}

macro_rules! doors {
    ($($write:ty => $door:ident,)*) => {
        impl PollStore {
            /// The doors of one actor that keeps the store.
            #[must_use]
            pub fn of<A>(store: &Addr<A>) -> Self
            where
                A: Actor $( + Handler<Submit<$write>> )*,
                A::Context: $( ToEnvelope<A, Submit<$write>> + )*,
            {
                Self { $( $door: store.clone().recipient(), )* }
            }
        }

        $(
            impl Submitted for $write {
                fn door(store: &PollStore) -> &Recipient<Submit<Self>> {
                    &store.$door
                }
            }
        )*
    };
}

doors! {
    Append => append,
    LoadPoll => load,
    SavePoll => save,
    FindItems => find,
    ClaimedPullRequests => claimed,
    DuePresences => due,
    AppendPresence => presence,
}

impl PollStore {
    /// Submits a write and waits until it is durable.
    pub(super) async fn submit<W: Submitted>(&self, write: W) -> Result<W::Reply, StoreError> {
        match W::door(self).send(Submit(write)).await {
            Ok(result) => result,
            Err(MailboxError::Closed | MailboxError::Timeout) => {
                Err(StoreError::Aborted("the store is closed".to_owned()))
            }
        }
    }
}

impl fmt::Debug for PollStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollStore").finish_non_exhaustive()
    }
}
