//! The edges of the API: fields that are missing, malformed, out of range or not one's own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::openapi::openapi;
use crate::support::{TestGateway, comment_on};

#[test]
fn a_write_of_the_api_is_json_and_says_so() {
    let gateway = TestGateway::start();
    let fetch = || {
        gateway
            .call("POST", "/api/v1/gateway/fetch")
            .body(r#"{"peer":"p"}"#)
    };
    fetch().send().assert_error(415, "unsupported-media-type");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        let reply = fetch().header("Content-Type", kind).send();
        reply.assert_error(415, "unsupported-media-type");
    }
    for kind in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
    ] {
        fetch().header("Content-Type", kind).send().assert(200);
    }
    let claim = gateway
        .call("DELETE", "/api/v1/gateway/claims")
        .body(r#"{"subject":"loop-a"}"#);
    claim.send().assert_error(415, "unsupported-media-type");
}

/// The same value with a field that nobody described in each of its objects.
fn with_unheard_fields(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let mut members: serde_json::Map<String, Value> = members
                .map(|(name, member)| (name.clone(), with_unheard_fields(member)))
                .collect();
            members.insert("zzz".to_owned(), json!({"zzz": [1]}));
            Value::Object(members)
        }
        Value::Array(items) => items.iter().map(with_unheard_fields).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Every example of a body that the API takes: its method, path and schema with it.
fn example_bodies() -> Vec<(String, String, &'static Value, &'static Value)> {
    let openapi = openapi();
    let mut bodies = Vec::new();
    for (path, method) in openapi.operations() {
        let operation = &openapi.document["paths"][&path][method.to_lowercase()];
        let content = &openapi.resolve(&operation["requestBody"])["content"]["application/json"];
        let is_ours = path.starts_with("/api/v1/gateway/");
        let examples = content["examples"].as_object().filter(|_| is_ours);
        for example in examples.into_iter().flat_map(serde_json::Map::values) {
            let value = &openapi.resolve(example)["value"];
            bodies.push((method.clone(), path.clone(), &content["schema"], value));
        }
    }
    bodies
}

#[test]
fn a_field_that_nobody_described_is_ignored_in_every_body_and_at_every_level() {
    let (plain, odd) = (TestGateway::start(), TestGateway::start());
    let mut routes = BTreeSet::new();
    let mut taken = 0;
    for (method, path, schema, body) in example_bodies() {
        let with_more = with_unheard_fields(body);
        let problems = openapi().problems(&format!("body of {method} {path}"), schema, &with_more);
        assert_eq!(problems, [""; 0], "{method} {path}");
        let answers = [(&plain, body), (&odd, &with_more)].map(|(gateway, body)| {
            let mut reply = gateway.call(&method, &path).json(body).send().json();
            // Chance and the clock.
            for member in ["pollAfter", "lease", "since", "retryAfter"] {
                reply.as_object_mut().unwrap().remove(member);
            }
            reply
        });
        assert_eq!(answers[0], answers[1], "{method} {path} {with_more}");
        taken += usize::from(answers[0].get("error").is_none());
        routes.insert((method, path));
    }
    assert_eq!(routes.len(), 11, "{routes:?}");
    assert!(taken > 11, "{taken} examples are taken");
}

#[test]
fn what_is_no_json_object_is_refused_whole() {
    let gateway = TestGateway::start();
    let nested = format!(
        "{{\"peer\":\"p\",\"x\":{}{}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    for body in [
        "",
        "[]",
        "null",
        "{",
        "{\"peer\":\"p\"} x",
        "\u{feff}{}",
        &nested,
    ] {
        let reply = gateway
            .call("POST", "/api/v1/gateway/fetch")
            .header("Content-Type", "application/json")
            .body(body)
            .send();
        reply.assert_error(400, "invalid-payload");
    }
}

