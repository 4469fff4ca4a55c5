//! Fields that we read and that are not what they should be: each counts as absent.

use serde_json::{Value, json};

use super::{JSON, ROUTES, Route, assert_next, gateway};
use crate::support::{Consumer, TestGateway, comment_on};

/// A text that is no text, in JSON: it counts as absent where it is read.
fn unreadable() -> Vec<String> {
    let mut texts: Vec<String> = [
        "null",
        "true",
        "[]",
        "{}",
        "[{}]",
        r#""""#,
        r#"" ""#,
        r#""\ud800""#,
        r#""a\udc00b""#,
    ]
    .map(str::to_owned)
    .into();
    texts.push(format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)));
    texts.push(format!(
        "{}1{}",
        "{\"login\":".repeat(200_000),
        "}".repeat(200_000)
    ));
    texts
}

/// The actor that the newest event has, empty for none.
fn newest_actor(gateway: &TestGateway) -> String {
    gateway
        .texts("SELECT actor FROM events ORDER BY id DESC LIMIT 1")
        .remove(0)
}

#[test]
fn an_actor_that_cannot_be_read_is_the_next_one_who_can() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for (id, odd) in (1..).zip(unreadable()) {
        let whole = Route::GitHub.payload(id, "");
        let login = whole.replace(r#""login":"octocat""#, &format!(r#""login":{odd}"#));
        let call = Route::GitHub.call(&gateway, JSON, &format!("a-{id}"), login.as_bytes());
        call.send().assert(202);
        assert_eq!(newest_actor(&gateway), "ada", "{id}");
        assert_next(&gateway, &mut laptop, &login);

        let id = id + 1_000;
        let whole = Route::GitHub.payload(id, "");
        let sender = whole.replace(r#"{"login":"octocat"}"#, &odd);
        let call = Route::GitHub.call(&gateway, JSON, &format!("b-{id}"), sender.as_bytes());
        call.send().assert(202);
        assert_eq!(newest_actor(&gateway), "ada", "{id}");
        assert_next(&gateway, &mut laptop, &sender);
    }
}

#[test]
fn an_event_without_any_actor_is_stored_all_the_same() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in ROUTES {
        for (id, odd) in (1..).zip(unreadable()) {
            let mut payload = route.payload(id, "").replace(r#"{"login":"ada"}"#, "null");
            for person in [
                r#"{"login":"octocat"}"#,
                r#"{"accountId":"octocat"}"#,
                r#"{"id":"octocat"}"#,
                r#""octocat""#,
            ] {
                payload = payload.replace(person, &odd);
            }
            let call = route.call(&gateway, JSON, &format!("id-{id}"), payload.as_bytes());
            assert_eq!(call.send().status, route.success(), "{route:?} {id}");
            assert_eq!(newest_actor(&gateway), "", "{route:?} {id}");
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn what_names_no_work_item_any_more_is_dropped_and_never_a_failure() {
    let gateway = gateway();
    let mut dropped = 0;
    for (id, odd) in (1..).zip(unreadable()) {
        let github = Route::GitHub.payload(id, "");
        let jira = Route::Jira.payload(id, "");
        for (route, body) in [
            (Route::GitHub, github.replace(r#"{"number":15}"#, &odd)),
            (
                Route::GitHub,
                github.replace(r#""number":15"#, &format!(r#""number":{odd}"#)),
            ),
            (Route::GitHub, {
                let (before, _) = github.split_once(r#""repository":"#).unwrap();
                format!(r#"{before}"repository":{odd}}}"#)
            }),
            (Route::Jira, {
                let (before, _) = jira.split_once(r#""issue":"#).unwrap();
                format!(r#"{before}"issue":{odd}}}"#)
            }),
            (Route::Jira, jira.replace(r#""PROJ-1""#, &odd)),
        ] {
            let call = route.call(&gateway, JSON, &format!("id-{id}"), body.as_bytes());
            call.send().assert(202);
            dropped += 1;
            let records = gateway.wait_for_records("gateway.dropped", dropped);
            let reason = records[dropped - 1]["reason"].as_str().unwrap();
            let is_known = [
                "no-work-item",
                "undeclared-repository",
                "keyless",
                "undeclared-project",
            ];
            assert!(is_known.contains(&reason), "{route:?} {id} {reason}");
        }
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn numbers_that_are_no_numbers_of_an_issue_name_none() {
    let gateway = gateway();
    for number in [
        "0",
        "-1",
        "1.5",
        "1e2",
        "\"15\"",
        "\"\u{ff11}\"",
        "99999999999999999999",
    ] {
        let whole = Route::GitHub.payload(1, "");
        let body = whole.replace(r#""number":15"#, &format!(r#""number":{number}"#));
        let call = Route::GitHub.call(&gateway, JSON, number, body.as_bytes());
        call.send().assert(202);
    }
    let items = gateway.texts("SELECT DISTINCT work_item FROM events");
    assert_eq!(items, Vec::<String>::new());
}

#[test]
fn of_duplicate_keys_the_last_wins_and_all_are_stored() {
    let gateway = gateway();
    gateway.claim("laptop", 16);
    let mut laptop = Consumer::new("laptop");
    for (id, (more, item, actor)) in (1..).zip([
        (r#","issue":{"number":16}"#, 16, "octocat"),
        (r#","issue":{"number":15,"number":16}"#, 16, "octocat"),
        (
            r#","issue":{"number":16},"issue":{"number":15}"#,
            15,
            "octocat",
        ),
        (r#","sender":{"login":"grace"}"#, 15, "grace"),
        (r#","sender":{"login":"grace","login":"hedy"}"#, 15, "hedy"),
        (r#","sender":null"#, 15, "ada"),
    ]) {
        let payload = Route::GitHub.payload(id, more);
        let call = Route::GitHub.call(&gateway, JSON, &format!("id-{id}"), payload.as_bytes());
        call.send().assert(202);
        let newest = "SELECT work_item FROM events ORDER BY id DESC LIMIT 1";
        assert_eq!(gateway.texts(newest), [format!("github:octo/repo#{item}")]);
        assert_eq!(newest_actor(&gateway), actor, "{more}");
        assert_next(&gateway, &mut laptop, &payload);
    }
    // A key that is there twice and last as null is absent.
    let payload = Route::GitHub.payload(99, r#","issue":null"#);
    let call = Route::GitHub.call(&gateway, JSON, "id-99", payload.as_bytes());
    call.send().assert(202);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "no-work-item");
}

#[test]
fn a_pull_request_of_a_fork_that_is_gone_is_stored() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for (id, head) in (1..).zip([
        json!({"sha": "a".repeat(40), "repo": null, "user": null}),
        json!({"sha": null, "repo": null}),
        json!({"repo": {}}),
        Value::Null,
    ]) {
        let payload = json!({
            "action": "closed",
            "number": 15,
            "pull_request": {
                "number": 15,
                "user": null,
                "head": head,
                "base": {"repo": null},
                "merged_by": null,
                "updated_at": format!("2026-10-18T14:02:1{id}Z"),
            },
            "repository": {"id": 77, "full_name": "octo/repo", "html_url": "https://github.com/octo/repo"},
            "sender": null,
        })
        .to_string();
        let call = gateway.github("pull_request", &format!("id-{id}"), &payload);
        call.send().assert(202);
        assert_eq!(newest_actor(&gateway), "");
        assert_next(&gateway, &mut laptop, &payload);
    }
}

#[test]
fn a_delivery_without_an_id_is_known_by_its_body() {
    let gateway = gateway();
    for missing in [None, Some(""), Some("  ")] {
        // Pinning leaves no trace in the payload: without an id nothing tells two of them apart,
        // and so both are stored.
        let body = json!({
            "action": "pinned",
            "issue": {"number": 15, "title": missing},
            "repository": {"id": 77, "full_name": "octo/repo", "html_url": "https://github.com/octo/repo"},
        })
        .to_string();
        let before = gateway.stored();
        let call = gateway.github("issues", "?", &body);
        let call = match missing {
            None => call.without("X-GitHub-Delivery"),
            Some(id) => call.header("X-GitHub-Delivery", id),
        };
        call.send().assert(202);
        call.send().assert(202);
        assert_eq!(gateway.stored(), before + 2, "{missing:?}");
        let id = the_loop_gateway::digest::sha256_hex(body.as_bytes());
        let newest = "SELECT delivery_id FROM events ORDER BY id DESC LIMIT 2";
        let expected = format!("sha256-{}", &id[..16]);
        assert_eq!(gateway.texts(newest), [expected.clone(), expected]);
    }
    let empty =
        "SELECT count(*) FROM seen_keys WHERE key LIKE '%:delivery:' OR key LIKE '%sha256%'";
    assert_eq!(gateway.number(empty), 0);
}

#[test]
fn a_comment_without_a_delivery_id_is_still_one_comment() {
    let gateway = gateway();
    let call = gateway.github("issue_comment", "?", &comment_on(15, 1, "a"));
    let call = call.without("X-GitHub-Delivery");
    call.send().assert(202);
    call.send().assert(202);
    assert_eq!(gateway.stored(), 1);
}

#[test]
fn ids_and_kinds_that_a_stranger_chose_are_clipped_and_break_nothing() {
    let gateway = gateway();
    let long = "x".repeat(5_000);
    for (number, odd) in (1..).zip([
        "\u{e4}\u{20ac}",
        "a b\tc",
        "'; DROP TABLE events; --",
        &long,
    ]) {
        for header in ["X-GitHub-Delivery", "X-GitHub-Event"] {
            let body = comment_on(15, number, "a");
            let id = format!("guid-{number}");
            let call = gateway
                .github("issue_comment", &id, &body)
                .header(header, odd);
            call.send().assert(202);
        }
    }
    for column in ["delivery_id", "kind"] {
        let sql = format!("SELECT max(length({column})) FROM events");
        assert!(gateway.number(&sql) <= 200, "{column}");
    }
    let call = gateway.github("issue_comment", "guid-99", &comment_on(15, 99, "a"));
    call.without("X-GitHub-Event").send().assert(202);
}
