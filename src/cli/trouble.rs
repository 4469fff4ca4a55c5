//! Why a verb of the operator did not do what it was asked; each sentence says what to do.

use std::io;
use std::path::PathBuf;

use crate::app::StartError;
use crate::store::{CopyError, OpenError, StoreError};

/// Why a verb that looks into, copies or replaces a store failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// What was asked for is not known here.
    #[error(
        "nothing is known of {name:?}: {where_looked}. If it was sent, look at the provider's own \
         list of deliveries, at the tunnel or proxy, and at `health`"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        where_looked: &'static str,
    },
    /// A work item was given where an event is wanted.
    #[error("{0} is a work item, not an event; `events --subject {0}` lists its events")]
    WorkItem(String),
    /// No dead delivery has that number.
    #[error(
        "delivery {0} is not dead, or something replaced it already; `dead list` shows those that are"
    )]
    NotDead(i64),
    /// There is nothing of the numbers that were given.
    #[error("no such {what}: {}", .numbers.join(", "))]
    NoSuch {
        /// What the numbers would be of.
        what: &'static str,
        /// The numbers.
        numbers: Vec<String>,
    },
    /// There is no such instance.
    #[error("no instance is called {0}; `instances` lists them")]
    NoInstance(String),
    /// An instance has no claim on a subject.
    #[error("{instance} has no claim on {subject}; `subjects` lists who has")]
    NoClaim {
        /// The instance.
        instance: String,
        /// The subject.
        subject: String,
    },
    /// The gateway does not take what an option says.
    #[error("{option} {must}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it must be.
        must: String,
    },
    /// Nothing says which ones are meant.
    #[error("say which ones are meant: {0}")]
    NothingSelected(&'static str),
    /// A verb goes through a running gateway only.
    #[error("`--follow` needs a running gateway; without it, `events` reads the file")]
    FollowsTheRunning,
    /// A copy was not made.
    #[error("{0}")]
    Copy(#[from] CopyError),
    /// A store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store breaks its rules.
    #[error("{} does not hold: {problems}", path.display())]
    Unsound {
        /// The file.
        path: PathBuf,
        /// How many problems there are.
        problems: String,
    },
    /// What would be written is there already.
    #[error("{} is there already and stays as it is; choose another name", .0.display())]
    Exists(PathBuf),
    /// There is no such file.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// The copy is the store.
    #[error("{} is the store itself; name a copy of it", .0.display())]
    TheStoreItself(PathBuf),
    /// A file or directory cannot be used.
    #[error("cannot use {}: {fault}", path.display())]
    Files {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// A gateway runs on the store that would be replaced.
    #[error("{0}; stop it first")]
    InUse(StartError),
}

impl Trouble {
    /// Why a file or directory cannot be used.
    pub(super) fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |fault| Self::Files { path, fault }
    }
}
