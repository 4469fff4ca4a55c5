//! Issues, pull requests and what is said of them, as the REST API shows them.

use std::borrow::Cow;

use crate::actors::poller::failure::Failure;
use crate::actors::poller::moment;
use crate::digest;
use crate::domain::Timestamp;
use crate::providers::lenient::{self, Fields, Node, Want};
use crate::store::ItemKind;

/// Characters of the digest that tells apart what a presence states.
const VERSION_CHARS: usize = 16;

const LOGIN: Fields = &[("login", Want::Leaf)];

static ITEM: Want = Want::Object(&[
    ("number", Want::Leaf),
    ("state", Want::Leaf),
    ("title", Want::Leaf),
    ("closed_at", Want::Leaf),
    ("merged_at", Want::Leaf),
    ("labels", Want::Items(&[("name", Want::Leaf)])),
    ("user", Want::Whole(LOGIN)),
    ("closed_by", Want::Whole(LOGIN)),
    ("merged_by", Want::Whole(LOGIN)),
    ("head", Want::Object(&[("sha", Want::Leaf)])),
    ("pull_request", Want::Object(&[("merged_at", Want::Leaf)])),
]);

static SAID: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("node_id", Want::Leaf),
    ("state", Want::Leaf),
    ("html_url", Want::Leaf),
    ("issue_url", Want::Leaf),
    ("pull_request_url", Want::Leaf),
    ("pull_request_review_id", Want::Leaf),
    ("created_at", Want::Leaf),
    ("submitted_at", Want::Leaf),
    ("user", Want::Whole(LOGIN)),
]);

static ENTRY: Want = Want::Object(&[("id", Want::Leaf), ("updated_at", Want::Leaf)]);

/// An issue or a pull request.
#[derive(Debug)]
pub(super) struct Item<'a> {
    /// As sent.
    pub(super) raw: &'a str,
    pub(super) number: u64,
    /// What an issue object is of; a pull request object always says pull request.
    pub(super) kind: ItemKind,
    pub(super) is_open: bool,
    pub(super) is_merged: bool,
    pub(super) closed_at: Option<Timestamp>,
    /// False for a pull request object.
    pub(super) is_issue_object: bool,
    /// The head commit of a pull request object; empty when it is not known.
    pub(super) head: String,
    node: Node<'a>,
}

impl<'a> Item<'a> {
    /// Reads an issue object, which a pull request has too.
    pub(super) fn issue(raw: &'a str) -> Result<Self, Failure> {
        Self::read(raw, None)
    }

    /// Reads a pull request object.
    pub(super) fn pull_request(raw: &'a str) -> Result<Self, Failure> {
        Self::read(raw, Some(ItemKind::PullRequest))
    }

    fn read(raw: &'a str, kind: Option<ItemKind>) -> Result<Self, Failure> {
        let node = lenient::read(raw, &ITEM).ok();
        let node = node.ok_or(Failure::Malformed("no item"))?;
        let number = node.number("number");
        let state = node.text("state");
        let linked = node.at("pull_request");
        let is_issue_object = kind.is_none() && !node.has("head");
        let of_issue = if node.has("pull_request") || !is_issue_object {
            ItemKind::PullRequest
        } else {
            ItemKind::Issue
        };
        Ok(Self {
            raw,
            number: number.ok_or(Failure::Malformed("an item without a number"))?,
            kind: kind.unwrap_or(of_issue),
            is_open: state.is_some_and(|state| state == "open"),
            is_merged: node.has("merged_at") || linked.has("merged_at"),
            closed_at: moment_in(&node, "closed_at"),
            is_issue_object,
            head: node.at("head").text("sha").unwrap_or_default().into_owned(),
            node,
        })
    }

    /// The author's user object.
    pub(super) fn author(&self) -> Option<&'a str> {
        self.node.raw("user")
    }

    /// The user object of whoever closed or merged it.
    pub(super) fn closer(&self) -> Option<&'a str> {
        let merger = self.node.raw("merged_by");
        merger.or_else(|| self.node.raw("closed_by"))
    }

    /// True when it carries all of these labels; ASCII case is ignored, as GitHub does.
    pub(super) fn carries(&self, labels: &[String]) -> bool {
        let own: Vec<_> = self.labels().collect();
        labels
            .iter()
            .all(|label| own.iter().any(|own| own.eq_ignore_ascii_case(label)))
    }

    /// Tells apart what a presence states: the labels and the title. Not what others say of it or
    /// push to it: every comment of an agent would wake the agent again.
    pub(super) fn version(&self) -> String {
        let mut labels: Vec<_> = self.labels().collect();
        labels.sort_unstable();
        let title = self.node.text("title").unwrap_or_default();
        let mut version = digest::sha256_hex(format!("{title}\n{}", labels.join("\n")).as_bytes());
        version.truncate(VERSION_CHARS);
        version
    }

    fn labels(&self) -> impl Iterator<Item = Cow<'a, str>> {
        self.node
            .items("labels")
            .filter_map(|label| label.text("name"))
    }
}

/// A comment or a review.
#[derive(Debug)]
pub(super) struct Said<'a> {
    /// As sent.
    pub(super) raw: &'a str,
    pub(super) id: u64,
    /// When it was made: for a review, submitted; for a review comment, perhaps only drafted.
    pub(super) at: Timestamp,
    node: Node<'a>,
}

