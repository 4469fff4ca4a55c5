//! What actors say to each other. One struct a message; the reply's type stands with it.

use std::fmt;
use std::sync::Arc;

use actix::Message;
use serde::Serialize;

use crate::domain::Timestamp;
use crate::providers::Declared;
use crate::store::{StoreError, Write};

/// A write for the `StoreActor`; answered after the COMMIT that holds it.
///
/// Sent by everything that changes the store; refused as [`StoreError`] says. A batch holds
/// whatever arrived while the last COMMIT waited for the disk.
#[derive(Debug)]
pub struct Submit<W>(pub W);

impl<W: Write> Message for Submit<W> {
    type Result = Result<W::Reply, StoreError>;
}

/// Where an ingress stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IngressState {
    /// It takes events; for Slack's socket: `hello` came.
    Up,
    /// On its way up.
    Connecting,
    /// Something failed; it tries again by itself, soon.
    BackingOff,
    /// The variable of its secret is not set.
    MissingSecret,
    /// Switched off by the configuration.
    Disabled,
    /// Something failed that somebody has to mend; it still tries, slowly.
    Failed,
}

impl IngressState {
    /// The word recorded and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Connecting => "connecting",
            Self::BackingOff => "backing-off",
            Self::MissingSecret => "missing-secret",
            Self::Disabled => "disabled",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for IngressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An ingress has another state. Sent by the adapters to their supervisor, in order; nobody waits
/// for the answer.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct IngressChanged {
    /// The ingress.
    pub name: String,
    /// Its new state.
    pub state: IngressState,
    /// Since when.
    pub since: Timestamp,
    /// What went wrong last, without values of secrets.
    pub error: Option<String>,
    /// The variable that is not set.
    pub variable: Option<String>,
}

/// Other repositories, projects or rooms are declared now. Sent by the supervisor to the adapters
/// after a reload; answered once it is in force for what arrives next.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Redeclare(pub Arc<Declared>);

/// Finish what is in flight, tell the provider, and stop. Sent by the supervisor to an adapter;
/// answered once nothing of it is left.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StopIngress;
