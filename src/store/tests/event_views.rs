//! Events, their stories and the dead, as people are shown them.

use serde_json::{Value, json};

use super::pages::{all, shown, time, walk};
use super::support::{
    DAY, HOUR, SECOND, TestStore, about, by, event, in_thread, instance, subject,
};
use crate::store::views::{self, EventFilter, EventState, PageRequest, ViewError};
use crate::store::{DeadSelection, Expire, Position, Redrive, Replay, SubjectFilter};

const ISSUE: &str = "github:octo/repo#1";

#[test]
fn a_position_of_another_list_is_told_apart_from_a_fault() {
    let store = TestStore::new();
    for after in ["", "laptop", "1", "1.x", "1.2.3"] {
        let page = PageRequest {
            limit: 1,
            after: Some(after.to_owned()),
        };
        let listed = views::events(store.connection(), &EventFilter::default(), &page);
        assert!(matches!(listed, Err(ViewError::UnknownPosition)), "{after}");
        let listed = views::dead(store.connection(), &page);
        assert!(matches!(listed, Err(ViewError::UnknownPosition)), "{after}");
    }
}

fn filter(narrow: impl FnOnce(&mut EventFilter)) -> EventFilter {
    let mut filter = EventFilter::default();
    narrow(&mut filter);
    filter
}

#[test]
fn the_filters_of_events_narrow_together() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    let mut first = by(about(ISSUE, "g1"), "octocat");
    first.received_at = store.now();
    store.append(first);
    store.clock.advance(HOUR);
    let mut second = about(ISSUE, "g2");
    second.kind = "issues".to_owned();
    second.received_at = store.now();
    store.append(second);
    let mut third = about("github:octo/repo#2", "g3");
    third.received_at = store.now();
    store.append(third);
    store.append(in_thread("1.1", "m1"));
    let second_at = store.now();
    let is = |work_item| SubjectFilter::Is(subject(work_item));
    for (filter, expected) in [
        (filter(|_| {}), vec![3, 2, 4, 1]),
        (filter(|f| f.subject = is(ISSUE)), vec![2, 1]),
        (
            filter(|f| f.subject = SubjectFilter::Unassigned),
            vec![3, 4],
        ),
        (filter(|f| f.kind = Some("issues".to_owned())), vec![2]),
        (filter(|f| f.state = Some(EventState::Held)), vec![3]),
        (filter(|f| f.state = Some(EventState::Grace)), vec![4]),
        (filter(|f| f.state = Some(EventState::Routed)), vec![2, 1]),
        (filter(|f| f.instance = Some(instance("a"))), vec![2, 1]),
        (filter(|f| f.instance = Some(instance("nobody"))), vec![]),
        (filter(|f| f.received.since = second_at), vec![3, 2]),
        (filter(|f| f.received.until = second_at), vec![4, 1]),
        (
            filter(|f| {
                f.subject = is("github:OCTO/REPO#1");
                f.kind = Some("issue_comment".to_owned());
                f.state = Some(EventState::Routed);
                f.received.until = second_at;
            }),
            vec![1],
        ),
    ] {
        let page = views::events(store.connection(), &filter, &all()).unwrap();
        let ids: Vec<_> = page.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, expected, "{filter:?}");
        let paged = walk(1, "id", |page| {
            views::events(store.connection(), &filter, page).unwrap()
        });
        let ids: Vec<_> = paged.into_iter().flatten().collect();
        assert_eq!(ids, expected.iter().map(|id| json!(id)).collect::<Vec<_>>());
    }
}

#[test]
fn a_rare_kind_is_found_over_several_pages() {
    let mut store = TestStore::new();
    let mut rare = about(ISSUE, "rare");
    rare.kind = "rare".to_owned();
    store.append(rare);
    for batch in 0..12 {
        store.append_all((0..500).map(|number| about(ISSUE, &format!("g{batch}-{number}"))));
    }
    let filter = EventFilter {
        kind: Some("rare".to_owned()),
        ..EventFilter::default()
    };
    let pages = walk(10, "id", |page| {
        views::events(store.connection(), &filter, page).unwrap()
    });
    assert_eq!(pages, [vec![], vec![json!(1)]]);
}

