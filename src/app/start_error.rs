//! Why a gateway does not start.

use std::io;
use std::path::PathBuf;

use crate::store::OpenError;

/// Why a gateway does not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state root cannot be made or used.
    #[error("cannot use {}: {source}", path.display())]
    StateRoot {
        /// The directory or a file in it.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The state root is on a network.
    #[error(
        "{} is on a network filesystem ({name}), which loses what was acknowledged: \
         set state.root to a local directory",
        path.display()
    )]
    NetworkFilesystem {
        /// The state root.
        path: PathBuf,
        /// The kind of filesystem.
        name: &'static str,
    },
    /// Another gateway has the state root.
    #[error(
        "another gateway{} is running on {}",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(),
        root.display()
    )]
    AlreadyRunning {
        /// The state root.
        root: PathBuf,
        /// Its process.
        pid: Option<u32>,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// An address is reachable from other machines, and nobody said that this is meant.
    #[error(
        "{address} is not a loopback address: listen.exposed: true confirms that this is meant"
    )]
    Exposed {
        /// The address.
        address: String,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A listener cannot be served.
    #[error("cannot serve: {0}")]
    Serve(#[source] io::Error),
}

impl StartError {
    /// True when a person can do something about it; else the machine is in trouble.
    #[must_use]
    pub const fn is_for_the_operator(&self) -> bool {
        match self {
            Self::StateRoot { .. }
            | Self::NetworkFilesystem { .. }
            | Self::AlreadyRunning { .. }
            | Self::Bind { .. }
            | Self::Exposed { .. }
            | Self::Store(_) => true,
            Self::Thread(_) | Self::Serve(_) => false,
        }
    }
}
