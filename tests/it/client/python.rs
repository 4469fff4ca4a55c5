//! The Python example is an instance.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{FIFTEEN, queue, wait_for_outcome};
use crate::support::TestGateway;
use crate::support::gateway::wait_until;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/consumer.py");

/// The example while it runs; killed when a test fails.
struct Example(Child);

impl Example {
    /// `None`, aloud, where there is no Python.
    fn start(gateway: &TestGateway, directory: &Path) -> Option<(Self, BufReader<ChildStdout>)> {
        let child = Command::new("python3")
            .arg(EXAMPLE)
            .env("GATEWAY_URL", format!("http://127.0.0.1:{}", gateway.port))
            .env("INSTANCE", "laptop")
            .env("ACTORS", "octocat")
            .env("CLAIMS", FIFTEEN)
            .env("PEER_FILE", directory.join("gateway-peer.json"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(mut child) => {
                let out = BufReader::new(child.stdout.take().unwrap());
                Some((Self(child), out))
            }
            Err(error) => {
                eprintln!("SKIPPED: python3 cannot be run ({error})");
                None
            }
        }
    }

    fn terminate(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // One that has ended already needs no more.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn next_line(out: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn the_python_example_registers_works_reports_and_survives_a_restart_of_the_gateway() {
    let mut gateway = TestGateway::start();
    let directory = tempfile::tempdir().unwrap();
    let Some((example, mut out)) = Example::start(&gateway, directory.path()) else {
        return;
    };
    gateway.comment(15);
    gateway.comment(15);
    assert_eq!(
        next_line(&mut out),
        json!({"seq": 1, "kind": "issue_comment", "subject": FIFTEEN})
    );
    assert_eq!(next_line(&mut out)["seq"], 2);
    wait_for_outcome(&gateway, 2, "delivered");

    gateway.keep_port();
    gateway.restart();
    // By its actor: nobody claims this work item.
    gateway.comment(16);
    assert_eq!(next_line(&mut out)["subject"], "loop-github-octo-repo-16");
    wait_for_outcome(&gateway, 3, "delivered");
    assert_eq!(example.terminate(), Some(0));
    wait_until("nothing in hand", || queue(&gateway)["inHand"] == 0);
}

#[test]
fn a_second_python_example_does_not_start_and_names_the_first() {
    let gateway = TestGateway::start();
    let directory = tempfile::tempdir().unwrap();
    let Some((first, mut out)) = Example::start(&gateway, directory.path()) else {
        return;
    };
    gateway.comment(15);
    next_line(&mut out);
    let (mut second, _) = Example::start(&gateway, directory.path()).unwrap();
    let ended = second.0.wait().unwrap();
    assert_eq!(ended.code(), Some(1));
    let mut said = String::new();
    let err = second.0.stderr.take().unwrap();
    BufReader::new(err).read_line(&mut said).unwrap();
    assert!(said.contains(&first.0.id().to_string()), "{said}");
    first.terminate();
}
