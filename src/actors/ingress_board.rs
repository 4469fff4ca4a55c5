//! Where each ingress stands, for those who ask: written by the supervisor and the config watch,
//! read by health.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::messages::IngressState;
use crate::domain::Timestamp;

/// How an ingress stands, or a source of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressStatus {
    /// Its state.
    pub state: IngressState,
    /// Since when.
    pub since: Timestamp,
    /// What went wrong last, until it is up again; without values of secrets.
    pub error: Option<String>,
    /// The variable that is not set.
    pub variable: Option<String>,
    /// How many connections of its app Slack counts; only of the socket, while it is up.
    pub connections: Option<u64>,
    /// Of an ingress with several sources: how each of them stands.
    pub sources: BTreeMap<String, Self>,
}

impl IngressStatus {
    /// A state in which nothing is wrong.
    #[must_use]
    pub const fn plain(state: IngressState, since: Timestamp) -> Self {
        Self {
            state,
            since,
            error: None,
            variable: None,
            connections: None,
            sources: BTreeMap::new(),
        }
    }
}

/// What is known now; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct IngressBoard(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    ingresses: BTreeMap<String, IngressStatus>,
    restart_required: Vec<String>,
}

impl IngressBoard {
    /// Notes how an ingress stands.
    pub fn set(&self, ingress: &str, status: IngressStatus) {
        self.noted().ingresses.insert(ingress.to_owned(), status);
    }

    /// How all of them stand.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, IngressStatus> {
        self.noted().ingresses.clone()
    }

    /// Notes which changed settings wait for a restart.
    pub fn set_restart_required(&self, settings: Vec<String>) {
        self.noted().restart_required = settings;
    }

    /// The changed settings that wait for a restart.
    #[must_use]
    pub fn restart_required(&self) -> Vec<String> {
        self.noted().restart_required.clone()
    }

    /// Whatever is in there is whole: it is replaced at once.
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
