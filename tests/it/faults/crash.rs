//! The real program, killed with SIGKILL at moments that matter, and started again over what it
//! left behind.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use the_loop_gateway::providers::signature::sign_github;

use crate::cli::program::{Home, Running};
use crate::support::consumer::{seqs, shown};
use crate::support::gateway::wait_until;
use crate::support::{Call, Reply, comment_on};

const SECRET: &str = "a secret of this test";

/// A program with its home.
struct Program {
    home: Home,
    running: Option<Running>,
    port: u16,
}

impl Program {
    fn start() -> Self {
        let home = Home::new();
        home.write(
            ".the-loop/gateway-config.yaml",
            "version: '1'\n\
             env: {file: the-loop.env}\n\
             listen: {port: 0}\n\
             repositories: [octo/repo]\n\
             github: {webhook: {enabled: true}}\n",
        );
        let variable = format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n");
        home.write(".the-loop/the-loop.env", &variable);
        let mut program = Self {
            home,
            running: None,
            port: 0,
        };
        program.start_again();
        program
    }

    fn start_again(&mut self) {
        let running = self.home.start(&["run"]);
        let line = running.line_with("listening on ");
        let (_, port) = line.trim().rsplit_once(':').unwrap();
        self.port = port.trim_end_matches('/').parse().unwrap();
        self.running = Some(running);
    }

    /// SIGKILL: nothing of it runs any more when this returns.
    fn kill(&mut self) {
        drop(self.running.take());
    }

    fn github(&self, id: u64) -> Call {
        github(self.port, id)
    }

    fn api(&self, method: &str, path: &str, body: &Value) -> Call {
        Call::new(self.port, method, &format!("/api/v1/gateway{path}")).json(body)
    }

    fn claim(&self) {
        let claim = json!({
            "instance": "laptop",
            "peer": "p",
            "subject": "loop-github-octo-repo-15",
            "role": "driver",
        });
        self.api("PUT", "/claims", &claim).send().assert(200);
    }

    fn fetch(&self, more: &Value) -> Call {
        let mut body = json!({"instance": "laptop", "peer": "p", "run": "r", "cursor": 0});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.api("POST", "/fetch", &body)
    }

