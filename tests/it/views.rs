//! What people and dashboards read, and what an operator does about it.

use serde_json::{Value, json};

use crate::support::{TestGateway, comment_on};

/// A gateway with one event that a queue has, one that is held, and one that is dead.
fn furnished() -> TestGateway {
    let gateway = TestGateway::with(|config| config.store.strikes_max = 1);
    gateway.claim("laptop", 15);
    for (number, comment) in [(15, 1), (15, 2), (16, 3)] {
        let body = comment_on(number, comment, "a");
        let id = format!("guid-{comment}");
        gateway
            .github("issue_comment", &id, &body)
            .send()
            .assert(202);
    }
    let first = gateway.fetch("laptop", &json!({"max": 1}));
    let failed = json!({
        "cursor": first["cursor"],
        "max": 0,
        "commit": [{"seq": 1, "outcome": "failed", "detail": "no room"}],
    });
    gateway.fetch("laptop", &failed);
    gateway
}

#[test]
fn health_tells_how_the_parts_are() {
    let gateway = TestGateway::with(|config| {
        config.jira.webhook.enabled = false;
        config.slack.http.signing_secret_env =
            the_loop_gateway::config::EnvName::parse("NOT_SET_IN_THE_TESTS").unwrap();
    });
    gateway.claim("laptop", 15);
    gateway
        .github("issue_comment", "guid", &comment_on(15, 1, "a"))
        .send()
        .assert(202);
    let mut health = gateway.get("/health").assert(200);
    let details = health.as_object_mut().unwrap().remove("ingressDetails");
    let details = details.unwrap();
    assert_eq!(details["slack-http"]["variable"], "NOT_SET_IN_THE_TESTS");
    assert_eq!(details.as_object().unwrap().len(), 2);
    assert_eq!(
        health,
        json!({
            "ok": false,
            "version": env!("CARGO_PKG_VERSION"),
            "ingresses": {
                "github-poll": "disabled",
                "github-webhook": "up",
                "jira-poll": "disabled",
                "jira-webhook": "disabled",
                "slack-http": "missing-secret",
                "slack-socket": "disabled",
            },
            "slack": {"socket": "off"},
            "store": {"ok": true, "events": 1, "held": 0, "queues": {"laptop": 1}},
            "eventLog": {"ok": true},
        })
    );
}

