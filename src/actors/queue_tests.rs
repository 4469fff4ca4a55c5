use std::cell::Cell;
use std::rc::Rc;

use actix::{Addr, Message};

use super::*;
use crate::actors::test_support::{Parts, append, claim, fetch, start};
use crate::domain::{CallerGuard, CommitItem, Outcome, PeerId, Refusal, RunId, Seq};

const LONG: Duration = Duration::from_secs(25);

fn laptop() -> Parts {
    start(|writer| claim(writer, "laptop", 1))
}

/// Long enough for what was sent to be on its way, however slow the machine.
async fn settled(parts: &Parts) {
    // A round trip behind the last one: the store and the queue have seen what came before.
    for _ in 0..3 {
        let probe = Submit(crate::store::Probe);
        parts.store.send(probe).await.unwrap().unwrap();
    }
}

fn seqs(answer: &FetchAnswer) -> Vec<i64> {
    let deliveries = answer.fetched.deliveries.iter();
    deliveries.map(|delivery| delivery.seq.0).collect()
}

#[actix::test]
async fn a_held_fetch_is_answered_by_an_append() {
    let parts = laptop();
    let held = actix_rt::spawn(parts.registry.send(fetch("laptop", LONG)));
    settled(&parts).await;
    assert!(!held.is_finished());
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    let answer = held.await.unwrap().unwrap().unwrap();
    assert_eq!(seqs(&answer), [1]);
    assert_eq!(answer.ended, PollEnd::Answered);
}

#[actix::test]
async fn a_wait_that_ends_is_answered_empty() {
    let parts = laptop();
    let wait = Duration::from_millis(150);
    let answer = parts.registry.send(fetch("laptop", wait)).await;
    let answer = answer.unwrap().unwrap();
    assert!(answer.fetched.deliveries.is_empty());
    assert_eq!(answer.ended, PollEnd::WaitElapsed);
    assert_eq!(answer.fetched.lease_ms, 60_000);
}

#[actix::test]
async fn a_fetch_without_a_wait_is_answered_at_once() {
    let parts = laptop();
    let answer = parts.registry.send(fetch("laptop", Duration::ZERO)).await;
    assert_eq!(answer.unwrap().unwrap().ended, PollEnd::Answered);
    let mut renews = fetch("laptop", LONG);
    renews.limit = 0;
    let answer = parts.registry.send(renews).await.unwrap().unwrap();
    assert_eq!(answer.ended, PollEnd::Answered);
}

#[actix::test]
async fn a_newer_fetch_of_the_same_run_takes_the_place_of_the_held_one() {
    let parts = laptop();
    let older = actix_rt::spawn(parts.registry.send(fetch("laptop", LONG)));
    settled(&parts).await;
    let newer = actix_rt::spawn(parts.registry.send(fetch("laptop", LONG)));
    let older = older.await.unwrap().unwrap().unwrap();
    assert_eq!(older.ended, PollEnd::Superseded);
    assert!(older.fetched.deliveries.is_empty());
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    assert_eq!(seqs(&newer.await.unwrap().unwrap().unwrap()), [1]);
}

#[actix::test]
async fn a_held_fetch_of_an_older_run_hears_that_it_was_taken_over_from() {
    let parts = laptop();
    let older = actix_rt::spawn(parts.registry.send(fetch("laptop", LONG)));
    settled(&parts).await;
    let mut newer = fetch("laptop", Duration::ZERO);
    newer.identity.run = Some(RunId::parse("run-2").unwrap());
    parts.registry.send(newer).await.unwrap().unwrap();
    let refused = older.await.unwrap().unwrap();
    assert!(
        matches!(
            refused,
            Err(QueueError::Store(StoreError::Refused(
                Refusal::DuplicateInstance {
                    superseded: true,
                    ..
                }
            )))
        ),
        "{refused:?}"
    );
}

#[actix::test]
async fn a_rival_is_refused_and_disturbs_no_held_fetch() {
    let parts = laptop();
    let held = actix_rt::spawn(parts.registry.send(fetch("laptop", LONG)));
    settled(&parts).await;
    let mut rival = fetch("laptop", LONG);
    rival.peer = PeerId::parse("rival").unwrap();
    rival.identity.peer = Some(rival.peer.clone());
    let refused = parts.registry.send(rival).await.unwrap();
    assert!(matches!(
        refused,
        Err(QueueError::Store(StoreError::Refused(_)))
    ));
    assert!(!held.is_finished());
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    assert_eq!(seqs(&held.await.unwrap().unwrap().unwrap()), [1]);
}

