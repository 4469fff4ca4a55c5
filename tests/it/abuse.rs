//! What strangers try: without a signature, with another name, with too much of everything.

use std::io::Write;

use serde_json::{Value, json};
use the_loop_gateway::providers::signature::{sign_github, sign_slack};

use crate::support::client::{Call, Reply};
use crate::support::gateway::{GITHUB_SECRET, SLACK_SECRET, wait_until};
use crate::support::{TestGateway, comment_on};

const MIB: usize = 1024 * 1024;

#[track_caller]
fn assert_nothing_stored(gateway: &TestGateway) {
    assert_eq!(gateway.records("gateway.received"), Vec::<Value>::new());
}

#[test]
fn a_github_delivery_without_the_right_signature_is_refused() {
    let gateway = TestGateway::start();
    let body = comment_on(15, 1, "a");
    let right = sign_github(GITHUB_SECRET, body.as_bytes());
    let digest = right.strip_prefix("sha256=").unwrap();
    let unsigned = || {
        gateway
            .call("POST", "/gh-webhook")
            .header("X-GitHub-Event", "issue_comment")
            .body(&body)
    };
    unsigned().send().assert_error(401, "bad-signature");
    for signature in [
        sign_github("another secret", body.as_bytes()),
        sign_github(GITHUB_SECRET, b"another body"),
        format!("sha1={digest}"),
        format!("sha256={}", digest.to_uppercase()),
        format!("sha256={}", &digest[..62]),
        format!("sha256={digest}00"),
        digest.to_owned(),
        "sha256=\u{e4}\u{f6}\u{fc}".to_owned(),
        "sha256=".to_owned(),
        String::new(),
    ] {
        let reply = unsigned().header("X-Hub-Signature-256", &signature).send();
        reply.assert_error(401, "bad-signature");
    }
    let legacy = unsigned().header("X-Hub-Signature", &right).send();
    legacy.assert_error(401, "bad-signature");
    unsigned()
        .header("X-Hub-Signature-256", &right)
        .send()
        .assert(202);
    gateway.wait_for_records("gateway.received", 1);
}

#[test]
fn a_jira_delivery_without_the_right_signature_is_refused() {
    let gateway = TestGateway::start();
    let body = r#"{"webhookEvent":"comment_created"}"#;
    let reply = gateway.call("POST", "/jira-webhook").body(body).send();
    reply.assert_error(401, "bad-signature");
    let sha1 = "sha1=a4771c39fbe90f317c7824e83ddef3caae9cb3d9";
    let call = gateway.call("POST", "/jira-webhook").body(body);
    let reply = call.header("X-Hub-Signature", sha1).send();
    reply.assert_error(401, "bad-signature");
    gateway.jira("id-1", body).send().assert(202);
}

#[test]
fn a_slack_request_that_is_old_or_unsigned_is_refused() {
    let gateway = TestGateway::start();
    let body = r#"{"type":"url_verification","challenge":"c"}"#;
    let signed_at = |age: i64| {
        let at = jiff::Timestamp::now().as_second() - age;
        let signature = sign_slack(SLACK_SECRET, at, body.as_bytes());
        gateway
            .call("POST", "/slack/events")
            .header("X-Slack-Request-Timestamp", at)
            .header("X-Slack-Signature", signature)
            .header("Content-Type", "application/json")
            .body(body)
            .send()
    };
    assert_eq!(signed_at(0).assert(200), json!({"challenge": "c"}));
    assert_eq!(signed_at(290).assert(200), json!({"challenge": "c"}));
    signed_at(310).assert_error(401, "replay-window");
    signed_at(-310).assert_error(401, "replay-window");
    let unsigned = gateway.call("POST", "/slack/events").body(body).send();
    unsigned.assert_error(401, "bad-signature");
    // A certificate's test is answered before any signature.
    let form = "application/x-www-form-urlencoded";
    let check = gateway
        .call("POST", "/slack/commands")
        .header("Content-Type", form)
        .body("ssl_check=1&token=x");
    let reply = check.send();
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_nothing_stored(&gateway);
}

#[test]
fn slack_may_test_a_certificate_with_a_get_and_nothing_else() {
    let gateway = TestGateway::start();
    for path in ["/slack/events", "/slack/interactions", "/slack/commands"] {
        for query in ["ssl_check=1", "token=x&ssl_check=1"] {
            let reply = gateway.call("GET", &format!("{path}?{query}")).send();
            assert_eq!((reply.status, reply.body.len()), (200, 0), "{path} {query}");
        }
        for other in ["", "?ssl_check=0", "?ssl_check"] {
            let reply = gateway.call("GET", &format!("{path}{other}")).send();
            reply.assert_error(405, "method-not-allowed");
        }
        let head = gateway.call("PUT", &format!("{path}?ssl_check=1")).send();
        head.assert_error(405, "method-not-allowed");
        let posted = gateway.call("POST", &format!("{path}?ssl_check=1")).send();
        posted.assert_error(401, "bad-signature");
    }
    let other = gateway.call("GET", "/gh-webhook?ssl_check=1").send();
    other.assert_error(405, "method-not-allowed");
    assert_nothing_stored(&gateway);
}

