//! `explain` and `events`: where is my event?

use serde_json::json;

use super::scene::{Scene, signed};
use crate::support::gateway::{comment_on, wait_until};

#[test]
fn one_command_tells_where_an_event_is_from_its_arrival_to_its_end() {
    let scene = Scene::start();
    scene.comment(15, 9001).assert(202);
    let explain = || scene.told(&["explain", "1"]);
    let held = explain();
    assert!(
        held.starts_with("event 1: issue_comment by octocat on github:octo/repo#15\n  now        held: nobody claims loop-github-octo-repo-15"),
        "{held}"
    );
    scene.claim("laptop", 15);
    let waiting = explain();
    let now = "goes out with the next fetch of laptop; but no process of laptop is there (it never fetched)";
    assert!(waiting.contains(now), "{waiting}");
    let because = "because    laptop claims loop-github-octo-repo-15, as its driver";
    assert!(waiting.contains(because), "{waiting}");
    let fetched = scene.fetch("laptop", &json!({"cursor": 0}));
    assert_eq!(fetched["deliveries"][0]["seq"], 1);
    let in_hand = explain();
    let now = "now        in the hands of laptop, run run-1, since";
    assert!(in_hand.contains(now), "{in_hand}");
    scene.commit("laptop", 1, "dropped:not-mine", "somebody else's");
    let settled = explain();
    for line in [
        "now        settled by laptop as dropped:not-mine, ",
        "verified   by the HMAC-SHA256 signature over its bytes",
        "known by   github:github.com:delivery:guid-9001",
        "           gh:github.com:issue_comment:9001:created",
        "about      github:octo/repo#15, named by the payload itself",
        "to run run-1, in response 2; dropped:not-mine after ",
        ": \"somebody else's\"",
    ] {
        assert!(settled.contains(line), "{line}: {settled}");
    }
}

#[test]
fn an_event_is_found_by_what_a_person_has_of_it() {
    let scene = Scene::start();
    scene.comment(15, 9001).assert(202);
    scene.comment(15, 9002).assert(202);
    for name in [
        "1",
        "guid-9001",
        "gh:github.com:issue_comment:9001:created",
        "https://github.com/octo/repo/issues/15#issuecomment-9001",
    ] {
        let story = scene.json(&["explain", name]);
        assert_eq!(story["event"]["id"], 1, "{name}");
    }
    let absolute = scene.told(&["explain", "1", "--absolute"]);
    let received = scene.json(&["explain", "1"])["event"]["receivedAt"].take();
    assert!(absolute.contains(received.as_str().unwrap()), "{absolute}");
    let work_item = scene.ask(&["explain", "github:octo/repo#15"]);
    assert_eq!(work_item.code, Some(1));
    let advice = "`events --subject github:octo/repo#15`";
    assert!(work_item.err.contains(advice), "{}", work_item.err);
}

