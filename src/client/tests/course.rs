//! Registering, fetching, working and reporting, while all is well.

use serde_json::{Value, json};

use super::*;
use crate::domain::{EventActor, InstanceName, Provider, Role, Subject, WorkItemRef};

fn subject(text: &str) -> Subject {
    Subject::parse(text).unwrap()
}

fn fetches(scene: &Scene) -> Vec<Value> {
    let asked = scene.gateway.seen().asked;
    let fetches = asked.into_iter().filter(|asked| asked.call == "POST fetch");
    fetches.map(|asked| asked.body).collect()
}

fn calls(scene: &Scene) -> Vec<String> {
    let asked = scene.gateway.seen().asked;
    asked.into_iter().map(|asked| asked.call).collect()
}

#[test]
fn actors_and_claims_are_registered_before_the_first_fetch() {
    let scene = Scene::new();
    let client = scene
        .builder()
        .instance(InstanceName::parse("laptop").unwrap())
        .actor(EventActor {
            provider: Provider::GitHub,
            name: "octocat".to_owned(),
        })
        .claim(subject(ONE), Role::Driver)
        .start(Desk::default().handler())
        .unwrap();
    let seen = scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") > 0)
        .unwrap();
    let calls: Vec<&str> = seen.asked.iter().map(|asked| asked.call.as_str()).collect();
    assert_eq!(calls, ["PUT actors", "PUT claims", "POST fetch"]);
    let actors = &seen.asked[0].body;
    assert_eq!(actors["instance"], "laptop");
    assert_eq!(
        actors["actors"],
        json!({"github": ["octocat"], "slack": [], "jira": []})
    );
    // One installation, one process, in every request.
    for asked in &seen.asked {
        assert_eq!(asked.body["peer"], actors["peer"]);
        assert_eq!(asked.body["run"], actors["run"]);
    }
    let fetch = &seen.asked[2].body;
    assert_eq!(
        (&fetch["cursor"], &fetch["max"], &fetch["wait"]),
        (&json!(0), &json!(64), &json!(10.0))
    );
    let status = connected(&client);
    assert_eq!(status.claims, [(subject(ONE), Role::Driver)]);
    assert_eq!(scene.events.names(), ["gateway.connected"]);
    wait(client.stop());
}

#[test]
fn the_peer_is_kept_and_the_run_is_new_at_each_start() {
    let scene = Scene::new();
    for _ in 0..2 {
        let (client, _) = scene.start();
        connected(&client);
        wait(client.stop());
    }
    let asked = scene.gateway.seen().asked;
    let registered: Vec<&Value> = (asked.iter())
        .filter(|asked| asked.call == "PUT actors")
        .map(|asked| &asked.body)
        .collect();
    assert_eq!(registered[0]["peer"], registered[1]["peer"]);
    assert_ne!(registered[0]["run"], registered[1]["run"]);
}

#[test]
fn a_second_client_with_the_same_peer_file_does_not_start_and_names_the_first() {
    let scene = Scene::new();
    let (client, _) = scene.start();
    let second = scene.builder().start(Desk::default().handler());
    let pid = std::process::id().to_string();
    assert!(second.unwrap_err().to_string().contains(&pid));
    wait(client.stop());
    let (third, _) = scene.start();
    wait(third.stop());
}

#[test]
fn a_delivery_is_handled_and_its_outcome_committed_while_the_next_fetch_is_held() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    let payload = "{ \"exact\" : \"\\ud83d\", \"n\": 1.0 }";
    let seq = scene.gateway.push(ONE, payload);
    desk.begun(1);
    // The next fetch is open, and carries nothing yet.
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    desk.finish(seq, Handled::delivered());
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(seq).is_some())
        .unwrap();
    assert_eq!(seen.outcome(seq), Some("delivered"));
    assert_eq!(seen.asked.last().unwrap().call, "POST commit");
    let status = wait(client.wait_for(|status| status.unconfirmed == 0 && status.in_hand == 0));
    assert_eq!(status.outcomes["delivered"], 1);
    wait(client.stop());
}

