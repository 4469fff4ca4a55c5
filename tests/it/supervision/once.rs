//! What comes over several ingresses is stored once.

use serde_json::json;
use the_loop_gateway::devkit::slack::{Envelope, Post};

use crate::support::gateway::wait_until;
use crate::support::live::{ALL, Fakes, LiveGateway, env, secret};

const REPO: &str = "octo/repo";
const CHANNEL: &str = "C0ROOM";

/// Scenario: a comment comes by webhook and by poll, in either order.
#[test]
fn a_comment_by_webhook_and_by_poll_is_stored_once() {
    let fakes = Fakes::start();
    let number = fakes.github.open_issue(REPO, "octocat", &[]);
    let gateway = LiveGateway::start(&fakes.config(&ALL, ""), &env(&[]));
    gateway.wait_for_exactly(&ALL);
    let webhook = |comment: u64| {
        let body = json!({
            "action": "created",
            "issue": fakes.github.issue_object(REPO, number),
            "comment": fakes.github.object(REPO, comment),
            "repository": fakes.github.repository(REPO),
            "sender": {"login": "octocat"},
        });
        let id = format!("guid-{comment}");
        let secret = secret("THE_LOOP_GH_WEBHOOK_SECRET");
        gateway.github(secret, &id, &body.to_string()).send()
    };
    let polled_first = fakes.github.comment(REPO, number, "octocat", "one");
    wait_until("the poll", || gateway.stored().len() == 1);
    webhook(polled_first).assert(202);
    let sent_first = fakes.github.comment(REPO, number, "octocat", "two");
    webhook(sent_first).assert(202);
    let only_polled = fakes.github.comment(REPO, number, "octocat", "three");
    wait_until("the last one", || {
        let stored = gateway.stored();
        stored
            .iter()
            .any(|id| id.contains(&only_polled.to_string()))
    });
    assert_eq!(gateway.stored().len(), 3, "{:?}", gateway.stored());
}

/// Scenario: a message comes over the socket, over HTTP and by the catch-up.
#[test]
fn a_message_by_socket_http_and_catch_up_is_stored_once() {
    let fakes = Fakes::start();
    let root = fakes.slack.post(Post::top(CHANNEL, "root"));
    let config = fakes.config(&["slack-http", "slack-socket"], "");
    let mut gateway = LiveGateway::start(&config, &env(&[]));
    gateway.wait_for_exactly(&["slack-http", "slack-socket"]);
    let binding = json!({
        "instance": "laptop",
        "ref": "github:octo/repo#1",
        "provider": "slack",
        "key": format!("{CHANNEL}/{root}"),
    });
    gateway.api("POST", "/bindings", &binding).assert(200);
    let ts = fakes.slack.post(Post::reply(CHANNEL, &root, "hello"));
    let message = json!({
        "type": "message", "user": "U0FAKE", "text": "hello", "ts": ts, "thread_ts": root,
    });
    let envelope = Envelope::message(CHANNEL, &message);
    fakes.slack.push(&envelope);
    wait_until("its ack", || {
        fakes.slack.seen().is_acked(&envelope.envelope_id)
    });
    gateway.slack(&envelope.payload).send().assert(200);
    gateway.stop();
    let missed = Post::reply(CHANNEL, &root, "while it was down");
    fakes.slack.post(missed);
    gateway.run();
    wait_until("the catch-up", || gateway.stored().len() == 2);
    let again = envelope.retried(1, "timeout");
    fakes.slack.push(&again);
    wait_until("its ack", || {
        fakes.slack.seen().is_acked(&again.envelope_id)
    });
    let stored = gateway.stored();
    assert_eq!(stored.len(), 2, "{stored:?}");
    assert!(stored[1].starts_with("poll-slack-"), "{stored:?}");
}
