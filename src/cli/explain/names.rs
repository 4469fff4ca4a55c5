//! What people call an event, and what the store knows it by.

use crate::domain::WorkItemRef;

/// What a person asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A number, which may be an event's, or a name that has digits only.
    Number(i64),
    /// A name: an id of a delivery, a key, or the part of a key that a URL tells.
    Name(String),
    /// A work item, which is no event.
    WorkItem,
}

impl Asked {
    /// Reads what was given.
    pub(super) fn parse(text: &str) -> Self {
        if let Some(number) = text.parse().ok().filter(|number| *number > 0) {
            return Self::Number(number);
        }
        if WorkItemRef::parse(text).is_ok() {
            return Self::WorkItem;
        }
        Self::Name(key_of_url(text).unwrap_or_else(|| text.to_owned()))
    }
}

/// The part of a key behind its scope that the URL of a comment or message tells.
fn key_of_url(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("://")?;
    if let Some((_, fragment)) = rest.split_once('#') {
        return key_of_fragment(fragment);
    }
    if let Some((_, query)) = rest.split_once("focusedCommentId=") {
        return digits(query).map(|id| format!("comment:{id}:created"));
    }
    let (_, message) = rest.split_once("/archives/")?;
    let (channel, message) = message.split_once("/p")?;
    let ts = digits(message)?;
    let (seconds, micros) = ts.split_at_checked(ts.len().checked_sub(6)?)?;
    Some(format!("msg:{channel}:{seconds}.{micros}"))
}

/// GitHub's anchors of comments, review comments and reviews.
fn key_of_fragment(fragment: &str) -> Option<String> {
    const ANCHORS: [(&str, &str); 3] = [
        ("issuecomment-", "issue_comment"),
        ("discussion_r", "review_comment"),
        ("pullrequestreview-", "review"),
    ];
    ANCHORS.iter().find_map(|(anchor, surface)| {
        let id = digits(fragment.strip_prefix(anchor)?)?;
        Some(format!("{surface}:{id}:created"))
    })
}

/// The digits that a text begins with, at least one.
fn digits(text: &str) -> Option<&str> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..end).filter(|digits| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_comment_or_a_message_names_its_key() {
        for (url, key) in [
            (
                "https://github.com/octo/repo/issues/15#issuecomment-9001",
                "issue_comment:9001:created",
            ),
            (
                "https://github.com/octo/repo/pull/7#discussion_r77",
                "review_comment:77:created",
            ),
            (
                "https://ghe.acme/octo/repo/pull/7#pullrequestreview-5",
                "review:5:created",
            ),
            (
                "https://acme.atlassian.net/browse/PROJ-1?focusedCommentId=10042",
                "comment:10042:created",
            ),
            (
                "https://acme.slack.com/archives/C0123/p1700000000123456?thread_ts=1.2",
                "msg:C0123:1700000000.123456",
            ),
        ] {
            assert_eq!(Asked::parse(url), Asked::Name(key.to_owned()), "{url}");
        }
    }

    #[test]
    fn everything_else_is_taken_as_it_is() {
        assert_eq!(Asked::parse("208"), Asked::Number(208));
        assert_eq!(Asked::parse("github:octo/repo#15"), Asked::WorkItem);
        for name in [
            "72d3162e-cc78-11e3-81ab-4c9367dc0958",
            "gh:github.com:issue_comment:9001:created",
            "Ev0123",
            "0",
            "https://github.com/octo/repo/issues/15",
            "https://acme.slack.com/archives/C0123/p12",
        ] {
            assert_eq!(Asked::parse(name), Asked::Name(name.to_owned()), "{name}");
        }
    }
}