#[test]
fn a_route_that_is_disabled_or_has_no_secret_is_not_there() {
    let gateway = TestGateway::with(|config| {
        config.github.webhook.enabled = false;
        config.jira.webhook.secret_env =
            the_loop_gateway::config::EnvName::parse("NOT_SET_IN_THE_TESTS").unwrap();
    });
    let github = gateway.github("ping", "guid", "{}");
    github.send().assert_error(404, "not-found");
    gateway
        .jira("id", "{}")
        .send()
        .assert_error(404, "not-found");
    let other = gateway.call("GET", "/gh-webhook").send();
    other.assert_error(404, "not-found");
}

#[test]
fn a_route_that_is_enabled_later_answers_from_then_on() {
    let mut gateway = TestGateway::with(|config| config.github.webhook.enabled = false);
    let ping = gateway.github("ping", "guid", "{}");
    ping.send().assert_error(404, "not-found");
    gateway.reload(|config| {
        config.github.webhook.enabled = true;
        config.github.webhook.path = "/hooks/github".to_owned();
    });
    ping.send().assert_error(404, "not-found");
    let mut moved = gateway.github("ping", "guid", "{}");
    moved.retarget("/hooks/github");
    moved.send().assert(202);
}

#[test]
fn refusals_of_strangers_are_recorded_ten_times_and_then_counted() {
    let mut gateway = TestGateway::start();
    let long = "x".repeat(3_000);
    for _ in 0..25 {
        let stranger = gateway
            .call("POST", "/gh-webhook")
            .header("X-GitHub-Event", &long)
            .body("{}")
            .send();
        stranger.assert_error(401, "bad-signature");
    }
    gateway.stop();
    let dropped = gateway.records("gateway.dropped");
    assert_eq!(dropped.len(), 11);
    assert_eq!(dropped[0]["kind"].as_str().unwrap().len(), 200);
    assert_eq!(dropped[10]["suppressed"], 15);
}

#[test]
fn no_secret_and_no_peer_is_written_anywhere() {
    let mut gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let mut shown = String::new();
    let body = comment_on(15, 1, "a secret text of a person");
    let call = gateway.github("issue_comment", "guid", &body);
    shown.push_str(&call.send().text());
    gateway.fetch("laptop", &json!({}));
    let rival = json!({"instance": "laptop", "peer": "rival-of-laptop"});
    let reply = gateway.api("POST", "/fetch", &rival);
    reply.assert_error(409, "duplicate-instance");
    shown.push_str(&reply.text());
    gateway.stop();
    shown.push_str(&std::fs::read_to_string(gateway.root().join("logs/events.jsonl")).unwrap());
    for secret in [
        GITHUB_SECRET,
        "peer-of-laptop",
        "rival-of-laptop",
        "a secret text",
    ] {
        assert!(!shown.contains(secret), "{secret}");
    }
}

#[test]
fn only_our_own_names_may_be_asked_for_the_api() {
    let gateway = TestGateway::with(|config| {
        config.listen.allowed_hosts.insert("gw.example".to_owned());
    });
    let ready = |host: &str| {
        let call = gateway.call("GET", "/api/v1/gateway/ready");
        call.header("Host", host).send()
    };
    for host in [
        "localhost",
        "127.0.0.1:1",
        "[::1]:8790",
        "gw.example",
        "GW.example:443",
    ] {
        ready(host).assert(200);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "gw.example.evil",
    ] {
        ready(host).assert_error(403, "forbidden-origin");
        let fetch = gateway.fetch_call("laptop", &json!({}));
        let reply = fetch.header("Host", host).send();
        reply.assert_error(403, "forbidden-origin");
    }
    let forwarded = gateway
        .call("GET", "/api/v1/gateway/ready")
        .header("Host", "evil.example")
        .header("X-Forwarded-Host", "localhost")
        .header("Forwarded", "host=localhost");
    forwarded.send().assert_error(403, "forbidden-origin");
    let line = gateway.call("GET", "http://evil.example/api/v1/gateway/ready");
    line.send().assert_error(403, "forbidden-origin");
    // A provider proves itself; whatever name it was given is none of our business.
    let body = comment_on(15, 1, "a");
    let call = gateway.github("issue_comment", "guid", &body);
    call.header("Host", "hooks.example").send().assert(202);
}

