//! `dead`, `redrive`, `replay` and `release`: what an operator does about what is stuck.

use serde_json::json;

use super::scene::Scene;

#[test]
fn the_dead_are_listed_and_one_is_shown_with_what_was_said() {
    let mut scene = Scene::start();
    scene.claim("laptop", 15);
    scene.comment(15, 1).assert(202);
    assert_eq!(scene.told(&["dead", "list"]), "no such delivery is dead\n");
    let seq = scene.die("laptop").to_string();
    let listed = scene.told(&["dead", "list", "--instance", "laptop", "--since", "1h"]);
    assert!(listed.contains("failed: no room"), "{listed}");
    assert!(listed.contains("1 dead delivery; "), "{listed}");
    for none in [
        ["--instance", "desktop"],
        ["--subject", "github:octo/repo#16"],
        ["--until", "1h"],
    ] {
        let listed = scene.told(&[&["dead", "list"], &none[..]].concat());
        assert_eq!(listed, "no such delivery is dead\n", "{none:?}");
    }
    let shown = scene.told(&["dead", "show", &seq]);
    let now = format!("mend the cause, then `redrive {seq}`");
    assert!(shown.contains(&now), "{shown}");
    let unknown = scene.ask(&["dead", "show", "99"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("delivery 99 is not dead"),
        "{}",
        unknown.err
    );
    scene.stop();
    let filed = scene.home.run(&["dead", "list", "--format", "json"]);
    let filed: serde_json::Value = serde_json::from_str(&filed.out).unwrap();
    assert_eq!(filed["dead"][0]["detail"], "no room");
}

#[test]
fn a_redrive_is_tried_first_and_then_sends_each_once() {
    let scene = Scene::start();
    scene.claim("laptop", 15);
    scene.claim("laptop", 16);
    for (number, id) in [(15, 1), (16, 2), (16, 3)] {
        scene.comment(number, id).assert(202);
        scene.die("laptop");
    }
    let dry = scene.told(&["redrive", "--subject", "github:octo/repo#16", "--dry-run"]);
    assert!(dry.ends_with("2 deliveries would be redriven\n"), "{dry}");
    assert_eq!(
        scene.json(&["dead", "list"])["dead"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let one = scene.json(&["redrive", "1"]);
    assert_eq!(
        one,
        json!({
            "dryRun": false, "appended": 1, "skipped": 0,
            "deliveries": [{"seq": 4, "instance": "laptop", "eventId": 1, "redriveOf": 1}],
        })
    );
    let again = scene.told(&["redrive", "1"]);
    assert!(
        again.starts_with("0 deliveries redriven; 1 skipped: "),
        "{again}"
    );
    let unknown = scene.ask(&["redrive", "1", "99", "98"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.out.contains("; 1 skipped: "), "{}", unknown.out);
    assert!(
        unknown.err.contains("no such delivery: 98, 99"),
        "{}",
        unknown.err
    );
    let unknown = scene.ask(&["replay", "--to", "laptop", "99"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("no such event: 99"), "{}", unknown.err);
    let none = scene.told(&["redrive", "--until", "1h"]);
    assert_eq!(none, "0 deliveries redriven\n");
    let rest = scene.told(&["redrive", "--since", "1h", "--instance", "laptop"]);
    assert!(rest.ends_with("2 deliveries redriven\n"), "{rest}");
    let story = scene.told(&["explain", "1"]);
    for line in [
        "instead of delivery 1",
        "replaced   by delivery 4 to laptop",
    ] {
        assert!(story.contains(line), "{line}: {story}");
    }
    let nothing = scene.ask(&["redrive"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("--all"), "{}", nothing.err);
    let contradiction = scene.ask(&["redrive", "--all", "1"]);
    assert_eq!(contradiction.code, Some(2));
}

#[test]
fn more_than_one_call_takes_is_redriven_in_one_command() {
    let scene = Scene::start();
    scene.claim("laptop", 15);
    for id in 1..=3 {
        scene.comment(15, id).assert(202);
    }
    // Many dead ones at once: nobody waits for five hundred strikes.
    for id in 4..=520 {
        scene.comment(15, id).assert(202);
    }
    scene.fetch("laptop", &json!({"cursor": 0, "max": 0}));
    super::rows::execute(
        &scene.home.path(".the-loop/gateway/gateway.db"),
        "UPDATE deliveries SET state = 3, strikes = 1, ended_at_ms = routed_at_ms;
         UPDATE instances SET backlog = 0; DELETE FROM lanes",
    );
    let done = scene.json(&["redrive", "--all"]);
    assert_eq!(
        (&done["appended"], &done["skipped"]),
        (&json!(520), &json!(0))
    );
    assert_eq!(done["deliveries"].as_array().unwrap().len(), 520);
    assert_eq!(done.get("more"), None);
}

#[test]
fn a_subject_or_a_time_is_replayed_onto_one_queue() {
    let scene = Scene::start();
    for (number, id) in [(15, 1), (16, 2), (15, 3)] {
        scene.comment(number, id).assert(202);
    }
    let subject = [
        "replay",
        "--to",
        "laptop",
        "--subject",
        "github:octo/repo#15",
    ];
    let unknown = scene.ask(&subject);
    assert_eq!(unknown.code, Some(1));
    let why = "--to must be known, and laptop is not: none is yet";
    assert!(unknown.err.contains(why), "{}", unknown.err);
    for known in ["laptop", "desktop"] {
        scene.fetch(known, &json!({"cursor": 0, "max": 0}));
    }
    let unknown = scene.ask(&["replay", "--to", "latop", "1"]);
    let why = "--to must be known, and latop is not: known are laptop, desktop";
    assert!(unknown.err.contains(why), "{}", unknown.err);
    let dry = scene.json(&[&subject[..], &["--dry-run"]].concat());
    assert_eq!(
        (&dry["appended"], &dry["dryRun"]),
        (&json!(2), &json!(true))
    );
    let done = scene.told(&subject);
    assert!(
        done.ends_with("2 deliveries replayed onto laptop\n"),
        "{done}"
    );
    let done = scene.told(&[
        "replay",
        "--to",
        "desktop",
        "--since",
        "1h",
        "--until",
        "2026-01-01T00:00:00Z",
    ]);
    assert_eq!(done, "0 deliveries replayed onto desktop\n");
    let done = scene.json(&["replay", "--to", "desktop", "2"]);
    assert_eq!(done["deliveries"][0]["eventId"], 2);
    let fetched = scene.fetch("laptop", &json!({"cursor": 0}));
    let ids: Vec<_> = fetched["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| delivery["event"]["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [1, 3]);
    let story = scene.told(&["explain", "1"]);
    assert!(
        story.contains("an operator replayed it onto laptop"),
        "{story}"
    );
    let nothing = scene.ask(&["replay", "--to", "laptop"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("--since"), "{}", nothing.err);
}

#[test]
fn what_an_instance_that_is_gone_holds_is_released() {
    let mut scene = Scene::start();
    scene.claim("laptop", 15);
    scene.claim("laptop", 16);
    scene.fetch("laptop", &json!({"cursor": 0}));
    let dry = scene.told(&["release", "laptop", "--claims", "--lease", "--dry-run"]);
    assert_eq!(dry, "would be taken from laptop: 2 claims, its lease\n");
    let one = scene.told(&["release", "laptop", "--claim", "github:octo/repo#15"]);
    assert_eq!(one, "taken from laptop: 1 claim\n");
    let rest = scene.json(&["release", "laptop", "--claims", "--actors", "--lease"]);
    assert_eq!(
        rest,
        json!({"dryRun": false, "known": true, "lease": true, "claims": 1, "actors": 0})
    );
    let again = scene.told(&["release", "laptop", "--claims"]);
    assert_eq!(again, "taken from laptop: 0 claims\n", "all of none");
    for (arguments, why) in [
        (&["laptpo", "--claims"][..], "no instance is called laptpo"),
        (
            &["laptpo", "--lease", "--dry-run"],
            "no instance is called laptpo",
        ),
        (
            &["laptop", "--claim", "github:octo/repo#15"],
            "laptop has no claim on loop-github-octo-repo-15",
        ),
    ] {
        let refused = scene.ask(&[&["release"], arguments].concat());
        assert_eq!(refused.code, Some(1), "{arguments:?}");
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    let nothing = scene.ask(&["release", "laptop"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("--lease"), "{}", nothing.err);
    scene.stop();
    let down = scene.ask(&["release", "laptop", "--lease"]);
    assert_eq!(down.code, Some(1));
    assert!(down.err.contains("no gateway answers"), "{}", down.err);
}

#[test]
fn a_number_that_cannot_be_is_refused_by_the_name_of_its_field() {
    let scene = Scene::start();
    let refused = scene.ask(&["redrive", "0"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("invalid-field"), "{}", refused.err);
    assert!(refused.err.contains("seq"), "{}", refused.err);
}
