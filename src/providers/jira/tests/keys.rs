use super::*;

#[test]
fn a_comment_has_one_key_for_its_creation_and_one_for_each_change() {
    let updated = "1704161105006";
    for (body, verb) in [
        (comment("comment_created", &json!({})), "created".to_owned()),
        (
            comment("comment_updated", &json!({})),
            format!("updated:{updated}"),
        ),
        (
            comment("comment_deleted", &json!({})),
            format!("deleted:{updated}"),
        ),
        (
            comment(
                "jira:issue_updated",
                &json!({"issue_event_type_name": "issue_commented"}),
            ),
            "created".to_owned(),
        ),
        (
            comment(
                "jira:issue_updated",
                &json!({"issue_event_type_name": "issue_comment_edited"}),
            ),
            format!("updated:{updated}"),
        ),
        (
            comment("jira:issue_updated", &json!({})),
            format!("updated:{updated}"),
        ),
        (
            comment(
                "jira:issue_updated",
                &json!({"changelog": {"id": "9", "items": []}}),
            ),
            format!("updated:{updated}"),
        ),
    ] {
        let key = format!("jira:acme.atlassian.net:comment:501:{verb}");
        assert_eq!(keys(&appended(&body)), [key], "{body}");
    }
}

#[test]
fn an_old_server_tells_creation_from_change_by_the_two_moments() {
    let mut body = comment("jira:issue_updated", &json!({}));
    body["comment"]["updated"] = json!("2024-01-02T02:04:05.006Z");
    assert_eq!(
        keys(&appended(&body)),
        ["jira:acme.atlassian.net:comment:501:created"]
    );
}

#[test]
fn a_comment_that_comes_with_a_change_is_that_change() {
    let comment = json!({"comment": {"id": 501}, "issue_event_type_name": "issue_commented"});
    let items = json!([{"field": "priority", "from": "1", "to": "2"}]);
    let arrival = appended(&update(&items, &json!({}), &comment));
    assert_eq!(
        keys(&arrival),
        ["jira:acme.atlassian.net:issue:10001:changelog:77"]
    );
}

#[test]
fn a_closure_is_known_by_its_moment() {
    let resolution = json!([{"field": "resolution", "from": null, "to": "10000"}]);
    let resolved = json!({"resolutiondate": "2023-11-14T23:13:20.000+0100"});
    let status = json!([{"field": "status", "fieldId": "status", "from": "1", "to": "3"}]);
    let done = |changed: &str| {
        json!({
            "status": {"statusCategory": {"key": "done"}},
            "statuscategorychangedate": changed,
        })
    };
    for (items, fields) in [
        (&resolution, resolved.clone()),
        (&status, done("2023-11-14T22:13:20.000Z")),
    ] {
        let arrival = appended(&update(items, &fields, &json!({})));
        assert_eq!(
            keys(&arrival),
            ["jira:acme.atlassian.net:close:10001:1700000000000"]
        );
    }
}

#[test]
fn what_would_share_the_moment_of_an_earlier_closure_is_none() {
    let other = json!([{"field": "resolution", "from": "10000", "to": "10001"}]);
    let reopened = json!([{"field": "resolution", "from": "10000", "to": null}]);
    let status = json!([{"field": "status", "from": "5", "to": "6"}]);
    let custom = json!([{"field": "Resolution", "fieldId": "customfield_1", "to": "1"}]);
    let local = json!([{"field": "resolution", "fieldtype": "custom", "to": "1"}]);
    let resolved = json!({
        "resolutiondate": "2023-11-14T22:13:20.000Z",
        "status": {"statusCategory": {"key": "done"}},
    });
    let late = json!({
        "resolutiondate": "2023-11-14T22:12:20.000Z",
        "status": {"statusCategory": {"key": "done"}},
        "statuscategorychangedate": "2023-11-14T22:13:20.000Z",
    });
    let earlier = json!({
        "status": {"statusCategory": {"key": "done"}},
        "statuscategorychangedate": "2023-11-14T22:12:20.000Z",
    });
    for (items, fields) in [
        (&other, &resolved),
        (&reopened, &resolved),
        (&status, &resolved),
        (&custom, &resolved),
        (&local, &resolved),
        (&status, &earlier),
        (&status, &late),
    ] {
        let arrival = appended(&update(items, fields, &json!({})));
        assert_eq!(
            keys(&arrival),
            ["jira:acme.atlassian.net:issue:10001:changelog:77"],
            "{items}"
        );
    }
}

#[test]
fn numbers_do_for_ids() {
    let mut body = update(&json!([]), &json!({}), &json!({}));
    body["issue"]["id"] = json!(10001);
    body["changelog"]["id"] = json!(77);
    assert_eq!(
        keys(&appended(&body)),
        ["jira:acme.atlassian.net:issue:10001:changelog:77"]
    );
}

#[test]
fn without_any_identity_the_hash_is_one() {
    let mut body = update(&json!([]), &json!({}), &json!({}));
    body["changelog"]["id"] = json!("");
    let text = format!(" {body}\n");
    let Ok(Verdict::Append(arrival)) = parsed(text.as_bytes(), &[], CLOUD) else {
        panic!("dropped");
    };
    let hash = digest::sha256(body.to_string().as_bytes());
    assert_eq!(
        keys(&arrival),
        [format!("jira:acme.atlassian.net:sha256:{hash}")]
    );
    assert_eq!(
        arrival.delivery_id,
        digest::fallback_delivery_id(text.as_bytes())
    );
}

#[test]
fn a_polled_item_shares_the_key_of_its_webhook() {
    let found = |item: Polled, body: &Value| {
        let id = "poll-1".to_owned();
        let text = body.to_string();
        match polled(
            item,
            Verified::by_connection(text.as_bytes()),
            id,
            &declared(CLOUD),
            Timestamp(7),
        ) {
            Ok(Verdict::Append(arrival)) => *arrival,
            other => panic!("{other:?}"),
        }
    };
    // The REST API names the issue by the address that was asked, which may be another one.
    let mut new_comment = comment("comment_created", &json!({}));
    new_comment["issue"]["self"] = json!("https://api.atlassian.com/ex/jira/1/rest/api/3/issue/1");
    let arrival = found(Polled::Comment, &new_comment);
    assert_eq!(
        keys(&arrival),
        ["jira:acme.atlassian.net:comment:501:created"]
    );
    assert_eq!(issue(&arrival), "jira:acme.atlassian.net/PROJ-12");
    assert_eq!(
        (arrival.source, &*arrival.delivery_id),
        (Source::Poll, "poll-1")
    );
    assert_eq!(actor(&arrival), Some("writer"));

    let fields = json!({"resolutiondate": "2023-11-14T22:13:20.000+0000"});
    let closed = update(&json!([]), &fields, &json!({"changelog": null}));
    let arrival = found(Polled::Closure, &closed);
    assert_eq!(
        keys(&arrival),
        ["jira:acme.atlassian.net:close:10001:1700000000000"]
    );
    assert!(found(Polled::Presence, &closed).dedup_keys.is_empty());
}

#[test]
fn a_comment_without_moments_is_not_taken_for_a_new_one() {
    let mut body = comment("jira:issue_updated", &json!({}));
    for moment in ["created", "updated"] {
        body["comment"][moment] = json!(null);
    }
    assert!(keys(&appended(&body))[0].starts_with("jira:acme.atlassian.net:sha256:"));
}
