//! The keys of what the corpus does not hold.

use sha2::{Digest, Sha256};

use super::support::*;
use super::*;

#[test]
fn asking_for_a_check_again_is_an_event_of_its_own() {
    let body = |action: &str| {
        format!(
            r#"{{"action": "{action}", {REPOSITORY}, "check_suite": {{"id": 3, "status": "completed",
                "conclusion": "failure", "updated_at": "T", "pull_requests": [{{"number": 9}}]}}}}"#
        )
    };
    let completed = "gh:github.com:check_suite:3:completed:failure:T";
    assert_eq!(
        object_keys(&stored("check_suite", &body("completed"))),
        completed
    );
    assert_eq!(
        object_keys(&stored("check_suite", &body("rerequested"))),
        format!("{completed}:rerequested:{GUID}")
    );
}

#[test]
fn a_run_that_does_not_count_its_attempts_has_no_key() {
    let body = |attempt: &str| {
        format!(
            r#"{{"action": "completed", {REPOSITORY}, "workflow_run": {{"id": 3, "status": "completed",
                "conclusion": null, "pull_requests": [{{"number": 9}}]{attempt}}}}}"#
        )
    };
    assert_eq!(object_keys(&stored("workflow_run", &body(""))), "-");
    assert_eq!(
        object_keys(&stored("workflow_run", &body(", \"run_attempt\": 2"))),
        "gh:github.com:workflow_run:3:completed:2:completed:-"
    );
}

#[test]
fn the_changed_thing_is_in_the_key() {
    let key = |action: &str, rest: &str| {
        object_keys(&stored("pull_request", &pull_request(action, rest)))
    };
    let with = |thing: &str, action: &str| {
        format!("gh:github.com:pull_request:{action}:7:9:2026-11-30T10:00:00Z:{thing}")
    };
    for (action, rest, thing) in [
        ("labeled", r#""label": {"id": 1}"#, "label=1"),
        (
            "synchronize",
            r#""after": "abc", "before": "def""#,
            "after=abc",
        ),
        (
            "review_requested",
            r#""requested_reviewer": {"id": 2}"#,
            "reviewer=2",
        ),
        (
            "review_requested",
            r#""requested_team": {"id": 3}"#,
            "team=3",
        ),
        (
            "review_request_removed",
            r#""requested_reviewer": null, "requested_team": {"id": 3}"#,
            "team=3",
        ),
        ("milestoned", r#""milestone": {"id": 4}"#, "milestone=4"),
        ("reopened", r#""label": {"id": 1}"#, "-"),
    ] {
        assert_eq!(key(action, rest), with(thing, action), "{action}");
    }
    // Without the thing, two of them would look like one.
    for (action, rest) in [
        ("labeled", r#""label": null"#),
        ("assigned", r#""assignee": null"#),
        ("edited", r#""x": 1"#),
        ("synchronize", r#""after": """#),
        ("review_requested", r#""x": 1"#),
        ("enqueued", r#""x": 1"#),
        ("auto_merge_enabled", r#""x": 1"#),
        ("pinned", r#""x": 1"#),
        ("something_new", r#""x": 1"#),
    ] {
        assert_eq!(key(action, rest), "-", "{action}");
    }
    assert_eq!(
        key("closed", r#""x": 1"#),
        "gh:github.com:close:7:9:2026-11-30T11:00:00Z"
    );
}

#[test]
fn two_edits_in_one_second_are_told_apart_by_what_they_replaced() {
    let key = |changes: &str| {
        let rest = format!("\"changes\": {changes}");
        object_keys(&stored("pull_request", &pull_request("edited", &rest)))
    };
    let title = key(r#"{"title": {"from": "a"}}"#);
    let digest = hex::encode(Sha256::digest(r#"{"title": {"from": "a"}}"#));
    assert_eq!(
        title,
        format!(
            "gh:github.com:pull_request:edited:7:9:2026-11-30T10:00:00Z:changes={}",
            digest.split_at(16).0
        )
    );
    assert_ne!(title, key(r#"{"title": {"from": "b"}}"#));
}

#[test]
fn what_was_said_is_one_thing_until_it_is_changed() {
    let key = |kind: &str, action: &str, said: &str| {
        let rest = format!("\"comment\": {said}, \"review\": {said}");
        object_keys(&stored(kind, &pull_request(action, &rest)))
    };
    let said = r#"{"id": 5, "submitted_at": "S", "updated_at": "U"}"#;
    let unupdated = r#"{"id": 5, "submitted_at": "S"}"#;
    for (kind, action, said, expected) in [
        (
            "issue_comment",
            "created",
            said,
            "gh:github.com:issue_comment:5:created".to_owned(),
        ),
        (
            "pull_request_review",
            "submitted",
            said,
            "gh:github.com:review:5:created".to_owned(),
        ),
        (
            "pull_request_review",
            "dismissed",
            unupdated,
            "gh:github.com:review:5:dismissed:S".to_owned(),
        ),
        // The submission stays the same through every edit.
        (
            "pull_request_review",
            "edited",
            unupdated,
            format!("gh:github.com:review:5:edited:{GUID}"),
        ),
        (
            "pull_request_review",
            "edited",
            said,
            "gh:github.com:review:5:edited:U".to_owned(),
        ),
        (
            "pull_request_review_comment",
            "deleted",
            said,
            "gh:github.com:review_comment:5:deleted:U".to_owned(),
        ),
        (
            "issue_comment",
            "pinned",
            said,
            format!("gh:github.com:issue_comment:5:pinned:{GUID}"),
        ),
        ("issue_comment", "created", r#"{"id": "5"}"#, "-".to_owned()),
    ] {
        assert_eq!(key(kind, action, said), expected, "{kind} {action}");
    }
}

#[test]
fn a_poll_shares_the_keys_of_what_happened_but_never_its_delivery_id() {
    let polled = |kind: &str, body: &str| {
        let headers = headers(&[("x-github-event", kind), ("x-github-delivery", "poll-x")]);
        let body = Verified::by_connection(body.as_bytes());
        match parse_polled(&headers, body, &declared(&["octo/repo"]), NOW).unwrap() {
            Verdict::Append(arrival) => *arrival,
            Verdict::Drop(dropped) => panic!("{dropped:?}"),
        }
    };
    let comment = issue(r#""action": "created", "comment": {"id": 5, "updated_at": "U"}"#);
    let closed = pull_request("closed", r#""x": 1"#);
    for (kind, body) in [("issue_comment", comment), ("pull_request", closed)] {
        let arrival = polled(kind, &body);
        assert_eq!(arrival.source, Source::Poll);
        assert_eq!(arrival.delivery_id, "poll-x");
        assert_eq!(arrival.dedup_keys.len(), 1);
        assert_eq!(object_keys(&arrival), object_keys(&stored(kind, &body)));
    }
    // Presence comes again on purpose; an edited comment could only be told by a real delivery.
    let presence = issue(r#""action": "labeled", "label": {"id": 1}"#);
    assert_eq!(polled("issues", &presence).dedup_keys, []);
    let edited = issue(r#""action": "edited", "comment": {"id": 5}"#);
    assert_eq!(polled("issue_comment", &edited).dedup_keys, []);
}
