//! Random histories, played to the store and to the model.

use super::*;

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Append {
        subject: u64,
    },
    Fetch {
        client: usize,
        limit: u32,
        outcomes: Vec<(prop::sample::Index, u8)>,
        lost: bool,
    },
    Commit {
        client: usize,
        outcomes: Vec<(prop::sample::Index, u8)>,
    },
    Restart {
        client: usize,
    },
    Wait {
        ms: i64,
    },
}

fn outcome_word(number: u8) -> &'static str {
    [
        "delivered",
        "spawned",
        "dropped:paused",
        "failed",
        "failed",
        "released",
    ][usize::from(number) % 6]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcomes = || prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let client = || prop_oneof![8 => Just(0), 2 => Just(1), 1 => Just(2)];
    let step = prop_oneof![
        4 => (0..4_u64).prop_map(|subject| Step::Append { subject: subject + 1 }),
        8 => (client(), 0..5_u32, outcomes(), prop::bool::weighted(0.25)).prop_map(
            |(client, limit, outcomes, lost)| Step::Fetch { client, limit, outcomes, lost }
        ),
        2 => (client(), outcomes()).prop_map(|(client, outcomes)| Step::Commit {
            client,
            outcomes
        }),
        1 => client().prop_map(|client| Step::Restart { client }),
        3 => prop::sample::select(vec![500, 2_000, 30_000, 61_000, 900_000, 3_600_000])
            .prop_map(|ms| Step::Wait { ms }),
    ];
    prop::collection::vec(step, 1..60)
}

/// A client's own memory.
#[derive(Debug, Clone)]
struct Memory {
    run: u32,
    cursor: i64,
    received: Vec<i64>,
}

fn play(steps: Vec<Step>) {
    let mut store = TestStore::new();
    for subject in 1..=4 {
        store.claim("laptop", subject);
    }
    let mut model = Model::new(Settings::default());
    let memory = Memory {
        run: 0,
        cursor: 0,
        received: Vec::new(),
    };
    let mut clients = vec![memory; CLIENTS];
    let mut committed = 0;
    for step in steps {
        match step {
            Step::Append { subject } => {
                store.append(subject);
                model.append(subject);
            }
            Step::Wait { ms } => {
                store.clock.advance(ms);
                model.now += ms;
            }
            Step::Restart { client } => {
                clients[client].run += 1;
                clients[client].cursor = 0;
            }
            Step::Fetch {
                client,
                limit,
                outcomes,
                lost,
            } => {
                let commit = choose(&clients[client], &outcomes);
                let sender = sender(client, &clients[client]);
                let run = sender.run.clone().unwrap();
                let limit = limit.min(256);
                let expected = model.fetch(
                    PEERS[client],
                    &run,
                    clients[client].cursor,
                    usize::try_from(limit).unwrap(),
                    &commit,
                );
                let got = answer(store.submit(sender.request(limit, &commit)).map(|fetched| {
                    Answer::Fetched {
                        deliveries: shown(&fetched),
                        cursor: fetched.cursor,
                        committed: fetched.committed.0,
                    }
                }));
                assert_eq!(got, expected);
                if let Answer::Fetched {
                    deliveries,
                    cursor,
                    committed: now,
                } = got
                {
                    assert!(now >= committed, "committed went back");
                    committed = now;
                    if !lost {
                        clients[client].cursor = cursor;
                        clients[client]
                            .received
                            .extend(deliveries.iter().map(|(seq, _)| seq));
                    }
                }
            }
            Step::Commit { client, outcomes } => {
                let commit = choose(&clients[client], &outcomes);
                let sender = sender(client, &clients[client]);
                let run = sender.run.clone().unwrap();
                let cursor = clients[client].cursor;
                let expected = model.commit(PEERS[client], &run, cursor, &commit);
                let got = answer(
                    sender
                        .commit(&mut store, &commit)
                        .map(|done| Answer::Committed(done.committed.0)),
                );
                assert_eq!(got, expected);
            }
        }
    }
    let backlog = model
        .items
        .values()
        .filter(|item| matches!(item.state, State::Ready | State::Handed))
        .count();
    assert_eq!(
        store.number("SELECT coalesce(sum(backlog), 0) FROM instances"),
        backlog as i64
    );
}

fn sender(client: usize, memory: &Memory) -> Client {
    Client {
        instance: "laptop",
        peer: PEERS[client],
        run: Some(format!("run-{client}-{}", memory.run)),
        cursor: Some(memory.cursor),
    }
}

fn choose(memory: &Memory, outcomes: &[(prop::sample::Index, u8)]) -> Vec<(i64, &'static str)> {
    if memory.received.is_empty() {
        return Vec::new();
    }
    outcomes
        .iter()
        .map(|(index, outcome)| (*index.get(&memory.received), outcome_word(*outcome)))
        .collect()
}

fn answer(result: Result<Answer, StoreError>) -> Answer {
    match result {
        Ok(answer) => answer,
        Err(StoreError::Refused(Refusal::DuplicateInstance { superseded, .. })) => {
            Answer::Duplicate { superseded }
        }
        Err(StoreError::Refused(Refusal::CommitUndelivered { seqs })) => {
            Answer::Undelivered(seqs.into_iter().map(|seq| seq.0).collect())
        }
        Err(other) => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_random_history_gives_the_answers_of_the_model(steps in steps()) {
        play(steps);
    }
}
