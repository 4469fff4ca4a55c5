//! What a story says of the event's way: what named its work item, what was said, what it waits
//! for; and how an event is found by what people call it.

use serde_json::{Value, json};

use super::pages::{all, walk};
use super::support::{
    SECOND, TestStore, about, event, head_commit, in_channel, in_thread, instance, of_commit,
    outcomes_with, subject, work_item,
};
use crate::domain::{DedupKey, Provider};
use crate::store::views::{self, EventFilter};
use crate::store::{CommitOutcomes, LearnCommits, SubjectFilter};

const ISSUE: &str = "github:octo/repo#1";

fn told(store: &TestStore, id: i64) -> Value {
    let story = views::story(store.connection(), store.now(), event(id)).unwrap();
    serde_json::to_value(story.unwrap()).unwrap()
}

#[test]
fn what_named_the_work_item_is_told_with_its_key_and_its_publisher() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.bind("laptop", (Provider::Slack, "17.1"), ISSUE);
    store.publish_rooms("desktop", &[("C1", ISSUE)]);
    store.append(in_thread("17.1", "g1"));
    store.append(in_channel("C1", "g2"));
    store.append(of_commit("abc", "g3"));
    store.append(about(ISSUE, "g4"));
    let named = |store: &TestStore, id| {
        let event = told(store, id)["event"].take();
        json!([
            event["resolvedBy"],
            event["resolvedKey"],
            event["publishedBy"]
        ])
    };
    assert_eq!(named(&store, 1), json!(["binding", "17.1", "laptop"]));
    assert_eq!(named(&store, 2), json!(["room", "C1", "desktop"]));
    assert_eq!(named(&store, 3), json!([null, null, null]));
    assert_eq!(named(&store, 4), json!(["direct", null, null]));
    let commit = "github.com/octo/repo@abc";
    assert_eq!(
        told(&store, 3)["event"]["awaits"],
        json!([{"by": "commit", "key": commit}])
    );
    store.write(LearnCommits {
        commits: vec![head_commit("abc", ISSUE)],
    });
    assert_eq!(named(&store, 3), json!(["commit", commit, null]));
    assert_eq!(told(&store, 3)["event"]["awaits"], json!([]));
    // Published anew for another work item: what named this event is gone.
    store.publish_rooms("desktop", &[("C1", "github:octo/repo#2")]);
    assert_eq!(named(&store, 2), json!(["room", "C1", null]));
}

#[test]
fn every_outcome_keeps_what_was_said_with_it() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    let mut linked = about(ISSUE, "g1");
    linked.also = vec![work_item("github:octo/repo#9")];
    store.append(linked);
    for (outcome, detail) in [
        ("failed", "no room"),
        ("released", "stopping"),
        ("delivered", "ok"),
    ] {
        let fetched = store.fetch("a@ann/r1", &[]);
        assert_eq!(fetched.deliveries.len(), 1);
        store.write(CommitOutcomes {
            identity: super::support::identity("a@ann/r1"),
            cursor: None,
            commit: outcomes_with(&[(1, outcome, detail)]),
        });
        store.clock.advance(60 * SECOND);
    }
    let story = told(&store, 1);
    assert_eq!(story["event"]["alsoAbout"], json!(["github:octo/repo#9"]));
    let said: Vec<_> = story["deliveries"][0]["handOuts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hand_out| (hand_out["ended"].clone(), hand_out["detail"].clone()))
        .collect();
    assert_eq!(
        said,
        [
            (json!("failed"), json!("no room")),
            (json!("released"), json!("stopping")),
            (json!("delivered"), json!("ok"))
        ]
    );
}

/// What a delivery waits for, and what holds it up.
fn waits(store: &TestStore, id: i64) -> (String, Value, Value) {
    let waits = told(store, id)["deliveries"][0]["waitsFor"].take();
    let what = waits["what"].as_str().unwrap().to_owned();
    (what, waits["behind"].clone(), waits["until"].clone())
}

