//! What was read, told as a webhook would tell it.

use std::sync::Arc;

use super::issue::{Comment, Issue};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json::object;
use crate::actors::poller::round::{Happening, PresenceArrivals, uuid4};
use crate::domain::{Arrival, Payload, Timestamp, WorkItemRef};
use crate::providers::jira::{self, Polled};
use crate::providers::{Declared, Verdict, Verified};
use crate::store::{DuePresence, PresenceChange};

/// Makes arrivals of what was read of one project.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    pub(super) site: String,
    pub(super) declared: Arc<Declared>,
    pub(super) received_at: Timestamp,
}

impl Teller {
    pub(super) fn item(&self, key: &str) -> Result<WorkItemRef, Failure> {
        WorkItemRef::jira(&self.site, key).ok_or(Failure::Malformed("a key that is none"))
    }

    pub(super) fn comment(&self, comment: &Comment<'_>, issue: &Issue<'_>) -> Option<Happening> {
        let payload = object([
            ("timestamp", Some(comment.at.0.to_string().as_str())),
            ("webhookEvent", Some("\"comment_created\"")),
            ("user", comment.author),
            ("issue", Some(issue.raw)),
            ("comment", Some(comment.raw)),
        ]);
        let id = format!("jira-comment-{}-{}", self.site, comment.id);
        let arrival = self.arrival(Polled::Comment, id, payload.as_bytes())?;
        Some(Happening {
            at: comment.at,
            arrival,
        })
    }

    /// Nobody is named: an issue does not tell who closed it.
    pub(super) fn closure(
        &self,
        issue: &Issue<'_>,
        at: Timestamp,
    ) -> Result<Option<Happening>, Failure> {
        let payload = object([
            ("timestamp", Some(at.0.to_string().as_str())),
            ("webhookEvent", Some("\"jira:issue_updated\"")),
            ("issue", Some(issue.raw)),
        ]);
        let id = format!("poll-close-{}-closed", self.item(&issue.key)?);
        let arrival = self.arrival(Polled::Closure, id, payload.as_bytes());
        Ok(arrival.map(|arrival| Happening { at, arrival }))
    }

    /// What the presence of an issue is: armed when it is open and carries the labels.
    pub(super) fn presence_of(
        &self,
        issue: &Issue<'_>,
        labels: &[String],
    ) -> Result<PresenceChange, Failure> {
        if issue.is_done || !issue.carries(labels) {
            return Ok(PresenceChange::Disarm);
        }
        let payload = object([
            ("timestamp", Some(self.received_at.0.to_string().as_str())),
            ("webhookEvent", Some("\"jira:issue_updated\"")),
            ("user", issue.author()),
            ("issue", Some(issue.raw)),
        ]);
        let payload = Payload::compress(payload.as_bytes()).ok();
        Ok(PresenceChange::Arm {
            version: issue.version(),
            payload: payload.ok_or(Failure::Malformed("a payload that cannot be compressed"))?,
        })
    }

    fn arrival(&self, polled: Polled, id: String, payload: &[u8]) -> Option<Box<Arrival>> {
        let payload = Verified::by_connection(payload);
        match jira::polled(polled, payload, id, &self.declared, self.received_at) {
            Ok(Verdict::Append(arrival)) => Some(arrival),
            Ok(Verdict::Drop(dropped)) => {
                tracing::debug!(?polled, reason = %dropped.reason, "what was polled is not stored");
                None
            }
            Err(rejection) => {
                tracing::warn!(?polled, %rejection, "what was polled cannot be read");
                None
            }
        }
    }
}

impl PresenceArrivals for Teller {
    fn presence(&self, due: &DuePresence) -> Option<Box<Arrival>> {
        let text = due.payload.text().ok()?;
        let id = format!("jira-presence-{}-{}", due.work_item, uuid4());
        self.arrival(Polled::Presence, id, &text)
    }
}
