//! What the corpus does not hold.

use sha2::{Digest, Sha256};

use super::support::*;
use super::*;
use crate::providers::RepositoryMoved;

#[test]
fn an_event_carries_what_the_store_and_the_consumer_need() {
    let body = format!(
        " {}\n",
        issue(r#""action": "opened", "sender": {"login": "Octo-Cat"}"#)
    );
    let arrival = stored("issues", &body);
    assert_eq!(arrival.provider, Provider::GitHub);
    assert_eq!(arrival.source, Source::Webhook);
    assert_eq!(arrival.delivery_id, GUID);
    assert_eq!(arrival.kind, "issues");
    assert_eq!(arrival.received_at, NOW);
    assert_eq!(references(&arrival), ["github:octo/repo#4"]);
    assert_eq!(arrival.actor.unwrap().name, "Octo-Cat");
    assert_eq!(arrival.payload.text().unwrap(), body.trim().as_bytes());
    let keys: Vec<&str> = arrival
        .dedup_keys
        .iter()
        .map(|key| key.text.as_str())
        .collect();
    assert_eq!(
        keys,
        [
            format!("github:github.com:delivery:{GUID}").as_str(),
            "gh:github.com:issues:opened:7:4:2026-11-30T10:00:00Z:-"
        ]
    );
    assert!(!arrival.is_retry);
}

#[test]
fn only_the_headers_that_a_repost_needs_are_stored() {
    let long = "x".repeat(300);
    let mut sent = headers(&[
        ("x-github-event", "issues"),
        ("x-github-delivery", GUID),
        ("x-github-hook-id", &long),
        ("x-github-hook-installation-target-type", "repository"),
        ("x-github-enterprise-version", "3.4\u{e9}"),
        ("x-hub-signature-256", "sha256=0"),
        ("authorization", "Basic secret"),
        ("content-type", "application/json"),
    ]);
    let body = issue(r#""action": "opened""#);
    let Verdict::Append(arrival) =
        deliver(&sent, body.as_bytes(), &declared(&["octo/repo"])).unwrap()
    else {
        panic!();
    };
    sent.retain(|name, _| {
        [
            "x-github-event",
            "x-github-delivery",
            "x-github-hook-installation-target-type",
        ]
        .contains(&name.as_str())
    });
    sent.insert("x-github-hook-id".to_owned(), "x".repeat(200));
    assert_eq!(arrival.headers, sent);
}

#[test]
fn a_delivery_without_an_id_gets_a_fallback_that_is_no_key() {
    let body = issue(r#""action": "opened""#);
    let declared = declared(&["octo/repo"]);
    for sent in [
        headers(&[]),
        headers(&[("x-github-delivery", " "), ("x-github-event", "\u{1}")]),
        headers(&[("x-github-delivery", "é"), ("x-github-event", "é")]),
    ] {
        let Verdict::Append(arrival) = deliver(&sent, body.as_bytes(), &declared).unwrap() else {
            panic!("{sent:?}");
        };
        assert_eq!(arrival.kind, "unknown");
        let digest = hex::encode(Sha256::digest(body.as_bytes()));
        let (start, _) = digest.split_at(16);
        assert_eq!(arrival.delivery_id, format!("sha256-{start}"));
        assert_eq!(arrival.dedup_keys, []);
        assert!(arrival.headers.is_empty());
        assert_eq!(references(&arrival), ["github:octo/repo#4"]);
    }
}

#[test]
fn an_enterprise_host_may_have_a_port() {
    let body = r#"{"action": "created", "comment": {"id": 5, "user": {"login": "hubot"}},
        "repository": {"id": 7, "full_name": "Octo/Repo", "html_url": "https://GHE.corp.example:8443/Octo/Repo"},
        "issue": {"number": 3}}"#;
    let arrival = stored("issue_comment", body);
    assert_eq!(
        references(&arrival),
        ["github:ghe.corp.example:8443/Octo/Repo#3"]
    );
    assert_eq!(
        object_keys(&arrival),
        "gh:ghe.corp.example:8443:issue_comment:5:created"
    );
    assert_eq!(
        arrival.dedup_keys[0].text,
        format!("github:ghe.corp.example:8443:delivery:{GUID}")
    );

    let sent = headers(&[
        ("x-github-event", "issue_comment"),
        ("x-github-delivery", GUID),
        ("x-github-enterprise-host", "GHE.corp.example"),
    ]);
    let declared = declared(&[
        "ghe.corp.example:8443/octo/repo",
        "ghe.corp.example/octo/repo",
    ]);
    let Verdict::Append(arrival) = deliver(&sent, body.as_bytes(), &declared).unwrap() else {
        panic!();
    };
    assert_eq!(
        arrival.dedup_keys[0].text,
        format!("github:ghe.corp.example:delivery:{GUID}")
    );
    let bare = body.replace("https://GHE.corp.example:8443/", "");
    let Verdict::Append(arrival) = deliver(&sent, bare.as_bytes(), &declared).unwrap() else {
        panic!();
    };
    assert_eq!(
        references(&arrival),
        ["github:ghe.corp.example/Octo/Repo#3"]
    );
}

#[test]
fn the_host_is_that_of_the_item_when_the_repository_has_no_url() {
    let body = r#"{"repository": {"full_name": "octo/repo"},
        "issue": {"number": 3, "html_url": "https://user@ghe.corp.example:8443/octo/repo/issues/3"}}"#;
    assert_eq!(
        references(&stored("issues", body)),
        ["github:ghe.corp.example:8443/octo/repo#3"]
    );
    let unnameable = body.replace("ghe.corp.example:8443", "ghe");
    assert_eq!(
        dropped("issues", &unnameable).reason,
        DropReason::NoWorkItem
    );
}

#[test]
fn an_undeclared_repository_is_offered_to_the_bindings() {
    let body = issue(r#""action": "opened""#).replace("octo/repo", "Strange/Repo");
    let arrival = stored("issues", &body);
    assert_eq!(references(&arrival), ["bound github github:strange/repo#4"]);
    assert_eq!(
        arrival.on_unresolved,
        OnUnresolved::Drop(DropReason::UndeclaredRepository)
    );
    assert!(arrival.learns.is_empty() && arrival.also.is_empty());

    let Verdict::Drop(dropped) = deliver(
        &headers(&[("x-github-event", "issues")]),
        body.as_bytes(),
        &Declared::default(),
    )
    .unwrap() else {
        panic!("nothing is declared, so nothing is ours");
    };
    assert_eq!(dropped.reason, DropReason::UndeclaredRepository);
    assert_eq!(dropped.about, "Strange/Repo");
}

#[test]
fn a_check_of_several_pull_requests_is_about_the_first_and_also_the_others() {
    let body = format!(
        r#"{{"action": "completed", {REPOSITORY}, "sender": {{"login": "ci"}}, "check_run": {{"id": 1, "status": "completed",
            "conclusion": "success", "completed_at": "2026-11-30T10:00:00Z", "head_sha": "{sha}", "pull_requests": [
            {{"number": 90, "base": {{"repo": {{"id": 8}}}}}}, {{"number": 9, "base": {{"repo": {{"id": 7}}}}}},
            {{"number": 9}}, {{"number": 0}}, {{"number": 11}}, null]}}}}"#,
        sha = "a".repeat(40)
    );
    let arrival = stored("check_run", &body);
    assert_eq!(references(&arrival), ["github:octo/repo#9"]);
    let also: Vec<String> = arrival.also.iter().map(ToString::to_string).collect();
    assert_eq!(also, ["github:octo/repo#11"]);
    assert_eq!(arrival.actor, None);

    let strange = stored("check_run", &body.replace("octo/repo", "strange/repo"));
    assert_eq!(
        references(&strange),
        [
            "bound github github:strange/repo#9",
            "bound github github:strange/repo#11"
        ]
    );
    assert!(strange.also.is_empty());
}

