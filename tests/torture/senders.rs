//! Providers: they send, and some send again what was not acknowledged.

use std::sync::atomic::Ordering;

use fastrand::Rng;

use crate::mail::Mail;
use crate::pass;
use crate::world::World;

/// How often one that gets no answer is sent.
const TRIES_MAX: u32 = 4;

/// Sends one event after the other until it is over.
pub(crate) fn send_until_over(world: &World, mut rng: Rng) {
    while !world.is_over.load(Ordering::Relaxed) {
        if !send_next(world, &mut rng) {
            // Nobody listens.
            pass(10);
        }
        pass(rng.u64(0..=world.pause_ms));
    }
}

/// Sends the next event; false when there was no answer at all.
fn send_next(world: &World, rng: &mut Rng) -> bool {
    let mark = world.next_mark.fetch_add(1, Ordering::Relaxed);
    let mail = Mail::of(mark, world.with_slack);
    let tries = rng.u32(1..=TRIES_MAX);
    for _ in 0..tries {
        let Some(status) = send(world, mail) else {
            pass(5);
            continue;
        };
        if mail.is_acked_by(status) {
            // A provider that missed the answer sends it once more.
            if rng.u32(0..20) == 0 {
                send(world, mail);
            }
            return true;
        }
    }
    false
}

/// Sends it once; what was answered.
pub(crate) fn send(world: &World, mail: Mail) -> Option<u16> {
    let reply = mail.request(world.gateway.port).try_send();
    let status = reply.map(|reply| reply.status);
    world.ledger.note_answer(mail, status);
    status
}
