//! What happens in one life of the gateway: requests at random, and the checks of what they give.

use std::collections::BTreeMap;

use the_loop_gateway::actors::{Close, Commit, Drain, Fetch, ReplaceSettings, Submit};
use the_loop_gateway::domain::{CallerGuard, CallerToken, Clock};
use the_loop_gateway::store::{Append, CommitOutcomes, Settings};
use the_loop_gateway::telemetry::GatewayEvent;

use crate::arrivals::{self, INSTANCES};
use crate::client::{Client, LEASE_MS, Who, items};
use crate::disk::{Fault, Op, Power, code};
use crate::gateway::Gateway;
use crate::ledger::{Broken, Checked};
use crate::look::{self, InHand};
use crate::requests::{Answer, Answers, Asked, Held};
use crate::vfs::with_disk;
use crate::world::World;

/// Rounds of the end, in which everything that can be settled is.
const LAST_ROUNDS_MAX: u32 = 500;

/// One life, as the driver sees it.
pub(crate) struct Life<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) answers: Answers,
    held: BTreeMap<usize, Held>,
    /// Who asked what in this step, for the judgement of strikes.
    pub(crate) asked: Vec<Asked>,
    pub(crate) in_hand: BTreeMap<i64, InHand>,
}

impl<'g> Life<'g> {
    pub(crate) fn new(gateway: &'g Gateway) -> Checked<Self> {
        Ok(Self {
            gateway,
            answers: Answers::default(),
            held: BTreeMap::new(),
            asked: Vec::new(),
            in_hand: gateway.look(look::in_hand)?,
        })
    }

    /// One step: some requests at once, and whatever follows from them.
    pub(crate) async fn step(&mut self, world: &mut World) -> Checked {
        self.asked = self.held.values().map(|held| held.asked.clone()).collect();
        arm(world);
        pass_time(world).await;
        for _ in 0..[0, 0, 1, 1, 2, 4][world.rng.usize(0..6)] {
            self.arrive(world);
        }
        self.register(world);
        for instance in 0..INSTANCES.len() {
            if world.rng.u32(0..3) == 0 {
                self.ask(world, instance);
            }
        }
        if world.rng.u32(0..150) == 0 {
            self.reload(world);
        }
        world.settle().await;
        self.check(world)
    }

    fn arrive(&mut self, world: &mut World) {
        let is_repeat = !world.sent.is_empty() && world.rng.u32(0..5) == 0;
        let (sent, arrival) = if is_repeat {
            let newest = world.sent.len().saturating_sub(40);
            let sent = world.rng.usize(newest..world.sent.len());
            (sent, arrivals::repeat(&mut world.rng, &world.sent[sent]))
        } else {
            let (sent, now) = (world.sent.len(), world.clock.now());
            let composed = arrivals::compose(&mut world.rng, sent, now);
            let arrival = composed.arrival.clone();
            world.sent.push(composed);
            (sent, arrival)
        };
        let answer = self.gateway.store.send(Submit(Append {
            arrival: Box::new(arrival),
            caller: CallerToken::always(),
        }));
        self.answers
            .expect(async move { Some(Answer::Appended(sent, answer.await.ok()?)) });
    }

    /// One of a name's installations asks something.
    fn ask(&mut self, world: &mut World, instance: usize) {
        let peer = usize::from(world.rng.u32(0..12) == 0);
        let mut client = world.clients[instance][peer].clone();
        if world.rng.u32(0..15) == 0 {
            client.restart();
            world.note(format_args!(
                "{} starts as run {}",
                client.who.peer, client.who.run
            ));
        }
        let said = self.say(world, &client);
        let asked = Asked {
            who: client.who.clone(),
            is_dishonest: said.iter().any(|(seq, _)| !client.knows(*seq)),
            said,
            limit: world.rng.usize(0..10),
        };
        client
            .in_hand
            .retain(|seq| !asked.said.iter().any(|(said, _)| said == seq));
        if !asked.is_dishonest {
            client.said.clone_from(&asked.said);
        }
        let cursor = match world.rng.u32(0..25) {
            0 => 0,
            1 => client.cursor + 1,
            _ => client.cursor,
        };
        world.clients[instance][peer] = client;
        world.ledger.tried.extend(
            asked
                .said
                .iter()
                .filter(|(_, outcome)| settles(outcome))
                .map(|(seq, _)| *seq),
        );
        self.asked.push(asked.clone());
        if world.rng.u32(0..4) == 0 {
            self.send_commit(asked, cursor);
        } else {
            let wait = [0, 0, 2, 30][world.rng.usize(0..4)];
            self.send_fetch(asked, cursor, wait);
        }
        if world.rng.u32(0..20) == 0
            && let Some(held) = self.held.remove(&instance)
        {
            held.hang_up();
        }
    }