#[test]
fn a_check_without_pull_requests_is_about_its_suites_or_its_commit() {
    let sha = "AbCd".repeat(10);
    let suite = format!(
        r#"{{"action": "created", {REPOSITORY}, "check_run": {{"id": 1, "status": "queued", "head_sha": "{sha}",
            "pull_requests": [], "check_suite": {{"pull_requests": [{{"number": 12}}]}}}}}}"#
    );
    let arrival = stored("check_run", &suite);
    assert_eq!(references(&arrival), ["github:octo/repo#12"]);
    assert_eq!(
        object_keys(&arrival),
        "gh:github.com:check_run:1:queued:-:-"
    );

    let commit = suite.replace(
        "\"number\": 12",
        "\"number\": 12, \"base\": {\"repo\": {\"id\": 8}}",
    );
    let arrival = stored("check_run", &commit.replace("octo/repo", "Octo/Repo"));
    let sha = sha.to_lowercase();
    assert_eq!(
        references(&arrival),
        [format!("commit github.com/octo/repo {sha}")]
    );
    assert_eq!(arrival.on_unresolved, OnUnresolved::Grace);

    // Commits of what is not declared are never learned, so nothing could ever resolve it.
    let strange = dropped("check_run", &commit.replace("octo/repo", "strange/repo"));
    assert_eq!(strange.reason, DropReason::UndeclaredRepository);
}