#[test]
fn only_our_own_page_may_send_a_browser_here() {
    let gateway = TestGateway::start();
    let from = |origin: &str| {
        let fetch = gateway.fetch_call("laptop", &json!({}));
        fetch.header("Origin", origin).send()
    };
    let own = format!("http://127.0.0.1:{}", gateway.port);
    let reply = from(&own);
    reply.assert(200);
    assert_eq!(reply.header("access-control-allow-origin"), None);
    for foreign in [
        "http://evil.example",
        "http://localhost:3000",
        "null",
        "https://evil.example",
        "",
    ] {
        let reply = from(foreign);
        reply.assert_error(403, "forbidden-origin");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let preflight = gateway
        .call("OPTIONS", "/api/v1/gateway/fetch")
        .header("Origin", &own)
        .header("Access-Control-Request-Method", "POST")
        .send();
    preflight.assert_error(405, "method-not-allowed");
    // A signed delivery is one, whatever it says of its origin.
    let call = gateway.github("ping", "guid", "{}");
    call.header("Origin", "http://evil.example")
        .send()
        .assert(202);
}

#[test]
fn a_body_that_is_declared_too_large_is_refused_unread() {
    let gateway = TestGateway::start();
    let too_large = |target: &str, length: usize, kind: &str| {
        let call = gateway
            .call("POST", target)
            .header("Content-Type", kind)
            .header("Content-Length", length);
        // Nothing of the body is ever sent.
        Reply::read(&mut call.open())
    };
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    for (target, length, kind) in [
        ("/gh-webhook", 25 * MIB + 1, json),
        ("/gh-webhook", 40 * MIB + 1, form),
        ("/jira-webhook", 25 * MIB + 1, json),
        ("/slack/events", 25 * MIB + 1, json),
        ("/slack/interactions", 40 * MIB + 1, form),
        ("/api/v1/gateway/fetch", 2 * MIB + 1, json),
        ("/api/v1/gateway/fetch", usize::MAX, json),
    ] {
        let reply = too_large(target, length, kind);
        reply.assert_error(413, "body-too-large");
        assert_eq!(reply.header("connection"), Some("close"));
    }
    assert_nothing_stored(&gateway);
}

#[test]
fn a_client_that_sends_on_regardless_hears_the_refusal() {
    let gateway = TestGateway::start();
    let large = vec![b' '; 26 * MIB];
    let call = gateway.call("POST", "/gh-webhook").body(&large);
    for _ in 0..5 {
        call.send().assert_error(413, "body-too-large");
    }
}

#[test]
fn a_body_without_a_length_is_counted_as_it_comes() {
    let gateway = TestGateway::start();
    let call = gateway
        .call("POST", "/api/v1/gateway/fetch")
        .header("Content-Type", "application/json")
        .header("Transfer-Encoding", "chunked");
    let mut stream = call.open();
    let chunk = [b' '; 64 * 1024];
    for _ in 0..100 {
        let sent = stream
            .write_all(format!("{:x}\r\n", chunk.len()).as_bytes())
            .and_then(|()| stream.write_all(&chunk))
            .and_then(|()| stream.write_all(b"\r\n"));
        if sent.is_err() {
            break;
        }
    }
    let reply = Reply::read(&mut stream);
    reply.assert_error(413, "body-too-large");
}

#[test]
fn a_form_may_be_larger_on_the_wire_than_its_json() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let text = "\"".repeat(4 * MIB);
    let json = comment_on(15, 1, &text);
    assert!(json.len() < 25 * MIB);
    let encoded: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &json)
        .finish();
    assert!(
        encoded.len() > 25 * MIB - 2 * MIB && encoded.len() < 40 * MIB,
        "{}",
        encoded.len()
    );
    let reply = Call::new(gateway.port, "POST", "/gh-webhook")
        .header("X-GitHub-Event", "issue_comment")
        .header("X-GitHub-Delivery", "guid")
        .header(
            "X-Hub-Signature-256",
            sign_github(GITHUB_SECRET, encoded.as_bytes()),
        )
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(&encoded)
        .send();
    reply.assert(202);
    let answer = gateway.fetch_call("laptop", &json!({})).send();
    assert!(
        answer.text().contains(&json),
        "the payload is not there byte for byte"
    );
}

/// Opens a request whose body never ends.
fn stalled(gateway: &TestGateway, declared: usize, sent: usize) -> std::net::TcpStream {
    let call = gateway
        .call("POST", "/gh-webhook")
        .header("Content-Length", declared);
    let mut stream = call.open();
    stream.write_all(&vec![b' '; sent]).unwrap();
    stream
}

