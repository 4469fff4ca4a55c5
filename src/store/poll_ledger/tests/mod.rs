use std::collections::BTreeSet;

use super::*;
use crate::domain::{
    Arrival, CallerToken, DropReason, InstanceName, OnUnresolved, Provider, Reference, Seq, Source,
};
use crate::store::testing::{Client, START, TestStore, item};
use crate::store::{Append, RouteHeld};

const SOURCE: &str = "github:github.com/octo/repo";

fn payload(text: &str) -> Payload {
    Payload::compress(text.as_bytes()).unwrap()
}

fn armed(version: &str) -> ItemSeen {
    ItemSeen {
        presence: PresenceChange::Arm {
            version: version.to_owned(),
            payload: payload(version),
        },
        ..ItemSeen::read(ItemKind::Issue, Timestamp(START))
    }
}

fn save(store: &mut TestStore, number: u64, change: ItemChange) {
    let items = vec![(item(number), change)];
    store
        .submit(SavePoll {
            items,
            ..SavePoll::of(SOURCE)
        })
        .unwrap();
}

fn arm(store: &mut TestStore, number: u64, version: &str) {
    save(store, number, ItemChange::Seen(armed(version)));
}

/// The numbers of the items whose presence is due.
fn due(store: &mut TestStore) -> Vec<String> {
    let page = store
        .submit(DuePresences {
            source: SOURCE.to_owned(),
            after: String::new(),
            limit: 100,
        })
        .unwrap();
    assert_eq!(page.next, None);
    page.due
        .iter()
        .map(|presence| presence.work_item.to_string())
        .collect()
}

fn presence(store: &TestStore, number: u64) -> Arrival {
    Arrival {
        provider: Provider::GitHub,
        source: Source::Poll,
        delivery_id: format!("poll-presence-{}-uuid", item(number)),
        kind: "issues".to_owned(),
        received_at: Timestamp(store.number("SELECT 0")),
        happened_at: None,
        headers: BTreeMap::new(),
        payload: payload("{}"),
        actor: None,
        keys: vec![Reference::Direct(item(number))],
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: Vec::new(),
        on_unresolved: OnUnresolved::Drop(DropReason::Unbound),
        is_retry: false,
    }
}

fn state(store: &mut TestStore, number: u64) -> PresenceAppended {
    let arrival = presence(store, number);
    state_as(store, number, arrival)
}

fn state_as(store: &mut TestStore, number: u64, arrival: Arrival) -> PresenceAppended {
    store
        .submit(AppendPresence {
            source: SOURCE.to_owned(),
            key: item(number).key(),
            append: Append {
                arrival: Box::new(arrival),
                caller: CallerToken::always(),
            },
        })
        .unwrap()
}

/// A store in which `alpha` works on item 1, whose presence is due.
fn claimed() -> (TestStore, Client) {
    let mut store = TestStore::new();
    store.claim("alpha", 1);
    arm(&mut store, 1, "v1");
    (store, Client::new("alpha"))
}

/// States the presence, hands it out and answers it.
fn answered(store: &mut TestStore, client: &mut Client, outcome: &str) {
    let PresenceAppended::Stored { to, .. } = state(store, 1) else {
        panic!("not due");
    };
    assert_eq!(to, [InstanceName::parse("alpha").unwrap()]);
    let fetched = client.fetch(store, 10, &[]);
    let Seq(seq) = fetched.deliveries[0].seq;
    client.fetch(store, 10, &[(seq, outcome)]);
}

#[test]
fn what_is_saved_of_a_list_is_read_again() {
    let mut store = TestStore::new();
    let source = SOURCE.to_owned();
    let load = LoadPoll { source };
    assert!(store.submit(load.clone()).unwrap().is_empty());
    let list = PollList {
        watermark: Timestamp(2_000),
        url: "https://x/y?since=1".to_owned(),
        etag: "W/\"1\"".to_owned(),
        handled: BTreeSet::from(["1@a".to_owned(), "2@b".to_owned()]),
        note: "{}".to_owned(),
        ..PollList::starting_at(Timestamp(1_000))
    };
    let lists = PollLists::from([("issues".to_owned(), list)]);
    for over in [Vec::new(), vec!["other".to_owned()]] {
        store
            .submit(SavePoll {
                lists: lists.clone(),
                over,
                ..SavePoll::of(SOURCE)
            })
            .unwrap();
        assert_eq!(store.submit(load.clone()).unwrap(), lists);
    }
    store
        .submit(SavePoll {
            over: vec!["issues".to_owned()],
            ..SavePoll::of(SOURCE)
        })
        .unwrap();
    assert!(store.submit(load).unwrap().is_empty());
}

