//! Stories as the API tells them, and as people read them.

use serde_json::{Value, json};

use super::*;
use crate::cli::explain::waiting::standing;
use crate::domain::Timestamp;

/// 1970-01-01T00:10:00Z.
const NOW: Timestamp = Timestamp(600_000);

fn at(seconds: i64) -> String {
    Timestamp(0).plus(seconds.saturating_mul(1_000)).to_string()
}

fn event(more: &Value) -> Value {
    let mut event = json!({
        "id": 208, "subject": "loop-github-octo-repo-15", "workItem": "github:octo/repo#15",
        "provider": "github", "source": "webhook", "deliveryId": "g1", "kind": "issue_comment",
        "receivedAt": at(480), "state": "routed", "actor": "octocat", "payloadBytes": 2_048,
        "headers": {}, "resolvedBy": "direct", "resolvedKey": null, "publishedBy": null,
        "alsoAbout": [], "awaits": [], "dedupKeys": ["github:github.com:delivery:g1", "gh:c:1"],
    });
    for (name, value) in more.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

fn delivery(more: &Value) -> Value {
    let mut delivery = json!({
        "seq": 413, "instance": "laptop", "state": "ready", "why": "claim:driver", "attempt": 1,
        "strikes": 0, "suspect": false, "losses": 0, "routedAt": at(480), "dueAt": null,
        "outcome": null, "detail": null, "endedAt": null, "redriveOf": null, "waitsFor": null,
        "handOuts": [],
    });
    for (name, value) in more.as_object().unwrap() {
        delivery[name] = value.clone();
    }
    delivery
}

fn waits(more: &Value) -> Value {
    let mut waits = json!({
        "what": "fetch", "behind": null, "behindEvent": null, "until": null, "ahead": 0,
        "lastFetchAt": at(590), "live": true,
    });
    for (name, value) in more.as_object().unwrap() {
        waits[name] = value.clone();
    }
    waits
}

fn story(event: &Value, deliveries: &[Value]) -> Story {
    serde_json::from_value(json!({ "event": event, "deliveries": deliveries })).unwrap()
}

#[test]
fn a_story_begins_with_where_the_event_is_and_tells_every_hand_out() {
    let failed = json!({
        "number": 414, "run": "7c1e55", "attempt": 1, "handedAt": at(485), "endedAt": at(494),
        "ended": "failed", "detail": "no room",
    });
    let in_hand = json!({
        "number": 415, "run": "7c1e55", "attempt": 2, "handedAt": at(540), "endedAt": null,
        "ended": null, "detail": null,
    });
    let handed = delivery(&json!({
        "state": "handed", "attempt": 2, "strikes": 1, "outcome": "failed", "detail": "no room",
        "waitsFor": waits(&json!({"what": "outcome"})), "handOuts": [failed, in_hand],
    }));
    let told = story(&event(&json!({})), &[handed]).told(Times::RelativeTo(NOW), Output::PLAIN);
    assert_eq!(
        told,
        "event 208: issue_comment by octocat on github:octo/repo#15\n  \
         now        in the hands of laptop, run 7c1e55, since 1 min ago, without an outcome\n\
         \n  \
         arrived    2 min ago, sent by GitHub over HTTP, as delivery g1; 2.0 KiB of payload\n  \
         verified   by the HMAC-SHA256 signature over its bytes with the webhook's secret, before \
         it was read\n  \
         known by   github:github.com:delivery:g1\n             gh:c:1\n  \
         about      github:octo/repo#15, named by the payload itself\n\
         \n\
         delivery 413 to laptop\n  \
         because    laptop claims loop-github-octo-repo-15, as its driver\n  \
         queued     2 min ago\n  \
         attempt 1  1 min ago to run 7c1e55, in response 414; failed after 9 s: \"no room\"\n  \
         attempt 2  1 min ago to run 7c1e55, in response 415; in hand\n  \
         blame      1 strike"
    );
}

/// What stands behind *now*, and whether it needs a person.
fn now(event: &Value, deliveries: &[Value]) -> (String, bool) {
    let standing = standing(&story(event, deliveries), Times::RelativeTo(NOW));
    (standing.sentences.join(" | "), standing.needs_a_person)
}

#[test]
fn where_an_event_is_without_a_queue() {
    for (more, sentence, needs_a_person) in [
        (
            json!({"state": "held"}),
            "held: nobody claims loop-github-octo-repo-15, and no instance works for octocat; \
             a claim or a registration brings it onto a queue",
            true,
        ),
        (
            json!({"state": "grace", "actor": null, "awaits": [
                {"by": "binding", "key": "C0123/17.1"}, {"by": "room", "key": "C0123"},
                {"by": "commit", "key": "github.com/octo/repo@abc"}]}),
            "waits for a short time for what names its work item: a binding of C0123/17.1, or a \
             room C0123, or the pull request of commit github.com/octo/repo@abc; then it is \
             dropped as unbound",
            false,
        ),
        (
            json!({"state": "expired"}),
            "expired: nobody settled it in time, and its payload is gone",
            true,
        ),
    ] {
        let found = now(&event(&more), &[]);
        assert_eq!(found, (sentence.to_owned(), needs_a_person));
    }
}

#[test]
fn where_a_delivery_waits_is_said_with_what_is_in_its_way() {
    let due = at(628);
    for (more, sentence) in [
        (json!({}), "goes out with the next fetch of laptop"),
        (
            json!({"ahead": 1}),
            "goes out to laptop behind 1 older event",
        ),
        (
            json!({"ahead": 1_001}),
            "goes out to laptop behind more than 1,000 older events",
        ),
        (
            json!({"what": "retry", "until": due}),
            "waits for its next try by laptop, in 28 s",
        ),
        (
            json!({"what": "earlier", "behind": 412, "behindEvent": 207, "until": due}),
            "waits for delivery 412 (event 207), which goes first in its subject and is due in 28 s",
        ),
        (
            json!({"what": "suspect", "behind": 412, "behindEvent": 207}),
            "waits for delivery 412 (event 207), which goes out alone because a process vanished \
             with it",
        ),
        (
            json!({"what": "alone", "behind": 412, "behindEvent": 207}),
            "goes out alone, once delivery 412 (event 207) is no longer in hand",
        ),
    ] {
        let waiting = delivery(&json!({"waitsFor": waits(&more)}));
        let found = now(&event(&json!({})), &[waiting]);
        assert_eq!(found, (sentence.to_owned(), false), "{more}");
        let mut absent = more.clone();
        (absent["live"], absent["lastFetchAt"]) = (json!(false), Value::Null);
        let waiting = delivery(&json!({"waitsFor": waits(&absent)}));
        let (found, needs_a_person) = now(&event(&json!({})), &[waiting]);
        assert!(needs_a_person, "{more}");
        let end = "; but no process of laptop is there (it never fetched)";
        assert_eq!(found, format!("{sentence}{end}"));
    }
}

#[test]
fn what_is_over_is_told_once_and_what_replaced_it_instead() {
    let over = |state: &str, more: &Value| {
        let mut over = json!({"state": state, "endedAt": at(590)});
        for (name, value) in more.as_object().unwrap() {
            over[name] = value.clone();
        }
        delivery(&over)
    };
    let settled = over("settled", &json!({"outcome": "dropped:bot"}));
    let found = now(&event(&json!({})), &[settled]);
    let settled = "settled by laptop as dropped:bot, 10 s ago";
    assert_eq!(found, (settled.to_owned(), false));
    let dead = over("dead", &json!({"strikes": 3, "detail": "no room"}));
    let found = now(&event(&json!({})), std::slice::from_ref(&dead));
    let said = "dead on laptop's queue after 3 strikes, 10 s ago: \"no room\"; mend the cause, \
                then `redrive 413`";
    assert_eq!(found, (said.to_owned(), true));
    let again = delivery(&json!({
        "seq": 440, "redriveOf": 413, "waitsFor": waits(&json!({})),
    }));
    let found = now(&event(&json!({})), &[dead, again]);
    let waits = "goes out with the next fetch of laptop";
    assert_eq!(found, (waits.to_owned(), false));
}

#[test]
fn what_decided_is_named() {
    let about = |more: &Value| story(&event(more), &[]).event.about();
    let binding = json!({
        "resolvedBy": "binding", "resolvedKey": "C0123/17.1", "publishedBy": "laptop",
    });
    assert_eq!(
        about(&binding),
        "github:octo/repo#15, named by the binding of C0123/17.1, which laptop published"
    );
    let commit = json!({"resolvedBy": "commit", "resolvedKey": "github.com/octo/repo@abc"});
    assert!(about(&commit).ends_with("whose head is commit github.com/octo/repo@abc"));
    let because = |why: &str| {
        let told = story(&event(&json!({})), &[delivery(&json!({ "why": why }))]);
        told.deliveries[0].because(&told.event)
    };
    for (why, sentence) in [
        (
            "claim:reviewer",
            "laptop claims loop-github-octo-repo-15, as its reviewer",
        ),
        (
            "link:loop-jira-acme-proj-1:driver",
            "laptop claims loop-jira-acme-proj-1, as its driver, and a binding links it to this \
             work item",
        ),
        (
            "actor",
            "nobody claims the work item, and laptop works for octocat",
        ),
        ("replay", "an operator replayed it onto laptop"),
    ] {
        assert_eq!(because(why), sentence);
    }
}
