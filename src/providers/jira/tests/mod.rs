mod keys;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::domain::{EventActor, WorkItemRef};

const CLOUD: &str = "acme.atlassian.net";

fn declared(site: &str) -> Declared {
    Declared {
        jira_site: Some(site.to_owned()),
        jira_projects: BTreeSet::from(["PROJ".to_owned()]),
        ..Declared::default()
    }
}

fn parsed(bytes: &[u8], headers: &[(&str, &str)], site: &str) -> Result<Verdict, Rejection> {
    let headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    parse(
        &headers,
        Verified::by_connection(bytes),
        &declared(site),
        Timestamp(7),
    )
}

fn appended(body: &Value) -> Arrival {
    match parsed(body.to_string().as_bytes(), &[], CLOUD) {
        Ok(Verdict::Append(arrival)) => *arrival,
        other => panic!("{other:?}"),
    }
}

fn reason(body: &Value, site: &str) -> DropReason {
    match parsed(body.to_string().as_bytes(), &[], site) {
        Ok(Verdict::Drop(dropped)) => dropped.reason,
        other => panic!("{other:?}"),
    }
}

fn keys(arrival: &Arrival) -> Vec<&str> {
    arrival
        .dedup_keys
        .iter()
        .map(|key| key.text.as_str())
        .collect()
}

fn actor(arrival: &Arrival) -> Option<&str> {
    arrival
        .actor
        .as_ref()
        .map(|EventActor { name, .. }| name.as_str())
}

/// The issue that an arrival names directly.
fn issue(arrival: &Arrival) -> String {
    match arrival.keys.as_slice() {
        [Reference::Direct(work_item)] => work_item.to_string(),
        other => panic!("{other:?}"),
    }
}