#[test]
fn what_a_delivery_waits_for_is_what_holds_it_up() {
    let mut store = TestStore::new();
    for number in 1..=3 {
        store.claim("a", &format!("github:octo/repo#{number}"));
    }
    store.append(about(ISSUE, "g1"));
    store.append(about(ISSUE, "g2"));
    store.append(about("github:octo/repo#2", "g3"));
    let free = |what: &str| (what.to_owned(), Value::Null, Value::Null);
    let behind = |what: &str, seq: i64| (what.to_owned(), json!(seq), Value::Null);
    assert_eq!(waits(&store, 1), free("fetch"));
    assert_eq!(waits(&store, 2), behind("earlier", 1));
    assert_eq!(waits(&store, 3), free("fetch"));
    assert_eq!(told(&store, 3)["deliveries"][0]["waitsFor"]["ahead"], 2);
    // Nobody has asked so far.
    let absent = &told(&store, 1)["deliveries"][0]["waitsFor"];
    assert_eq!(
        (&absent["live"], &absent["lastFetchAt"]),
        (&json!(false), &Value::Null)
    );
    store.fetch("a@ann/r1", &[]);
    assert_eq!(waits(&store, 1), free("outcome"));
    assert_eq!(told(&store, 1)["deliveries"][0]["waitsFor"]["live"], true);
    store.commit("a@ann/r1", &[(1, "failed"), (3, "delivered")]);
    let due = json!(store.now().plus(30 * SECOND).to_string());
    assert_eq!(
        waits(&store, 1),
        ("retry".to_owned(), Value::Null, due.clone())
    );
    assert_eq!(waits(&store, 2), ("earlier".to_owned(), json!(1), due));
    assert_eq!(told(&store, 3)["deliveries"][0]["waitsFor"], Value::Null);
}

#[test]
fn who_goes_alone_holds_up_the_others_and_waits_for_them() {
    let mut store = TestStore::new();
    for number in 1..=3 {
        store.claim("a", &format!("github:octo/repo#{number}"));
    }
    for number in 1..=2 {
        store.append(about(
            &format!("github:octo/repo#{number}"),
            &format!("g{number}"),
        ));
    }
    store.fetch("a@ann/r1", &[]);
    // Both vanish in company: suspects from now on.
    store.fetch("a@ann/r2", &[]);
    store.append(about("github:octo/repo#3", "g3"));
    let behind = |what: &str, seq: i64| (what.to_owned(), json!(seq), Value::Null);
    assert_eq!(waits(&store, 1).0, "outcome");
    assert_eq!(waits(&store, 2), behind("suspect", 1));
    assert_eq!(waits(&store, 3), behind("suspect", 1));
    store.commit("a@ann/r2", &[(1, "delivered")]);
    assert_eq!(waits(&store, 2).0, "fetch");
    assert_eq!(waits(&store, 3), behind("suspect", 2));
    // Something else in hand keeps a suspect waiting.
    store.run("UPDATE deliveries SET suspect = 0 WHERE seq = 2");
    store.fetch("a@ann/r2", &[]);
    store.append(about("github:octo/repo#1", "g4"));
    store.run("UPDATE deliveries SET suspect = 1 WHERE event_id = 4");
    assert_eq!(waits(&store, 4), behind("alone", 2));
}

fn named(store: &TestStore, name: &str) -> Vec<i64> {
    let filter = EventFilter {
        named: Some(name.to_owned()),
        ..EventFilter::default()
    };
    let page = views::events(store.connection(), &filter, &all()).unwrap();
    page.rows.iter().map(|row| row.id).collect()
}

/// An event with keys of its own.
fn keyed(store: &mut TestStore, guid: &str, keys: &[&str]) {
    let mut arrival = about(ISSUE, guid);
    arrival.dedup_keys = keys
        .iter()
        .map(|key| DedupKey::object((*key).to_owned()))
        .collect();
    store.append(arrival);
}

