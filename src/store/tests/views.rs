//! What people are shown.

use serde_json::{Value, json};

use super::pages::{all, shown, time, walk};
use super::support::{DAY, HOUR, SECOND, TestStore, about, by, in_thread, registration};
use crate::domain::{Provider, Role, Timestamp};
use crate::store::testing::START;
use crate::store::views::{self, EventFilter};
use crate::store::{Expire, NoteUnattended, PutClaim, SubjectFilter};

const ISSUE: &str = "github:octo/repo#1";

#[test]
fn health_shows_the_counters() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.claim("b", "github:octo/repo#2");
    store.append(about(ISSUE, "g1"));
    store.append(about(ISSUE, "g2"));
    store.append(about("github:octo/repo#3", "g3"));
    store.append(in_thread("1.1", "m1"));
    let counters = views::health_counters(store.connection()).unwrap();
    assert_eq!(
        serde_json::to_value(counters).unwrap(),
        json!({"events": 4, "held": 2, "queues": {"a": 2, "b": 0}})
    );
}

#[test]
fn a_queue_shows_what_it_has_and_where_it_stands() {
    let mut store = TestStore::new();
    for number in 1..=4 {
        store.claim("a", &format!("github:octo/repo#{number}"));
    }
    store.claim("b", "github:octo/repo#9");
    let arrived = time(&store);
    store.append(about(ISSUE, "g1"));
    store.append(about("github:octo/repo#2", "g2"));
    store.fetch("a@ann/r1", &[]);
    store.commit("a@ann/r1", &[(1, "failed")]);
    store.append(about("github:octo/repo#3", "g3"));
    store.clock.advance(1_500);
    let page = views::queues(store.connection(), store.now(), &all()).unwrap();
    assert_eq!(
        shown(&page),
        json!([
            {"instance": "a", "committed": 0, "backlog": 3, "inHand": 1, "waitingRetry": 1,
             "suspects": 0, "dead": 0, "oldestReceivedAt": arrived, "oldestAgeSeconds": 1.5},
            {"instance": "b", "committed": 3, "backlog": 0, "inHand": 0, "waitingRetry": 0,
             "suspects": 0, "dead": 0, "oldestReceivedAt": null, "oldestAgeSeconds": null},
        ])
    );
}

#[test]
fn the_oldest_of_a_queue_is_its_oldest_event_wherever_that_is() {
    let mut store = TestStore::new();
    for number in 1..=3 {
        store.clock.advance(SECOND);
        let mut arrival = about(&format!("github:octo/repo#{number}"), &format!("g{number}"));
        arrival.received_at = store.now();
        store.append(arrival);
    }
    let arrival_of = |store: &TestStore, id: i64| {
        let ms = store.number(&format!(
            "SELECT received_at_ms FROM events WHERE id = {id}"
        ));
        Some(Timestamp(ms).to_string())
    };
    let oldest = |store: &TestStore| {
        let page = views::queues(store.connection(), store.now(), &all()).unwrap();
        page.rows[0].oldest_received_at.clone()
    };
    store.claim("a", "github:octo/repo#3");
    assert_eq!(oldest(&store), arrival_of(&store, 3));
    store.claim("a", "github:octo/repo#2");
    assert_eq!(
        oldest(&store),
        arrival_of(&store, 2),
        "routed later, arrived earlier"
    );
    store.fetch("a@ann/r1", &[]);
    assert_eq!(oldest(&store), arrival_of(&store, 2), "in hand");
    store.commit("a@ann/r1", &[(1, "delivered"), (2, "failed")]);
    assert_eq!(oldest(&store), arrival_of(&store, 2), "waiting");
}