#[test]
fn the_cursor_of_the_last_answer_with_deliveries_is_echoed() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    let cursors: Vec<i64> = fetches(&scene)
        .iter()
        .map(|fetch| fetch["cursor"].as_i64().unwrap())
        .collect();
    assert_eq!(cursors, [0, 2]);
    desk.finish(seq, Handled::delivered());
    let seen = scene
        .gateway
        .wait_for(|seen| seen.count("POST commit") > 0)
        .unwrap();
    assert_eq!(seen.asked.last().unwrap().body["cursor"], 2);
    wait(client.stop());
}

#[test]
fn one_subject_goes_in_order_and_others_go_on_beside_it() {
    let scene = Scene::new();
    let (first, second, other) = (
        scene.gateway.push(ONE, "{}"),
        scene.gateway.push(ONE, "{}"),
        scene.gateway.push(TWO, "{}"),
    );
    let (client, desk) = scene.start();
    desk.begun(2);
    assert_eq!(desk.open(), [first, other]);
    desk.finish(other, Handled::spawned());
    scene
        .gateway
        .wait_for(|seen| seen.outcome(other) == Some("spawned"))
        .unwrap();
    assert_eq!(desk.open(), [first]);
    desk.finish(first, Handled::delivered());
    desk.begun(3);
    assert_eq!(desk.open(), [second]);
    desk.finish(second, Handled::delivered());
    scene
        .gateway
        .wait_for(|seen| seen.outcome(second).is_some())
        .unwrap();
    wait(client.stop());
}

#[test]
fn no_more_is_worked_on_at_once_than_is_allowed() {
    let scene = Scene::new();
    for number in 1..=5 {
        scene
            .gateway
            .push(&format!("loop-github-octo-repo-{number}"), "{}");
    }
    let desk = Desk::default();
    let client = scene
        .builder()
        .concurrency(2)
        .start(desk.handler())
        .unwrap();
    desk.begun(2);
    desk.finish(1, Handled::delivered());
    desk.begun(3);
    assert_eq!(desk.open(), [2, 3]);
    let status = client.status();
    assert_eq!((status.running, status.in_hand), (2, 4));
    for seq in 2..=5 {
        desk.begun(usize::try_from(seq).unwrap());
        desk.finish(seq, Handled::delivered());
    }
    wait(client.stop());
}

#[test]
fn after_a_failure_the_rest_of_the_subject_waits_for_the_redelivery() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.gateway.push(ONE, "{}");
    }
    let desk = Desk::always(Handled::delivered());
    desk.0
        .0
        .lock()
        .unwrap()
        .scripted
        .push_back(Handled::failed("not now"));
    let client = scene.builder().start(desk.handler()).unwrap();
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(3) == Some("delivered"))
        .unwrap();
    assert_eq!(desk.begun(4), [(1, 1), (1, 2), (2, 1), (3, 1)]);
    let log: Vec<(i64, &str)> = seen
        .outcome_log
        .iter()
        .map(|(seq, outcome)| (*seq, outcome.as_str()))
        .collect();
    assert_eq!(
        log,
        [
            (1, "failed"),
            (1, "delivered"),
            (2, "delivered"),
            (3, "delivered")
        ]
    );
    wait(client.stop());
}

#[test]
fn a_panic_in_a_handler_is_a_failure_with_its_message_and_the_client_lives() {
    let scene = Scene::new();
    let client = scene
        .builder()
        .start(|delivery: Arc<Delivery>| async move {
            assert!(delivery.attempt > 1, "poison {}", delivery.seq);
            Handled::delivered()
        })
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(seq) == Some("delivered"))
        .unwrap();
    assert_eq!(seen.outcome_log[0], (seq, "failed".to_owned()));
    let commits = seen
        .asked
        .iter()
        .filter_map(|asked| asked.body["commit"].as_array());
    let failure = commits
        .flatten()
        .find(|item| item["outcome"] == "failed")
        .unwrap();
    assert_eq!(failure["detail"], "panic: poison 1");
    wait(client.stop());
}

#[test]
fn a_blocking_handler_does_not_hold_up_the_client() {
    let scene = Scene::new();
    let (begun, is_begun) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let client = scene
        .builder()
        .start(blocking(move |delivery| {
            begun.send(delivery.seq.0).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
            assert!(delivery.attempt > 1, "first try");
            Handled::delivered()
        }))
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    assert_eq!(is_begun.recv_timeout(DEADLINE).unwrap(), seq);
    // It fetches on while the handler blocks its own thread.
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    go_on.send(()).unwrap();
    is_begun.recv_timeout(DEADLINE).unwrap();
    go_on.send(()).unwrap();
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(seq) == Some("delivered"))
        .unwrap();
    assert_eq!(seen.outcome_log[0].1, "failed");
    wait(client.stop());
}