#[test]
fn a_presence_is_due_once_and_marked_in_the_write_that_stores_it() {
    let mut store = TestStore::new();
    arm(&mut store, 1, "v1");
    arm(&mut store, 2, "v1");
    assert_eq!(
        due(&mut store),
        ["github:octo/repo#1", "github:octo/repo#2"]
    );
    assert!(matches!(
        state(&mut store, 1),
        PresenceAppended::Stored { .. }
    ));
    assert_eq!(state(&mut store, 1), PresenceAppended::NotDue);
    assert_eq!(due(&mut store), ["github:octo/repo#2"]);
    assert_eq!(store.number("SELECT count(*) FROM events"), 1);
}

#[test]
fn what_is_not_known_or_not_armed_has_no_presence() {
    let mut store = TestStore::new();
    assert_eq!(state(&mut store, 1), PresenceAppended::NotDue);
    arm(&mut store, 1, "v1");
    let disarmed = ItemSeen {
        presence: PresenceChange::Disarm,
        ..armed("")
    };
    save(&mut store, 1, ItemChange::Seen(disarmed));
    assert_eq!(state(&mut store, 1), PresenceAppended::NotDue);
    assert!(due(&mut store).is_empty());
}

#[test]
fn a_presence_that_waits_or_is_in_hand_is_outstanding() {
    let (mut store, mut client) = claimed();
    state(&mut store, 1);
    assert!(due(&mut store).is_empty());
    client.fetch(&mut store, 10, &[]);
    assert!(due(&mut store).is_empty());
    arm(&mut store, 1, "v2");
    assert!(due(&mut store).is_empty(), "changed, but still outstanding");
}

#[test]
fn a_held_presence_is_outstanding_until_somebody_takes_it() {
    let mut store = TestStore::new();
    arm(&mut store, 1, "v1");
    state(&mut store, 1);
    assert_eq!(store.text("SELECT state FROM events"), "held");
    assert!(due(&mut store).is_empty());
    store.submit(RouteHeld).unwrap();
    assert!(due(&mut store).is_empty());
}

#[test]
fn an_answered_presence_is_due_again_only_when_the_item_changed() {
    for outcome in ["spawned", "delivered", "dropped:session-paused"] {
        let (mut store, mut client) = claimed();
        answered(&mut store, &mut client, outcome);
        assert!(due(&mut store).is_empty(), "{outcome}");
        arm(&mut store, 1, "v1");
        assert!(due(&mut store).is_empty(), "{outcome}");
        arm(&mut store, 1, "v2");
        assert_eq!(due(&mut store), ["github:octo/repo#1"], "{outcome}");
    }
}

#[test]
fn an_item_that_awaits_its_start_is_presented_again() {
    let (mut store, mut client) = claimed();
    for _ in 0..3 {
        answered(&mut store, &mut client, "dropped:awaiting-start");
        assert_eq!(due(&mut store), ["github:octo/repo#1"]);
    }
    answered(&mut store, &mut client, "spawned");
    assert!(due(&mut store).is_empty());
}

#[test]
fn of_several_consumers_one_that_handled_it_is_enough() {
    let (mut store, mut alpha) = claimed();
    store.claim("beta", 1);
    let mut beta = Client::new("beta");
    state(&mut store, 1);
    let seq = alpha.fetch(&mut store, 10, &[]).deliveries[0].seq.0;
    alpha.fetch(&mut store, 10, &[(seq, "dropped:awaiting-start")]);
    assert!(due(&mut store).is_empty(), "beta has not answered");
    let seq = beta.fetch(&mut store, 10, &[]).deliveries[0].seq.0;
    beta.fetch(&mut store, 10, &[(seq, "spawned")]);
    assert!(due(&mut store).is_empty());
}

