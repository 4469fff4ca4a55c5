//! Resident memory: at rest, and with many instances that wait beside long queues of absent ones.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::program::Program;
use super::support::api;
use super::table::Table;
use super::{Bench, fill, say};

const INSTANCES: u64 = 1_000;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let idle = at_rest(&bench.root("idle"));
    table.at_most("resident at rest", idle, 20.0, "MB");
    let root = bench.root("queued");
    fill::million(bench, &root);
    let held = held_polls(&root);
    let queued = bench.many(fill::MILLION);
    let name = format!("resident, {INSTANCES} held polls, {queued} queued for others");
    table.at_most(&name, held, 64.0, "MB");
}

fn at_rest(root: &Path) -> f64 {
    let program = Program::start(root);
    // Housekeeping has its first rounds.
    std::thread::park_timeout(Duration::from_secs(3));
    program.resident_mb()
}

fn held_polls(root: &Path) -> f64 {
    open_files(2 * INSTANCES);
    let program = Program::start(root);
    let mut waiting = Vec::new();
    for number in 0..INSTANCES {
        let body = json!({
            "instance": format!("waiting-{number}"), "peer": format!("peer-{number}"),
            "run": "run-1", "cursor": 0, "wait": 30,
        });
        let body = body.to_string();
        let request = format!(
            "POST /api/v1/gateway/fetch HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            program.address,
            body.len()
        );
        let mut stream = TcpStream::connect(program.address).expect("a listener");
        stream.write_all(request.as_bytes()).expect("to send");
        waiting.push(stream);
    }
    let began = Instant::now();
    while held(&program) < INSTANCES as f64 {
        assert!(began.elapsed() < Duration::from_secs(25), "not all wait");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    std::thread::park_timeout(Duration::from_secs(2));
    assert!(held(&program) >= INSTANCES as f64, "some were answered");
    let resident = program.resident_mb();
    say(&format!(
        "{} polls are held: {resident:.1} MB",
        waiting.len()
    ));
    resident
}

/// Polls that are held, as the program counts them.
fn held(program: &Program) -> f64 {
    let text = api::get(program.address, "/metrics");
    let line = text
        .lines()
        .find(|line| !line.starts_with('#') && line.contains("held_polls"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.expect("the number of held polls")
}

/// A connection is an open file.
fn open_files(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("to open more files");
    }
}
