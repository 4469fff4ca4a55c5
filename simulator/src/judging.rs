//! The judgement of answers: what a client could see must keep every promise.

use std::collections::BTreeMap;

use the_loop_gateway::actors::{FetchAnswer, PollEnd, QueueError};
use the_loop_gateway::domain::{Clock, Refusal};
use the_loop_gateway::store::StoreError;

use crate::ledger::{Checked, require};
use crate::life::{Life, settles};
use crate::look;
use crate::requests::{Answer, Asked};
use crate::world::World;

/// An answer was made a moment before it is looked at.
const SLACK_MS: i64 = 5;

impl Life<'_> {
    pub(crate) fn judge(&mut self, world: &mut World, answer: Answer) -> Checked {
        match answer {
            Answer::Appended(sent, answer) => {
                world.note(format_args!("arrival {sent}: {}", shown(&answer)));
                if let Ok(appended) = answer {
                    world.counts.events += 1;
                    world.ledger.appended(sent, &appended)?;
                }
            }
            Answer::Fetched(asked, answer) => self.judge_fetch(world, &asked, answer)?,
            Answer::Committed(asked, answer) => {
                world.note(format_args!(
                    "{:?} says {:?}: {}",
                    asked.who,
                    asked.said,
                    shown(&answer)
                ));
                judge_refusal(&asked, answer.as_ref().err())?;
                if let Ok(committed) = answer {
                    let now = world.clock.now();
                    world.ledger.let_in(&asked.who, true, now)?;
                    if committed.lease_ms > 0 {
                        world
                            .ledger
                            .renews(&asked.who, now.plus(committed.lease_ms - SLACK_MS));
                    }
                    confirm(world, &asked);
                    world
                        .ledger
                        .committed(asked.who.instance, committed.committed)?;
                }
            }
            Answer::Registered(who, has_peer, what, answer) => {
                world.note(format_args!("{who:?} {what}: {}", shown(&answer)));
                if answer.is_ok() {
                    world.ledger.let_in(&who, has_peer, world.clock.now())?;
                }
            }
            Answer::Redriven(what, answer) => {
                let made = answer.map(|redriven| redriven.deliveries.len());
                world.note(format_args!("{what}: {}", shown(&made)));
            }
        }
        Ok(())
    }

    fn judge_fetch(
        &mut self,
        world: &mut World,
        asked: &Asked,
        answer: Result<FetchAnswer, QueueError>,
    ) -> Checked {
        let instance = asked.who.instance;
        judge_refusal(asked, answer.as_ref().err())?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                world.note(format_args!(
                    "{:?} fetches with {:?}: {error}",
                    asked.who, asked.said
                ));
                return Ok(());
            }
        };
        let fetched = answer.fetched;
        let seqs: Vec<i64> = fetched.deliveries.iter().map(|one| one.seq.0).collect();
        world.note(format_args!(
            "{:?} fetches {} with {:?}: {seqs:?} {} {} {:?}",
            asked.who, asked.limit, asked.said, fetched.cursor, fetched.committed, answer.ended
        ));
        confirm(world, asked);
        if answer.ended == PollEnd::Superseded {
            // It says what was so when it was held.
            return Ok(());
        }
        let now = world.clock.now();
        let until = now.plus(fetched.lease_ms - SLACK_MS);
        world.ledger.holds(&asked.who, until, now)?;
        world
            .ledger
            .fetched(&asked.who, asked.limit, &fetched, &world.sent)?;
        for seq in &seqs {
            world.counts.deliveries += 1;
            self.gateway
                .look(|file| look::check_order(file, *seq, fetched.cursor))?;
        }
        let is_lost = world.rng.u32(0..8) == 0;
        let clients = &mut world.clients[instance];
        let client = clients.iter_mut().find(|client| client.who == asked.who);
        if let Some(client) = client.filter(|_| !is_lost) {
            client.cursor = fetched.cursor;
            client.in_hand.extend(seqs);
        } else {
            world.note("the answer is lost");
        }
        Ok(())
    }

    /// A strike is for who did it: a failure that was said, or an end alone in somebody's hands.
    pub(crate) fn judge_strikes(&self, world: &World) -> Checked {
        let now = world.clock.now();
        for (seq, before) in &self.in_hand {
            let strikes = self.gateway.look(|file| look::strikes(file, *seq))?;
            let Some(strikes) = strikes.filter(|strikes| *strikes > before.strikes) else {
                continue;
            };
            let asked = || {
                let asked = self.asked.iter();
                asked.filter(|asked| asked.who.instance == before.instance)
            };
            // What the first of two changed, and what the second made of it, is not seen from here.
            let is_unclear = asked().count() > 1;
            let was_failed = asked().any(|asked| asked.said.contains(&(*seq, "failed")));
            let was_named =
                |seq: &i64| asked().any(|asked| asked.said.iter().any(|(s, _)| s == seq));
            let beside = self.in_hand.iter().filter(|(other, in_hand)| {
                *other != seq && in_hand.hands == before.hands && !was_named(other)
            });
            let mut is_alone = true;
            for (other, _) in beside {
                // What expired meanwhile is in nobody's hands any more.
                is_alone &= self.gateway.look(|file| look::is_expired(file, *other))?;
            }
            let was_taken_over = asked().any(|asked| asked.who.hands() != before.hands);
            // Within a step the clock goes on by what one says is overdue.
            let is_overdue = now.since(before.since) >= world.settings.hand_timeout_ms;
            require(strikes == before.strikes + 1, || {
                format!("delivery {seq} got two strikes at once")
            })?;
            require(
                is_unclear || was_failed || (is_alone && (was_taken_over || is_overdue)),
                || format!("delivery {seq} got a strike for nothing that it did: {before:?}"),
            )?;
        }
        Ok(())
    }
}

/// What a client was told of its outcomes holds from now on.
fn confirm(world: &mut World, asked: &Asked) {
    let settled = asked.said.iter().filter(|(_, outcome)| settles(outcome));
    let settled: Vec<i64> = settled.map(|(seq, _)| *seq).collect();
    world.counts.outcomes += u32::try_from(settled.len()).unwrap_or(u32::MAX);
    // Of two outcomes for one delivery the last counts.
    let last: BTreeMap<i64, &str> = asked.said.iter().copied().collect();
    let settled = settled.into_iter().filter(|seq| settles(last[seq]));
    world.ledger.settled.extend(settled);
}

/// Outcomes of what was handed out are taken, of anything else refused.
fn judge_refusal(asked: &Asked, error: Option<&QueueError>) -> Checked {
    let undelivered = match error {
        Some(QueueError::Store(StoreError::Refused(Refusal::CommitUndelivered { seqs }))) => {
            Some(seqs)
        }
        Some(_) => return Ok(()),
        None => None,
    };
    match undelivered {
        Some(seqs) => require(asked.is_dishonest, || {
            format!(
                "{:?} was handed {seqs:?} and may say nothing of it",
                asked.who
            )
        }),
        None => require(!asked.is_dishonest, || {
            format!(
                "{:?} says {:?}, which it was never handed",
                asked.who, asked.said
            )
        }),
    }
}

fn shown<T: std::fmt::Debug, E: std::fmt::Display>(answer: &Result<T, E>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}