#[test]
fn one_open_request_too_many_is_told_to_come_back() {
    let gateway = TestGateway::with(|config| config.listen.open_requests_max = 2);
    let mut last = None;
    wait_until("the bound", || {
        let _stalled = [stalled(&gateway, 100, 1), stalled(&gateway, 100, 1)];
        let reply = gateway.get("/ready");
        let is_refused = reply.status == 503;
        last = Some(reply);
        is_refused
    });
    let reply = last.unwrap();
    reply.assert_error(503, "overloaded");
    assert!(reply.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    // Once their time is up there is room again.
    wait_until("room", || gateway.get("/ready").status == 200);
}

#[test]
fn bodies_may_hold_only_so_much_together() {
    let gateway = TestGateway::with(|config| config.listen.body_bytes_in_flight_max = 100_000);
    let large = comment_on(15, 1, &"x".repeat(60_000));
    let mut last = None;
    wait_until("the bound", || {
        let _stalled = stalled(&gateway, 90_000, 80_000);
        let reply = gateway.github("issue_comment", "guid", &large).send();
        let is_refused = reply.status == 503;
        last = Some(reply);
        is_refused
    });
    last.unwrap().assert_error(503, "overloaded");
    wait_until("room", || {
        gateway
            .github("issue_comment", "guid", &large)
            .send()
            .status
            == 202
    });
}

#[test]
fn held_polls_have_a_bound_of_their_own() {
    let mut gateway = TestGateway::with(|config| {
        config.listen.open_requests_max = 2;
        config.consume.long_polls_max = 3;
    });
    let hold = |name: &'static str| {
        let held = gateway.fetch_call(name, &json!({"wait": 20})).spawn();
        gateway.wait_for_lease(name);
        held
    };
    let held = ["a", "b", "c"].map(hold);
    let mut refused = Value::Null;
    wait_until("a poll that is not held", || {
        let reply = gateway.fetch_call("d", &json!({"wait": 1})).send();
        refused = reply.json();
        reply.status == 200 && refused["pollAfter"].as_f64() >= Some(1.0)
    });
    assert!(refused["pollAfter"].as_f64() <= Some(5.0));
    gateway.stop();
    for held in held {
        held.join().unwrap().assert(200);
    }
}

#[test]
fn odd_payloads_are_stored_as_they_came() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let plain = comment_on(15, 1, "a");
    let open = plain.strip_suffix('}').unwrap();
    let nested = format!(
        "{open},\"deep\":{}{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let odd = format!("{open},\"x\":\"\\ud800\\u0000\",\"x\":1,\"n\":1e999}}");
    let padded = format!("\r\n\t {plain} \n");
    for (id, body) in [("1", &nested), ("2", &odd), ("3", &padded)] {
        let body = body.replace("\"id\":1", &format!("\"id\":{id}"));
        gateway
            .github("issue_comment", id, &body)
            .send()
            .assert(202);
    }
    let answer = gateway.fetch_call("laptop", &json!({})).send();
    let text = answer.text();
    assert!(text.contains(&"[".repeat(10_000)));
    assert!(text.contains("\"x\":\"\\ud800\\u0000\",\"x\":1,\"n\":1e999}"));
    assert_eq!(text.matches("\"attempt\":1,\"event\"").count(), 3);
}

#[test]
fn what_is_no_json_object_is_no_payload() {
    let gateway = TestGateway::start();
    for body in ["", "[]", "1", "{", "{} {}", "\u{feff}{}", "{\"a\":}"] {
        let reply = gateway.github("issues", "guid", body).send();
        reply.assert_error(400, "invalid-payload");
    }
    let latin = b"{\"a\":\"\xe4\"}";
    let reply = gateway
        .call("POST", "/gh-webhook")
        .header("X-GitHub-Event", "issues")
        .header("X-Hub-Signature-256", sign_github(GITHUB_SECRET, latin))
        .body(latin)
        .send();
    reply.assert_error(400, "invalid-payload");
    assert_nothing_stored(&gateway);
}

#[test]
fn a_second_listener_keeps_the_api_from_the_tunnel() {
    let gateway = TestGateway::with(|config| {
        let mut address = config.listen.address.clone();
        address.port = 0;
        config.listen.ingress = Some(address);
    });
    assert_ne!(gateway.port, gateway.ingress_port);
    let body = comment_on(15, 1, "a");
    gateway
        .github("issue_comment", "guid", &body)
        .send()
        .assert(202);
    gateway.get("/ready").assert(200);
    // Neither answers what is the other's.
    let mut wrong = gateway.github("issue_comment", "guid", &body);
    wrong.port = gateway.port;
    wrong.send().assert_error(404, "not-found");
    for target in [
        "/api/v1/gateway/ready",
        "/api/v1/gateway/fetch",
        "/",
        "/metrics",
    ] {
        let reply = Call::new(gateway.ingress_port, "GET", target).send();
        reply.assert_error(404, "not-found");
    }
}