impl<'a> Said<'a> {
    /// Reads a comment; `None` when it lacks what every comment has.
    pub(super) fn comment(raw: &'a str) -> Option<Self> {
        Self::read(raw, "created_at")
    }

    /// Reads a review; `None` for a draft.
    pub(super) fn review(raw: &'a str) -> Option<Self> {
        Self::read(raw, "submitted_at").filter(|review| review.state() != "pending")
    }

    fn read(raw: &'a str, when: &str) -> Option<Self> {
        let node = lenient::read(raw, &SAID).ok()?;
        Some(Self {
            raw,
            id: node.number("id")?,
            at: moment_in(&node, when)?,
            node,
        })
    }

    /// The id that does not depend on the kind; a plain one where there is none.
    pub(super) fn node_id(&self) -> Cow<'a, str> {
        let plain = || Cow::Owned(self.id.to_string());
        self.node.text("node_id").unwrap_or_else(plain)
    }

    /// The state of a review as a webhook spells it: in lower case.
    pub(super) fn state(&self) -> String {
        let state = self.node.text("state").unwrap_or_default();
        state.to_ascii_lowercase()
    }

    /// The number of the issue or pull request that it is said of.
    pub(super) fn number(&self) -> Option<u64> {
        let url = self.node.text("issue_url");
        let url = url.or_else(|| self.node.text("pull_request_url"))?;
        url.rsplit('/').next()?.parse().ok()
    }

    /// What it is said of, as far as its address tells.
    pub(super) fn kind(&self) -> ItemKind {
        let url = self.node.text("html_url").unwrap_or_default();
        if url.contains("/pull/") {
            ItemKind::PullRequest
        } else {
            ItemKind::Issue
        }
    }

    /// The review that a review comment belongs to.
    pub(super) fn review_id(&self) -> Option<u64> {
        self.node.number("pull_request_review_id")
    }

    /// The author's user object.
    pub(super) fn author(&self) -> Option<&'a str> {
        self.node.raw("user")
    }
}

/// What any list item is known by: its id, and when it changed last.
pub(super) fn entry(raw: &str) -> Option<(u64, Timestamp)> {
    let node = lenient::read(raw, &ENTRY).ok()?;
    Some((node.number("id")?, moment_in(&node, "updated_at")?))
}

fn moment_in(node: &Node<'_>, field: &str) -> Option<Timestamp> {
    moment::parse(&node.text(field)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = r#"{"number": 4, "state": "open", "title": "t", "comments": 1,
        "labels": [{"name": "b"}, {"name": "A"}, "old"], "user": {"login": "octocat"}}"#;

    #[test]
    fn an_item_carries_labels_whatever_their_case() {
        let item = Item::issue(ISSUE).unwrap();
        let labels = |labels: &[&str]| -> Vec<String> {
            labels.iter().map(|label| (*label).to_owned()).collect()
        };
        assert!(item.carries(&labels(&["a", "B"])));
        assert!(!item.carries(&labels(&["a", "c"])));
        assert_eq!(item.author(), Some(r#"{"login": "octocat"}"#));
    }

    #[test]
    fn only_labels_and_title_make_another_version() {
        let version = |text: &str| Item::issue(text).unwrap().version();
        let own = version(ISSUE);
        assert_eq!(
            own,
            version(&ISSUE.replace("\"comments\": 1", "\"comments\": 2"))
        );
        assert_ne!(own, version(&ISSUE.replace("\"b\"", "\"c\"")));
        assert_ne!(own, version(&ISSUE.replace("\"t\"", "\"u\"")));
        let swapped = ISSUE
            .replace("\"b\"", "\"x\"")
            .replace("\"A\"", "\"b\"")
            .replace("\"x\"", "\"A\"");
        assert_eq!(own, version(&swapped));
    }

    #[test]
    fn an_issue_object_tells_what_it_is_of() {
        let of_pull = r#"{"number": 5, "state": "closed", "closed_at": "2026-11-30T10:00:00Z",
            "pull_request": {"merged_at": "2026-11-30T10:00:00Z"}}"#;
        let item = Item::issue(of_pull).unwrap();
        assert_eq!(item.kind, ItemKind::PullRequest);
        assert!(item.is_merged && !item.is_open && item.closed_at.is_some());
        let item = Item::issue(ISSUE).unwrap();
        assert_eq!(item.kind, ItemKind::Issue);
        assert!(!item.is_merged && item.is_open);
        assert!(Item::issue("{}").is_err());
    }

    #[test]
    fn a_draft_of_a_review_is_nobody_elses_business() {
        let review = |state: &str, submitted: &str| {
            format!(r#"{{"id": 1, "state": "{state}", "submitted_at": {submitted}}}"#)
        };
        let at = "\"2026-11-30T10:00:00Z\"";
        let draft = review("PENDING", at);
        assert!(Said::review(&draft).is_none());
        assert!(Said::review(&review("COMMENTED", "null")).is_none());
        let approved = review("APPROVED", at);
        assert_eq!(Said::review(&approved).unwrap().state(), "approved");
    }
}