#[track_caller]
fn fields(reply: &Reply) -> Vec<String> {
    reply.assert_error(422, "invalid-field");
    let json = reply.json();
    let fields = json["fields"].as_array().unwrap();
    fields
        .iter()
        .map(|field| {
            assert!(!field["message"].as_str().unwrap().is_empty());
            field["field"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn each_malformed_field_of_a_fetch_or_commit_is_named() {
    let gateway = TestGateway::start();
    let many: Vec<Value> = (0..10_001)
        .map(|seq| json!({"seq": seq, "outcome": "failed"}))
        .collect();
    for (method, path, body, named) in [
        ("POST", "/fetch", json!({}), vec!["peer"]),
        ("POST", "/fetch", json!({"peer": null}), vec!["peer"]),
        (
            "POST",
            "/fetch",
            json!({"peer": "-p", "instance": "a b", "run": 7}),
            vec!["instance", "peer", "run"],
        ),
        (
            "POST",
            "/fetch",
            json!({"peer": "p", "max": -1, "wait": -0.1, "lease": "x", "cursor": 1.5}),
            vec!["cursor", "max", "wait", "lease"],
        ),
        (
            "POST",
            "/fetch",
            json!({"peer": "p", "wait": true, "commit": {}}),
            vec!["wait", "commit"],
        ),
        (
            "POST",
            "/fetch",
            json!({"peer": "p", "commit": [1, {}, {"seq": "1", "outcome": "done"}, {"seq": 1, "outcome": "dropped:"}, {"seq": 1, "outcome": "failed", "detail": "x".repeat(501)}]}),
            vec![
                "commit[0]",
                "commit[1].seq",
                "commit[1].outcome",
                "commit[2].seq",
                "commit[2].outcome",
                "commit[3].outcome",
                "commit[4].detail",
            ],
        ),
        ("POST", "/commit", json!({"commit": many}), vec!["commit"]),
        ("POST", "/commit", json!({}), vec!["commit"]),
    ] {
        let reply = gateway.api(method, path, &body);
        assert_eq!(fields(&reply), named, "{method} {path}");
    }
}

#[test]
fn each_malformed_field_of_a_registration_is_named() {
    let gateway = TestGateway::start();
    for (method, path, body, named) in [
        (
            "PUT",
            "/claims",
            json!({"subject": "unassigned"}),
            vec!["subject", "role"],
        ),
        (
            "PUT",
            "/claims",
            json!({"subject": "loop-a", "role": "boss"}),
            vec!["role"],
        ),
        (
            "DELETE",
            "/claims?subject=loop-a&role=boss",
            Value::Null,
            vec!["role"],
        ),
        ("DELETE", "/claims", Value::Null, vec!["subject", "role"]),
        ("PUT", "/actors", json!({}), vec!["actors"]),
        ("PUT", "/actors", json!({"actors": []}), vec!["actors"]),
        (
            "PUT",
            "/actors",
            json!({"actors": {"github": ["", 1], "slack": "U1"}}),
            vec!["actors.github[0]", "actors.github[1]", "actors.slack"],
        ),
        (
            "POST",
            "/bindings",
            json!({"ref": "x", "provider": "gitlab", "key": ""}),
            vec!["ref", "provider", "key"],
        ),
        (
            "POST",
            "/bindings",
            json!({"ref": "standing:ops", "provider": "github", "key": "octo/repo#1"}),
            vec!["ref"],
        ),
        (
            "POST",
            "/bindings",
            json!({"ref": "github:octo/repo#1", "provider": "slack", "key": "a/b/c/d"}),
            vec!["key"],
        ),
        (
            "PUT",
            "/rooms",
            json!({"rooms": [{"channel": "", "ref": "github:octo/repo#0"}, {}]}),
            vec![
                "rooms[0].channel",
                "rooms[0].ref",
                "rooms[1].channel",
                "rooms[1].ref",
            ],
        ),
        (
            "PUT",
            "/rooms",
            json!({"rooms": vec![json!({"channel": "C", "ref": "standing:a"}); 1_001]}),
            vec!["rooms"],
        ),
    ] {
        let reply = gateway.api(method, path, &body);
        assert_eq!(fields(&reply), named, "{method} {path}");
    }
}

#[test]
fn what_is_out_of_range_is_clamped_and_what_is_unknown_is_ignored() {
    let gateway = TestGateway::start();
    let odd = json!({
        "max": 1_000_000, "wait": 0, "lease": 1e12, "cursor": 99_999, "unknown": {"a": [1]},
        "commit": null,
    });
    let answer = gateway.fetch("laptop", &odd);
    assert_eq!(answer["lease"]["expiresIn"], 300.0);
    assert_eq!(answer["cursor"], 99_999);
    let short = gateway.fetch("laptop", &json!({"lease": 0}));
    assert_eq!(short["lease"]["expiresIn"], 10.0);
    let twice = gateway
        .call("POST", "/api/v1/gateway/fetch")
        .header("Content-Type", "application/json")
        .body(r#"{"peer":"other","peer":"peer-of-laptop","instance":"laptop","run":"run-1"}"#);
    twice.send().assert(200);
    let unnamed = gateway.api("POST", "/fetch", &json!({"peer": "p"}));
    unnamed.assert(200);
    let commit = gateway.api("POST", "/commit", &json!({"peer": "p", "commit": []}));
    assert!(commit.assert(200)["lease"]["expiresIn"].as_f64() > Some(0.0));
}

#[test]
fn a_refused_request_says_by_whom_and_is_recorded() {
    let gateway = TestGateway::start();
    gateway.fetch("laptop", &json!({}));
    let rival = gateway
        .fetch_call("laptop", &json!({"peer": "rival"}))
        .send();
    rival.assert_error(409, "duplicate-instance");
    let json = rival.json();
    assert_eq!(json["holder"], "laptop");
    let retry_after = rival.header("retry-after").unwrap();
    assert_eq!(json["retryAfter"].to_string(), retry_after);
    let unknown = json!({"commit": [{"seq": 9, "outcome": "delivered"}]});
    let reply = gateway.fetch_call("laptop", &unknown).send();
    reply.assert_error(409, "commit-undelivered");
    assert_eq!(reply.json()["seqs"], json!([9]));
    let refused = gateway.wait_for_records("gateway.refused", 2);
    assert_eq!(refused[0]["reason"], "duplicate-instance");
    assert_eq!(refused[1]["seqs"], json!([9]));
}

#[test]
fn a_name_that_is_not_listed_may_ask_nothing() {
    let gateway = TestGateway::with(|config| {
        let name = the_loop_gateway::domain::InstanceName::parse("laptop").unwrap();
        config.instances.0.insert(name);
    });
    gateway.fetch("laptop", &json!({}));
    for (method, path, body) in [
        ("POST", "/fetch", json!({"instance": "other", "peer": "p"})),
        (
            "POST",
            "/commit",
            json!({"instance": "other", "commit": []}),
        ),
        (
            "PUT",
            "/claims",
            json!({"instance": "other", "subject": "loop-a", "role": "driver"}),
        ),
        (
            "DELETE",
            "/claims",
            json!({"instance": "other", "subject": "loop-a", "role": "driver"}),
        ),
        ("PUT", "/actors", json!({"instance": "other", "actors": {}})),
        (
            "POST",
            "/bindings",
            json!({"ref": "github:octo/repo#1", "provider": "github", "key": "octo/repo#2"}),
        ),
        ("PUT", "/rooms", json!({"instance": "other", "rooms": []})),
    ] {
        let reply = gateway.api(method, path, &body);
        reply.assert_error(403, "unknown-instance");
    }
}

#[test]
fn registrations_answer_how_much_they_routed() {
    let gateway = TestGateway::start();
    for number in [1, 2] {
        let body = comment_on(15, number, "a");
        gateway
            .github("issue_comment", &number.to_string(), &body)
            .send()
            .assert(202);
    }
    assert_eq!(gateway.claim("laptop", 15), json!({"routed": 2}));
    assert_eq!(gateway.claim("laptop", 15), json!({"routed": 0}));
    let query = "instance=laptop&peer=peer-of-laptop&subject=loop-github-octo-repo-15&role=driver";
    for _ in 0..2 {
        let reply = gateway.get_with("DELETE", &format!("/claims?{query}"));
        assert_eq!(reply.assert(200), json!({"routed": 0}));
    }
    let actors = json!({"instance": "laptop", "actors": {"github": ["octocat"], "slack": ["U1"]}});
    assert_eq!(
        gateway.api("PUT", "/actors", &actors).assert(200),
        json!({"routed": 0})
    );
    let rooms = json!({"instance": "laptop", "rooms": [{"channel": "C1", "ref": "standing:ops"}]});
    assert_eq!(
        gateway.api("PUT", "/rooms", &rooms).assert(200),
        json!({"routed": 0})
    );
    let binding = json!({"instance": "laptop", "ref": "github:octo/repo#15", "provider": "jira", "key": "PROJ-1"});
    assert_eq!(
        gateway.api("POST", "/bindings", &binding).assert(200),
        json!({"routed": 0})
    );
    assert_eq!(
        gateway.api("DELETE", "/bindings", &binding).assert(200),
        json!({"routed": 0})
    );
}
