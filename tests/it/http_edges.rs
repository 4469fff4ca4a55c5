//! The edges of HTTP: what is not there, not that way, not in time, not all of it.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::json;

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
    let mut gateway = TestGateway::start();
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
    gateway.stop();
    for mut stream in streams {
        let answer = Reply::read(&mut stream).assert(200);
        assert_eq!(answer["deliveries"], json!([]));
    }
}
