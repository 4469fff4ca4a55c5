//! Refusals, outages and answers that make no sense.

use serde_json::json;

use super::*;
use crate::devkit::fake_gateway::Scripted;
use crate::domain::{Provider, Role, Subject, WorkItemRef};

fn refusal(reason: &str) -> Scripted {
    let mut body = json!({"error": "duplicate-instance", "message": "Another peer holds this name.",
        "holder": "default", "since": "2026-10-18T13:57:59.310Z", "fingerprint": "9f86d081884c7d65",
        "retryAfter": 42});
    if !reason.is_empty() {
        body["reason"] = json!(reason);
    }
    Scripted::Answer(409, body.to_string())
}

fn answer(status: u16, body: &str) -> Scripted {
    Scripted::Answer(status, body.to_owned())
}

#[test]
fn an_outage_is_told_once_and_everything_is_registered_again_after_it() {
    let scene = Scene::new();
    let subject = Subject::parse(ONE).unwrap();
    let client = scene
        .builder()
        .claim(subject, Role::Driver)
        .start(Desk::always(Handled::delivered()).handler())
        .unwrap();
    connected(&client);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") == 1)
        .unwrap();
    for round in 1..=2 {
        scene.gateway.go_down().unwrap();
        let status = wait(client.wait_for(|status| status.state.as_str() == "unreachable"));
        assert!(status.since.0 > 0);
        // It goes on trying meanwhile, and tells nothing more of it.
        scene.gateway.come_back().unwrap();
        connected(&client);
        let fetches = round + 1;
        scene
            .gateway
            .wait_for(|seen| seen.count("POST fetch") >= fetches)
            .unwrap();
    }
    assert_eq!(scene.gateway.seen().count("PUT claims"), 3);
    let seq = scene.gateway.push(ONE, "{}");
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq).is_some())
        .unwrap();
    wait(client.stop());
    assert_eq!(
        scene.events.names(),
        [
            "gateway.connected",
            "gateway.unreachable",
            "gateway.connected",
            "gateway.unreachable",
            "gateway.connected",
            "gateway.stopped"
        ]
    );
}

#[test]
fn a_gateway_that_is_not_there_at_first_is_waited_for() {
    let scene = Scene::new();
    scene.gateway.go_down().unwrap();
    let (client, _) = scene.start();
    scene.events.await_name("gateway.unreachable");
    scene.gateway.come_back().unwrap();
    connected(&client);
    wait(client.stop());
}

#[test]
fn an_answer_that_makes_no_sense_is_an_outage_and_loses_nothing() {
    let delivery = r#"{"seq":1,"attempt":1,"event":{"id":1}}"#;
    for (odd, is_outage) in [
        (answer(200, "<html>a proxy</html>"), true),
        (answer(200, "{}"), true),
        (
            answer(
                200,
                &format!(
                    r#"{{"deliveries":[{delivery}],"cursor":1,"committed":0,"lease":{{"expiresIn":60}},"pollAfter":0}}"#
                ),
            ),
            true,
        ),
        (
            answer(500, r#"{"error":"store-unavailable","message":"m"}"#),
            true,
        ),
        (answer(502, "bad gateway"), true),
        (answer(302, ""), true),
        (
            Scripted::RetryAfter(503, r#"{"error":"overloaded","message":"m"}"#.to_owned(), 0),
            true,
        ),
        (Scripted::CutOff, true),
        // A connection that breaks is tried once more at once: it may have been an idle one.
        (Scripted::Close, false),
    ] {
        let scene = Scene::new();
        scene.gateway.script("POST fetch", odd.clone());
        let desk = Desk::always(Handled::delivered());
        let client = scene.builder().start(desk.handler()).unwrap();
        let seq = scene.gateway.push(ONE, "{}");
        scene
            .gateway
            .wait_for(|seen| seen.outcome(seq) == Some("delivered"))
            .unwrap();
        assert_eq!(desk.begun(1), [(seq, 1)], "{odd:?}");
        wait(client.stop());
        let told = scene.events.names().contains(&"gateway.unreachable");
        assert_eq!(told, is_outage, "{odd:?}");
    }
}

#[test]
fn no_answer_in_time_is_an_outage() {
    let scene = Scene::new();
    scene.gateway.script("PUT actors", Scripted::Silence);
    let client = scene
        .builder()
        .patience(Duration::from_millis(100))
        .start(Desk::default().handler())
        .unwrap();
    let why = scene.events.text_of("gateway.unreachable");
    assert!(why.contains("no answer") || why.contains("imeout"), "{why}");
    connected(&client);
    wait(client.stop());
}

#[test]
fn a_gateway_that_says_when_to_come_back_is_obeyed() {
    let scene = Scene::new();
    let busy = r#"{"error":"overloaded","message":"m"}"#.to_owned();
    scene
        .gateway
        .script("PUT actors", Scripted::RetryAfter(503, busy, 1));
    let clock = tokio::time::Instant::now();
    let (client, _) = scene.start();
    connected(&client);
    assert!(clock.elapsed() >= Duration::from_secs(1));
    wait(client.stop());
}

#[test]
fn while_another_peer_holds_the_name_it_tells_the_holder_and_asks_again() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.gateway.script("PUT actors", refusal(""));
    }
    let (client, _) = scene.start();
    assert_eq!(
        scene.events.text_of("gateway.refused"),
        "the gateway refuses and is asked again: duplicate-instance: default is held by peer \
         9f86d081884c7d65 since 2026-10-18T13:57:59.310Z"
    );
    connected(&client);
    assert_eq!(scene.gateway.seen().count("PUT actors"), 4);
    wait(client.stop());
    assert_eq!(
        scene.events.names(),
        ["gateway.refused", "gateway.connected", "gateway.stopped"]
    );
}