#[test]
fn ci_with_neither_pull_request_nor_commit_is_about_nothing() {
    for kind in [
        "check_run",
        "check_suite",
        "workflow_run",
        "workflow_job",
        "status",
    ] {
        for object in [
            "{}",
            "null",
            "[]",
            "{\"head_sha\": \"abc\", \"pull_requests\": {}}",
        ] {
            let body = format!(
                r#"{{{REPOSITORY}, "{kind}": {object}, "sha": null, "issue": {{"number": 1}}}}"#
            );
            let dropped = dropped(kind, &body);
            assert_eq!(dropped.reason, DropReason::NoWorkItem, "{kind} {object}");
            assert_eq!(dropped.about, "octo/repo");
        }
    }
}

#[test]
fn without_a_sender_the_author_did_it_and_a_ghost_is_nobody() {
    let actor = |rest: &str| {
        stored("issue_comment", &issue(rest))
            .actor
            .map(|actor| actor.name)
    };
    let comment = r#""comment": {"id": 5, "user": {"login": "commenter"}}"#;
    assert_eq!(actor(comment).as_deref(), Some("commenter"));
    assert_eq!(
        actor(&format!("{comment}, \"sender\": null")).as_deref(),
        Some("commenter")
    );
    assert_eq!(actor(r#""comment": {"id": 5, "user": null}"#), None);
    assert_eq!(actor(r#""action": "opened""#).as_deref(), Some("author"));
    assert_eq!(
        actor(r#""comment": null, "sender": {"login": ""}"#).as_deref(),
        Some("author")
    );
    let long = "l".repeat(201);
    assert_eq!(
        actor(&format!(
            r#""comment": null, "sender": {{"login": "{long}"}}"#
        ))
        .as_deref(),
        Some("author")
    );
    let ghost = issue(r#""action": "closed""#).replace(r#"{"login": "author"}"#, "null");
    assert_eq!(stored("issues", &ghost).actor, None);
}

#[test]
fn a_pull_request_teaches_its_head_commit() {
    let sha = "0123456789ABCDEF0123456789abcdef01234567";
    let body = format!(
        r#"{{"action": "synchronize", {REPOSITORY}, "pull_request": {{"number": 9, "head": {{"sha": "{sha}", "repo": null}}}}}}"#
    );
    let arrival = stored("pull_request", &body.replace("octo/repo", "Octo/Repo"));
    let [learned] = arrival.learns.as_slice() else {
        panic!("{:?}", arrival.learns);
    };
    assert_eq!(learned.repository, "github.com/octo/repo");
    assert_eq!(learned.sha, sha.to_lowercase());
    assert_eq!(learned.pull_request.to_string(), "github:Octo/Repo#9");
    assert!(
        stored("pull_request", &body.replace("octo/repo", "strange/repo"))
            .learns
            .is_empty()
    );
    assert!(
        stored("pull_request", &body.replace(sha, "main"))
            .learns
            .is_empty()
    );
}

#[test]
fn a_declared_repository_that_moved_is_told_by_both_names() {
    let repository = |full_name: &str, changes: &str, action: &str| {
        let body = format!(
            r#"{{"action": "{action}", "changes": {changes}, "repository": {{"id": 7, "full_name": "{full_name}"}}}}"#
        );
        let dropped = dropped("repository", &body);
        assert_eq!(dropped.reason, DropReason::NoWorkItem);
        dropped.moved
    };
    let renamed = r#"{"repository": {"name": {"from": "old"}}}"#;
    let moved = |from: &str, to: &str| {
        Some(RepositoryMoved {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    };
    assert_eq!(
        repository("octo/new", renamed, "renamed"),
        moved("octo/old", "octo/new")
    );
    assert_eq!(repository("strange/new", renamed, "renamed"), None);
    assert_eq!(repository("octo/OLD", renamed, "renamed"), None);
    assert_eq!(repository("octo/new", renamed, "edited"), None);
    for owner in ["user", "organization"] {
        let transferred = format!(r#"{{"owner": {{"from": {{"{owner}": {{"login": "octo"}}}}}}}}"#);
        assert_eq!(
            repository("acme/repo", &transferred, "transferred"),
            moved("octo/repo", "acme/repo")
        );
    }
    assert_eq!(repository("acme/repo", "null", "transferred"), None);
    let port = r#"{"action": "renamed", "changes": {"repository": {"name": {"from": "repo"}}},
        "repository": {"full_name": "octo/other", "html_url": "https://ghe.corp.example:8443/octo/other"}}"#;
    assert_eq!(
        dropped("repository", port).moved,
        moved(
            "ghe.corp.example:8443/octo/repo",
            "ghe.corp.example:8443/octo/other"
        )
    );
}

#[test]
fn what_names_no_issue_is_dropped_without_complaint() {
    for (kind, body) in [
        (
            "ping",
            r#"{"zen": "Keep it logically awesome.", "hook_id": 1}"#.to_owned(),
        ),
        ("push", format!("{{{REPOSITORY}}}")),
        ("discussion", issue(r#""discussion": {"number": 4}"#)),
        (
            "discussion_comment",
            issue(r#""discussion": {"number": 4}"#),
        ),
        (
            "issues",
            format!(r#"{{{REPOSITORY}, "issue": {{"number": "4"}}}}"#),
        ),
        (
            "issues",
            format!(r#"{{{REPOSITORY}, "issue": {{"number": 0}}}}"#),
        ),
        ("issues", r#"{"issue": {"number": 4}}"#.to_owned()),
        (
            "issues",
            r#"{"repository": {"full_name": "octo"}, "issue": {"number": 4}}"#.to_owned(),
        ),
        (
            "issues",
            r#"{"repository": {"full_name": "octo/re po"}, "issue": {"number": 4}}"#.to_owned(),
        ),
        (
            "issues",
            r#"{"repository": {"full_name": "octo/a\u0000"}, "issue": {"number": 4}}"#.to_owned(),
        ),
        (
            "issues",
            r#"{"repository": {"full_name": "octo/a/b"}, "issue": {"number": 4}}"#.to_owned(),
        ),
    ] {
        let dropped = dropped(kind, &body);
        assert_eq!(dropped.reason, DropReason::NoWorkItem, "{body}");
        assert_eq!(
            (dropped.kind.as_str(), dropped.delivery_id.as_str()),
            (kind, GUID)
        );
        assert_eq!(dropped.moved, None);
    }
    // A kind yet to come is about the issue that it carries.
    assert_eq!(
        references(&stored("issue_reactions", &issue("\"x\": 1"))),
        ["github:octo/repo#4"]
    );
}

#[test]
fn of_duplicate_keys_the_last_wins_and_both_are_stored() {
    let body =
        issue(r#""sender": {"login": "a"}, "sender": {"login": "b"}, "issue": {"number": 5}"#);
    let arrival = stored("issues", &body);
    assert_eq!(references(&arrival), ["github:octo/repo#5"]);
    assert_eq!(arrival.actor.unwrap().name, "b");
    assert_eq!(arrival.payload.text().unwrap(), body.as_bytes());
}

#[test]
fn odd_texts_are_stored_as_sent() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for rest in [
        r#""title": "\ud800", "\udfff": {"\ud83d": "\u0000"}"#.to_owned(),
        format!("\"x\": {deep}"),
        format!("\"changes\": {deep}, \"label\": {deep}"),
    ] {
        let body = issue(&rest);
        let arrival = stored("issues", &body);
        assert_eq!(references(&arrival), ["github:octo/repo#4"]);
        assert_eq!(arrival.payload.text().unwrap(), body.as_bytes());
    }
    let body = issue(r#""action": "\ud800", "sender": {"login": "\udc00"}"#);
    let arrival = stored("issues", &body);
    assert_eq!(object_keys(&arrival), "-");
    assert_eq!(arrival.actor.unwrap().name, "author");
    assert_eq!(arrival.payload.text().unwrap(), body.as_bytes());
}

#[test]
fn what_is_no_json_object_in_utf_8_is_refused() {
    let declared = declared(&["octo/repo"]);
    for body in [
        &b""[..],
        b" \n",
        b"\xef\xbb\xbf{}",
        b"{\"a\": \"\xff\"}",
        b"[]",
        b"null",
        b"{\"a\": 1",
        b"{} {}",
        b"payload={}",
        &[b'['; 200_000],
    ] {
        let headers = headers(&[
            ("x-github-event", "issues"),
            ("content-type", "application/json"),
        ]);
        let refused = deliver(&headers, body, &declared).unwrap_err();
        assert_eq!(refused, Rejection::InvalidPayload, "{body:.20?}");
    }
}
