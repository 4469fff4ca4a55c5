//! Why a command did not do what it was asked, in the words that the person reads.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::api::ApiError;
use super::lifecycle::Fault;
use super::trouble::Trouble;
use crate::app::StartError;
use crate::config::{ConfigError, EnvName};

const FAILED: u8 = 1;
const WRONG_CONFIG: u8 = 2;
const BROKEN: u8 = 70;

/// Why a command failed; each sentence says what to do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The working directory is gone.
    #[error("the working directory cannot be used: {0}")]
    Directory(#[source] io::Error),
    /// The gateway did not do what was asked.
    #[error(transparent)]
    Api(ApiError),
    /// No gateway runs where it should.
    #[error("{0}; start it with `the-loop-gateway run`, or name another one with --url")]
    Down(ApiError),
    /// The answer is not what the API promises.
    #[error("the gateway's rows cannot be read ({0}); is it of another version?")]
    Rows(#[source] serde_json::Error),
    /// A URL cannot be used.
    #[error("{0:?} is no URL of a gateway; give it as http://host:port")]
    Url(String),
    /// A URL cannot be forwarded to.
    #[error("{0:?} is no URL to forward to; give it as http://host:port/path, without a query")]
    TargetUrl(String),
    /// The gateway's port is only known to itself.
    #[error(
        "the config lets the system choose the port; name the address that `run` printed with --url"
    )]
    PortUnknown,
    /// The gateway is down and has left no file.
    #[error("no gateway answers, and there is no store at {} yet; start one with `the-loop-gateway run`", .0.display())]
    NoStore(PathBuf),
    /// The file of a gateway that is down cannot be read.
    #[error("{} cannot be read ({why}); start the gateway, which says more", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Standard output could not be written.
    #[error("the output could not be written: {0}")]
    Output(#[source] io::Error),
    /// `init` was told two places.
    #[error("give either --config or a directory, not both")]
    ConfigAndDirectory,
    /// A file of `init` is there already.
    #[error("{} is there already and stays as it is; remove it, or choose another directory", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read.
    #[error("{} cannot be read: {fault}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {fault}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// There are no random bytes for a secret.
    #[error("no secret could be made: {0}")]
    NoRandomness(getrandom::Error),
    /// The secret that signs is not set.
    #[error(
        "{0} is not set; set it, write it into the env file, or name another variable with --secret-env"
    )]
    NoSecret(EnvName),
    /// There is no sample of that event.
    #[error("there is no sample of {event:?}; give a file with --file, or one of: {known}")]
    NoSample {
        /// What was asked for.
        event: String,
        /// What there is.
        known: String,
    },
    /// A provider's request was answered with a no.
    #[error("the gateway did not take it (HTTP {status}): {advice}")]
    NotTaken {
        /// The status.
        status: u16,
        /// What to do about it.
        advice: &'static str,
    },
    /// The gateway does not start.
    #[error("the gateway does not start: {0}")]
    Start(#[from] StartError),
    /// A process was not started or stopped, or is not well.
    #[error(transparent)]
    Lifecycle(#[from] Fault),
    /// The gateway cannot go on.
    #[error("the gateway cannot go on, because its {0} is gone; its log says why")]
    Died(&'static str),
    /// There is no place for the scratch state of `try`.
    #[error("no scratch directory can be used ({0}); name another place with $TMPDIR")]
    Scratch(#[source] io::Error),
    /// `try` did not go as it must.
    #[error("the story went wrong: {0}; please report it")]
    Story(&'static str),
    /// A client does not start.
    #[error(transparent)]
    Client(#[from] crate::client::StartError),
    /// A client stopped by itself.
    #[error("{0}")]
    Ended(crate::client::End),
    /// There is no place for what a client keeps.
    #[error("there is no home directory; name a place for the peer id with --state-dir")]
    NoStateDirectory,
    /// The status page cannot be served.
    #[error("{address} cannot be listened on: {fault}; name another one with --status-listen")]
    StatusListen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// The signals of the process cannot be heard.
    #[error("signals cannot be heard: {0}")]
    Signals(#[source] io::Error),
    /// A second signal came.
    #[error("stopped at once; what was in hand comes again")]
    Hurried,
    /// There is no TLS.
    #[error(transparent)]
    NoTls(#[from] crate::outbound::NoTls),
    /// The server under test broke promises.
    #[error("{broken} of {made} promises are broken")]
    Broken {
        /// How many.
        broken: usize,
        /// Of how many that were checked.
        made: usize,
    },
    /// A verb of the operator failed.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// Something broke that no use explains.
    #[error("internal error: {0}; please report it")]
    Internal(String),
}

impl Failure {
    /// The exit code of the process.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Config(_) | Self::ConfigAndDirectory => WRONG_CONFIG,
            Self::Start(error) => code_of(error),
            Self::Lifecycle(fault) if fault.is_of_config() => WRONG_CONFIG,
            Self::Died(_) | Self::Story(_) | Self::Internal(_) => BROKEN,
            Self::Lifecycle(_)
            | Self::Directory(_)
            | Self::Api(_)
            | Self::Down(_)
            | Self::Rows(_)
            | Self::Url(_)
            | Self::TargetUrl(_)
            | Self::PortUnknown
            | Self::NoStore(_)
            | Self::Unreadable { .. }
            | Self::Output(_)
            | Self::Exists(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::NoRandomness(_)
            | Self::NoSecret(_)
            | Self::Client(_)
            | Self::Ended(_)
            | Self::NoStateDirectory
            | Self::StatusListen { .. }
            | Self::Signals(_)
            | Self::Hurried
            | Self::NoTls(_)
            | Self::Broken { .. }
            | Self::Trouble(_)
            | Self::NoSample { .. }
            | Self::Scratch(_)
            | Self::NotTaken { .. } => FAILED,
        })
    }
}

/// What the configuration can change is its fault; the rest is the machine's, or ours.
const fn code_of(error: &StartError) -> u8 {
    match error {
        StartError::Exposed { .. } | StartError::NetworkFilesystem { .. } => WRONG_CONFIG,
        StartError::StateRoot { .. }
        | StartError::AlreadyRunning { .. }
        | StartError::Bind { .. }
        | StartError::Store(_) => FAILED,
        StartError::Thread(_) | StartError::Serve(_) => BROKEN,
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error {
            down @ ApiError::Down { .. } => Self::Down(down),
            other @ (ApiError::Broken { .. }
            | ApiError::Slow { .. }
            | ApiError::Refused { .. }
            | ApiError::Foreign { .. }
            | ApiError::NoTls(_)) => Self::Api(other),
        }
    }
}