#[actix::test]
async fn a_client_without_a_run_keeps_what_its_newer_fetch_was_handed() {
    let parts = laptop();
    let mut plain = fetch("laptop", LONG);
    plain.identity.run = None;
    plain.cursor = None;
    let older = actix_rt::spawn(parts.registry.send(plain.clone()));
    settled(&parts).await;
    // Both reach the store before the queue hears of the append.
    let newer = actix_rt::spawn(parts.registry.send(plain.clone()));
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    let (older, newer) = (older.await.unwrap(), newer.await.unwrap());
    let answers = [older.unwrap().unwrap(), newer.unwrap().unwrap()];
    let handed: Vec<_> = answers
        .iter()
        .filter(|answer| !seqs(answer).is_empty())
        .collect();
    assert_eq!(handed.len(), 1);
    plain.cursor = Some(handed[0].fetched.cursor);
    plain.wait = Duration::ZERO;
    plain.commit = vec![CommitItem {
        seq: Seq(1),
        outcome: Outcome::Delivered,
        detail: None,
    }];
    let last = parts.registry.send(plain).await.unwrap().unwrap();
    assert!(last.fetched.deliveries.is_empty());
    assert_eq!(last.fetched.committed, Seq(1));
}

#[actix::test]
async fn nothing_is_handed_to_a_caller_that_left() {
    let parts = laptop();
    let guard = CallerGuard::new();
    let mut gone = fetch("laptop", LONG);
    gone.caller = guard.token();
    let held = actix_rt::spawn(parts.registry.send(gone));
    settled(&parts).await;
    held.abort();
    drop(guard);
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    settled(&parts).await;
    let answer = parts.registry.send(fetch("laptop", Duration::ZERO)).await;
    let answer = answer.unwrap().unwrap();
    assert_eq!(seqs(&answer), [1]);
    let delivery = &answer.fetched.deliveries[0];
    assert_eq!((delivery.attempt, answer.fetched.cursor), (1, 2));
}

#[actix::test]
async fn what_a_commit_sets_free_reaches_the_held_fetch() {
    let parts = laptop();
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    parts.store.send(append(1, "b")).await.unwrap().unwrap();
    let mut first = fetch("laptop", Duration::ZERO);
    first.limit = 1;
    let first = parts.registry.send(first).await.unwrap().unwrap();
    assert_eq!(seqs(&first), [1]);
    let mut second = fetch("laptop", LONG);
    second.cursor = Some(first.fetched.cursor);
    let held = actix_rt::spawn(parts.registry.send(second.clone()));
    settled(&parts).await;
    assert!(!held.is_finished());
    let commit = Commit(CommitOutcomes {
        identity: second.identity,
        cursor: second.cursor,
        commit: vec![CommitItem {
            seq: Seq(1),
            outcome: Outcome::Delivered,
            detail: None,
        }],
    });
    let committed = parts.registry.send(commit).await.unwrap().unwrap();
    assert_eq!(committed.committed, Seq(1));
    assert_eq!(seqs(&held.await.unwrap().unwrap().unwrap()), [2]);
}

#[actix::test]
async fn a_held_fetch_gets_what_comes_due_by_the_clock() {
    let parts = laptop();
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    let mut next = fetch("laptop", LONG);
    let first = parts.registry.send(next.clone()).await.unwrap().unwrap();
    next.cursor = Some(first.fetched.cursor);
    next.commit = vec![CommitItem {
        seq: Seq(1),
        outcome: Outcome::Released,
        detail: None,
    }];
    let answer = parts.registry.send(next).await.unwrap().unwrap();
    assert_eq!(seqs(&answer), [1]);
    assert_eq!(answer.ended, PollEnd::Answered);
}

