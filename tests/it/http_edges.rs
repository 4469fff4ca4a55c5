//! The edges of HTTP: what is not there, not that way, not in time, not all of it.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::{Value, json};

use crate::support::client::{Call, Reply, connect};
use crate::support::{TestGateway, comment_on};

#[test]
fn what_is_not_there_says_so() {
    let gateway = TestGateway::start();
    for target in [
        "/api/v1/gateway/nothing",
        "/api/v1/gateway/",
        "/api/v1/gateway",
        "/api/v1/other",
        "/api/v1/gateway/fetch/more",
        "/slack/other",
        "/favicon.ico",
    ] {
        for method in ["GET", "POST"] {
            gateway
                .call(method, target)
                .send()
                .assert_error(404, "not-found");
        }
    }
}

#[test]
fn a_path_that_does_not_answer_a_method_names_those_that_it_does() {
    let gateway = TestGateway::start();
    for (method, target, allow) in [
        ("GET", "/api/v1/gateway/fetch", "POST"),
        ("PUT", "/api/v1/gateway/fetch", "POST"),
        ("GET", "/api/v1/gateway/commit", "POST"),
        ("POST", "/api/v1/gateway/claims", "PUT, DELETE"),
        ("POST", "/api/v1/gateway/actors", "PUT"),
        ("PUT", "/api/v1/gateway/bindings", "POST, DELETE"),
        ("DELETE", "/api/v1/gateway/rooms", "PUT"),
        ("POST", "/api/v1/gateway/ready", "GET"),
        ("GET", "/gh-webhook", "POST"),
        ("GET", "/jira-webhook/", "POST"),
        ("GET", "/slack/events", "POST"),
    ] {
        let reply = gateway.call(method, target).send();
        reply.assert_error(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {target}");
    }
    // Without a body, but no success.
    let head = gateway.call("HEAD", "/api/v1/gateway/ready").open();
    assert_eq!(
        read_all(head).lines().next(),
        Some("HTTP/1.1 405 Method Not Allowed")
    );
}

fn read_all(mut stream: std::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_trailing_slash_and_a_query_do_not_matter_to_a_provider() {
    let gateway = TestGateway::start();
    for (number, target) in ["/gh-webhook/", "/gh-webhook?a=b", "/gh-webhook/?a=b"]
        .iter()
        .enumerate()
    {
        let body = comment_on(15, u64::try_from(number).unwrap(), "a");
        let id = number.to_string();
        let mut call = gateway.github("issue_comment", &id, &body);
        call.retarget(target);
        call.send().assert(202);
    }
    gateway.wait_for_records("gateway.received", 3);
}

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
fn each_malformed_field_is_named() {
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

#[test]
fn a_body_that_does_not_come_ends_the_connection() {
    let gateway = TestGateway::start();
    let call = gateway
        .github("issues", "guid", "{}")
        .header("Content-Length", 100);
    let mut stream = call.open();
    stream.write_all(b"{").unwrap();
    let reply = Reply::read(&mut stream);
    reply.assert_error(408, "request-timeout");
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    let gateway = TestGateway::start();
    let mut stream = connect(gateway.port);
    stream
        .write_all(b"POST /gh-webhook HTTP/1.1\r\nHost: x\r\n")
        .unwrap();
    let answer = read_all(stream);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn a_chunked_body_is_as_good_as_any() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let body = comment_on(15, 1, "a");
    let call = gateway
        .github("issue_comment", "guid", &body)
        .header("Transfer-Encoding", "chunked");
    let mut stream = call.open();
    for chunk in body.as_bytes().chunks(7) {
        write!(stream, "{:x}\r\n", chunk.len()).unwrap();
        stream.write_all(chunk).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    Reply::read(&mut stream).assert(202);
    let answer = gateway.fetch_call("laptop", &json!({})).send();
    assert!(answer.text().contains(&body));
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let gateway = TestGateway::start();
    let mut stream = connect(gateway.port);
    for _ in 0..3 {
        let call = Call::new(gateway.port, "GET", "/api/v1/gateway/ready")
            .header("Connection", "keep-alive");
        stream.write_all(call.head().as_bytes()).unwrap();
        let reply = Reply::read(&mut stream);
        assert_eq!(reply.assert(200), json!({"ready": true}));
        assert_ne!(reply.header("connection"), Some("close"));
    }
}

/// What was appended while a poll of this caller was held, fetched by the next one.
fn after_a_caller_left(leave: impl FnOnce(std::net::TcpStream)) {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let call = gateway.fetch_call("laptop", &json!({"wait": 25}));
    let mut stream = call.open();
    stream.write_all(call.sent_body()).unwrap();
    gateway.wait_for_lease("laptop");
    gateway.wait_for_held(1);
    leave(stream);
    // The gateway notices: the poll is held no more.
    gateway.wait_for_held(0);
    let body = comment_on(15, 1, "a");
    gateway
        .github("issue_comment", "guid", &body)
        .send()
        .assert(202);
    let answer = gateway.fetch("laptop", &json!({}));
    let delivery = &answer["deliveries"][0];
    assert_eq!(delivery["attempt"], 1);
    // The first response that this queue ever gave: nothing went to the one who left.
    let first = delivery["seq"].as_i64().unwrap().checked_add(1).unwrap();
    assert_eq!(answer["cursor"], first);
}

#[test]
fn a_caller_that_hangs_up_is_handed_nothing() {
    after_a_caller_left(drop);
}

#[test]
fn a_caller_that_only_stops_sending_counts_as_gone() {
    let mut kept = None;
    after_a_caller_left(|stream| {
        stream.shutdown(Shutdown::Write).unwrap();
        kept = Some(stream);
    });
}

#[test]
fn a_thousand_polls_are_held_at_once_and_answered() {
    let gateway = TestGateway::start();
    let streams: Vec<_> = (0..1_000)
        .map(|number| {
            let call = gateway.fetch_call(&format!("i-{number}"), &json!({"wait": 25}));
            let mut stream = call.open();
            stream.write_all(call.sent_body()).unwrap();
            stream
        })
        .collect();
    gateway.wait_for_held(1_000);
    gateway.get("/ready").assert(200);
    gateway.ask_to_stop();
    for mut stream in streams {
        let answer = Reply::read(&mut stream).assert(200);
        assert_eq!(answer["deliveries"], json!([]));
    }
}