#[test]
fn plain_polling_waits_as_long_as_the_gateway_says() {
    let scene = Scene::new();
    scene.gateway.set_poll_after(0.15);
    let client = scene
        .builder()
        .long_poll(Duration::ZERO)
        .poll_interval(Duration::ZERO)
        .start(Desk::default().handler())
        .unwrap();
    let clock = tokio::time::Instant::now();
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 4)
        .unwrap();
    assert!(clock.elapsed() >= Duration::from_millis(450));
    assert_eq!(fetches(&scene)[0]["wait"], 0.0);
    wait(client.stop());
}

#[test]
fn a_gateway_that_grants_no_wait_and_says_zero_does_not_make_it_spin() {
    let scene = Scene::new();
    let empty =
        r#"{"deliveries":[],"cursor":0,"committed":0,"lease":{"expiresIn":60},"pollAfter":0}"#;
    for _ in 0..3 {
        scene.gateway.script(
            "POST fetch",
            crate::devkit::fake_gateway::Scripted::Answer(200, empty.to_owned()),
        );
    }
    let client = scene
        .builder()
        .poll_interval(Duration::from_millis(150))
        .start(Desk::default().handler())
        .unwrap();
    let clock = tokio::time::Instant::now();
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 4)
        .unwrap();
    assert!(clock.elapsed() >= Duration::from_millis(450));
    wait(client.stop());
}

#[test]
fn what_is_published_by_a_method_reaches_the_gateway() {
    let scene = Scene::new();
    let (client, _) = scene.start();
    connected(&client);
    let work_item = WorkItemRef::parse("github:octo/repo#1").unwrap();
    let actor = EventActor {
        provider: Provider::Slack,
        name: "U1".to_owned(),
    };
    wait(async {
        client.claim(subject(ONE), Role::Reviewer).await.unwrap();
        client.set_actors(vec![actor]).await.unwrap();
        client
            .set_rooms(vec![("C1".to_owned(), work_item.clone())])
            .await
            .unwrap();
        let key = "octo/repo#20".to_owned();
        client
            .bind(work_item.clone(), Provider::GitHub, key.clone())
            .await
            .unwrap();
        client
            .unbind(work_item, Provider::GitHub, key)
            .await
            .unwrap();
        client.release(subject(ONE), Role::Reviewer).await.unwrap();
    });
    let calls: Vec<String> = calls(&scene)
        .into_iter()
        .filter(|call| call != "POST fetch")
        .collect();
    assert_eq!(
        calls,
        [
            "PUT actors",
            "PUT claims",
            "PUT actors",
            "PUT rooms",
            "POST bindings",
            "DELETE bindings",
            "DELETE claims"
        ]
    );
    assert_eq!(client.status().claims, []);
    wait(client.stop());
    let late = wait(client.claim(subject(ONE), Role::Driver));
    assert_eq!(late, Err(CallError::Stopped));
}

#[test]
fn a_long_handler_keeps_the_lease_by_renewing_it() {
    let scene = Scene::new();
    let desk = Desk::default();
    let client = scene
        .builder()
        .concurrency(1)
        .batch(1)
        .lease(Duration::from_millis(60))
        .start(desk.handler())
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    let renewals = |fetches: &[Asked]| {
        fetches
            .iter()
            .filter(|asked| asked.call == "POST fetch" && asked.body["max"] == 0)
            .count()
    };
    scene
        .gateway
        .wait_for(|seen| renewals(&seen.asked) >= 3)
        .unwrap();
    desk.finish(seq, Handled::delivered());
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq).is_some())
        .unwrap();
    wait(client.stop());
}

#[test]
fn a_listener_that_panics_is_no_dead_client() {
    let scene = Scene::new();
    let client = scene
        .builder()
        .on_event(|event| panic!("{event}"))
        .start(Desk::always(Handled::delivered()).handler())
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq).is_some())
        .unwrap();
    assert_eq!(wait(client.stop()), End::Stopped { unconfirmed: 0 });
}