    /// What a client says of what it has; now and then again, or of what it never had.
    fn say(&self, world: &mut World, client: &Client) -> Vec<(i64, &'static str)> {
        let rng = &mut world.rng;
        let mut said = Vec::new();
        if rng.u32(0..30) == 0 {
            said.clone_from(&client.said);
        }
        for seq in &client.in_hand {
            let outcome = match rng.u32(0..24) {
                0 | 1 => "failed",
                2 => "released",
                3 => "spawned",
                4 => "dropped:paused",
                5..=15 => "delivered",
                _ => continue,
            };
            said.push((*seq, outcome));
        }
        let foreign = self
            .in_hand
            .iter()
            .find(|(_, in_hand)| in_hand.instance != client.who.instance);
        if let Some((seq, _)) = foreign.filter(|_| rng.u32(0..80) == 0) {
            said.push((*seq, "delivered"));
        }
        said
    }

    fn send_fetch(&mut self, asked: Asked, cursor: i64, wait_seconds: u64) {
        let guard = CallerGuard::new();
        let identity = asked.who.identity();
        let Some(peer) = identity.peer.clone() else {
            return;
        };
        let answer = self.gateway.queues.send(Fetch {
            identity,
            peer,
            cursor: Some(cursor),
            limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
            lease_ms: LEASE_MS,
            wait: std::time::Duration::from_secs(wait_seconds),
            commit: items(&asked.said),
            caller: guard.token(),
        });
        let (instance, of) = (asked.who.instance, asked.clone());
        let held = self.answers.hold(asked, guard, async move {
            Some(Answer::Fetched(of, answer.await.ok()?))
        });
        self.held.insert(instance, held);
    }

    fn send_commit(&self, asked: Asked, cursor: i64) {
        let answer = self.gateway.queues.send(Commit(CommitOutcomes {
            identity: asked.who.identity(),
            cursor: Some(cursor),
            commit: items(&asked.said),
        }));
        self.answers
            .expect(async move { Some(Answer::Committed(asked, answer.await.ok()?)) });
    }

    fn reload(&self, world: &mut World) {
        let rng = &mut world.rng;
        world.settings = Settings {
            batch_max: rng.u32(1..12),
            batch_bytes_max: [2_000, 16 << 20][rng.usize(0..2)],
            store_bytes_max: [1 << 20, 8 << 30][rng.usize(0..2)],
            grace_ms: [0, 30_000, 120_000][rng.usize(0..3)],
            ..world.settings.clone()
        };
        let sent = self
            .gateway
            .store
            .try_send(ReplaceSettings(world.settings.clone()));
        assert!(sent.is_ok(), "the store's mailbox is full");
        world.note("reload");
    }

    /// Looks at everything that this step brought.
    fn check(&mut self, world: &mut World) -> Checked {
        for note in with_disk(crate::disk::Disk::take_notes) {
            world.counts.faults += 1;
            world.note(note);
        }
        for record in self.gateway.records.take() {
            world.ledger.recorded(&record);
            count(world, &record);
        }
        for answer in self.answers.take() {
            self.judge(world, answer)?;
        }
        self.held.retain(|_, held| !held.is_over());
        if with_disk(|disk| disk.power()) == Power::On {
            self.judge_strikes(world)?;
            self.in_hand = self.gateway.look(look::in_hand)?;
        }
        Ok(())
    }

    /// Ends this life in good order.
    pub(crate) async fn stop(&mut self, world: &mut World) -> Checked {
        let drained = self.gateway.queues.send(Drain);
        let closed = self.gateway.store.clone();
        self.answers.expect(async move {
            // Held fetches are answered before the file is closed.
            drained.await.ok()?;
            closed.send(Close).await.ok()?.ok()?;
            None
        });
        world.settle().await;
        self.check(world)
    }

