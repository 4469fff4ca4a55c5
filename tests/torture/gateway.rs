//! The program with its files and a port that stays, so that others find it again.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use the_loop_gateway::domain::Timestamp;
use the_loop_gateway::store::verify;

use crate::mail::{GITHUB_SECRET, ITEMS, JIRA_SECRET, SLACK_SECRET, subjects};
use crate::now_ms;
use crate::program::{Home, Running};
use crate::support::{Call, Reply};

/// The program's files, and the program while it runs.
pub(crate) struct Gateway {
    pub(crate) home: Home,
    pub(crate) port: u16,
    environment: Vec<(String, String)>,
    running: Mutex<Option<Running>>,
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Gateway {
    /// Writes the files of a gateway with all three providers; `more` are further lines.
    pub(crate) fn new(home: Home, more: &str) -> Self {
        let port = free_port();
        let rooms: String = (1..=ITEMS)
            .map(|item| format!("{{channel: C{item}, ref: 'github:octo/repo#{item}'}},"))
            .collect();
        home.write(
            ".the-loop/gateway-config.yaml",
            &format!(
                "version: '1'\n\
                 env: {{file: the-loop.env}}\n\
                 listen: {{port: {port}}}\n\
                 repositories: [octo/repo]\n\
                 github: {{webhook: {{enabled: true}}}}\n\
                 jira: {{site: acme.atlassian.net, projects: [PROJ], webhook: {{enabled: true}}}}\n\
                 slack: {{http: {{enabled: true}}, rooms: [{rooms}]}}\n\
                 {more}\n"
            ),
        );
        home.write(
            ".the-loop/the-loop.env",
            &format!(
                "THE_LOOP_GH_WEBHOOK_SECRET={GITHUB_SECRET}\n\
                 THE_LOOP_JIRA_WEBHOOK_SECRET={JIRA_SECRET}\n\
                 SLACK_SIGNING_SECRET={SLACK_SECRET}\n"
            ),
        );
        Self {
            home,
            port,
            environment: Vec::new(),
            running: Mutex::default(),
        }
    }

    /// Lets the program run in an environment with these variables.
    pub(crate) fn in_environment(mut self, variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.environment = variables.iter().map(owned).collect();
        self
    }

    /// The program's own consumer of the first work item, with a peer of its own, which reaches the
    /// gateway through a port.
    pub(crate) fn consume(&self, port: u16, peer: &str) -> Running {
        let url = format!("http://127.0.0.1:{port}");
        let directory = self.home.path(peer);
        let [subject, _] = subjects(1);
        self.home.start(&[
            "consume",
            "--url",
            &url,
            "--instance",
            "laptop",
            "--claim",
            &format!("{subject}=driver"),
            "--print",
            "--state-dir",
            directory.to_str().unwrap(),
        ])
    }

    /// Starts it, without waiting until it listens.
    pub(crate) fn spawn(&self) {
        let environment: Vec<(&str, &str)> = self
            .environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let running = self.home.start_with(&["run"], &environment);
        *self.running.lock().unwrap() = Some(running);
    }

    /// Starts it and waits until it listens.
    pub(crate) fn start(&self) {
        self.spawn();
        self.wait_for_listener();
    }

    pub(crate) fn wait_for_listener(&self) {
        let running = self.running.lock().unwrap();
        running.as_ref().unwrap().line_with("listening on ");
    }

    /// SIGKILL: nothing of it runs any more when this returns.
    pub(crate) fn kill(&self) {
        drop(self.running.lock().unwrap().take());
    }

    fn signal(&self, signal: Signal) {
        let running = self.running.lock().unwrap();
        let pid = i32::try_from(running.as_ref().unwrap().process()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Takes its time away.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Gives it back.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it in good order.
    pub(crate) fn end(&self) {
        let running = self.running.lock().unwrap().take();
        let ended = running.unwrap().terminate();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }

    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Call {
        Call::new(self.port, method, &format!("/api/v1/gateway{path}")).json(body)
    }

    /// Asks until there is an answer of success.
    pub(crate) fn insist(&self, method: &str, path: &str, body: &Value) -> Reply {
        let mut answer = None;
        crate::wait_for(path, 60, || {
            answer = self.api(method, path, body).try_send();
            answer.as_ref().is_some_and(|reply| reply.status == 200)
        });
        answer.unwrap()
    }

    pub(crate) fn claim(&self, instance: &str, subject: &str) {
        let body = json!({"instance": instance, "peer": format!("peer-of-{instance}"),
                          "subject": subject, "role": "driver"});
        self.insist("PUT", "/claims", &body);
    }

    pub(crate) fn is_ready(&self) -> bool {
        let call = Call::new(self.port, "GET", "/api/v1/gateway/ready");
        call.try_send().is_some_and(|reply| reply.status == 200)
    }

    fn database(&self) -> PathBuf {
        self.home.path(".the-loop/gateway/gateway.db")
    }

    /// Copies the store as a crash left it, and checks the copy: opening the store itself would
    /// repair what the next start shall repair. Only while nothing of it runs.
    pub(crate) fn assert_sound_after_a_crash(&self) {
        let database = self.database();
        if !database.try_exists().unwrap() {
            return;
        }
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(database.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name == "gateway.db" || name == "gateway.db-wal" {
                std::fs::copy(&path, copy.path().join(name)).unwrap();
            }
        }
        let copied = copy.path().join("gateway.db");
        let connection = open(&copied, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let tables = "SELECT count(*) FROM sqlite_schema";
        let count: i64 = connection.query_row(tables, [], |row| row.get(0)).unwrap();
        // A program that was killed at its very first start may not have come this far.
        if count > 0 {
            assert_sound(&connection);
        }
    }

    /// Checks the store, once the program has ended.
    pub(crate) fn assert_sound(&self) {
        assert_sound(&self.look());
    }

    /// The store, seen from outside.
    pub(crate) fn look(&self) -> Connection {
        open(&self.database(), OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.look().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The first column as numbers or texts.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let connection = self.look();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }
}

fn assert_sound(connection: &Connection) {
    let problems = verify(connection, Timestamp(now_ms())).unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
fn open(path: &Path, access: OpenFlags) -> Connection {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).unwrap()
}
