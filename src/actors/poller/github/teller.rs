//! What was read, told as a webhook would tell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::item::{Item, Said};
use super::repository::Repository;
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json::{object, quoted, with_field};
use crate::actors::poller::round::{Happening, uuid4};
use crate::domain::{Arrival, LearnedCommit, Payload, Timestamp, WorkItemRef};
use crate::providers::lenient::{self, Fields, Want};
use crate::providers::{Declared, Headers, Verdict, Verified, github};
use crate::store::{ItemKind, PresenceChange};

const EVENT: &str = "x-github-event";
const DELIVERY: &str = "x-github-delivery";

static LABELS: Want = Want::Object(&[("labels", Want::Items(NAME))]);
const NAME: Fields = &[("name", Want::Leaf)];

/// The headers that a webhook would carry. An id that names a check can hold any character.
struct PolledHeaders(BTreeMap<&'static str, String>);

impl Headers for PolledHeaders {
    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(String::as_bytes)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Makes arrivals of what was read of one repository.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    pub(super) repository: Repository,
    pub(super) declared: Arc<Declared>,
    pub(super) received_at: Timestamp,
}

impl Teller {
    /// A comment on an issue or pull request, beside its issue object.
    pub(super) fn comment(&self, comment: &Said<'_>, issue: &str) -> Option<Happening> {
        let payload = object([
            ("action", Some("\"created\"")),
            ("issue", Some(issue)),
            ("comment", Some(comment.raw)),
            ("repository", Some(self.repository.json.as_str())),
            ("sender", comment.author()),
        ]);
        self.said("issue_comment", comment, comment.at, &payload)
    }

    /// A comment on a line of a pull request; `at` is when others could see it.
    pub(super) fn review_comment(
        &self,
        comment: &Said<'_>,
        pull_request: &str,
        at: Timestamp,
    ) -> Option<Happening> {
        let payload = object([
            ("action", Some("\"created\"")),
            ("pull_request", Some(pull_request)),
            ("comment", Some(comment.raw)),
            ("repository", Some(self.repository.json.as_str())),
            ("sender", comment.author()),
        ]);
        self.said("pull_request_review_comment", comment, at, &payload)
    }

    /// A submitted review.
    pub(super) fn review(
        &self,
        review: &Said<'_>,
        pull_request: &str,
    ) -> Result<Option<Happening>, Failure> {
        let told = with_field(review.raw, "state", &quoted(&review.state()))?;
        let payload = object([
            ("action", Some("\"submitted\"")),
            ("pull_request", Some(pull_request)),
            ("review", Some(told.as_str())),
            ("repository", Some(self.repository.json.as_str())),
            ("sender", review.author()),
        ]);
        Ok(self.said("pull_request_review", review, review.at, &payload))
    }

    /// The closure of an issue or pull request by somebody, at the moment that the item tells.
    pub(super) fn closure(
        &self,
        item: &Item<'_>,
        closer: Option<&str>,
        at: Timestamp,
    ) -> Result<Option<Happening>, Failure> {
        let (kind, name) = words(item.kind);
        let payload = object([
            ("action", Some("\"closed\"")),
            (name, Some(item.raw)),
            ("repository", Some(self.repository.json.as_str())),
            ("sender", closer),
        ]);
        let end = if item.is_merged { "merged" } else { "closed" };
        let id = format!("poll-close-{}-{end}", self.repository.item(item.number)?);
        Ok(self.happening(kind, id, at, &payload))
    }

    /// What the presence of an item is: armed when it is open and carries the labels.
    pub(super) fn presence_of(
        &self,
        item: &Item<'_>,
        labels: &[String],
    ) -> Result<PresenceChange, Failure> {
        if !item.is_open || !item.carries(labels) {
            return Ok(PresenceChange::Disarm);
        }
        let (_, name) = words(item.kind);
        let payload = object([
            ("action", Some("\"labeled\"")),
            (name, Some(item.raw)),
            ("label", label(item.raw, labels).as_deref()),
            ("repository", Some(self.repository.json.as_str())),
            ("sender", item.author()),
        ]);
        let payload = Payload::compress(payload.as_bytes()).ok();
        Ok(PresenceChange::Arm {
            version: item.version(),
            payload: payload.ok_or(Failure::Malformed("a payload that cannot be compressed"))?,
        })
    }

    /// The presence of an item, from its payload.
    pub(super) fn presence(
        &self,
        work_item: &WorkItemRef,
        kind: ItemKind,
        payload: &Payload,
    ) -> Option<Box<Arrival>> {
        let text = payload.text().ok()?;
        let id = format!("poll-presence-{work_item}-{}", uuid4());
        self.arrival(words(kind).0, id, &text)
    }

    /// A check of a pull request; `payload` holds all but the repository.
    pub(super) fn check(
        &self,
        kind: &'static str,
        id: String,
        at: Timestamp,
        payload: &[(&str, Option<&str>)],
    ) -> Option<Happening> {
        let repository = ("repository", Some(self.repository.json.as_str()));
        let payload = object(payload.iter().copied().chain([repository]));
        self.happening(kind, id, at, &payload)
    }

    /// The head commit of a pull request.
    pub(super) fn learned(&self, item: &Item<'_>) -> Result<Option<LearnedCommit>, Failure> {
        let sha = item.head.to_ascii_lowercase();
        let is_full = [40, 64].contains(&sha.len()) && sha.bytes().all(|b| b.is_ascii_hexdigit());
        let pull_request = self.repository.item(item.number)?;
        Ok(is_full.then(|| LearnedCommit {
            repository: self.repository.key(),
            sha,
            pull_request,
        }))
    }

    fn said(
        &self,
        kind: &'static str,
        said: &Said<'_>,
        at: Timestamp,
        payload: &str,
    ) -> Option<Happening> {
        let id = format!("poll-comment-{}", said.node_id());
        self.happening(kind, id, at, payload)
    }

    fn happening(
        &self,
        kind: &'static str,
        id: String,
        at: Timestamp,
        payload: &str,
    ) -> Option<Happening> {
        let arrival = self.arrival(kind, id, payload.as_bytes())?;
        Some(Happening { at, arrival })
    }

    fn arrival(&self, kind: &'static str, id: String, payload: &[u8]) -> Option<Box<Arrival>> {
        let headers = PolledHeaders(BTreeMap::from([(EVENT, kind.to_owned()), (DELIVERY, id)]));
        let payload = Verified::by_connection(payload);
        match github::parse_polled(&headers, payload, &self.declared, self.received_at) {
            Ok(Verdict::Append(arrival)) => Some(arrival),
            Ok(Verdict::Drop(dropped)) => {
                tracing::debug!(kind, reason = %dropped.reason, "what was polled is not stored");
                None
            }
            Err(rejection) => {
                tracing::warn!(kind, %rejection, "what was polled cannot be read");
                None
            }
        }
    }
}

/// The kind of event of an item, and the name of its object.
const fn words(kind: ItemKind) -> (&'static str, &'static str) {
    match kind {
        ItemKind::Issue => ("issues", "issue"),
        ItemKind::PullRequest => ("pull_request", "pull_request"),
    }
}

/// The first of the labels as the item has it; a webhook tells which label was set.
fn label(item: &str, labels: &[String]) -> Option<String> {
    let first = labels.first()?;
    let node = lenient::read(item, &LABELS).ok()?;
    let name = node
        .items("labels")
        .filter_map(|label| label.text("name"))
        .find(|name| name.eq_ignore_ascii_case(first))?;
    Some(object([("name", Some(quoted(&name).as_str()))]))
}