/// An update of issue 10001 with a changelog, `more` laid over its top level.
fn update(items: &Value, fields: &Value, more: &Value) -> Value {
    let mut body = json!({
        "webhookEvent": "jira:issue_updated",
        "timestamp": 1_700_000_000_000_i64,
        "user": {"accountId": "5c5f"},
        "issue": {
            "id": "10001",
            "key": "PROJ-12",
            "self": format!("https://{CLOUD}/rest/api/2/issue/10001"),
            "fields": fields,
        },
        "changelog": {"id": "77", "items": items},
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

fn comment(kind: &str, more: &Value) -> Value {
    let mut body = json!({
        "webhookEvent": kind,
        "issue": {
            "id": "10001",
            "key": "PROJ-12",
            "self": format!("https://{CLOUD}/rest/api/2/10001"),
        },
        "comment": {
            "id": "501",
            "author": {"accountId": "writer"},
            "updateAuthor": {"accountId": "editor"},
            "created": "2024-01-02T03:04:05.006+0100",
            "updated": "2024-01-02T03:05:05.006+0100",
        },
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_context_path_and_a_port_do_not_hide_the_site() {
    let site = "jira.corp.example:8443";
    let mut body = update(&json!([]), &json!({}), &json!({}));
    body["issue"]["self"] = json!("https://Jira.Corp.Example:8443/jira/rest/api/2/issue/10001");
    let verdict = parsed(body.to_string().as_bytes(), &[], site);
    let Ok(Verdict::Append(arrival)) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(issue(&arrival), "jira:jira.corp.example:8443/PROJ-12");
    assert_eq!(
        keys(&arrival),
        ["jira:jira.corp.example:8443:issue:10001:changelog:77"]
    );
}

#[test]
fn only_the_declared_site_is_ours() {
    let body = update(&json!([]), &json!({}), &json!({}));
    for site in [
        "other.atlassian.net",
        "acme.atlassian.net:8080",
        "atlassian.net",
    ] {
        assert_eq!(reason(&body, site), DropReason::UndeclaredProject, "{site}");
    }
    for own in [
        json!(null),
        json!(""),
        json!("acme.atlassian.net"),
        json!("https://"),
        json!(7),
    ] {
        let mut body = body.clone();
        body["issue"]["self"] = own;
        assert_eq!(
            reason(&body, CLOUD),
            DropReason::UndeclaredProject,
            "{body}"
        );
    }
}

#[test]
fn an_undeclared_project_is_ours_only_through_a_binding() {
    let mut body = update(&json!([]), &json!({}), &json!({}));
    body["issue"]["key"] = json!("OPS-3");
    let arrival = appended(&body);
    let [
        Reference::Bound {
            provider: Provider::Jira,
            key,
        },
    ] = arrival.keys.as_slice()
    else {
        panic!("{:?}", arrival.keys);
    };
    assert_eq!(key, "jira:acme.atlassian.net/ops-3");
    assert_eq!(
        *key,
        WorkItemRef::parse("jira:acme.atlassian.net/OPS-3")
            .unwrap()
            .key()
    );
    assert_eq!(
        arrival.on_unresolved,
        OnUnresolved::Drop(DropReason::UndeclaredProject)
    );
}

#[test]
fn what_names_no_issue_is_about_no_work_item() {
    for key in ["proj-1", "PROJ-0", "PROJ", "PROJ-1/../2", "-1"] {
        let mut body = update(&json!([]), &json!({}), &json!({}));
        body["issue"]["key"] = json!(key);
        assert_eq!(reason(&body, CLOUD), DropReason::NoWorkItem, "{key}");
    }
    for kind in ["project_created", "sprint_started", "worklog_created", ""] {
        assert_eq!(
            reason(&json!({"webhookEvent": kind}), CLOUD),
            DropReason::NoWorkItem
        );
    }
    assert_eq!(
        reason(&json!({"webhookEvent": "comment_updated"}), CLOUD),
        DropReason::Keyless
    );
}

#[test]
fn a_moved_issue_is_the_one_that_it_became() {
    let items = json!([
        {"field": "Key", "fieldtype": "jira", "fromString": "OLD-4", "toString": "PROJ-12"},
        {"field": "project", "fieldtype": "jira", "from": "1", "to": "2"},
    ]);
    let arrival = appended(&update(&items, &json!({}), &json!({})));
    assert_eq!(issue(&arrival), "jira:acme.atlassian.net/PROJ-12");
    assert_eq!(
        keys(&arrival),
        ["jira:acme.atlassian.net:issue:10001:changelog:77"]
    );
}

#[test]
fn the_actor_is_who_did_it() {
    for (body, expected) in [
        (comment("comment_created", &json!({})), Some("writer")),
        (comment("comment_updated", &json!({})), Some("editor")),
        (comment("comment_deleted", &json!({})), None),
        (
            comment("comment_deleted", &json!({"user": {"name": "admin"}})),
            Some("admin"),
        ),
        (
            comment("comment_created", &json!({"user": {"key": "JIRAUSER1"}})),
            Some("JIRAUSER1"),
        ),
        (
            comment("comment_created", &json!({"user": null})),
            Some("writer"),
        ),
        (
            comment("comment_created", &json!({"user": {"name": " "}})),
            Some("writer"),
        ),
        (
            comment(
                "worklog_updated",
                &json!({"worklog": {"updateAuthor": {"accountId": "w"}}}),
            ),
            Some("w"),
        ),
        (update(&json!([]), &json!({}), &json!({"user": {}})), None),
        (
            update(
                &json!([]),
                &json!({}),
                &json!({"user": {"name": "n".repeat(201), "key": "JIRAUSER2"}}),
            ),
            Some("JIRAUSER2"),
        ),
    ] {
        assert_eq!(actor(&appended(&body)), expected, "{body}");
    }
}

#[test]
fn the_headers_tell_the_delivery_and_the_retry() {
    let body = update(&json!([]), &json!({}), &json!({})).to_string();
    let headers = [
        (IDENTIFIER, "wh-1"),
        (RETRY, "2"),
        ("x-atlassian-webhook-flow", "Primary"),
        ("content-type", "application/json"),
        ("authorization", "Basic secret"),
    ];
    let Ok(Verdict::Append(arrival)) = parsed(body.as_bytes(), &headers, CLOUD) else {
        panic!("dropped");
    };
    assert_eq!(arrival.delivery_id, "wh-1");
    assert_eq!(
        arrival.dedup_keys.first(),
        Some(&DedupKey::delivery(
            "jira:acme.atlassian.net:delivery:wh-1".to_owned()
        ))
    );
    assert!(arrival.is_retry);
    assert_eq!(arrival.source, Source::Webhook);
    assert_eq!(arrival.received_at, Timestamp(7));
    let stored: Vec<&str> = arrival.headers.keys().map(String::as_str).collect();
    assert_eq!(
        stored,
        [
            "content-type",
            "x-atlassian-webhook-flow",
            IDENTIFIER,
            RETRY
        ]
    );
}

#[test]
fn a_blank_identifier_is_none() {
    let body = update(&json!([]), &json!({}), &json!({})).to_string();
    let Ok(Verdict::Append(arrival)) = parsed(body.as_bytes(), &[(IDENTIFIER, " ")], CLOUD) else {
        panic!("dropped");
    };
    assert_eq!(
        arrival.delivery_id,
        digest::fallback_delivery_id(body.as_bytes())
    );
    assert_eq!(
        keys(&arrival),
        ["jira:acme.atlassian.net:issue:10001:changelog:77"]
    );
    assert!(!arrival.is_retry);
}

#[test]
fn what_is_no_json_object_is_refused() {
    for bad in [
        &b""[..],
        b"[]",
        b"null",
        b"{",
        b"\xef\xbb\xbf{}",
        b"{\"a\": \"\xff\"}",
        b"payload=%7B%7D",
    ] {
        assert_eq!(
            parsed(bad, &[], CLOUD).unwrap_err(),
            Rejection::InvalidPayload,
            "{bad:?}"
        );
    }
}

#[test]
fn oddities_of_json_are_stored_as_sent() {
    let own = format!("https://{CLOUD}/rest/api/2/issue/10001");
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let text = format!(
        r#"{{"webhookEvent": "x", "issue": {{"key": "OLD-1"}}, "odd": "\ud800", "deep": {deep},
            "issue": {{"id": "\udfff", "key": "PROJ-12", "self": "{own}"}}, "webhookEvent": "y",
            "changelog": {{"id": "77"}}}}"#
    );
    let Ok(Verdict::Append(arrival)) = parsed(text.as_bytes(), &[], CLOUD) else {
        panic!("dropped");
    };
    assert_eq!(issue(&arrival), "jira:acme.atlassian.net/PROJ-12");
    assert_eq!(arrival.kind, "y");
    assert!(keys(&arrival)[0].starts_with("jira:acme.atlassian.net:sha256:"));
    assert_eq!(arrival.payload.text().unwrap(), text.as_bytes());
}

#[test]
fn a_kind_that_is_not_given_is_unknown() {
    let body = update(&json!([]), &json!({}), &json!({"webhookEvent": null}));
    assert_eq!(appended(&body).kind, "unknown");
}
