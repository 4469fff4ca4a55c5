//! What the gateway reads of a Jira body, Cloud or Data Center, webhook or polled.

use std::borrow::Cow;

use super::moment::epoch_millis;
use crate::domain::{EventActor, Provider};
use crate::providers::lenient::{self, Node, NotJson, Want};

const ACCOUNT: Want = Want::Object(&[
    ("accountId", Want::Leaf),
    ("name", Want::Leaf),
    ("key", Want::Leaf),
]);

const BODY: Want = Want::Object(&[
    ("webhookEvent", Want::Leaf),
    ("issue_event_type_name", Want::Leaf),
    ("timestamp", Want::Leaf),
    ("user", ACCOUNT),
    (
        "issue",
        Want::Object(&[
            ("id", Want::Leaf),
            ("key", Want::Leaf),
            ("self", Want::Leaf),
            ("fields", FIELDS),
        ]),
    ),
    (
        "comment",
        Want::Object(&[
            ("id", Want::Leaf),
            ("self", Want::Leaf),
            ("author", ACCOUNT),
            ("updateAuthor", ACCOUNT),
            ("created", Want::Leaf),
            ("updated", Want::Leaf),
        ]),
    ),
    (
        "worklog",
        Want::Object(&[("author", ACCOUNT), ("updateAuthor", ACCOUNT)]),
    ),
    ("attachment", Want::Object(&[("author", ACCOUNT)])),
    (
        "changelog",
        Want::Object(&[("id", Want::Leaf), ("items", CHANGES)]),
    ),
]);

const FIELDS: Want = Want::Object(&[
    ("resolutiondate", Want::Leaf),
    ("statuscategorychangedate", Want::Leaf),
    (
        "status",
        Want::Object(&[("statusCategory", Want::Object(&[("key", Want::Leaf)]))]),
    ),
]);

const CHANGES: Want = Want::Items(&[
    ("field", Want::Leaf),
    ("fieldId", Want::Leaf),
    ("fieldtype", Want::Leaf),
    ("from", Want::Leaf),
    ("to", Want::Leaf),
]);

/// What happened to a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Created,
    Updated,
    Deleted,
}

impl Verb {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// One changed field of an issue.
pub(super) struct Change<'a>(&'a Node<'a>);

impl Change<'_> {
    /// True for the change of this system field; a custom field can bear the same name.
    pub(super) fn is_of(&self, field: &str) -> bool {
        let is_custom = self
            .0
            .text("fieldtype")
            .is_some_and(|kind| kind == "custom");
        let name = self.0.text("fieldId").or_else(|| self.0.text("field"));
        !is_custom && name.is_some_and(|name| name.eq_ignore_ascii_case(field))
    }

    /// True when the field had no value before and has one now.
    pub(super) fn is_first_value(&self) -> bool {
        self.0.id("from").is_none() && self.0.id("to").is_some()
    }
}

/// A Jira body.
#[derive(Debug)]
pub(super) struct Body<'a>(Node<'a>);

impl<'a> Body<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, NotJson> {
        lenient::read(text, &BODY).map(Self)
    }

    /// `webhookEvent`; empty when there is none.
    pub(super) fn kind(&self) -> Cow<'a, str> {
        self.0.text("webhookEvent").unwrap_or_default()
    }

    pub(super) fn issue_key(&self) -> Option<Cow<'a, str>> {
        self.0.at("issue").text("key")
    }

    pub(super) fn issue_id(&self) -> Option<Cow<'a, str>> {
        self.0.at("issue").id("id")
    }

    pub(super) fn changelog_id(&self) -> Option<Cow<'a, str>> {
        self.0.at("changelog").id("id")
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.0.at("changelog").items("items").map(Change)
    }

    pub(super) fn comment_id(&self) -> Option<Cow<'a, str>> {
        self.0.at("comment").id("id")
    }

    /// `host[:port]` of the Jira that sent it, without a context path.
    pub(super) fn site(&self) -> Option<String> {
        let own = self.0.at("issue").text("self");
        let url = own.or_else(|| self.0.at("comment").text("self"))?;
        let (_, rest) = url.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        (!host.is_empty()).then(|| host.to_ascii_lowercase())
    }

    /// What happened to the comment that the body is about.
    pub(super) fn verb(&self) -> Option<Verb> {
        match &*self.kind() {
            "comment_created" => Some(Verb::Created),
            "comment_updated" => Some(Verb::Updated),
            "comment_deleted" => Some(Verb::Deleted),
            "jira:issue_updated" => self.comment_id().map(|_| self.verb_of_twin()),
            _ => None,
        }
    }

    /// Old servers name no event type, and administrators add their own.
    fn verb_of_twin(&self) -> Verb {
        match self.0.text("issue_event_type_name").as_deref() {
            Some("issue_commented") => Verb::Created,
            Some("issue_comment_edited") => Verb::Updated,
            Some("issue_comment_deleted") => Verb::Deleted,
            _ => {
                let comment = self.0.at("comment");
                let created = moment_in(comment, "created");
                if created.is_some() && created == moment_in(comment, "updated") {
                    Verb::Created
                } else {
                    Verb::Updated
                }
            }
        }
    }

    /// When the comment was last changed, in milliseconds.
    pub(super) fn comment_updated(&self) -> Option<i64> {
        moment_in(self.0.at("comment"), "updated")
    }

    /// When the event happened, in milliseconds.
    pub(super) fn timestamp(&self) -> Option<i64> {
        i64::try_from(self.0.number("timestamp")?).ok()
    }

    /// When the event happened, in milliseconds; what is polled tells it of comments alone.
    pub(super) fn happened(&self) -> Option<i64> {
        self.timestamp().or_else(|| self.comment_updated())
    }

    /// When the issue was resolved, in milliseconds.
    pub(super) fn resolved(&self) -> Option<i64> {
        moment_in(self.0.at("issue").at("fields"), "resolutiondate")
    }

    /// When the status last changed its category, in milliseconds; only Cloud tells.
    pub(super) fn category_changed(&self) -> Option<i64> {
        moment_in(self.0.at("issue").at("fields"), "statuscategorychangedate")
    }

    pub(super) fn is_done(&self) -> bool {
        let status = self.0.at("issue").at("fields").at("status");
        let category = status.at("statusCategory").text("key");
        category.is_some_and(|key| key == "done")
    }

    /// Who did it. A deletion without `user` names nobody: the author is not the one who deleted.
    pub(super) fn actor(&self) -> Option<EventActor> {
        account(self.0.at("user")).or_else(|| account(self.author()?))
    }

    fn author(&self) -> Option<&Node<'a>> {
        let author_of = |name: &str| self.0.at(name).at("author");
        let editor_of = |name: &str| self.0.at(name).at("updateAuthor");
        match &*self.kind() {
            "attachment_created" => Some(author_of("attachment")),
            "worklog_created" => Some(author_of("worklog")),
            "worklog_updated" => Some(editor_of("worklog")),
            _ => match self.verb()? {
                Verb::Created => Some(author_of("comment")),
                Verb::Updated => Some(editor_of("comment")),
                Verb::Deleted => None,
            },
        }
    }
}

/// `accountId` on Cloud; Data Center has none, but a `name` and a `key`.
fn account(node: &Node<'_>) -> Option<EventActor> {
    let name = ["accountId", "name", "key"]
        .into_iter()
        .find_map(|field| node.name(field))?;
    Some(EventActor {
        provider: Provider::Jira,
        name: name.into_owned(),
    })
}

fn moment_in(node: &Node<'_>, field: &str) -> Option<i64> {
    epoch_millis(&node.text(field)?)
}
