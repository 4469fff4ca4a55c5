//! The queue on disk, behind one writer. No actor and no server type is known here.
//!
//! Rules of a transaction:
//! - A batch is one `BEGIN IMMEDIATE … COMMIT`; each write in it is a savepoint, so a refusal
//!   rolls back alone. Nobody is answered before the COMMIT.
//! - Whatever a write decides by, it reads on the writing connection.
//! - What a write wants known (records, wakes, counters) goes into [`Effects`] and happens only
//!   if the batch commits.
//! - SQL is constant text with bound parameters; every hot statement is prepared once.

mod append;
mod backup;
mod clock_repair;
mod connection;
mod effects;
mod error;
mod instances;
mod late_routing;
mod lease;
mod migrations;
mod operator;
mod page_limit;
mod pending;
mod poll_ledger;
mod probe;
mod queue;
mod read;
mod registrations;
mod retention;
mod revival;
mod route_memory;
mod routing;
mod selection;
mod settings;
mod slack_marks;
mod stored_event;
#[cfg(test)]
pub(crate) mod testing;
mod upkeep;
mod verify;
pub mod views;
mod writer;

pub use append::{Append, Appended};
pub use backup::{
    Copied, CopyError, NUMBERS_RAISED_BY, StoreSize, copy_store, raise_numbers, settle_copy,
    size_of,
};
pub use connection::{
    ReadConnection, ReadPool, expect_checkpoints, open_checkpointer, open_reader, open_readers,
    open_writer, sqlite_version,
};
pub use effects::Effects;
pub use error::{OpenError, StoreError};
pub use late_routing::{RouteHeld, Routed};
pub use operator::{
    DeadSelection, EventSelection, NewDelivery, NoSuchInstance, OperatorRelease, Position, Redrive,
    Redriven, Released, Replay,
};
pub use page_limit::PageLimit;
pub use pending::{PendingWrite, pending};
pub use poll_ledger::{
    AppendPresence, ClaimedPullRequest, ClaimedPullRequests, DuePresence, DuePresences, FindItems,
    ItemChange, ItemKind, ItemSeen, KnownItem, LoadPoll, PollList, PollLists, PresenceAppended,
    PresenceChange, PresencePage, SavePoll, Sweep,
};
pub use probe::{EndProbe, Probe};
pub use queue::{CommitOutcomes, Committed, FetchBatch, Fetched};
pub use registrations::{
    DeleteBinding, LearnCommits, PutActors, PutBinding, PutClaim, PutRooms, ReleaseClaim,
};
pub use retention::{Expire, ExpireGrace, Expired, GraceExpired, NoteUnattended, Unattended};
pub use selection::{Period, SubjectFilter};
pub use settings::Settings;
pub use slack_marks::{
    FindUnseen, ListSlackReadings, NoteSlackActivity, NoteSlackMark, SLACK_READINGS_MAX,
    SlackConversation, SlackReading,
};
pub use upkeep::{
    CheckpointMode, Checkpointed, checkpoint, give_back_pages, unused_pages, used_bytes,
};
pub use verify::{Problem, VerifyStep, check_file, verify, verify_with};
pub use writer::{BatchReport, Tx, Write, Writer};

#[cfg(test)]
mod tests;
