//! How the real program ends, and takes up a changed config: what systemd and a person see of it.

use std::io::{Read, Write};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use the_loop_gateway::domain::{Clock, SystemClock};
use the_loop_gateway::providers::signature::sign_github;

use super::program::{Home, Running};
use super::{CONFIG, started};
use crate::support::gateway::wait_until;
use crate::support::{Call, Reply, comment_on};

const IN_TIME: Duration = Duration::from_secs(10);

fn port_of(url: &str) -> u16 {
    url.rsplit_once(':').unwrap().1.parse().unwrap()
}

fn records(home: &Home) -> Vec<Value> {
    let path = home.path(".the-loop/gateway/logs/events.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn count(home: &Home, event: &str) -> usize {
    let records = records(home);
    records.iter().filter(|one| one["event"] == event).count()
}

/// A fetch that waits, on a connection of its own.
fn held(port: u16) -> std::thread::JoinHandle<Reply> {
    let body = json!({"instance": "laptop", "peer": "p", "run": "r", "cursor": 0, "wait": 30});
    Call::new(port, "POST", "/api/v1/gateway/fetch")
        .json(&body)
        .spawn()
}

fn is_held(port: u16) -> bool {
    let instances = Call::new(port, "GET", "/api/v1/gateway/instances").send();
    let lease = instances.json()["instances"][0]["lease"]["expiresIn"].clone();
    // Longer than a lease alone: the wait comes on top.
    lease.as_f64().is_some_and(|left| left > 70.0)
}

/// Sends SIGTERM, does something, and waits for the end, which must come in time and in order.
fn ended_in_time(running: Running, meanwhile: impl FnOnce()) {
    let clock = SystemClock;
    let began = clock.instant();
    running.signal(Signal::TERM);
    meanwhile();
    let ended = running.end();
    let took = clock.instant().saturating_duration_since(began);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.ends_with("stopped\n"), "{}", ended.out);
    assert!(took < IN_TIME, "{took:?}");
}

#[test]
fn sigterm_answers_the_held_poll_finishes_the_append_and_closes_the_file() {
    let home = Home::new();
    let (running, url) = started(&home);
    let port = port_of(&url);
    let poll = held(port);
    wait_until("a held poll", || is_held(port));
    let body = comment_on(15, 1, "half of it");
    let call = Call::new(port, "POST", "/gh-webhook")
        .header("X-GitHub-Event", "issue_comment")
        .header("X-GitHub-Delivery", "guid-1")
        .header(
            "X-Hub-Signature-256",
            sign_github("not a secret", body.as_bytes()),
        )
        .header("Content-Type", "application/json")
        .body(&body);
    let (first, second) = body.as_bytes().split_at(20);
    let mut arriving = call.open();
    arriving.write_all(first).unwrap();
    ended_in_time(running, || {
        let answered = poll.join().unwrap();
        answered.assert(200);
        assert_eq!(answered.json()["deliveries"], json!([]));
        arriving.write_all(second).unwrap();
        Reply::read(&mut arriving).assert(202);
    });
    assert_eq!(count(&home, "gateway.received"), 1);
    let stopped = records(&home).pop().unwrap();
    assert_eq!(stopped["event"], "gateway.stopped");
    assert_eq!(stopped["reason"], "SIGTERM");
    let root = home.path(".the-loop/gateway");
    for gone in ["gateway.pid", "gateway.json"] {
        assert!(!root.join(gone).is_file(), "{gone} is left");
    }
    // All of it is in the database file.
    let wal = std::fs::metadata(root.join("gateway.db-wal")).map_or(0, |wal| wal.len());
    assert_eq!(wal, 0);
    let filed = home.run(&["subjects"]);
    assert!(filed.out.contains("github:octo/repo#15"), "{}", filed.out);
}

#[test]
fn while_it_drains_it_is_not_ready_and_takes_no_new_connection() {
    // With nothing to finish the drain is over in a moment, and a connection that rests between
    // two requests at its end hears nothing: so several gateways, and many that ask.
    let is_heard = (0..10).any(|_| last_statuses_of_a_stop().contains(&"HTTP/1.1 503".to_owned()));
    assert!(is_heard, "no drain said that it is not ready");
}

/// Stops a gateway that is asked all the time whether it is ready; the last answer that each of
/// those who ask heard.
fn last_statuses_of_a_stop() -> Vec<String> {
    let home = Home::new();
    let (running, url) = started(&home);
    let port = port_of(&url);
    // A body that does not end keeps the drain going for a moment.
    let call = Call::new(port, "POST", "/gh-webhook")
        .header("X-Hub-Signature-256", "sha256=00")
        .body("a body that is promised");
    let arriving = call.open();
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let call = Call::new(port, "GET", "/api/v1/gateway/ready");
            let ready = call.header("Connection", "keep-alive");
            let mut connection = ready.open();
            Reply::read(&mut connection).assert(200);
            std::thread::spawn(move || last_status(&mut connection, &ready.head()))
        })
        .collect();
    let mut last = Vec::new();
    ended_in_time(running, || {
        last.extend(asking.into_iter().map(|asking| asking.join().unwrap()));
        wait_until("closed listeners", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        });
        drop(arriving);
    });
    last
}