#[test]
fn an_event_is_found_by_whatever_names_it() {
    let mut store = TestStore::new();
    keyed(
        &mut store,
        "72d3162e",
        &[
            "github:github.com:delivery:72d3162e",
            "gh:github.com:issue_comment:9001:created",
        ],
    );
    keyed(&mut store, "j1", &["jira:acme.local:8080:delivery:j1"]);
    keyed(
        &mut store,
        "Ev0123",
        &[
            "slack:A0123:Ev0123",
            "slack:T0123:msg:C0123:1700000000.123456",
        ],
    );
    keyed(
        &mut store,
        "poll-presence-1",
        &["gh:ghe.acme:8443:review:5:created"],
    );
    keyed(
        &mut store,
        "poll-presence-1",
        &["gh:ghe.acme:8443:review:6:created"],
    );
    for (name, ids) in [
        ("72d3162e", vec![1]),
        ("gh:github.com:issue_comment:9001:created", vec![1]),
        ("issue_comment:9001:created", vec![1]),
        ("j1", vec![2]),
        ("Ev0123", vec![3]),
        ("msg:C0123:1700000000.123456", vec![3]),
        ("review:5:created", vec![4]),
        // An id that is no key is searched for; here two events have it.
        ("poll-presence-1", vec![5, 4]),
        ("unheard-of", vec![]),
        ("github.com:delivery:72d3162e", vec![]),
        ("%", vec![]),
    ] {
        assert_eq!(named(&store, name), ids, "{name}");
    }
}

#[test]
fn a_name_narrows_together_with_the_other_filters() {
    let mut store = TestStore::new();
    keyed(&mut store, "g1", &["github:github.com:delivery:g1"]);
    let find = |change: &dyn Fn(&mut EventFilter)| {
        let mut filter = EventFilter {
            named: Some("g1".to_owned()),
            ..EventFilter::default()
        };
        change(&mut filter);
        let page = views::events(store.connection(), &filter, &all()).unwrap();
        page.rows.len()
    };
    assert_eq!(find(&|_| {}), 1);
    assert_eq!(
        find(&|f| f.subject = SubjectFilter::Is(subject("github:OCTO/repo#1"))),
        1
    );
    assert_eq!(
        find(&|f| f.subject = SubjectFilter::Is(subject("github:octo/repo#2"))),
        0
    );
    assert_eq!(
        find(&|f| f.subject = SubjectFilter::Unassigned),
        1,
        "it is held"
    );
    assert_eq!(find(&|f| f.kind = Some("issues".to_owned())), 0);
    assert_eq!(find(&|f| f.instance = Some(instance("nobody"))), 0);
}

#[test]
fn what_is_newer_is_told_in_order_and_how_far_was_looked() {
    let mut store = TestStore::new();
    store.append(about(ISSUE, "g1"));
    // A clock that was set back does not hide what comes later.
    let mut early = about(ISSUE, "g2");
    early.received_at = store.now().plus(-3_600 * SECOND);
    early.kind = "issues".to_owned();
    store.append(early);
    store.append(about("github:octo/repo#2", "g3"));
    let newer = |filter: &EventFilter, than: i64, limit: u32| {
        let newer = views::newer(store.connection(), filter, event(than), limit).unwrap();
        let ids: Vec<_> = newer.rows.iter().map(|row| row.id).collect();
        (ids, newer.up_to)
    };
    let all = EventFilter::default();
    assert_eq!(newer(&all, 0, 100), (vec![1, 2, 3], 3));
    assert_eq!(newer(&all, 0, 2), (vec![1, 2], 2));
    assert_eq!(newer(&all, 3, 100), (vec![], 3));
    let of_kind = EventFilter {
        kind: Some("issues".to_owned()),
        ..EventFilter::default()
    };
    assert_eq!(newer(&of_kind, 0, 100), (vec![2], 3));
    let of_subject = EventFilter {
        subject: SubjectFilter::Is(subject("github:octo/repo#2")),
        ..EventFilter::default()
    };
    assert_eq!(newer(&of_subject, 0, 100), (vec![3], 3));
    let of_nobody = EventFilter {
        instance: Some(instance("nobody")),
        ..EventFilter::default()
    };
    assert_eq!(newer(&of_nobody, 1, 100), (vec![], 1));
}

#[test]
fn a_search_for_a_name_goes_on_over_several_pages() {
    let mut store = TestStore::new();
    let mut first = about(ISSUE, "poll-1");
    first.dedup_keys.clear();
    store.append(first);
    for batch in 0..11 {
        store.append_all((0..500).map(|number| about(ISSUE, &format!("g{batch}-{number}"))));
    }
    let filter = EventFilter {
        named: Some("poll-1".to_owned()),
        ..EventFilter::default()
    };
    let pages = walk(10, "id", |page| {
        views::events(store.connection(), &filter, page).unwrap()
    });
    assert_eq!(pages, [vec![], vec![json!(1)]]);
}