    /// Lets every instance work until nothing is left that can be settled.
    pub(crate) async fn settle_everything(&mut self, world: &mut World) -> Checked {
        with_disk(crate::disk::Disk::disarm);
        for _ in 0..LAST_ROUNDS_MAX {
            if self.gateway.look(look::live)? == 0 {
                return Ok(());
            }
            tokio::time::advance(std::time::Duration::from_secs(61)).await;
            for instance in 0..INSTANCES.len() {
                self.work(world, instance).await?;
            }
        }
        let left = self.gateway.look(look::live)?;
        Err(Broken(format!("{left} deliveries are never handed out")))
    }

    /// One instance takes everything that is due and settles it.
    async fn work(&mut self, world: &mut World, instance: usize) -> Checked {
        loop {
            self.asked.clear();
            let client = &mut world.clients[instance][0];
            let said: Vec<_> = client
                .in_hand
                .drain(..)
                .map(|seq| (seq, "delivered"))
                .collect();
            let asked = Asked {
                who: client.who.clone(),
                said,
                limit: 64,
                is_dishonest: false,
            };
            let (cursor, is_saying) = (client.cursor, !asked.said.is_empty());
            world
                .ledger
                .tried
                .extend(asked.said.iter().map(|(seq, _)| *seq));
            self.asked.push(asked.clone());
            self.send_fetch(asked, cursor, 0);
            world.settle().await;
            self.check(world)?;
            if world.clients[instance][0].in_hand.is_empty() && !is_saying {
                return Ok(());
            }
        }
    }
}

impl Client {
    fn knows(&self, seq: i64) -> bool {
        self.in_hand.contains(&seq) || self.said.iter().any(|(said, _)| *said == seq)
    }
}

pub(crate) fn settles(outcome: &str) -> bool {
    outcome != "failed" && outcome != "released"
}

fn count(world: &mut World, record: &GatewayEvent) {
    match record.name() {
        "subject.dead-lettered" => world.counts.dead += 1,
        "subject.expired" => world.counts.expired += 1,
        _ => {}
    }
}

/// Time goes on, mostly a little; now and then somebody sets the clock.
async fn pass_time(world: &mut World) {
    let ms = match world.rng.u32(0..40) {
        0 => world.rng.u64(60_000..1_200_000),
        1..=4 => world.rng.u64(2_000..70_000),
        5..=20 => world.rng.u64(10..3_000),
        _ => 0,
    };
    if ms > 0 {
        tokio::time::advance(std::time::Duration::from_millis(ms)).await;
    }
    if world.rng.u32(0..400) == 0 {
        let span = world.rng.i64(-1_800_000..1_800_000);
        let before = world.clock.now();
        world.clock.set_by(span);
        let longest = world.settings.wait_max_ms + world.settings.lease_max_ms;
        world
            .ledger
            .bound_leases(before, world.clock.now().plus(longest));
        world.note(format_args!("the clock is set by {span} ms"));
    }
}

/// Lets the disk fail, or the power be cut, soon.
fn arm(world: &mut World) {
    let rng = &mut world.rng;
    if rng.u32(0..40) == 0 {
        let changes = rng.u32(0..40);
        with_disk(|disk| disk.cut_after(changes));
    }
    if rng.u32(0..60) == 0 {
        let (op, code) = [
            (Op::Read, code::READ),
            (Op::Write, code::WRITE),
            (Op::Write, code::FULL),
            (Op::Sync, code::SYNC),
            (Op::Lock, code::BUSY),
        ][rng.usize(0..5)];
        let fault = Fault {
            op,
            code,
            after: rng.u32(0..20),
            times: [1, 3, 300][rng.usize(0..3)],
        };
        with_disk(|disk| disk.arm(fault));
    } else if rng.u32(0..10) == 0 {
        with_disk(crate::disk::Disk::forgive);
    }
}

/// Who stands behind a registration.
pub(crate) fn who_registers(world: &mut World, instance: usize) -> (Who, bool) {
    let peer = usize::from(world.rng.u32(0..12) == 0);
    (
        world.clients[instance][peer].who.clone(),
        world.rng.u32(0..5) > 0,
    )
}
