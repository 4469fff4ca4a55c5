//! The end: nothing is left in the client's hands.

use super::*;

#[test]
fn on_a_stop_what_was_not_begun_is_released_and_the_rest_committed() {
    let scene = Scene::new();
    let (first, second) = (scene.gateway.push(ONE, "{}"), scene.gateway.push(ONE, "{}"));
    let (client, desk) = scene.start();
    desk.begun(1);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    let stopper = client.clone();
    let stopped = std::thread::spawn(move || wait(stopper.stop()));
    // The fetch that was held is ended by a newer one before the handler has to finish.
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 3)
        .unwrap();
    desk.finish(first, Handled::delivered());
    assert_eq!(stopped.join().unwrap(), End::Stopped { unconfirmed: 0 });
    let seen = scene.gateway.seen();
    assert_eq!(seen.outcome(first), Some("delivered"));
    assert_eq!(seen.outcome(second), Some("released"));
    assert_eq!(seen.asked.last().unwrap().call, "POST commit");
    assert_eq!(desk.begun(1), [(first, 1)]);
}

#[test]
fn an_answer_that_comes_while_it_stops_is_released_too() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    connected(&client);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 1)
        .unwrap();
    let first = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    // It holds a fetch while it works, and ends that one with a newer one when it stops.
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    let stopper = client.clone();
    let stopped = std::thread::spawn(move || wait(stopper.stop()));
    let is_ending = |asked: &Asked| asked.call == "POST fetch" && asked.body["max"] == 1;
    scene
        .gateway
        .wait_for(|seen| seen.asked.iter().any(is_ending))
        .unwrap();
    let late = scene.gateway.push(TWO, "{}");
    desk.finish(first, Handled::delivered());
    stopped.join().unwrap();
    let seen = scene.gateway.seen();
    // Either nobody got it, or it was given back; it is in no one's hands.
    assert!(
        matches!(seen.outcome(late), None | Some("released")),
        "{seen:?}"
    );
    assert_eq!(seen.outcome(first), Some("delivered"));
}

#[test]
fn a_handler_that_does_not_finish_within_the_grace_is_cut_off_and_its_delivery_released() {
    let scene = Scene::new();
    let desk = Desk::default();
    let client = scene
        .builder()
        .stop_grace(Duration::from_millis(50))
        .start(desk.handler())
        .unwrap();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    wait(client.stop());
    let (outcome, detail) = scene.gateway.seen().outcomes[&seq].clone();
    assert_eq!(outcome, "released");
    assert!(detail.unwrap().contains("stopped"));
}

#[test]
fn a_stop_while_the_gateway_is_down_ends_soon_and_says_what_is_not_committed() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    scene.gateway.go_down().unwrap();
    wait(client.wait_for(|status| status.state.as_str() == "unreachable"));
    desk.finish(seq, Handled::delivered());
    wait(client.wait_for(|status| status.unconfirmed == 1));
    assert_eq!(wait(client.stop()), End::Stopped { unconfirmed: 1 });
}

#[test]
fn while_a_target_is_down_fetching_stops_nothing_is_settled_and_a_stop_releases() {
    let scene = Scene::new();
    let (first, second) = (scene.gateway.push(ONE, "{}"), scene.gateway.push(ONE, "{}"));
    let desk = Desk::always(Handled::TargetDown {
        target: "receiver".to_owned(),
        advice: "start it".to_owned(),
    });
    let client = scene.builder().start(desk.handler()).unwrap();
    // Tried again and again, and told once.
    desk.begun(5);
    let status = client.status();
    assert_eq!(status.targets_down, ["receiver"]);
    let fetches = scene.gateway.seen().count("POST fetch");
    desk.begun(9);
    assert_eq!(scene.gateway.seen().count("POST fetch"), fetches);
    assert!(scene.gateway.seen().outcome_log.is_empty());
    wait(client.stop());
    let seen = scene.gateway.seen();
    assert_eq!(seen.outcome(first), Some("released"));
    assert_eq!(seen.outcome(second), Some("released"));
    let told = scene.events.names();
    assert_eq!(
        told,
        ["gateway.connected", "target.down", "gateway.stopped"]
    );
}

#[test]
fn a_target_that_comes_back_gets_everything_in_order() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.gateway.push(ONE, "{}");
    }
    let down = Handled::TargetDown {
        target: "receiver".to_owned(),
        advice: "start it".to_owned(),
    };
    let desk = Desk::always(Handled::delivered());
    desk.0
        .0
        .lock()
        .unwrap()
        .scripted
        .extend([down.clone(), down]);
    let client = scene.builder().start(desk.handler()).unwrap();
    let seen = scene
        .gateway
        .wait_for(|seen| seen.outcome(3).is_some())
        .unwrap();
    assert_eq!(desk.begun(5), [(1, 1), (1, 1), (1, 1), (2, 1), (3, 1)]);
    let log: Vec<i64> = seen.outcome_log.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(log, [1, 2, 3]);
    wait(client.stop());
    let told = scene.events.names();
    assert_eq!(
        told,
        [
            "gateway.connected",
            "target.down",
            "target.up",
            "gateway.stopped"
        ]
    );
}

#[test]
fn dropping_the_last_handle_stops_the_client() {
    let scene = Scene::new();
    let (client, desk) = scene.start();
    let seq = scene.gateway.push(ONE, "{}");
    desk.begun(1);
    drop(client);
    scene
        .gateway
        .wait_for(|seen| seen.count("POST fetch") >= 2)
        .unwrap();
    desk.finish(seq, Handled::delivered());
    scene
        .gateway
        .wait_for(|seen| seen.outcome(seq) == Some("delivered"))
        .unwrap();
    scene.events.await_name("gateway.stopped");
}