#[actix::test]
async fn draining_answers_every_held_fetch_and_holds_no_more() {
    let parts = start(|writer| claim(writer, "laptop", 1));
    let held: Vec<_> = ["laptop", "desktop", "phone"]
        .map(|name| actix_rt::spawn(parts.registry.send(fetch(name, LONG))))
        .into();
    settled(&parts).await;
    parts.registry.send(Drain).await.unwrap();
    for held in held {
        let answer = held.await.unwrap().unwrap().unwrap();
        assert_eq!(answer.ended, PollEnd::Drained);
    }
    for name in ["laptop", "new"] {
        let late = parts.registry.send(fetch(name, LONG)).await;
        assert_eq!(late.unwrap().unwrap().ended, PollEnd::Drained);
    }
}

#[actix::test]
async fn a_thousand_held_fetches_each_get_their_one_event() {
    const QUEUES: u64 = 1_000;
    let parts = start(|writer| {
        for number in 1..=QUEUES {
            claim(writer, &format!("i-{number}"), number);
        }
    });
    let held: Vec<_> = (1..=QUEUES)
        .map(|number| fetch(&format!("i-{number}"), LONG))
        .map(|fetch| actix_rt::spawn(parts.registry.send(fetch)))
        .collect();
    let appends = (1..=QUEUES).map(|number| parts.store.send(append(number, &number.to_string())));
    for appended in futures_util::future::join_all(appends).await {
        appended.unwrap().unwrap();
    }
    let mut seen = std::collections::BTreeSet::new();
    for (number, held) in (1..=QUEUES).zip(held) {
        let answer = held.await.unwrap().unwrap().unwrap();
        let [delivery] = answer.fetched.deliveries.as_slice() else {
            panic!("{:?}", answer.fetched.deliveries);
        };
        assert_eq!(delivery.event.delivery_id, number.to_string());
        seen.insert(delivery.seq.0);
    }
    assert_eq!(seen.len(), 1_000);
}

/// A store that is always empty, and lets something be routed just before each answer.
struct Empty {
    queue: Rc<Cell<Option<Addr<QueueActor>>>>,
    wakes: u32,
    asked: u32,
}

impl Actor for Empty {
    type Context = Context<Self>;
}

impl Handler<Submit<FetchBatch>> for Empty {
    type Result = ResponseFuture<Result<Fetched, StoreError>>;

    fn handle(&mut self, _: Submit<FetchBatch>, _: &mut Self::Context) -> Self::Result {
        self.asked = self.asked.saturating_add(1);
        let queue = self.queue.take().unwrap();
        self.queue.set(Some(queue.clone()));
        let wake = (self.wakes > 0).then(|| queue.send(Wake));
        self.wakes = self.wakes.saturating_sub(1);
        Box::pin(async move {
            if let Some(wake) = wake {
                wake.await.unwrap();
            }
            Ok(Fetched {
                deliveries: Vec::new(),
                cursor: 0,
                committed: Seq(0),
                lease_ms: 60_000,
                next_due_at: None,
            })
        })
    }
}

impl Handler<Submit<CommitOutcomes>> for Empty {
    type Result = Result<Committed, StoreError>;

    fn handle(&mut self, _: Submit<CommitOutcomes>, _: &mut Self::Context) -> Self::Result {
        Err(StoreError::CallerGone)
    }
}

struct Asked;

impl Message for Asked {
    type Result = u32;
}

impl Handler<Asked> for Empty {
    type Result = u32;

    fn handle(&mut self, _: Asked, _: &mut Self::Context) -> u32 {
        self.asked
    }
}

#[actix::test]
async fn a_wake_between_the_look_and_the_wait_is_not_lost() {
    let address = Rc::new(Cell::new(None));
    let store = Empty {
        queue: Rc::clone(&address),
        wakes: 2,
        asked: 0,
    }
    .start();
    let door = StoreDoor {
        fetch: store.clone().recipient(),
        commit: store.clone().recipient(),
    };
    let queue = QueueActor::new(door, Arc::new(crate::domain::SystemClock), false).start();
    address.set(Some(queue.clone()));
    let held = queue.send(fetch("laptop", Duration::from_millis(200)));
    let answer = held.await.unwrap().unwrap();
    assert_eq!(answer.ended, PollEnd::WaitElapsed);
    // Once at first, once more for each wake, and at the end of the wait.
    assert_eq!(store.send(Asked).await.unwrap(), 4);
}