#[test]
fn lists_show_what_is_there() {
    let gateway = furnished();
    let subjects = gateway.get("/subjects").assert(200);
    let rows = subjects["subjects"].as_array().unwrap();
    assert_eq!(rows[0]["subject"], "loop-github-octo-repo-15");
    assert_eq!(rows[0]["claimants"][0]["instance"], "laptop");
    assert_eq!(
        (&rows[0]["dead"], &rows[0]["queues"][0]["depth"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&rows[1]["held"], &rows[1]["unattended"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(subjects.get("next"), None);
    let queues = gateway.get("/queues").assert(200);
    assert_eq!(queues["queues"][0]["backlog"], 1);
    let instances = gateway.get("/instances").assert(200);
    assert_eq!(instances["instances"][0]["lease"]["live"], true);
    let dead = gateway.get("/dead").assert(200);
    assert_eq!(dead["dead"][0]["detail"], "no room");
    assert_eq!(dead["dead"][0]["event"]["deliveryId"], "guid-1");
    let held = gateway.get("/events?state=held").assert(200);
    assert_eq!(held["events"][0]["deliveryId"], "guid-3");
}

#[test]
fn a_list_is_read_page_by_page() {
    let gateway = furnished();
    let mut seen = Vec::new();
    let mut target = "/events?limit=1".to_owned();
    loop {
        let page = gateway.get(&target).assert(200);
        let rows = page["events"].as_array().unwrap();
        seen.extend(rows.iter().map(|row| row["id"].as_i64().unwrap()));
        match page["next"].as_str() {
            Some(next) => target = format!("/events?limit=1&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, [3, 2, 1]);
}

#[test]
fn parameters_that_are_malformed_are_named() {
    let gateway = TestGateway::start();
    for (target, field) in [
        ("/events?limit=0", "limit"),
        ("/events?limit=1001", "limit"),
        ("/queues?limit=x", "limit"),
        ("/events?after=nonsense", "after"),
        ("/events?after=", "after"),
        ("/events?state=gone", "state"),
        ("/events?subject=x", "subject"),
        ("/events?since=yesterday", "since"),
        ("/events?instance=a%20b", "instance"),
        ("/events?named=", "named"),
        ("/events?newerThan=-1", "newerThan"),
        ("/events?newerThan=x", "newerThan"),
        ("/events?newerThan=1&after=1.1", "after"),
        ("/dead?after=nonsense", "after"),
    ] {
        let reply = gateway.get(target);
        reply.assert_error(422, "invalid-field");
        assert_eq!(reply.json()["fields"][0]["field"], field, "{target}");
    }
    for target in [
        "/events?since=2026-01-01T00:00:00%2B02:00&unknown=1",
        "/subjects?limit=1000",
    ] {
        gateway.get(target).assert(200);
    }
}

#[test]
fn an_event_has_a_story_and_its_bytes() {
    let gateway = furnished();
    let story = gateway.get("/events/1").assert(200);
    assert_eq!(story["event"]["deliveryId"], "guid-1");
    assert_eq!(story["deliveries"][0]["state"], "dead");
    assert_eq!(story["deliveries"][0]["handOuts"][0]["ended"], "failed");
    let payload = gateway.get("/events/1/payload");
    assert_eq!(payload.status, 200);
    assert_eq!(payload.header("content-type"), Some("application/json"));
    assert_eq!(payload.text(), comment_on(15, 1, "a"));
    for none in [
        "/events/99",
        "/events/x",
        "/events/-1",
        "/events/99/payload",
    ] {
        gateway.get(none).assert_error(404, "not-found");
    }
}

#[test]
fn an_event_is_found_by_name_and_followed_by_number() {
    let gateway = furnished();
    for name in [
        "guid-2",
        "issue_comment%3A2%3Acreated",
        "gh%3Agithub.com%3Aissue_comment%3A2%3Acreated",
    ] {
        let found = gateway.get(&format!("/events?named={name}")).assert(200);
        assert_eq!(found["events"].as_array().unwrap().len(), 1, "{name}");
        assert_eq!(found["events"][0]["deliveryId"], "guid-2", "{name}");
    }
    let none = gateway.get("/events?named=guid-2&state=held").assert(200);
    assert_eq!(none["events"], json!([]));
    let newer = gateway.get("/events?newerThan=1").assert(200);
    let ids: Vec<_> = newer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["id"])
        .collect();
    assert_eq!(ids, [2, 3]);
    assert_eq!(newer["upTo"], 3);
    let held = gateway
        .get("/events?newerThan=1&state=held&limit=1")
        .assert(200);
    assert_eq!(
        (&held["events"][0]["id"], &held["upTo"]),
        (&json!(3), &json!(3))
    );
    let none = gateway.get("/events?newerThan=3").assert(200);
    assert_eq!(none, json!({"events": [], "upTo": 3}));
}

#[test]
fn what_died_in_a_span_of_time_is_sent_again() {
    let gateway = furnished();
    let died = gateway.get("/dead").assert(200)["dead"][0]["deadAt"].take();
    let redrive = |body: &Value| {
        let path = "/operator/redrive?dryRun=true";
        gateway.api("POST", path, body).assert(200)["appended"].take()
    };
    assert_eq!(redrive(&json!({ "until": died })), 0);
    assert_eq!(redrive(&json!({ "since": died })), 1);
    let malformed = gateway.api("POST", "/operator/redrive", &json!({"since": "noon"}));
    malformed.assert_error(422, "invalid-field");
}

#[test]
fn a_dead_delivery_is_sent_again_once() {
    let gateway = furnished();
    let dry = gateway.api(
        "POST",
        "/operator/redrive?dryRun=true",
        &json!({"all": true}),
    );
    let dry = dry.assert(200);
    assert_eq!(
        (&dry["dryRun"], &dry["appended"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(dry["deliveries"][0]["seq"], Value::Null);
    let done = gateway.api("POST", "/operator/redrive", &json!({"instance": "laptop"}));
    let done = done.assert(200);
    assert_eq!(
        done,
        json!({
            "dryRun": false,
            "appended": 1,
            "skipped": 0,
            "deliveries": [{"seq": 3, "instance": "laptop", "eventId": 1, "redriveOf": 1}],
        })
    );
    let again = gateway.api("POST", "/operator/redrive", &json!({"seqs": [1]}));
    let again = again.assert(200);
    assert_eq!(
        (&again["appended"], &again["skipped"]),
        (&json!(0), &json!(1))
    );
    for (verb, body) in [
        ("redrive", json!({"seqs": [98, 1]})),
        ("replay", json!({"instance": "laptop", "events": [98, 1]})),
    ] {
        let told = gateway.api("POST", &format!("/operator/{verb}"), &body);
        let told = told.assert(200);
        assert_eq!(
            (&told["skipped"], &told["unknown"]),
            (&json!(1), &json!([98])),
            "{verb}"
        );
    }
    let answer = gateway.fetch("laptop", &json!({}));
    assert_eq!(answer["deliveries"][0]["redriveOf"], 1);
    gateway.wait_for_records("gateway.operator", 1);
}

#[test]
fn stored_events_are_sent_to_whom_an_operator_names() {
    let gateway = furnished();
    let replay = json!({"instance": "desktop", "events": [3, 1]});
    for path in ["/operator/replay", "/operator/replay?dryRun=true"] {
        let refused = gateway.api("POST", path, &replay);
        refused.assert_error(422, "invalid-field");
        assert_eq!(
            refused.json()["fields"],
            json!([{
                "field": "instance",
                "message": "must be known, and desktop is not: known are laptop",
            }])
        );
    }
    gateway.fetch("desktop", &json!({}));
    let dry = gateway
        .api("POST", "/operator/replay?dryRun=true", &replay)
        .assert(200);
    assert_eq!(dry["appended"], 2);
    let done = gateway.api("POST", "/operator/replay", &replay).assert(200);
    assert_eq!(done["appended"], 2);
    assert_eq!(done.get("more"), None);
    let answer = gateway.fetch("desktop", &json!({}));
    let ids: Vec<_> = answer["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| delivery["event"]["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [1, 3]);
}

#[test]
fn what_an_instance_holds_is_taken_from_it() {
    let gateway = furnished();
    let body = json!({"instance": "laptop", "what": ["lease", "claims"]});
    let released = gateway.api("POST", "/operator/release", &body).assert(200);
    assert_eq!(
        released,
        json!({"dryRun": false, "known": true, "lease": true, "claims": 1, "actors": 0})
    );
    let nobody = json!({"instance": "nobody", "what": ["claims"]});
    let released = gateway.api("POST", "/operator/release", &nobody);
    assert_eq!(
        released.assert(200),
        json!({"dryRun": false, "known": false, "lease": false, "claims": 0, "actors": 0})
    );
    let other = gateway
        .fetch_call("laptop", &json!({"peer": "another"}))
        .send();
    other.assert(200);
}

#[test]
fn an_operator_says_what_is_meant() {
    let gateway = TestGateway::start();
    for (path, body, field) in [
        ("/operator/redrive", json!({}), "all"),
        ("/operator/redrive", json!({"all": false}), "all"),
        ("/operator/redrive", json!({"seqs": []}), "seqs"),
        ("/operator/redrive", json!({"seqs": [0]}), "seqs[0]"),
        (
            "/operator/redrive?dryRun=maybe",
            json!({"all": true}),
            "dryRun",
        ),
        ("/operator/replay", json!({"instance": "a"}), "events"),
        (
            "/operator/replay",
            json!({"subject": "unassigned"}),
            "instance",
        ),
        ("/operator/release", json!({"instance": "a"}), "what"),
        (
            "/operator/release",
            json!({"instance": "a", "what": []}),
            "what",
        ),
        (
            "/operator/release",
            json!({"instance": "a", "what": ["queue"]}),
            "what[0]",
        ),
    ] {
        let reply = gateway.api("POST", path, &body);
        reply.assert_error(422, "invalid-field");
        assert_eq!(reply.json()["fields"][0]["field"], field, "{path} {body}");
    }
}

#[test]
fn a_replay_of_too_much_is_refused_whole() {
    let gateway = TestGateway::start();
    let calls: Vec<_> = (1..=501)
        .map(|comment| {
            let body = comment_on(15, comment, "a");
            gateway.github("issue_comment", &format!("guid-{comment}"), &body)
        })
        .collect();
    for chunk in calls.chunks(50) {
        let sent: Vec<_> = chunk.iter().map(crate::support::Call::spawn).collect();
        for reply in sent {
            reply.join().unwrap().assert(202);
        }
    }
    gateway.fetch("laptop", &json!({}));
    let all = json!({"instance": "laptop", "subject": "loop-github-octo-repo-15"});
    let reply = gateway.api("POST", "/operator/replay", &all);
    reply.assert_error(422, "invalid-field");
    assert_eq!(gateway.fetch("laptop", &json!({}))["deliveries"], json!([]));
}