    /// One number out of its store, seen from outside.
    #[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
    fn number(&self, sql: &str) -> i64 {
        let path = self.home.path(".the-loop/gateway/gateway.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// A signed comment on the claimed work item.
fn github(port: u16, id: u64) -> Call {
    let body = comment_on(15, id, "go on");
    Call::new(port, "POST", "/gh-webhook")
        .header("X-GitHub-Event", "issue_comment")
        .header("X-GitHub-Delivery", format!("guid-{id}"))
        .header("X-Hub-Signature-256", sign_github(SECRET, body.as_bytes()))
        .header("Content-Type", "application/json")
        .body(body)
}

/// Sends a request whole, and does not read what is answered.
fn sent(call: &Call) -> TcpStream {
    let mut stream = call.open();
    stream.write_all(call.sent_body()).unwrap();
    stream
}

#[test]
fn a_kill_between_the_commit_and_the_answer_loses_and_doubles_nothing() {
    let mut program = Program::start();
    program.claim();
    let mut known = 0;
    for round in 0..5 {
        let ids: Vec<u64> = (1..=20).map(|number| round * 100 + number).collect();
        let unread: Vec<TcpStream> = ids.iter().map(|id| sent(&program.github(*id))).collect();
        wait_until("the first COMMIT", || {
            program.number("SELECT count(*) FROM events") > known
        });
        program.kill();
        drop(unread);
        program.start_again();
        let kept = program.number("SELECT count(*) FROM events");
        assert!(kept > known, "what was committed is there");
        // Nobody was answered: the provider sends all of it again.
        for id in &ids {
            program.github(*id).send().assert(202);
        }
        known += 20;
        assert_eq!(program.number("SELECT count(*) FROM events"), known);
        assert_eq!(program.number("SELECT count(*) FROM deliveries"), known);
    }
}

/// Sends one comment after the other; which of them were acknowledged.
fn send_until_gone(port: u16, next: &AtomicU64) -> BTreeMap<u64, bool> {
    let mut answers = BTreeMap::new();
    loop {
        let id = next.fetch_add(1, Ordering::Relaxed);
        let Some(reply) = github(port, id).try_send() else {
            answers.insert(id, false);
            return answers;
        };
        assert_eq!(reply.status, 202);
        answers.insert(id, true);
    }
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_after_it() {
    let mut program = Program::start();
    program.claim();
    let next = AtomicU64::new(1);
    let mut known = 0;
    for _ in 0..5 {
        let port = program.port;
        let senders: Vec<_> = std::thread::scope(|scope| {
            let senders = [(); 4].map(|()| scope.spawn(|| send_until_gone(port, &next)));
            wait_until("some deliveries", || {
                program.number("SELECT count(*) FROM events") > known + 30
            });
            program.running.as_ref().unwrap().signal_kill();
            senders.map(|sender| sender.join().unwrap()).into()
        });
        program.kill();
        program.start_again();
        for (id, is_acked) in senders.into_iter().flatten() {
            let sql = format!("SELECT count(*) FROM events WHERE delivery_id = 'guid-{id}'");
            let count = program.number(&sql);
            assert!(
                count == 1 || (!is_acked && count == 0),
                "{id} {is_acked} {count}"
            );
        }
        known = program.number("SELECT count(*) FROM events");
    }
}

#[test]
fn a_kill_while_a_fetch_is_answered_is_a_lost_response_and_no_attempt() {
    let mut program = Program::start();
    program.claim();
    program.github(1).send().assert(202);
    for _ in 0..2 {
        let handed = program.number("SELECT coalesce(max(number), 0) FROM response_numbers");
        let unread = sent(&program.fetch(&json!({})));
        wait_until("the hand-out", || {
            program.number("SELECT coalesce(max(number), 0) FROM response_numbers") > handed
        });
        program.kill();
        drop(unread);
        program.start_again();
    }
    let answer = program.fetch(&json!({})).send().assert(200);
    assert_eq!(shown(&answer), [(1, 1)]);
    assert_eq!(program.number("SELECT strikes FROM deliveries"), 0);
    let commit = json!([{"seq": 1, "outcome": "delivered"}]);
    let more = json!({"cursor": answer["cursor"], "commit": commit});
    let answer = program.fetch(&more).send().assert(200);
    assert_eq!(answer["committed"], 1);
}

#[test]
fn a_kill_while_a_poll_is_held_keeps_its_lease() {
    let mut program = Program::start();
    program.claim();
    let held = sent(&program.fetch(&json!({"wait": 30, "lease": 300})));
    wait_until("the poll to be held", || {
        program.number("SELECT count(*) FROM instances WHERE lease_until_ms > 0") == 1
    });
    program.kill();
    drop(held);
    program.start_again();
    let rival = json!({"instance": "laptop", "peer": "rival"});
    let refused = program.api("POST", "/fetch", &rival).send();
    refused.assert_error(409, "duplicate-instance");
    assert!(refused.json()["retryAfter"].as_i64().unwrap() > 250);
    program.github(1).send().assert(202);
    let answer = program.fetch(&json!({})).send().assert(200);
    assert_eq!(seqs(&answer), [1]);
}

#[test]
fn outcomes_that_were_sent_before_a_kill_may_be_sent_again() {
    let mut program = Program::start();
    program.claim();
    program.github(1).send().assert(202);
    program.github(2).send().assert(202);
    let answer = program.fetch(&json!({})).send().assert(200);
    let commit = json!([{"seq": 1, "outcome": "spawned"}, {"seq": 2, "outcome": "delivered"}]);
    let more = json!({"cursor": answer["cursor"], "commit": commit, "max": 0});
    let unread = sent(&program.fetch(&more));
    wait_until("the COMMIT", || {
        program.number("SELECT count(*) FROM deliveries WHERE state = 2") == 2
    });
    program.kill();
    drop(unread);
    program.start_again();
    let answer = program.fetch(&more).send().assert(200);
    assert_eq!(answer["committed"], 2);
}

#[test]
fn a_second_program_on_the_same_root_is_refused_and_a_killed_one_is_no_obstacle() {
    let mut program = Program::start();
    let second = program.home.run(&["run"]);
    assert_eq!(second.code, Some(1), "{}", second.err);
    let pid = format!("(process {})", program.running.as_ref().unwrap().process());
    assert!(second.err.contains(&pid), "{}", second.err);
    program.kill();
    program.start_again();
    program.claim();
}

/// Files may not grow beyond this for the process.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, limit).unwrap();
}

#[test]
fn writes_that_the_system_refuses_are_refused_to_the_provider_and_heal_by_themselves() {
    let mut program = Program::start();
    program.kill();
    // A process that is over its limit gets a signal too, unless it was started deaf to it.
    let running = program
        .home
        .start_deaf_to_file_size(&["run", "--port", "0"]);
    let line = running.line_with("listening on ");
    let (_, port) = line.trim().rsplit_once(':').unwrap();
    program.port = port.trim_end_matches('/').parse().unwrap();
    let pid = running.process();
    program.running = Some(running);
    program.claim();
    for id in 1..=10 {
        program.github(id).send().assert(202);
    }
    let before = program.number("SELECT count(*) FROM events");
    let ready = |program: &Program| {
        let call = Call::new(program.port, "GET", "/api/v1/gateway/ready");
        call.send().status
    };
    limit_files(pid, Some(16 * 1024));
    let mut id = 10;
    let mut refused = Vec::new();
    wait_until("deliveries to fail", || {
        id += 1;
        let reply: Reply = program.github(id).send();
        if reply.status != 202 {
            reply.assert_error(500, "store-unavailable");
            refused.push(id);
        }
        refused.len() >= 5
    });
    assert_eq!(ready(&program), 503);
    limit_files(pid, None);
    wait_until("readiness", || ready(&program) == 200);
    for id in &refused {
        let sql = format!("SELECT count(*) FROM events WHERE delivery_id = 'guid-{id}'");
        assert_eq!(program.number(&sql), 0);
        program.github(*id).send().assert(202);
    }
    program.kill();
    program.start_again();
    let total = i64::try_from(id).unwrap();
    assert!(total > before);
    assert_eq!(program.number("SELECT count(*) FROM events"), total);
}
