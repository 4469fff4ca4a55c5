//! The real program with a Slack socket, killed between an envelope and its ack.

use std::collections::BTreeSet;

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use the_loop_gateway::devkit::slack::Envelope;

use crate::cli::program::{Home, Running};
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, env};

const CHANNEL: &str = "C0ROOM";
const STATE: &str = ".the-loop/state/gateway.db";

struct Program {
    home: Home,
    fakes: Fakes,
    running: Option<Running>,
}

impl Program {
    fn start() -> Self {
        let fakes = Fakes::start();
        let room = format!(
            "  rooms: [{{channel: {CHANNEL}, ref: 'github:octo/repo#1'}}]\nlisten: {{port: 0}}"
        );
        let home = Home::new();
        let config = fakes.config(&["slack-socket"], &room);
        home.write(".the-loop/gateway-config.yaml", &config);
        home.write(".the-loop/the-loop.env", &env(&[]));
        let mut program = Self {
            home,
            fakes,
            running: None,
        };
        program.start_again();
        program
    }

    fn start_again(&mut self) {
        self.running = Some(self.home.start(&["run"]));
        self.fakes.wait_for_sockets(1);
    }

    /// SIGKILL: nothing of it runs any more when this returns, and Slack has noticed.
    fn kill(&mut self) {
        drop(self.running.take());
        self.fakes.wait_for_sockets(0);
    }

    fn is_acked(&self, envelope: &Envelope) -> bool {
        self.fakes.slack.seen().is_acked(&envelope.envelope_id)
    }

    /// The ids of the stored events.
    #[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
    fn stored(&self) -> Vec<String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.home.path(STATE), flags).unwrap();
        let sql = "SELECT delivery_id FROM events ORDER BY id";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Keeps the program from writing its store, until it is dropped.
    #[expect(clippy::disallowed_methods, reason = "the test is somebody else")]
    fn block(&self) -> Connection {
        let connection = Connection::open(self.home.path(STATE)).unwrap();
        let patience = std::time::Duration::from_secs(5);
        connection.busy_timeout(patience).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }
}

fn envelope(number: u64) -> Envelope {
    let message = json!({
        "type": "message", "user": "U0FAKE", "text": "hello",
        "ts": format!("1700000000.{number:06}"),
    });
    Envelope::message(CHANNEL, &message)
}

fn event_id(envelope: &Envelope) -> String {
    let payload: serde_json::Value = serde_json::from_str(&envelope.payload).unwrap();
    payload["event_id"].as_str().unwrap().to_owned()
}

/// Scenario: the store is stuck, and the program is killed before it comes free.
#[test]
fn a_kill_before_the_commit_leaves_the_envelope_without_an_ack() {
    let mut program = Program::start();
    for round in 0..3 {
        let blocked = program.block();
        let (message, probe) = (envelope(round), Envelope::suggestion());
        // What is not stored is acked at once: that ack shows that both were read.
        assert!(
            program
                .fakes
                .slack
                .push_all(&[message.clone(), probe.clone()])
        );
        wait_until("both are read", || program.is_acked(&probe));
        assert!(!program.is_acked(&message));
        program.kill();
        assert!(!program.is_acked(&message));
        drop(blocked);
        assert_eq!(u64::try_from(program.stored().len()).unwrap(), round);
        program.start_again();
        let again = message.retried(1, "timeout");
        program.fakes.slack.push(&again);
        wait_until("the retry is acked", || program.is_acked(&again));
        assert_eq!(program.stored().last().unwrap(), &event_id(&message));
    }
    program.fakes.assert_never_two();
}

/// Scenario: the program is killed in the middle of a burst, again and again.
#[test]
fn what_was_acked_before_a_kill_is_stored_and_the_rest_comes_again() {
    let mut program = Program::start();
    let mut sent: Vec<Envelope> = Vec::new();
    for round in 0..4 {
        let burst: Vec<Envelope> = (0..300).map(|at| envelope(round * 300 + at)).collect();
        let before = program.fakes.slack.seen().acks.len();
        program.fakes.slack.push_all(&burst);
        sent.extend(burst);
        wait_until("some acks", || {
            program.fakes.slack.seen().acks.len() > before + 20
        });
        program.running.as_ref().unwrap().signal_kill();
        program.kill();
        let stored: BTreeSet<String> = program.stored().into_iter().collect();
        for envelope in sent.iter().filter(|one| program.is_acked(one)) {
            assert!(stored.contains(&event_id(envelope)), "acked and not stored");
        }
        program.start_again();
        // Slack sends what was not acked again, in envelopes of new ids.
        let mut missing: Vec<Envelope> = Vec::new();
        for envelope in &mut sent {
            if !program.is_acked(envelope) {
                *envelope = envelope.retried(1, "timeout");
                missing.push(envelope.clone());
            }
        }
        program.fakes.slack.push_all(&missing);
        wait_until("all are acked", || {
            missing.iter().all(|one| program.is_acked(one))
        });
        let stored = program.stored();
        let ids: BTreeSet<String> = sent.iter().map(event_id).collect();
        assert_eq!(stored.len(), ids.len(), "each once");
        assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), ids);
    }
    program.fakes.assert_never_two();
}