#[test]
fn a_dead_presence_is_outstanding_even_when_the_item_changes() {
    let (mut store, mut client) = claimed();
    state(&mut store, 1);
    for _ in 0..3 {
        store.clock.advance(3_600_000);
        let seq = client.fetch(&mut store, 10, &[]).deliveries[0].seq.0;
        client.fetch(&mut store, 10, &[(seq, "failed")]);
    }
    assert_eq!(store.number("SELECT state FROM deliveries"), 3);
    arm(&mut store, 1, "v2");
    assert!(due(&mut store).is_empty());
    // Retention drops it after twice its time: only then a change counts.
    store
        .writer
        .connection()
        .execute_batch("DELETE FROM deliveries; DELETE FROM events;")
        .unwrap();
    assert_eq!(due(&mut store), ["github:octo/repo#1"]);
    state(&mut store, 1);
    assert!(due(&mut store).is_empty());
}

#[test]
fn a_dead_presence_that_retention_dropped_stays_silent_until_the_item_changes() {
    let (mut store, _) = claimed();
    state(&mut store, 1);
    let drop_it = "UPDATE deliveries SET state = 3";
    store.writer.connection().execute_batch(drop_it).unwrap();
    assert!(due(&mut store).is_empty());
    let drop_it = "DELETE FROM deliveries; DELETE FROM events;";
    store.writer.connection().execute_batch(drop_it).unwrap();
    assert!(due(&mut store).is_empty());
    arm(&mut store, 1, "v2");
    assert_eq!(due(&mut store), ["github:octo/repo#1"]);
}

#[test]
fn a_presence_that_expired_unanswered_is_due_again() {
    for expire in [
        "UPDATE deliveries SET state = 4",
        "UPDATE events SET state = 'expired'",
        "DELETE FROM deliveries; DELETE FROM events;",
    ] {
        let (mut store, _) = claimed();
        state(&mut store, 1);
        assert!(due(&mut store).is_empty());
        store.writer.connection().execute_batch(expire).unwrap();
        assert_eq!(due(&mut store), ["github:octo/repo#1"], "{expire}");
    }
}

#[test]
fn an_answer_is_remembered_when_retention_has_dropped_the_event() {
    let (mut store, mut client) = claimed();
    answered(&mut store, &mut client, "spawned");
    assert!(due(&mut store).is_empty());
    let drop_it = "DELETE FROM deliveries; DELETE FROM events;";
    store.writer.connection().execute_batch(drop_it).unwrap();
    assert!(due(&mut store).is_empty());
}

#[test]
fn a_presence_that_cannot_be_stored_is_not_tried_until_the_item_changes() {
    let mut store = TestStore::new();
    arm(&mut store, 1, "v1");
    let unbound = Arrival {
        keys: Vec::new(),
        ..presence(&store, 1)
    };
    let refused = state_as(&mut store, 1, unbound);
    assert_eq!(refused, PresenceAppended::Refused);
    assert!(due(&mut store).is_empty());
    arm(&mut store, 1, "v2");
    assert_eq!(due(&mut store), ["github:octo/repo#1"]);
}

#[test]
fn an_item_that_goes_and_comes_back_has_still_one_presence() {
    let (mut store, mut client) = claimed();
    state(&mut store, 1);
    save(&mut store, 1, ItemChange::Gone);
    assert!(due(&mut store).is_empty());
    let seen = ItemSeen {
        floor: Timestamp(START + 5),
        ..armed("v1")
    };
    save(&mut store, 1, ItemChange::Seen(seen));
    assert!(due(&mut store).is_empty());
    assert_eq!(
        store.number("SELECT floor_ms FROM poll_items"),
        START + 5,
        "it is seen for the first time again"
    );
    save(&mut store, 1, ItemChange::Gone);
    let seq = client.fetch(&mut store, 10, &[]).deliveries[0].seq.0;
    client.fetch(&mut store, 10, &[(seq, "delivered")]);
    assert!(due(&mut store).is_empty());
    assert_eq!(store.number("SELECT count(*) FROM poll_items"), 0);
    arm(&mut store, 1, "v1");
    assert_eq!(due(&mut store), ["github:octo/repo#1"]);
}

#[test]
fn due_presences_come_in_pages() {
    let mut store = TestStore::new();
    for number in 1..=5 {
        arm(&mut store, number, "v1");
    }
    let mut found = Vec::new();
    let mut next = Some(String::new());
    let mut looks = 0;
    while let Some(after) = next {
        let page = store
            .submit(DuePresences {
                source: SOURCE.to_owned(),
                after,
                limit: 2,
            })
            .unwrap();
        found.extend(page.due);
        next = page.next;
        looks += 1;
    }
    assert_eq!((found.len(), looks), (5, 3));
    assert_eq!(found[0].payload.text().unwrap(), b"v1");
}