#[test]
fn what_another_peer_took_over_is_not_begun_here_any_more() {
    let scene = Scene::new();
    let first = scene.gateway.push(ONE, "{}");
    scene.gateway.push(ONE, "{}");
    let desk = Desk::default();
    let builder = scene.builder().concurrency(1).batch(2);
    let client = builder
        .lease(Duration::from_millis(60))
        .start(desk.handler())
        .unwrap();
    desk.begun(1);
    // Both are in hand; the next renewal hears that they are somebody else's now.
    scene.gateway.script("POST fetch", refusal(""));
    scene.events.await_name("gateway.refused");
    // What was begun may end, and its outcome counts.
    desk.finish(first, Handled::delivered());
    let is_first = |seen: &crate::devkit::fake_gateway::Seen| seen.outcome(first).is_some();
    scene.gateway.wait_for(is_first).unwrap();
    wait(client.wait_for(|status| status.in_hand == 0));
    assert_eq!(desk.begun(1), [(first, 1)]);
    wait(client.stop());
}

#[test]
fn a_superseded_client_stops_says_what_it_did_and_stays_stopped() {
    let scene = Scene::new();
    let (first, second) = (scene.gateway.push(ONE, "{}"), scene.gateway.push(ONE, "{}"));
    let (client, desk) = scene.start();
    desk.begun(1);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    scene.gateway.script("POST fetch", refusal("superseded"));
    // Ends the fetch that is held, so that the next one hears it.
    let third = scene.gateway.push(TWO, "{}");
    scene.events.await_name("gateway.superseded");
    desk.begun(2);
    desk.finish(first, Handled::delivered());
    desk.finish(third, Handled::delivered());
    let end = wait(client.finished());
    assert!(matches!(end, End::Superseded { .. }), "{end:?}");
    let seen = scene.gateway.seen();
    assert_eq!(seen.outcome(first), Some("delivered"));
    assert_eq!(seen.outcome(second), Some("released"));
    assert_eq!(seen.asked.last().unwrap().call, "POST commit");
    assert_eq!(client.status().state.as_str(), "off");
}

