//! When an event happened, as far as its payload tells.

use crate::domain::Timestamp;
use crate::providers::lenient::Node;

/// The moment of a comment, review, change or check; `None` where the payload only has older
/// moments, as that of a deletion does.
pub(super) fn at(kind: &str, payload: &Node<'_>) -> Option<Timestamp> {
    // A kind is what a header says: only objects that are read may be named by it.
    let object = payload.at(match kind {
        "issue_comment" | "pull_request_review_comment" => "comment",
        "pull_request_review" => "review",
        "issues" => "issue",
        "pull_request" => "pull_request",
        "check_run" => "check_run",
        "check_suite" => "check_suite",
        "workflow_run" => "workflow_run",
        "workflow_job" => "workflow_job",
        _ => return None,
    });
    let action = payload.text("action");
    let field = match (kind, action.as_deref().unwrap_or_default()) {
        (_, "deleted" | "dismissed") => return None,
        ("pull_request_review", "submitted") => "submitted_at",
        ("issues" | "pull_request", "closed") => "closed_at",
        ("check_run" | "workflow_job", _) => "completed_at",
        _ => "updated_at",
    };
    let moment: jiff::Timestamp = object.text(field)?.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::super::want;
    use super::*;
    use crate::providers::lenient;

    fn of(kind: &str, body: &str) -> Option<Timestamp> {
        at(kind, &lenient::read(body, &want::PAYLOAD).unwrap())
    }

    #[test]
    fn the_moment_is_that_of_what_happened() {
        let moment = Some(Timestamp(1_700_000_000_000));
        for (kind, body) in [
            (
                "issue_comment",
                r#"{"action":"created","comment":{"updated_at":"2023-11-14T22:13:20Z"},
                    "issue":{"updated_at":"2020-01-01T00:00:00Z"}}"#,
            ),
            (
                "pull_request_review",
                r#"{"action":"submitted","review":{"submitted_at":"2023-11-14T22:13:20Z"}}"#,
            ),
            (
                "issues",
                r#"{"action":"closed","issue":{"closed_at":"2023-11-14T22:13:20Z",
                    "updated_at":"2023-11-14T22:13:21Z"}}"#,
            ),
            (
                "pull_request",
                r#"{"action":"labeled","pull_request":{"updated_at":"2023-11-14T22:13:20Z"}}"#,
            ),
            (
                "check_run",
                r#"{"action":"completed","check_run":{"completed_at":"2023-11-14T22:13:20Z"}}"#,
            ),
        ] {
            assert_eq!(of(kind, body), moment, "{kind}");
        }
    }

    #[test]
    fn what_the_payload_does_not_tell_is_not_guessed() {
        for (kind, body) in [
            (
                "issue_comment",
                r#"{"action":"deleted","comment":{"updated_at":"2023-11-14T22:13:20Z"}}"#,
            ),
            (
                "issue_comment",
                r#"{"action":"created","comment":{"updated_at":"then"}}"#,
            ),
            ("issue_comment", r#"{"action":"created"}"#),
            ("push", "{}"),
            (
                "anything",
                r#"{"issue":{"updated_at":"2023-11-14T22:13:20Z"}}"#,
            ),
        ] {
            assert_eq!(of(kind, body), None, "{kind} {body}");
        }
    }
}