#[test]
fn dead_deliveries_and_suspects_are_counted() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.claim("a", "github:octo/repo#2");
    store.append(about(ISSUE, "g1"));
    store.kill_first("a@ann/r1");
    store.append(about(ISSUE, "g2"));
    store.append(about("github:octo/repo#2", "g3"));
    store.fetch("a@ann/r1", &[]);
    store.fetch("a@ann/r2", &[]);
    let page = views::queues(store.connection(), store.now(), &all()).unwrap();
    let row = &page.rows[0];
    assert_eq!((row.backlog, row.suspects, row.dead), (2, 2, 1));
    assert_eq!(row.committed, 1);
}

#[test]
fn an_instance_shows_who_holds_it_without_naming_the_peer() {
    let mut store = TestStore::new();
    store.claim("spare", ISSUE);
    store.write(registration(
        "laptop@ann/r1",
        &[
            (Provider::GitHub, "Octocat"),
            (Provider::Slack, "U01"),
            (Provider::GitHub, "hubot"),
        ],
    ));
    store.fetch("laptop@ann/r1", &[]);
    let fetched = time(&store);
    store.clock.advance(10_500);
    let page = views::instances(store.connection(), store.now(), &all()).unwrap();
    assert_eq!(
        shown(&page),
        json!([
            {"instance": "laptop", "lastFetchAt": fetched,
             "lease": {"live": true, "expiresIn": 49.5},
             "peerFingerprint": crate::digest::fingerprint("ann"),
             "actors": {"github": ["hubot", "Octocat"], "slack": ["U01"], "jira": []},
             "backlog": 0},
            {"instance": "spare", "lastFetchAt": null,
             "lease": {"live": false, "expiresIn": 0.0}, "peerFingerprint": null,
             "actors": {"github": [], "slack": [], "jira": []}, "backlog": 0},
        ])
    );
}

#[test]
fn a_forgotten_name_is_not_shown() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.clock.advance(8 * DAY);
    store.write(Expire { wal_bytes: 0 });
    assert!(
        views::health_counters(store.connection())
            .unwrap()
            .queues
            .is_empty()
    );
    let now = store.now();
    assert!(
        views::queues(store.connection(), now, &all())
            .unwrap()
            .rows
            .is_empty()
    );
    assert!(
        views::instances(store.connection(), now, &all())
            .unwrap()
            .rows
            .is_empty()
    );
}

#[test]
fn a_subject_shows_its_claimants_backlogs_and_leftovers() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    store.append(about("github:Octo/Repo#1", "g1"));
    store.kill_first("a@ann/r1");
    store.append(about("github:Octo/Repo#1", "g2"));
    store.append(about("github:Octo/Repo#1", "g3"));
    store.clock.advance(2_500);
    let claimed = time(&store);
    store.write(PutClaim {
        role: Role::Reviewer,
        ..super::support::claim("b", "github:octo/repo#5")
    });
    store.append(about("github:octo/repo#3", "g4"));
    store.append(in_thread("1.1", "m1"));
    let page = views::subjects(store.connection(), store.now(), &all()).unwrap();
    let rows = shown(&page);
    assert_eq!(page.next, None);
    let first = &rows[0];
    assert_eq!(first["subject"], "loop-github-Octo-Repo-1");
    assert_eq!(first["workItem"], "github:Octo/Repo#1");
    assert_eq!(
        first["claimants"][0],
        json!({"instance": "a", "role": "driver",
               "claimedAt": Timestamp(START).to_string()})
    );
    assert_eq!(first["queues"][0]["instance"], "a");
    assert_eq!(first["queues"][0]["depth"], 2);
    assert_eq!((&first["dead"], &first["held"]), (&json!(1), &json!(0)));
    assert_eq!(
        rows[1],
        json!({"subject": "loop-github-octo-repo-3", "workItem": "github:octo/repo#3",
               "claimants": [], "queues": [], "dead": 0, "held": 1, "unattended": false})
    );
    assert_eq!(
        rows[2],
        json!({"subject": "loop-github-octo-repo-5", "workItem": null,
               "claimants": [{"instance": "b", "role": "reviewer", "claimedAt": claimed}],
               "queues": [], "dead": 0, "held": 0, "unattended": false})
    );
    assert_eq!(
        rows[3],
        json!({"subject": "unassigned", "workItem": null, "claimants": [], "queues": [],
               "dead": 0, "held": 2, "unattended": false})
    );
}