/// Asks until it is refused or the connection ends; the last status that it heard.
fn last_status(connection: &mut std::net::TcpStream, head: &str) -> String {
    let mut last = String::new();
    while !last.ends_with("503") && connection.write_all(head.as_bytes()).is_ok() {
        let mut status = [0; 12];
        if connection.read_exact(&mut status).is_err() {
            break;
        }
        last = String::from_utf8_lossy(&status).into_owned();
        if !last.ends_with("503") {
            drain_body(connection);
        }
    }
    last
}

/// Reads what is left of an answer of `ready`.
fn drain_body(stream: &mut std::net::TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"{\"ready\":true}") {
        stream.read_exact(&mut byte).unwrap();
        seen.extend(byte);
    }
}

#[test]
fn an_idle_connection_and_a_client_that_never_ends_do_not_keep_it_from_stopping() {
    let home = Home::new();
    let (running, url) = started(&home);
    let port = port_of(&url);
    let mut idle = Call::new(port, "GET", "/api/v1/gateway/ready")
        .header("Connection", "keep-alive")
        .open();
    Reply::read(&mut idle).assert(200);
    let endless = Call::new(port, "POST", "/gh-webhook")
        .header("X-Hub-Signature-256", "sha256=00")
        .body("a body that is promised")
        .open();
    ended_in_time(running, || {});
    drop((idle, endless));
}

/// A copy program, a shell: whoever writes keeps the last checkpoint from being made.
#[test]
#[expect(clippy::disallowed_methods, reason = "somebody else has the file open")]
fn a_file_that_somebody_else_has_locked_does_not_keep_it_from_stopping_in_time() {
    let home = Home::new();
    let (running, _url) = started(&home);
    let path = home.path(".the-loop/gateway/gateway.db");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    ended_in_time(running, || {});
    other.execute_batch("ROLLBACK").unwrap();
    let (running, _url) = started(&home);
    assert_eq!(running.terminate().code, Some(0));
}

#[test]
fn sighup_takes_a_changed_config_up_at_once() {
    let home = Home::new();
    let (running, _url) = started(&home);
    let config = std::fs::read_to_string(home.path(CONFIG)).unwrap();
    let clock = SystemClock;
    let began = clock.instant();
    for round in 1..=3 {
        let instances = format!("instances: [one-{round}]\n");
        home.write(CONFIG, &format!("{config}{instances}"));
        running.signal(Signal::HUP);
        wait_until("a reload", || count(&home, "config.reloaded") == round);
    }
    // Looks by the clock are five seconds apart: three of them take ten.
    let took = clock.instant().saturating_duration_since(began);
    assert!(took < Duration::from_secs(9), "{took:?}");
    // One that cannot be used changes nothing, and does not end the process.
    home.write(CONFIG, "listen: {port: high}\n");
    running.signal(Signal::HUP);
    wait_until("a refusal", || count(&home, "config.reload-failed") == 1);
    let ended = running.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

/// On a full disk the console of a gateway in the background takes nothing: what it would have said
/// is lost, and nothing else is.
#[test]
#[cfg(target_os = "linux")]
fn a_console_that_cannot_be_written_keeps_it_from_nothing() {
    let home = Home::new();
    home.write(CONFIG, "version: '1'\nlisten: {port: 0}\n");
    let running = home.start_unheard(&["run"]);
    running.line_with("listening on ");
    // A config that cannot be used, and the stop, are both said on the console.
    home.write(CONFIG, "version: '2'\n");
    running.signal(Signal::HUP);
    wait_until("the record of the bad config", || {
        count(&home, "config.reload-failed") == 1
    });
    ended_in_time(running, || {});
    assert_eq!(count(&home, "gateway.stopped"), 1);
}

/// A stack that no address space has room for: no thread can be started.
#[test]
fn what_no_use_of_it_explains_ends_with_70() {
    let home = Home::new();
    home.write(CONFIG, "version: '1'\nlisten: {port: 0}\n");
    let running = home.start_with(&["run"], &[("RUST_MIN_STACK", "1152921504606846976")]);
    let ended = running.end();
    assert_eq!(ended.code, Some(70), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("cannot start a thread"), "{}", ended.err);
    assert!(!home.path(".the-loop/gateway/gateway.pid").is_file());
}
