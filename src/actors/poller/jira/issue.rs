//! Issues and comments as Jira's REST API shows them.

use crate::actors::poller::moment;
use crate::digest;
use crate::domain::Timestamp;
use crate::providers::lenient::{self, Fields, Node, Want};

/// Characters of the digest that tells apart what a presence states.
const VERSION_CHARS: usize = 16;
const LABEL_CHARS_MAX: usize = 255;

/// The fields that are asked for: what a webhook's consumers look at, without the long texts.
pub(super) const FIELDS: &str = "summary,labels,status,issuetype,project,priority,assignee,\
    reporter,creator,created,updated,resolution,resolutiondate,statuscategorychangedate,parent";

const ACCOUNT: Fields = &[("accountId", Want::Leaf)];

static ISSUE: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("key", Want::Leaf),
    (
        "fields",
        Want::Object(&[
            ("summary", Want::Leaf),
            ("labels", Want::Leaf),
            ("updated", Want::Leaf),
            ("resolutiondate", Want::Leaf),
            ("statuscategorychangedate", Want::Leaf),
            (
                "status",
                Want::Object(&[("statusCategory", Want::Object(&[("key", Want::Leaf)]))]),
            ),
            ("creator", Want::Whole(ACCOUNT)),
            ("reporter", Want::Whole(ACCOUNT)),
        ]),
    ),
]);

static COMMENT: Want = Want::Object(&[
    ("id", Want::Leaf),
    ("created", Want::Leaf),
    ("author", Want::Whole(ACCOUNT)),
]);

/// An issue.
#[derive(Debug)]
pub(super) struct Issue<'a> {
    /// As sent.
    pub(super) raw: &'a str,
    pub(super) key: String,
    pub(super) is_done: bool,
    /// What it is known by on the list of changes.
    pub(super) entry: String,
    /// When it changed last.
    pub(super) updated: Option<Timestamp>,
    labels: Vec<String>,
    node: Node<'a>,
}

impl<'a> Issue<'a> {
    /// `None` when it lacks what every issue has.
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        let node = lenient::read(raw, &ISSUE).ok()?;
        let (id, key) = (node.id("id")?, node.text("key")?.into_owned());
        let fields = node.at("fields");
        let labels = fields.raw("labels").unwrap_or("[]");
        let category = fields.at("status").at("statusCategory").text("key");
        let updated = fields.text("updated").unwrap_or_default();
        Some(Self {
            raw,
            key,
            is_done: category.is_some_and(|key| key == "done"),
            entry: format!("{id}@{updated}"),
            updated: moment::parse(&updated),
            labels: serde_json::from_str(labels).unwrap_or_default(),
            node,
        })
    }

    /// True when it carries all of these labels.
    pub(super) fn carries(&self, labels: &[String]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    /// When it was closed, as far as Jira tells.
    pub(super) fn closed_at(&self) -> Option<Timestamp> {
        let fields = self.node.at("fields");
        ["resolutiondate", "statuscategorychangedate"]
            .into_iter()
            .find_map(|field| moment::parse(&fields.text(field)?))
    }

    /// The account object of its author.
    pub(super) fn author(&self) -> Option<&'a str> {
        let fields = self.node.at("fields");
        fields.raw("creator").or_else(|| fields.raw("reporter"))
    }

    /// Tells apart what a presence states: the labels and the summary.
    pub(super) fn version(&self) -> String {
        let mut labels = self.labels.clone();
        labels.sort_unstable();
        let summary = self.node.at("fields").text("summary").unwrap_or_default();
        let text = format!("{summary}\n{}", labels.join("\n"));
        let mut version = digest::sha256_hex(text.as_bytes());
        version.truncate(VERSION_CHARS);
        version
    }
}

/// A comment.
#[derive(Debug)]
pub(super) struct Comment<'a> {
    /// As sent.
    pub(super) raw: &'a str,
    pub(super) id: String,
    pub(super) at: Timestamp,
    /// The account object of its author.
    pub(super) author: Option<&'a str>,
}

impl<'a> Comment<'a> {
    /// `None` when it lacks what every comment has.
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        let node = lenient::read(raw, &COMMENT).ok()?;
        Some(Self {
            raw,
            id: node.id("id")?.into_owned(),
            at: moment::parse(&node.text("created")?)?,
            author: node.raw("author"),
        })
    }
}

/// A label as Jira can hold it: blanks after a colon go, others become hyphens. `None` when there
/// is no such label.
pub(super) fn jira_label(label: &str) -> Option<String> {
    let words: Vec<&str> = label.split_whitespace().collect();
    let mut safe = String::with_capacity(label.len());
    for word in words {
        if !safe.is_empty() && !safe.ends_with(':') {
            safe.push('-');
        }
        safe.push_str(word);
    }
    (!safe.is_empty() && safe.chars().count() <= LABEL_CHARS_MAX).then_some(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_made_safe_for_jira() {
        for (label, safe) in [
            ("the-loop: auto-execute", Some("the-loop:auto-execute")),
            ("the-loop:auto-execute", Some("the-loop:auto-execute")),
            ("  good first\tissue ", Some("good-first-issue")),
            ("a:  b c", Some("a:b-c")),
            ("  ", None),
            (&"x".repeat(256), None),
        ] {
            assert_eq!(jira_label(label).as_deref(), safe, "{label}");
        }
    }

    #[test]
    fn an_issue_tells_whether_and_when_it_was_closed() {
        let issue = |category: &str, fields: &str| {
            format!(
                r#"{{"id": "10", "key": "KEY-1", "fields": {{"labels": ["b", "a"], {fields}
                "status": {{"statusCategory": {{"key": "{category}"}}}}, "updated": "u"}}}}"#
            )
        };
        let open = issue("indeterminate", "");
        let open = Issue::read(&open).unwrap();
        assert!(!open.is_done && open.closed_at().is_none());
        assert_eq!(open.entry, "10@u");
        assert!(open.carries(&["a".to_owned(), "b".to_owned()]));
        assert!(!open.carries(&["A".to_owned()]));
        let dates = r#""resolutiondate": null,
            "statuscategorychangedate": "2026-09-21T16:13:20.000+0200","#;
        let done = issue("done", dates);
        let done = Issue::read(&done).unwrap();
        assert!(done.is_done);
        assert_eq!(done.closed_at(), Some(Timestamp(1_790_000_000_000)));
    }
}