#[test]
fn a_row_of_an_event_shows_what_arrived() {
    let mut store = TestStore::new();
    let arrival = by(about("github:Octo/Repo#1", "g1"), "Octocat");
    let bytes = arrival.payload.text_bytes();
    let received = arrival.received_at.to_string();
    store.append(arrival);
    let list = |store: &TestStore| {
        let page = views::events(store.connection(), &EventFilter::default(), &all()).unwrap();
        shown(&page)[0].clone()
    };
    let mut expected = json!({
        "id": 1, "subject": "loop-github-Octo-Repo-1", "workItem": "github:Octo/Repo#1",
        "provider": "github", "source": "webhook", "deliveryId": "g1", "kind": "issue_comment",
        "receivedAt": received, "state": "held", "actor": "Octocat", "payloadBytes": bytes,
    });
    assert_eq!(list(&store), expected);
    let payload = views::payload(store.connection(), event(1))
        .unwrap()
        .unwrap();
    assert_eq!(payload.text().unwrap(), br#"{"guid":"g1"}"#);
    store.clock.advance(8 * DAY);
    store.write(Expire { wal_bytes: 0 });
    expected["state"] = json!("expired");
    expected["payloadBytes"] = json!(0);
    assert_eq!(list(&store), expected);
    assert_eq!(views::payload(store.connection(), event(1)).unwrap(), None);
    assert_eq!(views::payload(store.connection(), event(9)).unwrap(), None);
}

#[test]
fn a_story_tells_every_hand_out() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    let start = time(&store);
    store.append(about(ISSUE, "g1"));
    store.fetch("a@ann/r1", &[]);
    store.clock.advance(SECOND);
    store.commit("a@ann/r1", &[(1, "failed")]);
    let failed = time(&store);
    store.clock.advance(30 * SECOND);
    let fetched = store.fetch("a@ann/r1", &[]);
    let again = time(&store);
    let told = |store: &TestStore| {
        let story = views::story(store.connection(), store.now(), event(1)).unwrap();
        serde_json::to_value(story.unwrap()).unwrap()
    };
    let first = json!({"number": 2, "run": "r1", "attempt": 1, "handedAt": start,
                       "endedAt": failed, "ended": "failed", "detail": null});
    let mut second = json!({"number": fetched.cursor, "run": "r1", "attempt": 2,
                            "handedAt": again, "endedAt": null, "ended": null,
                            "detail": null});
    let story = told(&store);
    assert_eq!(story["event"]["resolvedBy"], "direct");
    assert_eq!(
        story["event"]["headers"],
        json!({"x-github-event": "issue_comment"})
    );
    assert_eq!(
        story["event"]["dedupKeys"],
        json!(["github:github.com:delivery:g1", "object:g1"])
    );
    assert_eq!(story["event"]["id"], 1);
    let mut delivery = json!({
        "seq": 1, "instance": "a", "state": "handed", "why": "claim:driver", "attempt": 2,
        "strikes": 1, "suspect": false, "losses": 0, "routedAt": start, "dueAt": null,
        "outcome": "failed", "detail": null, "endedAt": null, "redriveOf": null,
        "waitsFor": {"what": "outcome", "behind": null, "behindEvent": null, "until": null,
                     "ahead": 0, "lastFetchAt": again, "live": true},
        "handOuts": [first, second],
    });
    assert_eq!(story["deliveries"], json!([delivery]));
    store.clock.advance(SECOND);
    store.commit("a@ann/r1", &[(1, "dropped:awaiting-start")]);
    let settled = time(&store);
    second["endedAt"] = json!(settled);
    second["ended"] = json!("dropped:awaiting-start");
    delivery["state"] = json!("settled");
    delivery["waitsFor"] = Value::Null;
    delivery["outcome"] = json!("dropped:awaiting-start");
    delivery["endedAt"] = json!(settled);
    delivery["handOuts"] = json!([first, second]);
    assert_eq!(told(&store)["deliveries"], json!([delivery]));
    assert_eq!(
        views::story(store.connection(), store.now(), event(9)).unwrap(),
        None
    );
}

#[test]
fn a_story_tells_what_waits_what_was_lost_and_what_replaced_it() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.kill_first("a@ann/r1");
    store.write(Redrive {
        selection: DeadSelection::default(),
        after: Position::START,
        dry_run: false,
    });
    store.fetch("a@ann/r1", &[]);
    store.commit("a@ann/r1", &[(2, "failed")]);
    let due = store.now().plus(30 * SECOND).to_string();
    let story = views::story(store.connection(), store.now(), event(1)).unwrap();
    let story = serde_json::to_value(story.unwrap()).unwrap();
    let [dead, waiting] = [&story["deliveries"][0], &story["deliveries"][1]];
    assert_eq!(dead["state"], "dead");
    assert_eq!(dead["handOuts"].as_array().unwrap().len(), 3);
    assert_eq!(
        (
            &waiting["state"],
            &waiting["redriveOf"],
            &waiting["dueAt"],
            &waiting["attempt"]
        ),
        (&json!("ready"), &json!(1), &json!(due), &json!(2))
    );
}

#[test]
fn a_made_up_run_is_shown_in_the_letters_of_a_name() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.fetch("a@ann", &[]);
    let story = views::story(store.connection(), store.now(), event(1)).unwrap();
    let run = &story.unwrap().deliveries[0].hand_outs[0].run;
    assert!(crate::domain::RunId::parse(run).is_ok(), "{run}");
}

#[test]
fn the_dead_are_listed_until_something_replaces_them() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.append(about(ISSUE, "g2"));
    store.kill_first("a@ann/r1");
    let seq = store.fetch("a@ann/r1", &[]).deliveries[0].seq.0;
    store.run(&format!(
        "UPDATE deliveries SET strikes = 2 WHERE seq = {seq}"
    ));
    store.fetch("a@ann/r2", &[]);
    let page = views::dead(store.connection(), &all()).unwrap();
    let rows = shown(&page);
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[0]["seq"], 2);
    assert_eq!(rows[0]["lastOutcome"], Value::Null, "it vanished");
    assert_eq!(
        (&rows[1]["seq"], &rows[1]["instance"], &rows[1]["strikes"]),
        (&json!(1), &json!("a"), &json!(3))
    );
    assert_eq!(rows[1]["lastOutcome"], "failed");
    assert_eq!(rows[1]["event"]["deliveryId"], "g1");
    let replay = Replay {
        selection: crate::store::EventSelection {
            events: vec![event(1)],
            ..Default::default()
        },
        instance: instance("a"),
        is_listed: false,
        after: Position::START,
        dry_run: false,
    };
    store.write(replay).unwrap();
    let page = views::dead(store.connection(), &all()).unwrap();
    assert_eq!(page.rows.len(), 1);
}
