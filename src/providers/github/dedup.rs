//! The keys under which an event counts as seen.
//!
//! Invariant: what happened once has one key, and two things that happened never share one: a
//! shared key loses an event, a missing one merely repeats it. So an action whose repetition
//! leaves no trace in the payload has no key but its delivery's.

use sha2::{Digest, Sha256};

use super::{Delivery, Repository};
use crate::domain::{DedupKey, Source};
use crate::providers::clipped;
use crate::providers::lenient::Node;

const CHANGES_DIGITS: usize = 16;
const ABSENT: &str = "-";

/// All keys of an event: of its delivery, then of what happened.
pub(super) fn keys(
    delivery: &Delivery,
    payload: &Node<'_>,
    repository: &Repository,
) -> Vec<DedupKey> {
    let host = delivery
        .enterprise_host
        .as_deref()
        .unwrap_or(&repository.host);
    let of_delivery = delivery
        .guid
        .as_deref()
        .map(|guid| DedupKey::delivery(key(&["github", host, "delivery", guid])));
    let of_object = Happened {
        delivery,
        payload,
        repository,
    }
    .key()
    .map(DedupKey::object);
    of_delivery.into_iter().chain(of_object).collect()
}

/// Joins the parts of a key; a part is bounded, and no key holds a blank.
fn key(parts: &[&str]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| clipped(part).replace(char::is_whitespace, "_"))
        .collect();
    parts.join(":")
}

struct Happened<'a> {
    delivery: &'a Delivery,
    payload: &'a Node<'a>,
    repository: &'a Repository,
}

impl Happened<'_> {
    fn key(&self) -> Option<String> {
        match self.delivery.kind.as_str() {
            "issue_comment" => self.said("issue_comment", "comment"),
            "pull_request_review_comment" => self.said("review_comment", "comment"),
            "pull_request_review" => self.said("review", "review"),
            "issues" => self.changed("issue"),
            "pull_request" => self.changed("pull_request"),
            "check_run" => self.checked("completed_at"),
            "check_suite" => self.checked("updated_at"),
            "workflow_run" | "workflow_job" => self.ran(),
            "status" => self.gh(&["status", &self.payload.number("id")?.to_string()]),
            _ => None,
        }
    }

    fn gh(&self, parts: &[&str]) -> Option<String> {
        let prefix = ["gh", self.repository.host.as_str()];
        Some(key(&[&prefix, parts].concat()))
    }

    fn action(&self) -> Option<String> {
        self.payload.text("action").map(Into::into)
    }

    /// Comments and reviews; their ids are separate per surface.
    fn said(&self, surface: &str, object: &str) -> Option<String> {
        let said = self.payload.at(object);
        let id = said.number("id")?.to_string();
        let action = self.action()?;
        let when = match action.as_str() {
            "created" | "submitted" => return self.gh(&[surface, &id, "created"]),
            "edited" | "deleted" => said.text("updated_at"),
            // A review is dismissed once, so the time at which it was submitted will do.
            "dismissed" => said
                .text("updated_at")
                .or_else(|| said.text("submitted_at")),
            _ => None,
        };
        let when = when.or_else(|| self.delivery.guid.as_deref().map(Into::into))?;
        self.gh(&[surface, &id, &action, &when])
    }

    /// Issues and pull requests.
    fn changed(&self, object: &str) -> Option<String> {
        let item = self.payload.at(object);
        let action = self.action()?;
        let repository = self.repository.id?.to_string();
        let number = item.number("number")?.to_string();
        if action == "closed" {
            return self.gh(&["close", &repository, &number, &item.text("closed_at")?]);
        }
        // Polled presence repeats by design.
        let is_told_once = self.delivery.source == Source::Webhook;
        let at = item.text("updated_at").filter(|_| is_told_once)?;
        let changed = self.changed_thing(&action, item)?;
        let event = &self.delivery.kind;
        self.gh(&[event, &action, &repository, &number, &at, &changed])
    }

    /// What tells several events of one second apart: three labels make three of them.
    ///
    /// The other actions move `updated_at` or can happen only once. Of any not named here (a
    /// second pin moves nothing) it cannot be told whether it is a repetition.
    fn changed_thing(&self, action: &str, item: &Node<'_>) -> Option<String> {
        let payload = self.payload;
        let with_id = |word: &str, thing: &Node<'_>| {
            let id = thing.number("id")?;
            Some(format!("{word}={id}"))
        };
        match action {
            "labeled" | "unlabeled" => with_id("label", payload.at("label")),
            "assigned" | "unassigned" => with_id("assignee", payload.at("assignee")),
            "typed" | "untyped" => with_id("type", payload.at("type")),
            "review_requested" | "review_request_removed" => {
                with_id("reviewer", payload.at("requested_reviewer"))
                    .or_else(|| with_id("team", payload.at("requested_team")))
            }
            "synchronize" => Some(format!("after={}", payload.text("after")?)),
            "edited" => {
                let digest = hex::encode(Sha256::digest(payload.raw("changes")?));
                Some(format!("changes={digest:.CHANGES_DIGITS$}"))
            }
            // An item has one milestone, and older servers do not say which it lost.
            "milestoned" | "demilestoned" => with_id("milestone", payload.at("milestone"))
                .or_else(|| with_id("milestone", item.at("milestone")))
                .or_else(|| Some(ABSENT.to_owned())),
            "opened" | "reopened" | "deleted" | "transferred" | "locked" | "unlocked"
            | "converted_to_draft" | "ready_for_review" => Some(ABSENT.to_owned()),
            _ => None,
        }
    }

    /// Check runs and suites.
    fn checked(&self, time: &str) -> Option<String> {
        let kind = self.delivery.kind.as_str();
        let check = self.payload.at(kind);
        let text = |field: &str| check.text(field).unwrap_or(ABSENT.into());
        let id = check.number("id")?.to_string();
        let (status, conclusion, at) = (text("status"), text("conclusion"), text(time));
        let state = [kind, &id, &status, &conclusion, &at];
        let action = self.action();
        match action.as_deref() {
            // Somebody pressed a button: the check itself has not changed.
            Some(asked @ ("rerequested" | "requested_action")) => {
                let guid = self.delivery.guid.as_deref()?;
                self.gh(&[&state[..], &[asked, guid]].concat())
            }
            _ => self.gh(&state),
        }
    }

    /// Workflow runs and jobs.
    fn ran(&self) -> Option<String> {
        let kind = self.delivery.kind.as_str();
        let run = self.payload.at(kind);
        let text = |field: &str| run.text(field).unwrap_or(ABSENT.into());
        let id = run.number("id")?.to_string();
        let attempt = run.number("run_attempt")?.to_string();
        let action = self.action();
        let action = action.as_deref().unwrap_or(ABSENT);
        self.gh(&[
            kind,
            &id,
            action,
            &attempt,
            &text("status"),
            &text("conclusion"),
        ])
    }
}