#[test]
fn an_item_keeps_its_floor_and_what_was_told_of_it() {
    let mut store = TestStore::new();
    let told = BTreeSet::from(["7".to_owned(), "9".to_owned()]);
    let first = ItemSeen {
        head: Some("abc".to_owned()),
        handled: Some(told.clone()),
        ..ItemSeen::pending(ItemKind::PullRequest, Timestamp(START))
    };
    save(&mut store, 1, ItemChange::Seen(first));
    let again = ItemSeen::pending(ItemKind::PullRequest, Timestamp(START + 99));
    save(&mut store, 1, ItemChange::Seen(again));
    let find = FindItems {
        source: SOURCE.to_owned(),
        keys: BTreeSet::from([item(2).key()]),
    };
    let found = store.submit(find).unwrap();
    let known = &found[&item(1).key()];
    assert_eq!(found.len(), 1);
    assert!(known.pending);
    assert_eq!((known.floor, &known.handled), (Timestamp(START), &told));
    // A listing tells nothing of what remains to be read.
    let listed = ItemSeen::of(ItemKind::PullRequest, Timestamp(START));
    save(&mut store, 1, ItemChange::Seen(listed));
    assert_eq!(store.number("SELECT pending FROM poll_items"), 1);
    assert_eq!(store.text("SELECT head FROM poll_items"), "abc");
}

#[test]
fn a_complete_listing_marks_what_it_did_not_find() {
    let mut store = TestStore::new();
    let open = ItemSeen::of(ItemKind::PullRequest, Timestamp(START));
    for number in [1, 2] {
        save(&mut store, number, ItemChange::Seen(open.clone()));
    }
    arm(&mut store, 3, "v1");
    store.clock.advance(1_000);
    let began = Timestamp(START + 500);
    save(&mut store, 4, ItemChange::Seen(open));
    let sweep = Sweep {
        kind: ItemKind::PullRequest,
        began,
        found: BTreeSet::from([item(1).key()]),
    };
    store
        .submit(SavePoll {
            sweeps: vec![sweep],
            ..SavePoll::of(SOURCE)
        })
        .unwrap();
    let find = FindItems {
        source: SOURCE.to_owned(),
        keys: BTreeSet::new(),
    };
    let found = store.submit(find).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [&item(2).key()]);
}

#[test]
fn pull_requests_are_claimed_themselves_or_through_their_ticket() {
    let mut store = TestStore::new();
    for (number, kind) in [
        (1, ItemKind::PullRequest),
        (2, ItemKind::PullRequest),
        (3, ItemKind::PullRequest),
        (4, ItemKind::Issue),
    ] {
        let seen = ItemSeen {
            head: Some(format!("sha{number}")),
            ..ItemSeen::pending(kind, Timestamp(START))
        };
        save(&mut store, number, ItemChange::Seen(seen));
    }
    store.claim("alpha", 1);
    store.claim("alpha", 4);
    let bind = format!(
        "INSERT INTO bindings (provider, key, work_item_key, work_item, subject_key, instance_id,
             bound_at_ms, used_at_ms)
         VALUES ('github', '{}', '{}', '{}', '{}', 1, 0, 0)",
        item(2).key(),
        item(4).key(),
        item(4),
        item(4).subject().key()
    );
    store.writer.connection().execute_batch(&bind).unwrap();
    let ask = |after: &str| ClaimedPullRequests {
        source: SOURCE.to_owned(),
        limit: 10,
        after: after.to_owned(),
    };
    let claimed = store.submit(ask("")).unwrap();
    let heads: Vec<&str> = claimed.iter().map(|claim| claim.head.as_str()).collect();
    assert_eq!(heads, ["sha1", "sha2"]);
    assert_eq!(store.submit(ask(&item(1).key())).unwrap().len(), 1);
}

#[test]
fn commits_are_learned_with_the_ledger() {
    let mut store = TestStore::new();
    store
        .submit(SavePoll {
            learns: vec![LearnedCommit {
                repository: "github.com/octo/repo".to_owned(),
                sha: "a".repeat(40),
                pull_request: item(1),
            }],
            ..SavePoll::of(SOURCE)
        })
        .unwrap();
    assert_eq!(store.number("SELECT count(*) FROM commits"), 1);
}