#[test]
fn what_was_dropped_is_explained_from_the_event_log_and_what_never_came_is_not_known() {
    let mut scene = Scene::start();
    let body = comment_on(15, 7, "a").replace("octo/repo", "octo/other");
    signed(scene.port, 7, &body).send().assert(202);
    scene.comment(15, 8).assert(202);
    // The log is written behind the answers.
    scene.stop();
    let dropped = scene.home.run(&["explain", "guid-7"]);
    assert_eq!(dropped.code, Some(0), "{}", dropped.err);
    for text in [
        "guid-7 is not in the store",
        "gateway.dropped",
        "undeclared-repository",
    ] {
        assert!(dropped.out.contains(text), "{}", dropped.out);
    }
    let records = scene.home.run(&["explain", "guid-7", "--format", "json"]);
    let records: serde_json::Value = serde_json::from_str(&records.out).unwrap();
    assert_eq!(records["records"][0]["reason"], "undeclared-repository");
    let unknown = scene.home.run(&["explain", "guid-9"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("nothing is known of \"guid-9\""),
        "{}",
        unknown.err
    );
    // The gateway is down: what is stored is read from its file.
    let stored = scene.home.run(&["explain", "guid-8"]);
    assert_eq!(stored.code, Some(0), "{}", stored.err);
    assert!(
        stored.out.starts_with("event 1: issue_comment"),
        "{}",
        stored.out
    );
    assert!(stored.err.contains("gateway.db holds"), "{}", stored.err);
}

#[test]
fn events_are_listed_by_subject_kind_state_and_time() {
    let mut scene = Scene::start();
    scene.claim("laptop", 15);
    for (number, id) in [(15, 1), (16, 2), (15, 3)] {
        scene.comment(number, id).assert(202);
    }
    let ids = |arguments: &[&str]| {
        let listed = scene.json(&[&["events"], arguments].concat());
        let rows = listed["events"].as_array().unwrap();
        rows.iter()
            .map(|row| row["id"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [3, 2, 1]);
    assert_eq!(ids(&["--limit", "2"]), [3, 2]);
    assert_eq!(ids(&["--subject", "github:octo/repo#15"]), [3, 1]);
    assert_eq!(ids(&["--subject", "loop-github-octo-repo-16"]), [2]);
    assert_eq!(ids(&["--state", "held"]), [2]);
    assert_eq!(
        ids(&["--instance", "laptop", "--kind", "issue_comment"]),
        [3, 1]
    );
    assert_eq!(ids(&["--kind", "issues"]), [0; 0]);
    assert_eq!(ids(&["--since", "1h"]), [3, 2, 1]);
    assert_eq!(ids(&["--until", "1h"]), [0; 0]);
    let table = scene.told(&["events", "--limit", "2"]);
    assert!(table.starts_with("event  received"), "{table}");
    assert!(
        table.ends_with("2 events; older ones with --limit\n"),
        "{table}"
    );
    for (wrong, advice) in [
        (["--since", "yesterday"], "such as 90s, 30min"),
        (["--subject", "octo"], "github:octo/repo#15"),
        (["--state", "gone"], "held, grace, routed or expired"),
    ] {
        let ended = scene.ask(&[&["events"], &wrong[..]].concat());
        assert_eq!(ended.code, Some(2));
        assert!(ended.err.contains(advice), "{}", ended.err);
    }
    scene.stop();
    let filed = scene
        .home
        .run(&["events", "--state", "held", "--format", "json"]);
    assert!(
        filed.out.contains("\"id\": 2"),
        "{}{}",
        filed.out,
        filed.err
    );
    let follow = scene.home.run(&["events", "--follow"]);
    assert_eq!(follow.code, Some(1));
    assert!(
        follow.err.contains("needs a running gateway"),
        "{}",
        follow.err
    );
}

#[test]
fn who_follows_is_told_each_event_once_as_it_is_stored() {
    let scene = Scene::start();
    scene.comment(15, 1).assert(202);
    let following = scene.home.start(&[
        "events", "--follow", "--format", "json", "--url", &scene.url,
    ]);
    let id_of = |line: String| {
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        row["id"].as_i64().unwrap()
    };
    assert_eq!(id_of(following.line_with("{")), 1);
    for id in 2..=4 {
        scene.comment(15, id).assert(202);
        let id = i64::try_from(id).unwrap();
        assert_eq!(id_of(following.line_with("{")), id);
    }
    let ended = following.terminate();
    assert_eq!(ended.out, "", "none twice");
}

#[test]
fn who_follows_goes_on_when_the_gateway_comes_back() {
    let mut scene = Scene::start();
    let port = scene.port.to_string();
    let following = scene
        .home
        .start(&["events", "--follow", "--url", &scene.url]);
    scene.comment(15, 1).assert(202);
    assert!(
        following
            .line_with("issue_comment")
            .contains("github:octo/repo#15")
    );
    scene.stop();
    wait_until("the follower to notice", || {
        following.has_said("trying again")
    });
    let again = scene.home.start(&["run", "--port", &port]);
    again.line_with("listening on ");
    scene.comment(16, 2).assert(202);
    assert!(
        following
            .line_with("issue_comment")
            .contains("github:octo/repo#16")
    );
}