#[test]
fn a_subject_that_nobody_fetches_for_is_shown_as_unattended() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.clock.advance(2 * HOUR);
    store.write(NoteUnattended);
    let page = views::subjects(store.connection(), store.now(), &all()).unwrap();
    assert!(page.rows[0].unattended);
}

#[test]
fn what_has_no_work_item_is_on_the_row_unassigned() {
    let mut store = TestStore::new();
    store.register("a", &[(Provider::Slack, "U01")]);
    for number in 0..2 {
        let mut arrival = by(in_thread("1.1", &format!("i{number}")), "U01");
        arrival.keys = Vec::new();
        arrival.on_unresolved = crate::domain::OnUnresolved::ToActor;
        store.append(arrival);
    }
    let page = views::subjects(store.connection(), store.now(), &all()).unwrap();
    assert_eq!(page.rows.len(), 1);
    let row = &page.rows[0];
    assert_eq!((row.subject.as_str(), row.held), ("unassigned", 0));
    assert_eq!(
        (row.queues[0].instance.as_str(), row.queues[0].depth),
        ("a", 2)
    );
    let filter = EventFilter {
        subject: SubjectFilter::Unassigned,
        ..EventFilter::default()
    };
    let page = views::events(store.connection(), &filter, &all()).unwrap();
    assert_eq!(page.rows.len(), 2);
    assert_eq!(page.rows[0].subject, "unassigned");
}

#[test]
fn lists_go_page_by_page_without_gap_or_repeat() {
    let mut store = TestStore::new();
    for number in 1..=7 {
        store.claim(&format!("i{number}"), &format!("github:octo/repo#{number}"));
        store.append(about(
            &format!("github:octo/repo#{number}"),
            &format!("g{number}"),
        ));
    }
    for number in 1..=7 {
        store.kill_first(&format!("i{number}@p/r"));
    }
    let connection = store.connection();
    let now = store.now();
    let names = |range: std::ops::RangeInclusive<i32>| -> Vec<Value> {
        range.map(|number| json!(format!("i{number}"))).collect()
    };
    let queues = walk(3, "instance", |page| {
        views::queues(connection, now, page).unwrap()
    });
    assert_eq!(queues, [names(1..=3), names(4..=6), names(7..=7)]);
    let instances = walk(7, "instance", |page| {
        views::instances(connection, now, page).unwrap()
    });
    assert_eq!(instances, [names(1..=7)]);
    let subjects = walk(4, "subject", |page| {
        views::subjects(connection, now, page).unwrap()
    });
    assert_eq!(
        subjects.iter().map(Vec::len).collect::<Vec<_>>(),
        [4, 4],
        "seven and the row unassigned"
    );
    let events = walk(3, "id", |page| {
        views::events(connection, &EventFilter::default(), page).unwrap()
    });
    assert_eq!(
        events,
        [
            vec![json!(7), json!(6), json!(5)],
            vec![json!(4), json!(3), json!(2)],
            vec![json!(1)]
        ]
    );
    let dead = walk(3, "seq", |page| views::dead(connection, page).unwrap());
    assert_eq!(
        dead,
        [
            vec![json!(7), json!(6), json!(5)],
            vec![json!(4), json!(3), json!(2)],
            vec![json!(1)]
        ]
    );
}

#[test]
fn views_read_on_a_query_only_connection() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    let reader = crate::store::open_reader(&store.path()).unwrap();
    let now = store.now();
    assert_eq!(views::health_counters(&reader).unwrap().events, 1);
    assert_eq!(views::queues(&reader, now, &all()).unwrap().rows.len(), 1);
    assert_eq!(views::subjects(&reader, now, &all()).unwrap().rows.len(), 2);
    assert!(reader.execute("DELETE FROM events", []).is_err());
}
