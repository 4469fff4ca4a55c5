//! A thousand instances that come at once: at first, and again after the gateway was killed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, Scope};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::mail::{Mail, mark_in};
use crate::program::Home;
use crate::support::Reply;
use crate::{now_ms, number_of, pass};

const STACK: usize = 256 * 1024;
/// How long one of them tries.
const PATIENCE_S: i64 = 120;

/// One of them: what it asks is answered with success, or it is not answered at all because the
/// gateway is gone for a moment.
struct Member<'g> {
    gateway: &'g Gateway,
    number: u64,
    cursor: i64,
    refused: &'g AtomicU64,
}

impl Member<'_> {
    fn insist(&self, method: &str, path: &str, body: &Value) -> Reply {
        let end = now_ms() + PATIENCE_S * 1_000;
        loop {
            let reply = self.gateway.api(method, path, body).try_send();
            match reply {
                Some(reply) if reply.status == 200 => return reply,
                Some(reply) => {
                    assert_eq!(reply.status, 503, "{}", reply.text());
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                None => {}
            }
            assert!(now_ms() < end, "{} waited for {path} in vain", self.number);
            pass(fastrand::u64(10..200));
        }
    }

    fn body(&self, more: &Value) -> Value {
        let number = self.number;
        let mut body = json!({"instance": format!("i-{number}"), "peer": format!("p-{number}"),
                              "run": "r"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    fn join(&self) {
        let login = format!("user-{}", self.number);
        let actors = self.body(&json!({"actors": {"github": [login]}}));
        self.insist("PUT", "/actors", &actors);
        let subject = format!("loop-github-octo-repo-{}", self.number);
        let claim = self.body(&json!({"subject": subject, "role": "driver"}));
        self.insist("PUT", "/claims", &claim);
    }

    /// Waits for the one event that is for it, and settles it.
    fn expect(&mut self, mark: u64) {
        let mut commit = json!([]);
        let mut is_found = false;
        loop {
            let more = json!({"cursor": self.cursor, "wait": if is_found { 0 } else { 30 },
                              "lease": 60, "max": if is_found { 0 } else { 64 },
                              "commit": commit});
            let reply = self.insist("POST", "/fetch", &self.body(&more));
            if is_found {
                return;
            }
            let answer = reply.json();
            self.cursor = answer["cursor"].as_i64().unwrap();
            for delivery in answer["deliveries"].as_array().unwrap() {
                let found = mark_in(&delivery["event"]["payload"].to_string());
                assert_eq!(found, mark, "i-{} got another's", self.number);
                assert_eq!(delivery["attempt"], 1);
                commit = json!([{"seq": delivery["seq"], "outcome": "delivered"}]);
                is_found = true;
            }
        }
    }
}

/// Room for a socket each.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn come_at_once(count: u64) {
    raise_limit();
    let gateway = Gateway::new(Home::new(), "");
    gateway.start();
    let (refused, held) = (AtomicU64::new(0), Barrier::new(count as usize + 1));
    let began = now_ms();
    std::thread::scope(|scope| {
        let members: Vec<_> = (1..=count)
            .map(|number| {
                let mut member = Member {
                    gateway: &gateway,
                    number,
                    cursor: 0,
                    refused: &refused,
                };
                let held = &held;
                spawn(scope, move || {
                    held.wait();
                    member.join();
                    held.wait();
                    member.expect(number);
                    held.wait();
                    member.expect(count + number);
                })
            })
            .collect();
        held.wait();
        held.wait();
        eprintln!("{count} joined within {} ms", now_ms() - began);
        send_to_each(&gateway, count, 0);
        held.wait();
        // Their polls are held when the gateway dies, and they all come back at once.
        pass(1_000);
        gateway.kill();
        gateway.start();
        let began = now_ms();
        send_to_each(&gateway, count, count);
        for member in members {
            member.join().unwrap();
        }
        eprintln!(
            "{count} came back and were served within {} ms",
            now_ms() - began
        );
    });
    let settled = "SELECT count(*) FROM deliveries WHERE outcome = 'delivered' AND strikes = 0";
    assert_eq!(gateway.number(settled), 2 * count as i64);
    assert_eq!(
        gateway.number("SELECT count(*) FROM deliveries"),
        2 * count as i64
    );
    eprintln!("{} requests were refused as too many", refused.into_inner());
    gateway.end();
    gateway.assert_sound();
}

fn spawn<'s>(
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() + Send + 's,
) -> std::thread::ScopedJoinHandle<'s, ()> {
    let builder = Builder::new().stack_size(STACK);
    builder.spawn_scoped(scope, work).unwrap()
}

/// One event for each, from a few providers at once.
fn send_to_each(gateway: &Gateway, count: u64, first_mark: u64) {
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > count {
                        return;
                    }
                    let mail = Mail::about(first_mark + number, number);
                    let reply = mail.request(gateway.port).try_send();
                    assert_eq!(reply.map(|reply| reply.status), Some(202));
                }
            });
        }
    });
}

#[test]
fn a_thousand_instances_that_come_at_once_are_all_served() {
    come_at_once(1_000);
}

#[test]
#[ignore = "the long form; TORTURE_INSTANCES says how many"]
fn a_few_thousand_instances_that_come_at_once_are_all_served() {
    come_at_once(number_of("TORTURE_INSTANCES", 2_000));
}
