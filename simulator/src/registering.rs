//! What instances and operators do besides fetching.

use the_loop_gateway::actors::Submit;
use the_loop_gateway::domain::{ActorSet, Binding, EventActor, Identity, Provider, Role, Room};
use the_loop_gateway::store::{
    DeadSelection, DeleteBinding, LearnCommits, Position, PutActors, PutBinding, PutClaim,
    PutRooms, Redrive, ReleaseClaim, Routed, SubjectFilter, Write,
};

use crate::arrivals::{self, ACTORS, CHANNEL, FIRST_PULL_REQUEST, INSTANCES, ITEMS, THREADS};
use crate::client::{Who, name};
use crate::life::{Life, who_registers};
use crate::requests::Answer;
use crate::world::World;

impl Life<'_> {
    /// Now and then somebody registers something, or an operator steps in.
    pub(crate) fn register(&mut self, world: &mut World) {
        match world.rng.u32(0..60) {
            0..=3 => self.claim(world),
            4 => self.release(world),
            5 => self.put_actors(world),
            6 | 7 => self.bind(world),
            8 => self.put_rooms(world),
            9 => self.learn(world),
            10 => self.redrive(world),
            _ => {}
        }
    }

    fn submit<W: Write<Reply = Routed>>(&self, who: (Who, bool), what: &'static str, write: W) {
        let answer = self.gateway.store.send(Submit(write));
        self.answers.expect(async move {
            Some(Answer::Registered(who.0, who.1, what, answer.await.ok()?))
        });
    }

    fn claim(&self, world: &mut World) {
        let number = world.rng.u64(1..=ITEMS);
        let instance = arrivals::claimants(number)[world.rng.usize(0..2)];
        let who = who_registers(world, instance);
        let claim = PutClaim {
            identity: identity(&who),
            subject: arrivals::item(number).subject(),
            role: Role::Driver,
        };
        self.submit(who, "claims", claim);
    }

    fn release(&self, world: &mut World) {
        let number = world.rng.u64(1..=ITEMS);
        let instance = arrivals::claimants(number)[world.rng.usize(0..2)];
        let who = who_registers(world, instance);
        let release = ReleaseClaim {
            identity: identity(&who),
            subject: arrivals::item(number).subject(),
            role: None,
        };
        self.submit(who, "gives up a claim", release);
    }

    fn put_actors(&self, world: &mut World) {
        let (provider, account, instance) = ACTORS[world.rng.usize(0..ACTORS.len())];
        let who = who_registers(world, instance);
        let account = EventActor {
            provider,
            name: account.to_owned(),
        };
        let accounts = if world.rng.u32(0..4) == 0 {
            Vec::new()
        } else {
            vec![account]
        };
        let actors = PutActors {
            identity: identity(&who),
            actors: ActorSet(accounts),
        };
        self.submit(who, "registers actors", actors);
    }

    fn bind(&self, world: &mut World) {
        let (provider, key, ticket) = if world.rng.bool() {
            let number = world.rng.u64(1..=THREADS);
            (Provider::Slack, arrivals::thread(number), number)
        } else {
            let number = world.rng.u64(FIRST_PULL_REQUEST..=ITEMS);
            let key = arrivals::item(number).key();
            (Provider::GitHub, key, arrivals::ticket_of(number))
        };
        let instance = world.rng.usize(0..INSTANCES.len());
        let who = who_registers(world, instance);
        let (identity, binding) = (
            identity(&who),
            Binding {
                provider,
                key,
                work_item: arrivals::item(ticket),
            },
        );
        if world.rng.u32(0..5) == 0 {
            self.submit(who, "unbinds", DeleteBinding { identity, binding });
        } else {
            self.submit(who, "binds", PutBinding { identity, binding });
        }
    }

    fn put_rooms(&self, world: &mut World) {
        let who = who_registers(world, 0);
        let room = Room {
            channel: CHANNEL.to_owned(),
            work_item: arrivals::item(4),
        };
        let rooms = if world.rng.bool() {
            vec![room]
        } else {
            Vec::new()
        };
        let identity = identity(&who);
        self.submit(who, "publishes rooms", PutRooms { identity, rooms });
    }

    fn learn(&self, world: &mut World) {
        let number = world.rng.u64(FIRST_PULL_REQUEST..=ITEMS);
        let learn = LearnCommits {
            commits: vec![arrivals::head_of(number)],
        };
        let answer = self.gateway.store.send(Submit(learn));
        self.answers.expect(async move {
            let made = answer.await.ok()?;
            drop(made);
            None
        });
    }

    fn redrive(&self, world: &mut World) {
        let instance = world.rng.usize(0..INSTANCES.len());
        let redrive = Redrive {
            selection: DeadSelection {
                seqs: Vec::new(),
                instance: Some(name(instance)),
                subject: SubjectFilter::default(),
                died: the_loop_gateway::store::Period::default(),
            },
            after: Position::START,
            dry_run: false,
        };
        let answer = self.gateway.store.send(Submit(redrive));
        self.answers
            .expect(async move { Some(Answer::Redriven("redrive", answer.await.ok()?)) });
    }
}

fn identity((who, has_peer): &(Who, bool)) -> Identity {
    let identity = who.identity();
    if *has_peer {
        identity
    } else {
        Identity {
            peer: None,
            run: None,
            ..identity
        }
    }
}
