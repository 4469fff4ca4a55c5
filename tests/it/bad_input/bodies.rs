//! How a body comes: in chunks, under the wrong name, with a signature that is none, again and
//! again.

use std::io::Write;

use serde_json::json;
use the_loop_gateway::domain::Clock;
use the_loop_gateway::providers::signature::sign_slack;

use super::{FORM, JSON, ROUTES, Route, assert_next, encoded, gateway};
use crate::support::client::connect;
use crate::support::gateway::SLACK_SECRET;
use crate::support::{Consumer, Reply, TestGateway, comment_on};

#[test]
fn a_body_in_chunks_of_any_size_is_as_good_as_any() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in ROUTES {
        for (id, size) in (1..).zip([1, 7, 100, 4_096, 1_000_000]) {
            let payload = route.payload(id, &format!(",\"x\":\"{}\"", "y".repeat(2_000)));
            let call = route
                .call(&gateway, JSON, &format!("id-{id}"), payload.as_bytes())
                .header("Transfer-Encoding", "chunked");
            let mut stream = call.open();
            for chunk in payload.as_bytes().chunks(size) {
                // An extension is allowed after the size, and ignored.
                let head = format!("{:X};a=b\r\n", chunk.len());
                stream
                    .write_all(&[head.as_bytes(), chunk, b"\r\n"].concat())
                    .unwrap();
            }
            stream.write_all(b"0\r\n\r\n").unwrap();
            assert_eq!(
                Reply::read(&mut stream).status,
                route.success(),
                "{route:?} {size}"
            );
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn a_chunked_body_that_is_broken_or_breaks_off_is_no_payload_and_stores_nothing() {
    let gateway = gateway();
    let payload = Route::GitHub.payload(1, "");
    for broken in [
        "zz\r\nab\r\n0\r\n\r\n".to_owned(),
        "-1\r\n\r\n0\r\n\r\n".to_owned(),
        "ffffffffffffffffff\r\n".to_owned(),
        format!("{:x}\r\n{payload}XX0\r\n\r\n", payload.len()),
    ] {
        let call = Route::GitHub
            .call(&gateway, JSON, "id", payload.as_bytes())
            .header("Transfer-Encoding", "chunked");
        let mut stream = call.open();
        stream.write_all(broken.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{broken:?} {answer}");
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn a_content_type_that_is_not_a_form_means_json() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in [Route::GitHub, Route::Jira, Route::SlackEvents] {
        for (id, kind) in (1..).zip([
            "application/json; charset=utf-16",
            "APPLICATION/JSON",
            "text/plain",
            "application/octet-stream",
            "multipart/form-data; boundary=x",
            "\u{e4}",
            "",
        ]) {
            let payload = route.payload(id, "");
            let call = route.call(&gateway, kind, &format!("id-{id}"), payload.as_bytes());
            assert_eq!(call.send().status, route.success(), "{route:?} {kind}");
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn a_form_is_read_whatever_the_case_and_the_parameters_of_its_content_type() {
    let gateway = gateway();
    let mut laptop = Consumer::new("laptop");
    for route in [Route::GitHub, Route::SlackInteractions] {
        for (id, kind) in (1..).zip([
            FORM,
            "Application/X-WWW-Form-Urlencoded",
            "application/x-www-form-urlencoded; charset=utf-8",
            " application/x-www-form-urlencoded ;x",
        ]) {
            let payload = route.payload(id, ",\"x\":\"a+b%20&c=d \u{20ac}\"");
            let body = format!("first=1&{}&payload=second", encoded(&payload));
            let call = route.call(&gateway, kind, &format!("id-{id}"), body.as_bytes());
            assert_eq!(call.send().status, route.success(), "{route:?} {kind}");
            assert_next(&gateway, &mut laptop, &payload);
        }
    }
}

#[test]
fn a_form_without_a_payload_is_no_payload() {
    let gateway = gateway();
    for route in [Route::GitHub, Route::SlackInteractions] {
        for body in [
            "",
            "payload",
            "payload=",
            "Payload=%7B%7D",
            "payloads=%7B%7D",
            "a=b&c=d",
            "=%7B%7D",
            "payload=%5B%5D",
            "payload=%EF%BB%BF%7B%7D",
            "payload=%7B%22a%22%3A%22%FF%22%7D",
            "payload=%00",
            "&&&",
        ] {
            let reply = route.call(&gateway, FORM, "id", body.as_bytes()).send();
            reply.assert_error(400, "invalid-payload");
        }
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn an_empty_body_is_refused_by_its_signature_or_as_no_payload() {
    let gateway = gateway();
    for route in ROUTES {
        for kind in [JSON, FORM, ""] {
            let call = route.call(&gateway, kind, "id", b"");
            call.send().assert_error(400, "invalid-payload");
            for header in [
                "X-Hub-Signature-256",
                "X-Hub-Signature",
                "X-Slack-Signature",
            ] {
                let call = call.clone().without(header);
                let status = call.send().status;
                assert!(status == 400 || status == 401, "{route:?} {status}");
            }
        }
    }
}

#[test]
fn a_signature_that_is_not_ascii_is_refused_and_no_failure() {
    let gateway = gateway();
    for route in ROUTES {
        let body = route.payload(1, "");
        let call = route.call(&gateway, JSON, "id", body.as_bytes());
        let header = match route {
            Route::GitHub => "X-Hub-Signature-256",
            Route::Jira => "X-Hub-Signature",
            Route::SlackEvents | Route::SlackInteractions => "X-Slack-Signature",
        };
        for odd in [
            &b"\xe4"[..],
            b"sha256=\xff\xfe",
            "sha256=\u{e4}\u{20ac}".as_bytes(),
            "v0=\u{ff11}".as_bytes(),
            b"v0=\x80",
            &[b'a'; 6_000],
        ] {
            let head = call.clone().without(header).head();
            let head = head.strip_suffix("\r\n").unwrap();
            let line = [header.as_bytes(), b": ", odd, b"\r\n\r\n"].concat();
            let mut stream = connect(gateway.port);
            stream
                .write_all(&[head.as_bytes(), &line, body.as_bytes()].concat())
                .unwrap();
            let reply = Reply::read(&mut stream);
            reply.assert_error(401, "bad-signature");
        }
    }
    assert_eq!(gateway.stored(), 0);
}

#[test]
fn a_slack_timestamp_that_is_no_time_is_refused() {
    let gateway = gateway();
    let body = Route::SlackEvents.payload(1, "");
    for odd in [
        "",
        "now",
        "-1",
        "1e9",
        "0x10",
        "99999999999999999999",
        "\u{ff11}",
        "1792332131.5",
    ] {
        let call = gateway
            .slack("events", JSON, &body)
            .header("X-Slack-Request-Timestamp", odd);
        assert_eq!(call.send().status, 401, "{odd}");
    }
    let now = gateway.clock.now().0.div_euclid(1000);
    for away in [-301, 301, -86_400, i64::from(i32::MAX)] {
        let at = now + away;
        let call = gateway
            .slack("events", JSON, &body)
            .header("X-Slack-Request-Timestamp", at)
            .header(
                "X-Slack-Signature",
                sign_slack(SLACK_SECRET, at, body.as_bytes()),
            );
        call.send().assert_error(401, "replay-window");
    }
    assert_eq!(gateway.stored(), 0);
}

/// Scenario: ten thousand duplicate deliveries store one row
#[test]
fn ten_thousand_duplicate_deliveries_store_one_row() {
    const SENDERS: usize = 8;
    const EACH: usize = 1_250;
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let call = gateway
        .github("issue_comment", "guid-1", &comment_on(15, 1, "a"))
        .header("Connection", "keep-alive");
    let request = [call.head().as_bytes(), call.sent_body()].concat();
    let port = gateway.port;
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let mut stream = connect(port);
                for _ in 0..EACH {
                    stream.write_all(&request).unwrap();
                    let reply = Reply::read(&mut stream);
                    assert_eq!(reply.assert(202), json!({"status": "accepted"}));
                }
            });
        }
    });
    assert_eq!(gateway.stored(), 1);
    assert_eq!(gateway.number("SELECT count(*) FROM deliveries"), 1);
    assert_eq!(gateway.number("SELECT count(*) FROM seen_keys"), 2);
    let dropped = gateway.wait_for_records("gateway.dropped", SENDERS * EACH - 1);
    assert!(dropped.iter().all(|record| record["reason"] == "duplicate"));
}
