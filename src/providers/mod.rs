//! What the providers send, read into arrivals. Pure: headers and bytes in, a verdict out.
//!
//! Invariant: bytes reach a parser only as [`Verified`], which only `signature` (and the Socket
//! Mode connection, whose handshake is the proof) can make. A payload is read for keys, actor,
//! kind and dedup keys alone; nothing here judges it, and nothing here does I/O.

mod declared;
mod digest;
#[cfg(test)]
mod expectations;
mod form;
pub mod github;
mod headers;
pub mod jira;
pub mod lenient;
pub mod signature;
pub mod slack;

pub use declared::{Declared, RepositoryPattern};
pub use headers::{Headers, clipped};
pub use signature::{Secrets, Verified};

use crate::domain::{Arrival, DropReason};

/// What an adapter makes of a verified delivery.
#[derive(Debug)]
pub enum Verdict {
    /// Append it.
    Append(Box<Arrival>),
    /// Answer with success and record why it is not stored.
    Drop(Dropped),
}

/// A delivery that is answered but not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// The provider's name for the kind of event; empty when it has none.
    pub kind: String,
    /// The provider's id of the delivery; empty when it has none.
    pub delivery_id: String,
    /// What it names, for the record: a repository, a project; empty when nothing.
    pub about: String,
    /// The declared repository that it says has another name now.
    pub moved: Option<RepositoryMoved>,
}

/// A declared repository that was renamed or transferred; the configuration names it as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryMoved {
    /// `[host/]owner/repo` before.
    pub from: String,
    /// `[host/]owner/repo` now.
    pub to: String,
}

/// A request that is refused before it is a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The signature is missing, malformed or wrong.
    #[error("the signature is missing or wrong")]
    BadSignature,
    /// The timestamp is more than 300 s away.
    #[error("the timestamp is outside the replay window")]
    ReplayWindow,
    /// Not a JSON object in UTF-8.
    #[error("the payload is not a JSON object in UTF-8")]
    InvalidPayload,
    /// The payload of a form body is larger than the limit for JSON.
    #[error("the payload is larger than 25 MiB")]
    TooLarge,
    /// The payload could not be compressed, which means that memory ran out.
    #[error("the payload could not be compressed")]
    Exhausted,
}

const UNKNOWN_KIND: &str = "unknown";

/// The kind of what is stored, which always has one and never a long one.
fn known(kind: &str) -> String {
    let kind = clipped(kind);
    if kind.is_empty() {
        UNKNOWN_KIND.to_owned()
    } else {
        kind
    }
}