#[test]
fn outcomes_that_the_gateway_never_handed_out_are_forgotten_and_the_rest_is_repeated() {
    let scene = Scene::new();
    let desk = Desk::default();
    let (first, second) = (scene.gateway.push(ONE, "{}"), scene.gateway.push(TWO, "{}"));
    let client = scene.builder().start(desk.handler()).unwrap();
    desk.begun(2);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    let body = json!({"error": "commit-undelivered", "message": "m", "seqs": [first]}).to_string();
    scene
        .gateway
        .script("POST commit", Scripted::Answer(409, body));
    desk.finish(first, Handled::delivered());
    desk.finish(second, Handled::delivered());
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(second).is_some())
        .unwrap();
    assert_eq!(seen.outcome(first), None);
    let forgotten = scene.events.text_of("gateway.commit_forgotten");
    assert!(forgotten.ends_with(&format!(": {first}")), "{forgotten}");
    wait(client.stop());
    assert!(!scene.events.names().contains(&"gateway.unreachable"));
}

#[test]
fn a_refusal_of_outcomes_that_were_not_sent_is_no_endless_loop() {
    let scene = Scene::new();
    let body = json!({"error": "commit-undelivered", "message": "m", "seqs": [77]}).to_string();
    scene
        .gateway
        .script("POST fetch", Scripted::Answer(409, body));
    let (client, _) = scene.start();
    scene.events.await_name("gateway.unreachable");
    connected(&client);
    wait(client.stop());
}

#[test]
fn actors_that_another_instance_holds_are_told_and_tried_again_while_the_rest_goes_on() {
    let scene = Scene::new();
    let body = json!({"error": "duplicate-actor", "message": "m",
        "conflicts": [{"provider": "github", "actor": "octocat", "holder": "desktop"}]});
    for _ in 0..2 {
        scene
            .gateway
            .script("PUT actors", Scripted::Answer(409, body.to_string()));
    }
    let client = scene
        .builder()
        .start(Desk::always(Handled::delivered()).handler())
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq).is_some())
        .unwrap();
    scene
        .gateway
        .wait_for(|seen| seen.count("PUT actors") == 3)
        .unwrap();
    let told = scene.events.text_of("gateway.refused");
    assert!(
        told.ends_with("duplicate-actor: github octocat is registered by desktop"),
        "{told}"
    );
    wait(client.stop());
    let refused = scene
        .events
        .names()
        .into_iter()
        .filter(|name| *name == "gateway.refused");
    assert_eq!(refused.count(), 1);
}

#[test]
fn an_instance_that_the_gateway_does_not_list_is_refused_and_asks_again() {
    let scene = Scene::new();
    scene.gateway.script(
        "PUT actors",
        answer(403, r#"{"error":"unknown-instance","message":"m"}"#),
    );
    let (client, _) = scene.start();
    scene.events.await_name("gateway.refused");
    connected(&client);
    wait(client.stop());
}

#[test]
fn a_binding_that_is_refused_is_told_to_its_caller_alone() {
    let scene = Scene::new();
    let (client, _) = scene.start();
    connected(&client);
    scene.gateway.script(
        "POST bindings",
        answer(422, r#"{"error":"invalid-field","message":"m"}"#),
    );
    let work_item = WorkItemRef::parse("github:octo/repo#1").unwrap();
    let refused = wait(client.bind(work_item, Provider::Slack, String::new()));
    assert!(matches!(refused, Err(CallError::Rejected { code, .. }) if code == "invalid-field"));
    assert_eq!(client.status().state, State::Connected);
    wait(client.stop());
}

#[test]
fn a_claim_made_during_an_outage_is_asserted_when_it_ends() {
    let scene = Scene::new();
    let (client, _) = scene.start();
    connected(&client);
    scene.gateway.go_down().unwrap();
    wait(client.wait_for(|status| status.state.as_str() == "unreachable"));
    let claimed = client.claim(Subject::parse(ONE).unwrap(), Role::Driver);
    scene.gateway.come_back().unwrap();
    assert_eq!(wait(claimed).unwrap().routed, 0);
    assert_eq!(scene.gateway.seen().count("PUT claims"), 1);
    wait(client.stop());
}

#[test]
fn outcomes_survive_an_outage() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    scene.gateway.go_down().unwrap();
    wait(client.wait_for(|status| status.state.as_str() == "unreachable"));
    desk.finish(seq, Handled::delivered());
    wait(client.wait_for(|status| status.unconfirmed == 1));
    scene.gateway.come_back().unwrap();
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq) == Some("delivered"))
        .unwrap();
    assert_eq!(desk.begun(1), [(seq, 1)]);
    wait(client.stop());
}
